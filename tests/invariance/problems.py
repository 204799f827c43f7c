"""Random finite problems, slow literal versions of the definitions, and loops written by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from brute_dimensions import brute_vc
from counterplay.invariance.lab import FiniteProblem


def random_problem(rng, *, max_rows=10, max_orbits=4, max_size=3) -> FiniteProblem:
    sizes = rng.integers(1, max_size + 1, size=rng.integers(1, max_orbits + 1))
    orbit = np.repeat(np.arange(sizes.size), sizes)
    rows = rng.integers(0, 2, size=(rng.integers(1, max_rows + 1), orbit.size))
    constant = rng.random(len(rows)) < 0.3  # some hypotheses that are constant on all orbits
    rows[constant] = rng.integers(0, 2, size=(len(rows), sizes.size))[constant][:, orbit]
    return FiniteProblem(rows, orbit)


def brute_vcao(problem: FiniteProblem) -> int:
    return brute_vc(problem.H, lambda points: len(set(problem.orbit[list(points)])) == len(points))


def brute_vco(problem: FiniteProblem) -> int:
    def label(row: np.ndarray, orbit: int) -> int:
        values = set(row[problem.orbit == orbit].tolist())
        return values.pop() if len(values) == 1 else 2

    return brute_vc(np.array([[label(h, o) for o in range(problem.n_orbits)] for h in problem.H]))


def natural_pairs(problem: FiniteProblem, phi: list[int]):
    """All (labeling, natural sequence) pairs of a multiset of orbits, from the definition."""
    pairs = set()
    members = [np.flatnonzero(problem.orbit == o) for o in phi]
    for sequence in product(*members):
        for row in problem.H:
            labels = tuple(int(row[x]) for x in sequence)
            table: dict[int, int] = {}
            if all(table.setdefault(o, f) == f for o, f in zip(phi, labels)):
                pairs.add((labels, tuple(int(x) for x in sequence)))
    return sorted(pairs)


def naive_mu(problem: FiniteProblem, phi: list[int]) -> float:
    """The linear program over all of B, without any shortcut."""
    from scipy.optimize import linprog

    pairs = natural_pairs(problem, phi)
    vertices = {(f, x[i]) for f, x in pairs for i in range(len(phi))}
    edges: dict[tuple[tuple[int, ...], int, int], int] = {}
    for f, z in vertices:
        for j, orbit in enumerate(phi):
            if phi.count(orbit) > 1 or problem.orbit[z] != orbit or f[j] == 1:
                continue
            if ((*f[:j], 1, *f[j + 1 :]), z) in vertices:
                edges.setdefault((f, j, z), len(edges))
    if not edges:
        return 0.0
    rows, rhs = [], []
    for f, x in pairs:
        row, constant = np.zeros(len(edges) + 1), 0.0
        row[-1] = -1.0
        for j, z in enumerate(x):
            zero = (*f[:j], 0, *f[j + 1 :])
            if (zero, j, z) in edges:
                row[edges[zero, j, z]] += 1.0 if f[j] == 0 else -1.0
                constant += f[j]
        rows.append(row)
        rhs.append(-constant)
    bounds = [(0, 1)] * len(edges) + [(0, None)]
    cost = np.append(np.zeros(len(edges)), 1.0)
    return float(linprog(cost, A_ub=np.array(rows), b_ub=rhs, bounds=bounds).fun)


def all_turns(X: np.ndarray) -> list[np.ndarray]:
    """8 x 8 images turned by 0, 90, 180 and 270 degrees."""
    return [np.rot90(X.reshape(-1, 8, 8), k, (1, 2)).reshape(-1, 64) for k in range(4)]


def extreme_turn(X: np.ndarray, pick) -> np.ndarray:
    """Canonical form: the lexicographically smallest or largest of the four turns."""
    return np.array([pick(images, key=tuple) for images in zip(*all_turns(X))])


BASES = {
    "logistic": LogisticRegression(max_iter=300),
    "scaled logistic": make_pipeline(StandardScaler(), LogisticRegression()),
    "tree": DecisionTreeClassifier(random_state=0),
    "support vectors": SVC(C=10.0, random_state=0),
    "nearest": KNeighborsClassifier(1),
}


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """240 upright digits, some of them symmetric, their labels, and 300 turned ones."""
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    X[:20] = (X[:20] + X[:20, ::-1]) / 2  # half turns do not change these
    turns = np.random.default_rng(0).integers(4, size=300)
    test = [np.rot90(x.reshape(8, 8), k).ravel() for x, k in zip(X[240:540], turns)]
    return X[:240], y[:240], np.array(test)
