"""Logs of all kinds: the stored ones of every release, and how to write those of this one.

``python tests/studio/golden_logs.py RELEASE`` writes ``golden/RELEASE``: run it once at a release,
never again. What is compared is :func:`facts`, a few numbers of the replayed state.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from guards import Service, guard_config
from kind_driver import Stream
from other_rules import another_rule
from studio_campaigns import campaign_config, label_all, pool
from web_house import COLUMNS, catalogue, fields

from counterplay.core.exports import EventChain, read_export, write_export
from counterplay.studio import Studio
from counterplay.studio.kinds import NewEvent, kind_of
from counterplay.studio.kinds.campaign import lost_answers
from counterplay.studio.kinds.campaign_reload import written_with
from counterplay.verify.audit import record_hash

FOLDER = Path(__file__).parent / "golden"


def elicitation_export(
    taste: tuple[float, ...] = (0.7, 0.3), seed: int = 1, columns: tuple[str, ...] = COLUMNS
) -> bytes:
    """Somebody answers by her taste and gets a result."""
    kind: Any = kind_of("elicitation")
    raw = {**fields(columns, seed=seed), "table_bytes": catalogue(12, columns)}
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


def whole_elicitation() -> bytes:
    """All that can happen to participants, written by a store: one leaves, two get results."""
    with tempfile.TemporaryDirectory() as folder, Studio(folder) as studio:
        store, kind = studio.store, kind_of("elicitation")
        raw = {**fields(consent="I agree."), "table_bytes": catalogue()}
        study = store.new_study("elicitation", "Things", kind.read_config(raw, Path()), actor="a")
        config = {**store.config(study), "target": 0.02}
        store.edit_study(study.public_id, config, actor="a")
        for state in ("open", "paused", "open"):
            study = store.set_state(study.public_id, state, actor="a")
        people = [store.new_party(study, role="participant", label=f"p{i}") for i in range(3)]

        def say(n: int, kind: str, body: dict[str, Any]) -> None:
            who = people[n].public_id
            store.append_now(who, NewEvent(kind, body, secrets.token_hex(8), who), expected=None)

        def choose(n: int) -> None:
            asked, _ = store.fold_now(people[n].public_id).state.open
            say(n, "elicit.answered", {"asked": asked, "order": [0], "answer": "first", "ms": 900})

        for n, person in enumerate(people):
            store.join(person)
            text_hash = hashlib.sha256(b"I agree.").hexdigest()
            say(n, "consent", {"text_hash": text_hash, "version": study.version})
            choose(n)
        for word in ("same", "cannot say"):
            asked, _ = store.fold_now(people[0].public_id).state.open
            say(0, "elicit.cannot_say", {"asked": asked, "said": word})
        names = dict.fromkeys(("comfort", "price"), 500.0)
        studio.volunteer(people[0].public_id, {**names, "price": 400.0}, names)
        say(0, "elicit.undone", {"seq": store.fold_now(people[0].public_id).state.log[-1].seq})
        studio.volunteer(people[0].public_id, {**names, "comfort": 600.0}, names)
        choose(0)
        say(0, "elicit.stopped", {})
        while store.fold_now(people[1].public_id).state.result is None:
            choose(1)
        store.withdraw_party(people[2])
        store.set_state(study.public_id, "closed", actor="a")
        return studio.export(study.public_id).encode()


def whole_campaign() -> bytes:
    """All that can happen while clinics label; one leaves with its answers."""
    from counterplay.studio.kinds.campaign_adding import addition, cells_of

    kind: Any = kind_of("campaign")
    with tempfile.TemporaryDirectory() as folder:
        config, truth = campaign_config(
            Path(folder), 60, parties=3, max_error=0.2, noise=0.05, confidence=0.8
        )
    stream = Stream(kind, config, "campaign2")
    stream.add("study.opened", {})
    known = [[place, int(truth[place])] for place in range(0, 60, 12)]
    stream.add("label.imported", {"source": "old.csv", "known": known})

    def waiting() -> list[Any]:
        return [q for party in stream.config["parties"] for q in stream.state.waiting(party)]

    def tell(asked: Any, code: int) -> None:
        body = {"id": asked.id, "label": code, "party": asked.party, "ms": 800}
        stream.add("label.tell", body, actor=asked.party)

    tell(waiting()[0], 0)
    first = waiting()[0]
    stream.add("label.skip", {"id": first.id, "party": first.party}, actor=first.party)
    answers = [[q.id, int(truth[q.item]), None] for q in waiting()[:2]]
    stream.add("label.imported", {"source": "tasks.json", "answers": answers})
    fresh, _ = pool(64, parties=3)
    cells = cells_of(config["page"]["columns"], fresh.iloc[60:])
    stream.add("label.add", addition(stream.state, "clinic 0", cells))
    truth = np.append(truth, [0, 0, 0, 0])
    used = {a.item for a in stream.state.answers.values()} | {q.item for q in waiting()}
    item = next(i for i in range(60) if i not in used and i % 12)
    stream.add("label.withdraw", {"item": item, "reason": "blurred"})
    while not stream.state.disagreed:
        asked = waiting()[0]
        tell(asked, int(truth[asked.item]) ^ (asked.repeat > 0))
    noted = {"item": next(iter(stream.state.disagreed)), "note": "looked again"}
    stream.add("label.resolved", noted)
    one = next(a for a in stream.state.answers.values() if a.code >= 0)
    stream.add("label.retract", {"id": one.question, "blind": True, "party": one.party},
               actor=one.party)  # fmt: skip
    body = {"party": "clinic 2", "forget": True, "who": "clinic 2",
            "lost": lost_answers(stream.state, "clinic 2")}  # fmt: skip
    stream.add("label.party", body)
    stream.add("party.withdrawn", {"party": "clinic 2"}, actor="clinic 2")
    label_all(stream, truth, skip="clinic 2")
    stream.add("study.closed", {})
    gone = set(kind.erases(stream.config, stream.events, "clinic 2"))
    stream.events = [
        msgspec.structs.replace(e, body=None, salt=None) if e.seq in gone else e
        for e in stream.events
    ]
    return stream.export()


def changed_campaign() -> bytes:
    """A campaign that another version went on with."""
    with tempfile.TemporaryDirectory() as folder:
        config, truth = campaign_config(Path(folder), 92, parties=2, max_error=0.1)
    truth = np.random.default_rng(0).permutation(truth)  # nothing to learn: the rule matters soon
    stream = Stream(kind_of("campaign"), config, "campaign3")
    stream.add("study.opened", {})
    label_all(stream, truth, 60)
    with pytest.MonkeyPatch.context() as patch:
        another_rule(patch)
        stream.folded.state = stream.replayed()
        stream.add("label.rule", written_with())
        label_all(stream, truth)
    return stream.export()


def whole_guard() -> bytes:
    """A guard of which somebody takes the live model down."""
    stream = guard_stream()
    live = next(m for m, _ in reversed(stream.state.decisions) if m)
    stream.add("guard.taken_down", {"model": live, "reason": "wrong units"})
    stream.add("guard.ended", {"after": len(stream.state.decisions) - 1}, actor="service")
    stream.add("study.closed", {})
    return stream.export()


MAKERS = {
    "elicitation": elicitation_export,
    "campaign": campaign_export,
    "guard": guard_export,
    "audit": audit_export,
}
"""One short log of each kind."""
WHOLE = {
    "elicitation-whole": whole_elicitation,
    "campaign-whole": whole_campaign,
    "campaign-changed": changed_campaign,
    "guard-whole": whole_guard,
}
"""Together with the short ones they have every kind of event."""


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
        flags = [state.joined, state.consented, state.stopped, state.erased]
        best = None if state.result is None else [state.result.item, state.result.questions]
        return {"answers": shown, "flags": flags, "result": best, "certificate":
                state.result and state.result.regret_certificate}  # fmt: skip
    if kind == "campaign":
        accounts = [state.account(party) for party in state.config["parties"]]
        rows = [[p["party"], p["asked"], p["alone_at_least"]] for p in accounts]
        answers = {name: said.code for name, said in sorted(state.answers.items())}
        return {
            "work": rows, "answers": answers, "items": state.config["items"],
            "certified": sorted(state.certified), "out": sorted(state.withdrawn),
            "left": sorted(state.gone), "disagreed": sorted(state.disagreed.items()),
            "known": [list(pair) for pair in state.known], "changes": state.changes,
            "labels": state.stated and list(state.stated.labels),
        }  # fmt: skip
    if kind == "guard":
        return {"decisions": [list(one) for one in state.decisions],
                "out": sorted(state.removed)}  # fmt: skip
    return {"finished": state.finished and state.finished["content_sha256"]}


def main(release: str) -> None:
    """Write the logs of a release, and what their states are."""
    folder = FOLDER / release
    folder.mkdir(parents=True)
    known = {}
    for name, make in {**MAKERS, **WHOLE}.items():
        export = make()
        (folder / f"{name}.jsonl").write_bytes(export)
        known[name] = facts(export)
    (folder / "facts.json").write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
