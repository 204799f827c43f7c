"""The answer of an audit: what a person reads, what a program gates on, what to deploy instead."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from markupsafe import Markup

from counterplay.auditing.actions import sum_line
from counterplay.auditing.findings import Action, Finding, SectionResult, Variant
from counterplay.auditing.gates import Gate
from counterplay.auditing.hardened import chosen_variant, offered_variants, write_variant
from counterplay.auditing.inputs import Inputs
from counterplay.auditing.page import headlines, render_page
from counterplay.auditing.page_chart import draw_chart, drawing_svg
from counterplay.auditing.quantity import Quantity
from counterplay.auditing.record import AuditRecord, VariantRecord, with_hash, write_audit
from counterplay.core.figures import PALETTE, axes_or_new
from counterplay.core.files import write_atomic
from counterplay.core.report import Report
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Report):
    """What `audit` found.

    Parameters
    ----------
    record
        Everything the page shows, as data.
    sections
        Results by the name of the section.
    inputs
        Model, table and settings.

    Examples
    --------
    See `audit`.

    References
    ----------
    docs/audit.md; "Setting", see docs/theory/27-audit.md.
    """

    record: AuditRecord
    sections: Mapping[str, SectionResult]
    inputs: Inputs

    def __repr__(self) -> str:
        about = self.record.subject
        return f"<Audit of {about.model} on {about.table}: {len(self.findings)} findings>"

    @property
    def honest(self) -> Any:
        """How good the model is on rows it has not seen."""
        return self.sections["honest"]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings: of the table, then of the sections."""
        found = [f for section in self.record.sections for f in section.findings]
        return (*self.record.findings, *found)

    @property
    def actions(self) -> tuple[Action, ...]:
        """What to do, in order."""
        return self.record.actions

    @property
    def gates(self) -> tuple[Gate, ...]:
        """Requirements with their verdicts."""
        return self.record.gates

    @property
    def passed(self) -> bool:
        """Whether every gate passes and no section failed."""
        failed = any(section.failed for section in self.record.absent)
        return not failed and all(gate.verdict == "pass" for gate in self.gates)

    @property
    def quantities(self) -> dict[str, Quantity]:
        """All numbers, by the name that a gate uses."""
        return {k: q for section in self.record.sections for k, q in section.quantities.items()}

    @property
    def hardened(self) -> Any:
        """The fitted estimator to deploy instead; None if nothing is advised."""
        chosen = chosen_variant(self._variants, self.actions)
        return None if chosen is None else chosen.model

    @property
    def _variants(self) -> list[Variant]:
        return [v for section in self.sections.values() for v in section.variants]

    def summary(self) -> str:
        """Return the first screen as text."""
        about = self.record.subject
        lines = [
            f"Audit of {about.model} on {about.table}: {about.n:,} decisions, {about.good:,} good, "
            f"{about.bad:,} bad; wanted: {about.label} = {about.wanted}"
        ]
        if not self.record.confirmed and self.record.guesses:
            lines.append(f"NOT CONFIRMED: {len(self.record.guesses)} guesses in the config")
        lines += [f"  {k}. {f.sentence}" for k, f in enumerate(headlines(self.record), start=1)]
        lines.append(f"{action_heading(self.actions)}:")
        lines += [f"  - {action_line(action)}" for action in self.actions[:6]] or ["  - nothing"]
        if line := sum_line(self.actions, self.record.unit, self.record.remaining):
            lines.append(f"  {line}")
        lines += [f"gate {g.verdict}: {g.text} ({g.reason})" for g in self.gates]
        lines += [
            f"{'FAILED' if s.failed else 'not looked at'}: {s.title} {self.record.lacks(s)}"
            for s in self.record.absent
        ]
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """Return every number with its interval, unit and basis, by name."""
        import pandas as pd

        rows = [
            {
                "section": section.name, "name": name, "value": q.value, "low": q.low,
                "high": q.high, "level": q.level, "unit": q.unit, "basis": q.basis, "n": q.n,
            }
            for section in self.record.sections
            for name, q in section.quantities.items()
        ]  # fmt: skip
        columns = ["section", "name", "value", "low", "high", "level", "unit", "basis", "n"]
        return pd.DataFrame(rows, columns=columns)

    def to_json(self) -> str:
        """Return the text of ``audit.json``."""
        return write_audit(self.record)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the page; write it where a path is given."""
        page = render_page(self.record, self._drawings())
        if path is not None:
            write_atomic(path, page)
        return page

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the first figure: money against budget where gaming was looked at."""
        axes = axes_or_new(ax)
        order = sorted(self.record.sections, key=lambda section: section.name != "gaming")
        charts = [f.chart for section in order for f in section.figures if f.chart is not None]
        if not charts:
            raise InvalidInputError("this audit has no figure: no section ran that draws one")
        draw_chart(charts[0], axes, PALETTE)
        return axes

    def save_hardened(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to deploy instead; a fresh process must decide as the page says."""
        chosen = chosen_variant(self._variants, self.actions)
        if chosen is None:
            raise InvalidInputError("nothing is advised that would be deployed instead")
        context = self.inputs.context
        write_variant(chosen, Path(path), context.table.rows, context.positive)
        return Path(path)

    def write(self, folder: str | os.PathLike[str]) -> Audit:
        """Write the models, ``audit.json`` and ``audit.html``; return the audit with the files."""
        home = Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        context = self.inputs.context
        written = {}
        for name, variant in offered_variants(self._variants, self.actions):
            write_variant(variant, home / name, context.table.rows, context.positive)
            written[variant.name] = name
        variants = tuple(
            msgspec.structs.replace(v, file=written[v.name], checked=True)
            for v in self.record.variants
            if v.name in written
        )
        record = with_hash(msgspec.structs.replace(self.record, variants=variants))
        done = Audit(record, self.sections, self.inputs)
        write_atomic(home / "audit.json", done.to_json())
        done.to_html(home / "audit.html")
        return done

    def _repr_html_(self) -> str:
        """The page, in a frame of its own that can run and reach nothing."""
        page = Markup.escape(self.to_html())
        return (
            f'<iframe sandbox title="Audit" style="width:100%;height:44rem;border:1px solid #ccc" '
            f'srcdoc="{page}"></iframe>'
        )

    def _drawings(self) -> dict[tuple[str, int], Markup]:
        """Pictures that sections draw themselves."""
        found = {}
        for s, (name, section) in enumerate(self.sections.items()):
            for k, figure in enumerate(section.figures):
                if figure.draw is not None:
                    found[name, k] = drawing_svg(
                        figure.draw, title=figure.title, alt=figure.alt, prefix=f"d{s}-{k}"
                    )
        return found


def action_heading(actions: Sequence[Action]) -> str:
    """Return what stands above the actions: for how many people who game their gains are.

    Examples
    --------
    >>> action_heading([Action(name="cut", title="Move the cut", how="", scenario="all game at 1")])
    'Do this next (gains: all game at 1)'
    """
    cases = {action.scenario for action in actions if action.scenario}
    return f"Do this next (gains: {cases.pop()})" if len(cases) == 1 else "Do this next"


def action_line(action: Action) -> str:
    """Return an action as one line of text."""
    if action.blocking:
        return f"first: {action.title}"
    if action.gain is None:
        return f"suggestion: {action.title} (gain not measured)"
    gain = f"{action.gain} {action.gain.unit}, {action.gain.basis}"
    words = f"gain {gain}" if action.advised else f"not worth it now, {gain}"
    return f"{action.title} ({words})"


def variant_records(variants: list[Variant], actions: tuple[Action, ...]) -> tuple[Any, ...]:
    """Return the models to deploy instead, as data."""
    return tuple(
        VariantRecord(
            name=v.name, sentence=v.sentence, accepted=int(v.accepted.sum()), action=v.action
        )
        for _, v in offered_variants(variants, actions)
    )
