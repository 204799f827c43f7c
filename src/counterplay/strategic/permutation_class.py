"""The class behind the lower bounds: basis vectors far away, permutations close to the origin.

Its space has n! points, which are never enumerated: a point is its integer row, and all distances
come from one closed form in integers. A radius that is put exactly on a distance therefore reaches
it, which Euclidean subtraction in floating point does not give ("Radii exactly on a distance" in
docs/theory/02-strategic-finite.md).

Source: Theorem 2.5, Theorem 2.7, see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, IntArray, array_fault, check_int, check_real
from counterplay.errors import InvalidInputError
from counterplay.strategic.classes import HypothesisClass, Members
from counterplay.strategic.metrics import Metric, Points


@checked
class PermutationMetric(Metric):
    """Euclidean distances between the origin, basis vectors and scaled permutations.

    The points are rows of ``n`` integers: a permutation ``c`` of 0..n-1 stands for ``c / z`` with
    ``z = sqrt(0^2 + 1^2 + .. + (n-1)^2) / alpha``, a row of zeros for the origin, and a row with a
    single -1 at position i for the basis vector ``e_i``.

    Parameters
    ----------
    n:
        Dimension, at least 2.
    alpha:
        Norm of the scaled permutations.

    Examples
    --------
    >>> metric = PermutationMetric(3, alpha=0.1)
    >>> metric.pairwise([[0, 1, 2]], [[-1, 0, 0]]).round(4)  # sqrt(1 + alpha^2)
    array([[1.005]])

    References
    ----------
    Theorem 2.5, Theorem 2.7, see docs/theory/02-strategic-finite.md.
    """

    def __init__(self, n: int, alpha: float = 0.1) -> None:
        self.n = check_int(n, "n", low=2, high=1_000_000)
        self.alpha = check_real(alpha, "alpha", low=0.0, high=1.0, open_low=True, open_high=True)
        self.z = math.sqrt(sum(k * k for k in range(self.n))) / self.alpha

    def __repr__(self) -> str:
        return f"PermutationMetric(n={self.n}, alpha={self.alpha:g})"

    def to_basis(self, entries: ArrayLike) -> FloatArray:
        """Return the distance from a scaled permutation to ``e_i``, given its entries ``c_i``."""
        c = np.asarray(entries, dtype=np.float64)
        return np.asarray(np.sqrt(1.0 + self.alpha**2 - 2.0 * c / self.z))

    def check_points(self, points: Points) -> IntArray:
        """Return the points as integer rows, each the origin, a basis vector or a permutation."""
        if fault := array_fault(points, kinds="biuf"):
            raise InvalidInputError(f"points must be rows of {self.n} integers: {fault}")
        p = np.atleast_2d(np.asarray(points))
        if p.ndim != 2 or p.shape[1] != self.n or not np.issubdtype(p.dtype, np.integer):
            raise InvalidInputError(
                f"points must be rows of {self.n} integers, got shape {p.shape} of {p.dtype}"
            )
        return p.astype(np.int64, copy=False)

    def pairwise(self, points: Points, others: Points) -> FloatArray:
        """Return the Euclidean distances."""
        a, b = self.check_points(points), self.check_points(others)
        out = np.empty((a.shape[0], b.shape[0]))
        for j, other in enumerate(b):
            if (other < 0).any():
                out[:, j] = self.distances_to_basis(a, np.flatnonzero(other < 0))[:, 0]
                continue
            at_basis = (a < 0).any(axis=1)
            out[:, j] = np.sqrt(((a - other) ** 2).sum(axis=1)) / self.z
            if at_basis.any():
                where = np.argmin(a[at_basis], axis=1)
                at_origin = not other.any()
                out[at_basis, j] = 1.0 if at_origin else self.to_basis(other[where])
        return out

    def distances_to_basis(self, points: IntArray, members: IntArray | slice) -> FloatArray:
        """Return the distances from checked points to the basis vectors ``members``."""
        c = points[:, members]
        out = self.to_basis(c)
        special = ~(points > 0).any(axis=1)  # the origin or a basis vector
        if special.any():
            rows = points[special]
            at_basis = (rows < 0).any(axis=1, keepdims=True)
            out[special] = np.where(
                at_basis, np.where(rows[:, members] < 0, 0.0, math.sqrt(2.0)), 1.0
            )
        return out


@checked
class PermutationMetricClass(HypothesisClass):
    """Hypothesis ``h_i`` accepts exactly the basis vector ``e_i``; agents sit on permutations.

    Use it through :func:`counterplay.strategic.instances.ProperInstance` and
    :func:`counterplay.strategic.instances.ConservativeInstance`; the n! points of its space are
    never enumerated.

    Parameters
    ----------
    n:
        Number of hypotheses and dimension of the space, at least 2.
    alpha:
        Norm of the points on which agents sit.

    Examples
    --------
    The larger entry i of a permutation is, the closer it is to ``e_i``.

    >>> PermutationMetricClass(3).distances([[0, 1, 2]]).round(3)
    array([[1.005, 0.959, 0.912]])

    References
    ----------
    Theorem 2.5, Theorem 2.7, see docs/theory/02-strategic-finite.md.
    """

    def __init__(self, n: int, alpha: float = 0.1) -> None:
        self.metric: PermutationMetric = PermutationMetric(n, alpha)
        self.n = self.metric.n

    def __repr__(self) -> str:
        return f"PermutationMetricClass(n={self.n}, alpha={self.metric.alpha:g})"

    def check_points(self, points: Points) -> Points:
        """Return the points as integer rows."""
        return self.metric.check_points(points)

    def distances(self, points: Points, members: Members = None) -> FloatArray:
        """Return the distance of every point to the basis vector of every member."""
        chosen = slice(None) if members is None else self.check_members(members)
        return self.metric.distances_to_basis(self.check_points(points), chosen)

    def nearest(self, points: Points, members: ArrayLike) -> Points:
        """Return, for point t, the only point that member ``members[t]`` accepts."""
        chosen = self.check_members(members)
        out = np.zeros((chosen.size, self.n), dtype=np.int64)
        out[np.arange(chosen.size), chosen] = -1
        return out

    def basis(self, members: ArrayLike) -> IntArray:
        """Return the integer rows that stand for the basis vectors ``members``."""
        return self.nearest(np.zeros((0, self.n), dtype=np.int64), members)
