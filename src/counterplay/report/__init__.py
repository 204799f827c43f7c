"""One self-contained HTML page from study results.

The page needs no network: style, script and figures are inside. It has a light and a dark look, is
readable on a phone and can be printed. From a shell::

    counterplay report --run

From Python, :func:`build_report` collects what is stored and :func:`render_html` writes the page.
"""

from counterplay.report.content import Report, build_report
from counterplay.report.page import render_html

__all__ = ["Report", "build_report", "render_html"]
