"""OrderedERM: the first consistent hypothesis of a fixed order, with its exact attackable region.

A point x can be flipped iff some consistent h errs at x and every consistent g before h errs
somewhere where h does not: one clean row there removes g and spares h. The smallest poison for h is
a minimum hitting set. Source: docs/theory/10-poisoning.md, "Proposition 10.E: ordered ERM".
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.bits import pack_rows, unpack_rows
from counterplay.core.finite_class import FiniteClass
from counterplay.core.programs import minimize_integer
from counterplay.core.validation import BoolArray, IntArray, check_labels01
from counterplay.errors import InvalidInputError, NotRealizableError
from counterplay.poisoning.model import BatchLearner, LabelledSet, Labels, Target, check_positions


def as_class(H: FiniteClass | ArrayLike) -> FiniteClass:
    """Return a class with distinct rows."""
    cls = H if isinstance(H, FiniteClass) else FiniteClass.from_matrix(H)
    return cls.deduplicated().unique


@checked
class OrderedERM(BatchLearner):
    """Return the first hypothesis, in a fixed order, that is consistent with the data.

    Use it for any finite list of rules with a preference order, or as the exact model of a
    deterministic proper learner.

    Parameters
    ----------
    H:
        The class (equal rows are merged), or a 0/1 matrix with one row per hypothesis.
    order:
        Order of preference of the (distinct) members; default: as listed.

    Examples
    --------
    Singletons on six points, target the last one: every unseen earlier point can be flipped (and
    then the last one is wrong, too).

    >>> learner = OrderedERM(FiniteClass.singletons(6))
    >>> learner.attackable_region([0, 0, 0, 0, 0, 1], [1, 3]).astype(int)
    array([1, 0, 1, 0, 1, 1])
    """

    def __init__(self, H: FiniteClass | ArrayLike, order: ArrayLike | None = None) -> None:
        self.H = as_class(H)
        n = len(self.H)
        self.order: IntArray = (
            np.arange(n) if order is None else np.asarray(order, dtype=np.int64).copy()
        )
        if sorted(self.order.tolist()) != list(range(n)):
            raise InvalidInputError(f"order must be a permutation of 0..{n - 1}")

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Find the first consistent member."""
        S = LabelledSet(check_positions(X, self.H.n_points), y)
        alive = self.order[self.H.consistent(S.X, S.y)[self.order]]
        if alive.size == 0:
            raise NotRealizableError("no hypothesis of the class agrees with all rows")
        self.member_ = int(alive[0])
        self.labels_: Labels = self.H.labels[self.member_].astype(np.uint8)
        return self

    def predict(self, X: ArrayLike) -> Labels:
        """Labels of positions in the domain."""
        labels: Labels = self.labels_[check_positions(X, self.H.n_points)]
        return labels

    def attackable_region(self, h_star: ArrayLike, S_idx: ArrayLike) -> BoolArray:
        """Exact region of points that unlimited clean poison can flip."""
        errors, _ = self._errors(h_star, S_idx)
        return unpack_rows(_winnable_union(errors), self.H.n_points)

    def smallest_poison(
        self, h_star: ArrayLike, S_idx: ArrayLike, x0: int, *, exact: bool = True
    ) -> IntArray | None:
        """Positions of a smallest clean poison that flips ``x0``; None if there is none.

        ``exact`` solves the hitting sets with HiGHS; otherwise they are greedy upper bounds.
        """
        errors, _ = self._errors(h_star, S_idx)
        wrong = unpack_rows(errors, self.H.n_points)
        best: IntArray | None = None
        for h in np.flatnonzero(wrong[:, x0]):
            must_hit = wrong[:h] & ~wrong[h]
            if not must_hit.any(axis=1).all():
                continue
            hit = _hitting_set(must_hit, exact=exact)
            if best is None or hit.size < best.size:
                best = hit
        return best

    def certified(
        self, h_star: Target, S: LabelledSet, X: ArrayLike, budget: int | None = None
    ) -> BoolArray:
        """Points no clean poison can flip (exact for unlimited budgets)."""
        target = np.asarray(h_star(np.arange(self.H.n_points)))
        region = self.attackable_region(target, S.X)
        safe: BoolArray = ~region[np.asarray(X, dtype=np.int64).reshape(-1)]
        return safe

    def _errors(self, h_star: ArrayLike, S_idx: ArrayLike) -> tuple[Any, IntArray]:
        target = _target_row(h_star, self.H.n_points)
        seen = check_positions(S_idx, self.H.n_points, "S_idx")
        alive = self.order[self.H.consistent(seen, target[seen])[self.order]]
        if alive.size == 0:
            raise NotRealizableError("no hypothesis of the class agrees with all rows")
        return self.H.packed[alive] ^ pack_rows(target.astype(np.bool_)), alive


def _target_row(h_star: ArrayLike, n: int) -> BoolArray:
    """Label of each of ``n`` points by the target."""
    row = check_labels01(h_star, "h_star")
    if row.shape != (n,):
        raise InvalidInputError(f"h_star must have one label for each of {n} points")
    return row.astype(np.bool_)


def _winnable_union(errors: Any) -> Any:
    """Union of the error sets E_h with no earlier E_g inside; one pass over packed rows."""
    union = np.zeros(errors.shape[1], dtype=np.uint64)
    minimal = np.empty_like(errors)  # earlier sets, without those that contain another one
    count = 0
    for row in errors:
        before = minimal[:count]
        if count and not (before & ~row).any(axis=1).all():
            continue  # some earlier set lies inside this one: h can never be reached
        union |= row
        minimal[count] = row
        count += 1
    return union


def _hitting_set(sets: BoolArray, *, exact: bool) -> IntArray:
    """Smallest set of columns that meets every row."""
    if sets.shape[0] == 0:
        return np.zeros(0, dtype=np.int64)
    if exact:
        solution = minimize_integer(
            np.ones(sets.shape[1]), rows=sets.astype(np.float64), low=1, what="the hitting set"
        )
        return np.flatnonzero(np.round(solution.point) > 0).astype(np.int64)
    chosen, left = [], sets
    while left.shape[0]:
        column = int(left.sum(axis=0).argmax())
        chosen.append(column)
        left = left[~left[:, column]]
    return np.array(sorted(chosen), dtype=np.int64)


@checked
def worst_case_region(H: FiniteClass | ArrayLike, h_star: ArrayLike, S_idx: ArrayLike) -> BoolArray:
    """Points at which some consistent hypothesis errs: the region of the worst ERM.

    It is the region of disagreement of the version space if the target is in the class.

    Examples
    --------
    >>> worst_case_region(FiniteClass.thresholds(range(5)), [0, 0, 1, 1, 1], [0, 4]).astype(int)
    array([0, 1, 1, 1, 0])
    """
    cls = as_class(H)
    target = _target_row(h_star, cls.n_points)
    seen = check_positions(S_idx, cls.n_points, "S_idx")
    alive = cls.consistent(seen, target[seen])
    return np.asarray((cls.labels[alive] ^ target).any(axis=0), dtype=np.bool_)
