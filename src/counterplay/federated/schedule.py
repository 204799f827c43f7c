"""Who is asked in a round: a share of the parties, the urgent ones, now and then everybody.

Draws depend on the seed, the round and the sorted names of the parties only, so that the same seed
asks the same parties in this process and on Flower.
Source: Theorem 23.B in docs/theory/23-training.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable

import numpy as np

from counterplay.core.draws import fold, run_keys, uniforms
from counterplay.core.validation import check_int, check_positive_int

_WHO = 701


class Schedule:
    """Draws the parties of every round.

    Parameters
    ----------
    seed:
        Decides who is drawn.
    full_every:
        Everybody is asked in every such round.

    Examples
    --------
    >>> schedule = Schedule(0, full_every=4)
    >>> [len(schedule.draw(range(8), r, 0.25, key=str)) for r in range(1, 6)]
    [2, 2, 2, 8, 2]
    """

    def __init__(self, seed: int = 0, full_every: int = 20) -> None:
        self.key = run_keys(check_int(seed, "seed", low=0), 1)
        self.full_every = check_positive_int(full_every, "full_every")
        self.urgent: set[int] = set()
        self.everybody_next = False

    def draw(
        self,
        nodes: Iterable[int],
        server_round: int,
        fraction: float,
        least: int = 0,
        *,
        key: Callable[[int], object],
        first: Collection[int] = (),
    ) -> list[int]:
        """Return the parties to ask, in the order of ``key``; ``first`` are asked in any case."""
        here = sorted(nodes, key=key)  # type: ignore[arg-type]  # keys of one kind can be compared
        size = max(math.ceil(fraction * len(here)), least)
        if size >= len(here) or self.everybody_next or server_round % self.full_every == 0:
            return here
        must = {node for node in here if node in self.urgent or node in first}
        draw = uniforms(fold(self.key, _WHO, server_round), len(here))[0]
        order = [here[i] for i in np.argsort(draw, kind="stable")]
        more = [node for node in order if node not in must][: max(size - len(must), 0)]
        return sorted(must.union(more), key=here.index)
