"""How the time of an audit is shared out among its stages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from counterplay.auditing.section import Pilot, Stage

CHEAP = 0.005  # share of the time below which a stage is done in full before others get more
SPARE = 0.9  # share of the time that is planned; the rest is for results and the page


@dataclass(frozen=True)
class Allotment:
    """Items and seconds of every stage.

    Parameters
    ----------
    items
        Items planned, by ``"section.stage"``.
    seconds
        Seconds expected for them.
    short
        Seconds that are missing for the least, where a stage does not fit.
    """

    items: dict[str, int]
    seconds: dict[str, float]
    short: dict[str, float]

    def sentence(self, budget: float) -> str:
        """Say what will be done in the time."""
        total = sum(self.seconds.values())
        text = f"Plan: about {total:.0f} s of {budget:.0f} s for {len(self.items)} stages"
        if self.short:
            left = ", ".join(f"{name} (about {s:.0f} s more)" for name, s in self.short.items())
            text += f"; not done: {left}"
        return text + "."


def allot(stages: Mapping[str, Stage], pilot: Pilot, budget: float) -> Allotment:
    """Give every stage its least in order, then double those with the widest intervals.

    Parameters
    ----------
    stages
        Stages in order of priority, by ``"section.stage"``.
    pilot
        Seconds measured before.
    budget
        Seconds that are left.

    Examples
    --------
    >>> stage = Stage(name="s", items=400, n_min=100, n_want=400, seconds=lambda p, n: n / 100,
    ...               run=lambda context, items: [])
    >>> allot({"a.s": stage, "b.s": stage}, Pilot(), 4 / 0.9).items
    {'a.s': 200, 'b.s': 200}
    """
    left = SPARE * budget
    items, seconds, short = dict.fromkeys(stages, 0), dict.fromkeys(stages, 0.0), {}
    for name, stage in stages.items():
        least = min(stage.n_min, stage.n_want)
        need = stage.seconds(pilot, least)
        if need <= left:
            items[name], seconds[name] = least, need
            left -= need
        else:
            short[name] = need - left
    for name, stage in stages.items():  # what costs next to nothing is done in full
        full = stage.seconds(pilot, stage.n_want)
        if items[name] and full - seconds[name] <= min(CHEAP * budget, left):
            left -= full - seconds[name]
            items[name], seconds[name] = stage.n_want, full
    open_ = {name for name in stages if items[name] and items[name] < stages[name].n_want}
    while open_:
        widest = max(sorted(open_), key=lambda name: stages[name].value / math.sqrt(items[name]))
        stage, n = stages[widest], items[widest]
        more = min(2 * n, stage.n_want)
        spent = seconds[widest]
        while more > n and stage.seconds(pilot, more) - spent > left:
            more = n + (more - n) // 2  # as many as fit
        if more == n:
            open_.discard(widest)
            continue
        if more < min(2 * n, stage.n_want) or more == stage.n_want:
            open_.discard(widest)
        cost = stage.seconds(pilot, more)
        left -= cost - spent
        items[widest], seconds[widest] = more, cost
    return Allotment(items, seconds, short)
