"""Live numbers of a study of people: one task looks, however many pages are open."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from counterplay.studio import store as store_module
from counterplay.studio.kinds import kind_of
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store, writer
from studio.listeners import listen_all
from studio.web_house import Web, catalogue, fields


def elicitation(raw: dict[str, Any], table: bytes) -> dict[str, Any]:
    """The configuration of questions to people."""
    return kind_of("elicitation").read_config({**raw, "table_bytes": table}, Path())


@pytest.mark.claim("28.27")
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_two_hundred_listeners_of_people_hear_of_one_answer(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any
) -> None:
    for module in (writer, store_module):
        monkeypatch.setattr(module, "LOOK", 60.0)  # what else it asks by the clock is not counted
    more = {}
    if database == "postgresql":
        more["database"] = request.getfixturevalue("cluster").new_database()
    web = Web(tmp_path, **more)
    try:
        config = elicitation(fields(target_regret=0.001), catalogue(40))
        study, statements = web.study(config), list[str]()
        person, admin = web.person(study), web.admin()
        web.link(study, "bob")

        def count(*arguments: Any) -> None:
            statements.append(str(arguments[2]))

        def answer() -> None:
            statements.clear()
            sa.event.listen(web.store.engine, "after_cursor_execute", count)
            sent = {**person.hidden, "answer": "first"}
            address = f"{person.home}/answer"
            person.client.post(address, data=sent, follow_redirects=False)
            time.sleep(0.3)  # whoever asks the database does it now
            sa.event.remove(web.store.engine, "after_cursor_execute", count)

        answer()
        person.look()
        answer()
        person.look()
        alone = len(statements)  # the answer itself
        path = f"/admin/studies/{study.public_id}/live"
        heard, _ = asyncio.run(listen_all(admin, path, 200, answer))
    finally:
        web.close()
    told = {(first, later) for first, later in heard}
    assert len(heard) == 200
    assert len(told) == 1
    first, later = (json.loads(text.removeprefix("data:")) for text in told.pop())
    assert (first["people"], later["people"]) == (
        "2 people, 2 answers, 0 finished",
        "2 people, 3 answers, 0 finished",
    )
    assert later[f"progress-{person.party.public_id}"] == "3 answers"
    assert alone > 0
    assert len(statements) <= alone + 2, statements


def test_whoever_comes_is_announced_at_once(settings: Settings, tally: None) -> None:
    with Store.open(settings, server=True) as server, Store.open(settings) as command:
        study = server.new_study("elicitation", "Numbers", {}, actor="test", open_now=True)
        link = server.find_link(server.new_open_link(study, 3))
        assert link is not None

        async def follow() -> set[tuple[str, int]]:
            heard, changes = set(), server.listen([study.id])
            first = asyncio.create_task(anext(changes))
            await asyncio.sleep(0)
            here = await asyncio.to_thread(
                lambda: server.new_party(study, role="participant", label="here")
            )
            heard.add(await asyncio.wait_for(first, 10))
            guest = await asyncio.to_thread(server.use_link, link)
            beside = await asyncio.to_thread(
                lambda: command.new_party(study, role="participant", label="beside")
            )
            wanted = {(one.public_id, 0) for one in (here, guest, beside)}
            while not wanted <= heard:
                heard.add(await asyncio.wait_for(anext(changes), 10))
            return heard

        known = {study.public_id, *(party.public_id for party in server.parties(study))}
        streams = {stream for stream, _ in asyncio.run(follow())}
        assert streams - known == {p.public_id for p in server.parties(study)}


def test_a_page_without_people_follows_the_links_that_are_downloaded_from_it(
    web: Web, chromium: Any
) -> None:
    study, admin = web.study(), web.admin()
    context = chromium.new_context(locale="en-GB", accept_downloads=True)
    try:
        context.add_cookies([{"name": c.name, "value": c.value, "url": web.url}
                             for c in admin.cookies.jar])  # fmt: skip
        page = context.new_page()
        page.goto(f"{web.url}/admin/studies/{study.public_id}")
        below = page.locator("[data-live=nobody]")
        assert below.inner_text() == "No participants yet."
        assert (
            "Load this page again afterwards"
            in page.locator("[aria-labelledby=links]").inner_text()
        )
        with page.expect_download():
            page.get_by_role("button", name="Make links and download").click()
        page.get_by_text("Load this page again to see them in a list.").wait_for()
        page.get_by_text("10 people, 0 answers, 0 finished").wait_for()
        assert page.get_by_text("No participants yet.").count() == 0
        page.reload()
        assert page.locator("th[scope=row]").count() == 10
        assert below.count() == 0
    finally:
        context.close()
