"""Hard instances and worked examples: where augmentation helps, is not enough, or hurts.

Each generator returns the problem, the data distribution and the target, with the dimensions that
theory gives. Random parts (which points carry the mass) follow ``random_state``.
Source: docs/theory/11-invariance.md, "Dimensions of the constructions".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product
from math import comb, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.halfspaces import halfspaces_2d
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    IntArray,
    check_fraction,
    check_int,
    check_real,
    check_size,
)
from counterplay.errors import InvalidInputError
from counterplay.invariance.classes import HypothesisClass
from counterplay.invariance.implicit_classes import AllLabelings, BalancedSubsets, BlockConstants
from counterplay.invariance.model import FiniteDistribution, FiniteProblem
from counterplay.invariance.transformations import AbstractOrbits, MapSet

_LARGEST_MATRIX = 60_000
_MOST_POINTS = 10**6

__all__ = [
    "Instance", "agnostic_lower_bound", "background_birds", "circle_rotations", "da_helps",
    "da_lower_bound", "eta_family", "example_regimes", "example_vco0", "halfspaces_c4",
    "indicator_blowup", "nongroup_funnel", "nonmonotone_eta", "rotated_images", "supplement",
]  # fmt: skip


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class Instance:
    """A class with orbits, a data distribution on it, and what theory says about them.

    Attributes
    ----------
    name:
        Which construction.
    problem:
        The finite problem; for large parameters the implicit class instead.
    group:
        The transformations of the pool.
    distribution:
        Natural data.
    target:
        True label of every pool point.
    facts:
        Pairs (quantity, value) that theory gives.

    Examples
    --------
    >>> from counterplay.invariance.instances import example_vco0
    >>> dict(example_vco0(2).facts)["VCao"]
    2
    """

    name: str
    problem: FiniteProblem | HypothesisClass
    group: AbstractOrbits | MapSet
    distribution: FiniteDistribution
    target: NDArray[np.int8]
    facts: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        self.target.setflags(write=False)

    def __repr__(self) -> str:
        return f"Instance({self.name}, {self.problem!r})"


@checked
def example_regimes() -> tuple[Instance, Instance, Instance]:
    """One distribution and three one-hypothesis classes: invariant, relaxed, agnostic.

    The pool is -2, -1, 1, 2 with the sign flip; the data are 1 and 2, both labelled 0.

    Examples
    --------
    >>> from counterplay.invariance.model import classify_regime
    >>> [classify_regime(i.problem, None, i.distribution).name for i in example_regimes()]
    ['invariant', 'relaxed', 'agnostic']
    """
    orbits = np.array([2, 1, 1, 2])
    data, target = _uniform(np.array([2, 3])), np.zeros(4, dtype=np.int8)

    def case(name: str, row: list[int]) -> Instance:
        problem = FiniteProblem(np.array([row]), orbits)
        return _instance(f"example_regimes[{name}]", problem, data, target)

    return (
        case("zero", [0, 0, 0, 0]), case("negative", [1, 1, 0, 0]), case("positive", [0, 0, 1, 1])
    )  # fmt: skip


@checked
def example_vco0(d: int) -> Instance:
    """Subsets of size d of 2d positive points with the sign flip: VCao = d but VCo = 0.

    Pool 1..2d, -1..-2d; hypotheses are 1 on a d-subset of the positive points, 0 elsewhere.

    Examples
    --------
    >>> example_vco0(3).problem
    FiniteProblem(20 hypotheses, 12 points, 6 orbits)
    """
    n = check_int(d, "d", low=1)
    subsets = _subsets(2 * n, n)
    rows = np.hstack([subsets, np.zeros_like(subsets)])
    orbit = np.tile(np.arange(2 * n), 2)
    target = np.zeros(4 * n, dtype=np.int8)
    target[:n] = 1
    problem, data = FiniteProblem(rows, orbit), _uniform(np.arange(n, 2 * n))
    return _instance(f"example_vco0(d={n})", problem, data, target, VCdim=n, VCao=n, VCo=0)


@checked
def da_lower_bound(d: int, eps: float, random_state: RandomState = None) -> Instance:
    """Augmentation helps, but is not optimal: VCao = d, VCo = 0.

    Pool 0, 1..2d, -1..-2d with the sign flip; h_u is 0 on 1..2d without u and 1 elsewhere, |u| = d.
    The data have mass 1 - 16 eps at 0 and 16 eps / d at each point of a random u*; all labels
    are 1. Every proper consistent learner has the exact error curve
    :func:`~counterplay.invariance.bounds.proper_error`.

    Examples
    --------
    >>> da_lower_bound(4, 1 / 64, random_state=0).problem
    FiniteProblem(70 hypotheses, 17 points, 9 orbits)
    """
    n = check_int(d, "d", low=1, high=_MOST_POINTS)
    e = check_real(eps, "eps", low=0.0, high=1 / 16, open_low=True)
    chosen = np.sort(generator(random_state).choice(2 * n, size=n, replace=False)) + 1
    points = np.concatenate([[0], chosen])
    masses = np.concatenate([[1 - 16 * e], np.full(n, 16 * e / n)])
    keep = masses > 0
    data = FiniteDistribution(points[keep], np.ones(keep.sum(), dtype=np.int8), masses[keep])
    problem = _balanced_problem(n)
    target = np.ones(4 * n + 1, dtype=np.int8)
    target[1 : 2 * n + 1] = 0
    target[chosen] = 1
    return _instance(f"da_lower_bound(d={n}, eps={e:g})", problem, data, target, VCao=n, VCo=0)


@checked
def eta_family(
    d: int, eta: float, inside: float = 0.4, random_state: RandomState = None
) -> Instance:
    """The class of ``da_lower_bound`` with mass eta on points of non-constant orbits.

    Mass ``inside`` is spread on u* (label 1), mass eta on the other positive points (label 0), the
    rest is at 0: the right hypothesis has invariance level exactly eta. Regime (ii) for eta > 0.

    Examples
    --------
    >>> case = eta_family(3, 0.2, random_state=0)
    >>> round(float(case.distribution.probabilities.sum()), 6), len(case.distribution)
    (1.0, 7)
    """
    n = check_int(d, "d", low=1)
    share = check_fraction(eta, "eta")
    mass = check_real(inside, "inside", low=0.0, high=1.0 - share)
    chosen = np.sort(generator(random_state).choice(2 * n, size=n, replace=False)) + 1
    others = np.setdiff1d(np.arange(1, 2 * n + 1), chosen)
    points = np.concatenate([[0], chosen, others])
    labels = np.concatenate([np.ones(n + 1), np.zeros(n)]).astype(np.int8)
    masses = np.concatenate([[1 - share - mass], np.full(n, mass / n), np.full(n, share / n)])
    keep = masses > 1e-15
    masses = masses[keep] / masses[keep].sum()
    data = FiniteDistribution(points[keep], labels[keep], masses)
    target = np.ones(4 * n + 1, dtype=np.int8)
    target[others] = 0
    name = f"eta_family(d={n}, eta={share:g})"
    return _instance(name, _balanced_problem(n), data, target, VCao=n, VCo=0, eta=share)


@checked
def da_helps(d: int, eps: float, random_state: RandomState = None, n_extra: int = 0) -> Instance:
    """Knowing the group helps: all labelings of d points, but only three orbits.

    A* is a random subset of the first d - 1 points; the group permutes inside A* and inside its
    complement. Mass 1 - 16 eps is on the last point (label 0). VCao = VCo = 3 (2 if A* is empty or
    full), while a learner that ignores the group has error
    :func:`~counterplay.invariance.bounds.blind_error`. ``n_extra`` more points without mass form
    two more orbits (label 1 and label 0), so that VCao is at most 5 in a domain of any size.

    Examples
    --------
    >>> da_helps(21, 1 / 64, random_state=0).group.n_orbits
    3
    """
    n = check_int(d, "d", low=2, high=_MOST_POINTS)
    e = check_real(eps, "eps", low=0.0, high=1 / 16, open_low=True)
    inside = generator(random_state).integers(2, size=n - 1)
    extra = np.arange(check_int(n_extra, "n_extra", low=0, high=_MOST_POINTS)) % 2
    target = np.concatenate([inside, [0], extra]).astype(np.int8)
    masses = np.append(np.full(n - 1, 16 * e / (n - 1)), 1 - 16 * e)
    keep = np.flatnonzero(masses > 0)
    data = FiniteDistribution(keep, target[keep], masses[keep])
    group = AbstractOrbits(np.concatenate([inside, [2], 3 + extra]))
    size = n + extra.size
    facts = (("VCdim", size), ("VCao", group.n_orbits), ("VCo", group.n_orbits))
    return Instance(f"da_helps(d={n}, eps={e:g})", AllLabelings(size), group, data, target, facts)


@checked
def background_birds(K: int, random_state: RandomState = None) -> Instance:
    """Augmentation hurts: two hypotheses, K birds, and backgrounds that can be swapped.

    Pool: bird i on background + is 2i, on background - is 2i + 1. One hypothesis says "background
    +", the other "background -". Natural data: one point per bird, chosen so that one of the
    hypotheses is right. ERM needs one sample; augmentation never learns.

    Examples
    --------
    >>> dict(background_birds(3, random_state=0).facts)["mu"]
    1.5
    """
    n = check_int(K, "K", low=1, high=10_000)
    rng = generator(random_state)
    labels = rng.integers(2, size=n).astype(np.int8)
    plus_is_one = bool(rng.integers(2))
    on_plus = labels == int(plus_is_one)
    points = 2 * np.arange(n) + np.where(on_plus, 0, 1)
    return _instance(
        f"background_birds(K={n})", _birds_problem(n), _uniform(points, labels),
        np.repeat(labels, 2), VCdim=1, VCao=1, VCo=0, dim=n, mu=n / 2,
    )  # fmt: skip


@lru_cache(maxsize=16)
def _birds_problem(n: int) -> FiniteProblem:
    rows = np.vstack([np.tile([1, 0], n), np.tile([0, 1], n)]).astype(np.uint8)
    return FiniteProblem(rows, np.repeat(np.arange(n), 2))


@checked
def rotated_images(n: int, k: int, constrained: bool = False) -> Instance:
    """k orbits of n rotated images and all labelings, or those with opposite half turns.

    All labelings: VCdim = n k, VCao = VCo = k. Constrained (image 0 and image n/2 of every orbit
    differ): VCdim = (n - 1) k, VCao = k, VCo = 0.

    Examples
    --------
    >>> dict(rotated_images(4, 2, constrained=True).facts)
    {'VCdim': 6, 'VCao': 2, 'VCo': 0}
    """
    size, orbits = check_int(n, "n", low=2), check_int(k, "k", low=1)
    check_size(size * orbits, 16, "points, all labelings of which are listed,")
    if constrained and size % 2:
        raise InvalidInputError("n must be even for the constrained class")
    rows = np.array(list(product((0, 1), repeat=size * orbits)), dtype=np.uint8)
    if constrained:
        shaped = rows.reshape(-1, orbits, size)
        rows = rows[(shaped[:, :, 0] != shaped[:, :, size // 2]).all(axis=1)]
    return _instance(
        f"rotated_images(n={size}, k={orbits}, constrained={constrained})",
        FiniteProblem(rows, np.repeat(np.arange(orbits), size)),
        _uniform(np.arange(orbits) * size), np.zeros(size * orbits, dtype=np.int8),
        VCdim=(size - constrained) * orbits, VCao=orbits, VCo=0 if constrained else orbits,
    )  # fmt: skip


@checked
def circle_rotations() -> tuple[tuple[str, float], ...]:
    """All labelings of the circle with all rotations, an analytic example: facts only.

    One orbit, so VCao = VCo = 1, although the VC dimension is infinite.

    Examples
    --------
    >>> dict(circle_rotations())
    {'VCdim': inf, 'VCao': 1, 'VCo': 1}
    """
    return (("VCdim", inf), ("VCao", 1), ("VCo", 1))


@checked
def supplement(problem: FiniteProblem) -> FiniteProblem:
    """Add hypotheses that are non-constant on every orbit of two or more points.

    Singleton orbits copy the first hypothesis. VCo stays, VCao becomes at least the number of
    orbits with two or more points.

    Examples
    --------
    >>> supplement(FiniteProblem([[0, 0, 0]], [0, 0, 1]))
    FiniteProblem(3 hypotheses, 3 points, 2 orbits)
    """
    parts: list[list[NDArray[Any]]] = []
    total = 1
    for orbit in range(problem.n_orbits):
        columns = np.flatnonzero(problem.orbit == orbit)
        if columns.size == 1:
            parts.append([problem.H[0, columns]])
            continue
        every = [np.array(row, dtype=np.uint8) for row in product((0, 1), repeat=columns.size)]
        parts.append(every[1:-1])
        total *= len(every) - 2
    if total > _LARGEST_MATRIX:
        raise InvalidInputError(f"the supplement has {total:,} hypotheses; use smaller orbits")
    extra = np.zeros((total, problem.n_points), dtype=np.uint8)
    for row, choice in zip(extra, product(*parts)):
        for orbit, labels in enumerate(choice):
            row[problem.orbit == orbit] = labels
    return FiniteProblem(np.vstack([problem.H, extra]), problem.orbit)


@checked
def agnostic_lower_bound(
    d: int, gamma: float, M: int, random_state: RandomState = None
) -> Instance:
    """d blocks of M points, labels drawn once with a hidden bias gamma per block.

    All orbits are single points, hypotheses are constant on blocks. ERM's mean excess error for
    large M is :func:`~counterplay.invariance.bounds.agnostic_excess`.

    Examples
    --------
    >>> agnostic_lower_bound(4, 0.1, 50, random_state=0).distribution.points.size
    200
    """
    blocks, size = check_int(d, "d", low=1), check_int(M, "M", low=1)
    check_size(blocks * size, _MOST_POINTS, "points")
    bias = check_real(gamma, "gamma", low=0.0, high=0.5)
    rng = generator(random_state)
    signs = rng.choice([-1, 1], size=blocks)
    chance = np.repeat(0.5 + signs * bias, size)
    target = (rng.random(blocks * size) < chance).astype(np.int8)
    points: IntArray = np.arange(blocks * size)
    return Instance(
        f"agnostic_lower_bound(d={blocks}, gamma={bias:g}, M={size})", BlockConstants(blocks, size),
        AbstractOrbits(points), _uniform(points, target), target,
        (("VCdim", blocks), ("VCao", blocks)),
    )  # fmt: skip


@checked
def indicator_blowup(d: int) -> Instance:
    """VC dimension 1, but the sets of non-constant points have VC dimension d.

    Pool {0,1}^d x [d], h_b is b_i at (b, i) and 0 elsewhere; orbits {0,1}^d x {i}.

    Examples
    --------
    >>> dict(indicator_blowup(2).facts)["VCdim(iota)"]
    2
    """
    n = check_int(d, "d", low=1, high=6)
    codes = np.array(list(product((0, 1), repeat=n)), dtype=np.uint8)
    rows = np.zeros((2**n, 2**n, n), dtype=np.uint8)
    rows[np.arange(2**n), np.arange(2**n)] = codes
    orbit = np.tile(np.arange(n), 2**n)
    pool = 2**n * n
    return _instance(
        f"indicator_blowup(d={n})", FiniteProblem(rows.reshape(2**n, pool), orbit),
        _uniform(np.arange(n)), np.zeros(pool, dtype=np.int8),
        **{"VCdim": 1, "VCdim(iota)": n, "VCao": 1, "VCo": 0},
    )  # fmt: skip


@checked
def halfspaces_c4(K: int, reflection: bool = False, random_state: RandomState = 0) -> Instance:
    """Halfspaces in the plane with quarter turns (or one reflection), on K generic orbits.

    VCdim = VCao = 3; VCo = 1 for quarter turns, 2 for the reflection of one coordinate.

    Examples
    --------
    >>> halfspaces_c4(3).problem.n_orbits
    3
    """
    orbits = check_int(K, "K", low=1)
    base = generator(random_state).normal(size=(orbits, 2))
    if reflection:
        images = [base, base * [-1.0, 1.0]]
    else:
        turn = np.array([[0.0, -1.0], [1.0, 0.0]])
        images = [base @ np.linalg.matrix_power(turn, g).T for g in range(4)]
    pool = np.concatenate(images)
    rows = halfspaces_2d(pool)
    problem = FiniteProblem(rows.astype(np.uint8), np.tile(np.arange(orbits), len(images)))
    return _instance(
        f"halfspaces_{'reflection' if reflection else 'c4'}(K={orbits})", problem,
        _uniform(np.arange(orbits)), np.zeros(len(pool), dtype=np.int8),
        VCdim=3, VCao=3, VCo=2 if reflection else 1,
    )  # fmt: skip


@checked
def nonmonotone_eta(k: int, p: float) -> Instance:
    """VCo^eta is not monotone in eta: sup of VCo^0 tends to k, sup of VCo^1 is small.

    Orbit {a, a', a''} (pool 0, 1, 2) and k pairs {b_i, b_i'}. The target is 1 only at a''; the
    others are 1 at a' and give the pairs any labels. Mass (1 - p)/2 at a and a', p/k at each b_i.

    Examples
    --------
    >>> from counterplay.invariance.dimensions import vco_eta
    >>> case = nonmonotone_eta(3, 0.01)
    >>> round(vco_eta(case.problem, None, case.distribution, m=1, eta=0.0), 3)
    1.667
    """
    pairs = check_int(k, "k", low=1, high=10)
    share = check_real(p, "p", low=0.0, high=1.0, open_low=True, open_high=True)
    target = np.concatenate([[0, 0, 1], np.zeros(2 * pairs)]).astype(np.int8)
    rows = [target]
    for labels in product((0, 1), repeat=pairs):
        rows.append(np.concatenate([[0, 1, 0], np.repeat(labels, 2)]).astype(np.int8))
    orbit = np.concatenate([[0, 0, 0], np.repeat(np.arange(1, pairs + 1), 2)])
    points = np.concatenate([[0, 1], 3 + 2 * np.arange(pairs)])
    masses = np.concatenate([[(1 - share) / 2] * 2, np.full(pairs, share / pairs)])
    data = FiniteDistribution(points, target[points], masses)
    problem = FiniteProblem(np.array(rows), orbit)
    return _instance(f"nonmonotone_eta(k={pairs}, p={share:g})", problem, data, target)


@checked
def nongroup_funnel(n: int) -> Instance:
    """n points that one map sends to a common point: not a group, all labelings, VCao = 1.

    Points 0..n-1 are mapped to point n. Their orbits intersect, so they must share a label.

    Examples
    --------
    >>> nongroup_funnel(4).group
    MapSet(5 points, 2 maps)
    """
    size = check_int(n, "n", low=1, high=14)
    table = np.column_stack([np.arange(size + 1), np.full(size + 1, size)])
    rows = np.array(list(product((0, 1), repeat=size + 1)), dtype=np.uint8)
    data = _uniform(np.arange(size), np.ones(size, dtype=np.int8))
    problem, target = FiniteProblem(rows, MapSet(table)), np.ones(size + 1, dtype=np.int8)
    return _instance(f"nongroup_funnel(n={size})", problem, data, target, VCao=1)


def _subsets(n: int, k: int) -> NDArray[np.uint8]:
    if comb(n, k) > _LARGEST_MATRIX:
        raise InvalidInputError(f"there are {comb(n, k):,} subsets of size {k}; use a smaller d")
    rows = np.zeros((comb(n, k), n), dtype=np.uint8)
    for row, members in zip(rows, combinations(range(n), k)):
        row[list(members)] = 1
    return rows


@lru_cache(maxsize=16)
def _balanced_problem(d: int) -> FiniteProblem | HypothesisClass:
    if comb(2 * d, d) > _LARGEST_MATRIX:
        return BalancedSubsets(d)
    subsets = _subsets(2 * d, d)
    ones = np.ones((len(subsets), 1), dtype=np.uint8)
    rows = np.hstack([ones, subsets, np.ones_like(subsets)])
    orbit = np.concatenate([[0], np.arange(1, 2 * d + 1), np.arange(1, 2 * d + 1)])
    return FiniteProblem(rows, orbit)


def _instance(
    name: str,
    problem: FiniteProblem | HypothesisClass,
    data: FiniteDistribution,
    target: NDArray[np.int8],
    **facts: float,
) -> Instance:
    """An instance with the group of its problem."""
    group = problem.group  # type: ignore[union-attr]  # problems and BalancedSubsets have it
    return Instance(name, problem, group, data, target, tuple(facts.items()))


def _uniform(points: IntArray, labels: NDArray[np.int8] | None = None) -> FiniteDistribution:
    """Equal mass on every point; all labels 0 unless given."""
    zeros = np.zeros(points.size, dtype=np.int8)
    return FiniteDistribution(
        points, zeros if labels is None else labels, np.full(points.size, 1 / points.size)
    )
