"""Nothing acknowledged is lost: servers are killed, PostgreSQL loses its power, processes race."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import kill_target
import pytest
from postgres import running
from store_fixtures import new_stream
from tally_kind import added
from web_house import Web

from counterplay.studio.checks import all_ok, check_studio
from counterplay.studio.errors import Unavailable
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store

TARGET = str(Path(kill_target.__file__))


def start(settings: Settings, *words: str) -> subprocess.Popen[str]:
    """Start the target and wait until it is ready."""
    raw = {**asdict(settings), "data": str(settings.data)}
    file = settings.data / "settings.json"
    file.write_text(json.dumps(raw))
    process = subprocess.Popen(
        [sys.executable, TARGET, str(file), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def make_parties(settings: Settings) -> None:
    with Store.open(settings) as store:
        study = store.new_study("elicitation", "Numbers", {}, actor="test", open_now=True)
        for i in range(kill_target.CLIENTS):
            store.new_party(study, role="participant", label=f"p{i}")


def killed(settings: Settings, after: int) -> set[tuple[str, str]]:
    """Kill a server under load after so many answers; return what it had acknowledged."""
    process = start(settings, "appends")
    assert process.stdout is not None
    told = [process.stdout.readline() for _ in range(after)]
    process.kill()
    told += process.stdout.read().splitlines(keepends=True)
    process.wait()
    whole = [line.strip() for line in told if line.endswith("\n")]  # the last may be half
    return {tuple(line.split(" ")) for line in whole}  # type: ignore[misc]


def stored(settings: Settings) -> set[tuple[str, str]]:
    with Store.open(settings) as store:
        study = store.studies()[0]
        return {
            (party.public_id, event.key)
            for party in store.parties(study)
            for event in store.events(party.public_id)
        }


def kill_repeatedly(settings: Settings, kills: int, after: int) -> dict[str, Any]:
    make_parties(settings)
    acknowledged: set[tuple[str, str]] = set()
    slowest = 0.0
    for number in range(kills):
        acknowledged |= killed(settings, after + 37 * (number % 5))
        begun = time.monotonic()
        lost = acknowledged - stored(settings)  # opening it is the restart
        slowest = max(slowest, time.monotonic() - begun)
        assert not lost
    findings = check_studio(settings)
    assert all_ok(findings), findings
    return {"kills": kills, "acknowledged": len(acknowledged), "lost": 0, "restart_s": slowest}


@pytest.mark.claim("28.01")
def test_kill_9_loses_nothing_acknowledged(settings: Settings, tally: None) -> None:
    found = kill_repeatedly(settings, kills=2, after=80)
    assert found["acknowledged"] >= 160


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_twenty_kills_of_the_store(database: str, tmp_path: Path, tally: None) -> None:
    if database == "sqlite":
        print(database, kill_repeatedly(Settings(data=tmp_path / "s"), 20, 300))
        return
    with running() as cluster:
        settings = Settings(data=tmp_path / "s", database=cluster.new_database())
        print(database, kill_repeatedly(settings, 20, 300))


@pytest.mark.claim("28.02")
def test_power_cut_of_postgresql(tmp_path: Path, tally: None) -> None:
    with running() as cluster:
        settings = Settings(data=tmp_path / "studio", database=cluster.new_database())
        with Store.open(settings, server=True) as store:
            stream = new_stream(store)
            for i in range(30):
                store.append_now(stream, added(i, f"k{i}"), expected=None)
            cluster.stop("immediate")
            with pytest.raises(Unavailable, match="acknowledged is safe"):
                store.append_now(stream, added(99, "k99"), expected=None)
            cluster.start()
            again = [store.append_now(stream, added(99, "k99"), expected=None) for _ in range(2)]
            assert [one.repeated for one in again] == [False, True]
            assert [n for _, n in store.fold_now(stream).state["numbers"]] == [*range(30), 99]
        assert all_ok(check_studio(settings))


@pytest.mark.claim("28.02")
def test_a_browser_gets_503_and_succeeds_once_when_it_repeats(tmp_path: Path) -> None:
    with running() as cluster:
        house = Web(tmp_path, database=cluster.new_database())
        try:
            person = house.person()
            form = {**person.hidden, "answer": "first"}
            cluster.stop("immediate")
            away = person.client.post(f"{person.home}/answer", data=form)
            assert away.status_code == 503
            assert 'data-page="error"' in away.text
            cluster.start()
            again = [person.client.post(f"{person.home}/answer", data=form) for _ in range(2)]
            assert [answer.status_code for answer in again] == [200, 200]
            kinds = [event.kind for event in house.store.events(person.party.public_id)]
            assert kinds.count("elicit.answered") == 1
        finally:
            house.close()


def race(settings: Settings, count: int) -> None:
    with Store.open(settings) as store:
        stream = new_stream(store)
    racers = [start(settings, "race", name, str(count), stream) for name in ("a", "b")]
    for process in racers:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in racers:
        process.communicate()
        assert process.returncode == 0
    with Store.open(settings) as store:
        events = [event for event in store.events(stream) if event.kind == "tally.added"]
        assert [event.seq for event in store.events(stream)] == list(range(1, 4 * count + 1))
        assert {event.key for event in events} == {f"{r}:{i}" for r in "ab" for i in range(count)}
    assert all_ok(check_studio(settings))


@pytest.mark.claim("28.05")
def test_two_processes_race_for_one_stream(settings: Settings, tally: None) -> None:
    race(settings, 75)


@pytest.mark.slow
def test_two_processes_race_in_full(settings: Settings, tally: None) -> None:
    race(settings, 1000)
