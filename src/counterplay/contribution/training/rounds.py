"""What happens inside a round: who draws which points, and how the model is judged.

Draws depend on the key of the run, the party and the round only, so a run is the same alone, in a
batch, or on Flower.
Source: Algorithms C.1 and C.2, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.contribution.training.cohort import Cohort
from counterplay.contribution.training.networks import Network, Params
from counterplay.core.draws import fold, uniforms
from counterplay.federated.loads import Floats, Ints

_BATCH, _EVAL = 301, 304


def minibatch(cohort: Cohort, counts: Ints, round_: int) -> tuple[Ints, NDArray[np.float64]]:
    """Return ``(R, b)`` indices of the points drawn with replacement this round, and weights.

    Parties come in order; runs with fewer points are padded with weight zero. The draw of a party
    depends on the key of the run, the party and the round only.
    """
    runs, k = counts.shape
    width = int(counts.sum(axis=1).max())
    index = np.zeros((runs, width), dtype=np.int64)
    weight = np.zeros((runs, width))
    start = np.zeros(runs, dtype=np.int64)
    rows = np.arange(runs)[:, None]
    for party in range(k):
        most = int(counts[:, party].max())
        if most == 0:
            continue
        draw = party_draw(cohort, party, round_, most)
        inside = np.arange(most) < counts[:, party, None]
        place = (start[:, None] + np.arange(most)).clip(max=width - 1)
        row = np.broadcast_to(rows, inside.shape)[inside]
        index[row, place[inside]] = draw[inside]
        weight[row, place[inside]] = 1.0
        start += counts[:, party]
    return index, weight / weight.sum(axis=1, keepdims=True)


def party_draw(cohort: Cohort, party: int, round_: int, n: int) -> Ints:
    """Return ``(R, n)`` points that a party draws, with replacement, in one round."""
    u = uniforms(fold(cohort.keys, _BATCH, party, round_), n)
    position = (u * cohort.sizes[:, party, None]).astype(np.int64)
    return np.take_along_axis(cohort.train[:, party], position, axis=1)


class Judge:
    """Accuracy of the server model on every party's validation points, all or a fresh part."""

    def __init__(
        self, points: int | None, network: Network, cohort: Cohort, pool: Any, labels: Any
    ) -> None:
        self.network, self.cohort, self.pool, self.labels = network, cohort, pool, labels
        whole = cohort.val.shape[2]
        self.points = whole if points is None else min(points, whole)
        self.fixed = self._gather(cohort.val) if self.points == whole else None

    def accuracy(self, params: Params, t: int) -> Floats:
        """Return ``(R, k)`` accuracies at round ``t``."""
        x, y = self._gather(self._part(t)) if self.fixed is None else self.fixed
        right = self.network.fetch(self.network.correct(params, x, y))
        runs, k = self.cohort.runs, self.cohort.parties
        return np.asarray(right.reshape(runs, k, self.points).mean(axis=2))

    def _part(self, t: int) -> Ints:
        val = self.cohort.val
        order = uniforms(fold(self.cohort.keys, _EVAL, t), val.shape[2]).argsort(axis=1)
        chosen = np.broadcast_to(order[:, None, : self.points], (*val.shape[:2], self.points))
        return np.take_along_axis(val, chosen, axis=2)

    def _gather(self, val: Ints) -> tuple[Any, Any]:
        place = self.network.put(val.reshape(self.cohort.runs, -1))
        return self.pool[place], self.labels[place]
