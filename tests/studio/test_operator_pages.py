"""Pages of those who run studies: errors beside their fields, figures with their numbers."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from counterplay.errors import InvalidInputError
from counterplay.studio.kinds import NewEvent
from counterplay.studio.kinds.campaign_config import read_config
from counterplay.studio.kinds.guard_views import state_of
from counterplay.studio.web import activity, people
from counterplay.studio.web.guard_pages import chart, live_guard
from counterplay.studio.web.texts import language
from counterplay.studio.web.wizard import describe
from studio.guards import guard_config
from studio.studio_campaigns import HIDDEN, PARTIES, Labeller, campaign_config
from studio.web_house import Web, catalogue


def csrf(client: Any, path: str) -> dict[str, str]:
    return {"csrf": dict(HIDDEN.findall(client.get(path).text))["csrf"], "key": "k" * 43}


def field(page: str, name: str) -> str:
    """What stands in the place of a field: its label, the input, what is wrong."""
    found = re.search(rf'<div class="field"><label for="{name}">.*?</div>', page, re.S)
    assert found is not None, name
    return found[0]


def wrong_at(page: str, name: str, told: str) -> bool:
    """Whether a sentence stands beside this field alone, and the field says so and is focused."""
    here = field(page, name)
    marked = 'aria-invalid="true" autofocus aria-describedby="wrong' in here
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


def test_a_refused_campaign_says_above_the_form_that_its_file_is_gone(web: Web) -> None:
    admin, path = web.admin(), "/admin/studies/new/campaign"
    told = "Nothing was stored. Mend what is marked below; files have to be chosen again."
    assert told not in admin.get(path).text
    form = {**csrf(admin, path), "name": "Scans", "owner": "site", "classes": "benign"}
    sent = admin.post(path, data=form, files={"file": ("t.csv", b"case,site\n1,a\n2,b\n")})
    assert sent.status_code == 422
    assert told in sent.text.partition("<form")[0]


def test_an_item_of_nobody_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("case,site,size\na,n,1\nb,,2\nc,n,3\n", "utf-8")
    raw = {"kind": "campaign", "table": "items.csv", "owner": "site", "classes": ["x", "y"]}
    with pytest.raises(InvalidInputError, match="line 3 has no party in the column 'site'"):
        read_config(raw, tmp_path)


def test_columns_of_extreme_numbers_are_described() -> None:
    close = [1e16, 1e16 + 2, 1e16 + 4, 1e16 + 4]
    frame = pd.DataFrame({"wide": [1e308, -1e308, 5.0, 6.0], "close": close})
    wide, close_by = describe(frame)
    assert not wide["numeric"]
    assert wide["sample"] == "1e+308, -1e+308, 5.0"
    assert [bar for bar in close_by["bars"] if bar] == [16.0, 16.0, 32.0]


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
    assert wrong_at(sent.text, "config", "config: [data] labl is not a setting")
    binary = {"table": ("t.csv", b"PK\x03\x04")}
    sent = admin.post(path, data={**given, "sections": ""}, files=binary)
    assert wrong_at(sent.text, "table", "t.csv is a zip archive.")


def test_settings_that_say_nothing_about_the_outcome_are_refused_in_one_sentence(
    tmp_path: Path,
) -> None:
    from counterplay.studio.kinds.audit import audit_config
    from counterplay.studio.worker import run_worker

    rows = "\n".join(f"{i % 7},{i % 5},{1 + (i % 7 > 3)}" for i in range(120))
    files = {"table": ("loans.csv", f"income,debt,class\n{rows}\n".encode()),
             "config": ("audit.toml", b'[data]\nlabel = "class"\npositive = "?"\n')}  # fmt: skip
    house = Web(tmp_path)
    try:
        config = audit_config(files, sections=["honest"])
        study = house.store.new_study("audit", "Loans", config, actor="admin", open_now=True)
        assert run_worker(house.settings, once=True) >= 0
        job = next(j for j in house.store.jobs() if j.args.get("study") == study.public_id)
        assert (job.state, job.attempt) == ("failed", 1)  # a second attempt would be refused, too
        with house.admin() as admin:
            page = admin.get(f"/admin/audits/{study.public_id}").text
        assert "Which outcome do people want?" in page
        assert "hand both in again" in page
        assert "Traceback" not in page
    finally:
        house.close()


def test_the_form_of_an_audit_names_the_sections() -> None:
    from counterplay.auditing.section import built_in

    for code in ("en", "de"):
        told = language(code)("audit.sections_hint")
        assert all(section.name in told for section in built_in())


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


def test_what_happened_to_a_guard_is_told_from_the_newest_on(web: Web) -> None:
    config = guard_config(purse=None)
    study = web.store.new_study("guard", "Loans", config, actor="admin", open_now=True)
    for number in range(40):  # the second model has to rest, the others go on in turn
        state = web.store.fold_now(study.public_id).state
        j = state.last["model"]
        outcome = {"id": f"o{number}", "decision": number, "model": config["models"][j],
                   "primary": 0.0, "secondary": float(j == 1)}  # fmt: skip
        told = [NewEvent("guard.outcome", outcome, f"o:{number}", "service:1"),
                NewEvent("guard.ended", {"after": number}, f"e:{number}", "service:1")]  # fmt: skip
        web.store.append_all_now(study.public_id, told, expected=None)
    state = state_of(web.store.fold_now(study.public_id).state)
    with web.admin() as admin:
        page = admin.get(f"/admin/studies/{study.public_id}").text
    log = page.partition('<ul class="log">')[2].partition("</ul>")[0]
    rounds = [int(number) for number in re.findall(r"round (\d+):</span>", log)]
    assert rounds == sorted(rounds, reverse=True)
    assert len(rounds) == len(state["alarms"]) + len(state["switches"])
    assert state["alarms"][0]["round"] < state["switches"][-1]["round"]


def test_more_people_than_are_listed_are_said(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "MOST_PARTIES", 2)
    study = web.study()
    for number in range(5):
        web.link(study, f"person {number}")
    with web.admin() as admin:
        page = admin.get(f"/admin/studies/{study.public_id}").text
    assert "Listed and counted here are the first 2; the 3 others are in the exports, too." in page
    assert page.count("/reissue") == 2

    async def heard() -> list[str]:
        told, followed = [], people.People(web.store, study)
        async for numbers in followed.follow(language("en"), 0.05):
            told.append(numbers)
            if len(told) == 1:
                await asyncio.to_thread(web.link, study, "one more")
            if len(told) == 4:
                break
        followed.close()
        return told

    first, *later = asyncio.run(heard())
    assert json.loads(first)["people"].startswith("2 people")
    assert later == ["", "", ""]  # nobody came of whom the page tells


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
            closing = r"<details[^>]*><summary[^>]*>Close for good</summary>(.*?)</details>"
            asked = re.search(closing, page, re.S)
            assert asked is not None
            assert "cannot be opened again" in asked[1]
            assert page.count("/close") == asked[1].count("/close") == 1


def test_a_link_that_was_revoked_is_shown_as_such(web: Web) -> None:
    study = web.study()
    party, _ = web.link(study, "Ann")
    gone = web.person(study, "Bob")
    web.store.withdraw_party(gone.party)
    with web.admin() as admin:
        home = f"/admin/studies/{study.public_id}"
        assert "link revoked" not in admin.get(home).text
        place = f"{home}/parties/{party.public_id}/revoke"
        page = admin.post(place, data=csrf(admin, home)).text
    assert page.count("link revoked") == 1
    assert place not in page
    assert gone.party.public_id + "/reissue" not in page  # a link to nothing


def test_whoever_has_no_result_can_still_leave_a_closed_study(web: Web) -> None:
    study = web.study()
    person = web.person(study)
    web.store.set_state(study.public_id, "paused", actor="admin")
    again = web.client().get(f"/j/{person.token}").text
    assert "This study is paused." in again
    assert "See your page" in again
    assert "Continue where you stopped" not in again
    web.store.set_state(study.public_id, "closed", actor="admin")
    person.look()
    assert person.name == "waiting"
    assert person.client.get(f"{person.home}/data.json").json()["label"] == "ann"
    assert f'href="{person.home}/data.json"' in person.page.text
    person.send("withdraw")
    assert person.name == "withdraw"
    person.send("withdraw")
    assert person.name == "gone"
    assert all(e.body is None for e in web.store.events(person.party.public_id)
               if e.actor == person.party.public_id and e.kind != "party.withdrawn")  # fmt: skip


def test_the_column_of_names_is_guessed_by_its_many_texts(web: Web) -> None:
    table = "maker,model,price\n" + "\n".join(f"m{i % 3},thing {i},{i}" for i in range(9)) + "\n"
    with web.admin() as admin:
        path = "/admin/studies/new"
        sent = admin.post(path, data=csrf(admin, path), files={"file": ("t.csv", table.encode())})
    columns = r"<legend>(\w+)</legend>.*?<option value=\"(\w+)\" selected"
    chosen = re.findall(columns, sent.text, re.S)
    assert chosen == [("maker", "ignore"), ("model", "name_of"), ("price", "ignore")]


def test_back_says_that_the_answer_is_taken_back(web: Web) -> None:
    person = web.person(web.study())
    person.answer()
    assert "is taken back" not in person.page.text
    person.send("undo")
    assert person.name == "question"
    assert "Your last answer is taken back." in person.page.text
    person.answer()
    assert "is taken back" not in person.page.text


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


def test_a_service_with_a_token_is_not_slowed_down_like_a_person(tmp_path: Path) -> None:
    house = Web(tmp_path, requests_per_minute=10)
    try:
        study = house.store.new_study("guard", "Loans", guard_config(), actor="a", open_now=True)
        place = f"/api/guard/{study.public_id}/serve"
        with house.client() as client:
            head = {"authorization": f"Bearer {house.store.new_token(study, ['serve'])}"}
            told = [client.get(place, headers=head).status_code for _ in range(40)]
            assert told == [200] * 40
            assert client.get("/admin/login").status_code == 200  # nothing of a person's is used up
            head = {"authorization": "Bearer nobody"}
            told = [client.get(place, headers=head).status_code for _ in range(12)]
            assert told[:9] == [401] * 9
            assert 429 in told[9:]
            assert "guard’s interface" in client.get(place).json()["hint"] or 429 in told
    finally:
        house.close()


def test_names_keep_their_letters_and_bounds_are_rounded_up(web: Web) -> None:
    study = web.store.new_study("guard", "Loans", guard_config(), actor="admin", open_now=True)
    with web.admin() as admin:
        home = f"/admin/studies/{study.public_id}"
        sent = {**csrf(admin, home), "model": "2", "reason": "x"}
        page = admin.post(f"{home}/take-down", data=sent).text
        assert "v3 was taken down by hand: x" in page
        assert "V3" not in page
        allowed = state_of(web.store.fold_now(study.public_id).state)["harm"]["allowed"]
        shown = re.search(r'data-live="allowed">([0-9.]+)<', page)
        assert shown is not None
        assert allowed <= float(shown[1]) < allowed + 0.1
    assert language("en").said("t.csv is a folder; name a file in it").startswith("t.csv")
    assert language("en").said("there is no item 'a'") == "There is no item 'a'"


def test_the_rows_of_a_guard_move_with_its_figures(web: Web) -> None:
    study = web.store.new_study("guard", "Loans", guard_config(), actor="admin", open_now=True)
    with web.admin() as admin:
        page = admin.get(f"/admin/studies/{study.public_id}").text
    state = web.store.fold_now(study.public_id).state
    live = state.decisions[0][0]
    outcome = {"id": "o", "decision": 0, "primary": 0.25, "secondary": 1.0, "model": f"v{live + 1}"}
    event = NewEvent("guard.outcome", outcome, "o:0", "service:1")
    web.store.append_now(study.public_id, event, expected=None)
    told = live_guard(web.store.fold_now(study.public_id).state, language("de"))
    assert told[f"rounds-{live}"] == "1"
    assert (told[f"harm-{live}"], told[f"loss-{live}"]) == ("1,000", "0,250")
    assert told[f"fuse-{live}"] == "0,9 / 4,0"
    for name in told:
        assert "@" in name or name in ("highest", "last") or f'data-live="{name}"' in page, name


def test_a_closed_guard_offers_nothing_that_would_be_refused(web: Web) -> None:
    study = web.store.new_study("guard", "Loans", guard_config(), actor="admin")
    with web.admin() as admin:
        home = f"/admin/studies/{study.public_id}"
        assert "take-down" not in admin.get(home).text
        web.store.set_state(study.public_id, "open", actor="admin")
        assert "take-down" in admin.get(home).text
        web.store.set_state(study.public_id, "closed", actor="admin")
        page = admin.get(home).text
        assert "take-down" not in page
        assert "/token" not in page


def test_alarms_are_told_in_german() -> None:
    german = language("de")
    told = german.said("v1: rate exceeded, by its outcomes up to round 13")
    assert told == "v1: Rate überschritten, nach den Ergebnissen bis Runde 13."
    told = german.said("v1: change, by its outcomes up to round 13")
    assert told == "v1: Veränderung, nach den Ergebnissen bis Runde 13."


def test_a_match_without_any_decision_is_called_a_guess(web: Web) -> None:
    person = web.person(web.study())
    person.answer("cannot_say")
    person.send("stop")
    assert person.name == "result"
    assert "You have not decided anything yet" in person.page.text
    assert "by your own answers" not in person.page.text
    assert "can be better for you" not in person.page.text


def test_start_and_questions_are_in_the_language_of_the_study(web: Web) -> None:
    study = web.study({**web.config, "page": {**web.config["page"], "locale": "de"}})
    _, token = web.link(study)
    with web.client(headers={"accept-language": "en"}) as client:
        page = client.get(f"/j/{token}")
        assert 'lang="de"' in page.text
        sent = client.post(f"/j/{token}", data=dict(HIDDEN.findall(page.text)))
        assert 'data-page="question"' in sent.text
        assert 'lang="de"' in sent.text


def test_times_are_told_with_their_zone_for_the_script_to_translate() -> None:
    told = language("en").moment("2026-05-03T10:07:00+00:00")
    assert str(told) == ('<time datetime="2026-05-03T10:07:00+00:00">3 May 2026, 10:07 UTC</time>')
    since = language("en")("coordinator.since", when=told)
    assert since.startswith("since <time")
    assert "&lt;b&gt;" in language("en")("study.progress_done", name="<b>", when=told)


def test_a_draft_campaign_says_what_comes_first(web: Web, tmp_path: Path) -> None:
    config, _ = campaign_config(tmp_path, n=92)
    study = web.store.new_study("campaign", "Scans", config, actor="admin")
    with web.admin() as admin:
        home = f"/admin/studies/{study.public_id}"
        page = admin.get(home).text
        assert "Open the campaign, import known labels" in page
        for form in ("/import", "/add", "/change"):
            assert f'action="{home}{form}"' not in page  # they would be refused
        web.store.set_state(study.public_id, "open", actor="admin")
        page = admin.get(home).text
        for form in ("/import", "/add", "/change"):
            assert f'action="{home}{form}"' in page


def test_a_clinic_can_leave_a_campaign_that_is_closed(web: Web, tmp_path: Path) -> None:
    from counterplay.studio.exports import export_lines
    from counterplay.verify import verify

    config, truth = campaign_config(tmp_path, n=92)
    study = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    clinic, other = Labeller(web, study, PARTIES[0]), Labeller(web, study, PARTIES[1])
    for one in (clinic, other):
        for _ in range(3):
            item, fields = one.cards[0]
            one.answer(fields, int(truth[item]))
    web.store.set_state(study.public_id, "paused", actor="admin")
    assert "The campaign is paused" in clinic.look().text
    assert not clinic.cards  # no button that would be refused
    web.store.set_state(study.public_id, "closed", actor="admin")
    page = clinic.look().text
    assert "The campaign closed on" in page
    assert "is paused" not in page
    form = re.search(r'<form method="post" action="[^"]+/withdraw".*?</form>', page, re.S)
    assert form is not None
    sure = clinic.client.post(f"{clinic.home}/withdraw", data=dict(HIDDEN.findall(form[0])))
    gone = clinic.client.post(f"{clinic.home}/withdraw", data=dict(HIDDEN.findall(sure.text)))
    assert 'data-page="label-gone"' in gone.text
    told = [e for e in web.store.events(study.public_id) if e.kind == "label.tell"]
    assert [e.body is None for e in told].count(True) == 3
    now = web.store.study(study.public_id)
    found = verify("".join(export_lines(web.store, now)).encode())
    assert found.holds, found.summary()


def test_whoever_is_done_is_not_shown_as_half_way(web: Web, tmp_path: Path) -> None:
    config, truth = campaign_config(tmp_path, n=92)
    study = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    clinic = Labeller(web, study, PARTIES[0])
    item, fields = clinic.cards[0]
    clinic.answer(fields, int(truth[item]))
    assert "1 of about" in clinic.page.text
    with web.admin() as admin:
        home = f"/admin/studies/{study.public_id}"
        out = {**csrf(admin, home), "act": "leave", "party": PARTIES[0], "sure": "yes"}
        assert admin.post(f"{home}/change", data=out).status_code == 200
    page = clinic.look().text
    assert "You have left this campaign." in page
    assert "1 answer<" in page
    assert "of about" not in page


def test_a_labeller_may_be_quicker_than_somebody_who_compares(tmp_path: Path) -> None:
    house = Web(tmp_path, writes_per_minute=0.01, write_burst=0.8)  # ten cards count as one
    try:
        config, truth = campaign_config(tmp_path, n=92)
        study = house.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
        clinic, told = Labeller(house, study, PARTIES[0]), []
        for _ in range(9):
            item, fields = clinic.cards[0]
            told.append(clinic.answer(fields, int(truth[item])).status_code)
            clinic.look()
        assert told == [200] * 8 + [429]
    finally:
        house.close()


def test_who_cannot_log_in_reads_what_to_do(web: Web) -> None:
    page = web.client().get("/admin/login").text
    assert "counterplay studio admin reset NAME" in page
    used = web.client().get("/admin/link/" + "x" * 43).text
    assert "Start the studio again for a new one" in used
