"""One member of every orbit stands for all: in training, and in prediction.

Which member matters. The lexicographically smallest image jumps when two pixels change places in
that order, so two similar images may be represented by very different ones. The image that is
closest to the mean of the representatives (found by alternating, as in k-means with one centre or
in generalised Procrustes analysis) moves only where two images are almost equally close to it.
Source: docs/theory/11-invariance.md, "Proposition 11.I: aligned representatives"; Gower (1975),
"Generalized Procrustes analysis".
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numba import njit
from scipy import sparse

from counterplay.core.validation import FloatArray, check_choice, shorten
from counterplay.errors import InvalidInputError
from counterplay.invariance.errors import InfiniteOrbitError
from counterplay.invariance.images import Rows, blocks_of
from counterplay.invariance.orbit_classifier import OrbitClassifier
from counterplay.invariance.transformations import TransformationSet

_CHUNK = 8_000_000  # numbers held at once while images are compared with the template


class CanonicalClassifier(OrbitClassifier):
    """Replace every point by one member of its orbit, in training and in prediction.

    Exactly invariant, and the sample is not enlarged. Use it when the model should be exactly
    invariant and fast.

    Parameters
    ----------
    estimator:
        Any classifier.
    group:
        A group, a function of the number of features that returns one, or None.
    form:
        Which member: "aligned" is the image closest to the mean of the training representatives
        (needs a group that can be listed), "smallest" the canonical form of the group
        (lexicographically smallest image, sorted set, canonical graph). "auto" is "aligned" where
        the group can be listed and the training rows are dense and complete.

    Attributes
    ----------
    template_:
        Mean of the representatives of the training sample; None for "smallest".

    Notes
    -----
    The prediction is constant on orbits whatever was learned. Alignment never raises the sum of
    squared distances between representatives and their mean, and ends after finitely many rounds.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from counterplay.invariance import groups
    >>> X, y = load_digits(return_X_y=True)
    >>> group = groups.image_rotations((8, 8))
    >>> model = CanonicalClassifier(LogisticRegression(max_iter=300), group)
    >>> upside_down = X[600:, ::-1] / 16
    >>> round(model.fit(X[:600] / 16, y[:600]).score(upside_down, y[600:]), 2)
    0.91

    References
    ----------
    Gower (1975), "Generalized Procrustes analysis".
    """

    def __init__(
        self,
        estimator: Any,
        group: Any = None,
        form: Literal["auto", "aligned", "smallest"] = "auto",
    ) -> None:
        self.estimator = estimator
        self.group = group
        self.form = form

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CanonicalClassifier:
        """Fit the base classifier on the representatives of the sample."""
        check_choice(self.form, "form", ("auto", "aligned", "smallest"))
        rows, codes, group, weights = self._start(X, y, sample_weight)
        if not group.approximate_form:
            self._require_orbits(rows, "a canonical form needs orbits")
        self.template_ = find_template(rows, group, self.form, weights)
        self._fit_inner(self._view(rows), codes, weights)
        return self

    def representatives(self, X: Any) -> Any:
        """The member that stands for the orbit of every point."""
        return self._give(self._view(self._rows(X)))

    def _view(self, rows: Rows) -> Rows:
        return represented(rows, self.group_, self.template_)


def find_template(
    rows: Rows, group: TransformationSet, form: str, weights: FloatArray | None = None
) -> FloatArray | None:
    """The template that images are aligned with; None for the canonical form of the group."""
    whole = not sparse.issparse(rows) and not np.isnan(rows).any()
    listed = math.isfinite(group.order) and not group.approximate_form
    if form == "aligned" and not listed:
        raise InfiniteOrbitError(
            f"{shorten(group, 80)} is no group that can be listed; "
            'use form="smallest", its canonical form'
        )
    if form == "aligned" and not whole:
        raise InvalidInputError(
            'distances need dense rows without missing values; use form="smallest"'
        )
    if form == "smallest" or not listed or not whole:
        return None
    return alignment_template(rows, group, weights=weights)


def represented(rows: Rows, group: TransformationSet, template: FloatArray | None) -> Rows:
    """The member that stands for the orbit of every row: closest to a template, or canonical."""
    if template is None:
        parts = [group.canonical(block) for block in blocks_of(rows)]
        if not sparse.issparse(rows):
            return np.concatenate(parts)
        return sparse.csr_array(sparse.vstack([sparse.csr_array(part) for part in parts]))
    if sparse.issparse(rows) or np.isnan(rows).any():
        raise InvalidInputError(
            "X is sparse or contains NaN, and representatives were aligned by distances to "
            'dense and complete training rows; impute it, or use form="smallest"'
        )
    return closest_images(rows, group, template)


def alignment_template(
    rows: FloatArray,
    group: TransformationSet,
    max_rounds: int = 100,
    *,
    weights: FloatArray | None = None,
) -> FloatArray:
    """A mean of orbit members each of which is the closest of its orbit to that mean.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> swap = groups.sequence_reversal(2)
    >>> alignment_template(np.array([[0.0, 4.0], [6.0, 0.0], [0.0, 5.0]]), swap)
    array([0., 5.])
    """
    template: FloatArray = np.average(rows, axis=0, weights=weights)
    for _ in range(max_rounds):
        closest = closest_images(rows, group, template)
        moved: FloatArray = np.average(closest, axis=0, weights=weights)
        if np.array_equal(moved, template):
            break
        template = moved
    return template


def closest_images(rows: FloatArray, group: TransformationSet, template: FloatArray) -> FloatArray:
    """The member of every orbit that is closest to the template.

    Images are listed from the canonical member on and compared in this order, so the answer is a
    function of the orbit, ties included.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> closest_images(np.array([[4.0, 0.0]]), groups.sequence_reversal(2), np.array([0.0, 1.0]))
    array([[0., 4.]])
    """
    start: FloatArray = group.canonical(rows)
    step = max(1, int(_CHUNK // max(group.order * start.shape[1], 1)))
    parts = [
        _closest(np.ascontiguousarray(group.apply(start[i : i + step])), template)
        for i in range(0, len(start), step)
    ]
    return np.concatenate(parts) if parts else start


@njit(cache=True)
def _closest(images, template):  # type: ignore[no-untyped-def]  # compiled by numba
    # For every point the image with the smallest squared distance; the first one on ties.
    out = np.empty_like(images[0])
    for i in range(images.shape[1]):
        best, smallest = 0, np.inf
        for g in range(images.shape[0]):
            # Squared distance of image g of point i to the template.
            squared = 0.0
            for j in range(images.shape[2]):
                squared += (images[g, i, j] - template[j]) ** 2
            if squared < smallest:
                best, smallest = g, squared
        out[i] = images[best, i]
    return out
