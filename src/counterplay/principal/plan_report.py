"""What a plan has offered and earned so far.

Source: docs/theory/25-offers.md, "The planner".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.report import Report
from counterplay.principal.offer_words import money, plain_offer
from counterplay.principal.saved_plan import WHAT, PlanSettings, SavedEvent, terms_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@checked
@dataclass(frozen=True)
class PlanReport(Report):
    """What a plan has offered and earned so far; money per round."""

    events: tuple[SavedEvent, ...]
    settings: PlanSettings
    arms: tuple[tuple[Any, int, float], ...]

    @property
    def earned(self) -> float:
        """Money per observed round; NaN before the first."""
        values = self.to_frame()["earned"].dropna()
        return float(values.mean()) if len(values) else float("nan")

    def to_frame(self) -> pd.DataFrame:
        """Return one row per outcome seen: offer, whether it was new, outcome, our money."""
        import pandas as pd

        terms = terms_of(self.settings, WHAT)
        before = {arm.offer for arm in self.settings.arms}
        rows = []
        for event in self.events:
            if event.what == "seen":
                margin = float(terms.margin(event.offer)) if terms.ordered else 1.0
                outcome = float("nan") if event.outcome is None else event.outcome
                new = event.offer not in before
                rows.append((event.offer, new, outcome, margin * outcome))
        return pd.DataFrame(rows, columns=["offer", "new", "outcome", "earned"])

    def summary(self) -> str:
        """Return the state of the plan as text."""
        frame, s = self.to_frame(), self.settings
        made = sum(event.what == "offered" for event in self.events)
        lines = [f"{made} of {s.rounds} rounds offered, {int(frame['outcome'].notna().sum())} seen"]
        if frame["earned"].notna().any():
            lines.append(
                f"earned {money(self.earned, s.currency)} per round; "
                f"{int(frame['new'].sum())} rounds tried an offer that the log did not have"
            )
        terms = terms_of(s, WHAT)
        worth = [(float(terms.margin(o)) if terms.ordered else 1.0) * m for o, _, m in self.arms]
        best = int(np.argmax(worth))
        offer, rows, _ = self.arms[best]
        lines.append(
            f"largest mean so far: {s.offer} {plain_offer(offer)}, "
            f"{money(worth[best], s.currency)} per round in {rows} rows"
        )
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the offers over the rounds; new ones stand out."""
        with figure_style():
            axes = axes_or_new(ax)
            frame = self.to_frame()
            rounds = np.arange(1, len(frame) + 1)
            for new, colour, label in ((False, 0, "tried before"), (True, 1, "new offer")):
                own = frame["new"].to_numpy(dtype=bool) == new
                shown_offers = [str(o) if isinstance(o, str) else o for o in frame["offer"][own]]
                axes.plot(rounds[own], shown_offers, "o", color=PALETTE[colour], label=label)
            axes.set_xlabel("round")
            axes.set_ylabel(self.settings.offer)
            if len(frame):
                axes.legend()
        return axes
