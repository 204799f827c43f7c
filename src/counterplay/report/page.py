"""From the content of a report to the text of one HTML file."""

from __future__ import annotations

import inspect
import re
from importlib import resources
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from counterplay.core.report import plural

if TYPE_CHECKING:
    from counterplay.report.content import Report

_CODE = re.compile(r"``?([^`]+)``?")


def render_html(report: Report) -> str:
    """Return the page as one self-contained HTML document."""
    environment = Environment(
        loader=PackageLoader("counterplay.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(prose=prose, inline=inline, duration=duration, plural=plural)
    return environment.get_template("report.html.jinja").render(
        report=report, style=_asset("report.css"), script=_asset("report.js")
    )


def prose(text: str) -> Markup:
    """Turn plain text into paragraphs; words in backticks become code."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return Markup("\n").join(Markup("<p>{}</p>").format(inline(part)) for part in paragraphs)


def inline(text: str) -> Markup:
    """Escape ``text`` and set words in backticks as code."""
    pieces = _CODE.split(" ".join(text.split()))
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if i % 2 else escape(piece)
        for i, piece in enumerate(pieces)
    )


def duration(seconds: float) -> str:
    """Say how long something took.

    Examples
    --------
    >>> [duration(s) for s in (0.02, 4.26, 96.0, 5400.0)]
    ['< 0.1 s', '4.3 s', '1.6 min', '1.5 h']
    """
    if seconds < 0.1:
        return "< 0.1 s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _asset(name: str) -> Markup:
    folder = resources.files("counterplay.report").joinpath("templates")
    return Markup(folder.joinpath(name).read_text(encoding="utf-8"))  # our own file
