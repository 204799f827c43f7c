"""All labelings of a finite set of points by halfspaces.

In the plane the enumeration is exact: every labeling with both labels is found on a line through
two of the points, with the points on that line split at one place. The side of a point is decided
in floating point where rounding cannot matter and with integers of any size where it can, so
collinear and repeated points are handled as they are, without jitter. General position gives
m (m - 1) + 2 labelings. Any dimension: one feasibility LP per candidate labeling.
Source: "Number of planar halfspaces", see docs/theory/06-labeling.md.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.bits import Words, unique_rows, unpack_rows
from counterplay.core.programs import minimize_linear
from counterplay.core.validation import BoolArray, FloatArray, check_float_array, check_size
from counterplay.errors import InvalidInputError

_EPS = 2.0**-53
_FILTER = (3.0 + 16.0 * _EPS) * _EPS  # relative error of the 2x2 determinant (Shewchuk 1997)
_TINY = 1e-280  # below it products may have lost bits to underflow


@checked
def halfspaces_2d(points: ArrayLike) -> BoolArray:
    """All labelings of points in the plane by (affine) halfspaces.

    Rows are ordered by the number of ones, then as binary numbers, so the all-zero labeling is the
    first and the all-one labeling the last row.

    Examples
    --------
    >>> halfspaces_2d([[0, 0], [1, 0], [0, 1], [1, 1]]).shape  # 16 labelings less the two XORs
    (14, 4)
    """
    x = check_float_array(points, "points", ndim=2)
    if x.shape[1] != 2:
        raise InvalidInputError(f"points must have two columns, got {x.shape[1]}")
    if x.shape[0] == 0:
        return np.zeros((1, 0), dtype=np.bool_)
    distinct, position = np.unique(x + 0.0, axis=0, return_inverse=True)  # sorts by (x, y)
    m = distinct.shape[0]
    words = _pair_labelings(distinct)
    words = words[unique_rows(words)[0]]
    rows = unpack_rows(words, m)
    return _by_ones(rows)[:, position.reshape(-1)]


@checked
def halfspaces_lp(points: ArrayLike) -> BoolArray:
    """All labelings of points in any dimension by halfspaces, by linear programs.

    Labelings grow point by point and only feasible ones are kept; meant for up to about 30 points.
    Rows are ordered as in :func:`halfspaces_2d`.

    Examples
    --------
    >>> len(halfspaces_lp([[1, 0], [-1, 0], [0, 1], [0, -1]]))
    14
    """
    x = check_float_array(points, "points", ndim=2)
    check_size(len(x), 1000, "points, several linear programs each,")
    rows = np.zeros((1, 0), dtype=np.bool_)
    for count in range(1, x.shape[0] + 1):
        extended = np.vstack(
            [np.column_stack([rows, np.full(rows.shape[0], label)]) for label in (False, True)]
        )
        feasible = [_separable(x[:count], labels) for labels in extended]
        rows = extended[np.array(feasible, dtype=np.bool_)]
    return _by_ones(rows)


def _by_ones(rows: BoolArray) -> BoolArray:
    """Sort rows by their number of ones, then as binary numbers."""
    packed = np.packbits(rows, axis=1)
    padded = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8))).view(np.dtype(">u8"))
    return rows[np.lexsort((*padded.T[::-1], rows.sum(axis=1)))]


def _separable(x: FloatArray, labels: BoolArray) -> bool:
    if labels.all() or not labels.any():
        return True
    sign = np.where(labels, -1.0, 1.0)
    constraints = sign[:, None] * np.column_stack([x, np.ones(len(x))])
    solved = minimize_linear(
        np.zeros(x.shape[1] + 1),
        A_ub=constraints,
        b_ub=-np.ones(len(x)),
        bounds=(None, None),
        what="the separation program",
        allow=("infeasible",),
    )
    return solved.status == "optimal"


def _pair_labelings(distinct: FloatArray) -> Words:
    """Packed labelings, with repetitions, of lexicographically sorted distinct points."""
    m = distinct.shape[0]
    width = (m + 63) // 64
    constant = np.zeros((2, width), dtype=np.uint64)
    constant[1] = _all_ones(m)
    if m == 1:
        return constant
    small = _small_integers(distinct)
    if small is not None:
        pairs = _integer_pairs(small[:, 0].copy(), small[:, 1].copy(), width)
    else:
        x, y = distinct[:, 0].copy(), distinct[:, 1].copy()
        pairs, unsure = _float_pairs(x, y, width)
        if unsure.shape[0]:
            _settle(pairs, unsure, _big_integers(distinct), m)
    full = _all_ones(m)
    lower = pairs[:, 0] | pairs[:, 1]  # left side and the beginning of the line
    upper = pairs[:, 0] | pairs[:, 2]  # left side and the end of the line
    return np.concatenate([constant, lower, upper, full & ~lower, full & ~upper])


def _all_ones(m: int) -> Words:
    words = np.full((m + 63) // 64, np.uint64(0xFFFFFFFFFFFFFFFF))
    if m % 64:
        words[-1] = np.uint64((1 << (m % 64)) - 1)
    return words


def _big_integers(points: FloatArray) -> NDArray[Any]:
    """Return the coordinates as exact Python ints, all scaled by the same power of two."""
    exact = [[Fraction(value) for value in row] for row in points.tolist()]
    scale = max(value.denominator for row in exact for value in row)
    return np.array([[int(value * scale) for value in row] for row in exact], dtype=object)


def _small_integers(points: FloatArray) -> NDArray[np.int64] | None:
    """Return the coordinates as integers below 2^30 if a power of two makes them such."""
    with np.errstate(over="ignore", invalid="ignore"):
        for shift in (0, 1, 2, 4, 8, 16, 24):
            scaled = points * 2.0**shift
            if np.abs(scaled).max() >= 2.0**30:
                return None
            if (scaled == np.rint(scaled)).all():
                return scaled.astype(np.int64)
    return None


def _settle(pairs: Words, unsure: NDArray[np.int64], exact: NDArray[Any], m: int) -> None:
    """Decide the triples left open by the floating-point filter with exact integers."""
    row, i, j, p = unsure.T
    ax, ay = exact[i, 0], exact[i, 1]
    cross = (exact[j, 0] - ax) * (exact[p, 1] - ay) - (exact[j, 1] - ay) * (exact[p, 0] - ax)
    left = np.array([value > 0 for value in cross], dtype=np.bool_)
    line = np.array([value == 0 for value in cross], dtype=np.bool_)
    bit = np.uint64(1) << (p % 64).astype(np.uint64)
    for part, chosen in ((0, left), (1, line & (p <= i)), (2, line & (p > i))):
        np.bitwise_or.at(pairs, (row[chosen], part, p[chosen] // 64), bit[chosen])


@njit(cache=True)
def _integer_pairs(x, y, width):  # type: ignore[no-untyped-def]  # compiled by numba
    """Per pair i < j, as bit sets: points left of the line, on it up to i, on it after i.

    The points are sorted, so those on the line appear in its order. Coordinates are below 2^30:
    the products fit into 64 bits.
    """
    m = x.size
    pairs = np.zeros((m * (m - 1) // 2, 3, width), dtype=np.uint64)
    row = 0
    for i in range(m):
        for j in range(i + 1, m):
            dx, dy = x[j] - x[i], y[j] - y[i]
            for p in range(m):
                cross = dx * (y[p] - y[i]) - dy * (x[p] - x[i])
                bit = np.uint64(1) << np.uint64(p & 63)
                if cross > 0:
                    pairs[row, 0, p >> 6] |= bit
                elif cross == 0:
                    pairs[row, 1 if p <= i else 2, p >> 6] |= bit
            row += 1
    return pairs


@njit(cache=True)
def _float_pairs(x, y, width):  # type: ignore[no-untyped-def]  # compiled by numba
    """As ``_integer_pairs``, and the (row, i, j, p) whose side rounding could have changed."""
    m = x.size
    pairs = np.zeros((m * (m - 1) // 2, 3, width), dtype=np.uint64)
    unsure = np.empty((1024, 4), dtype=np.int64)
    count = 0
    row = 0
    for i in range(m):
        for j in range(i + 1, m):
            dx, dy = x[j] - x[i], y[j] - y[i]
            for p in range(m):
                bit = np.uint64(1) << np.uint64(p & 63)
                if p == i:
                    pairs[row, 1, p >> 6] |= bit
                    continue
                if p == j:
                    pairs[row, 2, p >> 6] |= bit
                    continue
                # The sign of the determinant is certain when it exceeds its own rounding error.
                first = dx * (y[p] - y[i])
                second = dy * (x[p] - x[i])
                cross = first - second
                size = abs(first) + abs(second)
                if abs(cross) > _FILTER * size and _TINY < size < 1e300:
                    if cross > 0:
                        pairs[row, 0, p >> 6] |= bit
                    continue
                # Left to exact integers; the list doubles when it is full.
                if count == unsure.shape[0]:
                    larger = np.empty((2 * count, 4), dtype=np.int64)
                    larger[:count] = unsure
                    unsure = larger
                unsure[count, 0] = row
                unsure[count, 1] = i
                unsure[count, 2] = j
                unsure[count, 3] = p
                count += 1
            row += 1
    return pairs, unsure[:count]
