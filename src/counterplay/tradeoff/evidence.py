"""Evidence that a model's harm exceeds its rate, valid at any time.

Two bets per model on ``1 + (h - c)/2``: one that starts again whenever it has lost money (an
e-CUSUM: on average at least 1/alpha rounds pass before a false alarm), and one that never does
(at most alpha false alarms ever). They are evidence beside the fuse, never the fuse itself.
Source: docs/theory/26-people.md, "Alarms".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.report import plain
from counterplay.core.validation import FloatArray

BET = 0.5
_MEANS = np.linspace(0.0, 1.0, 101)


@checked
@dataclass(frozen=True)
class Alarm:
    """Something a person should know about a model.

    Examples
    --------
    >>> Alarm(120, 3, "taken down", 4.2, "model 3 was taken down").kind
    'taken down'
    """

    round: int
    model: int
    kind: str
    """``"taken down"`` (fuse), ``"change"`` (e-CUSUM) or ``"rate exceeded"``."""
    e_value: float
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        found: dict[str, Any] = plain(self)
        return found


class Evidence:
    """Bets against the claim that the mean harm is at most the rate, for K models.

    Parameters
    ----------
    K:
        Number of models.
    rate:
        Tolerated harm per round.
    alpha:
        Level of the alarms.
    """

    def __init__(self, K: int, rate: float, alpha: float = 0.05) -> None:
        self.rate, self.limit = rate, math.log(1.0 / alpha)
        self.restarting = [0.0] * K  # logarithms
        self.steady = [0.0] * K
        self.grid = np.zeros((K, _MEANS.size))  # bets against every mean, up to what still waits
        self.waiting: list[list[float]] = [[] for _ in range(K)]
        self.fired: list[set[str]] = [set() for _ in range(K)]

    def observe(self, model: int, harm: float) -> list[str]:
        """Take one outcome, in the order of decisions; return the alarms that it raises."""
        gain = math.log1p(BET * (harm - self.rate))
        level = self.restarting[model]
        self.restarting[model] = level = (level if level > 0.0 else 0.0) + gain
        self.steady[model] = steady = self.steady[model] + gain
        self.waiting[model].append(harm)
        if level < self.limit and steady < self.limit:
            return []
        raised, fired = [], self.fired[model]
        for kind, value in (("change", level), ("rate exceeded", steady)):
            if value >= self.limit and kind not in fired:
                fired.add(kind)
                raised.append(kind)
        return raised

    def lowest_mean(self, model: int) -> float:
        """Return the lower end of an anytime-valid confidence sequence of the mean harm."""
        # the bets against 101 means are made when somebody asks, for all outcomes since then
        harm, self.waiting[model] = np.array(self.waiting[model]), []
        for part in np.array_split(harm, 1 + harm.size // 10_000):
            self.grid[model] += np.log1p(BET * (part[:, None] - _MEANS)).sum(axis=0)
        refuted = np.flatnonzero(self.grid[model] >= self.limit)
        return float(_MEANS[refuted.max()]) if refuted.size else 0.0

    def values(self) -> tuple[FloatArray, FloatArray]:
        """Return the e-values of all models: with restarts and without."""
        return np.exp(np.minimum(self.restarting, 700)), np.exp(np.minimum(self.steady, 700))
