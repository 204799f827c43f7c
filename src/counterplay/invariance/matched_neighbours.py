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
_SLACK = 1e-10  # of product-form distances, relative to squared norms


@dataclass(frozen=True)
class Near:
    """For every row the rows close to it, nearest first; ``starts`` as in a sparse matrix."""

    starts: IntArray
    rows: IntArray
    distances: FloatArray


@dataclass(frozen=True)
class Geometry:
    """Neighbours of natural rows: those within reach of the ball, and the radius of the ball."""

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
    parts, balls = [], []
    for start in range(0, n, _BLOCK):
        rows = features[start : start + _BLOCK]
        squared, slack = _squared(rows, features)
        squared[np.arange(len(rows)), np.arange(start, start + len(rows))] = np.inf
        kth = np.partition(squared, size - 1, axis=1)[:, size - 1]
        limit = _REACH**2 * (kth + slack) + slack
        near = _kept(rows, features, squared, limit, start)
        ball = near.distances[near.starts[:-1] + size - 1]
        parts.append(near)
        balls.append(ball)
    return Geometry(features, _joined(parts), np.concatenate(balls))


def landing(geo: Geometry, moved: FloatArray) -> Near:
    """Rows within the ball of row i around the transformed row g x_i, row i itself left out."""
    parts = []
    for start in range(0, len(moved), _BLOCK):
        rows = moved[start : start + _BLOCK]
        squared, slack = _squared(rows, geo.features)
        squared[np.arange(len(rows)), np.arange(start, start + len(rows))] = np.inf
        limit = (geo.ball[start : start + len(rows)] ** 2) * (1 + _SLACK) + slack
        parts.append(_kept(rows, geo.features, squared, limit, start))
    return _joined(parts)


def match(geo: Geometry, lands: Near, usable: BoolArray, coins: BoolArray, *, far: bool) -> Tuples:
    """Disjoint tuples, greedily from the closest landing on; ``usable`` rows are moved by g."""
    first = np.full(len(usable), np.inf)
    some = np.diff(lands.starts) > 0
    first[some] = lands.distances[lands.starts[:-1][some]]
    order = np.argsort(first, kind="stable")
    order = order[np.isfinite(first[order]) & usable[order]]
    found = _match(
        order, lands.starts, lands.rows, lands.distances, geo.near.starts, geo.near.rows,
        geo.near.distances, geo.ball, coins, far,
    )  # fmt: skip
    return Tuples(*found)


def testable(geo: Geometry, lands: Near, usable: BoolArray) -> float:
    """Share of moved rows whose image lies as close to a row as natural neighbours do."""
    some = (np.diff(lands.starts) > 0) & usable
    place = lands.starts[:-1][some]
    good = lands.distances[place] <= geo.ball[lands.rows[place]]
    return float(good.sum() / max(usable.sum(), 1))


def _squared(rows: FloatArray, others: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Squared distances by products, and how far they may be off, per row."""
    if not max(np.abs(rows).max(initial=0.0), np.abs(others).max(initial=0.0)) < 1e150:
        raise InvalidInputError("distances of such large numbers overflow; scale the columns")
    own, theirs = (rows**2).sum(axis=1), (others**2).sum(axis=1)
    squared = own[:, None] + theirs[None, :] - 2.0 * rows @ others.T
    return squared, _SLACK * (own + theirs.max(initial=0.0))


def _kept(
    rows: FloatArray, others: FloatArray, squared: FloatArray, limit: FloatArray, start: int
) -> Near:
    """Entries below the limit, computed again by differences: equal rows have distance 0."""
    i, j = np.nonzero(squared <= limit[:, None])
    distances = _by_differences(rows, others, i, j)
    order = np.lexsort((j, distances, i))
    starts = np.searchsorted(i[order], np.arange(len(rows) + 1))
    return Near(starts.astype(np.int64), j[order].astype(np.int64), distances[order])


def _joined(parts: list[Near]) -> Near:
    starts = [np.zeros(1, dtype=np.int64)]
    for part in parts:
        starts.append(part.starts[1:] + starts[-1][-1])
    return Near(
        np.concatenate(starts),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.distances for part in parts]),
    )


@njit(cache=True)
def _by_differences(rows, others, i, j):  # type: ignore[no-untyped-def]  # compiled by numba
    # i and j are positions of entries of a (rows, others) matrix, so every index is inside.
    out = np.empty(len(i))
    for e in range(len(i)):
        total = 0.0
        for f in range(rows.shape[1]):
            gap = rows[i[e], f] - others[j[e], f]
            total += gap * gap
        out[e] = np.sqrt(total)
    return out


@njit(cache=True)
def _match(  # type: ignore[no-untyped-def]  # compiled by numba
    order, lands_at, lands, lands_d, near_at, near, near_d, ball, coins, far
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
        e = lands_at[i]
        while e < lands_at[i + 1] and used[lands[e]]:
            e += 1
        if e == lands_at[i + 1]:
            continue
        j, d = lands[e], lands_d[e]
        # As close as natural neighbours are, seen from both ends.
        if d > ball[i] or d > ball[j]:
            continue
        c = i if coins[i] else j
        # The comparison row: the nearest at distance d or more (far), or the nearest (near).
        q = -1
        limit = max(_REACH * d, near_d[near_at[c]])
        for f in range(near_at[c], near_at[c + 1]):
            r = near[f]
            if used[r] or r in (i, j):
                continue
            if far:
                if near_d[f] > limit:
                    break
                if near_d[f] >= d:
                    q = r
                    break
            else:
                if near_d[f] <= d:
                    q = r
                break
        if far and q < 0:
            continue
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
