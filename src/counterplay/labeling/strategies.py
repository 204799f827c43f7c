"""Generalized binary search in the loops of scikit-activeml and modAL.

Neither package is needed: the two classes follow their calling conventions. The committee's
predictions on the pool are computed once; each query then costs one weighted count.
Source: docs/theory/06-labeling.md, "Generalized binary search".
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.validation import FloatArray, IntArray, check_positive_int
from counterplay.core.weights import check_weights
from counterplay.errors import InvalidInputError, NotRealizableError
from counterplay.labeling.gbs import label_masses, smaller_sides


class CommitteeSplitStrategy:
    """Query strategy that asks the point splitting the consistent committee most evenly.

    Use it in scikit-activeml's loop (``strategy.query(X, y)``, missing labels are NaN) or in
    modAL's (``query_strategy=strategy.as_modal()``).

    Parameters
    ----------
    committee:
        Fitted classifiers; each is one hypothesis.
    weights:
        Prior weights of the members; equal by default.

    Notes
    -----
    A label that contradicts every member raises ``NotRealizableError``; pass ``tolerance`` > 0 to
    weigh members by their number of contradicted labels instead.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2)); y = (X[:, 0] > 0).astype(int)
    >>> committee = [LogisticRegression().fit(X[rows], y[rows])
    ...              for rows in rng.integers(0, 100, size=(30, 10))]
    >>> strategy = CommitteeSplitStrategy(committee, tolerance=0.1)
    >>> known = np.full(100, np.nan)
    >>> for _ in range(5):
    ...     index = strategy.query(X, known)[0]
    ...     known[index] = y[index]
    >>> int(np.isfinite(known).sum())
    5
    """

    def __init__(
        self,
        committee: Sequence[Any],
        *,
        weights: ArrayLike | None = None,
        tolerance: float = 0.0,
    ) -> None:
        if len(committee) == 0:
            raise InvalidInputError("the committee needs at least one fitted classifier")
        self.committee = tuple(committee)
        self.weights = np.ones(len(committee)) if weights is None else check_weights(weights)
        if self.weights.shape != (len(committee),):
            raise InvalidInputError(f"weights must have length {len(committee)}")
        self.tolerance = float(tolerance)
        self._pool: tuple[tuple[int, ...], bytes, IntArray, NDArray[Any]] | None = None

    def __repr__(self) -> str:
        return f"CommitteeSplitStrategy({len(self.committee)} members, tolerance={self.tolerance})"

    def query(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        candidates: ArrayLike | None = None,
        batch_size: int = 1,
        return_utilities: bool = False,
    ) -> Any:
        """Indices of the next points to label, best first; optionally their split masses."""
        import pandas as pd

        n = check_positive_int(batch_size, "batch_size")
        H, classes = self._predictions(X)
        labels = np.asarray(y, dtype=object)
        if labels.shape != (H.shape[1],):
            raise InvalidInputError(f"y must have length {H.shape[1]}, got shape {labels.shape}")
        missing = pd.isna(labels)
        wrong = (classes[H[:, ~missing]] != labels[~missing]).sum(axis=1)
        utilities = self._split_masses(H, classes, wrong)
        allowed = missing.copy()
        if candidates is not None:
            mask = np.zeros(H.shape[1], dtype=np.bool_)
            mask[np.asarray(candidates, dtype=np.int64)] = True
            allowed &= mask
        if not allowed.any():
            raise InvalidInputError("there is no unlabeled candidate left")
        utilities = np.where(allowed, utilities, -1.0)
        chosen = np.argsort(-utilities, kind="stable")[: min(n, int(allowed.sum()))]
        if not return_utilities:
            return chosen
        return chosen, np.where(allowed, utilities, np.nan)[None, :]

    def as_modal(self) -> Any:
        """The strategy for modAL: ``(learner, X_pool) -> (indices, metric)``.

        Members count as consistent by the learner's ``X_training`` and ``y_training``, which modAL
        extends with every ``teach``; its first training set is part of them.
        """

        def strategy(learner: Any, X: ArrayLike, n_instances: int = 1, **_: Any) -> Any:
            if not hasattr(learner, "X_training") or not hasattr(learner, "y_training"):
                raise InvalidInputError(
                    f"{type(learner).__name__} has no X_training and y_training, so the labels so "
                    "far are unknown; pass modAL's ActiveLearner, or call query(X, y)"
                )
            H, classes = self._predictions(X)
            wrong = self._contradicted(learner.X_training, learner.y_training)
            masses = self._split_masses(H, classes, wrong)
            best = np.argsort(-masses, kind="stable")[:n_instances]
            return best, masses[best]

        return strategy

    def _predictions(self, X: ArrayLike) -> tuple[IntArray, NDArray[Any]]:
        pool = np.ascontiguousarray(X)
        key = (pool.shape, hashlib.blake2b(pool.tobytes()).digest())
        if self._pool is None or self._pool[:2] != key:
            rows = np.stack([np.asarray(member.predict(pool)) for member in self.committee])
            classes, codes = np.unique(rows, return_inverse=True)
            self._pool = (*key, codes.reshape(rows.shape), classes)
        return self._pool[2], self._pool[3]

    def _contradicted(self, X: Any, y: Any) -> IntArray:
        """How many of the given labels each member contradicts."""
        if X is None or y is None or np.shape(y)[0] == 0:
            return np.zeros(len(self.committee), dtype=np.int64)
        labels = np.asarray(y)
        wrong = [int(np.sum(member.predict(X) != labels)) for member in self.committee]
        return np.array(wrong, dtype=np.int64)

    def _split_masses(self, H: IntArray, classes: NDArray[Any], wrong: IntArray) -> FloatArray:
        """Mass of the members that do not give each point its most probable label."""
        if self.tolerance > 0:
            # only differences count, and so the power cannot vanish for all members at once
            wrong = wrong - wrong[self.weights > 0].min()
        w = self.weights * self.tolerance**wrong
        if not w.sum() > 0:
            raise NotRealizableError(
                "the labels contradict every committee member; pass tolerance > 0 to go on"
            )
        return smaller_sides(label_masses(H, w / w.sum(), classes.size))
