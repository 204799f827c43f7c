"""Small helpers of the studies on manipulation graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.stats import mean_interval
from counterplay.strategic import ManipulationGraph
from counterplay.studies.study import Params

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def whole(params: Params, name: str) -> int:
    """A whole number among the parameters."""
    return int(params[name] or 0)


def errorbars(
    ax: Axes, x: Any, groups: Any, color: str, label: str, fmt: str = "o", face: str | None = None
) -> None:
    """Means with 95 % intervals, one per group of values."""
    centres = np.array([float(np.mean(group)) for group in groups])
    spans = [mean_interval(group) for group in groups]
    low = centres - [span.low for span in spans]
    high = np.array([span.high for span in spans]) - centres
    bars = np.maximum(np.stack([low, high]), 0)
    ax.errorbar(x, centres, yerr=bars, fmt=fmt, color=color, label=label, capsize=2, ms=4,
                mfc=face or color)  # fmt: skip


def random_graph(rng: np.random.Generator, n: int, k: int) -> ManipulationGraph:
    """Out-degrees uniform on 0 to k."""
    lists = []
    for x in range(n):
        others = np.delete(np.arange(n), x)
        lists.append(rng.choice(others, size=int(rng.integers(0, k + 1)), replace=False).tolist())
    return ManipulationGraph.from_lists(lists)
