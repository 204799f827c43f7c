"""Other faces of an audit: for a CI server, for a pull request."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from counterplay.auditing.page import headlines
from counterplay.auditing.record import AuditRecord
from counterplay.auditing.result import action_heading, action_line

_MARKS = {"pass": "✅", "fail": "❌", "undecided": "❔"}


def junit_text(record: AuditRecord) -> str:
    """Return the gates as a JUnit file: undecided ones are skipped, failed sections errors."""
    cases = []
    for gate in record.gates:
        reason = quoteattr(_printable(gate.reason))
        inside = {"pass": "", "fail": f"<failure message={reason}/>"}.get(
            gate.verdict, f"<skipped message={reason}/>"
        )
        name = quoteattr(_printable(gate.text))
        cases.append(f'<testcase classname="counterplay.audit" name={name}>{inside}</testcase>')
    for section in record.absent:
        if section.failed:
            name = quoteattr(_printable(f"section {section.name}"))
            text = escape(_printable(section.reason))
            cases.append(
                f'<testcase classname="counterplay.audit" name={name}><error>{text}</error>'
                "</testcase>"
            )
    verdicts = [gate.verdict for gate in record.gates]
    errors = sum(section.failed for section in record.absent)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<testsuite name="counterplay audit" tests="{len(cases)}" errors="{errors}" '
        f'failures="{verdicts.count("fail")}" skipped="{verdicts.count("undecided")}">\n'
        + "\n".join(cases)
        + "\n</testsuite>\n"
    )


def markdown_text(record: AuditRecord) -> str:
    """Return the first screen as Markdown, every name as plain text."""
    about = record.subject
    lines = [
        f"## Audit of {_plain(about.model)} on {_plain(about.table)}",
        "",
        f"{about.n:,} decisions, {about.good:,} good, {about.bad:,} bad; wanted: "
        f"{_plain(about.label)} = {_plain(about.wanted)}",
        "",
    ]
    if record.gates:
        lines += ["| | gate | why |", "|---|---|---|"]
        lines += [
            f"| {_MARKS[g.verdict]} {g.verdict} | {_plain(g.text)} | {_plain(g.reason)} |"
            for g in record.gates
        ]
        lines.append("")
    lines += [f"{k}. {_plain(f.sentence)}" for k, f in enumerate(headlines(record), start=1)]
    lines += ["", f"**{_plain(action_heading(record.actions))}**", ""]
    lines += [f"- {_plain(action_line(action))}" for action in record.actions[:6]] or ["- nothing"]
    lines += ["", f"content_sha256 {record.content_sha256}", ""]
    return "\n".join(lines)


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    signs = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
    return "".join(
        signs.get(s, "\\" + s if s in "\\`*_{}[]()#+!|~" else s) for s in _printable(text)
    )
