"""All checks of one export: hashes, numbers, keys and receipts, then what its events state."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterplay.core import export_bodies as lines
from counterplay.core.exports import (
    LARGEST,
    START,
    Event,
    Export,
    body_hash,
    config_hash,
    event_hash,
    plain_receipt,
    read_export,
    receipt,
)
from counterplay.core.files import read_limited
from counterplay.core.records import to_record
from counterplay.core.report import Report
from counterplay.verify.audit import audit_checks
from counterplay.verify.campaign import Recount
from counterplay.verify.campaign_log import campaign_log
from counterplay.verify.checks import Check, agree, read_body
from counterplay.verify.elicitation import elicitation_checks
from counterplay.verify.guard import guard_checks
from counterplay.verify.labeling import labeling_checks

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Verification(Report):
    """What became of everything an export states."""

    study: str
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing failed; what was erased can no longer be checked and does not count."""
        return all(check.status != "failed" for check in self.checks)

    def summary(self) -> str:
        """Return one line per check."""
        return "\n".join(str(check) for check in self.checks)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per check."""
        import pandas as pd

        return pd.DataFrame([vars(check) for check in self.checks])


def verify(
    export: str | os.PathLike[str] | bytes,
    *,
    table: str | os.PathLike[str] | None = None,
    receipts: Sequence[str] = (),
) -> Verification:
    """Check every hash of an export and recompute every result that it states.

    Parameters
    ----------
    export:
        Path of the file, or its bytes.
    table:
        The CSV file of the items of an elicitation, to check that the items are really its rows.
    receipts:
        Codes that people noted; each must be that of an event in the export.

    Raises
    ------
    InvalidStateError
        The file is not an export.

    Examples
    --------
    >>> from counterplay.core.exports import EventChain, write_export
    >>> config = {"items": [[1.0, 0.0], [0.0, 1.0]], "target": 0.01}
    >>> chain = EventChain("person 1")
    >>> shown = {"first": {"id": 0, "values": [1, 0]}, "second": {"id": 1, "values": [0, 1]}}
    >>> said = {"number": 0, "shown": shown, "answer": "first", "purpose": "compare"}
    >>> _ = chain.add("elicit.answered", said, actor="person 1")
    >>> stated = {"item": 0, "regret_certificate": 0.0, "set_aside": [], "questions": 1}
    >>> _ = chain.add("elicit.result", stated, actor="person 1")
    >>> print(verify(write_export("two", "elicitation", config, [chain]).encode()).checks[-1])
    ok     certificate of person 1: stated 0, recomputed 0 from 1 answers
    """
    if not isinstance(export, bytes):
        export = read_limited(export, what="the export", limit=LARGEST)
    read = read_export(export)
    checks = [*_chains(read), *_receipts(read, receipts)]
    if all(check.status == "ok" for check in checks):
        checks += _stated(read, table)
    return Verification(read.study.study, tuple(checks))


def _chains(export: Export) -> Iterable[Check]:
    """Hashes, numbers, keys and heads of every stream; the configuration against its hash."""
    same = config_hash(export.study.config) == export.study.config_hash
    told = "matches its hash" if same else "was changed: its hash differs"
    yield Check("configuration", "ok" if same else "failed", told)
    heads = {head.stream: head for head in export.study.heads}
    streams: dict[str, list[Event]] = {name: [] for name in heads}
    for event in export.events:
        streams.setdefault(event.stream, []).append(event)
    for name, events in streams.items():
        broken = broken_at(events)
        problem = None if broken is None else broken[1]
        last = events[-1] if events else None
        if problem is None:
            head = heads.get(name)
            if head is None:
                problem = "its head is not in line 1"
            elif last is None or (last.seq, last.hash) != (head.seq, head.hash):
                problem = f"it does not end with the event {head.seq} that line 1 names"
        code = "" if last is None else receipt(last.hash)
        erased = sum(event.body is None for event in events)
        gone = f", {erased} erased" if erased else ""
        yield Check(
            f"chain of {name}",
            "ok" if problem is None else "failed",
            problem or f"{len(events)} events{gone}, receipt {code}",
        )


def broken_at(events: Sequence[Event]) -> tuple[int, str] | None:
    """Return the number of the first event of a stream that is wrong, and what is wrong with it."""
    previous, keys = START, set()
    for number, event in enumerate(events, start=1):
        if event.seq != number:
            return number, f"event {number} is missing (found {event.seq})"
        if event.key in keys:
            return number, f"event {number} repeats the key of an earlier one"
        keys.add(event.key)
        if (event.body is None) != (event.salt is None):
            return number, (f"event {number} has a body without a salt, or a salt without a body")
        whole = event.body is not None and event.salt is not None
        if whole and body_hash(event.salt or "", event.body or {}) != event.body_hash:
            return number, f"the content of event {number} was changed"
        linked = event_hash(previous, event.stream, event.seq, event.kind, event.body_hash)
        if linked != event.hash:
            return number, f"event {number} does not follow from the one before"
        previous = event.hash
    return None


def _receipts(export: Export, codes: Sequence[str]) -> Iterable[Check]:
    others = ", ".join(map(str, export.study.other_versions[:20]))
    rest = f"; answers under another version (here: {others}) are in another file" if others else ""
    for code in codes:
        typed = plain_receipt(code).encode("utf-8", "replace")
        event = next(
            (
                event
                for event in export.events
                if secrets.compare_digest(plain_receipt(receipt(event.hash)).encode(), typed)
            ),
            None,
        )
        told = (
            f"event {event.seq} of {event.stream}" if event else f"no event has this receipt{rest}"
        )
        yield Check(f"receipt {code[:40]}", "ok" if event else "failed", told)


def _stated(export: Export, table: str | os.PathLike[str] | None) -> Iterable[Check]:
    """Check what the events of the study's kind state."""
    yield from _recorded_config(export)
    kind = export.study.study_kind
    if kind == "elicitation":
        yield from elicitation_checks(export, table)
    elif kind == "labeling":
        yield from labeling_checks(export)
    elif kind == "campaign":
        yield from _campaign(export)
    elif kind == "guard":
        yield from guard_checks(export)
    else:
        yield from audit_checks(export)


def _recorded_config(export: Export) -> Iterable[Check]:
    """A studio writes the hash of every version of its configuration into the log."""
    line = export.study
    said = [
        (event.body.get("version"), event.body.get("config_hash"))
        for event in export.events
        if event.kind in ("study.created", "study.edited") and event.body is not None
    ]
    if said:
        wrong, numbers = None, [number for number, _ in said]
        if line.config_hash not in [digest for _, digest in said]:
            wrong = "it is not the one in the log"
        elif line.study_version and (line.study_version, line.config_hash) not in said:
            wrong = f"it is not version {line.study_version} of the log"
        elif any(number not in numbers for number in line.other_versions):
            wrong = "line 1 names a version that is not in the log"
        yield agree("configuration in the log", wrong, "it is the one under which people answered")


def _campaign(export: Export) -> Iterable[Check]:
    if any(event.kind.startswith("label.") for event in export.events):
        for finding in campaign_log(export.study.config, export.events):
            if isinstance(finding, str):
                yield Check(finding, "erased", "what it rests on was erased")
            else:
                yield agree(*finding)
        return
    config = to_record(export.study.config, lines.CampaignConfig, what="the configuration")
    recount = Recount(config)
    erased = False
    for event in export.events:
        what = f"event {event.seq} of {event.stream[:60]}"
        if event.body is None or erased:
            erased = True
            if event.kind == "campaign.result":
                yield Check("certificates", "erased", "what they rest on was erased")
        elif event.kind == "campaign.tell":
            recount.told(read_body(event, lines.CampaignTold), what)
        elif event.kind == "campaign.launch":
            recount.launch(read_body(event, lines.CampaignLaunched), what)
        elif event.kind == "campaign.certify":
            passed = read_body(event, lines.CampaignCertified)
            recount.certified[passed.vector] = passed
        elif event.kind == "campaign.result":
            for name, wrong, right in recount.findings(read_body(event, lines.CampaignStated)):
                yield agree(name, wrong, right)
