"""Exports are recomputed by other code: honest ones pass, forged ones are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplay import cli
from counterplay.core.exports import EventChain, read_export, receipt, write_export
from counterplay.elicitation import LinearPreferenceUser, PolytopeElicitor, answered_by
from counterplay.errors import InvalidStateError
from counterplay.tradeoff import ChampionChallenger, HarmBudget
from counterplay.tradeoff.guard_log import GuardLog
from counterplay.verify import Verification, verify


def status(found: Verification) -> dict[str, str]:
    return {check.name: check.status for check in found.checks}


def failed(found: Verification) -> list[str]:
    return [str(check) for check in found.checks if check.status == "failed"]


class Person:
    """An elicitation and the export of what happened in it."""

    def __init__(self, items: np.ndarray, weights: list[float], **options: Any) -> None:
        self.items = items
        self.elicitor = PolytopeElicitor(items, random_state=0, **options)
        w = np.array(weights) / np.linalg.norm(weights)
        user = LinearPreferenceUser(w, eps=0.01)
        self.result = answered_by(self.elicitor, user)

    def export(self, change: dict[str, Any] | None = None, upto: int | None = None) -> bytes:
        chain = EventChain("person 1")
        for number, entry in enumerate(self.elicitor.events[:upto]):
            shown = {
                side: {"id": None, "values": value.tolist()}
                for side, value in (("first", entry.first), ("second", entry.second))
            }
            body = {
                "number": number,
                "shown": shown,
                "answer": entry.answer.value,
                "purpose": entry.purpose,
                "about": entry.about,
            }
            chain.add("elicit.answered", body, actor="person 1")
        aside = sorted({i for c in self.result.contradictions for i in c.set_aside})
        stated = {
            "item": self.result.index,
            "regret_certificate": self.result.regret_certificate,
            "set_aside": aside,
            "questions": len(chain.events),
        }
        chain.add("elicit.result", stated | (change or {}), actor="person 1")
        config = {
            "items": self.items.tolist(),
            "target": self.elicitor.target_regret,
        }
        return write_export("cars", "elicitation", config, [chain]).encode()


@pytest.mark.parametrize("seed", range(6))
def test_the_certificate_is_that_of_the_area(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 5))
    items = rng.random((40, k))
    weights = rng.dirichlet(np.ones(k)).tolist()
    person = Person(items, weights, target_regret=0.05)
    found = verify(person.export())
    assert found.holds, found.summary()
    (check,) = [c for c in found.checks if c.name.startswith("certificate")]
    stated = float(check.detail.split("stated ")[1].split(",")[0])
    recomputed = float(check.detail.split("recomputed ")[1].split()[0])
    assert recomputed == pytest.approx(stated, abs=2e-4)


def test_a_forged_certificate_is_named() -> None:
    items = np.random.default_rng(3).random((60, 3))
    person = Person(items, [0.5, 0.3, 0.2], target_regret=0.02)
    assert verify(person.export()).holds
    assert failed(verify(person.export({"regret_certificate": 0.0}, upto=1)))
    worst = int(items.sum(axis=1).argmin())
    found = verify(person.export({"item": worst}))
    assert failed(found)
    assert "certificate of person 1: stated" in failed(found)[0]
    assert failed(verify(person.export({"item": 99})))
    assert failed(verify(person.export({"questions": 0})))
    assert failed(verify(person.export({"set_aside": [77]})))
    assert "would have been enough" in failed(verify(person.export({"set_aside": [0]})))[0]


def test_contradictions_that_were_set_aside() -> None:
    items = np.eye(2)
    chain = EventChain("p")
    shown = {"first": {"id": 0, "values": [1.0, 0.0]}, "second": {"id": 1, "values": [0.0, 1.0]}}
    for number, said in enumerate(("first", "second", "first")):
        body = {"number": number, "shown": shown, "answer": said, "purpose": "volunteered"}
        chain.add("elicit.answered", body, actor="p")
    stated = {"item": 0, "regret_certificate": 0.0, "set_aside": [1], "questions": 3}
    chain.add("elicit.result", stated, actor="p")
    config = {"items": items.tolist(), "target": 0.01}
    found = verify(write_export("two", "elicitation", config, [chain]).encode())
    assert found.holds, found.summary()
    assert "1 set aside" in found.summary()


def rewritten(export: bytes, line: int, change: Any) -> bytes:
    """Change one line without mending the hashes."""
    rows = [json.loads(row) for row in export.splitlines()]
    change(rows[line])
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.mark.parametrize(
    ("line", "change", "told"),
    [
        (0, lambda row: row["config"].update(target=0.5), "its hash differs"),
        (0, lambda row: row["heads"][0].update(hash="0" * 64), "does not end with"),
        (1, lambda row: row["body"].update(answer="same"), "the content of event 1 was changed"),
        (2, lambda row: row.update(hash="0" * 64), "event 2 does not follow"),
        (2, lambda row: row.update(key="person 1:1"), "event 2 repeats the key"),
        (2, lambda row: row.update(kind="elicit.undone"), "event 2 does not follow"),
        (2, lambda row: row.update(seq=7), "event 2 is missing"),
        (1, lambda row: row.update(salt=None), "has a body without a salt"),
        (2, lambda row: row.update(stream="other"), "event 2 is missing"),
    ],
)
def test_every_change_breaks_the_chain(line: int, change: Any, told: str) -> None:
    person = Person(np.random.default_rng(0).random((30, 3)), [0.5, 0.3, 0.2])
    found = verify(rewritten(person.export(), line, change))
    assert not found.holds
    assert told in found.summary()


def test_a_dropped_last_event_is_noticed() -> None:
    export = Person(np.random.default_rng(0).random((30, 3)), [0.5, 0.3, 0.2]).export()
    shorter = b"".join(export.splitlines(keepends=True)[:-1])
    assert "does not end with" in verify(shorter).summary()


def test_erased_content_leaves_the_chain_intact() -> None:
    export = Person(np.random.default_rng(0).random((30, 3)), [0.5, 0.3, 0.2]).export()
    found = verify(rewritten(export, 1, lambda row: row.update(body=None, salt=None)))
    assert status(found)["chain of person 1"] == "ok"
    assert status(found)["certificate of person 1"] == "erased"
    assert found.holds


def test_receipts() -> None:
    export = Person(np.random.default_rng(0).random((30, 3)), [0.5, 0.3, 0.2]).export()
    code = receipt(read_export(export).events[1].hash)
    assert verify(export, receipts=[code.lower()]).holds
    assert not verify(export, receipts=["0000-0000-0000-0000"]).holds


def labeling_export(**change: Any) -> bytes:
    """Four thresholds on seven points; two answers leave one labeling."""
    points = np.array([0.25, 0.5, 0.75, 0.3, 0.45, 0.55, 0.7])
    labelings = (points >= np.array([[0.2], [0.4], [0.6], [0.8]])).astype(int)
    chain = EventChain("campaign")
    for party, item in ((0, 1), (1, 6)):
        told = {"party": party, "item": item, "label": int(labelings[2, item])}
        chain.add("label.tell", told | change.get("tell", {}), actor=f"party {party}")
    stated = {
        "labels": labelings[2].tolist(),
        "confidence": [1.0] * 7,
        "answers": [1, 1],
        "labelings_left": 1,
    }
    chain.add("label.result", stated | change.get("stated", {}), actor="campaign")
    config = {
        "labelings": labelings.tolist(),
        "weights": [1, 1, 1, 1],
        "owners": [[0, 1, 2], [3, 4, 5, 6]],
        "classes": ["no", "yes"],
    }
    return write_export("pool", "labeling", config | change.get("config", {}), [chain]).encode()


def test_labels_are_recounted() -> None:
    found = verify(labeling_export())
    assert found.holds, found.summary()
    assert "7 of 7 follow from 2 answers" in found.summary()
    for stated in (
        {"labels": [1, 1, 1, 1, 1, 1, 1]},
        {"answers": [2, 0]},
        {"labelings_left": 2},
        {"labels": [0]},
        {"confidence": [1.0]},
    ):
        assert not verify(labeling_export(stated=stated)).holds, stated
    fewer = {"labels": [1] * 7, "confidence": [0.25] * 7}
    assert not verify(labeling_export(stated=fewer)).holds


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"tell": {"party": 9}}, "no such party"),
        ({"tell": {"item": 99}}, "no such party or point"),
        ({"tell": {"label": 2}}, "is no class"),
        ({"tell": {"party": 0, "item": 5}}, "does not own"),
        ({"config": {"labelings": [[0, 1], [1]]}}, "as many points"),
        ({"config": {"weights": [0, 0, 0, 0]}}, "not all 0"),
        ({"config": {"owners": [[99]]}}, "is no point"),
        ({"config": {"labelings": [[7]]}}, "is no class"),
    ],
)
def test_bodies_that_make_no_sense_are_bad_files(change: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidStateError, match=told):
        verify(labeling_export(**change))


def guard_export(seed: int = 0, **change: Any) -> bytes:
    """A champion with three models, one of them harmful; 300 of 400 rounds."""
    rng = np.random.default_rng(seed)
    guard = ChampionChallenger(
        n_models=3, horizon=400, budget=HarmBudget(0.1, 5.0), review_every=160, random_state=1
    )
    log = GuardLog(guard)
    for _ in range(300):
        log.step(rng.random(3).round(3), (rng.random(3) < [0.05, 0.1, 0.3]).astype(float))
    honest = read_export(log.export("loans").encode())
    chain = EventChain("guard")
    for event in honest.events:
        last = event.kind == "guard.decided" and event.body["round"] == 300
        name = "decided" if last else "stated" if event.kind == "guard.result" else ""
        chain.add(event.kind, event.body | change.get(name, {}), actor="guard")
    config = honest.study.config | change.get("config", {})
    return write_export("loans", "guard", config, [chain]).encode()


@pytest.mark.parametrize("seed", range(4))
def test_the_guard_is_recounted(seed: int) -> None:
    found = verify(guard_export(seed))
    assert found.holds, found.summary()
    assert status(found)["harm bound"] == "ok"


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"stated": {"harm_bound": 1.0}}, "harm bound"),
        ({"stated": {"take_downs": 0}}, "switches, reviews, take-downs"),
        ({"stated": {"played": [0.0, 0.0]}}, "losses of the live models"),
        ({"stated": {"needed_burst": [0.0, 0.0, 0.0]}}, "burst each model needed"),
        ({"stated": {"live_rounds": [300, 0, 0]}}, "rounds of each model"),
        ({"decided": {"allowed": [0, 1, 2], "model": 2}}, "live models"),
        ({"config": {"burst": 500.0}}, "live models"),
    ],
)
def test_forged_guards_are_named(change: dict[str, Any], name: str) -> None:
    found = verify(guard_export(0, **change))
    assert status(found)[name] == "failed", found.summary()


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, none = tmp_path / "good.jsonl", tmp_path / "bad.jsonl", tmp_path / "none.jsonl"
    good.write_bytes(labeling_export())
    bad.write_bytes(labeling_export(stated={"labelings_left": 3}))
    none.write_text("hello")
    assert cli.run(["verify", str(good)]) == 0
    assert "ok     labels: 7 of 7" in capsys.readouterr().out
    assert cli.run(["verify", str(bad), "--json"]) == 3
    shown = json.loads(capsys.readouterr().out)
    assert shown["holds"] is False
    assert [c["name"] for c in shown["checks"] if c["status"] == "failed"] == ["labelings left"]
    for path in (none, tmp_path / "missing.jsonl", tmp_path):
        assert cli.run(["verify", str(path)]) == 2
        told = capsys.readouterr().err
        assert told.startswith("counterplay: the export")
        assert "Traceback" not in told


def test_the_table_behind_the_items(tmp_path: Path) -> None:
    path = tmp_path / "cars.csv"
    path.write_text("name,km,price\na,300,20000\nb,600,50000\nc,450,30000\n")
    config = {
        "items": [[0.0, 1.0], [1.0, 0.0], [0.5, 2 / 3]],
        "target": 0.01,
        "columns": {"benefits": ["km"], "costs": ["price"], "scale": "range", "rows": [0, 1, 2]},
    }
    chain = EventChain("p")
    chain.add("elicit.stopped", {}, actor="p")
    export = write_export("cars", "elicitation", config, [chain]).encode()
    assert status(verify(export, table=path))["table"] == "ok"
    path.write_text("name,km,price\na,300,20000\nb,600,50000\nc,450,31000\n")
    assert status(verify(export, table=path))["table"] == "failed"
    path.write_text("name,km\na,300\n")
    assert "no column 'price'" in verify(export, table=path).summary()
