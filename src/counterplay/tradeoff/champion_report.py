"""What ``ChampionChallenger`` reports: numbers, text, table and the dashboard figure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.online.state import Stateful
from counterplay.core.online.stored import require
from counterplay.core.report import Report, plural
from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.tables.cells import shown
from counterplay.tradeoff.oracle import Deactivation

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_POINTS = 512
_COLUMNS = 5  # round, champion's primary loss and harm, best model's primary loss, bound


class Trace(Stateful):
    """A curve kept with at most 512 points, however long the stream.

    Every ``stride``-th round is kept; when the memory is full, every second point is dropped and
    the stride doubles. The last round is always there.
    """

    _state: ClassVar[tuple[str, ...]] = ("stride", "points")

    def __init__(self) -> None:
        self.stride = 1
        self.points: list[list[float | None]] = []

    def add(self, round_number: int, values: tuple[float, ...], *, last: bool) -> None:
        """Record the values after a round; an infinite one is kept as None."""
        if round_number % self.stride and not last:
            return
        kept = [float(value) if math.isfinite(value) else None for value in values]
        self.points.append([float(round_number), *kept])
        if len(self.points) > _MOST_POINTS:
            self.stride *= 2
            self.points = [p for p in self.points if p[0] is not None and p[0] % self.stride == 0]

    def _check_state(self) -> None:
        power = type(self.stride) is int and self.stride > 0 and self.stride.bit_count() == 1
        require(power, self, "stride", "must be a power of two")
        listed = type(self.points) is list and len(self.points) <= _MOST_POINTS
        require(listed, self, "points", f"must be a list of at most {_MOST_POINTS} points")
        for point in self.points:
            typed = type(point) is list and len(point) == _COLUMNS
            typed = typed and all(type(value) is float for value in point[:-1])
            typed = typed and (point[-1] is None or type(point[-1]) is float)
            require(typed, self, "points", f"must be lists of {_COLUMNS} numbers")
        array = self.to_array()
        require(bool(np.isfinite(array[:, :-1]).all()), self, "points", "must be finite")
        require(bool((array >= 0).all()), self, "points", "must not be negative")
        rises = bool((array[1:] >= array[:-1] - 1e-9).all() and (np.diff(array[:, 0]) > 0).all())
        require(rises, self, "points", "must not fall from one round to the next")
        kept = not (array[:-1, 0] % self.stride).any()  # the last round of all is kept as well
        require(kept, self, "points", "must be multiples of the stride")

    def to_array(self) -> FloatArray:
        """Return one row per kept round: the round, then the values."""
        array = np.array(self.points, dtype=np.float64).reshape(len(self.points), _COLUMNS)
        array[np.isnan(array)] = np.inf
        return array


@checked(arrays=True)
@dataclass(frozen=True)
class ChampionReport(Report):
    """Everything a person wants to know about a champion/challenger stream so far.

    Examples
    --------
    >>> from counterplay.tradeoff import ChampionChallenger, HarmBudget
    >>> live = ChampionChallenger(
    ...     n_models=2, horizon=400, budget=HarmBudget(0.1, 5.0), random_state=0)
    >>> for _ in range(400):
    ...     _ = live.step(primary=[0.3, 0.2], secondary=[0.05, 0.14])
    >>> report = live.report()
    >>> report.needed_burst.round(1).tolist(), len(report.deactivations)
    ([0.0, 16.0], 0)
    """

    rounds: int
    horizon: int
    current: int
    """The model that is live now."""
    harm_rate: float
    burst: float
    decision_every: int
    """Rounds between two regular decisions."""
    switch_log: tuple[tuple[int, int], ...] = field(repr=False)
    """Round and new champion of every change, the first champion included."""
    deactivations: tuple[Deactivation, ...] = field(repr=False)
    reviews: int
    played: tuple[float, float]
    """Cumulative primary loss and harm of the live models."""
    primary: FloatArray = field(repr=False)
    """Cumulative primary loss of every model."""
    harm: FloatArray = field(repr=False)
    """Cumulative harm of every model."""
    sleeping: FloatArray = field(repr=False)
    """Regret to every model over the rounds in which it was allowed."""
    needed_burst: FloatArray = field(repr=False)
    """Per model: the burst that would have been enough never to take it down."""
    live_rounds: IntArray = field(repr=False)
    allowed: BoolArray = field(repr=False)
    nobody_left: bool
    """Whether all models were above the burst at once and the least bad one had to stay live."""
    harm_bound: float
    """What the harm above the rate cannot exceed, given what happened so far; infinite (void)
    once nobody was left."""
    regret_bound: float | None
    """Bound on the expected regret to every model over its allowed rounds, at the horizon; None
    (void) once nobody was left."""
    trace: FloatArray = field(repr=False)
    """Kept rounds: round, champion's primary, champion's harm, best model's primary, bound
    (infinite from the round in which nobody was left)."""
    positive: Any = None
    """The label that must not be missed, where the harm is ``missed_positives``."""

    @property
    def switches(self) -> int:
        """How often the live model changed."""
        return len(self.switch_log) - 1

    @property
    def harm_excess(self) -> float:
        """Harm of the live models above the tolerated rate."""
        return self.played[1] - self.harm_rate * self.rounds

    @property
    def regret(self) -> float:
        """Primary loss above that of the best single model, allowed or not."""
        return self.played[0] - float(self.primary.min())

    @property
    def violators(self) -> tuple[int, ...]:
        """Models that exceed the burst somewhere, so that no learner could promise both."""
        return tuple(int(h) for h in np.flatnonzero(self.needed_burst > self.burst))

    def summary(self) -> str:
        """Return the state of affairs in a few lines."""
        best = int(self.primary.argmin())
        regret = _told_bound(self.regret_bound)
        harm = _told_bound(self.harm_bound)
        lines = [
            f"round {self.rounds} of {self.horizon}: model {self.current} is live, "
            f"{plural(self.switches, 'switch', 'switches')}, "
            f"{plural(len(self.deactivations), 'take-down')}, {plural(self.reviews, 'review')}",
            f"primary loss {self.played[0]:.4g}; best single model {best}: "
            f"{self.primary[best]:.4g}; largest regret to an allowed model "
            f"{self.sleeping.max():.4g}{regret}",
            f"harm {self.played[1]:.4g}, tolerated {self.harm_rate * self.rounds:.4g}: "
            f"{self.harm_excess:+.4g}{harm}",
        ]
        if self.positive is not None:
            lines.append(f"must not be missed: {shown(self.positive)}")
        if self.violators:
            named = ", ".join(f"{h} ({self.needed_burst[h]:.4g})" for h in self.violators)
            lines.append(
                f"models above the burst of {self.burst:.4g}, with the burst that would have been "
                f"enough: {named}; without the watchdog, no method can guarantee both limits"
            )
        if self.nobody_left:
            lines.append(
                "at some point every model was above the burst and the least bad one stayed live: "
                "the guarantees do not apply; raise the burst or the rate"
            )
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per model."""
        import pandas as pd

        n = max(1, self.rounds)
        columns = {
            "primary": self.primary / n,
            "harm": self.harm / n,
            "live_rounds": self.live_rounds,
            "allowed": self.allowed,
            "regret_while_allowed": self.sleeping,
            "needed_burst": self.needed_burst,
        }
        return pd.DataFrame(columns).rename_axis("model")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the harm above the rate with budget and bound; returns the axes."""
        from counterplay.tradeoff.pictures import harm_panel

        return harm_panel(self, ax)

    def dashboard(self) -> Figure:
        """Draw the live model over time, both losses, the budget and the bound."""
        from counterplay.tradeoff.pictures import champion_dashboard

        return champion_dashboard(self)


def _told_bound(bound: float | None) -> str:
    if bound is None or math.isinf(bound):
        return " (no guarantee)"
    return f" (guaranteed below {bound:.4g})"
