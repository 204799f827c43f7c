"""What a run of the unbiased forecaster certifies about itself, and its bias event by event.

Source: Propositions 7.A and 25.E, see docs/theory/07-principal.md and docs/theory/25-offers.md.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.principal.events import Events
from counterplay.principal.potential import Potential

if TYPE_CHECKING:
    import pandas as pd


@checked
@dataclass(frozen=True)
class ForecastCertificate(Report):
    """What a run of :class:`UnbiasedForecaster` guarantees about itself.

    Attributes
    ----------
    rounds:
        Rounds played.
    events:
        Events visited.
    start:
        The potential before the first round, K.
    potential:
        The potential now.
    gap_total:
        The sum of the minimax gaps.
    budget:
        The bound ``(1 + budget) K + sum of tolerances`` on the expected potential (K without a
        base).
    worst_gap:
        Largest gap of a minimax round divided by its tolerance; at most 1 when every round was
        solved.
    worst_ratio:
        Largest |R| divided by its bound, over all events and outcomes.
    evaluations:
        Forecasts looked at per round, on average.
    delta:
        Error probability of the bounds.
    account:
        What the rounds of the base have added to the potential, as a multiple of K.
    allowed:
        The most that they may add: the budget, as a multiple of K.
    kept:
        Share of the rounds in which the base's own forecast was used.
    """

    rounds: int
    events: int
    start: float
    potential: float
    gap_total: float
    budget: float
    worst_gap: float
    worst_ratio: float
    evaluations: float
    delta: float
    account: float = 0.0
    allowed: float = 0.0
    kept: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether every gap is within tolerance, every bias within its bound, and the base within
        its budget."""
        spent = self.account <= self.allowed + 1e-9
        return self.worst_gap <= 1.0 and self.worst_ratio <= 1.0 and spent

    def summary(self) -> str:
        """Return the certificate as text."""
        base = ""
        if self.allowed > 0:
            base = (
                f"\nbase kept in {self.kept:.1%} of the rounds; it has used {self.account:.3f} K "
                f"of its budget of {self.allowed:g} K"
            )
        return (
            f"{self.rounds} rounds, {self.events} events visited, "
            f"{self.evaluations:.2f} forecasts evaluated per round\n"
            f"potential {self.potential:.4g}, expected at most {self.budget:.4g}\n"
            f"largest gap / tolerance {self.worst_gap:.3g}, "
            f"largest bias / bound {self.worst_ratio:.3g} (bounds hold with probability "
            f"{1 - self.delta:g}){base}"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers as one row."""
        import pandas as pd

        return pd.DataFrame([asdict(self)])


def bias_frame(
    potential: Potential, events: Events, budget: float, outcomes: int, delta: float
) -> pd.DataFrame:
    """Return family, event, n, alpha and bound of every visited event."""
    import pandas as pd

    rows = potential.size
    seen = potential.n[:rows] > 0
    visited = np.array(potential.events)[seen]
    bounds = potential.bound(budget, delta).sum(axis=1) / outcomes
    return pd.DataFrame(
        {
            "family": [events.family(event) for event in visited],
            "event": [events.label(event) for event in visited],
            "n": potential.n[:rows][seen].astype(int),
            "alpha": np.abs(potential.R[:rows][seen]).sum(axis=1) / outcomes,
            "bound": bounds[seen],
        }
    )


def largest_ratio(potential: Potential, budget: float, delta: float) -> float:
    """Return the largest |R| divided by its bound, over all events and outcomes."""
    ratio = np.abs(potential.R[: potential.size]) / potential.bound(budget, delta)
    return float(ratio.max(initial=0.0))
