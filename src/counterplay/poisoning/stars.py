"""Star number, hollow star number and projection number, each with its set as certificate.

Star: a hypothesis and points such that for each point some hypothesis differs from it there and
nowhere else among the points. Hollow star: a labelled set that no hypothesis realises although
each labelling with one label flipped is realised, in other words a smallest contradiction that is
as large as possible. Both families are closed under dropping points (hollow: until realisable), so
depth-first searches are exact: for stars the one of :mod:`counterplay.core.dimensions`, for hollow
stars one that counts the rows that err at exactly one chosen point.
Source: Proposition 10.F, see docs/theory/10-poisoning.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.bits import pack_rows, unique_rows
from counterplay.core.dimensions.shatter_search import search_bitsets, search_lists
from counterplay.core.finite_class import FiniteClass
from counterplay.core.programs import minimize_linear
from counterplay.core.validation import BoolArray, IntArray, check_labels01, check_positive_int
from counterplay.errors import InvalidInputError
from counterplay.poisoning.model import check_positions

_BITSET_STAR = 64  # larger stars are searched with lists of rows instead of bit sets


@checked
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


@checked
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


@checked
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


@checked
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
    limit = min(labels.shape[1], labels.shape[0] - 1)
    cut = min(limit, _BITSET_STAR)
    center, points, witnesses, done = _search_star(labels, cut, _budget(budget), bits=True)
    if done and points.size == cut < limit:
        center, points, witnesses, done = _search_star(labels, limit, _budget(budget), bits=False)
    order = np.argsort(points)
    return StarSet(int(first[center]), _ints(points[order]), _ints(first[witnesses[order]]), done)


@checked
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
    chosen, done = _search_hollow(labels.T.copy(), _budget(budget))
    order = np.argsort(chosen)
    points, values = chosen[order] // 2, chosen[order] % 2
    wrong = labels[:, points] ^ values.astype(np.bool_)
    alone = wrong & (wrong.sum(axis=1) == 1)[:, None]
    witnesses = first[alone.argmax(axis=0)] if points.size else first[:0]
    return HollowStar(_ints(points), _ints(values), _ints(witnesses), bool(done))


@checked
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


@checked
def projection_value(cls: FiniteClass, points: ArrayLike, labels: ArrayLike) -> float:
    """Smallest largest error of a mixture of members on a labelled set (a linear program).

    It is 1/k on a minimal unrealizable set of k points.
    """
    index = check_positions(points, cls.n_points, "points")
    if index.size == 0:
        raise InvalidInputError("points must not be empty")
    row = np.atleast_1d(check_labels01(labels, "labels")).astype(np.bool_)
    if row.shape != index.shape:
        raise InvalidInputError(f"labels must have one entry per point ({index.size})")
    wrong = cls.labels[:, index] ^ row
    n = len(cls)
    return minimize_linear(
        np.append(np.zeros(n), 1.0),
        A_ub=np.column_stack([wrong.T.astype(np.float64), -np.ones(index.size)]),
        b_ub=np.zeros(index.size),
        A_eq=np.append(np.ones(n), 0.0)[None, :],
        b_eq=[1.0],
        what="the program of the projection value",
    ).value


def _search_star(
    labels: BoolArray, limit: int, budget: int, *, bits: bool
) -> tuple[int, IntArray, IntArray, bool]:
    """Center, points and witnesses of a largest star, and whether the search was finished."""
    apart = np.zeros((0, 0), dtype=np.bool_)
    best, points = 0, np.zeros(0, dtype=np.int64)
    witnesses, left = points, budget
    for center in range(len(labels)):
        if points.size >= limit:
            break
        if budget and not left:
            return best, points, witnesses, False
        # Where rows differ from this center, points with few such rows first.
        differ = (labels ^ labels[center]).T
        sizes = differ.sum(axis=1)
        order = np.argsort(sizes, kind="stable")[np.count_nonzero(sizes == 0) :]
        columns = np.ascontiguousarray(differ[order])
        if bits:
            found, rows, steps, done = search_bitsets(
                pack_rows(columns), pack_rows(~columns), apart, limit, left, True, points.size
            )
        else:
            found, rows, steps, done = search_lists(
                columns.view(np.uint8), apart, limit, left, True, points.size
            )
        if found.size:
            best, points, witnesses = center, order[found], rows[1:]
        if not done:
            return best, points, witnesses, False
        left -= steps if budget else 0
    return best, points, witnesses, True


@njit(cache=True)
def _search_hollow(columns, budget):  # type: ignore[no-untyped-def]  # compiled by numba
    """Return (elements, finished) of a largest minimal unrealizable set; element 2x+y = (x, y).

    A set is unrealizable when every row errs somewhere: a cover of the rows, and minimal when every
    element has a row that errs there alone. Minimal covers are listed by branching on a row that
    is not covered yet; an element tried before is banned in the later branches.
    """
    n_points, n_rows = columns.shape
    columns = columns.astype(np.int64)
    hits = np.zeros(n_rows, dtype=np.int64)
    owner = np.zeros(n_rows, dtype=np.int64)
    alone = np.zeros(2 * n_points, dtype=np.int64)
    lost = np.zeros(2 * n_points, dtype=np.int64)
    touched = np.zeros(2 * n_points + 1, dtype=np.int64)
    used = np.zeros(n_points, dtype=np.bool_)
    banned = np.zeros(2 * n_points, dtype=np.bool_)
    ones = np.zeros(n_points, dtype=np.int64)
    for x in range(n_points):
        ones[x] = columns[x].sum()
    depth = n_points + 1
    cand = np.zeros((depth, n_points), dtype=np.int64)
    count = np.zeros(depth, dtype=np.int64)
    pointer = np.zeros(depth, dtype=np.int64)
    chosen = np.zeros(depth, dtype=np.int64)
    best = np.zeros(0, dtype=np.int64)
    limit = min(n_points, n_rows)
    steps = 0
    k = 0
    fresh_node = True
    while best.size < limit:
        if fresh_node:
            fresh_node = False
            count[k] = 0
            pointer[k] = 0
            # All rows err somewhere: the set is unrealizable. Otherwise branch on the hardest row.
            uncovered = np.sum(hits == 0)
            if uncovered == 0:
                if k > best.size:
                    best = chosen[:k].copy()
            elif k + min(uncovered, n_points - np.sum(used)) > best.size:
                row, _ = _branch_row(columns, hits, used, banned)
                errors = np.zeros(n_points, dtype=np.int64)
                for x in range(n_points):
                    element = 2 * x + (1 - columns[x, row])
                    if not used[x] and not banned[element]:
                        cand[k, count[k]] = element
                        errors[count[k]] = ones[x] if element % 2 == 0 else n_rows - ones[x]
                        count[k] += 1
                order = np.argsort(errors[: count[k]])
                cand[k, : count[k]] = cand[k, : count[k]][order]
        # All branches of this node are done: lift its bans, go back, ban what led here.
        if pointer[k] >= count[k]:
            for index in range(count[k]):
                banned[cand[k, index]] = False
            if k == 0:
                break
            k -= 1
            element = chosen[k]
            x = element // 2
            used[x] = False
            _change(columns[x], 1 - element % 2, element, hits, owner, alone, -1)
            banned[element] = True
            continue
        element = cand[k, pointer[k]]
        pointer[k] += 1
        if budget > 0 and steps >= budget:
            return best, False
        steps += 1
        x = element // 2
        if not _fits(columns[x], 1 - element % 2, hits, owner, alone, lost, touched):
            banned[element] = True
            continue
        chosen[k] = element
        used[x] = True
        _change(columns[x], 1 - element % 2, element, hits, owner, alone, 1)
        k += 1
        fresh_node = True
    return best, True


@njit(cache=True)
def _change(column, wrong_label, element, hits, owner, alone, sign):  # type: ignore[no-untyped-def]  # compiled by numba
    """Add (sign 1) or remove (sign -1) an element; rows whose label is ``wrong_label`` err."""
    for row in range(column.size):
        if column[row] != wrong_label:
            continue
        # The row erred at one element alone: that element loses it (or gets it back below).
        if hits[row] == 1:
            alone[owner[row]] -= 1
        hits[row] += sign
        owner[row] ^= element
        if hits[row] == 1:
            alone[owner[row]] += 1


@njit(cache=True)
def _fits(column, wrong_label, hits, owner, alone, lost, touched):  # type: ignore[no-untyped-def]  # compiled by numba
    """Whether the element can be added: each chosen one keeps a row that errs there alone."""
    fresh = False
    count = 0
    fine = True
    for row in range(column.size):
        if column[row] != wrong_label:
            continue
        if hits[row] == 0:
            fresh = True
        elif hits[row] == 1:
            name = owner[row]
            if lost[name] == 0:
                touched[count] = name
                count += 1
            lost[name] += 1
            if lost[name] == alone[name]:
                fine = False
                break
    # Leave the counters as they were for the next question.
    for index in range(count):
        lost[touched[index]] = 0
    return fresh and fine


@njit(cache=True)
def _branch_row(columns, hits, used, banned):  # type: ignore[no-untyped-def]  # compiled by numba
    """The row consistent with all chosen labels that has the fewest ways to become wrong."""
    n_points, n_rows = columns.shape
    best_row = -1
    best_count = n_points + 1
    for row in range(n_rows):
        if hits[row] > 0:
            continue
        count = 0
        for x in range(n_points):
            if not used[x] and not banned[2 * x + (1 - columns[x, row])]:
                count += 1
                if count >= best_count:
                    break
        if count < best_count:
            best_row = row
            best_count = count
    return best_row, best_count


def _distinct(cls: FiniteClass) -> tuple[BoolArray, IntArray]:
    first = unique_rows(pack_rows(cls.labels))[0]
    return cls.labels[first], first


def _budget(budget: int | None) -> int:
    return 0 if budget is None else check_positive_int(budget, "budget")


def _ints(values: IntArray) -> tuple[int, ...]:
    return tuple(int(value) for value in values)
