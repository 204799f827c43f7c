"""ERM with a finite star number: where consistent hypotheses can disagree at all.

The region of disagreement bounds the attackable region of every ERM. It is small after
``(21 s + 16 ln(3/delta))/eps`` rows when the star number s is finite. Source:
docs/theory/10-poisoning.md, "Star number".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import BoolArray, FloatArray, check_choice
from counterplay.errors import NotRealizableError
from counterplay.poisoning.model import LabelledSet, column
from counterplay.poisoning.separation import separable


@checked
def disagreement_region(
    H: FiniteClass | str, S: LabelledSet, X: ArrayLike | None = None
) -> BoolArray:
    """Points at which two hypotheses consistent with S disagree.

    Parameters
    ----------
    H:
        A finite class (X are positions, default all), ``"thresholds"`` (1[x >= c] on the line),
        ``"intervals"`` (closed, on the line) or ``"halfspaces"`` (any dimension, one pair of
        linear programs per point).
    S:
        The training set.
    X:
        Points to test.

    Examples
    --------
    >>> S = LabelledSet([0.2, 0.7], [0, 1])
    >>> disagreement_region("thresholds", S, [0.1, 0.2, 0.5, 0.7, 0.9]).astype(int)
    array([0, 0, 1, 0, 0])
    """
    if isinstance(H, FiniteClass):
        alive = H.consistent(S.X, S.y)
        if not alive.any():
            raise NotRealizableError("no hypothesis of the class agrees with all rows")
        region = H.disagreement(alive)
        return region if X is None else region[np.asarray(X, dtype=np.int64).reshape(-1)]
    check_choice(H, "H", ("thresholds", "intervals", "halfspaces"))
    points = np.asarray(S.X[:, 0] if X is None else X, dtype=np.float64)
    if H == "thresholds":
        return _threshold_region(S, column(points))
    if H == "intervals":
        return _interval_region(S, column(points))
    return np.array([_two_sided(S, x) for x in np.atleast_2d(points)], dtype=np.bool_)


@checked
def disagreement_rate(
    H: FiniteClass | str,
    S: LabelledSet,
    X: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> float:
    """Mass of the region of disagreement on test points, or under point weights.

    No ERM can be attacked outside the region, with any number of clean rows.

    Examples
    --------
    >>> line = FiniteClass.thresholds(range(10))
    >>> disagreement_rate(line, LabelledSet([2, 6], [0, 1]))
    0.3
    """
    region = disagreement_region(H, S, X)
    if weights is None and isinstance(H, FiniteClass) and X is None:
        weights = H.point_weights
    w = np.ones(region.size) if weights is None else np.asarray(weights, dtype=np.float64)
    return float(w[region].sum() / w.sum()) if region.size else 0.0


def _threshold_region(S: LabelledSet, x: FloatArray) -> BoolArray:
    seen = column(S.X)
    below = seen[S.y == 0].max(initial=-np.inf)
    above = seen[S.y == 1].min(initial=np.inf)
    if below >= above:
        raise NotRealizableError(f"the negative at {below:g} is not below all positives")
    region: BoolArray = (x > below) & (x < above)
    return region


def _interval_region(S: LabelledSet, x: FloatArray) -> BoolArray:
    seen = column(S.X)
    positive, negative = seen[S.y == 1], seen[S.y == 0]
    if positive.size == 0:
        unseen: BoolArray = ~np.isin(x, negative)
        return unseen
    low, high = positive.min(), positive.max()
    if ((negative >= low) & (negative <= high)).any():
        raise NotRealizableError("a negative lies between positives: not an interval")
    left = negative[negative < low].max(initial=-np.inf)
    right = negative[negative > high].min(initial=np.inf)
    region: BoolArray = ((x > left) & (x < low)) | ((x > high) & (x < right))
    return region


def _two_sided(S: LabelledSet, x: FloatArray) -> bool:
    return all(
        separable(np.vstack([S.X, x]), np.append(S.y, label).astype(np.uint8)) for label in (0, 1)
    )
