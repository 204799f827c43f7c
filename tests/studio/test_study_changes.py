"""Changes of a running study from the browser: edits, items that come later, models that go."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from counterplay.errors import InvalidStateError
from counterplay.studio.exports import export_lines, import_study
from counterplay.studio.kinds import NewEvent
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store
from counterplay.verify import verify
from counterplay.verify.campaign_log import LogRecount
from studio.guards import guard_config
from studio.studio_campaigns import HIDDEN, PARTIES, Labeller, campaign_config
from studio.web_house import Web


def csrf(client: Any, path: str) -> dict[str, str]:
    return {"csrf": dict(HIDDEN.findall(client.get(path).text))["csrf"], "key": "k" * 12}


def test_an_edit_leaves_those_who_have_begun_with_their_version(web: Web) -> None:
    study = web.study(name="Before")
    early = web.person(study, "early")
    admin, home = web.admin(), f"/admin/studies/{study.public_id}"
    form = admin.get(f"{home}/edit").text
    assert 'value="Before"' in form
    given = {**csrf(admin, f"{home}/edit"), "name": "After", "asks": "We ask. <b>", "target": "10",
             "consent": "Agreed?", "locale": "de"}  # fmt: skip
    refused = admin.post(f"{home}/edit", data={**given, "name": "  "})
    assert refused.status_code == 422
    assert "Give the study a name." in refused.text
    assert web.store.study(study.public_id).version == 1
    done = admin.post(f"{home}/edit", data=given)
    assert "Saved as version 2." in done.text
    now = web.store.study(study.public_id)
    assert (now.name, now.version) == ("After", 2)
    config = web.store.config(now)
    assert (config["target"], config["page"]["consent"]) == (0.1, "Agreed?")
    assert config["items"] == web.config["items"]
    assert web.store.fold_now(early.party.public_id).version == 1
    early.look()
    assert early.name == "question"
    _, token = web.link(now, "late")
    start = web.client(headers={"accept-language": "en"}).get(f"/j/{token}").text
    assert "We ask. &lt;b&gt;" in start
    assert "Agreed?" in start
    edited = [e for e in web.store.events(study.public_id) if e.kind == "study.edited"]
    assert edited[0].body["version"] == 2
    assert web.admin("viewer").get(f"{home}/edit").status_code == 404
    web.store.set_state(study.public_id, "closed", actor="admin")
    assert admin.get(f"{home}/edit").status_code == 404
    found = verify("".join(export_lines(web.store, web.store.study(study.public_id))).encode())
    assert found.holds, found.summary()


def test_shared_logs_are_edited_before_they_open(web: Web, tmp_path: Path) -> None:
    config, _ = campaign_config(tmp_path, n=92)
    study = web.store.new_study("campaign", "Scans", config, actor="admin")
    admin, home = web.admin(), f"/admin/studies/{study.public_id}"
    sent = {**csrf(admin, f"{home}/edit"), "name": "Scans 2", "asks": "Four clinics.",
            "consent": "We agree."}  # fmt: skip
    assert admin.post(f"{home}/edit", data=sent).status_code == 200
    assert web.store.study(study.public_id).name == "Scans 2"
    web.store.set_state(study.public_id, "open", actor="admin")
    assert admin.get(f"{home}/edit").status_code == 404
    party = web.store.new_party(study, role="labeller", label=PARTIES[0])
    token = web.store.new_link(party)
    with web.client() as client:
        start = client.get(f"/j/{token}")
        assert "Four clinics." in start.text
        hidden = dict(HIDDEN.findall(start.text))
        refused = client.post(f"/j/{token}", data=hidden)
        assert refused.status_code == 422
        assert "Please tick the box" in refused.text
        inside = client.post(f"/j/{token}", data={**hidden, "consent": "yes"})
        assert 'data-page="label"' in inside.text
    with web.client() as other:  # the same link on another device: she agreed already
        again = other.get(f"/j/{token}")
        assert "Continue where you stopped" in again.text
        hidden = dict(HIDDEN.findall(again.text))
        assert 'data-page="label"' in other.post(f"/j/{token}", data=hidden).text
    agreed = [e for e in web.store.events(study.public_id) if e.kind == "consent"]
    assert [e.actor for e in agreed] == [party.public_id]


def items(first: int, n: int) -> bytes:
    rows = [f"c{i},{(i * 37) % 11 / 4 - 1.2:.3f},{(i * 53) % 13 / 5 - 1.1:.3f}"
            for i in range(first, first + n)]  # fmt: skip
    return ("case,size,shape\n" + "\n".join(rows) + "\n").encode()


def answer(store: Store, stream: str, parties: Any, most: int = 10_000) -> None:
    """Everybody answers by the size, until nothing is open."""
    count = 0
    while count < most:
        state = store.fold_now(stream).state
        asked = [q for p in parties for q in state.waiting(p)][:10]
        if not asked:
            return
        places = state.config["page"]["columns"]
        told = []
        for q in asked:
            row = dict(zip(places, state.config["page"]["rows"][q.item]))
            label = int(row["size"] + 0.3 * row["shape"] > 0)
            told.append(NewEvent("label.tell", {"id": q.id, "label": label, "party": q.party},
                                 f"t:{q.id}", q.party))  # fmt: skip
        store.append_all_now(stream, told, expected=None)
        count += len(told)


def test_items_and_a_party_come_to_an_open_campaign(web: Web, tmp_path: Path) -> None:
    config, _ = campaign_config(tmp_path, n=92)
    study = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    home, stream = f"/admin/studies/{study.public_id}", study.public_id
    answer(web.store, stream, PARTIES, 20)
    admin = web.admin()
    key = csrf(admin, home)
    for content, told in ((b"case,size\nx,1\n", "There is no column &#39;shape&#39;"),
                          (items(3, 2), "is there twice (line 2)")):  # fmt: skip
        sent = admin.post(f"{home}/add", data={**key, "party": PARTIES[1]},
                          files={"file": ("i.csv", content)})  # fmt: skip
        assert (sent.status_code, told in sent.text) == (422, True), sent.text[-3000:]
    for number, (party, new) in enumerate(((PARTIES[1], ""), ("", "clinic 9"))):
        sent = admin.post(
            f"{home}/add", files={"file": ("i.csv", items(100 + 40 * number, 12 + 20 * number))},
            data={**key, "key": f"key{number:09}", "party": party, "new_party": new},
        )  # fmt: skip
        assert f"{12 + 20 * number} items were added." in sent.text
    state = web.store.fold_now(stream).state
    assert state.config["items"] == 92 + 12 + 32
    assert web.store.config(study)["items"] == 92  # what was begun stays as it was
    assert list(state.config["parties"]) == [*PARTIES, "clinic 9"]
    links = admin.post(f"{home}/party-links", data={**key, "party": ""})
    assert "clinic 9" in links.text
    answer(web.store, stream, [*PARTIES, "clinic 9"])
    state = web.store.fold_now(stream).state
    assert any(a.item >= 92 for a in state.answers.values())
    text = "".join(export_lines(web.store, web.store.study(stream))).encode()
    found = verify(text)
    assert found.holds, found.summary()
    with Store.open(Settings(data=tmp_path / "other")) as other:  # replayed from the log alone
        import_study(other, text, actor="test")
        again = other.fold_now(stream).state
        assert again.campaign.log() == state.campaign.log()
        assert again.config["items"] == 136
    added = [e for e in web.store.events(stream) if e.kind == "label.add"]
    for forged in ({"rows": [0, 1]}, {"joins": True}, {"party": "nobody"}, {"rows": []}):
        recount = LogRecount(config)
        with pytest.raises(InvalidStateError):
            list(recount.take(replace(added[0], body={**added[0].body, **forged})))


def test_a_party_that_leaves_after_items_came_is_forgotten(web: Web, tmp_path: Path) -> None:
    config, _ = campaign_config(tmp_path, n=92)
    study = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    home, stream = f"/admin/studies/{study.public_id}", study.public_id
    clinic = Labeller(web, study, PARTIES[0])
    for _ in range(3):
        item, fields = clinic.cards[0]
        clinic.answer(fields, item % 2)
        clinic.look()
    answer(web.store, stream, PARTIES[1:], 12)
    admin = web.admin()
    key = csrf(admin, home)
    sent = admin.post(f"{home}/add", data={**key, "party": PARTIES[1]},
                      files={"file": ("i.csv", items(100, 12))})  # fmt: skip
    assert "12 items were added." in sent.text
    leaves = {"key": "leaves-now-1", "act": "leave", "party": PARTIES[0], "forget": "yes"}
    left = admin.post(f"{home}/change", data={**key, **leaves, "sure": "yes"})
    assert left.status_code == 200, left.text[-2000:]
    told = [e for e in web.store.events(stream) if e.actor == clinic.party.public_id]
    assert all(e.body is None for e in told)
    answer(web.store, stream, PARTIES[1:])
    state = web.store.fold_now(stream).state
    assert state.config["items"] == 104
    assert not any(a.party == PARTIES[0] for a in state.answers.values())
    with Store.open(web.settings) as fresh:
        assert fresh.fold_now(stream).state.campaign._answered == state.campaign._answered
    assert 'data-page="error"' in clinic.look().text
    found = verify("".join(export_lines(web.store, web.store.study(stream))).encode())
    assert found.holds, found.summary()


def test_a_live_model_that_is_taken_down_is_replaced_at_once(web: Web) -> None:
    guard = web.store.new_study("guard", "Loans", guard_config(champion="v2"), actor="admin",
                                open_now=True)  # fmt: skip
    stream, home = guard.public_id, f"/admin/studies/{guard.public_id}"
    for number in range(200):  # until a model other than the safe one is live
        if web.store.fold_now(stream).state.last["model"] != 0:
            break
        ended = NewEvent("guard.ended", {"after": number}, f"e:{number}", "service:1")
        web.store.append_now(stream, ended, expected=None)
    state = web.store.fold_now(stream).state
    live, rounds = state.last["model"], len(state.decisions)
    assert live != 0
    admin = web.admin()
    sent = {**csrf(admin, home), "model": str(live), "reason": "wrong units"}
    done = admin.post(f"{home}/take-down", data=sent)
    state = web.store.fold_now(stream).state
    assert state.last["model"] != live
    assert len(state.decisions) == rounds + 1
    name, now = (state.config["models"][j] for j in (live, state.last["model"]))
    assert f"{name} was taken down in round {rounds} and is never served again." in done.text
    assert f"Live now: {now}." in done.text
    left = sum(j == live for j, *_ in state.decisions)  # no outcome has come in
    assert f"of its {left} open decision" in done.text
    token = web.store.new_token(guard, ["serve"])
    with web.client(headers={"authorization": f"Bearer {token}"}) as service:
        api = f"/api/guard/{guard.public_id}"
        assert service.get(f"{api}/serve").json()["model"] == now
        next_one = service.post(f"{api}/decisions", json={"after": rounds - 1}).json()
        assert (next_one["decision"], next_one["model"]) == (rounds, now)
    found = verify("".join(export_lines(web.store, guard)).encode())
    assert found.holds, found.summary()


def test_a_guard_that_judges_all_says_who_takes_models_down(web: Web) -> None:
    config = guard_config(mode="full", purse=None, max_delay=0)
    guard = web.store.new_study("guard", "All", config, actor="admin", open_now=True)
    page = web.admin().get(f"/admin/studies/{guard.public_id}").text
    assert "the guard itself takes models down" in page
    assert 'name="reason"' not in page


@pytest.mark.claim("28.27")
def test_the_page_of_a_study_follows_its_people(web: Web) -> None:
    study = web.study()
    person = web.person(study, "ann")
    admin = web.admin()
    cookie = {"cp_admin": admin.cookies["cp_admin"]}
    told: list[dict[str, str]] = []

    async def listen() -> None:
        async with httpx.AsyncClient(base_url=web.url, cookies=cookie, timeout=20) as client:
            path = f"/admin/studies/{study.public_id}/live"
            async with client.stream("GET", path) as stream:
                async for line in stream.aiter_lines():
                    if line.startswith("data: "):
                        told.append(json.loads(line[6:]))
                        if len(told) == 1:
                            await asyncio.to_thread(person.answer)
                        if len(told) == 2:
                            return

    asyncio.run(listen())
    assert told[0]["people"] == "1 person, 0 answers, 0 finished"
    assert told[1][f"progress-{person.party.public_id}"].startswith("1 answer")
    assert told[1]["people"].startswith("1 person, 1 answer,")


def test_an_imported_study_with_a_name_of_its_own_can_be_answered(web: Web) -> None:
    from counterplay.core.exports import EventChain, config_hash, write_export
    from counterplay.studio.errors import Refused
    from counterplay.studio.kinds import kind_of

    config = kind_of("elicitation").export(web.config)[1]
    chain = EventChain("things-of_2026")
    told = {"kind": "elicitation", "name": "Things", "version": 1,
            "config_hash": config_hash(config)}  # fmt: skip
    chain.add("study.created", told, actor="a")
    chain.add("study.opened", {}, actor="a")
    text = write_export("things-of_2026", "elicitation", config, [chain])
    study = import_study(web.store, text.encode(), actor="a")
    assert (study.public_id, study.state) == ("things-of_2026", "open")
    person = web.person(study)
    assert person.name == "question"
    long = EventChain("p" * 41)
    long.add("party.joined", {"role": "participant", "party": "p" * 41}, actor="a")
    again = write_export("things-of_2027", "elicitation", config, [chain, long])
    with pytest.raises(Refused, match="more than 40 plain characters"):
        import_study(web.store, again.encode(), actor="a")
