"""Infinite classes with an exact list of labelings: thresholds, intervals, halfspaces, committees.

Source: docs/theory/11-invariance.md, "Setting".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.core.class_builders import from_estimators, intervals, thresholds
from counterplay.core.halfspaces import halfspaces_2d
from counterplay.core.validation import BoolArray, FloatArray
from counterplay.errors import InvalidInputError
from counterplay.invariance.classes import HypothesisClass, Member
from counterplay.invariance.errors import ShapeError
from counterplay.invariance.tie_rules import TieRule, WeightedSample


class Thresholds1D(HypothesisClass):
    """Thresholds on the line: 1[x >= a] ("up"), 1[x < a] ("down") or both; points (n, 1).

    Examples
    --------
    >>> Thresholds1D().rows(np.array([[1.0], [2.0]])).shape
    (3, 2)
    """

    def __init__(self, direction: Literal["up", "down", "both"] = "up") -> None:
        self.direction = direction

    def __repr__(self) -> str:
        return f"Thresholds1D({self.direction!r})"

    def rows(self, points: NDArray[Any]) -> BoolArray:
        """All threshold labelings."""
        return thresholds(_line(points), direction=self.direction)[0]


class Intervals1D(HypothesisClass):
    """Closed intervals on the line (and the empty set); points (n, 1).

    Examples
    --------
    >>> len(Intervals1D().rows(np.array([[1.0], [2.0], [3.0]])))
    7
    """

    def __repr__(self) -> str:
        return "Intervals1D()"

    def rows(self, points: NDArray[Any]) -> BoolArray:
        """All interval labelings."""
        return intervals(_line(points))[0]


class Halfspaces2D(HypothesisClass):
    """Affine halfspaces in the plane, exactly; points (n, 2).

    Examples
    --------
    >>> len(Halfspaces2D().rows(np.random.default_rng(0).normal(size=(20, 2))))
    382
    """

    def __repr__(self) -> str:
        return "Halfspaces2D()"

    def rows(self, points: NDArray[Any]) -> BoolArray:
        """All halfspace labelings."""
        if points.ndim != 2 or points.shape[1] != 2:
            raise ShapeError(f"points must have two columns, got shape {points.shape}")
        return halfspaces_2d(points)


class FittedCommittee(HypothesisClass):
    """The class that consists of some fitted classifiers.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> both = [DummyClassifier(strategy="constant", constant=c).fit([[0]] * 2, [0, 1])
    ...         for c in (0, 1)]
    >>> FittedCommittee(both).rows(np.zeros((3, 1))).astype(int)
    array([[0, 0, 0],
           [1, 1, 1]])
    """

    def __init__(self, estimators: Sequence[Any], positive: Any = None) -> None:
        if len(estimators) == 0:
            raise InvalidInputError("estimators must contain at least one fitted classifier")
        self.estimators = tuple(estimators)
        self.positive = positive

    def __repr__(self) -> str:
        return f"FittedCommittee({len(self.estimators)} estimators)"

    def rows(self, points: NDArray[Any]) -> BoolArray:
        """Predictions of every estimator."""
        if len(points) == 0:
            return np.zeros((1, 0), dtype=np.bool_)
        return from_estimators(self.estimators, points, self.positive)

    def fit_member(self, sample: WeightedSample, tie: TieRule) -> Member:
        """The estimator with the smallest weighted error."""
        index = tie.pick(sample.errors(self.rows(sample.points)), self.rows)
        return lambda X: self.rows(X)[index].astype(np.int8)


def _line(points: NDArray[Any]) -> FloatArray:
    array = np.asarray(points, dtype=np.float64)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ShapeError(f"points must be on a line, shape (n, 1), got {array.shape}")
    return array
