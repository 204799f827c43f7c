"""The clock of a run: what a stage is given, when it must stop, how large its next batch may be."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from counterplay.auditing.allotment import SPARE, Allotment
from counterplay.auditing.section import Pilot, Stage

SLOWEST = 20.0  # times slower than the pilot that a machine is believed to have become
HALF = 0.5  # share of what is left that the least of a stage may take, whoever comes later
FLOOR = 0.02  # share of the time that a later stage keeps at least, however quick it looked
PRIOR = 0.05  # share of the time whose weight the pilot has against what stages have shown


@dataclass(frozen=True)
class Limits:
    """When a stage must stop.

    Parameters
    ----------
    least
        Until the least that does not mislead is there: later stages, which matter less, keep their
        least or half of what is left.
    more
        Afterwards: later stages keep what was planned for them.
    """

    least: float
    more: float


@dataclass(eq=False)
class Clock:
    """Wall time of a run; what comes after the last batch (results, the page) has a quarter more.

    Parameters
    ----------
    started
        When the run began.
    budget
        Seconds it was given.
    planned
        Seconds that finished stages were expected to take.
    used
        Seconds that they took.
    """

    started: float
    budget: float
    planned: float = 0.0
    used: float = 0.0

    @property
    def end(self) -> float:
        """When the last batch must be done."""
        return self.started + self.budget

    def told(self, planned: float, used: float) -> None:
        """Learn from a finished stage."""
        if planned > 0:
            self.planned, self.used = self.planned + planned, self.used + used

    @property
    def pace(self) -> float:
        """Seconds that an expected second takes, as far as stages have shown."""
        prior = PRIOR * self.budget
        shown = (self.used + prior) / (self.planned + prior)
        return min(SLOWEST, max(0.02, shown))

    def given(
        self, name: str, stages: Mapping[str, Stage], pilot: Pilot, allotted: Allotment
    ) -> int:
        """Return the items of a stage: those planned, more if time is left, fewer if it is not.

        A pilot on a busy machine expects too much, on one that becomes busy too little. What is
        left when a stage begins goes to it, after the least that later stages need at the pace of
        those so far; nothing is begun whose least does not fit.
        """
        stage, pace = stages[name], self.pace
        least = min(stage.n_min, stage.n_want)
        left = self.started + SPARE * self.budget - time.perf_counter()
        if pace * stage.seconds(pilot, least) > left:
            return 0
        names = list(stages)
        others = names[names.index(name) + 1 :]
        owed = {o: stages[o].seconds(pilot, min(stages[o].n_min, stages[o].n_want)) for o in others}
        n, planned = max(allotted.items[name], least), [o for o in others if allotted.items[o]]
        # Later stages keep the least that they were promised.
        free = left - pace * sum(owed[o] for o in planned)
        while n > least and pace * stage.seconds(pilot, n) > free:
            n = max(least, n // 2)
        # What they are not expected to use either is added; some have no chance anyway.
        still = [o for o in others if pace * owed[o] <= left]
        free = left - pace * sum(max(allotted.seconds[o], owed[o]) for o in still)
        while n < stage.n_want:
            twice = min(2 * n, stage.n_want)
            if pace * stage.seconds(pilot, twice) >= free:
                break
            n = twice
        return n

    def missing(self, stage: Stage, pilot: Pilot) -> float:
        """Return the seconds that are missing for the least of a stage."""
        need = self.pace * stage.seconds(pilot, min(stage.n_min, stage.n_want))
        return max(0.0, need - (self.started + SPARE * self.budget - time.perf_counter()))

    def limits(
        self, name: str, stages: Mapping[str, Stage], pilot: Pilot | None, allotted: Allotment
    ) -> Limits:
        """Return when a stage must stop, so that it does not eat the share of later ones.

        If the rest of the plan fits at the pace so far, later stages keep all their seconds; if
        not, what is left is shared out as it was planned.
        """
        now = time.perf_counter()
        left = max(0.0, self.started + SPARE * self.budget - now)
        names = list(stages)
        later = [o for o in names[names.index(name) + 1 :] if allotted.items[o]]

        def least(o: str) -> float:
            if pilot is None:  # an earlier plan goes on
                return max(FLOOR * self.budget, allotted.seconds[o])
            need = stages[o].seconds(pilot, min(stages[o].n_min, stages[o].n_want))
            return max(FLOOR * self.budget, need)

        def until(own: float, others: float) -> float:
            share = left * others / (own + others) if others > 0 else 0.0
            return now + left - min(max(1.0, self.pace) * others, share)

        planned = sum(max(allotted.seconds[o], least(o)) for o in later)
        more = until(max(allotted.seconds[name], least(name)), planned)
        first = until(least(name), sum(map(least, later)))
        return Limits(max(more, first, now + HALF * left), more)


def next_size(size: int, took: float, left: float) -> int:
    """Return the items of the next batch: as before, fewer if they would not end in time.

    Parameters
    ----------
    size
        Items of the last batch.
    took
        Seconds it took.
    left
        Seconds until the limit.

    Examples
    --------
    >>> next_size(40, 2.0, 10.0), next_size(40, 2.0, 1.5), next_size(40, 2.0, 0.5)
    (40, 30, 0)
    """
    if left <= 0:
        return 0
    if took <= left:
        return size
    fewer = math.floor(size * left / took)
    return fewer if 2 * fewer >= size else 0  # a batch has costs that do not shrink
