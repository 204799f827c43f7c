"""Four panels as a square, so that they stay readable on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def four_panels(width: float = 7.6, height: float = 6.0) -> tuple[Figure, list[Axes]]:
    """Return a figure with two rows of two axes that share their scales."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(2, 2, sharex=True, sharey=True).ravel())
