"""Pages of those who run studies: errors beside their fields, figures with numbers, no wrong sums."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from counterplay.studio.kinds import NewEvent
from counterplay.studio.kinds.guard_views import state_of
from counterplay.studio.web import activity, people
from counterplay.studio.web.guard_pages import chart
from counterplay.studio.web.texts import language
from studio.guards import guard_config
from studio.studio_campaigns import HIDDEN, PARTIES, Labeller, campaign_config
from studio.web_house import Web, catalogue


def csrf(client: Any, path: str) -> dict[str, str]:
    return {"csrf": dict(HIDDEN.findall(client.get(path).text))["csrf"], "key": "k" * 12}


def field(page: str, name: str) -> str:
    """What stands in the place of a field: its label, the input, what is wrong."""
    found = re.search(rf'<div class="field"><label for="{name}">.*?</div>', page, re.S)
    assert found is not None, name
    return found[0]


def wrong_at(page: str, name: str, told: str) -> bool:
    """Whether a sentence stands beside this field alone, and the field says so and is focused."""
    here = field(page, name)
    marked = 'aria-invalid="true" aria-describedby="wrong' in here and " autofocus" in here
    return marked and f">{told}" in here and page.count('id="wrong"') == 1


def test_a_study_without_a_name_is_told_so_beside_the_name(web: Web) -> None:
    admin, path = web.admin(), "/admin/studies/new"
    sent = admin.post(path, data=csrf(admin, path), files={"file": ("t.csv", catalogue())})
    columns = {**csrf(admin, str(sent.url)), "direction-1": "benefit", "direction-2": "cost"}
    sent = admin.post(str(sent.url), data=columns)
    assert 'data-page="new-texts"' in sent.text
    assert "aria-invalid" not in sent.text
    texts = {**csrf(admin, str(sent.url)), "name": "  ", "asks": "We ask."}
    sent = admin.post(str(sent.url), data=texts)
    assert sent.status_code == 422
    assert wrong_at(sent.text, "name", "Give the study a name.")
    assert "We ask." in sent.text


def test_a_coordinator_reads_what_is_wrong_in_the_form_she_sent(web: Web, tmp_path: Path) -> None:
    config, _ = campaign_config(tmp_path, n=92)
    study = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    admin, home = web.admin(), f"/admin/studies/{study.public_id}"
    token = csrf(admin, home)
    sent = admin.post(f"{home}/import", data={**token, "what": "known"},
                      files={"file": ("k.csv", b"item,label\nnone,benign\n")})  # fmt: skip
    assert wrong_at(sent.text, "file", "Nothing was imported. line 2: there is no item")
    sent = admin.post(f"{home}/add", data={**token, "new_party": "Fifth"},
                      files={"file": ("k.csv", b"a,b\n1,2\n")})  # fmt: skip
    assert wrong_at(sent.text, "add-file", "There is no column")
    assert 'value="Fifth"' in field(sent.text, "add-new")
    out = {**token, "act": "withdraw"}
    sent = admin.post(f"{home}/change", data={**out, "item": "none", "reason": "broken"})
    assert wrong_at(sent.text, "item", "There is no such item.")
    assert 'value="none"' in field(sent.text, "item")
    assert 'value="broken"' in field(sent.text, "reason")
    sent = admin.post(f"{home}/change", data={**out, "item": "c1", "reason": " "})
    assert wrong_at(sent.text, "reason", "Say why the item is taken out.")
    sent = admin.post(f"{home}/change", data={**token, "act": "leave", "party": "nobody"})
    assert wrong_at(sent.text, "party", "There is no party")
    sent = admin.post(f"{home}/change", data={**token, "act": "resolve", "item": "1"})
    assert sent.text.count('id="wrong"') == 1  # a form that is not there any more: at the top


def test_an_audit_that_is_refused_says_where_and_keeps_the_rest(web: Web) -> None:
    admin, path = web.admin(), "/admin/audits"
    given = {**csrf(admin, path), "name": "Loans", "sections": "honest, nonsense"}
    table = {"table": ("t.csv", b"a,b\n1,2\n")}
    sent = admin.post(path, data=given, files=table)
    assert sent.status_code == 422
    assert wrong_at(sent.text, "sections", "There is no section")
    assert 'value="honest, nonsense"' in sent.text
    assert 'value="Loans"' in sent.text
    odd = {**table, "config": ("a.toml", b"[data]\nlabl = 'b'\n")}
    sent = admin.post(path, data={**given, "sections": ""}, files=odd)
    assert wrong_at(sent.text, "config", "A.toml" if "A.toml" in sent.text else "Audit.toml")
    sent = admin.post(path, data=given, files={"table": ("t.csv", b"PK\x03\x04")})
    assert wrong_at(sent.text, "table", "T.csv is a zip archive.")


def test_a_model_without_a_reason_stays_and_the_field_says_why(web: Web) -> None:
    study = web.store.new_study("guard", "Loans", guard_config(), actor="admin", open_now=True)
    admin, home = web.admin(), f"/admin/studies/{study.public_id}"
    sent = admin.post(f"{home}/take-down", data={**csrf(admin, home), "model": "2"})
    assert wrong_at(sent.text, "reason", "Say why the model is taken down.")
    sent = admin.post(f"{home}/take-down", data={**csrf(admin, home), "model": "9", "reason": "x"})
    assert wrong_at(sent.text, "model", "There is no such model.")
    sent = admin.post(f"{home}/token", data=csrf(admin, home))
    assert "Choose what the token may do." in sent.text
    assert sent.text.count('id="wrong"') == 1


def test_a_guard_says_its_rate_burst_and_purse_in_words(web: Web) -> None:
    study = web.store.new_study("guard", "Loans", guard_config(), actor="admin", open_now=True)
    with web.admin() as admin:
        page = admin.get(f"/admin/studies/{study.public_id}").text
        assert "beyond 0.1 per round; at 4 the model rests" in page
        assert "may go 8 beyond it" in page
        assert "of at most 5,000" in re.sub(r"<[^>]*>", "", page)
        german = admin.get(f"/admin/studies/{study.public_id}?lang=de").text
        assert "über 0,1 je Runde" in german


def test_the_curve_of_a_guard_never_goes_back_in_time(web: Web) -> None:
    study = web.store.new_study("guard", "Loans", guard_config(), actor="admin", open_now=True)
    told = []
    for number in range(12):
        told.append(NewEvent("guard.ended", {"after": number}, f"e:{number}", "service:1"))
    web.store.append_all_now(study.public_id, told, expected=None)
    models = guard_config()["models"]
    state = web.store.fold_now(study.public_id).state
    order = [3, 0, 1, 2, 7, 5, 4, 6]
    for number in order:
        outcome = {"id": f"o{number}", "decision": number, "primary": 0.0, "secondary": 1.0,
                   "model": models[state.decisions[number][0]]}  # fmt: skip
        event = NewEvent("guard.outcome", outcome, f"o:{number}", "service:1")
        web.store.append_now(study.public_id, event, expected=None)
    drawn = chart(state_of(web.store.fold_now(study.public_id).state))
    assert drawn is not None
    points = [tuple(map(float, point.split(","))) for point in drawn["line"].split()]
    assert len(points) == len(order)
    assert points == sorted(points, key=lambda p: (p[0], -p[1]))  # every outcome adds to the harm
    assert points[0][0] == points[3][0]  # the first three came after that of round 3


def test_more_people_than_are_listed_are_said(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "MOST_PARTIES", 2)
    monkeypatch.setattr(people, "NEWCOMERS", 0.01)
    study = web.study()
    for number in range(5):
        web.link(study, f"person {number}")
    with web.admin() as admin:
        page = admin.get(f"/admin/studies/{study.public_id}").text
    assert "Listed and counted here are the first 2; the export has the 3 others, too." in page
    assert page.count("/reissue") == 2

    async def heard() -> list[str]:
        told = []
        async for message in people.follow_people(web.store, study, language("en")):
            told.append(message)
            if len(told) == 4:
                return told
        return told

    first, *later = [m for m in asyncio.run(heard()) if m.startswith("event: numbers")]
    assert json.loads(first.split("data: ")[1])["people"].startswith("2 people")
    assert not later  # nobody came: the other three are not newcomers


def test_answers_per_day_have_their_numbers_beside_them(web: Web, tmp_path: Path) -> None:
    study = web.study()
    person = web.person(study)
    for _ in range(2):
        person.answer()
    with web.admin() as admin:
        page = admin.get(f"/admin/studies/{study.public_id}").text
        days = activity.per_day(web.store, study)
        words = language("en")
        caption = re.search(r"<figcaption.*?</figcaption>", page, re.S)
        assert caption is not None
        for told in (words.date(days[0][0]), words.date(days[-1][0]), "busiest day: 2 answers"):
            assert f"<span>{told}</span>" in caption[0]
        assert f"{words.date(days[-1][0])}: 2" in page
        config, _ = campaign_config(tmp_path, n=92)
        scans = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
        clinic = Labeller(web, scans, PARTIES[0])
        clinic.answer(clinic.cards[0][1], "skip")  # type: ignore[arg-type]
        page = admin.get(f"/admin/studies/{scans.public_id}").text
        assert "busiest day: 1 answer<" in page
        assert activity.overview(web.store)[scans.id]["answers"] == 1  # "cannot tell" is an answer


def test_closing_for_good_is_asked_twice(web: Web) -> None:
    guard = web.store.new_study("guard", "Loans", guard_config(), actor="admin", open_now=True)
    for study in (web.study(), guard):
        with web.admin() as admin:
            page = admin.get(f"/admin/studies/{study.public_id}").text
            asked = re.search(r"<details[^>]*><summary[^>]*>Close for good</summary>(.*?)</details>",
                              page, re.S)  # fmt: skip
            assert asked is not None
            assert "cannot be opened again" in asked[1]
            assert page.count("/close") == asked[1].count("/close") == 1


def test_a_new_link_says_whose_it_is(web: Web) -> None:
    study = web.study()
    party, _ = web.link(study, "Ann <3")
    web.link(study, "Bob")
    with web.admin() as admin:
        home = f"/admin/studies/{study.public_id}"
        sent = admin.post(f"{home}/parties/{party.public_id}/reissue", data=csrf(admin, home))
        assert re.search(r'<label for="made-1">Ann &lt;3</label><input[^>]*/j/', sent.text)


def test_addresses_that_are_handed_on_are_never_taken_from_a_header(
    web: Web, tmp_path: Path
) -> None:
    config, _ = campaign_config(tmp_path, n=92)
    scans = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    guard = web.store.new_study("guard", "Loans", guard_config(), actor="admin", open_now=True)
    with web.admin() as admin:
        home = f"/admin/studies/{scans.public_id}"
        sent = admin.post(f"{home}/party-links", data=csrf(admin, home), headers={"host": "evil"})
        assert sent.text.count(f'value="{web.url}/j/') == len(PARTIES)
        page = admin.get(f"/admin/studies/{guard.public_id}", headers={"host": "evil"}).text
        assert f"{web.url}/api/guard/{guard.public_id}" in page
        assert "evil" not in sent.text + page


def test_who_cannot_log_in_reads_what_to_do(web: Web) -> None:
    page = web.client().get("/admin/login").text
    assert "counterplay studio admin reset NAME" in page
    used = web.client().get("/admin/link/" + "x" * 43).text
    assert "Start the studio again for a new one" in used
