"""The rows of a report of metrics: one per budget, metric, class and group.

Source: docs/theory/21-sources.md, "Certified metrics".
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from counterplay.core.stats import clopper_pearson
from counterplay.core.validation import BoolArray, IntArray
from counterplay.poisoning.ballots import (
    METRICS,
    Ballots,
    lost,
    mean_after,
    metric_value,
    ratio,
)
from counterplay.poisoning.collective import Collective

_CONFIDENCE = 0.95
Line = dict[str, Any]


@dataclass(frozen=True, eq=False)
class MetricTable:
    """What the lines of a report have in common.

    Parameters
    ----------
    levels
        Budgets, ascending.
    cost
        Blocks that one unit of a budget can touch.
    most
        Blocks beyond which nothing is certified.
    classes
        The classes.
    codes
        Positions of the classes that are asked about.
    seconds
        Time for collective bounds; None for certificates per point.
    means
        Whether means over the classes are wanted.
    """

    levels: list[int]
    cost: int
    most: int
    classes: tuple[Any, ...]
    codes: list[int]
    seconds: float | None = None
    means: bool = False

    def lines(self, b: Ballots, group: Any) -> list[Line]:
        """Lines of a group of rows, with means over classes if there is no positive class."""
        asked = [("accuracy", 0), *((m, c) for c in self.codes for m in METRICS[1:])]
        hits = {t: b.reachable(self.cost * t, self.most) for t in self.levels}
        sets = [_nested(b, code, self.cost * max(self.levels)) for code in (None, *self.codes)]
        until = None if self.seconds is None else time.monotonic() + self.seconds
        left = len(asked) * len(self.levels)
        found: list[Line] = []
        for metric, code in asked:
            pairs = []
            for t in self.levels:
                low = metric_value(metric, b, code, hits[t])
                high = self._attained(metric, b, code, sets, t)
                if until is not None and self.cost * t <= self.most:
                    share = max(0.1, (until - time.monotonic()) / left)
                    low, high = _closed_in(metric, b, code, self.cost * t, low, high, share)
                left -= 1
                pairs.append((low, high))
            lows = np.maximum.accumulate([low for low, _ in pairs][::-1])[::-1]
            highs = np.minimum.accumulate([high for _, high in pairs])
            for t, low, high in zip(self.levels, lows.tolist(), highs.tolist()):
                label = "all" if metric == "accuracy" else self.classes[code]
                span = self._interval(metric, b, code, t, hits[t], low)
                found.append(_line(t, metric, label, group, low, high, *span))
        return found + (self._means(b, found, sets, group) if self.means else [])

    def _attained(
        self, metric: str, b: Ballots, code: int, sets: list[list[BoolArray]], t: int
    ) -> float:
        """The smallest value that one of the nested sets reaches."""
        return min(metric_value(metric, b, code, hit) for hit in self._flipped(b, sets, t))

    def _flipped(self, b: Ballots, sets: list[list[BoolArray]], t: int) -> list[BoolArray]:
        """What the largest of the nested sets within a budget can flip."""
        return [b.flips(order[min(self.cost * t, len(order) - 1)]) for order in sets]

    def _interval(
        self, metric: str, b: Ballots, code: int, t: int, hit: BoolArray, low: float
    ) -> tuple[float, float]:
        """Exact interval over test rows; for collective accuracy its lower end alone.

        A certificate per point is a property of each row, so a metric that is a share of rows has
        an ordinary interval. A collective number speaks about the worst of many sets of blocks, and
        the interval allows for all of them.
        """
        if self.seconds is None:
            if metric == "accuracy":
                kept = int(((b.truth == b.winner) & ~hit.any(axis=1)).sum())
                return _exact(kept, len(b.truth))
            if metric == "f1":
                return math.nan, math.nan
            return _exact(*ratio(metric, b, code, *lost(b, code, hit)))
        if metric != "accuracy" or not len(b.truth):
            return math.nan, math.nan
        sets = sum(math.comb(b.parts, s) for s in range(min(self.cost * t, b.parts) + 1))
        kept, n = round(low * len(b.truth)), len(b.truth)
        level = (1 - _CONFIDENCE) / sets
        return (float(stats.beta.ppf(level, kept, n - kept + 1)) if kept else 0.0), math.nan

    def _means(
        self, b: Ballots, lines: list[Line], sets: list[list[BoolArray]], group: Any
    ) -> list[Line]:
        """Mean over the classes, per budget and metric.

        The mean of certified values is certified. What is attained is the mean after one set: the
        worst sets of the classes are different ones.
        """
        found = []
        for metric in METRICS[1:]:
            high = 1.0
            for t in self.levels:
                rows = [r for r in lines if r["budget"] == t and r["metric"] == metric]
                low = sum(r["certified"] for r in rows) / len(rows)
                flipped = self._flipped(b, sets, t)
                high = min(high, *(mean_after(metric, b, hit) for hit in flipped))
                found.append(_line(t, metric, "all", group, low, high, math.nan, math.nan))
        return found


def _line(
    t: int, metric: str, label: Any, group: Any, low: float, high: float, *span: float
) -> Line:
    return {
        "budget": t, "metric": metric, "class": label, "group": group, "certified": low,
        "attained": max(low, high), "low": span[0], "high": span[1],
    }  # fmt: skip


def _exact(hits: int, n: int) -> tuple[float, float]:
    if n == 0:
        return 0.0, 1.0
    span = clopper_pearson(hits, n)
    return span.low, span.high


def _closed_in(
    metric: str, b: Ballots, code: int, parts: int, low: float, high: float, seconds: float
) -> tuple[float, float]:
    """Bracket of a metric against one set of parts: relaxations first, then branch and bound."""
    game = Collective.of(metric, b, code, parts)
    until = time.monotonic() + seconds
    high = min(high, game.attained(high), game.attained(low))
    for method in ("pairs", "linear", "integer"):
        left = until - time.monotonic()
        if high - low < 1e-9 or left <= 0:
            break
        low, high = game.certified(low, high, method, left)
    return low, high


def _nested(b: Ballots, code: int | None, most: int) -> list[BoolArray]:
    """Nested sets of parts, each one part larger: the part that helps the most flips first."""
    chosen = np.zeros(b.parts, dtype=bool)
    sets = [chosen.copy()]
    right = b.truth == b.winner
    known = range(b.needed.shape[1])
    gains = {c: b.gain(c) for c in known}
    needs: dict[int, IntArray] = {c: b.need(c) for c in known}
    for _ in range(min(most, b.parts)):
        score = np.zeros(b.parts)
        models = b.touched(chosen)
        for c in known:
            wanted = right & (b.winner != c)
            if code is not None:  # only what counts for this class
                wanted = wanted & ((b.truth == code) | (c == code))
            left = needs[c] - models @ gains[c]
            open_ = (left > 0) & wanted
            worth = np.where(open_, 1 / np.maximum(left, 1) ** 2, 0).astype(np.float32)
            score += b.uses.T @ ((gains[c] * (1 - models)[:, None]) @ worth)
        score[chosen] = -1
        chosen[int(np.argmax(score))] = True
        sets.append(chosen.copy())
    return sets
