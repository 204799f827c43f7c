"""Charts of the page: drawn by matplotlib, coloured by the page, so that they follow its theme.

Colours are written as marks and replaced by the page's variables; identifiers get a prefix per
picture, so that several pictures live in one document. Text is text: nothing in it is read as
mathematics or markup.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from counterplay.auditing.findings import Chart, Series
from counterplay.core.figures import figure_style, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Marks that no other colour of a drawing has, and the variables that replace them.
_INK, _GRID = "#010203", "#040506"
_SERIES = tuple(f"#0a0b{k:02x}" for k in range(1, 8))
_VARIABLES = {_INK: "var(--ink-soft)", _GRID: "var(--rule)"} | {
    mark: f"var(--s{k})" for k, mark in enumerate(_SERIES, start=1)
}
_LONGEST = 34
_MOST_BARS = 14


def chart_svg(chart: Chart, *, title: str, alt: str, prefix: str) -> Markup:
    """Return a chart as inline SVG with its text alternative.

    Parameters
    ----------
    chart
        What to draw.
    title
        Title, for readers of the document by voice.
    alt
        What the picture shows.
    prefix
        Prefix of identifiers, different for each picture of a page.
    """
    bars = sum(len(s.x) for s in chart.series if s.style == "bars")
    height = 2.9 if not chart.horizontal else min(5.0, 1.2 + 0.32 * min(bars, _MOST_BARS))
    return drawing_svg(
        lambda ax: draw_chart(chart, ax), title=title, alt=alt, prefix=prefix, height=height
    )


def drawing_svg(
    draw: Callable[[Axes], None], *, title: str, alt: str, prefix: str, height: float = 2.9
) -> Markup:
    """Return what a function draws on axes as inline SVG."""
    import matplotlib
    from matplotlib.rcsetup import cycler

    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "text.parse_math": False,
        "svg.hashsalt": prefix,
        "font.size": 8.5,
        "font.family": "sans-serif",
        "text.color": _INK,
        "axes.labelcolor": _INK,
        "axes.edgecolor": _INK,
        "xtick.color": _INK,
        "ytick.color": _INK,
        "legend.labelcolor": _INK,
        "grid.color": _GRID,
        "grid.alpha": 1.0,
        "grid.linewidth": 0.6,
        "axes.linewidth": 0.7,
        "axes.prop_cycle": cycler(color=_SERIES),
    }
    with figure_style(), matplotlib.rc_context(style):
        figure, (ax,) = panels(1, width=4.5, height=height)
        figure.patch.set_alpha(0)
        ax.patch.set_alpha(0)
        ax.set_axisbelow(True)
        draw(ax)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _inlined(buffer.getvalue(), title, alt, prefix)


def draw_chart(chart: Chart, ax: Axes, colors: Sequence[str] = _SERIES) -> None:
    """Draw the series of a chart on axes."""
    for k, series in enumerate(chart.series):
        color = colors[k % len(colors)]
        if series.style == "bars":
            _bars(chart, series, ax, color, k)
        elif series.style == "mark":
            _mark(series, ax, color)
        else:
            _points(series, ax, color)
    ax.set_xlabel(_cut(chart.x_label, 70))
    ax.set_ylabel(_cut(chart.y_label, 60))
    if chart.y_from_zero and not chart.horizontal:
        ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
    named = [s for s in chart.series if s.label and s.style != "mark"]
    if len(named) > 1 or any(s.style == "dashed" for s in named):
        ax.legend(
            fontsize=7.5, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, borderaxespad=0.1
        )


def _points(series: Series, ax: Axes, color: str) -> None:
    x: Any = [_cut(v, _LONGEST) if isinstance(v, str) else v for v in series.x]
    styles: dict[str, dict[str, Any]] = {
        "line": {"marker": "o", "markersize": 3.5, "linewidth": 1.8},
        "dashed": {"linestyle": "--", "linewidth": 1.4},
        "points": {"marker": "o", "markersize": 4.5, "linestyle": ""},
        "crosses": {"marker": "x", "markersize": 6.5, "markeredgewidth": 2, "linestyle": ""},
    }
    ax.plot(x, series.y, color=color, label=_cut(series.label, _LONGEST), **styles[series.style])
    if series.low and series.high:
        if series.style == "points":
            below = [v - a for v, a in zip(series.y, series.low)]
            above = [b - v for v, b in zip(series.y, series.high)]
            ax.errorbar(x, series.y, [_not_negative(below), _not_negative(above)],
                        fmt="none", color=color, elinewidth=1.2, capsize=2.5)  # fmt: skip
        else:
            ax.fill_between(x, series.low, series.high, color=color, alpha=0.16, linewidth=0)


def _bars(chart: Chart, series: Series, ax: Axes, color: str, k: int) -> None:
    shown = list(range(min(len(series.x), _MOST_BARS)))
    labels = [_cut(str(series.x[i]), _LONGEST) for i in shown]
    y = [series.y[i] for i in shown]
    count = sum(s.style == "bars" for s in chart.series)
    width = 0.76 / count
    at = [i + (k - (count - 1) / 2) * width for i in shown]
    errors: Any = None
    if series.low and series.high:
        errors = [
            _not_negative([series.y[i] - series.low[i] for i in shown]),
            _not_negative([series.high[i] - series.y[i] for i in shown]),
        ]
    style: dict[str, Any] = {
        "color": color, "label": _cut(series.label, _LONGEST), "ecolor": _INK, "capsize": 2,
        "error_kw": {"elinewidth": 1},
    }  # fmt: skip
    if chart.horizontal:
        ax.barh(at, y, width, xerr=errors, **style)
        ax.set_yticks(shown, labels)
        ax.set_ylim(len(shown) - 0.5, -0.5)
        ax.locator_params(axis="x", nbins=6)  # small numbers have long labels
        ax.grid(False, axis="y")
    else:
        ax.bar(at, y, width, yerr=errors, **style)
        ax.set_xticks(shown, labels)
        ax.grid(False, axis="x")


def _mark(series: Series, ax: Axes, color: str) -> None:
    """One point with its label beside it."""
    for x, y in zip(series.x, series.y):
        ax.plot([x], [y], marker="D", markersize=6, color=color, linestyle="")
        ax.annotate(_cut(series.label, 44), (x, y), textcoords="offset points", xytext=(7, 7),
                    fontsize=8)  # fmt: skip


def _not_negative(values: list[float]) -> list[float]:
    return [max(0.0, value) for value in values]


def _cut(text: str, most: int) -> str:
    safe = "".join(sign if sign.isprintable() else " " for sign in text)
    return safe if len(safe) <= most else safe[: most - 1] + "…"


def _inlined(svg: str, title: str, alt: str, prefix: str) -> Markup:
    """Return the drawing for a page: no header, own identifiers, the page's colours."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", body)
    for mark, variable in _VARIABLES.items():
        body = body.replace(mark, variable)
    head = (
        f'<svg role="img" aria-labelledby="{prefix}-title {prefix}-alt" class="chart"'
        f' xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    )
    size = re.search(r'viewBox="[^"]+"', body)
    start = body.index(">") + 1
    words = Markup('<title id="{0}-title">{1}</title><desc id="{0}-alt">{2}</desc>').format(
        prefix, title, alt
    )
    view = escape("") if size is None else size.group(0)
    return Markup(f"{head} {view}>") + words + Markup(body[start:])
