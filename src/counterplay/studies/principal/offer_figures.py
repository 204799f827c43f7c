"""Pictures of the study of offers: the band, costs, regrets by rule, a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.principal import fit_game
from counterplay.principal.lab import OfferMarket, Seller
from counterplay.principal.offer_pictures import draw_response, draw_value

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

EXAMPLE = OfferMarket(np.array([100.0, 400.0, 700.0]), np.array([0.0, 60.0, 210.0]), 0.42)


def table(frame: pd.DataFrame, part: str) -> pd.DataFrame:
    """Means per case (and rounds) of one part."""
    own = frame[frame["part"] == part]
    return own.groupby(["case", "rounds"], sort=False).mean(numeric_only=True)


def band_figure(frame: pd.DataFrame) -> Figure:
    """Left: means of a log as points, the band that follows from monotonicity as steps, the true
    response dashed; gaps between offers stay wide. Right: our money with winner and safe offer."""
    figure, axes = panels(2, width=5.2, height=3.8)
    market = EXAMPLE
    log = market.log(np.repeat([0.1, 0.25, 0.4, 0.6], 60), random_state=25)
    fit = fit_game(log, offer="commission", outcome="revenue", currency="EUR")
    draw_response(fit, axes[0], truth=lambda s: market.response(float(s)))
    draw_value(fit, axes[1])
    return figure


def cost_figure(frame: pd.DataFrame) -> Figure:
    """Intervals of the seller's cost above that under the weakest offer, with the true cost."""
    figure, (axis,) = panels(1, height=3.2)
    market = EXAMPLE
    log = market.log(np.repeat([0.1, 0.25, 0.4, 0.6], 60), random_state=25)
    costs = fit_game(log, offer="commission", outcome="revenue").costs()
    at = np.arange(len(costs))
    axis.bar(at, costs["upper"] - costs["lower"], bottom=costs["lower"], width=0.5,
             color=PALETTE[0], alpha=0.4, label="limits")  # fmt: skip
    axis.plot(at, [0.0, 60.0, 60.0, 210.0], "k_", ms=28, mew=2, label="true cost")
    axis.set_xticks(at, [f"{x:g}" for x in costs["offer"]])
    axis.set_xlabel("commission")
    axis.set_ylabel("cost above the weakest offer, EUR")
    axis.legend(loc="upper left")
    return figure


def regret_figure(frame: pd.DataFrame) -> Figure:
    """Left: regret of the offer chosen from a log, by rule; the oracle knows the best tried offer.
    Right: regret per round against four sellers over the longest horizon, by policy."""
    figure, axes = panels(2, width=5.2, height=3.8)
    logs = table(frame, "log").droplevel("rounds")
    names = {"ab": "A/B winner", "winner": "isotonic", "safe": "safe", "oracle": "best tried"}
    _bars(axes[0], logs, names)
    planner = table(frame, "planner")
    longest = planner.index.get_level_values("rounds").max()
    shown = planner.xs(longest, level="rounds")
    _bars(axes[1], shown, {"ab": "A/B winner", "tried": "tried offers only", "planner": "planner"})
    axes[0].set_title("one offer from a log", fontsize=10)
    axes[1].set_title(f"{longest} rounds", fontsize=10)
    return figure


def _bars(axis: Any, frame: pd.DataFrame, names: dict[str, str]) -> None:
    at = np.arange(len(frame))
    for i, (column, label) in enumerate(names.items()):
        width = 0.8 / len(names)
        axis.bar(at + (i - (len(names) - 1) / 2) * width, frame[column], width,
                 color=PALETTE[i], label=label)  # fmt: skip
    axis.set_xticks(at, list(frame.index), fontsize=8, rotation=15)
    axis.set_ylabel("regret, share of the best value")
    axis.legend(fontsize=8)


def planner_figure(frame: pd.DataFrame) -> Figure:
    """Left: offers of a plan over the rounds; new ones bisect the gap in which the response jumps.
    Right: money earned so far beyond the A/B winner."""
    figure, axes = panels(2, width=5.2, height=3.6)
    market = EXAMPLE
    shares = np.repeat([0.1, 0.25, 0.4, 0.6], 20)
    fit = fit_game(market.log(shares, random_state=1), offer="commission", outcome="revenue")
    seller, plan = Seller(market, random_state=2), fit.planner(200, random_state=0)
    gained = []
    for _ in range(200):
        offer = plan.act()
        mean, drawn = seller.answer(offer)
        plan.observe(offer, drawn)
        gained.append((1 - offer) * mean - market.value(float(fit.next_offer().offer)))
    plan.report().plot(axes[0])
    axes[0].set_ylabel("commission")
    axes[1].plot(np.cumsum(gained), color=PALETTE[0])
    axes[1].axhline(0.0, color="#444444", linestyle="--")
    axes[1].set_xlabel("round")
    axes[1].set_ylabel("money beyond the committed offer")
    return figure
