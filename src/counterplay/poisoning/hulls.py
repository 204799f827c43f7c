"""Convex hulls of large planar point sets: most points are thrown away before the chain sees them.

The hull only saves work. Points are thrown away where rounding cannot matter, so every vertex is
kept, and degenerate inputs keep more points than needed.
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
    points = np.unique(points, axis=0)  # sorted by both coordinates
    if len(points) <= _FEW:
        return points
    corners: FloatArray = points[_chain(points)]
    return corners


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
        points, corners[keep], edge[keep], 1e-14 * float(np.abs(points).max()) ** 2
    )
    return rows


@njit(cache=True)
def _support(points, u):  # type: ignore[no-untyped-def]  # compiled by numba
    n, k = points.shape[0], u.shape[0]
    best = np.full(k, -np.inf)
    where = np.zeros(k, dtype=np.int64)
    for i in range(n):
        x, y = points[i, 0], points[i, 1]
        for j in range(k):
            # The farthest point in direction u_j; the first one on ties.
            value = x * u[j, 0] + y * u[j, 1]
            if value > best[j]:
                best[j] = value
                where[j] = i
    return where


@njit(cache=True)
def _not_inside(points, corners, edge, rounding):  # type: ignore[no-untyped-def]  # compiled by numba
    n, k = points.shape[0], corners.shape[0]
    rows = np.empty(n, dtype=np.int64)
    count = 0
    for i in range(n):
        x, y = points[i, 0], points[i, 1]
        inside = True
        for j in range(k):
            # Surely left of the edge only if the cross product exceeds what rounding can make.
            side = edge[j, 0] * (y - corners[j, 1]) - edge[j, 1] * (x - corners[j, 0])
            if side <= rounding:
                inside = False
                break
        if not inside:  # keep in doubt: a dropped corner would be an error, a kept row is not
            rows[count] = i
            count += 1
    return rows[:count]


@njit(cache=True)
def _chain(points):  # type: ignore[no-untyped-def]  # compiled by numba
    """Lower and upper chain of sorted points (Andrew 1979), dropping only what is surely inside."""
    n = points.shape[0]
    kept = np.zeros(n, dtype=np.bool_)
    stack = np.empty(n, dtype=np.int64)
    for sign in (1.0, -1.0):  # lower chain, then upper
        top = 0
        for i in range(n):
            while top > 1:
                a, b = stack[top - 2], stack[top - 1]
                # Cross product (b - a) x (i - a): its sign says on which side of a to b lies i.
                first = (points[b, 0] - points[a, 0]) * (points[i, 1] - points[a, 1])
                second = (points[b, 1] - points[a, 1]) * (points[i, 0] - points[a, 0])
                if sign * (first - second) >= -1e-15 * (abs(first) + abs(second)) - 1e-280:
                    break  # a turn outwards, or too close to call: b stays
                top -= 1  # b is on the inner side of the segment from a to i
            stack[top] = i
            top += 1
        kept[stack[:top]] = True
    return np.flatnonzero(kept)
