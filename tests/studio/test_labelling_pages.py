"""Pages of labellers and coordinators: queues, live numbers, files, and what they keep secret."""

from __future__ import annotations

import asyncio
import html
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sqlalchemy as sa

from counterplay.studio.kinds import NewEvent
from counterplay.studio.kinds.campaign_live import ledger_texts
from counterplay.studio.web.texts import language
from studio.listeners import listen_all
from studio.studio_campaigns import (
    CARD,
    CLASSES,
    HIDDEN,
    PARTIES,
    Labeller,
    campaign_config,
    pool,
)

if TYPE_CHECKING:
    from counterplay.studio.store.base import StudyRow
    from studio.web_house import Web

Campaign = tuple["StudyRow", np.ndarray]


def opened(web: Web, folder: Path, **more: Any) -> Campaign:
    """A campaign that was opened."""
    config, truth = campaign_config(folder, **more)
    study = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    return study, truth


@pytest.mark.claim("28.12")
def test_nobody_waits_for_another_without_being_told(web: Web, tmp_path: Path) -> None:
    study, truth = opened(web, tmp_path)
    clinics = [Labeller(web, study, name) for name in PARTIES]
    assert all(len(c.cards) == 10 for c in clinics)
    quick = clinics[0]
    for _ in range(200):
        if not quick.cards:
            break
        item, fields = quick.cards[0]
        quick.answer(fields, int(truth[item]))
    assert 'data-page="label-wait"' in quick.page.text
    state = web.store.fold_now(study.public_id).state
    others = [q for name in PARTIES[1:] for q in state.waiting(name)]
    assert len(others) == 30  # of 60: how many more are meant for them would tell what they are for
    assert f"{len(others)} questions of others decide" in quick.page.text
    for clinic in clinics[1:]:
        assert clinic.look().status_code == 200
        assert len(clinic.cards) == 10
    ledger = quick.client.get(f"{quick.home}/ledger").text
    report = {p.party: p for p in web.store.fold_now(study.public_id).state.campaign.work().parties}
    mine = report["clinic 0"]
    assert f"You: {mine.asked} questions" in ledger
    assert f"at least {mine.alone_at_least}" in ledger
    assert "Nobody works more than alone." in ledger
    assert "clinic 1" not in ledger  # names are the coordinator's
    assert re.search(r"[0-9A-Z]{4}(-[0-9A-Z]{4}){3}", ledger)


def test_a_server_folds_shared_logs_before_anybody_asks(tmp_path: Path) -> None:
    from counterplay.studio.app import recall
    from counterplay.studio.settings import Settings
    from counterplay.studio.store import Store

    config, _ = campaign_config(tmp_path)
    with Store.open(Settings(data=tmp_path / "s")) as store:
        made = [store.new_study("campaign", name, config, actor="admin", open_now=name == "open")
                for name in ("open", "draft")]  # fmt: skip
    with Store.open(Settings(data=tmp_path / "s"), server=True) as store:
        recall(store)
        assert store._folds.names() == [made[0].public_id]


def test_two_tabs_repeats_undo_and_change(web: Web, tmp_path: Path) -> None:
    study, _ = opened(web, tmp_path)
    clinic = Labeller(web, study, "clinic 0")
    _, fields = clinic.cards[0]
    clinic.answer(fields, 1)
    assert "1 of about" in clinic.page.text
    assert clinic.answer(fields, 1).status_code == 200  # the same click again
    assert "1 of about" in clinic.page.text
    other = clinic.answer({**fields, "key": "another-tab-key"}, 0)
    assert other.status_code == 409
    assert "already answered" in other.text
    assert clinic.answer({**clinic.cards[0][1], "csrf": "0" * 64}, 0).status_code == 403
    clinic.look()
    assert clinic.answer(clinic.cards[0][1], 7).status_code == 422
    answers = clinic.client.get(f"{clinic.home}/answers").text
    form = re.search(r'<form method="post" action="[^"]+/correct".*?</form>', answers, re.S)
    assert form is not None
    sent = {**dict(HIDDEN.findall(form[0])), "label": "0"}
    changed = clinic.client.post(f"{clinic.home}/correct", data=sent)
    assert changed.status_code == 200
    state = web.store.fold_now(study.public_id).state
    assert [a.code for a in state.answers.values()] == [0]
    clinic.look()
    undo = re.search(r'<form method="post" action="[^"]+/undo".*?</form>', clinic.page.text, re.S)
    assert undo is not None
    clinic.client.post(f"{clinic.home}/undo", data=dict(HIDDEN.findall(undo[0])))
    assert not web.store.fold_now(study.public_id).state.answers


def test_a_party_sees_nothing_of_another(web: Web, tmp_path: Path) -> None:
    study, _ = opened(web, tmp_path)
    one, two = Labeller(web, study, "clinic 0"), Labeller(web, study, "clinic 1")
    _, theirs = two.cards[0]
    mine = {**theirs, "csrf": one.cards[0][1]["csrf"]}
    assert one.answer(mine, 0).status_code == 409
    assert not web.store.fold_now(study.public_id).state.answers
    assert web.client().get(one.home).status_code == 404
    other, _ = opened(web, tmp_path)
    assert one.client.get(f"/l/{other.public_id}").status_code == 404
    assert "audit" not in one.page.text.replace("/audits", "")
    assert '"kind"' not in one.page.text


@pytest.mark.claim("28.15")
def test_the_card_of_a_check_has_the_bytes_of_any_other(web: Web, tmp_path: Path) -> None:
    """But for what is asked about: nothing on a page tells what a question is for."""
    study, truth = opened(web, tmp_path, n=160)
    clinics, seen = [Labeller(web, study, name) for name in PARTIES], dict[str, set[str]]()
    for _ in range(60):
        state = web.store.fold_now(study.public_id).state
        for card in CARD.finditer("".join(clinic.look().text for clinic in clinics)):
            asked = state.find(dict(HIDDEN.findall(card[0]))["question"])
            kind = state.campaign._questions[asked].kind
            seen.setdefault(kind, set()).add(plain(card[0]))
        told = [
            NewEvent("label.tell", {"id": q.id, "label": int(truth[q.item]), "party": q.party},
                     f"t:{q.id}", q.party)
            for name in PARTIES for q in state.waiting(name)
        ]  # fmt: skip
        if not told:
            break
        web.store.append_all_now(study.public_id, told, expected=None)
    assert set(seen) == {"learn", "audit"}
    assert seen["learn"] == seen["audit"]
    assert len(seen["audit"]) == 1


def plain(card: str) -> str:
    """A card without its item, its key and its place on the page."""
    for what in (r'value="[^"]*"', r'data-item="\d+"', r"item-\d+", r'class="button[^"]*"',
                 r' data-key="."', r"<h2.*?</h2>", r"<dd>.*?</dd>"):  # fmt: skip
        card = re.sub(what, "", card, flags=re.S)
    return card


@pytest.mark.claim("28.21")
@pytest.mark.parametrize("now", ["open", "paused", "closed", "gone"])
def test_leaving_erases_the_answers(web: Web, tmp_path: Path, now: str) -> None:
    """Whatever the study's state, also after the party was taken out with nothing in use."""
    study, truth = opened(web, tmp_path)
    clinic = Labeller(web, study, "clinic 3")
    for _ in range(3):
        item, fields = clinic.cards[0]
        clinic.answer(fields, int(truth[item]))
    if now in ("paused", "closed"):
        web.store.set_state(study.public_id, now, actor="admin")
    if now == "gone":
        answers = web.store.fold_now(study.public_id).state.answers
        events = [NewEvent("label.retract", {"id": name}, f"back:{name}", clinic.party.public_id)
                  for name in list(answers)]  # fmt: skip
        out = {"party": "clinic 3", "forget": False}
        events.append(NewEvent("label.party", out, "out", "admin"))
        web.store.append_all_now(study.public_id, events, expected=None)
    page = clinic.client.get(f"{clinic.home}/ledger")
    form = re.search(r'<form method="post" action="[^"]+/withdraw".*?</form>', page.text, re.S)
    assert form is not None
    sure = clinic.client.post(f"{clinic.home}/withdraw", data=dict(HIDDEN.findall(form[0])))
    assert "cannot be undone" in sure.text
    gone = clinic.client.post(f"{clinic.home}/withdraw", data=dict(HIDDEN.findall(sure.text)))
    assert "deleted" in gone.text
    events = web.store.events(study.public_id)
    assert sum(e.body is None for e in events if e.kind == "label.tell") == 3
    mine = [e for e in events if e.actor == clinic.party.public_id and e.kind != "party.withdrawn"]
    assert all(e.body is None for e in mine)
    state = web.store.fold_now(study.public_id).state
    assert not state.answers
    assert 3 in state.state.gone
    from counterplay.studio.exports import export_lines
    from counterplay.verify import verify

    assert verify("".join(export_lines(web.store, study)).encode()).holds


def test_the_coordinator_runs_it(web: Web, tmp_path: Path) -> None:
    study, truth = opened(web, tmp_path)
    admin = web.admin()
    home = f"/admin/studies/{study.public_id}"
    page = admin.get(home)
    assert page.status_code == 200
    csrf = dict(HIDDEN.findall(page.text))["csrf"]
    made = admin.post(f"{home}/party-links", data={"csrf": csrf, "key": "k" * 12})
    assert made.text.count("/j/") == 4
    known = "item,label\n" + "\n".join(f"c{i},{CLASSES[truth[i]]}" for i in range(5))
    bad = known.replace("c3,", "nobody,").replace("c4,b", "c4,x").replace("c4,m", "c4,x")
    for text, status in ((bad, 422), (known, 200)):
        given = {"csrf": csrf, "key": f"import{status}x", "what": "known"}
        sent = admin.post(f"{home}/import", data=given, files={"file": ("known.csv", text)})
        assert sent.status_code == status
        assert status == 200 or "line 5" in sent.text
    assert len(web.store.fold_now(study.public_id).state.known) == 5
    tasks = admin.get(f"{home}/tasks.json").json()
    assert len(tasks) == 40
    for task in tasks:
        label = CLASSES[truth[int(task["data"]["case"][1:])]]
        task["annotations"] = [{"result": [{"value": {"choices": [label]}}]}]
    given = {"csrf": csrf, "key": "answers-one", "what": "answers"}
    file = {"file": ("tasks.json", json.dumps(tasks))}
    sent = admin.post(f"{home}/import", data=given, files=file)
    assert sent.status_code == 200
    assert len(web.store.fold_now(study.public_id).state.answers) == 40
    table = admin.get(f"{home}/labels.csv").text.splitlines()
    assert table[0] == "item,label,score,source,answers,disputed"
    assert any(",known," in line for line in table)
    answered = {a.item for a in web.store.fold_now(study.public_id).state.answers.values()}
    item = next(i for i in range(100) if i not in answered)
    out = {"csrf": csrf, "key": "withdraw-1", "act": "withdraw", "item": f"c{item}", "reason": "x"}
    assert "x" in admin.post(f"{home}/change", data=out).text
    stranger = web.admin("coordinator", study=opened(web, tmp_path)[0])
    assert stranger.get(home).status_code == 404
    assert stranger.post(f"{home}/change", data=out).status_code in (403, 404)
    viewer = web.admin("viewer")
    assert viewer.get(home).status_code == 200
    assert viewer.post(f"{home}/party-links", data=out).status_code in (403, 404)


def test_a_card_that_came_while_the_page_was_on_its_way(web: Web, tmp_path: Path) -> None:
    """A page that waits is told at once: nobody may ever change anything again."""
    study, _ = opened(web, tmp_path)
    clinic, other = (Labeller(web, study, name) for name in PARTIES[:2])

    def first(query: str, clinic: Labeller = clinic) -> str:
        with clinic.client.stream("GET", f"{clinic.home}/events{query}") as answer:
            return next(line for line in answer.iter_lines() if line.startswith("event:"))

    assert first("?waiting=1") == "event: reload"
    assert first("") == "event: numbers"
    state = web.store.fold_now(study.public_id).state
    state.departed = "another rule"  # its page shows no cards: it would be loaded for ever
    assert first("?waiting=1", other) == "event: numbers"
    state.departed = None


def test_a_file_of_new_items_may_be_as_large_as_any_other(web: Web, tmp_path: Path) -> None:
    study, _ = opened(web, tmp_path)
    admin, home = web.admin(), f"/admin/studies/{study.public_id}"
    csrf = dict(HIDDEN.findall(admin.get(home).text))["csrf"]
    for word in ("add", "import"):
        given = {"csrf": csrf, "key": f"large-{word}", "party": "clinic 0", "what": "known"}
        file = {"file": ("items.csv", b"\xff" * (2 * 2**20))}
        sent = admin.post(f"{home}/{word}", data=given, files=file)
        assert sent.status_code == 422, word  # it was read, and is no text


@pytest.mark.claim("28.15")
def test_pictures_are_pixels_and_nothing_else(web: Web, tmp_path: Path) -> None:
    import base64

    from PIL import Image, PngImagePlugin

    from counterplay.errors import InvalidInputError
    from counterplay.studio.kinds.campaign import KIND

    told = PngImagePlugin.PngInfo()
    told.add_text("comment", "<script>alert(1)</script>")
    exif = Image.Exif()
    exif[0x010E] = "taken at home"
    Image.new("RGB", (8, 8), "red").save(tmp_path / "p.png", pnginfo=told, exif=exif)
    with open(tmp_path / "p.png", "ab") as out:
        out.write(b"<script>alert(2)</script>")
    frame, _ = pool(92)
    raw = {"kind": "campaign", "name": "Scans", "table": "c.csv", "owner": "site", "id": "case",
           "classes": CLASSES, "scope": "union", "max_error": 0.1, "image": "picture"}  # fmt: skip

    def config(name: str) -> dict[str, Any]:
        frame.assign(picture=name).to_csv(tmp_path / "c.csv", index=False)
        return KIND.read_config(raw, tmp_path)

    made = config("p.png")
    stored = base64.b64decode(made["page"]["images"][0])
    assert (stored[:4], stored[8:12]) == (b"RIFF", b"WEBP")
    assert b"script" not in stored
    assert b"taken at home" not in stored
    (tmp_path / "s.png").write_text("<svg onload=alert(1)>")
    for name, said in (("s.png", "is no image"), ("../p.png", "is elsewhere")):
        with pytest.raises(InvalidInputError, match=said):
            config(name)
    study = web.store.new_study("campaign", "Scans", made, actor="admin", open_now=True)
    clinic = Labeller(web, study, "clinic 0")
    mine, other = made["parties"]["clinic 0"][0], made["parties"]["clinic 1"][0]
    shown = clinic.client.get(f"{clinic.home}/image/{mine}")
    assert shown.headers["content-type"] == "image/webp"
    assert shown.content == stored
    assert clinic.client.get(f"{clinic.home}/image/{other}").status_code == 404


@pytest.mark.claim("28.27")
def test_two_hundred_listeners_hear_of_one_change(web: Web, tmp_path: Path) -> None:
    tell_two_hundred(web, tmp_path)


@pytest.mark.slow
@pytest.mark.claim("28.27")
def test_two_hundred_listeners_hear_of_it_within_a_second(web: Web, tmp_path: Path) -> None:
    assert tell_two_hundred(web, tmp_path) < 1.0


def tell_two_hundred(web: Web, tmp_path: Path) -> float:
    """Seconds from one change until the last of its listeners has heard of it."""
    study, _ = opened(web, tmp_path)
    clinic, admin = Labeller(web, study, "clinic 0"), web.admin()
    path = f"/admin/studies/{study.public_id}/live"
    _, fields = clinic.cards[0]
    queries: list[str] = []
    began = [0.0]

    def count(*arguments: Any) -> None:
        queries.append(str(arguments[2])[:60])

    def change() -> None:
        sa.event.listen(web.store.engine, "after_cursor_execute", count)
        try:
            sent = {**fields, "label": "1"}
            began[0] = time.monotonic()
            clinic.client.post(f"{clinic.home}/answer", data=sent, follow_redirects=False)
        finally:
            time.sleep(0.2)
            sa.event.remove(web.store.engine, "after_cursor_execute", count)

    heard, ended = asyncio.run(listen_all(admin, path, 200, change))
    assert len(heard) == 200
    assert all(first != later for first, later in heard)
    assert len({later for _, later in heard}) == 1
    reads = [query for query in queries if query.startswith("SELECT")]
    assert len(reads) <= 2, reads  # the answer looks for its key; no listener asks anything
    return ended - began[0]


def test_a_campaign_is_made_on_one_page(web: Web) -> None:
    frame, truth = pool(80)
    frame["known"] = ["" if i % 8 else CLASSES[truth[i]] for i in range(80)]
    items = frame.to_csv(index=False)
    admin, path = web.admin(), "/admin/studies/new/campaign"
    csrf = dict(HIDDEN.findall(admin.get(path).text))["csrf"]
    good = {"csrf": csrf, "name": "Scans", "owner": "site", "classes": ", ".join(CLASSES),
            "id": "case", "known_column": "known", "scope": "union", "max_error": "10",
            "confidence": "95"}  # fmt: skip
    for field, value, told in (
        ("owner", "nobody", "There is no column"),
        ("classes", "benign", "two or more"),
        ("max_error", "0", "between 0 and 100"),
        ("id", "site", "is there twice"),
        ("known_column", "shape", "none of the labels"),
    ):
        bad = admin.post(path, data={**good, field: value}, files={"file": ("i.csv", items)})
        assert bad.status_code == 422
        assert told in bad.text
        assert 'value="Scans"' in bad.text  # what was typed is kept
    binary = admin.post(path, data=good, files={"file": ("i.csv", b"PK\x03\x04")})
    assert "zip archive" in binary.text
    before = len(web.store.studies())
    made = admin.post(path, data=good, files={"file": ("i.csv", items)})
    assert made.status_code == 200
    assert "Scans" in made.text
    study = web.store.studies()[0]
    assert len(web.store.studies()) == before + 1
    config = web.store.config(study)
    assert len(config["known"]) == 10
    assert config["page"]["columns"] == ["case", "size", "shape"]
    web.store.set_state(study.public_id, "open", actor="admin")
    assert web.store.fold_now(study.public_id).state.begun


def test_those_who_wait_are_told_by_one_look(web: Web, tmp_path: Path, monkeypatch: Any) -> None:
    study, truth = opened(web, tmp_path, n=40)
    waits, works = Labeller(web, study, "clinic 0"), Labeller(web, study, "clinic 1")
    while waits.cards:
        item, fields = waits.cards[0]
        waits.answer(fields, int(truth[item]))
    looks: list[str] = []
    view = web.store.view

    def counted(stream: str, look: Any, **more: Any) -> Any:
        looks.append(look.__qualname__)
        return view(stream, look, **more)

    def change() -> None:
        monkeypatch.setattr(web.store, "view", counted)
        item, fields = works.cards[0]
        sent = {**fields, "label": str(truth[item])}
        works.client.post(f"{works.home}/answer", data=sent, follow_redirects=False)

    heard, _ = asyncio.run(listen_all(waits.client, f"{waits.home}/events?waiting=1", 30, change))
    assert len(heard) == 30
    assert len([look for look in looks if "follow" in look or "card" in look]) == 1


LIVE = re.compile(r'data-live="([^"]+)"[^>]*>([^<]*)<')


def test_everything_on_a_ledger_moves_with_the_answers(web: Web, tmp_path: Path) -> None:
    study, truth = opened(web, tmp_path)
    clinic, admin = Labeller(web, study, "clinic 0"), web.admin()
    home, own = f"/admin/studies/{study.public_id}", {"you", "asked-0", "bar-asked-0"}
    pages = (
        (admin, home, f"{home}/live", {"answered", "answers-0"}),
        (clinic.client, f"{clinic.home}/ledger", f"{clinic.home}/events", own),
    )
    before = [browser.get(page).text for browser, page, _, _ in pages]
    for _ in range(12):
        item, fields = clinic.cards[0]
        clinic.answer(fields, int(truth[item]))
    for (browser, page, path, moving), old in zip(pages, before):
        with browser.stream("GET", path) as answer:
            data = next(x for x in answer.iter_lines() if x.startswith("data: ") and len(x) > 10)
        told = json.loads(data.removeprefix("data: "))
        new = browser.get(page).text
        shown = {k: html.unescape(v) for k, v in LIVE.findall(new) if not k.startswith("since")}
        assert shown == {k: v for k, v in told.items() if k in shown}
        stale = dict(LIVE.findall(old))
        assert stale.keys() - set(told) == set()
        assert moving <= {k for k in shown if html.unescape(stale[k]) != shown[k]}
        for name in (k for k in told if "@" in k):
            element, attribute = name.split("@")
            tag = re.search(f'<[a-z]+ [^>]*id="{element}"[^>]*>', new)
            assert tag is not None
            assert f' {attribute}="{told[name]}"' in tag[0]


def test_a_certificate_is_a_sentence_that_moves() -> None:
    row = {"asked": 3, "alone_at_least": 4, "saved_at_least": 1, "free": None, "retracted": 0,
           "finished_by": "joint", "party": "clinic 0"}  # fmt: skip
    sure = {"scope": "all parties", "bound": 0.05, "items": 100, "confidence": 0.95, "checked": 61,
            "wrong": 1, "withdrawn": 1, "first_to": None}  # fmt: skip
    found = {"rows": [row], "widest": 8, "total": row, "parties": 1, "nobody_more": True,
             "nobody_more_but": True, "certificates": []}  # fmt: skip
    words = language("en")
    none = ledger_texts(found, "clinic 0", words)
    some = ledger_texts({**found, "certificates": [sure]}, "clinic 0", words)
    assert none.keys() == some.keys()
    assert none["no-certificate"] == "Nothing can be signed yet."
    assert some["no-certificate"] == none["certificate-0"] == ""
    assert some["certificate-0"].startswith("All parties: at most 5\xa0% of 100 labels are wrong")
    assert some["certificate-0"].endswith("the bound is about items that would stay.")
    assert (some["fill-asked-0@width"], some["free-0"]) == ("37.50", "–")
