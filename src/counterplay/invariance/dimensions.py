"""The dimensions that decide how much data a learner under transformations needs.

``vcdim`` governs learners that ignore the group, ``vcao`` data augmentation and the look-up,
``vco`` the best learner when a fully invariant hypothesis is right, ``dim`` and ``mu`` every
learner that only sees orbits, ``vco_eta`` the adaptive learner. Each comes with a witness.
Source: Definitions 11.4, 11.5, 11.7 and J.1; docs/theory/11-invariance.md, "Setting".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement
from math import comb, factorial, prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.dimensions import Shattering, vc_dimension
from counterplay.core.finite_class import FiniteClass
from counterplay.core.seeds import RandomState, generator
from counterplay.core.stats import Interval, mean_interval
from counterplay.core.validation import BoolArray, IntArray, check_int, check_real, check_size
from counterplay.errors import InvalidInputError
from counterplay.invariance.classes import HypothesisClass, as_hypotheses, budget
from counterplay.invariance.model import (
    FiniteDistribution,
    FiniteProblem,
    as_problem,
    orbit_ids,
    orbit_labels,
)
from counterplay.invariance.transformations import AbstractOrbits, MapSet, TransformationSet

_MOST_POINTS = 10_000
_MOST_MULTISETS = 10**6


@checked
def vcdim(H: Any, G: Any = None) -> Shattering:
    """VC dimension of the class on its pool, with a shattered set.

    Examples
    --------
    >>> vcdim(FiniteProblem([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0])).value
    2
    """
    problem = H if isinstance(H, FiniteProblem) else as_problem(H, [] if G is None else G)
    return vc_dimension(problem.finite_class)


@checked
@dataclass(frozen=True)
class OrbitShattering(Shattering):
    """A largest set of points in different orbits, or of orbits, that is shattered.

    For VCao the ``points`` are points; for VCo they are orbit numbers as in
    :func:`~counterplay.invariance.lab.orbit_ids`.
    """

    whole_orbits: bool = False

    def verify_orbits(self, cls: FiniteClass, orbits: ArrayLike) -> bool:
        """Check the certificate against the class and the orbit of each point."""
        if self.whole_orbits:
            return self.verify(orbit_labels(cls, orbits))
        ids = orbit_ids(orbits, cls.n_points)[list(self.points)]
        return np.unique(ids).size == self.value and self.verify(cls)

    def summary(self) -> str:
        """One sentence with the dimension and the set."""
        name = "VCo" if self.whole_orbits else "VCao"
        relation = "is" if self.exact else "is at least"
        kind = "orbits" if self.whole_orbits else "points"
        return f"{name} {relation} {self.value}; shattered {kind}: {list(self.points)}"


@checked
def vcao(H: Any, G: Any = None, *, budget: int | None = None) -> OrbitShattering:
    """Largest shattered set with at most one point per orbit.

    For maps without group laws no two points of the set may have intersecting orbits.

    Parameters
    ----------
    H:
        A problem; or a class or matrix, with its orbits in ``G``. Witnesses are rows of what is
        given (of the problem's matrix for a matrix).
    G:
        Orbit of each point, or transformations; None if ``H`` is a problem.
    budget:
        Most sets to visit; the result then has ``exact=False`` if the search was not finished.

    Examples
    --------
    Two orbits of two points and all labelings: VC dimension 4, but only two orbits.

    >>> labelings = FiniteClass.all_labelings(4)
    >>> vcao(labelings, [0, 0, 1, 1]).value, vco(labelings, [0, 0, 1, 1]).value
    (2, 2)
    """
    cls, orbits = _class_and_orbits(H, G)
    if isinstance(orbits, MapSet):
        apart = _intersecting(orbits)
    else:
        ids = orbit_ids(orbits, cls.n_points)
        apart = ids[:, None] == ids[None, :]
    found = vc_dimension(cls, conflicts=apart, budget=budget)
    return OrbitShattering(found.points, found.witnesses, found.exact)


@checked
def vco(H: Any, G: Any = None, *, budget: int | None = None) -> OrbitShattering:
    """Largest set of orbits shattered by hypotheses that are constant on each of them.

    For maps without group laws the witness consists of points instead of orbit numbers. Parameters
    as in :func:`vcao`.

    Examples
    --------
    >>> vco(FiniteProblem([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0])).value
    1
    """
    cls, orbits = _class_and_orbits(H, G)
    if isinstance(orbits, MapSet):
        problem = as_problem(cls, orbits)
        partial = np.where(problem.iota, 2, problem.H)
        found = vc_dimension(partial, conflicts=_intersecting(orbits), budget=budget)
        return OrbitShattering(found.points, found.witnesses, found.exact)
    found = vc_dimension(orbit_labels(cls, orbits), budget=budget)
    return OrbitShattering(found.points, found.witnesses, found.exact, whole_orbits=True)


def _class_and_orbits(H: Any, G: Any) -> tuple[FiniteClass, ArrayLike | MapSet]:
    """The class, as given if it is one, and its orbits or maps."""
    if isinstance(H, FiniteClass) and G is not None:
        return H, G.orbit_id if isinstance(G, AbstractOrbits) else G
    problem = as_problem(H, G)
    return problem.finite_class, problem.orbit


@checked
@dataclass(frozen=True)
class OrbitCube:
    """A largest set of orbits on which every labeling can be natural, with its witness.

    Attributes
    ----------
    orbits:
        The orbits (numbers).
    members:
        One hypothesis for each labeling of them, numbered as binary numbers with the first orbit
        as the most significant digit.
    """

    orbits: tuple[int, ...]
    members: tuple[int, ...]

    @property
    def value(self) -> int:
        """The dimension."""
        return len(self.orbits)

    def verify(self, problem: FiniteProblem) -> bool:
        """Check every edge of the cube: a common natural point with both labels."""
        k = self.value
        for f in range(2**k):
            for position, orbit in enumerate(self.orbits):
                bit = 1 << (k - 1 - position)
                if f & bit:
                    continue
                columns = problem.orbit == orbit
                zero, one = problem.H[self.members[f]], problem.H[self.members[f | bit]]
                if not ((zero == 0) & (one == 1) & columns).any():
                    return False
        return True

    def summary(self) -> str:
        """One sentence."""
        return f"dim is {self.value}; orbits {list(self.orbits)}"


@checked
def dim(H: Any, G: Any = None) -> OrbitCube:
    """VC dimension of orbits generated by the class: half of it bounds mu from below.

    The largest k with k orbits and one hypothesis per labeling of them such that neighbours in
    direction i disagree, the right way round, on some point of orbit i. Solved as a constraint
    problem (arc consistency and backtracking), orbit sets grown level by level.

    Examples
    --------
    Two hypotheses, opposite on both points of each of three orbits: every labeling can be natural.

    >>> dim(FiniteProblem([[0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 1, 0]], [0, 0, 1, 1, 2, 2])).value
    3
    """
    problem = as_problem(H, G)
    if not problem.is_group:
        raise InvalidInputError("dim is defined for groups only")
    splits = [_splits(problem.H[:, problem.orbit == orbit]) for orbit in range(problem.n_orbits)]
    best: tuple[tuple[int, ...], tuple[int, ...]] = ((), (0,))
    level: list[tuple[int, ...]] = [()]
    while level:
        good = set(level)
        found: list[tuple[int, ...]] = []
        for base in level:
            for orbit in range(base[-1] + 1 if base else 0, problem.n_orbits):
                orbits = (*base, orbit)
                if any(part not in good for part in combinations(orbits, len(base))):
                    continue
                members = _solve_cube([splits[o] for o in orbits])
                if members is not None:
                    found.append(orbits)
                    if len(orbits) > len(best[0]):
                        best = (orbits, members)
        level = found
    return OrbitCube(*best)


@checked
def vco_eta(
    H: HypothesisClass | FiniteProblem | ArrayLike,
    G: TransformationSet | ArrayLike | None,
    D: FiniteDistribution,
    m: int,
    eta: float,
    *,
    n_samples: int | None = None,
    random_state: RandomState = None,
) -> float | Interval:
    """Approximate (1 - eta)-invariant VC dimension of m + 1 points.

    The mean VC dimension of H^eta(X) over X ~ D^(m+1), given that the true labels of X are among
    the labelings H^eta(X); 0 if that never happens. It is *not* monotone in eta in general.

    Parameters
    ----------
    H:
        The class, or a problem.
    G:
        The transformations; None if ``H`` is a problem.
    D:
        Distribution; its labels are those of the target.
    m:
        Number of training points.
    eta:
        Allowed share of points with a non-constant orbit.
    n_samples:
        None sums over all multisets (small supports); a number uses that many random samples and
        returns an :class:`~counterplay.core.stats.Interval`.

    Examples
    --------
    >>> D = FiniteDistribution([0, 1], [0, 0], [0.5, 0.5])
    >>> vco_eta([[0, 0], [1, 1]], [0, 0], D, m=1, eta=0.0)
    1.0
    """
    hypotheses, group = as_hypotheses(H, G)
    size = check_int(m, "m", low=0, high=_MOST_POINTS) + 1
    level = check_real(eta, "eta", high=1.0)
    value = _EtaDimension(hypotheses, group, D, level)
    if n_samples is None:
        check_size(comb(len(D) + size - 1, size), _MOST_MULTISETS, "multisets of points")
        total = mass = 0.0
        for picks, chance in _multisets(D.probabilities, size):
            dimension = value(np.array(picks))
            if dimension is not None:
                total, mass = total + chance * dimension, mass + chance
        return total / mass if mass > 0 else 0.0
    rng = generator(random_state)
    found = []
    for _ in range(check_int(n_samples, "n_samples", low=2, high=_MOST_MULTISETS)):
        dimension = value(rng.choice(len(D), size=size, p=D.probabilities))
        if dimension is not None:
            found.append(float(dimension))
    if len(found) < 2:
        return Interval(0.0, 0.0, float(size))
    return mean_interval(found)


@checked
def vco_eta_sup(
    H: HypothesisClass | FiniteProblem | ArrayLike,
    G: TransformationSet | ArrayLike | None,
    D: FiniteDistribution,
    eta: float,
    sizes: Sequence[int] = (0, 1, 2, 3, 4),
) -> tuple[float, int]:
    """Largest exact VCo^eta(m) over a grid of sample sizes m, and the m where it is reached.

    Examples
    --------
    >>> D = FiniteDistribution([0, 1, 2, 3], [0, 0, 0, 0], [0.25] * 4)
    >>> all_labelings = np.array(list(np.ndindex(2, 2, 2, 2)))
    >>> value, m = vco_eta_sup(all_labelings, [0, 1, 2, 3], D, eta=0.0, sizes=(0, 2, 4))
    >>> round(value, 4), m
    (3.0508, 4)
    """
    values = {int(m): vco_eta(H, G, D, int(m), eta) for m in sizes}
    best = max(values, key=lambda m: (float(values[m]), -m))  # type: ignore[arg-type]  # exact: floats
    return float(values[best]), best  # type: ignore[arg-type]  # exact: floats


class _EtaDimension:
    """VC dimension of H^eta(X) for samples X of a distribution, remembered per multiset."""

    def __init__(
        self,
        hypotheses: HypothesisClass,
        group: TransformationSet,
        D: FiniteDistribution,
        eta: float,
    ) -> None:
        self.hypotheses, self.group, self.D, self.eta = hypotheses, group, D, eta
        self.memo: dict[tuple[int, ...], int | None] = {}

    def __call__(self, picks: IntArray) -> int | None:
        key = tuple(np.sort(picks).tolist())
        if key not in self.memo:
            self.memo[key] = self._compute(*np.unique(picks, return_counts=True))
        return self.memo[key]

    def _compute(self, support: IntArray, mult: IntArray) -> int | None:
        points = self.D.points[support]
        V, c = self.hypotheses.labelings(points, mult, self.group)
        V = V[c <= budget(self.eta, int(mult.sum()))]
        ids = self.group.components(points)[0]
        truth = np.zeros(V.shape[1], dtype=np.uint8)
        truth[ids] = self.D.labels[support]
        if len(V) == 0 or not (truth == V).all(axis=1).any():
            return None
        return vc_dimension(V).value


def _multisets(
    probabilities: NDArray[np.float64], size: int
) -> Iterator[tuple[tuple[int, ...], float]]:
    for picks in combinations_with_replacement(range(len(probabilities)), size):
        counts = np.bincount(picks, minlength=len(probabilities))
        ways = factorial(size) // prod(factorial(int(n)) for n in counts)
        yield picks, ways * float(np.prod(probabilities**counts))


def _intersecting(maps: MapSet) -> BoolArray:
    n_points = maps.table.shape[0]
    member = np.zeros((n_points, n_points), dtype=np.float64)
    np.put_along_axis(member, maps.apply(np.arange(n_points)).T, 1.0, axis=1)
    meet: BoolArray = (member @ member.T) > 0
    return meet


def _splits(labels: NDArray[np.uint8]) -> BoolArray:
    """Whether h is 0 and h' is 1 on a common point of the orbit, for all pairs (h, h')."""
    zero, one = (labels == 0).astype(np.float64), (labels == 1).astype(np.float64)
    result: BoolArray = (zero @ one.T) > 0
    return result


def _solve_cube(splits: Sequence[BoolArray]) -> tuple[int, ...] | None:
    """One hypothesis per labeling such that all edges of the cube are split, or None."""
    k, n = len(splits), splits[0].shape[0]
    forward = [[_mask(row) for row in split] for split in splits]
    backward = [[_mask(row) for row in split.T] for split in splits]
    domains = []
    for f in range(2**k):
        mask = (1 << n) - 1
        for i in range(k):
            table = backward[i] if f >> (k - 1 - i) & 1 else forward[i]
            mask &= sum(1 << h for h in range(n) if table[h])
        domains.append(mask)
    solved = _search(domains, forward, backward, k)
    return None if solved is None else tuple(d.bit_length() - 1 for d in solved)


def _search(
    domains: list[int], forward: list[list[int]], backward: list[list[int]], k: int
) -> list[int] | None:
    if not _propagate(domains, forward, backward, k, range(len(domains))):
        return None
    open_cells = [f for f, d in enumerate(domains) if d & (d - 1)]
    if not open_cells:
        return domains
    cell = min(open_cells, key=lambda f: domains[f].bit_count())
    rest = domains[cell]
    while rest:
        bit = rest & -rest
        rest ^= bit
        trial = domains.copy()
        trial[cell] = bit
        solved = _search(trial, forward, backward, k)
        if solved is not None:
            return solved
    return None


def _propagate(
    domains: list[int],
    forward: list[list[int]],
    backward: list[list[int]],
    k: int,
    start: Sequence[int],
) -> bool:
    queue = list(start)
    waiting = set(queue)
    while queue:
        f = queue.pop()
        waiting.discard(f)
        if domains[f] == 0:
            return False
        for i in range(k):
            bit = 1 << (k - 1 - i)
            g = f ^ bit
            table = backward[i] if f & bit else forward[i]
            allowed = 0
            rest = domains[f]
            while rest:
                low = rest & -rest
                allowed |= table[low.bit_length() - 1]
                rest ^= low
            reduced = domains[g] & allowed
            if reduced != domains[g]:
                domains[g] = reduced
                if reduced == 0:
                    return False
                if g not in waiting:
                    queue.append(g)
                    waiting.add(g)
    return True


def _mask(row: BoolArray) -> int:
    return sum(1 << int(j) for j in np.flatnonzero(row))
