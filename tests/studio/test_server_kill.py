"""Kill the whole server under load, again and again: 40 people in browsers, no pause."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest
from postgres import running
from web_house import FORM, HIDDEN, PAGE, catalogue, fields

from counterplay.studio.checks import all_ok, check_studio
from counterplay.studio.kinds import kind_of
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store

SERVE = """
import json, sys
from pathlib import Path
from counterplay.studio.app import serve
from counterplay.studio.settings import Settings
serve(Settings(**json.loads(sys.argv[1])), Path(sys.argv[2]))
"""
CLIENTS = 40


class Load:
    """People who answer without a pause; what was acknowledged is written down."""

    def __init__(self, tokens: Iterator[str]) -> None:
        self.tokens = tokens
        self.acknowledged: set[str] = set()
        self.enough = asyncio.Event()
        self.target = 0

    async def person(self, url: str) -> None:
        """Go through one link after the other until the server is gone."""
        try:
            while True:
                async with httpx.AsyncClient(base_url=url, timeout=60) as browser:
                    await self.answer_all(browser, next(self.tokens))
        except httpx.HTTPError:
            pass  # killed

    async def answer_all(self, browser: httpx.AsyncClient, token: str) -> None:
        page = await browser.get(f"/j/{token}")
        form = FORM.search(page.text)
        assert form is not None
        hidden = dict(HIDDEN.findall(page.text))
        page = await browser.post(form[1], data=hidden)
        home = page.headers["location"].partition("?")[0]
        while True:
            page = await browser.get(home)
            found = PAGE.search(page.text)
            if found is None or found[1] != "question":
                return
            hidden = dict(HIDDEN.findall(page.text))
            done = await browser.post(f"{home}/answer", data={**hidden, "answer": "first"})
            assert done.status_code in (303, 409, 503), done.text
            if done.status_code < 400:
                self.acknowledged.add(hidden["key"])
                if len(self.acknowledged) >= self.target:
                    self.enough.set()


def start(settings: Settings) -> tuple[subprocess.Popen[bytes], str, float]:
    """Start a server; return it, its address, and how long it took to answer."""
    ready = settings.data / "ready.json"
    ready.unlink(missing_ok=True)
    raw = json.dumps({**asdict(settings), "data": str(settings.data)})
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", SERVE, raw, str(ready)])
    while not ready.exists():
        assert process.poll() is None
        time.sleep(0.02)
    return process, json.loads(ready.read_text())["url"], time.monotonic() - began


async def one_life(settings: Settings, load: Load, answers: int) -> float:
    """A server from its start to its kill."""
    process, url, seconds = await asyncio.to_thread(start, settings)
    load.enough.clear()
    load.target = len(load.acknowledged) + answers
    people = [asyncio.create_task(load.person(url)) for _ in range(CLIENTS)]
    enough = asyncio.create_task(load.enough.wait())
    await asyncio.wait([enough, *people], return_when=asyncio.FIRST_COMPLETED)
    process.send_signal(signal.SIGKILL)
    process.wait()
    await asyncio.gather(*people)
    assert enough.done(), "nobody could answer any more"
    return seconds


def kill_server(settings: Settings, kills: int, answers: int) -> dict[str, Any]:
    """Kill a server again and again; nothing that it acknowledged may be missing."""
    kind: Any = kind_of("elicitation")
    config = kind.read_config({**fields(), "table_bytes": catalogue()}, Path())
    with Store.open(settings) as store:
        study = store.new_study("elicitation", "Things", config, actor="test", open_now=True)
        parties = [
            store.new_party(study, role="participant", label=f"p{i}")
            for i in range(CLIENTS * kills + kills * answers // 3)
        ]
        tokens = [store.new_link(party) for party in parties]
    load, starts, lost = Load(iter(tokens)), [], 0
    for _ in range(kills):
        starts.append(asyncio.run(_lives(settings, load, answers)))
        with Store.open(settings) as store:
            events = (e for p in parties for e in store.events(p.public_id))
            kept = {e.key.removeprefix("form:") for e in events}
        lost += len(load.acknowledged - kept)
    findings = check_studio(settings)
    assert all_ok(findings), findings
    return {
        "kills": kills, "acknowledged": len(load.acknowledged), "lost": lost,
        "restart_median_s": sorted(starts)[len(starts) // 2], "restart_worst_s": max(starts),
        "chains": next(f.detail for f in findings if f.name == "chains"),
    }  # fmt: skip


async def _lives(settings: Settings, load: Load, answers: int) -> float:
    load.enough = asyncio.Event()
    return await one_life(settings, load, answers)


GENEROUS = {"requests_per_minute": 1e9, "writes_per_minute": 1e9, "write_burst": 1e9, "port": 0}


@pytest.mark.claim("28.01")
def test_a_killed_server_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "s", **GENEROUS)  # type: ignore[arg-type]
    found = kill_server(settings, kills=1, answers=30)
    assert found["lost"] == 0
    assert found["acknowledged"] >= 30


@pytest.mark.slow
@pytest.mark.claim("28.01")
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_twenty_kills_of_the_server(database: str, tmp_path: Path) -> None:
    if database == "sqlite":
        found = kill_server(Settings(data=tmp_path / "s", **GENEROUS), 20, 60)  # type: ignore[arg-type]
    else:
        with running() as cluster:
            url = cluster.new_database()
            settings = Settings(data=tmp_path / "s", database=url, **GENEROUS)  # type: ignore[arg-type]
            found = kill_server(settings, 20, 60)
    assert found["lost"] == 0
    assert found["restart_worst_s"] < 3.0, found
