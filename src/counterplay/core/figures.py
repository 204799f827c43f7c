"""The look of every figure: colour-blind-safe palette, theory dashed, readable at 600 px."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito (2008), without the yellow that vanishes on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
THEORY: dict[str, Any] = {"color": "#444444", "linestyle": "--", "linewidth": 1.4}


@contextmanager
def figure_style() -> Iterator[None]:
    """Apply the house style inside the block; works without a display."""
    import matplotlib
    from matplotlib.rcsetup import cycler

    settings: Any = {
        "axes.prop_cycle": cycler(color=PALETTE),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "font.size": 10,
        "figure.dpi": 100,
        "savefig.dpi": 150,
        "legend.frameon": False,
        "svg.hashsalt": "counterplay",
    }
    with matplotlib.rc_context(settings):
        yield


def panels(
    n: int = 1, *, width: float = 6.0, height: float = 4.0, columns: int | None = None
) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``n`` axes side by side, or in rows of ``columns``."""
    from matplotlib.figure import Figure

    across = min(n, columns or n)
    down = -(-n // across)
    figure = Figure(figsize=(width * across, height * down), layout="constrained")
    axes = list(figure.subplots(down, across, squeeze=False).ravel())
    for ax in axes[n:]:
        ax.remove()
    return figure, axes[:n]


def axes_or_new(ax: Axes | None, *, width: float = 6.0, height: float = 4.0) -> Axes:
    """Return ``ax``, or the axes of a new figure: the first line of every ``plot(ax=None)``.

    In a notebook the figure belongs to pyplot, so that it is shown below the cell.
    """
    if ax is not None:
        return ax
    if "IPython" in sys.modules and "inline" in os.environ.get("MPLBACKEND", ""):
        from matplotlib import pyplot

        return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    return panels(1, width=width, height=height)[1][0]


def label_of(name: str, longest: int = 18) -> str:
    """Return a name that fits beside a line and means nothing to the drawing program.

    Examples
    --------
    >>> label_of("_cost in $"), label_of("x" * 30, longest=8)
    ('cost in \\\\$', 'xxxxxxx…')
    """
    text = name if len(name) <= longest else name[: longest - 1] + "…"
    printable = "".join(sign if sign.isprintable() else " " for sign in text)
    return printable.replace("$", r"\$").lstrip("_") or "?"
