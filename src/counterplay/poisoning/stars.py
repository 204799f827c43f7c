"""Star number, hollow star number and projection number, each with its set as certificate.

Star: a hypothesis and points such that for each point some hypothesis differs from it there and
nowhere else among the points. Hollow star: a labelled set that no hypothesis realises although
each labelling with one label flipped is realised, in other words a smallest contradiction that is
as large as possible. Both families are closed under dropping points (hollow: until realisable), so
a depth-first search with counters "rows that err at exactly one chosen point" is exact.
Source: Proposition 10.F, see docs/theory/10-poisoning.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.bits import pack_rows, unique_rows
from counterplay.core.finite_class import FiniteClass
from counterplay.core.programs import minimize_linear
from counterplay.core.validation import BoolArray, IntArray, check_positive_int
from counterplay.errors import InvalidInputError
from counterplay.poisoning.star_search import search_hollow, search_star, search_star_bitsets

_BITSET_STAR = 64  # larger stars are searched with counters instead of bit sets


@dataclass(frozen=True)
class StarSet:
    """A largest star: ``witnesses[i]`` differs from ``center`` exactly at ``points[i]``.

    "Exactly" is meant within the points of the star. ``exact`` is False if the search was cut off.
    """

    center: int
    points: tuple[int, ...]
    witnesses: tuple[int, ...]
    exact: bool = True

    @property
    def value(self) -> int:
        """The star number."""
        return len(self.points)

    def __int__(self) -> int:
        return self.value

    def verify(self, cls: FiniteClass) -> bool:
        """Check against the class that this is a star."""
        rows = cls.labels[:, list(self.points)]
        differ = rows[list(self.witnesses)] ^ rows[self.center]
        distinct = len(set(self.points)) == self.value
        return distinct and bool((differ == np.eye(self.value)).all())

    def summary(self) -> str:
        """One sentence with the number and the set."""
        relation = "is" if self.exact else "is at least"
        return f"star number {relation} {self.value}; center {self.center}, points {self.points}"


@dataclass(frozen=True)
class HollowStar:
    """A largest minimal unrealizable labelled set.

    ``witnesses[i]`` gives all the labels except the one of ``points[i]``. The value is 0 if every
    labelling of the points is realised. ``exact`` is False if the search was cut off.
    """

    points: tuple[int, ...]
    labels: tuple[int, ...]
    witnesses: tuple[int, ...]
    exact: bool = True

    @property
    def value(self) -> int:
        """The hollow star number k_o."""
        return len(self.points)

    def __int__(self) -> int:
        return self.value

    def verify(self, cls: FiniteClass) -> bool:
        """Check that the labels are unrealizable and all one-flip neighbours realizable."""
        if self.value == 0:
            return bool(len(cls.deduplicated().unique) == 2**cls.n_points)
        if len(set(self.points)) != self.value:
            return False
        wrong = cls.labels[:, list(self.points)] ^ np.array(self.labels, dtype=np.bool_)
        if not wrong.any(axis=1).all():
            return False
        return bool((wrong[list(self.witnesses)] == np.eye(self.value)).all())

    def summary(self) -> str:
        """One sentence with the number and the set."""
        relation = "is" if self.exact else "is at least"
        pairs = list(zip(self.points, self.labels))
        return f"hollow star number {relation} {self.value}; labelled set {pairs}"


@dataclass(frozen=True)
class ProjectionNumber:
    """The projection number, with the hollow star it comes from: k_p = max(2, k_o)."""

    hollow_star: HollowStar

    @property
    def value(self) -> int:
        """The projection number k_p."""
        return max(2, self.hollow_star.value)

    @property
    def exact(self) -> bool:
        """Whether the search was finished."""
        return self.hollow_star.exact

    def __int__(self) -> int:
        return self.value

    def verify(self, cls: FiniteClass) -> bool:
        """Check the hollow star, and by a linear program that k_p - 1 blocks do not suffice."""
        star = self.hollow_star
        if not star.verify(cls):
            return False
        if star.value <= 2:
            return True
        return abs(projection_value(cls, star.points, star.labels) - 1 / self.value) < 1e-7

    def summary(self) -> str:
        """One sentence with the number."""
        return f"projection number is {self.value}; {self.hollow_star.summary()}"


def star_number(cls: FiniteClass, *, budget: int | None = None) -> StarSet:
    """Find the star number and a largest star.

    A finite star number bounds the region of disagreement of all consistent hypotheses, whatever
    clean examples are added. The search is exponential only in the number of stars.

    Examples
    --------
    >>> star_number(FiniteClass.thresholds(range(50))).value
    2
    >>> star_number(FiniteClass.singletons(50, include_empty=True)).value
    50

    References
    ----------
    Hanneke and Yang (2015), "Minimax analysis of active learning".
    """
    labels, first = _distinct(cls)
    by_point = labels.T.copy()
    ones, zeros = pack_rows(by_point), pack_rows(~by_point)
    limit = min(by_point.shape[0], by_point.shape[1] - 1)
    cut = min(limit, _BITSET_STAR)
    center, chosen, done = search_star_bitsets(ones, zeros, by_point, cut, _budget(budget))
    if done and chosen.size == cut < limit:
        center, chosen, done = search_star(by_point, _budget(budget))
    points = np.sort(chosen)
    differ = labels[:, points] ^ labels[center][points]
    alone = differ & (differ.sum(axis=1) == 1)[:, None]
    witnesses = first[alone.argmax(axis=0)] if points.size else first[:0]
    return StarSet(int(first[center]), _ints(points), _ints(witnesses), bool(done))


def hollow_star_number(cls: FiniteClass, *, budget: int | None = None) -> HollowStar:
    """Find the hollow star number k_o and a largest minimal unrealizable labelled set.

    No consistent proper learner is robust to clean-label attacks on classes with large k_o.

    Examples
    --------
    >>> hollow_star_number(FiniteClass.singletons(12)).value  # all zeros on 12 points
    12
    >>> hollow_star_number(FiniteClass.thresholds(range(12))).value
    2

    References
    ----------
    Bousquet, Hanneke, Moran and Zhivotovskiy (2020), "Proper learning, Helly number, and an
    optimal SVM bound".
    """
    labels, first = _distinct(cls)
    chosen, done = search_hollow(labels.T.copy(), _budget(budget))
    order = np.argsort(chosen)
    points, values = chosen[order] // 2, chosen[order] % 2
    wrong = labels[:, points] ^ values.astype(np.bool_)
    alone = wrong & (wrong.sum(axis=1) == 1)[:, None]
    witnesses = first[alone.argmax(axis=0)] if points.size else first[:0]
    return HollowStar(_ints(points), _ints(values), _ints(witnesses), bool(done))


def projection_number(cls: FiniteClass, *, budget: int | None = None) -> ProjectionNumber:
    """Find the projection number k_p = max(2, k_o) of a finite class.

    Whenever fewer than 1/k_p of some voters err at each point of a set, some hypothesis agrees
    with the majority on that whole set. The identity with the hollow star number is linear
    programming duality (Proposition 10.F).

    Examples
    --------
    >>> projection_number(FiniteClass.thresholds(range(9))).value
    2
    """
    return ProjectionNumber(hollow_star_number(cls, budget=budget))


def projection_value(cls: FiniteClass, points: ArrayLike, labels: ArrayLike) -> float:
    """Smallest largest error of a mixture of members on a labelled set (a linear program).

    It is 1/k on a minimal unrealizable set of k points.
    """
    index = np.atleast_1d(np.asarray(points, dtype=np.int64))
    wrong = cls.labels[:, index] ^ np.atleast_1d(np.asarray(labels)).astype(np.bool_)
    if index.size == 0:
        raise InvalidInputError("points must not be empty")
    n = len(cls)
    return minimize_linear(
        np.append(np.zeros(n), 1.0),
        A_ub=np.column_stack([wrong.T.astype(np.float64), -np.ones(index.size)]),
        b_ub=np.zeros(index.size),
        A_eq=np.append(np.ones(n), 0.0)[None, :],
        b_eq=[1.0],
        what="the program of the projection value",
    ).value


def _distinct(cls: FiniteClass) -> tuple[BoolArray, IntArray]:
    first = unique_rows(pack_rows(cls.labels))[0]
    return cls.labels[first], first


def _budget(budget: int | None) -> int:
    return 0 if budget is None else check_positive_int(budget, "budget")


def _ints(values: IntArray) -> tuple[int, ...]:
    return tuple(int(value) for value in values)
