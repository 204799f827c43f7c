"""Figures of the study of consortia."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.core.stats import clopper_pearson

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SHOWN = {
    "share": "one common share",
    "cheapest": "robust cheapest",
    "plug_in": "plug-in cheapest",
    "cells_400": "400 cells",
    "cells_100": "100 cells",
}


def promise_figure(frame: pd.DataFrame) -> Figure:
    """Share of sites that are at most the promised margin below pooling everything, on fresh rows,
    with 95% intervals; the dashed line is the confidence that was asked for."""
    figure, (axis,) = panels(1, width=7.5, height=3.6)
    part = frame[frame["kind"] == "promise"]
    groups = list(part.groupby("data", sort=False))
    width = 0.8 / len(SHOWN)
    for i, (key, label) in enumerate(SHOWN.items()):
        x = np.arange(len(groups)) + (i - (len(SHOWN) - 1) / 2) * width
        hits = [int(own[f"{key}_at"].sum()) for _, own in groups]
        sites = [int(own["sites"].sum()) for _, own in groups]
        ends = [clopper_pearson(h, n) for h, n in zip(hits, sites)]
        share = np.array([h / n for h, n in zip(hits, sites)])
        low = share - np.array([end.low for end in ends])
        high = np.array([end.high for end in ends]) - share
        axis.bar(x, share, width * 0.92, color=PALETTE[i], label=label)
        axis.errorbar(x, share, [low.clip(0), high.clip(0)], fmt="none", color="#333333", lw=1)
    axis.axhline(0.9, color="#444444", linestyle="--", linewidth=1.2)
    axis.set_xticks(range(len(groups)), [f"{name}\n{len(own)} consortia" for name, own in groups])
    axis.set_ylabel("sites whose promise is kept")
    axis.set_ylim(0, 1.28)
    axis.legend(ncols=3, fontsize=8, loc="upper center")
    axis.grid(axis="x", visible=False)
    return figure


def share_figure(frame: pd.DataFrame) -> Figure:
    """Rows that a plan asks for, as a share of what the sites own, one dot per consortium."""
    figure, (axis,) = panels(1, width=7.5, height=3.4)
    part = frame[frame["kind"] == "promise"]
    names = list(part["data"].unique())
    for i, (key, label) in enumerate(SHOWN.items()):
        for g, data in enumerate(names):
            own = part[part["data"] == data]
            y = own[f"{key}_rows"] / own["owned"]
            x = g + (i - 2) * 0.15 + np.linspace(-0.04, 0.04, len(y))
            axis.plot(x, y, ".", color=PALETTE[i], label=label if g == 0 else None)
    axis.set_xticks(range(len(names)), names)
    axis.set_ylabel("rows asked / rows owned")
    axis.set_ylim(0, 1.02)
    axis.legend(fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.25))
    return figure
