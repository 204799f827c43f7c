"""NearestRow: the default base model of a partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from counterplay.core.validation import FloatArray
from counterplay.tables import Table

_CHUNK = 4_000_000


class NearestRow(ClassifierMixin, BaseEstimator):
    """Label of the training row at the smallest Euclidean distance; ties go to the first row.

    Without an index: partition ensembles hold a few dozen rows per model; building a search
    structure and checking every call costs more than the distances.

    Examples
    --------
    >>> NearestRow().fit([[0.0], [1.0]], ["a", "b"]).predict([[0.4], [0.6]]).tolist()
    ['a', 'b']
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Store the rows."""
        self.rows_: FloatArray = _numbers(X)
        self.labels_: NDArray[Any] = np.asarray(y)
        self.squares_: FloatArray = np.einsum("ij,ij->i", self.rows_, self.rows_)
        self.classes_ = np.unique(self.labels_)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of the nearest row."""
        nearest = [distance.argmin(axis=1) for distance in self._distances(X)]
        labels: NDArray[Any] = (
            self.labels_[np.concatenate(nearest)] if nearest else self.labels_[:0]
        )
        return labels

    def class_scores(self, X: ArrayLike) -> FloatArray:
        """Minus the squared distance to the nearest row of each class, up to a common term."""
        own = [np.flatnonzero(self.labels_ == c) for c in self.classes_]
        parts = [
            np.column_stack([-distance[:, rows].min(axis=1) for rows in own])
            for distance in self._distances(X)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, len(own)))

    def _distances(self, X: ArrayLike) -> Iterator[FloatArray]:
        """Squared distances to all rows, less the square of the point, in bounded pieces."""
        points = _numbers(X)
        step = max(1, _CHUNK // len(self.rows_))
        for i in range(0, len(points), step):
            yield self.squares_ - 2 * (points[i : i + step] @ self.rows_.T)


def _numbers(X: Any) -> FloatArray:
    """Rows as finite numbers, images as long rows."""
    table = Table.of(X)
    points = table.numbers()
    return points.reshape(len(points), -1)
