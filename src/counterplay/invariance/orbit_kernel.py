"""A kernel on orbits: similarity of two points is that of their closest, or of all, images.

Augmentation makes the training sample |G| times larger and hopes that the model becomes invariant.
A kernel that compares orbits keeps the sample as it is and makes the model exactly invariant.
Source: docs/theory/11-invariance.md, "Measured", DeCoste and Schoelkopf (2002), "Training invariant
support vector machines".
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from sklearn.svm import SVC

from counterplay.core.validation import FloatArray, check_choice, check_real, check_size
from counterplay.errors import InvalidInputError
from counterplay.invariance.images import Rows, group_for
from counterplay.invariance.orbit_classifier import OrbitClassifier
from counterplay.invariance.transformations import MOST_NUMBERS

_BLOCK = 128  # rows of the kernel matrix computed at once


class OrbitKernelClassifier(OrbitClassifier):
    """A kernel classifier whose kernel compares orbits: exactly invariant, sample not enlarged.

    Use it for images and other data where distances between well-aligned copies are meaningful and
    the sample is small enough for a kernel matrix.

    Parameters
    ----------
    estimator:
        Classifier with ``kernel="precomputed"``; default ``SVC(C=10, kernel="precomputed")``.
    group:
        A group that can be listed, a function of the number of features that returns one, or None.
    gamma:
        Width of the kernel exp(-gamma * squared distance); "scale" is 1 / (p * variance), as in
        scikit-learn.
    compare:
        "nearest": the kernel of the closest images (the metric of the orbit space); "all": the mean
        over all images, scaled so that every point has similarity 1 with itself; "both": the mean
        of these two.
    jitter:
        A set of small changes (such as :func:`groups.image_jitter`) that may be applied to either
        point before they are compared; it need not be a group. Predictions stay exactly invariant
        if the group maps the set of changes to itself (turned shifts are shifts).

    Notes
    -----
    The prediction is constant on orbits, whatever was learned, as for the canonical form, but the
    kernel is continuous. The "nearest" kernel need not be positive definite, which support vector
    machines tolerate.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> model = OrbitKernelClassifier(group=groups.sequence_reversal(2), gamma=0.1)
    >>> model.fit([[1.0, 5.0], [2.0, 2.0]], [0, 1]).predict([[5.0, 1.0], [2.0, 2.1]])
    array([0, 1])

    References
    ----------
    "Baselines", see docs/theory/11-invariance.md; DeCoste and Schölkopf (2002), Training invariant
    support vector machines.
    """

    _takes_missing = False
    _takes_sparse = False

    def __init__(
        self,
        estimator: Any = None,
        group: Any = None,
        gamma: float | Literal["scale"] = "scale",
        compare: Literal["nearest", "all", "both"] = "both",
        jitter: Any = None,
    ) -> None:
        self.estimator = estimator
        self.group = group
        self.gamma = gamma
        self.compare = compare
        self.jitter = jitter

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> OrbitKernelClassifier:
        """Fit the kernel classifier on the matrix of orbit similarities."""
        check_choice(self.compare, "compare", ("nearest", "all", "both"))
        rows, codes, _, weights = self._start(X, y, sample_weight)
        if weights is not None:  # libsvm loses count of rows without weight in a given matrix
            kept = weights > 0
            rows, codes, weights = rows[kept], codes[kept], weights[kept]
        self._require_orbits(rows, "comparing orbits needs orbits (put other maps into jitter)")
        if self.gamma == "scale":
            with np.errstate(over="ignore"):
                spread = _variance(rows, weights)
                self.gamma_ = 1.0 / (rows.shape[1] * spread) if spread > 0 else 1.0
        else:
            self.gamma_ = check_real(self.gamma, "gamma", low=0.0, open_low=True)
        _check_squares(rows, self.gamma_)
        order = 1.0 if not math.isfinite(self.group_.order) else self.group_.order
        check_size(order * rows.size, MOST_NUMBERS, "numbers in all images")
        check_size(len(rows) ** 2, MOST_NUMBERS, "entries of the kernel matrix")
        self.rows_ = rows
        self._images = self._all_images(rows)
        self._norms = self._self_similarity(rows, self._images)
        kernel = self._view(rows)
        self._fit_inner((kernel + kernel.T) / 2, codes, weights)
        return self

    def kernel(self, X: Any) -> FloatArray:
        """Similarity of every point to every training point, shape (n, n_train)."""
        return self._view(self._rows(X))

    def _inner(self) -> Any:
        return SVC(C=10.0, kernel="precomputed") if self.estimator is None else self.estimator

    def _give(self, rows: Rows) -> Any:
        return rows  # the inner classifier sees similarities, not rows

    def _all_images(self, rows: FloatArray) -> FloatArray:
        """Images of (jittered) points, shape (number of images, n, p)."""
        starts = [rows]
        if self.jitter is not None:
            starts = list(group_for(self.jitter, self._form).apply(rows))
        return np.concatenate(
            [np.asarray(self.group_.apply(start), dtype=np.float64) for start in starts]
        )

    def _self_similarity(self, rows: FloatArray, images: FloatArray) -> FloatArray:
        """Mean kernel of every point with its own images."""
        if self.compare == "nearest":
            return np.ones(len(rows))
        squared = ((images - rows) ** 2).sum(axis=2)
        return np.asarray(np.exp(-self.gamma_ * squared).mean(axis=0))

    def _view(self, rows: Rows) -> FloatArray:
        """Similarity of points to training points; -gamma times squared distances inside."""
        closest, total = self._compare(rows, self.rows_, self._images)
        n_pairs = len(self._images)
        own = self._images if rows is self.rows_ else self._all_images(rows)
        if self.jitter is not None:  # pixels are lost: move the other point, too
            back, mean_back = (
                (closest, total) if rows is self.rows_ else self._compare(self.rows_, rows, own)
            )
            closest, total = np.maximum(closest, back.T), total + mean_back.T
            n_pairs *= 2
        nearest = np.exp(np.minimum(closest, 0.0))
        if self.compare == "nearest":
            return np.asarray(nearest)
        norms = self._norms if rows is self.rows_ else self._self_similarity(rows, own)
        mean = total / (n_pairs * np.sqrt(norms[:, None] * self._norms[None, :]))
        return np.asarray(mean if self.compare == "all" else (mean + nearest) / 2)

    def _compare(
        self, rows: FloatArray, others: FloatArray, images: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Largest exponent and sum of the kernel over the images of the others."""
        best = np.full((len(rows), len(others)), -np.inf)
        total = np.zeros_like(best)
        left = np.column_stack([2.0 * rows, -(rows**2).sum(axis=1), np.ones(len(rows))])
        left *= self.gamma_
        for image in images:
            right = np.column_stack([image, np.ones(len(image)), -(image**2).sum(axis=1)]).T
            for i in range(0, len(rows), _BLOCK):  # small enough for the cache
                part = slice(i, i + _BLOCK)
                exponent = left[part] @ right
                if self.compare != "all":
                    np.maximum(best[part], exponent, out=best[part])
                if self.compare != "nearest":
                    total[part] += np.exp(exponent, out=exponent)
        return best, total


def _variance(rows: FloatArray, weights: FloatArray | None) -> float:
    centre = np.average(rows, axis=0, weights=weights).mean()
    return float(np.average((rows - centre) ** 2, axis=0, weights=weights).mean())


def _check_squares(rows: FloatArray, gamma: float) -> None:
    """Refuse numbers whose squared distances are not finite."""
    largest = float(np.abs(rows).max(initial=0.0))
    if not largest < 1e150 or not gamma > 0 or not gamma * largest**2 * rows.shape[1] < 1e300:
        raise InvalidInputError(
            f"the largest number in X is {largest:g}: squared distances overflow; scale the columns"
        )
