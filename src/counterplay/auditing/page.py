"""The page: one HTML file from the record of an audit, with nothing from the network.

Everything in the record is a stranger's text and is escaped by the template; the only markup that
is not escaped is what this package writes itself. A content policy forbids every request and every
script but our own.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from counterplay.auditing.actions import sum_line
from counterplay.auditing.findings import SEVERITIES, Finding
from counterplay.auditing.gates import Gate
from counterplay.auditing.page_chart import chart_svg
from counterplay.auditing.quantity import Quantity, number_text
from counterplay.auditing.record import AuditRecord

BASIS_WORDS = {
    "exact": "computed for all rows in question",
    "certified": "holds whatever the other side does, under the stated threat",
    "measured": "an estimate with a sampling interval",
    "found": "a search reached it; the other side may do more",
    "assumed": "a setting or a default",
}
_TOLD = ("high", "medium", "good")  # what blocks has a place of its own
Drawings = Mapping[tuple[str, int], Markup]
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
_CODE = re.compile(r"`([^`]+)`")


def render_page(
    record: AuditRecord, drawings: Mapping[tuple[str, int], Markup] | None = None
) -> str:
    """Return the page of an audit as one self-contained HTML document.

    Parameters
    ----------
    record
        The audit.
    drawings
        Pictures that third-party sections drew themselves, by section and position.
    """
    environment = Environment(
        loader=PackageLoader("counterplay.auditing", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        inline=inline,
        quantity=quantity_html,
        behind=behind_html,
        cell=cell_html,
        told=duration,
    )
    script = _asset("audit.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment.get_template("audit.html.jinja").render(
        audit=record,
        style=Markup(_asset("audit.css")),
        script=Markup(script),
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{digest}'",
        headlines=headlines(record),
        blocking=[f for f in _all_findings(record) if f.severity == "blocking"],
        figures=_figures(record, drawings or {}),
        bases=BASIS_WORDS,
        sum_line=sum_line(record.actions, record.unit, record.remaining),
        groups=_groups(record),
        verdicts=_verdicts(record),
        gate_line=gate_line,
        assumptions=_assumptions(record),
    )
    return _CONTROL.sub("\ufffd", page)


def headlines(record: AuditRecord) -> list[Finding]:
    """Return the sentences of the first screen: those the sections chose, then the gravest."""
    found = _all_findings(record)
    chosen = sorted((f for f in found if f.headline), key=lambda f: f.headline)
    rest = [f for f in found if not f.headline and (not chosen or f.severity in _TOLD)]
    return [*chosen, *sorted(rest, key=lambda f: SEVERITIES.index(f.severity))][:4]


def inline(text: str) -> Markup:
    """Escape a sentence; words in backticks become code.

    Examples
    --------
    >>> str(inline("set `[costs]` <b>"))
    'set <code>[costs]</code> &lt;b&gt;'
    """
    pieces = _CODE.split(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if i % 2 else escape(piece)
        for i, piece in enumerate(pieces)
    )


def quantity_html(quantity: Quantity, name: str = "", *, word: bool = True) -> Markup:
    """Return a number with its interval and basis; the numbers themselves are in an attribute."""
    parts = {
        "value": float(quantity.value), "low": float(quantity.low), "high": float(quantity.high),
        "level": float(quantity.level), "unit": quantity.unit, "basis": quantity.basis,
        "n": quantity.n,
    }  # fmt: skip
    value = number_text(quantity.value, quantity.unit)
    interval = Markup("")
    if not quantity.low == quantity.value == quantity.high:
        low, high = (number_text(v, quantity.unit) for v in (quantity.low, quantity.high))
        interval = Markup(' <span class="interval">[{}, {}]</span>').format(low, high)
    title = f"{quantity.basis}: {BASIS_WORDS[quantity.basis]}"
    if quantity.assumes:
        title += "; rests on " + ", ".join(quantity.assumes)
    chip = Markup('<abbr class="basis {0}" title="{1}">{2}</abbr>').format(
        quantity.basis, title, quantity.basis if word else quantity.basis[0]
    )
    named = Markup(' data-name="{}"').format(name) if name else Markup("")
    inside = Markup("<b>{}</b>").format(value)
    inside += interval if word else Markup(" ") + chip + interval
    shown = Markup('<span class="q" data-quantity="{}"{}>{}</span>').format(
        json.dumps(parts, sort_keys=True), named, inside
    )
    return shown + Markup(" ") + chip if word else shown


def behind_html(finding: Finding) -> Markup:
    """Return the number behind a sentence; its basis alone where the sentence says the number."""
    quantity = finding.quantity
    if quantity is None:
        return Markup("")
    full = quantity_html(quantity)
    said = {number_text(quantity.value, quantity.unit), f"{100 * quantity.value:.1f} %"}
    if not any(number in finding.sentence for number in said):
        return full
    return Markup(re.sub(r"><b>.*</span> <abbr", "></span> <abbr", str(full)))  # our own markup


def cell_html(cell: Any) -> Markup:
    """Return a cell of a grid."""
    if isinstance(cell, Quantity):
        return quantity_html(cell, word=False)
    if cell is None:
        return Markup('<span class="none">–</span>')
    if isinstance(cell, bool):
        return escape("yes" if cell else "no")
    if isinstance(cell, int | float):
        return escape(number_text(float(cell), ""))
    return inline(str(cell))


def gate_line(gate: Gate) -> Markup:
    """Return the interval of a gate on a line, with the limit as a stroke."""
    quantity, limit = gate.quantity, gate.limit
    if quantity is None or limit is None:
        return Markup("")
    ends = (quantity.low, quantity.high, limit, quantity.value)
    low, high = min(ends), max(ends)
    span = (high - low) or max(abs(high), 1.0)
    low, span = low - 0.1 * span, 1.2 * span
    a, b, c, m = (
        150 * (v - low) / span for v in (quantity.low, quantity.high, limit, quantity.value)
    )
    return Markup(
        '<svg class="gate-line" viewBox="0 0 150 18" aria-hidden="true">'
        '<line x1="{:.1f}" x2="{:.1f}" y1="9" y2="9" class="range"/>'
        '<circle cx="{:.1f}" cy="9" r="3.5" class="point"/>'
        '<line x1="{:.1f}" x2="{:.1f}" y1="1" y2="17" class="limit"/></svg>'
    ).format(a, b, m, c, c)


def duration(seconds: float) -> str:
    """Say how long something took.

    Examples
    --------
    >>> [duration(s) for s in (0.02, 4.26, 300.0, 5400.0)]
    ['< 0.1 s', '4.3 s', '5 min', '1.5 h']
    """
    if seconds < 0.1:
        return "< 0.1 s"
    if seconds < 60:
        return f"{seconds:.3g} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.2g} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _all_findings(record: AuditRecord) -> list[Finding]:
    return [*record.findings, *(f for section in record.sections for f in section.findings)]


def _assumptions(record: AuditRecord) -> list[str]:
    return list(dict.fromkeys(a for section in record.sections for a in section.assumptions))


def _verdicts(record: AuditRecord) -> list[tuple[str, int]]:
    counts = Counter(gate.verdict for gate in record.gates)
    return [(word, counts[word]) for word in ("fail", "undecided", "pass") if counts[word]]


def _groups(record: AuditRecord) -> dict[str, list[Any]]:
    """Actions in the three lists of the page."""
    actions = record.actions
    return {
        "do": [a for a in actions if a.blocking or a.advised],
        "suggested": [a for a in actions if a.gain is None and not a.blocking],
        "not now": [a for a in actions if a.gain is not None and not a.advised and not a.blocking],
    }


def _figures(record: AuditRecord, drawings: Drawings) -> dict[tuple[str, int], Markup]:
    """Every picture of the page, by section and position."""
    found: dict[tuple[str, int], Markup] = {}
    for s, section in enumerate(record.sections):
        for k, figure in enumerate(section.figures):
            if figure.chart is not None:
                with contextlib.suppress(ValueError, TypeError, OverflowError, ArithmeticError):
                    found[section.name, k] = chart_svg(  # numbers that cannot be drawn: words only
                        figure.chart, title=figure.title, alt=figure.alt, prefix=f"f{s}-{k}"
                    )
            elif (section.name, k) in drawings:
                found[section.name, k] = drawings[section.name, k]
    return found


def _asset(name: str) -> str:
    folder = resources.files("counterplay.auditing").joinpath("templates")
    return folder.joinpath(name).read_text(encoding="utf-8")
