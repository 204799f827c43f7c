"""Pictures of a consortium: plans beside what sites own, and what rows are worth to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, axes_or_new, label_of
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from counterplay.contribution.sites.result import ConsortiumPlan

_LABELS = {"envy_free": "envy-free", "left_alone": "left alone"}


def draw_plans(plan: ConsortiumPlan, ax: Axes | None = None) -> Axes:
    """One group of bars per plan, one bar per site: outline owned, filled brought."""
    axes = axes_or_new(ax, width=max(6.0, 1.5 * len(plan.plans)))
    names, k = plan.points.names, plan.points.k
    width = 0.8 / k
    place = np.arange(len(plan.plans))
    for i, name in enumerate(names):
        colour = PALETTE[i % len(PALETTE)]
        x = place + (i - (k - 1) / 2) * width
        rows = np.array([p.rows.iloc[i] for p in plan.plans.values()], dtype=float)
        against = np.array([p.against_interest.iloc[i] for p in plan.plans.values()], dtype=float)
        against = np.minimum(np.nan_to_num(against), rows)
        axes.bar(x, np.full(len(x), float(plan.points.owned[i])), width * 0.9, color="none",
                 edgecolor="#999999", linewidth=0.8)  # fmt: skip
        axes.bar(x, rows - against, width * 0.9, color=colour, label=label_of(name))
        axes.bar(x, against, width * 0.9, bottom=rows - against, color="white", hatch="////",
                 edgecolor=colour, linewidth=0.8)  # fmt: skip
    labels = [f"{_LABELS.get(n, n)}\n{p.total:,}" for n, p in plan.plans.items()]
    axes.set_xticks(place, labels)
    axes.set_ylabel("rows (outline: owned, hatched: against interest)")
    axes.legend(fontsize=8, ncols=min(k, 6), loc="lower center", bbox_to_anchor=(0.5, 1.0))
    axes.grid(axis="x", visible=False)
    return axes


def draw_rates(plan: ConsortiumPlan, ax: Axes | None = None) -> Axes:
    """Heat map of exchange rates; negative values in another hue."""
    if plan.curves is None:
        raise InvalidInputError("exchange rates were not measured (plans='share')")
    axes = axes_or_new(ax, width=5.0, height=4.2)
    table = plan.curves.exchange_rates.xs("rate", axis=1, level=1)
    values = table.to_numpy(dtype=float)
    span = max(1.0, float(np.nanmax(abs(values))))
    image = axes.imshow(values, cmap="RdBu", vmin=-span, vmax=span)
    for (g, j), value in np.ndenumerate(values):
        said = "?" if np.isnan(value) else f"{value:.2f}"
        dark = not np.isnan(value) and abs(value) > 0.6 * span
        axes.text(j, g, said, ha="center", va="center", fontsize=8,
                  color="white" if dark else "black")  # fmt: skip
    axes.set_xticks(range(len(table.columns)), [label_of(n) for n in table.columns], rotation=30,
                    ha="right")  # fmt: skip
    axes.set_yticks(range(len(table.index)), [label_of(n) for n in table.index])
    axes.set(xlabel="rows of", ylabel="worth to")
    axes.grid(visible=False)
    axes.figure.colorbar(image, ax=axes, label="own rows per row (red: hurts)")
    return axes
