"""The page of an audit that runs: stages and findings as they come."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from counterplay.studio.kinds.audit import audit_config, run
from counterplay.studio.web import live
from studio.listeners import listen_all
from studio.test_audit_uploads import CONFIG, handed_in, mine, table
from studio.web_house import Web


def test_stages_and_findings_come_while_the_page_is_open(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "POLL", 0.2)
    study, number = handed_in(web.store, ["honest"])
    admin, address = web.admin(), f"/admin/audits/{study}"
    page = admin.get(address)
    assert "refresh" not in page.headers
    assert "Load again" in page.text
    assert f'data-events="{address}/live"' in page.text
    job, looks, jobs = mine(web, number), 0, web.store.jobs
    stage = {"name": "Honest (clones)", "done": 3, "of": 9, "used": 1.0, "planned": 3.0}
    found = [{"title": "How good?", "sentences": ["It is <right> in 81 %."]}]

    def counted() -> Any:
        nonlocal looks
        looks += 1
        return jobs()

    monkeypatch.setattr(web.store, "jobs", counted)

    def change() -> None:
        assert web.store.beat(job, {"stages": [stage], "findings": found})

    heard, _ = asyncio.run(listen_all(admin, f"{address}/live", 100, change))
    first, later = (json.loads(text.removeprefix("data:")) for text in heard[0])
    assert (first["stage-0"], first["section-0"]) == ("", "")
    assert later["stage-0"] == "Honest (clones)"
    assert later["count-0"] == "3 / 9 · 1.0 s of about 3.0 s"
    assert (later["bar-0@value"], later["bar-0@max"]) == ("3", "9")
    assert (later["section-0"], later["finding-0"]) == ("How good?", "It is <right> in 81 %.")
    assert looks < 100  # one look for all who listen
    shown = admin.get(address).text
    assert "It is &lt;right&gt; in 81 %." in shown
    assert "<right>" not in shown
    assert web.store.finish(job, {})
    with admin.stream("GET", f"{address}/live") as answer:
        assert "event: reload" in answer.iter_lines()


def test_a_finished_section_tells_its_headlines(tmp_path: Path) -> None:
    files = {"table": ("loans.csv", table()), "config": ("audit.toml", CONFIG)}
    config = audit_config(
        {name: (file, text if isinstance(text, bytes) else text.encode())
         for name, (file, text) in files.items()}, model=None, sections=["honest"], uploads=False,
    )  # fmt: skip
    told: list[dict[str, Any]] = []

    def beat(progress: dict[str, Any]) -> bool:
        told.append(json.loads(json.dumps(progress)))
        return True

    out = run(config, tmp_path / "home", tmp_path, beat)
    record = json.loads((out / "audit.json").read_text())
    section = next(s for s in record["sections"] if s["name"] == "honest")
    chosen = [f for f in section["findings"] if f["headline"]] or section["findings"][:1]
    sentences = [f["sentence"] for f in sorted(chosen, key=lambda f: f["headline"])]
    assert told[0]["findings"] == []
    assert told[-1]["findings"] == [{"title": section["title"], "sentences": sentences[:5]}]
