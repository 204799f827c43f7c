"""What a log shows about the other side: regret relative to the stakes, with limits, or nothing.

Source: docs/theory/25-offers.md, "Audits".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.report import Report
from counterplay.core.validation import FloatArray
from counterplay.principal.behaviour import Behaviour
from counterplay.principal.mechanisms import Kind
from counterplay.principal.offer_fit import OfferFit
from counterplay.principal.offer_words import FALLS, money

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_ROUNDING = 1e-12
Evidence = Literal["offers", "actions", "game"]
Verdict = Literal["small", "large", "not decided by this log", "nothing was at stake"]


@checked(arrays=True)
@dataclass(frozen=True)
class Replicated:
    """What a log with a game shows: one entry per replicate of the Agent where there are several.

    Attributes
    ----------
    behaviours:
        The measured quantities of each replicate.
    principal_stakes:
        What could be won or lost by the Principal per round.
    secret_p_value:
        Permutation test of "actions carry no information about the states, given the offer".
    alignment_M2:
        Smallest M2 with M1 = 1 such that deviations cost the Principal at most ``M1 gap + M2``;
        NaN without recommendations.
    deviation_rate:
        Share of the rounds in which he did not follow the recommendation; NaN without.
    deviation_cost:
        What that cost the Principal per round; NaN without.
    bias:
        Bias of the forecasts per (policy, recommendation); None without forecasts.
    mechanism:
        Which kind of mechanism made the offers; None for a bare table.
    """

    behaviours: tuple[Behaviour, ...]
    principal_stakes: float
    secret_p_value: float
    alignment_M2: float
    deviation_rate: float
    deviation_cost: float
    bias: FloatArray | None
    mechanism: Kind | None

    def each(self, name: str) -> FloatArray:
        """Return one quantity of ``Behaviour`` for every replicate."""
        return np.array([getattr(b, name) for b in self.behaviours])

    @property
    def aligned(self) -> bool:
        """Whether deviations cost the Principal at most their gap and one percent of her stakes."""
        return bool(self.alignment_M2 <= 0.01 * self.principal_stakes + _ROUNDING)


@checked
@dataclass(frozen=True)
class BehaviourReport(Report):
    """What a log supports about the other side, from :func:`behaviour_audit`.

    Attributes
    ----------
    evidence:
        ``offers`` (offers and outcomes), ``actions`` (with costs of actions) or ``game``.
    rounds:
        Rows of the log.
    regret:
        Regret per round as it was, a fact about the log; for ``offers`` the least regret that
        explains the means.
    low:
        Lower limit of the regret of the habit behind the log.
    high:
        Upper limit; infinite where it cannot be seen.
    stakes:
        Largest minus smallest utility of a round, mean over the rounds; NaN where not visible.
    level:
        Confidence of the limits.
    tolerance:
        Share of the stakes up to which a regret is small.
    fit:
        The fitted log (``offers`` and ``actions``).
    game:
        What the game adds (``game``).
    currency:
        Unit of the money.
    """

    evidence: Evidence
    rounds: int
    regret: float
    low: float
    high: float
    stakes: float
    level: float
    tolerance: float
    fit: OfferFit | None = None
    game: Replicated | None = None
    currency: str = ""

    @property
    def relative(self) -> float:
        """The regret as a share of the stakes; NaN where stakes are not visible or zero."""
        return self.regret / self.stakes if self.stakes > 0 else float("nan")

    @property
    def relative_limits(self) -> tuple[float, float]:
        """Limits of the relative regret, between 0 and 1."""
        if not self.stakes > 0:
            return float("nan"), float("nan")
        return min(self.low / self.stakes, 1.0), min(self.high / self.stakes, 1.0)

    @property
    def verdict(self) -> Verdict:
        """Whether the regret is small or large against the tolerance, as far as the log tells."""
        if self.stakes == 0:
            return "nothing was at stake"
        low, high = self.relative_limits
        if high <= self.tolerance:
            return "small"
        return "large" if low > self.tolerance else "not decided by this log"

    @property
    def rational(self) -> bool:
        """Whether the regret of every replicate in this log is within the tolerance: a fact."""
        if self.game is None:
            return bool(self.regret <= self.tolerance * self.stakes)
        worst = float(self.game.each("swap_regret").max())
        return worst <= self.tolerance * self.stakes + _ROUNDING

    @property
    def no_secret_information(self) -> bool:
        """Whether the permutation test finds no secret information; True without a game."""
        return self.game is None or self.game.secret_p_value > 1.0 - self.level

    def guarantees(self) -> tuple[str, ...]:
        """Return the theorem of the log's mechanism, if the log supports its assumptions.

        A bare table supports no theorem.
        """
        if self.game is None or self.game.mechanism is None or not self.rational:
            return ()
        if self.game.mechanism == "stable" and self.no_secret_information:
            return ("stable mechanism (Theorem 7.2)",)
        best = float(self.game.each("negative_regret").max())
        negative = best <= self.tolerance * self.stakes + _ROUNDING
        if self.game.mechanism == "best-response" and negative and self.game.aligned:
            return ("best-response mechanism (Theorem 7.5)",)
        return ()

    @property
    def not_visible(self) -> tuple[str, ...]:
        """What a log of this kind cannot show."""
        return {
            "offers": ("the size of the other side's regret", "swap regret", "secret information"),
            "actions": ("the use of states that only the other side knew",),
            "game": ("how the other side would have answered other offers",),
        }[self.evidence]

    def summary(self) -> str:
        """Return the findings as text, in the user's money."""
        lines = {"offers": self._offers, "actions": self._actions, "game": self._game}[
            self.evidence
        ]()
        return "\n".join([*lines, f"not visible in this log: {', '.join(self.not_visible)}"])

    def _offers(self) -> list[str]:
        assert self.fit is not None
        p = self.fit.band.p_value
        if self.fit.monotone:
            first = f"{self.rounds} rounds: answers that rise with the incentive fit (p = {p:.2g})"
        else:
            first = f"{self.rounds} rounds: {FALLS} (p = {p:.2g})"
        return [
            first,
            f"least regret that explains the means: {money(self.regret, self.currency)} per round; "
            f"lower limit {money(self.low, self.currency)}",
        ]

    def _limits_line(self) -> str:
        if not self.stakes > 0:
            return "nothing was at stake: the log says nothing about the other side"
        low, high = self.relative_limits
        return (
            f"regret {money(self.regret, self.currency)} per round of "
            f"{money(self.stakes, self.currency)} at stake ({self.relative:.0%}); the habit behind "
            f"it: {low:.0%} to {high:.0%} ({self.level:.0%} limits, if it did not change): "
            f"{self.verdict}"
        )

    def _actions(self) -> list[str]:
        return [f"{self.rounds} rounds with actions and their costs", self._limits_line()]

    def _game(self) -> list[str]:
        game = self.game
        assert game is not None
        regrets = game.each("swap_regret")
        lines = [f"{self.rounds} rounds, {len(game.behaviours)} replicate(s)", self._limits_line()]
        if regrets.size > 1:
            lines.append(f"regret of the replicates: {regrets.min():.4g} to {regrets.max():.4g}")
        found = "none found" if self.no_secret_information else "FOUND"
        lines.append(f"secret information: {found} (p-value {game.secret_p_value:.3g})")
        if np.isnan(game.deviation_rate):
            lines.append("no recommendation in the log: nothing about deviations and alignment")
        else:
            lines.append(
                f"deviated from the recommendation in {game.deviation_rate:.1%} of the rounds, "
                f"which cost the Principal {game.deviation_cost:.4g} per round "
                f"({'aligned' if game.aligned else 'NOT aligned'})"
            )
        if game.bias is not None:
            lines.append(f"forecasts: total bias {game.bias.sum():.4g}")
        if game.mechanism is not None:
            names = ", ".join(self.guarantees()) or "none"
            lines.append(f"guarantees whose assumptions the log supports: {names}")
        return lines

    def to_frame(self) -> pd.DataFrame:
        """Return one row per finding: measured, limits, verdict."""
        import pandas as pd

        rows: list[tuple[str, float, float, float, str]] = []
        if self.fit is not None and self.evidence == "offers":
            fit = "consistent" if self.fit.monotone else "rejected"
            p = self.fit.band.p_value
            rows.append(("monotone response (p-value)", p, np.nan, np.nan, fit))
            rows.append(("smallest regret", self.regret, self.low, np.inf, "at least"))
        else:
            rows.append(("regret", self.regret, self.low, self.high, self.verdict))
            low, high = self.relative_limits
            rows.append(("relative regret", self.relative, low, high, self.verdict))
        if self.game is not None:
            told = "none found" if self.no_secret_information else "found"
            p = self.game.secret_p_value
            rows.append(("secret information (p-value)", p, np.nan, np.nan, told))
            cost = self.game.deviation_cost
            rows.append(("cost of deviations", cost, np.nan, np.nan, ""))
        return pd.DataFrame(rows, columns=["finding", "measured", "low", "high", "verdict"])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the relative regret with its limits against the tolerance."""
        with figure_style():
            axes = axes_or_new(ax, height=2.2)
            low, high = self.relative_limits
            if self.stakes > 0:
                axes.plot([low, high], [0, 0], color=PALETTE[0], linewidth=4, alpha=0.4)
                axes.plot([self.relative], [0], "o", color=PALETTE[0], label="this log")
            axes.axvline(self.tolerance, color="#444444", linestyle="--", label="tolerance")
            axes.set_xlim(-0.02, 1.02)
            axes.set_yticks([])
            axes.set_xlabel("regret as a share of what was at stake")
            axes.legend()
        return axes
