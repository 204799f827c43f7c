"""Is the promise possible on these data? Which experts break the assumption, and by how much.

If some expert exceeds the burst budget, no learner can promise both losses (Theorem 9.1); the
report says what budget or rate would have been enough and what could be promised then.
Source: docs/theory/09-tradeoff.md, "Proposition 9.A: bursts in one pass".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.validation import FloatArray, check_fraction
from counterplay.tradeoff import bounds
from counterplay.tradeoff.bursts import BurstCheck, burst_check, required_rate
from counterplay.tradeoff.model import burst_threshold, check_losses, expert_names

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@checked(arrays=True)
@dataclass(frozen=True)
class ImpossibilityReport(Report):
    """Whether both promises can be kept on the given losses, and what it would take.

    Examples
    --------
    >>> from counterplay.tradeoff.instances import impossibility_worlds
    >>> world, _ = impossibility_worlds(rounds=10_000)
    >>> report = impossibility_report(world.l1, world.l2)
    >>> report.possible, round(report.needed_budget, 1), round(report.needed_alpha, 2)
    (False, 312.5, 0.62)
    """

    rounds: int
    check: BurstCheck
    primary: FloatArray = field(repr=False)
    """Average primary loss of every expert."""
    secondary: FloatArray = field(repr=False)
    """Average secondary loss of every expert."""
    rate_needed: FloatArray = field(repr=False)
    """Per expert: the smallest rate at which it keeps the budget."""

    @property
    def possible(self) -> bool:
        """Whether every expert keeps the budget, so that the guarantees apply."""
        return bool(self.check)

    @property
    def violators(self) -> tuple[int, ...]:
        """Experts that exceed the budget."""
        return tuple(int(h) for h in np.flatnonzero(~self.check.ok))

    @property
    def needed_budget(self) -> float:
        """The burst budget that would have been enough for all experts."""
        return max(0.0, float(self.check.excess.max()))

    @property
    def needed_alpha(self) -> float:
        """The exponent ``alpha`` with ``T**alpha`` equal to the needed budget."""
        return math.log(max(1.0, self.needed_budget)) / math.log(max(2, self.rounds))

    def promise(self, budget: float | None = None) -> float:
        """Return what ``EpochLearner`` guarantees for both regrets with the given budget."""
        used = self.needed_budget if budget is None else budget
        return bounds.balanced_epochs(self.rounds, self.primary.size, used)

    def summary(self) -> str:
        """Return the verdict, the violators, and what would help."""
        head = (
            f"{self.rounds} rounds, {self.primary.size} experts, rate {self.check.c:.4g}, "
            f"burst budget {self.check.threshold:.4g}"
        )
        if self.possible:
            verdict = (
                "possible: every expert keeps the budget; EpochLearner(B='balanced') keeps both "
                f"regrets below {self.promise(self.check.threshold):.4g}"
            )
            return f"{head}\n{verdict}"
        lines = [head, "impossible to promise both losses:", self.check.summary()]
        lines.append(
            f"a budget of {self.needed_budget:.4g} (alpha = {self.needed_alpha:.2f}) would have "
            f"been enough for all; it promises both regrets below {self.promise():.4g}"
        )
        lines.append(
            f"so would a rate of {self.rate_needed.max():.4g} with the present budget, or a "
            f"watchdog: DeactivationLearner, ReactivationLearner"
        )
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per expert."""
        frame = self.check.to_frame()
        frame.insert(0, "primary", self.primary)
        frame.insert(1, "secondary", self.secondary)
        frame["rate_needed"] = self.rate_needed
        return frame

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw every expert's needed budget with the threshold; returns the axes."""
        return self.check.plot(ax)


@checked
def impossibility_report(
    l1: ArrayLike,
    l2: ArrayLike,
    c: float | None = None,
    *,
    delta: float = 1.0,
    alpha: float = 0.5,
) -> ImpossibilityReport:
    """Tell whether the assumption behind all guarantees holds on recorded losses.

    Run it before you promise anything: if an expert exceeds the burst budget, no learner can be
    almost as good as the best expert and keep the secondary loss at the rate ``c``.

    Parameters
    ----------
    l1:
        Primary losses, shape ``(T, K)``; the columns of a frame name the experts.
    l2:
        Secondary losses, likewise; columns of two frames are matched by name.
    c:
        Tolerated secondary loss per round; by default the average of the worst expert, the
        weakest rate one would ask for.
    delta:
        Factor of the burst budget ``delta * T**alpha``.
    alpha:
        Its exponent.

    Examples
    --------
    >>> import numpy as np
    >>> l1 = np.random.default_rng(0).random((10_000, 3))
    >>> report = impossibility_report(l1, np.full((10_000, 3), 0.1))
    >>> report.possible, round(report.promise(report.check.threshold))
    (True, 2196)

    References
    ----------
    A. Blum, H. Shao, Online learning with primary and secondary losses, NeurIPS 2020, Thm. 1.
    """
    primary, secondary = check_losses(l1, l2)
    names = expert_names(l1)
    averages: FloatArray = secondary.mean(axis=0)
    rate = float(averages.max()) if c is None else check_fraction(c, "c")
    budget = burst_threshold(len(primary), delta, alpha)
    return ImpossibilityReport(
        len(primary),
        replace(burst_check(secondary, rate, budget), names=names),
        primary.mean(axis=0),
        averages,
        np.asarray(required_rate(secondary, budget)),
    )
