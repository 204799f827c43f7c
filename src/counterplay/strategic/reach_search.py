"""Moves that work against any model: copy an accepted person, then undo what is not needed.

Every move found is checked with the model's own ``predict``, so the distance found is a certified
upper bound on the distance to acceptance. It is not claimed to be the shortest.

Source: "The gaming report", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.strategic.metrics import NormMetric

Accepts = Callable[[FloatArray], BoolArray]


def search_moves(
    accepts: Accepts,
    rows: FloatArray,
    pool: FloatArray,
    metric: NormMetric,
    *,
    neighbours: int = 5,
    steps: int = 25,
) -> tuple[FloatArray, FloatArray]:
    """Return the cost of a move to acceptance, and where it leads, for each rejected row.

    Starts from the ``neighbours`` nearest accepted points of the pool, walks back towards the row
    as far as possible, and resets single features. Infinite where nothing was found.
    """
    best = np.full(rows.shape[0], np.inf)
    goals = rows.copy()
    accepted = pool[accepts(pool)] if pool.shape[0] else pool
    if accepted.shape[0] == 0 or rows.shape[0] == 0:
        return best, goals
    movable = np.ones(rows.shape[1], dtype=np.bool_)
    if metric.costs is not None:
        movable = np.isfinite(metric.costs)
    which, end = _candidates(rows, accepted, metric, movable, neighbours)
    works = accepts(end)
    which, end = which[works], end[works]
    if which.size == 0:
        return best, goals
    start = rows[which]
    end = _walk_back(accepts, start, end, steps)
    end = _reset_features(accepts, start, end)
    end = _walk_back(accepts, start, end, steps)
    cost = metric.length(end - start)
    order = np.lexsort((cost, which))  # by row, the cheapest move of each first
    first = order[np.unique(which[order], return_index=True)[1]]
    best[which[first]], goals[which[first]] = cost[first], end[first]
    return best, goals


def _candidates(
    rows: FloatArray, accepted: FloatArray, metric: NormMetric, movable: BoolArray, count: int
) -> tuple[IntArray, FloatArray]:
    """Return row numbers and the rows with the movable features of accepted points copied."""
    k = min(count, accepted.shape[0])
    nearest = np.empty((rows.shape[0], k), dtype=np.int64)
    free = NormMetric(metric.norm, None if metric.costs is None else metric.costs[movable])
    block = max(1, 2_000_000 // accepted.shape[0])
    for start in range(0, rows.shape[0], block):
        part = rows[start : start + block][:, movable]
        d = free.pairwise(part, accepted[:, movable])
        nearest[start : start + block] = np.argpartition(d, k - 1, axis=1)[:, :k]
    which = np.repeat(np.arange(rows.shape[0]), k)
    return which, np.where(movable, accepted[nearest.reshape(-1)], rows[which])


def _walk_back(accepts: Accepts, start: FloatArray, end: FloatArray, steps: int) -> FloatArray:
    """Bisect on the segment; the returned points are accepted."""
    low, high = np.zeros(start.shape[0]), np.ones(start.shape[0])
    for _ in range(steps):
        middle = (low + high) / 2
        works = accepts(start + middle[:, None] * (end - start))
        high = np.where(works, middle, high)
        low = np.where(works, low, middle)
    return np.where((high < 1)[:, None], start + high[:, None] * (end - start), end)


def _reset_features(accepts: Accepts, start: FloatArray, end: FloatArray) -> FloatArray:
    """Undo the change of every feature that is not needed, cheapest changes first."""
    end = end.copy()
    order = np.argsort(np.abs(end - start).mean(axis=0))
    for j in order:
        trial = end.copy()
        trial[:, j] = start[:, j]
        works = accepts(trial)
        end[works] = trial[works]
    return end
