"""Exports prove themselves; imports believe nothing; old logs replay to the same states."""

from __future__ import annotations

import ast
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import golden_logs
import numpy as np
import pytest
import tally_kind
from guards import Service, guard_config
from other_rules import another_rule
from store_fixtures import new_stream
from studio_campaigns import campaign_config
from web_house import catalogue, fields

from counterplay import cli
from counterplay.core.exports import (
    Event,
    EventChain,
    Export,
    read_export,
    receipt,
    write_export,
)
from counterplay.elicitation import LinearPreferenceUser, PolytopeElicitor, answered_by
from counterplay.errors import CounterplayError, InvalidStateError
from counterplay.studio import Studio, errors, exports
from counterplay.studio.backup import restore
from counterplay.studio.kinds import NewEvent, campaign_record, kind_of
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store, append, base
from counterplay.studio.store import studies as study_rows
from counterplay.verify import Verification, verify

KINDS = tuple(golden_logs.MAKERS)
GOLDEN = sorted(golden_logs.FOLDER.glob("*/*.jsonl"))
HASHED = ("body", "salt", "seq", "kind", "stream", "body_hash", "hash")


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    """One export of each kind: the stored logs of the newest release."""
    newest = sorted(golden_logs.FOLDER.iterdir())[-1]
    return {name: (newest / f"{name}.jsonl").read_bytes() for name in KINDS}


def refused(export: bytes) -> bool:
    """Whether verify finds something wrong."""
    try:
        return not verify(export).holds
    except InvalidStateError:
        return True


def edits(export: bytes, count: int, rng: random.Random) -> Iterator[bytes]:
    """The export with one byte of what is hashed changed."""
    lines = export.decode("ascii", "replace").split("\n")[:-1]
    while count:
        number = rng.randrange(len(lines))
        line = lines[number]
        names = HASHED if number else ("config", "config_hash", "heads")
        place = line.index(f'"{rng.choice(names)}":') + 1
        end = re.compile(r',"[a-z_]+":').search(line, place + 12)
        stop = len(line) - 1 if end is None else end.start()
        at = rng.randrange(place, stop)
        changed = line[:at] + rng.choice("0123456789abcdefz") + line[at + 1 :]
        try:
            if json.loads(changed) == json.loads(line):
                continue
        except ValueError:
            pass
        count -= 1
        yield "\n".join([*lines[:number], changed, *lines[number + 1 :], ""]).encode()


@pytest.mark.claim("28.07")
@pytest.mark.parametrize("kind", KINDS)
def test_honest_exports_hold_and_every_edit_is_found(made: dict[str, bytes], kind: str) -> None:
    found = verify(made[kind])
    assert found.holds, found.summary()
    rng = random.Random(KINDS.index(kind))
    for changed in edits(made[kind], 125, rng):
        assert refused(changed)


@pytest.mark.claim("28.07")
@pytest.mark.parametrize("kind", KINDS)
def test_a_dropped_last_event_needs_the_receipt(made: dict[str, bytes], kind: str) -> None:
    """An operator who rewrites the head, too, is caught only by somebody who kept a receipt."""
    read = read_export(made[kind])
    code = receipt(read.events[-1].hash)
    assert verify(made[kind], receipts=[code]).holds
    chain = EventChain(read.events[0].stream)
    chain.events = list(read.events[:-1])
    shorter = write_export(
        read.study.study, read.study.study_kind, read.study.config, [chain]
    ).encode()  # fmt: skip
    assert verify(shorter).holds
    assert not verify(shorter, receipts=[code]).holds


class Person:
    """A random person, her elicitation, and its export with the stated number changed."""

    def __init__(self, seed: int, items: int) -> None:
        rng = np.random.default_rng(seed)
        k = int(rng.integers(2, 6))
        self.items = rng.random((items, k))
        self.elicitor = PolytopeElicitor(self.items, random_state=seed)
        weights = rng.random(k)
        user = LinearPreferenceUser(weights / np.linalg.norm(weights), eps=0.01)
        self.result = answered_by(self.elicitor, user)

    def export(self, lower: float = 0.0) -> bytes:
        chain = EventChain("person")
        for number, entry in enumerate(self.elicitor.events):
            sides = (("first", entry.first), ("second", entry.second))
            body = {
                "number": number, "answer": entry.answer.value, "purpose": entry.purpose,
                "shown": {side: {"id": None, "values": value.tolist()} for side, value in sides},
                "about": entry.about,
            }  # fmt: skip
            chain.add("elicit.answered", body, actor="person")
        aside = sorted({i for c in self.result.contradictions for i in c.set_aside})
        stated = {
            "item": self.result.index, "set_aside": aside, "questions": len(chain.events),
            "regret_certificate": max(0.0, self.result.regret_certificate - lower),
        }  # fmt: skip
        chain.add("elicit.result", stated, actor="person")
        config = {"items": self.items.tolist(), "target": 0.01}
        return write_export("study", "elicitation", config, [chain]).encode()


def recomputed(found: Verification) -> float:
    told = next(c.detail for c in found.checks if c.name.startswith("certificate"))
    return float(told.split("recomputed ")[1].split(" ")[0])


def compare_certificates(people: int, items: int) -> dict[str, float]:
    from counterplay.verify.elicitation import inequalities, largest_regret

    worst, lowered = 0.0, 0
    for seed in range(people):
        person = Person(seed, items)
        found = verify(person.export())
        assert found.holds, found.summary()
        given = [(entry.first - entry.second, entry.answer.value) for entry in
                 person.elicitor.events if entry.about is None]  # fmt: skip
        if not person.result.contradictions and len(given) == len(person.elicitor.events):
            rows = inequalities(given, person.items)
            again = largest_regret(person.result.index, person.items, rows)
            worst = max(worst, abs(again - person.result.regret_certificate))
        if person.result.regret_certificate >= 1e-3:
            lowered += 1
            assert not verify(person.export(lower=1e-3)).holds
    assert worst < 1e-9
    assert lowered
    return {"people": people, "worst": worst, "lowered": lowered}


@pytest.mark.claim("28.08")
def test_the_exact_certificate_is_the_areas() -> None:
    compare_certificates(8, 30)


@pytest.mark.slow
def test_the_exact_certificate_of_two_hundred_people() -> None:
    print(compare_certificates(200, 80))


def compare_reliable(people: int) -> None:
    lowered = {"regret_certificate": 0, "if_every_answer_is_right": 0}
    already_true = 0
    for seed in range(people):
        rng = np.random.default_rng(seed)
        columns = ("comfort", "price", "range")[: 2 + seed % 2]
        taste = rng.dirichlet(np.ones(len(columns)))
        export = golden_logs.elicitation_export(tuple(taste), seed, columns)
        assert verify(export).holds
        read = read_export(export)
        last = read.events[-1]
        assert last.kind == "elicit.result"
        assert last.body is not None
        worst = worst_on_a_grid(read)
        assert worst <= last.body["regret_certificate"] + 1e-9
        for name in lowered:
            number = last.body[name]
            if number is not None and number >= 1e-3:
                lowered[name] += 1
                forged = relinked(read.events, len(read.events), {name: number - 1e-3})
                changed = write_export("study", "elicitation", read.study.config, [forged])
                if verify(changed.encode()).holds:  # the area had not proved the least
                    assert name == "regret_certificate"
                    assert worst <= number - 1e-3
                    already_true += 1
    assert already_true <= people // 50
    assert lowered["regret_certificate"] == people
    assert lowered["if_every_answer_is_right"] > 0


def worst_on_a_grid(read: Export) -> float:
    """The largest regret of anybody on a grid whom the answers do not exclude, by the definition.

    A bet on every answer, for people who err in at most one of ten: from its forecast p to .9 for
    who agrees with it, to .1 for who does not. Bets that were multiplied by 20 exclude.
    """
    config: Any = read.study.config
    assert (config["jnd"], config["running"], config["rates"]) == (0.0, False, [0.1])
    items = np.array(config["items"])
    steps = np.linspace(0.0, 1.0, 401)
    people = np.stack(np.meshgrid(*[steps] * (items.shape[1] - 1)), axis=-1)
    people = people.reshape(-1, items.shape[1] - 1)
    people = people[people.sum(axis=1) <= 1.0]
    people = np.column_stack([people, 1.0 - people.sum(axis=1)])
    bets, shown = np.zeros(len(people)), {}
    for event in read.events:
        body: Any = event.body
        if event.kind == "elicit.asked":
            shown[event.seq] = body
        elif event.kind == "elicit.answered":
            asked, place = shown[body["asked"]], body["order"][0]
            chosen, other = (np.array(asked["shown"][i]["values"]) for i in (place, 1 - place))
            p = asked["forecast"][place]
            agrees = people @ (chosen - other) > 0
            bets += np.log(np.where(agrees, p / max(p, 0.9), p / min(p, 0.1)))
    worth = people[bets < np.log(20.0)] @ items.T
    result: Any = read.events[-1].body
    return float((1.0 - worth[:, result["item"]] / worth.max(axis=1)).max())


def relinked(events: tuple[Event, ...], seq: int, change: dict[str, Any]) -> EventChain:
    """The events with one body changed and all hashes right again: a forger who can count."""
    chain = EventChain(events[0].stream)
    for event in events:
        body = dict(event.body or {}) | (change if event.seq == seq else {})
        chain.add(event.kind, body, actor=event.actor, key=event.key, at=event.at)
    return chain


@pytest.mark.claim("28.08")
def test_the_reliable_certificate_is_proved_again() -> None:
    compare_reliable(5)


@pytest.mark.slow
@pytest.mark.claim("28.08")
def test_the_reliable_certificate_of_a_hundred_people() -> None:
    compare_reliable(100)


@pytest.mark.claim("28.09")
@pytest.mark.parametrize("log", GOLDEN, ids=lambda log: f"{log.parent.name}-{log.stem}")
@pytest.mark.parametrize("rule", ["same", "another"])
def test_golden_logs_replay_to_the_stored_states(
    log: Path, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = log.read_bytes()
    known = json.loads((log.parent / "facts.json").read_text())[log.stem]
    if rule == "another":
        another_rule(monkeypatch)
    assert json.loads(json.dumps(golden_logs.facts(export))) == known
    assert verify(export).holds


@pytest.mark.claim("28.09")
def test_golden_logs_have_every_kind_of_event_that_the_code_writes() -> None:
    named = set()
    for file in Path(exports.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            written = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "NewEvent"
            compared = isinstance(node, ast.Compare) and getattr(node.left, "attr", "") == "kind"
            if written or compared:
                named |= {c.value for c in ast.walk(node) if isinstance(c, ast.Constant)
                          and re.fullmatch(r"[a-z]+\.[a-z_]+", str(c.value))}  # fmt: skip
    named |= {f"study.{word}" for word in study_rows._WORDS.values()}
    named |= {f"label.{word}" for word in campaign_record._NOTES} | {"consent"}
    newest = GOLDEN[-1].parent
    logged = [read_export(log.read_bytes()).events for log in GOLDEN if log.parent == newest]
    assert {event.kind for events in logged for event in events} == named
    asked = {
        e.body["kind"] for events in logged for e in events if e.kind == "label.ask" and e.body
    }
    assert asked == {"learn", "audit"}
    erased = {e.kind for events in logged for e in events if e.body is None}
    assert {"elicit.answered", "consent", "label.tell"} <= erased


@pytest.mark.claim("28.09")
def test_a_guard_goes_on_from_what_another_rule_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = golden_logs.guard_stream(rounds=120)
    known = stream.state
    assert known.bound is not None
    another_rule(monkeypatch)
    again = stream.replayed()
    assert again.decisions == known.decisions
    assert again.outcomes == known.outcomes
    assert again.switches == known.switches
    assert again.used == known.used
    guard = again.engine._guard
    assert guard.live_rounds == [sum(m == j for m, _ in known.decisions) for j in range(3)]
    assert guard.harm == known.engine._guard.harm
    assert again.other_rule is not None
    assert again.bound is None  # the bound is about the guard's own decisions
    assert again.decide()["decision"] == len(known.decisions)


@pytest.mark.claim("28.17")
def test_both_databases_give_the_same_bytes(
    tally: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Any
) -> None:
    texts = []
    for number, database in enumerate((None, cluster.new_database())):
        drawn = iter(f"{n:032x}" for n in range(10_000))
        monkeypatch.setattr(append.secrets, "token_hex", lambda _=16, d=drawn: next(d))
        monkeypatch.setattr(base, "public_id", lambda d=drawn: next(d))
        monkeypatch.setattr(study_rows, "public_id", lambda d=drawn: next(d))
        for module in (append, study_rows):
            monkeypatch.setattr(module, "now", lambda: "2026-01-01T00:00:00+00:00")
        settings = Settings(data=tmp_path / str(number), database=database)
        with Store.open(settings) as store:
            stream = new_stream(store, "grün")
            for i, n in enumerate((0.1, 1e-7, 5e-324, -0.0, 1e22, 2**53, 1 / 3)):
                store.append_now(stream, tally_kind.added(n, f"k{i}", "ü"), expected=None)
            texts.append("".join(exports.export_lines(store, store.studies()[0])))
    assert texts[0] == texts[1]
    assert '"n":5e-324' in texts[0]


@pytest.mark.claim("28.17")
def test_both_databases_give_the_same_bytes_of_real_studies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Any
) -> None:
    config, truth = campaign_config(tmp_path, 40, parties=2, max_error=0.25)
    raw = {**fields(), "table_bytes": catalogue()}
    things: dict[str, Any] = kind_of("elicitation").read_config(raw, Path())  # type: ignore[assignment]
    configs = {"elicitation": things, "campaign": config, "guard": guard_config(horizon=400)}
    texts = []
    for number, database in enumerate((None, cluster.new_database())):
        drawn = iter(f"{n:032x}" for n in range(10_000))
        monkeypatch.setattr(append.secrets, "token_hex", lambda _=16, d=drawn: next(d))
        for module in (base, study_rows):
            monkeypatch.setattr(module, "public_id", lambda d=drawn: next(d))
        for module in (append, study_rows):
            monkeypatch.setattr(module, "now", lambda: "2026-01-01T00:00:00+00:00")
        settings = Settings(data=tmp_path / str(number), database=database)
        with Store.open(settings) as store:
            studies = {kind: store.new_study(kind, kind, given, actor="test", open_now=True)
                       for kind, given in configs.items()}  # fmt: skip
            _live(store, studies, truth)
            texts.append({kind: "".join(exports.export_lines(store, store.study(row.public_id)))
                          for kind, row in studies.items()})  # fmt: skip
    assert texts[0] == texts[1]
    assert all(verify(text.encode()).holds for text in texts[0].values())
    kinds = {
        event.kind for text in texts[0].values() for event in read_export(text.encode()).events
    }
    assert {"elicit.result", "elicit.undone", "label.certify", "guard.result"} <= kinds


def _live(store: Store, studies: dict[str, Any], truth: Any) -> None:
    """A person answers, clinics label, a service runs."""

    def add(stream: str, kind: str, body: dict[str, Any], key: str) -> None:
        store.append_now(stream, NewEvent(kind, body, key, "me"), expected=None)

    person = store.new_party(studies["elicitation"], role="participant", label="grün")
    store.join(person)
    for number in range(60):
        state = store.fold_now(person.public_id).state
        if state.open is None:
            break
        body = {"asked": state.open[0], "order": [number % 2]}
        add(person.public_id, "elicit.answered", body, f"a{number}")
        if number == 2:
            last = store.fold_now(person.public_id).state.log[-1].seq
            add(person.public_id, "elicit.undone", {"seq": last}, "undo")
    stream = studies["campaign"].public_id
    for _ in range(200):
        state = store.fold_now(stream).state
        waiting = [q for party in state.config["parties"] for q in state.waiting(party)]
        if not waiting:
            break
        told = [NewEvent("label.tell", {"id": q.id, "label": int(truth[q.item]), "party": q.party},
                         f"t{q.id}", q.party) for q in waiting]  # fmt: skip
        store.append_all_now(stream, told, expected=None)
    service, stream = Service(store.config(studies["guard"])), studies["guard"].public_id
    for number in range(12):
        for outcome in (batch := service.outcomes()):
            add(stream, "guard.outcome", outcome, f"outcome:{outcome['id']}")
        service.hear(batch)
        add(stream, "guard.ended", {"after": service.now.id}, f"ended:{number}")
        service.next_round()
    store.set_state(stream, "closed", actor="test")


@pytest.mark.parametrize("kind", KINDS)
def test_an_import_is_the_export_again(
    made: dict[str, bytes], kind: str, settings: Settings
) -> None:
    with Studio(settings.data, database=settings.database) as studio:
        study = studio.load(made[kind])
        before, after = (
            read_export(made[kind]),
            read_export(studio.export(study.public_id).encode()),
        )
        assert {e.hash for e in before.events} <= {e.hash for e in after.events}
        assert (study.kind, study.state in ("open", "closed")) == (kind, True)
        assert verify(studio.export(study.public_id).encode()).holds
        assert studio.studies().to_frame().shape[0] == 1
        with pytest.raises(errors.Refused, match="here already"):
            studio.load(made[kind])
        if kind == "elicitation":
            result = studio.result("person1")
            assert "receipt: " in result.summary()
            assert result.plot().get_xlabel().startswith("worth")


def hostile(export: bytes, rng: random.Random) -> bytes:
    """An export with something in it that no studio wrote, often with right hashes again."""
    read = read_export(export)
    number = rng.randrange(1, len(read.events) + 1)
    body = json.loads(json.dumps(read.events[number - 1].body))
    values = [None, -1, 10**6, 2**63, 1e308, "false", [], {}, [[]], "x" * 300, True, 0.5, "\u0000"]
    change: dict[str, Any] = {}
    if body:
        change[rng.choice(list(body))] = rng.choice(values)
    if rng.random() < 0.2:
        change[rng.choice(["_group", "stopped", "answers", "x"])] = rng.choice(values)
    config = dict(read.study.config)
    if rng.random() < 0.3:
        config[rng.choice(list(config))] = rng.choice(values)
    try:
        chain = relinked(read.events, number, change)
        text = write_export(read.study.study, read.study.study_kind, config, [chain])
    except (CounterplayError, ValueError):
        return b"{}\n"
    return text.encode()


def throw(store: Store, made: dict[str, bytes], count: int) -> dict[str, int]:
    rng, told = random.Random(12), {"refused": 0, "accepted": 0}
    for _ in range(count):
        kind = rng.choice(KINDS)
        export = hostile(made[kind], rng)
        try:
            study = exports.import_study(store, export, actor="test")
        except (errors.Refused, InvalidStateError) as error:
            told["refused"] += 0 < len(str(error)) < 500
        else:
            told["accepted"] += 1
            again = "".join(exports.export_lines(store, study)).encode()
            assert {e.hash for e in read_export(export).events} <= {
                e.hash for e in read_export(again).events
            }
            _forget(store)
    return told


def _forget(store: Store) -> None:
    """Take the imported study out of the way, so that the next one is not "here already"."""
    import sqlite3

    store.engine.dispose()
    with sqlite3.connect(store.settings.data / "studio.sqlite") as raw:
        raw.execute("DROP TRIGGER IF EXISTS event_stays")
        for table in ("event", "stream", "party", "study_version", "study"):
            raw.execute(f"DELETE FROM {table}")
    store._studies.clear()
    store._configs.clear()


@pytest.mark.claim("28.23")
def test_hostile_exports_get_a_sentence(made: dict[str, bytes], tmp_path: Path) -> None:
    with Store.open(Settings(data=tmp_path / "s")) as store:
        told = throw(store, made, 80)
    assert told["refused"] + told["accepted"] == 80
    assert told["refused"] > 25


@pytest.mark.claim("28.23")
@pytest.mark.parametrize("name", ["safe", "champion"])
def test_a_guard_names_models_that_it_has(made: dict[str, bytes], name: str) -> None:
    read = read_export(made["guard"])
    chain = relinked(read.events, 1, {})
    forged = write_export(
        read.study.study, "guard", {**read.study.config, name: 10**6}, [chain]
    ).encode()  # fmt: skip
    with pytest.raises(InvalidStateError, match=f"{name}.*there is no such model"):
        verify(forged)


@pytest.mark.slow
@pytest.mark.claim("28.23")
def test_two_thousand_hostile_exports(made: dict[str, bytes], tmp_path: Path) -> None:
    with Store.open(Settings(data=tmp_path / "s")) as store:
        told = throw(store, made, 2000)
    assert told["refused"] + told["accepted"] == 2000
    assert told["refused"] > 600
    assert told["accepted"] > 40


@pytest.mark.parametrize("text", [b"", b"{}\n", b"\x80\x04.", b"[" * 100_000, b'{"kind":"x"}\n'])
def test_what_is_no_export(text: bytes, tmp_path: Path) -> None:
    with (
        Store.open(Settings(data=tmp_path / "s")) as store,
        pytest.raises((InvalidStateError, errors.Refused)),
    ):
        exports.import_study(store, text, actor="test")


def test_a_broken_chain_is_named(made: dict[str, bytes], tmp_path: Path) -> None:
    lines = made["elicitation"].decode().split("\n")
    lines[3] = lines[3].replace('"asked":2', '"asked":3')
    with (
        Store.open(Settings(data=tmp_path / "s")) as store,
        pytest.raises(
            errors.Refused, match=r"Event 3 of stream person1\.\.\.: hash does not match"
        ),
    ):
        exports.import_study(store, "\n".join(lines).encode(), actor="test")


@pytest.mark.claim("28.26")
def test_help_and_verify_need_no_extra(made: dict[str, bytes], tmp_path: Path) -> None:
    """The packages of the studio are hidden; what needs none works, the studio says what to do."""
    (tmp_path / "export.jsonl").write_bytes(made["elicitation"])
    code = """
import sys
for name in ("fastapi", "starlette", "uvicorn", "sqlalchemy", "alembic", "argon2", "psycopg",
             "python_multipart", "multipart"):
    sys.modules[name] = None
from counterplay import cli
assert cli.run(["--help"]) == 0
assert cli.run(["verify", sys.argv[1]]) == 0
assert cli.run(["studio", "--help"]) == 0
from counterplay.studio import GuardClient
sys.exit(cli.run(["studio", "--data", "nowhere"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "export.jsonl")],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "The studio needs: pip install 'counterplay[studio]'" in done.stderr
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.claim("28.07")
@pytest.mark.parametrize("kind", KINDS)
def test_the_command_tells_true_exports_from_forged_ones(
    made: dict[str, bytes], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "export.jsonl"
    read = read_export(made[kind])
    code = receipt(read.events[-1].hash)
    file.write_bytes(made[kind])
    assert cli.run(["verify", str(file), "--receipt", code]) == 0
    told = capsys.readouterr().out.splitlines()
    assert len(told) >= 4
    assert all(line.startswith("ok ") for line in told)
    other = "0" if code[0] != "0" else "1"
    assert cli.run(["verify", str(file), "--receipt", other + code[1:]]) == 3
    file.write_bytes(next(edits(made[kind], 1, random.Random(7))))
    assert cli.run(["verify", str(file)]) in (2, 3)
    lines = made[kind].splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], *lines[3:]]))  # an event is gone
    assert cli.run(["verify", str(file)]) == 3


def test_a_backup_goes_through_a_pipe(tally: None, tmp_path: Path) -> None:
    """As one that encrypts would have it."""
    with Store.open(Settings(data=tmp_path / "d")) as store:
        stream = new_stream(store)
        store.append_now(stream, tally_kind.added(7, "k"), expected=None)
    words = [sys.executable, "-m", "counterplay", "studio", "backup", "-", "--data"]
    done = subprocess.run([*words, str(tmp_path / "d")], capture_output=True, check=True)
    (tmp_path / "piped.tar").write_bytes(done.stdout)
    restore(Settings(data=tmp_path / "e"), tmp_path / "piped.tar")
    with Store.open(Settings(data=tmp_path / "e")) as store:
        assert store.fold_now(stream).state["numbers"][0][1] == 7


def test_commands_of_an_operator(
    tally: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    data = ["--data", str(tmp_path / "d"), "--json"]
    monkeypatch.setenv("COUNTERPLAY_PASSWORD", "a long password")

    def run(*words: str, code: int = 0) -> Any:
        assert cli.run(["studio", *words, *data]) == code
        out = capsys.readouterr().out
        return json.loads(out) if out else None

    file = tmp_path / "study.toml"
    file.write_text('kind = "elicitation"\nname = "=Numbers"\n')
    study = run("study", "new", str(file))["study"]
    assert run("study", "open", study)["state"] == "open"
    links = run("links", study, "--n", "3", "--label", "=cmd|x")
    assert len({row["token"] for row in links}) == 3
    assert cli.run(["studio", "links", study, "--label", "=x", *data[:2]]) == 0
    assert ",'=x 4\n" in capsys.readouterr().out  # no spreadsheet takes it for a formula
    again = run("links", "reissue", links[0]["party"])
    assert again[0]["token"] != links[0]["token"]
    assert run("links", "revoke", links[0]["party"])[0]["token"] == ""
    run("study", "pause", study[:-1], code=2)
    run("links", "reissue", study, code=2)
    run("links", "revoke", "nobody", code=2)
    told = cli.run(["studio", "study", "pause", study[:-1], *data]), capsys.readouterr().err
    assert told == (2, f"counterplay: there is no study named '{study[:-1]}'; did you mean "
                    f"'{study}'?\n")  # fmt: skip
    assert run("study", "pause", study)["state"] == "paused"
    assert run("study", "close", study)["state"] == "closed"
    run("study", "open", study, code=2)
    assert [row["study"] for row in run("study", "list")] == [study]
    assert run("admin", "create", "anna")["role"] == "owner"
    run("admin", "reset", "anna")
    run("admin", "reset", "anne", code=2)
    assert run("admin", "list")[0]["name"] == "anna"
    assert run("backup", str(tmp_path / "b.tar"))["streams"] == 1
    assert run("restore", str(tmp_path / "b.tar"))["streams"] == 1
    assert all(row["ok"] for row in run("check"))
    assert run("migrate")["revision"] == "0001"
    assert run("jobs", "--probe")[0]["state"] == "ready"
    worker = [sys.executable, "-m", "counterplay", "studio", "worker", "--once", *data]
    ended = subprocess.run(worker, capture_output=True, text=True, check=True).stdout
    assert json.loads(ended)["ended"] == 1  # in a process of its own: a job has a limit of memory
    assert run("jobs")[0]["state"] == "done"
    run("worker", "--once", "--ray", "127.0.0.1:9", code=2)  # no Ray, or nobody answers there
    run("jobs", "--retry", "1", code=2)
    run("study", "new", str(tmp_path / "none.toml"), code=2)
    actions = {row["action"] for row in Studio(tmp_path / "d").store.audit_log()}
    assert {"study.new", "links.new", "links.reissue", "admin.create", "study.closed"} <= actions


def test_options_before_a_command_hold_for_it(
    tally: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COUNTERPLAY_PASSWORD", "a long password")
    monkeypatch.setenv("COUNTERPLAY_DATABASE", f"sqlite:///{tmp_path}/other.sqlite")
    monkeypatch.delenv("COUNTERPLAY_DATABASE")
    (tmp_path / "cars.toml").write_text('kind = "elicitation"\n')
    assert cli.run(["studio", "--data", "mine", "study", "new", "cars.toml"]) == 0
    assert cli.run(["serve", "--data", "mine", "admin", "create", "anna"]) == 0
    capsys.readouterr()
    for words in (["--data", "mine", "study", "list"], ["study", "list", "--data", "mine"],
                  ["--data", "none", "study", "list", "--data", "mine"]):  # fmt: skip
        assert cli.run(["studio", *words]) == 0
        assert capsys.readouterr().out.endswith("  cars\n")
    assert not (tmp_path / "studio").exists()  # the folder that is used where none is named
    database = "postgresql+psycopg://nobody@127.0.0.1:9/none"
    assert cli.run(["studio", "--database", database, "--data", "mine", "study", "list"]) != 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "words",
    [["study", "list"], ["study", "close", "x"], ["study", "export", "x", "-o", "x.jsonl"],
     ["links", "x"], ["jobs"], ["scrub"], ["check"], ["admin", "list"], ["admin", "reset", "x"]],
)  # fmt: skip
def test_a_mistyped_folder_is_no_empty_studio(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "stuido"
    assert cli.run(["studio", *words, "--data", str(place)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert (
        captured.err == f"counterplay: there is no studio in {place}; --data names another folder\n"
    )
    assert not place.exists()


@pytest.mark.claim("28.20")
def test_a_network_needs_https(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["studio", "--data", str(tmp_path / "d"), "--host", "0.0.0.0"]
    assert cli.run(words) == 2
    assert "Without https everybody on the network can read the links." in capsys.readouterr().err
    Settings(host="0.0.0.0", base_url="https://studio.example.org").check_host()
    Settings(host="0.0.0.0", insecure_http=True).check_host()
    for host in ("127.0.0.1", "localhost", "::1"):
        Settings(host=host).check_host()
