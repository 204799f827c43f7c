"""Convex hulls of large planar point sets: most points are thrown away before Qhull sees them.

The hull only saves work, so degenerate inputs may keep more points than needed.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from counterplay.core.validation import FloatArray

_FEW = 48
_MANY = 400
_DIRECTIONS = 16


def hull_points(X: FloatArray) -> FloatArray:
    """Return points of X that include every vertex of its convex hull.

    Examples
    --------
    >>> square = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0.5]] * 99, dtype=float)
    >>> len(hull_points(square))
    4
    """
    points = X
    if len(points) > _MANY:
        points = points[outside_polygon(points)]
    if len(points) <= _FEW:
        return points
    points = np.unique(points, axis=0)
    if len(points) <= _FEW:
        return points
    from scipy.spatial import ConvexHull, QhullError

    try:
        corners: FloatArray = points[ConvexHull(points).vertices]
        return corners
    except QhullError:  # (nearly) collinear: extreme in one of many directions, ends included
        return _extremes(points)


def outside_polygon(points: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Rows that are not strictly inside the polygon of the extremes in 16 directions."""
    angles = 2 * np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
    u = np.column_stack([np.cos(angles), np.sin(angles)])
    corners = points[_support(points, u)]
    edge = np.roll(corners, -1, axis=0) - corners
    keep = np.abs(edge).sum(axis=1) > 0
    if keep.sum() < 3:
        return np.arange(len(points))
    rows: np.ndarray[tuple[int], np.dtype[np.int64]] = _not_inside(
        points, corners[keep], edge[keep]
    )
    return rows


def _extremes(points: FloatArray) -> FloatArray:
    """All points if they are few, else the ends and the outline along the main direction.

    Nearly collinear points have a hull thinner than rounding; only such sets come here.
    """
    if len(points) <= 2000:
        return points
    center = points - points.mean(axis=0)
    along, across = np.linalg.svd(center, full_matrices=False)[2] @ center.T
    order = np.argsort(along)
    rows = {int(order[0]), int(order[-1])}
    for slab in np.array_split(order, 500):
        rows.update((int(slab[across[slab].argmin()]), int(slab[across[slab].argmax()])))
    return points[sorted(rows)]


@njit(cache=True)
def _support(points, u):  # type: ignore[no-untyped-def]  # compiled by numba
    n, k = points.shape[0], u.shape[0]
    best = np.full(k, -np.inf)
    where = np.zeros(k, dtype=np.int64)
    for i in range(n):
        x, y = points[i, 0], points[i, 1]
        for j in range(k):
            value = x * u[j, 0] + y * u[j, 1]
            if value > best[j]:
                best[j] = value
                where[j] = i
    return where


@njit(cache=True)
def _not_inside(points, corners, edge):  # type: ignore[no-untyped-def]  # compiled by numba
    n, k = points.shape[0], corners.shape[0]
    rows = np.empty(n, dtype=np.int64)
    count = 0
    for i in range(n):
        x, y = points[i, 0], points[i, 1]
        inside = True
        for j in range(k):
            side = edge[j, 0] * (y - corners[j, 1]) - edge[j, 1] * (x - corners[j, 0])
            if side <= 1e-14:
                inside = False
                break
        if not inside:
            rows[count] = i
            count += 1
    return rows[:count]
