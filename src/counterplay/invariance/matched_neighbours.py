"""Tuples of rows that say whether labels change under a map: chosen from features alone.

A transformed row g x is compared with the nearest row y, and the noise of labels at that distance
with a pair of rows that g has nothing to do with. Every row is used at most once and no label is
looked at, so given the features the labels of different tuples are independent.
Source: docs/theory/22-symmetry.md, "The matched-neighbour test".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.errors import InvalidInputError

_BLOCK = 256  # rows whose distances to all others are held at once
_REACH = 1.15  # a comparison pair is at most this much farther apart than the tuple
_LISTED = 128  # neighbours listed per row beyond the ball; farther ones are looked up when needed
_UNIT = 2.0**-24  # rounding of single precision


@dataclass(frozen=True)
class Near:
    """For every row the rows close to it, nearest first; ``starts`` as in a sparse matrix.

    The list of a row is complete up to distance ``whole``; rows beyond it may be missing.
    """

    starts: IntArray
    rows: IntArray
    distances: FloatArray
    whole: FloatArray


@dataclass(frozen=True)
class Geometry:
    """Neighbours of natural rows, and the radius of the ball around each."""

    features: FloatArray
    near: Near
    ball: FloatArray  # distance to the k-th nearest other row


@dataclass(frozen=True)
class Tuples:
    """Rows (i, j, c, q): g x_i lies next to x_j; c is i or j; q is a natural neighbour of c.

    ``q`` is -1 where there is none (near pass only); ``d`` is the distance of g x_i to x_j.
    """

    i: IntArray
    j: IntArray
    c: IntArray
    q: IntArray
    d: FloatArray

    def __len__(self) -> int:
        return len(self.i)


def geometry(features: FloatArray, k: int) -> Geometry:
    """Natural neighbourhoods of rows; ``k`` is at most the number of rows minus one."""
    n = len(features)
    size = min(k, n - 1)
    products = _Products.of(features)
    most = min(size + _LISTED, n - 1)
    parts, balls = [], []
    for start in range(0, n, _BLOCK):
        rows = features[start : start + _BLOCK]
        squared, slack = products.squared(rows, start)
        parted = np.partition(squared, [size - 1, most - 1], axis=1)
        reach = _REACH**2 * (parted[:, size - 1] + slack) + slack
        near = _listed(rows, features, squared, slack, reach, parted[:, most - 1])
        parts.append(near)
        balls.append(near.distances[near.starts[:-1] + size - 1])
    return Geometry(features, _joined(parts), np.concatenate(balls))


def landing(geo: Geometry, moved: FloatArray) -> Near:
    """Rows within the ball of row i around the transformed row g x_i, row i itself left out."""
    products = _Products.of(geo.features)
    most = min(_LISTED, len(moved) - 1)
    parts = []
    for start in range(0, len(moved), _BLOCK):
        rows = moved[start : start + _BLOCK]
        squared, slack = products.squared(rows, start)
        reach = geo.ball[start : start + len(rows)] ** 2 + slack
        last = np.full(len(rows), np.inf)
        many = (squared <= reach[:, None]).sum(axis=1) > most
        last[many] = np.partition(squared[many], most - 1, axis=1)[:, most - 1]
        parts.append(_listed(rows, geo.features, squared, slack, reach, last))
    return _joined(parts)


def match(
    geo: Geometry,
    moved: FloatArray,
    lands: Near,
    usable: BoolArray,
    coins: BoolArray,
    *,
    far: bool,
) -> Tuples:
    """Disjoint tuples, greedily from the closest landing on; ``usable`` rows are moved by g."""
    first = np.full(len(usable), np.inf)
    some = np.diff(lands.starts) > 0
    first[some] = lands.distances[lands.starts[:-1][some]]
    order = np.argsort(first, kind="stable")
    order = order[np.isfinite(first[order]) & usable[order]]
    found = _match(
        order, geo.features, moved, (lands.starts, lands.rows, lands.distances, lands.whole),
        (geo.near.starts, geo.near.rows, geo.near.distances, geo.near.whole), geo.ball, coins, far,
    )  # fmt: skip
    return Tuples(*found)


def testable(geo: Geometry, lands: Near, usable: BoolArray) -> float:
    """Share of moved rows whose image lies as close to a row as natural neighbours do."""
    some = (np.diff(lands.starts) > 0) & usable
    place = lands.starts[:-1][some]
    good = lands.distances[place] <= geo.ball[lands.rows[place]]
    return float(good.sum() / max(usable.sum(), 1))


@dataclass(frozen=True)
class _Products:
    """Squared distances to all rows by products in single precision, and how far off they are.

    They only decide which distances are computed again by differences, so that equal rows are at
    distance 0 and nothing depends on the rounding of products.
    """

    centre: FloatArray
    unit: float
    single: Any  # centred rows in single precision, as columns
    norms: FloatArray

    @staticmethod
    def of(features: FloatArray) -> _Products:
        """Centred rows, scaled so that squares neither overflow nor vanish together."""
        most = np.abs(features).max(initial=0.0)
        if not most < 1e150:
            raise InvalidInputError("distances of such large numbers overflow; scale the columns")
        centre = features.mean(axis=0)
        own = features - centre
        unit = float(np.abs(own).max(initial=0.0)) or 1.0
        own /= unit
        return _Products(centre, unit, own.astype(np.float32).T.copy(), (own**2).sum(axis=1))

    def squared(self, rows: FloatArray, start: int) -> tuple[FloatArray, FloatArray]:
        """Distances of rows ``start``, ``start + 1``, ... (own ones infinite), and their slack."""
        if not np.abs(rows).max(initial=0.0) < 1e150:
            raise InvalidInputError("distances of such large numbers overflow; scale the columns")
        with np.errstate(over="ignore", invalid="ignore"):  # too far away to be listed
            return self._squared((rows - self.centre) / self.unit, start)

    def _squared(self, own: FloatArray, start: int) -> tuple[FloatArray, FloatArray]:
        norms = (own**2).sum(axis=1)
        # Entries and sums of p products are each off by at most a unit of rounding.
        slack = 1.01 * (len(self.centre) + 8) * _UNIT * (norms + self.norms.max(initial=0.0))
        single = np.clip(own, -1e18, 1e18).astype(np.float32)  # squares of single precision
        products = single @ self.single
        squared = (norms[:, None] + self.norms[None, :] - 2.0 * products) * self.unit**2
        squared[np.arange(len(own)), np.arange(start, start + len(own))] = np.inf
        return squared, slack * self.unit**2


def _listed(
    rows: FloatArray,
    others: FloatArray,
    squared: FloatArray,
    slack: FloatArray,
    reach: FloatArray,
    last: FloatArray,
) -> Near:
    """Entries up to ``reach``, but not many more than those up to ``last``; exact distances."""
    limit = np.minimum(reach, last + 2 * slack)
    whole = np.where(limit < reach, np.sqrt(np.maximum(limit - slack, 0.0)), np.inf)
    starts, found, distances = _exact(rows, others, squared, limit)
    return Near(starts, found, distances, whole)


def _joined(parts: list[Near]) -> Near:
    starts = [np.zeros(1, dtype=np.int64)]
    for part in parts:
        starts.append(part.starts[1:] + starts[-1][-1])
    return Near(
        np.concatenate(starts),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.distances for part in parts]),
        np.concatenate([part.whole for part in parts]),
    )


@njit(cache=True)
def _distance(a, b):  # type: ignore[no-untyped-def]  # compiled by numba
    total = 0.0
    for f in range(len(a)):
        gap = a[f] - b[f]
        total += gap * gap
    return np.sqrt(total)


@njit(cache=True)
def _exact(rows, others, squared, limit):  # type: ignore[no-untyped-def]  # compiled by numba
    # How many entries every row keeps.
    n = len(rows)
    starts = np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        kept = 0
        for j in range(len(others)):
            kept += squared[i, j] <= limit[i]
        starts[i + 1] = starts[i] + kept
    found = np.empty(starts[n], dtype=np.int64)
    distances = np.empty(starts[n])
    for i in range(n):
        # Their distances by differences, in the order of rows.
        e = starts[i]
        for j in range(len(others)):
            if squared[i, j] <= limit[i]:
                found[e] = j
                distances[e] = _distance(rows[i], others[j])
                e += 1
        # Nearest first; a stable sort leaves equal distances in the order of rows.
        part = slice(starts[i], starts[i + 1])
        order = np.argsort(distances[part], kind="mergesort")
        found[part] = found[part][order]
        distances[part] = distances[part][order]
    return starts, found, distances


@njit(cache=True)
def _looked_up(point, features, used, i, j, least):  # type: ignore[no-untyped-def]  # compiled
    # The nearest unused row other than i and j at distance ``least`` or more, among all rows.
    best, where = np.inf, -1
    for r in range(len(features)):
        if used[r] or r in (i, j):
            continue
        d = _distance(point, features[r])
        if least <= d < best:
            best, where = d, r
    return where, best


@njit(cache=True)
def _nearest(point, features, near, c, used, i, j, least):  # type: ignore[no-untyped-def]
    # As _looked_up, from the list of row c as far as it is complete.
    starts, rows, distances, whole = near
    for e in range(starts[c], starts[c + 1]):
        if distances[e] >= whole[c]:
            break
        r = rows[e]
        if distances[e] >= least and not used[r] and r not in (i, j):
            return r, distances[e]
    if whole[c] == np.inf:
        return -1, np.inf
    return _looked_up(point, features, used, i, j, least)


@njit(cache=True)
def _match(  # type: ignore[no-untyped-def]  # compiled by numba
    order, features, moved, lands, near, ball, coins, far
):
    n = len(ball)
    used = np.zeros(n, dtype=np.bool_)
    out = np.empty((4, n), dtype=np.int64)
    gaps = np.empty(n)
    m = 0
    for i in order:
        if used[i]:
            continue
        # The nearest row to g x_i that no tuple has used.
        j, d = _nearest(moved[i], features, lands, i, used, i, i, 0.0)
        # As close as natural neighbours are, seen from both ends.
        if j < 0 or d > ball[i] or d > ball[j]:
            continue
        c = i if coins[i] else j
        # The comparison row: the nearest at distance d or more (far), or the nearest (near).
        q, gap = _nearest(features[c], features, near, c, used, i, j, d if far else 0.0)
        if far:
            # Not much farther apart than the tuple, or else as close as anything is.
            if q < 0 or gap > max(_REACH * d, near[2][near[0][c]]):
                continue
        elif gap > d:
            q = -1
        used[i] = used[j] = True
        if q >= 0:
            used[q] = True
        out[0, m], out[1, m], out[2, m], out[3, m], gaps[m] = i, j, c, q, d
        m += 1
    return out[0, :m], out[1, :m], out[2, :m], out[3, :m], gaps[:m]


def one_per_cluster(clusters: Any, rng: np.random.Generator) -> IntArray:
    """One random row of every cluster, in random order: the order of rows may know the labels.

    Examples
    --------
    >>> one_per_cluster(np.array([7, 7, 7]), np.random.default_rng(0)).size
    1
    """
    order = rng.permutation(len(clusters))
    first = np.unique(np.asarray(clusters)[order], return_index=True)[1]
    return np.asarray(order[np.sort(first)], dtype=np.int64)
