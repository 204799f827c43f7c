"""Logs of all kinds: the stored ones of every release, and how to write those of this one.

``python tests/studio/golden_logs.py RELEASE`` writes ``golden/RELEASE``: run it once at a release,
never again. What is compared is :func:`facts`, a few numbers of the replayed state.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from guards import Service, guard_config
from kind_driver import Stream
from studio_campaigns import campaign_config, label_all
from web_house import catalogue, fields

from counterplay.core.exports import EventChain, read_export, write_export
from counterplay.studio.kinds import kind_of
from counterplay.verify_audit import record_hash

FOLDER = Path(__file__).parent / "golden"


def elicitation_export(taste: tuple[float, ...] = (0.7, 0.3), seed: int = 1) -> bytes:
    """Somebody answers by her taste, takes one answer back, and gets a result."""
    kind: Any = kind_of("elicitation")
    raw = {**fields(seed=seed), "table_bytes": catalogue()}
    stream = Stream(kind, kind.read_config(raw, Path()), "person1")
    stream.add("party.joined", {"role": "participant", "locale": "en"}, actor="person1")
    while stream.state.open is not None:
        asked, question = stream.state.open
        worth = [float(np.dot(option.values, taste)) for option in question.shown]
        place = int(np.argmax(worth))
        body = {"asked": asked, "order": [place], "answer": ("first", "second")[place]}
        stream.add("elicit.answered", body, actor="person1")
    return stream.export()


def campaign_export(n: int = 40) -> bytes:
    """Two clinics label until their certificate holds."""
    kind: Any = kind_of("campaign")
    with tempfile.TemporaryDirectory() as folder:
        config, truth = campaign_config(Path(folder), n, parties=2, max_error=0.25)
    stream = Stream(kind, config, "campaign1")
    stream.add("study.opened", {})
    label_all(stream, truth)
    return stream.export()


def guard_stream(rounds: int = 30) -> Stream:
    """A guard over some rounds, with late and missing outcomes."""
    config = guard_config(horizon=500)
    service, stream = Service(config), Stream(kind_of("guard"), config, "guard1")
    stream.add("study.opened", {})
    for number in range(rounds):
        batch = service.outcomes()
        for outcome in batch:
            stream.add("guard.outcome", outcome, actor="service", key=f"outcome:{outcome['id']}")
        service.hear(batch)
        after = {"after": service.now.id}
        stream.add("guard.ended", after, actor="service", key=f"ended:{number}")
        service.next_round()
    return stream


def guard_export() -> bytes:
    """Such a guard, closed."""
    stream = guard_stream()
    stream.add("study.closed", {})
    return stream.export()


def audit_export() -> bytes:
    """An audit, small and made up: what its log looks like."""
    inputs = {"table.csv": hashlib.sha256(b"table").hexdigest()}
    record: dict[str, Any] = {
        "kind": "counterplay audit", "version": 1, "subject": {"model": "none", "n": 100},
        "findings": [{"text": "one row in ten can be gamed", "value": 0.1}],
        "gates": [{"name": "gaming", "passed": False}], "variants": [],
        "making": {"library": "0.2"},
    }  # fmt: skip
    chain = EventChain("audit1")
    chain.add("audit.requested", {"inputs": inputs, "config": "[audit]"}, actor="admin")
    finished = {
        "content_sha256": record_hash(record), "record": record, "gates": record["gates"],
        "artifacts": {"audit.html": hashlib.sha256(b"page").hexdigest()},
    }  # fmt: skip
    chain.add("audit.finished", finished, actor="studio")
    return write_export("audit1", "audit", {"inputs": inputs}, [chain]).encode()


MAKERS = {
    "elicitation": elicitation_export,
    "campaign": campaign_export,
    "guard": guard_export,
    "audit": audit_export,
}


def replayed(export: bytes) -> list[Any]:
    """The states of all streams of an export, folded by the present code."""
    read = read_export(export)
    kind = kind_of(read.study.study_kind)
    states: dict[str, Any] = {}
    for event in read.events:
        state = states.get(event.stream)
        state = kind.begin(read.study.config) if state is None else state
        states[event.stream] = kind.apply(read.study.config, state, event)
    return list(states.values())


def facts(export: bytes) -> list[Any]:
    """What a replayed state says, in a few plain values."""
    return [_facts(read_export(export).study.study_kind, state) for state in replayed(export)]


def _facts(kind: str, state: Any) -> Any:
    if kind == "elicitation":
        shown = [[list(entry.entry.order), entry.entry.said] for entry in state.log]
        best = None if state.result is None else [state.result.item, state.result.questions]
        return {"answers": shown, "result": best, "certificate":
                state.result and state.result.regret_certificate}  # fmt: skip
    if kind == "campaign":
        rows = [[p.party, p.asked, p.alone_at_least] for p in state.campaign.work().parties]
        answers = {name: said.code for name, said in sorted(state.answers.items())}
        return {"work": rows, "answers": answers}
    if kind == "guard":
        return {"decisions": [list(one) for one in state.decisions]}
    return {"finished": state.finished and state.finished["content_sha256"]}


def main(release: str) -> None:
    """Write the logs of a release, and what their states are."""
    folder = FOLDER / release
    folder.mkdir(parents=True)
    known = {}
    for name, make in MAKERS.items():
        export = make()
        (folder / f"{name}.jsonl").write_bytes(export)
        known[name] = facts(export)
    (folder / "facts.json").write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
