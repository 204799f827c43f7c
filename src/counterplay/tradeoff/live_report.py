"""What the live guard reports: what is guaranteed, what is void, what is still open."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, THEORY, axes_or_new, figure_style
from counterplay.core.report import Report, plain, plural
from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.tradeoff.evidence import Alarm

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@checked
@dataclass(frozen=True)
class Decision:
    """Who is live in a round; its outcome is reported by ``id``.

    Examples
    --------
    >>> Decision(0, 0, 2, 0.5, "epoch").to_dict()["model"]
    2
    """

    id: int
    round: int
    model: int
    probability: float
    """With which the model of the epoch was drawn."""
    mode: str
    """``"epoch"``, ``"stand-in"`` (the drawn model was taken down) or ``"safe"``."""

    @classmethod
    def made(cls, number: int, model: int, probability: float, mode: str) -> Decision:
        """Return a decision of the guard itself, whose kinds need no check."""
        decision = object.__new__(cls)
        vars(decision).update(
            id=number, round=number, model=model, probability=probability, mode=mode
        )
        return decision

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        found: dict[str, Any] = plain(self)
        return found


@checked(arrays=True)
@dataclass(frozen=True)
class LiveReport(Report):
    """Everything a person wants to know about a guard that sees live outcomes only.

    Examples
    --------
    >>> from counterplay.tradeoff import ChampionChallenger, HarmBudget
    >>> live = ChampionChallenger(n_models=2, horizon=400, budget=HarmBudget(0.1, 5.0),
    ...                           feedback="live", random_state=0)
    >>> for _ in range(400):
    ...     decision = live.act()
    ...     live.observe(decision.id, primary=0.3, secondary=0.05)
    >>> report = live.report()
    >>> report.harm_excess <= report.harm_bound, report.void_since is None
    (True, True)
    """

    rounds: int
    horizon: int
    harm_rate: float
    burst: float
    played: tuple[float, float]
    """Observed primary loss and harm of the live models."""
    judged: int
    """Rounds whose outcome has arrived."""
    open_outcomes: int
    missing: int
    """Outcomes that were said never to come."""
    max_delay: int
    """Largest delay stated or seen."""
    live_rounds: IntArray = field(repr=False)
    allowed: BoolArray = field(repr=False)
    model_harm: FloatArray = field(repr=False)
    model_primary: FloatArray = field(repr=False)
    model_judged: IntArray = field(repr=False)
    switch_log: tuple[tuple[int, int], ...] = field(repr=False)
    alarms: tuple[Alarm, ...] = field(repr=False)
    returns: int
    harm_bound: float
    """What the harm of judged rounds above the rate cannot exceed; infinite (void) once a
    model was live that was not allowed."""
    purse_bound: float | None
    """The bound of the purse, if the safe model exceeds the rate by no more than its own burst."""
    regret_bound: float | None
    """Bound on the expected regret to every model over its allowed epochs; None if void, or with
    delayed outcomes."""
    void_since: int | None
    """First round in which the live model was not allowed: none was, or the purse called for a
    safe model whose own fuse had blown."""
    safe_share: float
    e_change: FloatArray = field(repr=False)
    """Evidence of a change, per model (starts again when it has lost)."""
    e_rate: FloatArray = field(repr=False)
    """Evidence that the rate is exceeded, per model."""
    lowest_mean: FloatArray = field(repr=False)
    """Lower end of the mean harm of each model, at any time with 95 % confidence."""
    trace: FloatArray = field(repr=False)
    """Judged outcomes in order of arrival: round, harm above the rate, bound."""
    currency: str | None = None

    @property
    def current(self) -> int | None:
        """The model of the last decision."""
        return self.switch_log[-1][1] if self.switch_log else None

    @property
    def switches(self) -> int:
        """How often the live model changed."""
        return max(0, len(self.switch_log) - 1)

    @property
    def harm_excess(self) -> float:
        """Harm of the judged rounds above the rate."""
        return self.played[1] - self.harm_rate * self.judged

    @property
    def worst_excess(self) -> float:
        """The same with every missing and open round counted as worst."""
        return self.harm_excess + (1 - self.harm_rate) * (self.missing + self.open_outcomes)

    @property
    def take_downs(self) -> int:
        """How often a model was taken down."""
        return sum(alarm.kind == "taken down" for alarm in self.alarms)

    def summary(self) -> str:
        """Return the state of affairs in a few lines."""
        lines = [
            f"round {self.rounds} of {self.horizon}: model {self.current} is live, "
            f"{plural(self.switches, 'switch', 'switches')}, "
            f"{plural(self.take_downs, 'take-down')}, {plural(self.returns, 'return')}",
            f"outcomes: {self.judged} judged, {self.open_outcomes} open, {self.missing} missing, "
            f"delay up to {self.max_delay} rounds",
            f"primary loss {self.played[0]:.4g}{self._told(self.regret_bound, 'regret')}",
            f"harm {self.played[1]:.4g}, {_beside(self.harm_excess)} the rate on judged rounds"
            f"{self._told(self.harm_bound, 'excess')}; {_beside(self.worst_excess)} it with every "
            "missing or open round counted as worst",
        ]
        if self.purse_bound is not None:
            lines.append(
                f"purse: excess below {self.purse_bound:.4g} plus what the safe model itself "
                f"exceeds the rate by; it was live in {100 * self.safe_share:.3g} % of the rounds"
            )
        if self.void_since is not None:
            lines.append(
                f"in round {self.void_since} the live model was not within its budget, as no other "
                "could be live: the guarantees are void from then on; raise the burst or the rate, "
                "or name a safe model that keeps the rate"
            )
        lines += [alarm.sentence for alarm in self.alarms[-5:]]
        return "\n".join(lines)

    def _told(self, bound: float | None, what: str) -> str:
        if bound is None or math.isinf(bound):
            return f" (no guarantee of the {what})"
        return f" ({what} guaranteed below {bound:.4g})"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per model."""
        import pandas as pd

        seen = np.maximum(self.model_judged, 1)
        columns = {
            "live_rounds": self.live_rounds,
            "judged": self.model_judged,
            "primary": self.model_primary / seen,
            "harm": self.model_harm / seen,
            "allowed": self.allowed,
            "e_change": self.e_change,
            "e_rate": self.e_rate,
            "lowest_mean_harm": self.lowest_mean,
        }
        return pd.DataFrame(columns).rename_axis("model")

    def to_dict(self) -> dict[str, Any]:
        """Return text, numbers and rows as plain values; infinite ones become None."""
        names = (
            "rounds", "horizon", "judged", "open_outcomes", "missing", "harm_bound", "purse_bound",
            "regret_bound", "void_since", "safe_share", "switches", "take_downs", "harm_excess",
        )  # fmt: skip
        found: dict[str, Any] = plain(
            {**super().to_dict(), **{name: getattr(self, name) for name in names}}
        )
        return found

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the harm above the rate as outcomes arrive, take-downs, the bound while valid."""
        with figure_style():
            axes = axes_or_new(ax)
            axes.plot(self.trace[:, 0], self.trace[:, 1], color=PALETTE[0], label="harm above rate")
            valid = np.isfinite(self.trace[:, 2])
            if valid.any():
                axes.plot(
                    self.trace[valid, 0], self.trace[valid, 2], label="guaranteed below", **THEORY
                )
            downs = [alarm.round for alarm in self.alarms if alarm.kind == "taken down"]
            if downs:
                axes.plot(downs, np.zeros(len(downs)), "|", color=PALETTE[1], ms=12,
                          label="take-down")  # fmt: skip
            if self.void_since is not None:
                axes.axvline(self.void_since, color=PALETTE[3], lw=1, label="void from here")
            axes.set_xlabel("round")
            axes.set_ylabel("harm above the rate (sum)")
            axes.legend(fontsize=8)
        return axes


def _beside(excess: float) -> str:
    return f"{abs(excess):.4g} {'below' if excess < 0 else 'above'}"
