"""ClosureLearner: say 1 only where every consistent hypothesis says 1.

A positive answer is always right and clean data only add to it, so nothing can be flipped that was
right. For intersection-closed classes the answer is the smallest member that contains the
positives, and few rows suffice. Source: docs/theory/10-poisoning.md, "Proposition 10.C: closure".
"""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import BoolArray, FloatArray, check_choice
from counterplay.errors import NotRealizableError
from counterplay.poisoning.model import BatchLearner, LabelledSet, Labels, Target, training_set
from counterplay.poisoning.ordered_erm import as_class

Family = Literal["boxes", "intervals", "conjunctions", "subspaces"]
_FAMILIES: tuple[Family, ...] = ("boxes", "intervals", "conjunctions", "subspaces")


@checked
class ClosureLearner(BatchLearner):
    """The closure of the positives: robust for intersection-closed classes.

    Use it for rule-like models: ranges, boxes, conjunctions, or any finite list of rules.

    Parameters
    ----------
    H:
        ``"boxes"``, ``"intervals"`` (boxes in one dimension), ``"conjunctions"`` (of 0/1 literals),
        ``"subspaces"`` (linear), or a finite class on positions 0..k-1.
    tol:
        Relative tolerance of the rank decision for subspaces.

    Notes
    -----
    Guaranteed: the attackable region is the error region, for any class (exact). For
    intersection-closed classes ``(21 d + 16 ln(3/delta))/eps`` rows give attackable rate eps; d is
    2n for boxes in n dimensions, 2 for intervals, n for conjunctions and subspaces.

    Examples
    --------
    >>> X = [[0.2, 0.3], [0.6, 0.4], [0.9, 0.9]]
    >>> ClosureLearner("boxes").fit(X, [1, 1, 0]).predict([[0.4, 0.35], [0.4, 0.5]])
    array([1, 0], dtype=uint8)
    """

    def __init__(self, H: Family | FiniteClass | ArrayLike = "boxes", *, tol: float = 1e-9) -> None:
        self.H: Family | FiniteClass
        if isinstance(H, str):
            self.H = _FAMILIES[_FAMILIES.index(check_choice(H, "H", tuple(map(str, _FAMILIES))))]
        else:
            self.H = as_class(H)
        self.tol = tol

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Compute the closure of the positives."""
        if isinstance(self.H, FiniteClass):
            return self._fit_finite(self.H, X, y)
        S = training_set(np.asarray(X, dtype=np.float64), y)
        positive = S.X[S.y == 1]
        self.low_: FloatArray | None = None
        self.high_: FloatArray | None = None
        self.basis_: FloatArray | None = None
        if self.H == "subspaces":
            self.basis_ = _span(positive, S.X.shape[1], self.tol)
        elif len(positive):
            if self.H == "conjunctions" and not np.isin(S.X, (0.0, 1.0)).all():
                raise NotRealizableError("conjunctions need features 0 and 1")
            self.low_, self.high_ = positive.min(axis=0), positive.max(axis=0)
        wrong = np.flatnonzero((S.y == 0) & (self.predict(S.X) == 1))
        if wrong.size:
            raise NotRealizableError(
                f"the negative row {int(wrong[0])} lies in the closure of the positives"
            )
        return self

    def _fit_finite(self, cls: FiniteClass, X: ArrayLike, y: ArrayLike) -> Self:
        S = LabelledSet(np.asarray(X, dtype=np.int64), np.asarray(y))
        alive = cls.consistent(S.X, S.y)
        if not alive.any():
            raise NotRealizableError("no hypothesis of the class agrees with all rows")
        self.labels_: Labels = cls.intersection(alive).astype(np.uint8)
        return self

    def predict(self, X: ArrayLike) -> Labels:
        """Label 1 where every consistent hypothesis says 1."""
        if isinstance(self.H, FiniteClass):
            labels: Labels = self.labels_[np.asarray(X, dtype=np.int64).reshape(-1)]
            return labels
        x = np.asarray(X, dtype=np.float64)
        x = x[:, None] if x.ndim == 1 else x
        if self.H == "subspaces":
            assert self.basis_ is not None
            rest = x - (x @ self.basis_) @ self.basis_.T
            scale = np.maximum(np.linalg.norm(x, axis=1), 1e-300)
            inside = np.linalg.norm(rest, axis=1) <= np.sqrt(self.tol) * scale
            return np.asarray(inside | (np.linalg.norm(x, axis=1) == 0), dtype=np.uint8)
        if self.low_ is None or self.high_ is None:
            return np.zeros(len(x), dtype=np.uint8)
        within = ((x >= self.low_) & (x <= self.high_)).all(axis=1)
        return np.asarray(within, dtype=np.uint8)

    def certified(
        self, h_star: Target, S: LabelledSet, X: ArrayLike, budget: int | None = None
    ) -> BoolArray:
        """Points no clean poison can flip: all that are right already (exact)."""
        safe: BoolArray = self.predict(X) == np.asarray(h_star(X))
        return safe


def _span(rows: FloatArray, n: int, tol: float) -> FloatArray:
    """Orthonormal basis of the span of the rows, as columns."""
    if len(rows) == 0:
        return np.zeros((n, 0))
    _, values, vectors = np.linalg.svd(rows, full_matrices=False)
    rank = int((values > tol * max(1.0, float(values.max(initial=0.0)))).sum())
    return np.ascontiguousarray(vectors[:rank].T)
