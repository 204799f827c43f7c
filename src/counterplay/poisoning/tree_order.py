"""TreeOrderLearner: classes of VC dimension 1 are learnable under clean-label attack.

With a reference f in the class, "every hypothesis that flips x' also flips x" orders the points
like a tree, and the flipped points of any hypothesis form a chain. Flip what the data force, only:
clean data can only bring the answer closer to the target. Source: Algorithm I.1;
docs/theory/10-poisoning.md, "Theorem 10.11 and Proposition 10.B: VC dimension 1".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.dimensions import vc_dimension
from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import BoolArray, check_int, check_labels01
from counterplay.errors import InvalidInputError, NotRealizableError
from counterplay.poisoning.model import BatchLearner, LabelledSet, Labels, Target, check_positions
from counterplay.poisoning.ordered_erm import as_class

Order = Callable[[Any, Any], Any]


@checked
class TreeOrderLearner(BatchLearner):
    """Robust learner for classes of VC dimension 1; improper in general.

    Parameters
    ----------
    H:
        The class, or a 0/1 matrix. Its VC dimension must be at most 1.
    f:
        The reference: index of a member (after merging equal rows) or a label row in the class.

    Notes
    -----
    Guaranteed: the attackable region is the error region, for every target in the class, and
    ``ln(1/delta)/eps`` rows suffice for attackable rate eps (see
    :func:`counterplay.poisoning.bounds.tree_order_sample_size`).

    Examples
    --------
    Singletons on 11 points. A proper learner loses up to 60 % of the points; here at most one:

    >>> learner = TreeOrderLearner(FiniteClass.singletons(11), f=0).fit([3, 4], [0, 0])
    >>> int((learner.predict(np.arange(11)) != np.eye(11)[10]).sum())  # target: the last point
    2
    """

    def __init__(self, H: FiniteClass | ArrayLike, f: int | ArrayLike = 0) -> None:
        self.H = as_class(H)
        if vc_dimension(self.H).value > 1:
            raise InvalidInputError(
                "TreeOrderLearner needs a class of VC dimension at most 1; "
                f"points {vc_dimension(self.H).points} are shattered"
            )
        self.f = self._reference(f)
        flips = self.H.labels ^ self.f.astype(np.bool_)
        wide = flips.astype(np.float32)
        violations = wide.T @ (1 - wide)  # [x', x]: members that flip x' but not x
        self.leq_: BoolArray = np.ascontiguousarray((violations == 0).T)

    def _reference(self, f: int | ArrayLike) -> Labels:
        if np.ndim(f) == 0:
            index = check_int(f.item() if isinstance(f, np.ndarray) else f, "f")
            if not 0 <= index < len(self.H):
                raise InvalidInputError(f"f must be a member 0..{len(self.H) - 1}, got {index}")
            return np.asarray(self.H.labels[index], dtype=np.uint8)
        row = check_labels01(f, "f").astype(np.uint8)
        if self.H.index_of(row) is None:
            raise InvalidInputError("f must be a member of the class")
        return row

    @staticmethod
    def from_callable(leq: Order, f: Target) -> CallableTreeOrderLearner:
        """Return the learner for an infinite domain, from the order and the reference.

        ``leq(X, x)`` says for each row of X whether it is below x; ``f(X)`` labels rows.
        """
        return CallableTreeOrderLearner(leq, f)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Find the largest point the data force to be flipped."""
        S = LabelledSet(check_positions(X, self.H.n_points), y)
        flipped = np.unique(S.X[S.y != self.f[S.X]])
        self.top_: int | None = None
        below = np.zeros(len(self.f), dtype=np.bool_)
        if flipped.size:
            order = self.leq_[np.ix_(flipped, flipped)]
            above_all = np.flatnonzero(order.all(axis=0))
            if above_all.size == 0 or not (order | order.T).all():
                raise NotRealizableError(
                    "two flipped points are not comparable: no member flips both and agrees"
                )
            self.top_ = int(flipped[above_all[0]])
            below = self.leq_[:, self.top_]
            if not (self.H.labels[:, self.top_] != self.f[self.top_]).any():
                raise NotRealizableError(f"no member differs from f at point {self.top_}")
            kept = S.X[S.y == self.f[S.X]]
            if below[kept].any():
                raise NotRealizableError(
                    f"point {int(kept[below[kept]][0])} must be flipped together with {self.top_}"
                )
        self.flipped_: BoolArray = below
        self.labels_: Labels = np.where(below, 1 - self.f, self.f).astype(np.uint8)
        return self

    def predict(self, X: ArrayLike) -> Labels:
        """Labels of positions in the domain."""
        labels: Labels = self.labels_[check_positions(X, self.H.n_points)]
        return labels

    def certified(
        self, h_star: Target, S: LabelledSet, X: ArrayLike, budget: int | None = None
    ) -> BoolArray:
        """Points no clean poison can flip: all that are right already (exact)."""
        safe: BoolArray = self.predict(X) == np.asarray(h_star(X))
        return safe


@checked
class CallableTreeOrderLearner(BatchLearner):
    """TreeOrderLearner on an infinite domain, from an order and a reference.

    Examples
    --------
    Thresholds 1[x >= c] with reference "nothing is positive": larger points are flipped first.

    >>> learner = TreeOrderLearner.from_callable(
    ...     leq=lambda X, x: X[:, 0] >= x[0], f=lambda X: np.zeros(len(X)))
    >>> learner.fit([0.2, 0.6, 0.8], [0, 1, 1]).predict([0.5, 0.6])
    array([0, 1], dtype=uint8)
    """

    def __init__(self, leq: Order, f: Target) -> None:
        self.leq = leq
        self.f = f

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Find the largest point the data force to be flipped."""
        S = LabelledSet(np.asarray(X, dtype=np.float64), np.asarray(y))
        wrong = np.asarray(self.f(S.X)).astype(np.uint8) != S.y
        flipped = S.X[wrong]
        self.top_: Any = None
        if len(flipped):
            top = flipped[0]
            for point in flipped[1:]:  # the maximum of a chain, one comparison per row
                if not np.asarray(self.leq(point[None], top))[0]:
                    top = point
            if not np.asarray(self.leq(flipped, top)).all():
                raise NotRealizableError("two flipped points are not comparable")
            if len(S) > len(flipped) and np.asarray(self.leq(S.X[~wrong], top)).any():
                raise NotRealizableError(
                    "a point with the reference label lies below a flipped one"
                )
            self.top_ = top
        return self

    def predict(self, X: ArrayLike) -> Labels:
        """Flip the reference below the largest flipped point."""
        points = LabelledSet(np.asarray(X, np.float64), np.zeros(len(np.asarray(X)), np.uint8)).X
        labels = np.asarray(self.f(points)).astype(np.uint8)
        if self.top_ is None or len(points) == 0:
            return labels
        below = np.asarray(self.leq(points, self.top_), dtype=np.bool_)
        return np.where(below, 1 - labels, labels).astype(np.uint8)

    def certified(
        self, h_star: Target, S: LabelledSet, X: ArrayLike, budget: int | None = None
    ) -> BoolArray:
        """Points no clean poison can flip: all that are right already (exact)."""
        safe: BoolArray = self.predict(X) == np.asarray(h_star(X))
        return safe
