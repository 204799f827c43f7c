"""Copyable online learners for infinite and structured classes, to be used as experts.

Each is conservative and cheap to copy, and knows its mistake bound. Over finite classes use ``SOA``
and ``Halving``.

Source: "Dimensions", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    array_fault,
    check_float_array,
    check_int,
    check_positive_int,
    check_real,
    check_size,
    shorten,
)
from counterplay.errors import InvalidInputError


@checked
@dataclass(frozen=True, eq=False)
class PerceptronLearner:
    """Halfspaces through the origin with margin ``gamma`` on points of norm at most ``R``.

    The margin must hold on every point that may be fed: whole neighbourhoods, not only originals.

    Examples
    --------
    >>> learner = PerceptronLearner(2, R=1.0, gamma=0.1)
    >>> learner.mistake_bound, learner.updated([1.0, 0.0], 1).predict([[1.0, 0.0]])
    (100.0, array([1], dtype=uint8))
    """

    p: int
    R: float
    gamma: float
    weights: FloatArray | None = None

    def __post_init__(self) -> None:
        check_positive_int(self.p, "p")
        check_real(self.R, "R", low=0.0, open_low=True)
        if not (math.isfinite(self.gamma) and self.gamma > 0):
            raise InvalidInputError(
                "halfspaces without a margin have infinite Littlestone dimension; give gamma > 0, "
                "round to a grid (GridThreshold), or use a finite trace (Halving)"
            )
        check_size(self.p, MOST_BITS, "features")
        weights = np.zeros(self.p) if self.weights is None else self.weights
        weights = check_float_array(weights, "weights", ndim=1)
        if weights.size != self.p:
            raise InvalidInputError(f"there are {self.p} features but {weights.size} weights")
        object.__setattr__(self, "weights", weights)

    @property
    def mistake_bound(self) -> float:
        """(R / gamma)^2."""
        return round((self.R / self.gamma) ** 2, 9)

    def predict(self, Z: Any) -> Any:
        """Accept points with positive score."""
        assert self.weights is not None
        return (_rows(Z, self.p) @ self.weights > 0).astype(np.uint8)

    def updated(self, z: Any, y: int) -> PerceptronLearner:
        """Add or subtract the point on a mistake."""
        check_int(y, "y", low=0, high=1)
        if int(self.predict(z)[0]) == y:
            return self
        assert self.weights is not None
        sign = 1.0 if y else -1.0
        return replace(self, weights=self.weights + sign * _rows(z, self.p)[0])

    def key(self) -> Hashable:
        """The weight vector."""
        assert self.weights is not None
        return self.weights.tobytes()

    def is_dead(self) -> bool:
        """Never known to be contradicted."""
        return False


@checked
@dataclass(frozen=True)
class WinnowLearner:
    """Monotone disjunctions of ``r`` out of ``p`` bits, by multiplicative weights.

    Examples
    --------
    >>> learner = WinnowLearner(8, r=1)
    >>> learner.predict([[1, 0, 0, 0, 0, 0, 0, 0]]), round(learner.mistake_bound, 1)
    (array([0], dtype=uint8), 8.0)
    """

    p: int
    r: int
    weights: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_positive_int(self.p, "p")
        check_positive_int(self.r, "r")
        check_size(self.p, MOST_BITS, "bits")
        if len(self.weights) == 0:
            object.__setattr__(self, "weights", (0,) * self.p)
        if len(self.weights) != self.p or max(self.weights) > 1000:
            raise InvalidInputError(
                f"weights must be {self.p} exponents of at most 1000, got {len(self.weights)}"
            )

    @property
    def mistake_bound(self) -> float:
        """2 r (log2 theta + 1) + p / theta (Littlestone 1988, Winnow1 with factor 2)."""
        return 2 * self.r * (math.log2(self._theta) + 1) + self.p / self._theta

    @property
    def _theta(self) -> float:
        return max(1.0, self.p / 2)

    def predict(self, Z: Any) -> Any:
        """Accept when the weights (powers of two) of the set bits reach p / 2."""
        bits = _rows(Z, self.p)
        powers = np.array([0.0 if w < 0 else 2.0**w for w in self.weights])
        return (bits @ powers >= self._theta).astype(np.uint8)

    def updated(self, z: Any, y: int) -> WinnowLearner:
        """Double the weights of set bits on a false no, drop them on a false yes."""
        check_int(y, "y", low=0, high=1)
        if int(self.predict(z)[0]) == y:
            return self
        bits = _rows(z, self.p)[0] > 0
        new = [
            w if not bit else (-1 if y == 0 or w < 0 else w + 1)
            for w, bit in zip(self.weights, bits)
        ]
        return replace(self, weights=tuple(new))

    def key(self) -> Hashable:
        """The exponents."""
        return self.weights

    def is_dead(self) -> bool:
        """No literal is left."""
        return all(w < 0 for w in self.weights)


@checked
@dataclass(frozen=True)
class DisjunctionElimination:
    """Monotone disjunctions over ``p`` bits: drop the literals that a negative point sets.

    Examples
    --------
    >>> DisjunctionElimination(3).updated([1, 0, 0], 0).predict([[1, 0, 0], [0, 1, 0]])
    array([0, 1], dtype=uint8)
    """

    p: int
    alive: tuple[bool, ...] = ()
    contradicted: bool = False

    def __post_init__(self) -> None:
        check_positive_int(self.p, "p")
        check_size(self.p, MOST_BITS, "bits")
        if len(self.alive) == 0:
            object.__setattr__(self, "alive", (True,) * self.p)
        if len(self.alive) != self.p:
            raise InvalidInputError(f"there are {self.p} bits but {len(self.alive)} literals")

    @property
    def mistake_bound(self) -> float:
        """p."""
        return float(self.p)

    def predict(self, Z: Any) -> Any:
        """Accept when a literal that is left is set."""
        bits = _rows(Z, self.p) > 0
        return (bits & np.array(self.alive)).any(axis=1).astype(np.uint8)

    def updated(self, z: Any, y: int) -> DisjunctionElimination:
        """Drop literals on a false yes; a false no contradicts the class."""
        check_int(y, "y", low=0, high=1)
        if int(self.predict(z)[0]) == y:
            return self
        if y == 1:
            return replace(self, contradicted=True)
        bits = _rows(z, self.p)[0] > 0
        return replace(self, alive=tuple(a and not bool(b) for a, b in zip(self.alive, bits)))

    def key(self) -> Hashable:
        """The literals that are left."""
        return self.alive, self.contradicted

    def is_dead(self) -> bool:
        """A positive point set no literal that is left."""
        return self.contradicted


@checked
@dataclass(frozen=True)
class SingletonLearner:
    """Rules that accept exactly one point: reject everything until a positive one is seen.

    Examples
    --------
    >>> SingletonLearner().updated(3, 1).predict([2, 3])
    array([0, 1], dtype=uint8)
    """

    point: Any = None
    contradicted: bool = False

    def __post_init__(self) -> None:
        cells = self.point if isinstance(self.point, tuple) else (self.point,)
        if not all(cell is None or np.isscalar(cell) for cell in cells):
            raise InvalidInputError(
                f"point must be a number, a text or a tuple of them, got {shorten(self.point, 100)}"
            )

    @property
    def mistake_bound(self) -> float:
        """One."""
        return 1.0

    def predict(self, Z: Any) -> Any:
        """Accept the known point only."""
        if fault := array_fault(Z, kinds="biufUO"):
            raise InvalidInputError(f"points must be a list or a table: {fault}")
        points = np.asarray(Z)
        if points.ndim == 2:
            labels = [self.point is not None and tuple(row) == self.point for row in points]
        else:
            labels = [
                self.point is not None and item == self.point for item in np.atleast_1d(points)
            ]
        return np.array(labels, dtype=np.uint8)

    def updated(self, z: Any, y: int) -> SingletonLearner:
        """Remember the first positive point; anything else is a contradiction."""
        check_int(y, "y", low=0, high=1)
        if fault := array_fault(z, kinds="biufU"):
            raise InvalidInputError(f"z must be one point: {fault}")
        point = tuple(np.asarray(z).tolist()) if np.ndim(z) == 1 else z
        seen = SingletonLearner(point)  # refuses what is no point
        if int(self.point == point) == y:
            return self
        if y == 1 and self.point is None:
            return seen
        return replace(self, contradicted=True)

    def key(self) -> Hashable:
        """The point."""
        return self.point, self.contradicted

    def is_dead(self) -> bool:
        """Two positive points, or a positive one that became negative."""
        return self.contradicted


@checked
@dataclass(frozen=True)
class GridThreshold:
    """Thresholds z >= b on the grid 0, 1, ..., N - 1, by bisection.

    Examples
    --------
    >>> GridThreshold(7).mistake_bound
    3.0
    """

    N: int
    low: int = 0
    high: int = -1
    """The threshold lies in [low, high]."""

    def __post_init__(self) -> None:
        check_positive_int(self.N, "N")
        if self.high == -1:
            object.__setattr__(self, "high", self.N)

    @property
    def mistake_bound(self) -> float:
        """floor(log2(N + 1))."""
        return float((self.N + 1).bit_length() - 1)

    def predict(self, Z: Any) -> Any:
        """Accept from the middle of the remaining thresholds on."""
        cut = (self.low + self.high + 1) // 2
        return (check_float_array(Z, "points").reshape(-1) >= cut).astype(np.uint8)

    def updated(self, z: Any, y: int) -> GridThreshold:
        """Keep the half of the thresholds that agrees."""
        check_int(y, "y", low=0, high=1)
        _single(z)
        if int(self.predict(z)[0]) == y:
            return self
        value = int(_single(z))
        if y == 1:
            return replace(self, high=min(self.high, value))
        return replace(self, low=max(self.low, value + 1))

    def key(self) -> Hashable:
        """The remaining thresholds."""
        return self.low, self.high

    def is_dead(self) -> bool:
        """No threshold is left."""
        return self.low > self.high


MOST_BITS = 10_000_000


def _single(z: Any) -> float:
    """Return the one number of a point on the grid."""
    values = check_float_array(z, "z").reshape(-1)
    if values.size != 1:
        raise InvalidInputError(f"z must be one number, got {values.size}")
    return float(values[0])


def _rows(Z: Any, width: int) -> FloatArray:
    """Return points as rows of ``width`` numbers; a single point is one row."""
    rows = np.atleast_2d(check_float_array(Z, "points"))
    if rows.ndim != 2 or rows.shape[1] != width:
        raise InvalidInputError(f"points must have {width} features, got shape {rows.shape}")
    return rows
