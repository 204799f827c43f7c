"""How long the stages of gaming take, and how many rows are looked at in one go.

A call of a search reads the model first, whatever its rows; clones that judge are many models. So
rows come in batches that take about as long as the reading does.
"""

from __future__ import annotations

from dataclasses import dataclass

from counterplay.auditing.context import Context
from counterplay.auditing.folds import INNER
from counterplay.auditing.section import Pilot

MANY = 1000  # rows of a batch at most


@dataclass(frozen=True, eq=False)
class Pace:
    """Seconds and batches of the stages, as far as is known when they are asked for.

    Parameters
    ----------
    context
        The audit.
    least
        Rows of a batch at least.
    """

    context: Context
    least: int

    @property
    def clones(self) -> bool:
        """Whether clones will judge; before the rows are tested they may."""
        context = self.context
        open_ = context.rows == "unknown" and "seen" not in context.notes
        return context.cross_fitted or (open_ and context.template is not None)

    @property
    def judges(self) -> int:
        """Models that judge the rows of one batch."""
        return len(self.context.folds) if self.clones else 1

    def fits(self, pilot: Pilot, inner: bool) -> float:
        """Return the seconds of the clones that are not there yet."""
        if not self.clones:
            return 0.0
        n, made = self.context.n, self.context.fits
        train = [len(rows) for rows in self.context.folds.train]
        outer = [pilot.fit(m) for k, m in enumerate(train) if ("model", k, None) not in made]
        if not inner:
            return sum(outer)
        places = [(k, j) for k in range(len(train)) for j in range(INNER)]
        return sum(outer) + sum(
            pilot.fit(min(n, train[k]) * (1 - 1 / INNER))
            for k, j in places
            if ("model", k, j) not in made
        )

    def moves_size(self, pilot: Pilot) -> int:
        """Return the rows of a batch of cheapest moves."""
        return self._even(self.judges * pilot.moves_base, pilot.moves)

    def moves(self, pilot: Pilot, m: int) -> float:
        """Return the seconds of the cheapest moves of so many rows."""
        calls = self.judges * -(-m // self.moves_size(pilot))
        return self.fits(pilot, inner=False) + pilot.search(m, calls)

    def shown_size(self, pilot: Pilot) -> int:
        """Return the rows of a batch of best shown scores."""
        calls, times = self._shown
        return self._even(calls * pilot.shown_base, times * pilot.shown)

    def shown(self, pilot: Pilot, m: int) -> float:
        """Return the seconds of the best shown scores of so many rows."""
        calls, times = self._shown
        read = calls * -(-m // self.shown_size(pilot)) * pilot.shown_base
        return self.fits(pilot, inner=True) + read + times * m * pilot.shown

    def fixed(self, pilot: Pilot, m: int) -> float:
        """Return the seconds of so many folds without movable columns."""
        train = max(len(rows) for rows in self.context.folds.train)
        inside = INNER * pilot.fit(train * (1 - 1 / INNER))
        return m * (inside + pilot.fit(train) + pilot.predict * self.context.n)

    @property
    def _shown(self) -> tuple[int, int]:
        """Calls of a batch, and how often a row is in one: its judge, and inside other folds."""
        k = self.judges
        return (k * (1 + INNER), k) if self.clones else (1, 1)

    def _even(self, base: float, each: float) -> int:
        """Return as many rows as take as long as the calls do without any."""
        return int(min(MANY, max(self.least, base / each if each > 0 else MANY)))
