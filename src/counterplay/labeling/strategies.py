"""Generalized binary search in the loops of scikit-activeml and modAL.

Neither package is needed: the two classes follow their calling conventions. The committee's
predictions on the pool are computed once; each query then costs one weighted count.
Source: docs/theory/06-labeling.md, "Generalized binary search".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_fraction,
    check_positive_int,
)
from counterplay.core.weights import check_weights
from counterplay.errors import InvalidInputError, NotRealizableError
from counterplay.labeling.committee import Committee
from counterplay.labeling.gbs import label_masses, smaller_sides
from counterplay.tables import Labels, Table
from counterplay.tables.cells import listed
from counterplay.tables.table import check_same_rows


@checked
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
    tolerance:
        Factor by which each contradicted label lowers a member's weight; with 0 a label that
        contradicts every member raises ``NotRealizableError``.

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
        self.committee = tuple(committee)
        self._members = Committee.of(self.committee)
        self.weights = np.ones(len(self.committee)) if weights is None else check_weights(weights)
        if self.weights.shape != (len(self.committee),):
            raise InvalidInputError(f"weights must have length {len(self.committee)}")
        self.tolerance = check_fraction(tolerance, "tolerance")
        self._pool: tuple[str, tuple[Any, ...], IntArray] | None = None

    def __repr__(self) -> str:
        return f"CommitteeSplitStrategy({len(self.committee)} members, tolerance={self.tolerance})"

    def query(
        self,
        X: Any,
        y: Any,
        *,
        candidates: ArrayLike | None = None,
        batch_size: int = 1,
        return_utilities: bool = False,
    ) -> Any:
        """Return the positions of the next rows to label, best first.

        Parameters
        ----------
        X:
            The pool, in any container; members get the columns they were fitted on, by name.
        y:
            One label per row, in the members' coding; NaN or None where it is not known yet.
        candidates:
            Positions of the rows that may be asked; default all.
        batch_size:
            Number of rows.
        return_utilities:
            Whether to return the split mass of each row too (NaN where it may not be asked).
        """
        n = check_positive_int(batch_size, "batch_size")
        table = Table.of(X)
        known, labels = self._known(X, y, len(table))
        allowed = ~known
        if candidates is not None:
            allowed &= _chosen(candidates, len(table))
        if not allowed.any():
            raise InvalidInputError("there is no unlabeled candidate left")
        classes, H = self._predictions(table)
        wrong = _contradictions(H[:, known], classes, labels)
        utilities = np.where(allowed, self._split_masses(H, len(classes), wrong), -1.0)
        chosen = np.argsort(-utilities, kind="stable")[: min(n, int(allowed.sum()))]
        if not return_utilities:
            return chosen
        return chosen, np.where(allowed, utilities, np.nan)[None, :]

    def as_modal(self) -> Any:
        """The strategy for modAL: ``(learner, X_pool) -> (indices, metric)``.

        Members count as consistent by the learner's ``X_training`` and ``y_training``, which modAL
        extends with every ``teach``; its first training set is part of them.
        """

        def strategy(learner: Any, X: Any, n_instances: int = 1, **_: Any) -> Any:
            if not hasattr(learner, "X_training") or not hasattr(learner, "y_training"):
                raise InvalidInputError(
                    f"{type(learner).__name__} has no X_training and y_training, so the labels so "
                    "far are unknown; pass modAL's ActiveLearner, or call query(X, y)"
                )
            n = check_positive_int(n_instances, "n_instances")
            classes, H = self._predictions(Table.of(X))
            wrong = self._contradicted(learner.X_training, learner.y_training)
            masses = self._split_masses(H, len(classes), wrong)
            best = np.argsort(-masses, kind="stable")[:n]
            return best, masses[best]

        return strategy

    def _predictions(self, pool: Table) -> tuple[tuple[Any, ...], IntArray]:
        """Labels and codes of the members' answers; those of the last pool are kept."""
        key = str(joblib.hash(pool.rows))
        if self._pool is None or self._pool[0] != key:
            self._pool = key, *self._members.labelings(pool)
        return self._pool[1:]

    def _known(self, X: Any, y: Any, n: int) -> tuple[BoolArray, Labels | None]:
        """Which rows have a label, and these labels."""
        check_same_rows(X, y)
        values = np.asarray(y, dtype=object)
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        if values.shape != (n,):
            raise InvalidInputError(f"y must have length {n}, got shape {values.shape}")
        known: BoolArray = ~np.asarray(pd.isna(values), dtype=np.bool_)
        return known, Labels.of(values[known]) if known.any() else None

    def _contradicted(self, X: Any, y: Any) -> IntArray:
        """How many of the given labels each member contradicts."""
        if X is None or y is None or np.shape(y)[0] == 0:
            return np.zeros(len(self.committee), dtype=np.int64)
        table = Table.of(X, y, what="X_training")
        classes, H = self._members.labelings(table)
        return _contradictions(H, classes, table.labels)

    def _split_masses(self, H: IntArray, n_classes: int, wrong: IntArray) -> FloatArray:
        """Mass of the members that do not give each point its most probable label."""
        if self.tolerance > 0:
            # only differences count, and so the power cannot vanish for all members at once
            wrong = wrong - wrong[self.weights > 0].min()
        w = self.weights * self.tolerance**wrong
        if not w.sum() > 0:
            raise NotRealizableError(
                "the labels contradict every committee member; pass tolerance > 0 to go on"
            )
        return smaller_sides(label_masses(H, w / w.sum(), n_classes))


def _contradictions(H: IntArray, classes: tuple[Any, ...], labels: Labels | None) -> IntArray:
    """Count for each member the rows whose label it contradicts."""
    if labels is None:
        return np.zeros(len(H), dtype=np.int64)
    odd = [label for label in labels.classes if label not in classes]
    if odd:
        raise InvalidInputError(
            f"y has {listed(odd)}, the members answer {listed(classes)}; use the same coding"
        )
    given = np.array([classes.index(label) for label in labels.classes])[labels.codes]
    wrong: IntArray = (given != H).sum(axis=1)
    return wrong


def _chosen(candidates: ArrayLike, n: int) -> BoolArray:
    """Mark the rows at the given positions."""
    places = np.asarray(candidates)
    if places.ndim != 1 or places.dtype.kind not in "iu":
        raise InvalidInputError("candidates must be a list of positions of rows")
    if places.size and (places.min() < 0 or places.max() >= n):
        raise InvalidInputError(f"candidates must be positions from 0 to {n - 1}")
    mask = np.zeros(n, dtype=np.bool_)
    mask[places] = True
    return mask
