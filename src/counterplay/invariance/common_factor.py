"""Columns that share a unit, multiplied by one factor: cents for euros, inches for centimetres.

Source: docs/theory/22-symmetry.md, "Search with error control".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, IntArray, check_int, check_real
from counterplay.invariance.errors import InfiniteOrbitError, ShapeError
from counterplay.invariance.transformations import byte_keys
from counterplay.invariance.vector_groups import VectorGroup

_DIGITS = 9  # of canonical forms, relative


class CommonFactor(VectorGroup):
    """One positive factor on some columns; never listed. See :func:`groups.common_factor`."""

    uniform = False  # there is no uniform factor

    def __init__(self, n_features: int, columns: Sequence[int], most: float = 2.0) -> None:
        self.n_features = check_int(n_features, "n_features", low=1)
        places = [check_int(j, "columns", low=0, high=n_features - 1) for j in columns]
        if not places or len(set(places)) < len(places):
            raise ShapeError("columns must be different column numbers, at least one")
        self.columns: IntArray = np.array(sorted(places))
        self.most = check_real(most, "most", low=1.0, high=1e6, open_low=True)

    def __repr__(self) -> str:
        return f"CommonFactor(columns={self.columns.tolist()}, most={self.most:g})"

    @property
    def order(self) -> float:
        """Infinite."""
        return math.inf

    def apply(self, X: ArrayLike) -> NDArray[Any]:
        """Not possible: there are infinitely many factors."""
        raise InfiniteOrbitError("factors cannot be listed; use sample(X, n_images)")

    def canonical(self, X: ArrayLike) -> FloatArray:
        """Rows whose largest number in these columns is 1 or -1, to nine digits."""
        rows = self.check_points(X)
        mine = rows[:, self.columns]
        size = np.abs(mine).max(axis=1, keepdims=True)
        rows[:, self.columns] = np.round(mine / np.where(size > 0, size, 1.0), _DIGITS) + 0.0
        return rows

    def orbit_key(self, X: ArrayLike) -> list[Any]:
        """Bytes of the canonical form."""
        return byte_keys(self.canonical(X))

    def sample(self, X: ArrayLike, n_images: int, random_state: RandomState = None) -> FloatArray:
        """Images under random factors between 1/most and most, uniform in their logarithm."""
        rows, rng = self.check_points(X), generator(random_state)
        count = check_int(n_images, "n_images", low=1)
        out = np.repeat(rows[None], count, axis=0)
        out[:, :, self.columns] *= self.most ** rng.uniform(-1, 1, size=(count, 1, 1))
        return out
