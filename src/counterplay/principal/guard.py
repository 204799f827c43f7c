"""The guard: a base forecast is used until it has really used up a budget of the potential.

Before a forecast of the base is used, the exact change of the potential is known for every outcome.
It is accepted if the changes of all accepted rounds so far, plus the largest change now, stay below
the budget. Nothing else is asked of the base, so a good one is kept bit for bit.
Source: Proposition 25.E, see docs/theory/25-offers.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.principal.potential import Potential


class Guard:
    """The account of a base: what its rounds have added to the potential."""

    def __init__(self, potential: Potential, budget: float) -> None:
        self.potential = potential
        self.limit = budget * potential.start
        self.account = 0.0
        self.kept = 0

    def accepts(self, active: Sequence[Sequence[int]], points: FloatArray) -> bool:
        """Whether the base may forecast ``points`` while these events are active, row by row."""
        return self.account + largest_change(self.potential, active, points) <= self.limit

    def settle(self, change: float) -> None:
        """Book what an accepted round has really added."""
        self.account += change
        self.kept += 1


def largest_change(
    potential: Potential, active: Sequence[Sequence[int]], points: FloatArray
) -> float:
    """Largest change of the potential over all outcomes of one round, or a bound of it.

    One row: exact, the outcome is the same for all its events. Several rows that become known
    together: the largest change over all vectors of counts, for every event alone, added up.
    """
    rows: dict[int, list[int]] = {}
    for t, events in enumerate(active):
        for event in events:
            rows.setdefault(event, []).append(t)
    events = list(rows)
    if len(points) == 1:
        tables = potential.changes(events, np.repeat(points, len(events), axis=0), 1)
        base = tables[:, :, 0].sum()
        return float(base + (tables[:, :, 1] - tables[:, :, 0]).sum(axis=0).max())
    sums = np.stack([points[mine].sum(axis=0) for mine in rows.values()])
    tables = potential.changes(events, sums, len(points))
    counts = [len(mine) for mine in rows.values()]
    return sum(_best_counts(table[:, : d + 1]) for table, d in zip(tables, counts))


def _best_counts(table: FloatArray) -> float:
    """Largest sum of table[j, c_j] over counts c_j >= 0 that sum to the number of rows."""
    best = table[0]  # best[d]: the first outcomes have happened d times
    for row in table[1:]:
        longer = np.full(best.size, -np.inf)
        for d in range(best.size):
            longer[d] = (best[: d + 1] + row[d::-1]).max()
        best = longer
    return float(best[-1])
