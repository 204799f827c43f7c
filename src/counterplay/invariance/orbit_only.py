"""The best learner that only sees labelled orbits, and the number mu that says how good it can be.

Data augmentation forgets which copy of a point was natural. Any such learner is a random
orientation of a graph whose vertices are (labeling of the orbits, natural point); the best one is
a linear program. For a fixed hypothesis the natural points can be chosen orbit by orbit, which
keeps the program small. Source: Definition 11.6, Theorem 11.5; docs/theory/11-invariance.md,
"Proposition 11.E: the compact program".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from counterplay.core.arguments import checked
from counterplay.core.programs import minimize_linear
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, IntArray, check_int
from counterplay.errors import InvalidInputError
from counterplay.invariance.model import FiniteProblem, Learner, as_problem

Labeling = tuple[int, ...]
Edge = tuple[Labeling, int, int]  # labeling with 0 at the orbit, position of the orbit, point


@checked
@dataclass(frozen=True)
class MuResult(Report):
    """Value of the orbit game on a multiset of orbits, with both players' strategies.

    Attributes
    ----------
    value:
        mu(H, G, phi): expected leave-one-out mistakes of the best orbit-only learner.
    orbits:
        The different orbits of the multiset phi.
    multiplicities:
        How often each occurs (2 stands for "2 or more").
    weights:
        The learner: for each edge (labeling with 0, position, point) the probability of the
        direction towards the 0-labelled end, which is the probability to predict 1.
    worst_case:
        The adversary: pairs (labeling, hypothesis) with their probability.
    """

    value: float
    orbits: tuple[int, ...]
    multiplicities: tuple[int, ...]
    weights: dict[Edge, float]
    vertices: frozenset[tuple[Labeling, int]]
    worst_case: tuple[tuple[Labeling, int, float], ...]

    def summary(self) -> str:
        """One sentence."""
        return (
            f"mu = {self.value:.4g} on orbits {list(self.orbits)} with multiplicities "
            f"{list(self.multiplicities)}; the worst case mixes {len(self.worst_case)} pairs"
        )

    def to_frame(self) -> pd.DataFrame:
        """The worst-case distribution over (labeling, hypothesis)."""
        return pd.DataFrame(
            [
                {"labeling": "".join(map(str, f)), "hypothesis": h, "probability": p}
                for f, h, p in self.worst_case
            ],
            columns=["labeling", "hypothesis", "probability"],
        )


@checked
def mu_of(
    H: Any, G: Any, orbits: Sequence[int], multiplicities: Sequence[int] | None = None
) -> MuResult:
    """Solve the orbit game for one multiset of orbits.

    Parameters
    ----------
    H:
        The class, or a FiniteProblem.
    G:
        The orbits; None if ``H`` is a problem.
    orbits:
        Different orbit numbers.
    multiplicities:
        How often each occurs; default once.

    Examples
    --------
    >>> birds = FiniteProblem([[0, 1, 0, 1], [1, 0, 1, 0]], [0, 0, 1, 1])
    >>> mu_of(birds, None, [0, 1]).value, mu_of(birds, None, [0, 1], [1, 2]).value
    (1.0, 0.5)
    """
    problem = as_problem(H, G)
    if not problem.is_group:
        raise InvalidInputError("mu is defined for groups only")
    chosen = [check_int(o, "orbits", low=0, high=problem.n_orbits - 1) for o in orbits]
    times = [1] * len(chosen) if multiplicities is None else [int(m) for m in multiplicities]
    if len(set(chosen)) != len(chosen) or len(times) != len(chosen) or min(times, default=1) < 1:
        raise InvalidInputError("orbits must be different and have multiplicities of at least 1")
    order = np.argsort(chosen)
    ids = tuple(chosen[i] for i in order)
    counts = tuple(min(times[i], 2) for i in order)
    return _Program(problem, ids, counts).solve()


@checked
def mu(H: Any, G: Any = None, t: int | None = None) -> MuResult:
    """Largest value of the orbit game: over all multisets (``t=None``), or over those of size t.

    Multiplicities above 2 act like 2, so 3^K multisets of K orbits are tried at most.

    Examples
    --------
    >>> birds = FiniteProblem([[0, 1, 0, 1], [1, 0, 1, 0]], [0, 0, 1, 1])
    >>> mu(birds).value, mu(birds, t=3).value
    (1.0, 0.5)
    """
    problem = as_problem(H, G)
    best: MuResult | None = None
    for orbits, times in _multisets(problem.n_orbits, t):
        if best is not None and sum(m == 1 for m in times) / 2 <= best.value + 1e-12:
            continue
        result = mu_of(problem, None, orbits, times)
        if best is None or result.value > best.value + 1e-12:
            best = result
    if best is None:
        best = MuResult(0.0, (), (), {}, frozenset(), ())
    return best


@checked
class OrbitOnlyOptimal(Learner):
    """The optimal learner among those that only see labelled orbits (the family of augmentation).

    Use it to see the best that augmented data can give; ``predict_proba`` is exact, ``predict``
    draws from it.

    Parameters
    ----------
    problem:
        A finite problem with a group.
    group:
        Orbits, when ``problem`` is a matrix.
    random_state:
        Seed of the random predictions.

    Notes
    -----
    Expected error at most mu(H, G, n + 1) / (n + 1) after n samples (Theorem 11.5). The program
    depends on the multiset of orbits only and is solved once per multiset.

    Examples
    --------
    Two birds on two backgrounds: after one orbit is seen, the other is a coin toss on average over
    what may be true (one half of mu(H, G, 2) = 1).

    >>> birds = FiniteProblem([[0, 1, 0, 1], [1, 0, 1, 0]], [0, 0, 1, 1])
    >>> learner = OrbitOnlyOptimal(birds, random_state=0).fit([0], [0])
    >>> learner.predict_proba([1])[0], mu(birds, t=2).value
    (array([1., 0.]), 1.0)
    """

    def __init__(self, problem: Any, group: Any = None, random_state: RandomState = None) -> None:
        self.problem = as_problem(problem, group)
        self.group = self.problem.group
        self.random_state = random_state
        self._programs: dict[tuple[tuple[int, int], ...], MuResult] = {}

    def fit(self, X: ArrayLike, y: ArrayLike) -> OrbitOnlyOptimal:
        """Remember the labelled orbits."""
        points, labels = self._check_sample(X, y)
        ids: IntArray = np.asarray(self.problem.orbit)[points]
        orbits, counts = np.unique(ids, return_counts=True)
        self.orbits_ = tuple(int(o) for o in orbits)
        self.counts_ = tuple(min(int(c), 2) for c in counts)
        table = dict(zip(ids.tolist(), labels.tolist()))
        self.labels_ = tuple(int(table[o]) for o in self.orbits_)
        self._rng = generator(self.random_state)
        return self

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Probability of labels 0 and 1 at every point."""
        points = self._check_fitted(X, "orbits_")
        ones = np.array([self._probability(int(x)) for x in points], dtype=np.float64)
        return np.column_stack([1.0 - ones, ones])

    def predict(self, X: ArrayLike) -> NDArray[np.int8]:
        """Labels drawn from the optimal probabilities."""
        ones = self.predict_proba(X)[:, 1]
        return (self._rng.random(ones.size) < ones).astype(np.int8)

    def _probability(self, x: int) -> float:
        orbit = int(np.asarray(self.problem.orbit)[x])
        if orbit in self.orbits_:
            return float(self.labels_[self.orbits_.index(orbit)])
        phi = tuple(sorted([*zip(self.orbits_, self.counts_), (orbit, 1)]))
        if phi not in self._programs:
            self._programs[phi] = mu_of(self.problem, None, *zip(*phi))
        program = self._programs[phi]
        position = [o for o, _ in phi].index(orbit)
        known = list(self.labels_)
        zero = (*known[:position], 0, *known[position:])
        one = (*known[:position], 1, *known[position:])
        has_zero, has_one = (zero, x) in program.vertices, (one, x) in program.vertices
        if has_zero and has_one:
            return program.weights[zero, position, x]
        return float(has_one)


class _Program:
    """The linear program of one multiset of orbits."""

    def __init__(
        self, problem: FiniteProblem, orbits: tuple[int, ...], times: tuple[int, ...]
    ) -> None:
        self.H = problem.H
        self.orbits, self.times = orbits, times
        self.points = [np.flatnonzero(problem.orbit == o) for o in orbits]
        labels = [self.H[:, p] for p in self.points]
        self.has = [[(part == b).any(axis=1) for part in labels] for b in (0, 1)]

    def solve(self) -> MuResult:
        """Build and solve it; HiGHS with a fixed setting and rows in canonical order."""
        able = self._able()
        vertices = self._vertices(able)
        edges = self._edges(vertices)
        rows = self._cluster_rows(able, edges)
        value, weights, duals = _solve_rows(rows, len(edges))
        worst = tuple((f, h, float(p)) for (f, h, _), p in zip(rows, duals) if p > 1e-9)
        names = {edge: float(weights[i]) for edge, i in edges.items()}
        return MuResult(value, self.orbits, self.times, names, frozenset(vertices), worst)

    def _able(self) -> dict[Labeling, NDArray[np.int64]]:
        """Hypotheses that can produce each labeling of the orbits."""
        able = {}
        for f in product((0, 1), repeat=len(self.orbits)):
            mask = np.ones(len(self.H), dtype=np.bool_)
            for i, label in enumerate(f):
                mask &= self.has[label][i]
            if mask.any():
                able[f] = np.flatnonzero(mask)
        return able

    def _vertices(self, able: dict[Labeling, NDArray[np.int64]]) -> set[tuple[Labeling, int]]:
        vertices = set()
        for f, members in able.items():
            for i, label in enumerate(f):
                hit = (self.H[np.ix_(members, self.points[i])] == label).any(axis=0)
                vertices |= {(f, int(z)) for z in self.points[i][hit]}
        return vertices

    def _edges(self, vertices: set[tuple[Labeling, int]]) -> dict[Edge, int]:
        edges: dict[Edge, int] = {}
        for j, times in enumerate(self.times):
            if times > 1:
                continue
            for z in self.points[j].tolist():
                for f, point in vertices:
                    if point == z and f[j] == 0 and ((*f[:j], 1, *f[j + 1 :]), z) in vertices:
                        edges[f, j, z] = 0
        for index, edge in enumerate(sorted(edges)):
            edges[edge] = index
        return edges

    def _cluster_rows(
        self, able: dict[Labeling, NDArray[np.int64]], edges: dict[Edge, int]
    ) -> list[tuple[Labeling, int, list[list[tuple[int, int]]]]]:
        """Per (labeling, hypothesis): for every orbit the alternatives (edge, side)."""
        rows = []
        for f in sorted(able):
            seen = set()
            for h in able[f].tolist():
                terms = []
                for j, label in enumerate(f):
                    zero = f if label == 0 else (*f[:j], 0, *f[j + 1 :])
                    natural = self.points[j][self.H[h, self.points[j]] == label]
                    options = [edges.get((zero, j, z)) for z in natural.tolist()]
                    hits = sorted((e, label) for e in options if e is not None)
                    if hits:
                        terms.append(hits)
                signature = tuple(tuple(term) for term in terms)
                if terms and signature not in seen:
                    seen.add(signature)
                    rows.append((f, h, terms))
        return rows


def _solve_rows(
    rows: list[tuple[Labeling, int, list[list[tuple[int, int]]]]], n_edges: int
) -> tuple[float, FloatArray, FloatArray]:
    """Minimise the largest cluster: variables w (edges), auxiliaries u, and the value v."""
    if not rows:
        return 0.0, np.zeros(n_edges), np.zeros(0)
    n_aux = sum(len(term) > 1 for _, _, terms in rows for term in terms)
    v = n_edges + n_aux
    data: list[tuple[int, int, float]] = []
    rhs: list[float] = [0.0] * len(rows)
    aux = n_edges
    for r, (_, _, terms) in enumerate(rows):
        data.append((r, v, -1.0))
        for term in terms:
            if len(term) == 1:
                edge, side = term[0]
                data.append((r, edge, 1.0 - 2.0 * side))  # w on the 0 side, 1 - w on the 1 side
                rhs[r] -= side
                continue
            data.append((r, aux, 1.0))
            for edge, side in term:
                data.append((len(rhs), edge, 1.0 - 2.0 * side))
                data.append((len(rhs), aux, -1.0))
                rhs.append(-float(side))
            aux += 1
    i, j, values = zip(*data)
    matrix = sparse.coo_array((values, (i, j)), shape=(len(rhs), v + 1)).tocsr()
    upper = np.concatenate([np.ones(v), [np.inf]])
    solution = minimize_linear(
        np.append(np.zeros(v), 1.0), A_ub=matrix, b_ub=rhs,
        bounds=np.column_stack([np.zeros(v + 1), upper]), what="the orbit game",
    )  # fmt: skip
    duals = np.abs(np.asarray(solution.upper_duals)[: len(rows)])
    return float(solution.point[v]), np.clip(solution.point[:n_edges], 0.0, 1.0), duals


def _multisets(n_orbits: int, t: int | None) -> Iterable[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Sets U (once) and R (repeated), those with many once-occurring orbits first."""
    everything = range(n_orbits)
    size = n_orbits if t is None else check_int(t, "t", low=1)
    for n_once in range(min(size, n_orbits), -1, -1):
        for once in combinations(everything, n_once):
            rest = [o for o in everything if o not in once]
            for n_twice in range(len(rest) + 1):
                if t is not None and not _fits(n_once, n_twice, t):
                    continue
                for twice in combinations(rest, n_twice):
                    orbits = tuple(sorted(once + twice))
                    yield orbits, tuple(2 if o in twice else 1 for o in orbits)


def _fits(n_once: int, n_twice: int, t: int) -> bool:
    return n_once == t if n_twice == 0 else n_once + 2 * n_twice <= t
