"""Remove from a vector everything that lies in the span of given rows, to machine precision.

The no-defection argument needs ``|<G_n, u>| <= 1e-12 |G_n| |u|`` also for nearly parallel rows.
The Gram matrix gives the bulk of the projection cheaply; the few directions that it cannot resolve
are formed as vectors and removed one by one.
Source: docs/theory/05-defection.md, "ADA-GD (Algorithm 5.2)".
"""

from __future__ import annotations

import math

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.federated.stack import Stack, Vector

RESOLVED = 1e-8  # eigenvalue of the normalised Gram matrix that it resolves well
RANK = 1e-10  # relative singular value below which a direction is rounding


def project_out(rows: Stack, vector: Vector) -> Vector:
    """Return the part of ``vector`` orthogonal to the span of ``rows``.

    Examples
    --------
    >>> from counterplay.federated.stack import NumpyStack
    >>> project_out(NumpyStack([[1.0, -1.0]]), np.array([0.0, 1.0])).tolist()
    [0.5, 0.5]
    """
    if len(rows) == 1:
        return _project_out_one(rows, vector)
    gram = rows.gram()
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    # Powers of two normalise without rounding, so that exact inputs give exact projections.
    scale = np.exp2(-np.frexp(norms)[1]) * (norms > 0.0)
    values, basis = np.linalg.eigh(gram * np.outer(scale, scale))
    good = values > RESOLVED * max(float(values[-1]), 0.0)
    inverse = (basis[:, good] / values[good]) @ basis[:, good].T
    span = _Span(rows, scale, inverse)
    for j in np.flatnonzero(~good):
        span.try_direction(basis[:, j])
    return span.remove(vector)


def _project_out_one(rows: Stack, vector: Vector) -> Vector:
    """The common case of a single row, without a decomposition."""
    square = float(rows.gram()[0, 0])
    if square > 0.0:
        for _ in range(2):
            vector = vector - rows.combine(rows.inner(vector) / square)
    return vector


class _Span:
    """The span of scaled rows: a well-conditioned part and a list of leftover unit vectors."""

    def __init__(self, rows: Stack, scale: FloatArray, inverse: FloatArray) -> None:
        self.rows, self.scale, self.inverse = rows, scale, inverse
        self.extra: list[Vector] = []

    def remove(self, vector: Vector) -> Vector:
        """Subtract the projection twice: once is not enough in floating point."""
        for _ in range(2):
            coefficients = self.inverse @ (self.rows.inner(vector) * self.scale)
            vector = vector - self.rows.combine(coefficients * self.scale)
            for q in self.extra:
                vector = vector - q * self.rows.dot(q, vector)
        return vector

    def try_direction(self, combination: FloatArray) -> None:
        """Add a weak direction of the span unless it is only rounding."""
        vector = self.remove(self.rows.combine(combination * self.scale))
        size = math.sqrt(self.rows.dot(vector, vector))
        if size > RANK:
            vector = self.remove(vector * (1.0 / size))
            self.extra.append(vector * (1.0 / math.sqrt(self.rows.dot(vector, vector))))
