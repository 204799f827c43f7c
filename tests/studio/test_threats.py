"""The threat model of the studio: one test per row of its table, and the checks beside it."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import re
import socket
import statistics
import time
import tracemalloc
import zipfile
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from counterplay.errors import InvalidInputError
from counterplay.studio.errors import Refused
from counterplay.studio.kinds import kind_of
from counterplay.studio.kinds.elicitation_config import read_catalogue
from counterplay.studio.settings import Settings
from counterplay.studio.web.limits import Buckets
from counterplay.studio.web.middleware import LARGEST_HEADER, redacted
from counterplay.studio.web.security import TooMany
from counterplay.studio.web.studies import safe_cell
from studio.web_house import FORM, HIDDEN, Person, Web, catalogue, fields

pytestmark = pytest.mark.claim("28.15")
INJECTIONS = ("<script>alert(1)</script>", "' OR 1=1 --", '"><img src=x onerror=alert(1)>', "=1+1")


def token_of(page: httpx.Response) -> str:
    return dict(HIDDEN.findall(page.text))["csrf"]


def test_strangers_cannot_tell_unknown_revoked_and_expired_links_apart(web: Web) -> None:
    study = web.study()
    party, revoked = web.link(study)
    web.store.revoke_links(party)
    expired = web.store.new_link(party, expires="2000-01-01T00:00:00+00:00")
    with web.client() as client:
        answers = [client.get(f"/j/{token}") for token in ("x" * 43, revoked, expired)]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.content for answer in answers}) == 1
    assert "does not open anything (any more)" in answers[0].text


def dead_links(web: Web) -> tuple[str, str, str, str]:
    """Unknown, revoked, expired, and no token at all."""
    study = web.study()
    party, revoked = web.link(study)
    web.store.revoke_links(party)
    expired = web.store.new_link(party, expires="2000-01-01T00:00:00+00:00")
    return "x" * 43, revoked, expired, "short"


def test_dead_links_of_all_kinds_cost_the_same_look(web: Web) -> None:
    """One statement, the same for all: nothing is done for one that is not done for another."""
    tokens, asked = dead_links(web), list[str]()

    def count(*arguments: Any) -> None:
        asked.append(str(arguments[2]))

    told: list[list[str]] = []
    sa.event.listen(web.store.engine, "before_cursor_execute", count)
    try:
        with web.client() as client:
            for token in tokens:
                client.get(f"/j/{token}")
                told.append([text for text in asked if "FROM link" in text])
                asked.clear()
    finally:
        sa.event.remove(web.store.engine, "before_cursor_execute", count)
    assert len(told[0]) == 1
    assert told == [told[0]] * 4


@pytest.mark.slow
def test_unknown_and_revoked_links_take_as_long(tmp_path: Path) -> None:
    house = Web(tmp_path)
    took: dict[str, list[float]] = {token: [] for token in dead_links(house)}
    try:
        with house.client() as client:
            for _ in range(40):
                for token, times in took.items():
                    began = time.process_time()
                    client.get(f"/j/{token}")
                    times.append(time.process_time() - began)
                house.app.state.house.links._buckets.clear()
    finally:
        house.close()
    medians = [statistics.median(times) for times in took.values()]
    assert max(medians) < 1.25 * min(medians)  # a page that is drawn takes 3 times as long


def test_guessing_links_is_slowed_down_by_address(web: Web, tmp_path: Path) -> None:
    house = Web(tmp_path)
    try:
        _, right = house.link(house.study())
        with house.client() as client:
            told = [client.get(f"/j/{'x' * 42}{i % 10}").status_code for i in range(31)]
            assert told == [404] * 30 + [429]
            assert client.get(f"/j/{right}").status_code == 200
    finally:
        house.close()
    buckets = Buckets(per_minute=30, burst=30, clock=lambda: 0.0)
    for _ in range(30):
        buckets.take("203.0.113.9")
    with pytest.raises(TooMany) as caught:
        buckets.take("203.0.113.9")
    assert caught.value.status == 429
    assert caught.value.after >= 1
    buckets.take("203.0.113.10")  # others are not


@pytest.mark.claim("28.20")
def test_a_network_is_not_served_without_https() -> None:
    with pytest.raises(InvalidInputError, match="everybody on the network can read the links"):
        Settings(host="0.0.0.0").check_host()
    Settings(host="0.0.0.0", base_url="https://studio.example.org").check_host()
    assert Settings().host == "127.0.0.1"


def test_cookies_are_secure_and_hsts_is_sent_where_there_is_https(tmp_path: Any) -> None:
    house = Web(tmp_path, base_url="https://studio.example.org")
    try:
        _, token = house.link(house.study())
        with house.client() as client:
            start = client.get(f"/j/{token}")
            assert "max-age=31536000" in start.headers["strict-transport-security"]
            sent = client.post(
                f"/j/{token}", data=dict(HIDDEN.findall(start.text)), follow_redirects=False
            )
        cookie = sent.headers["set-cookie"]
        assert all(word in cookie for word in ("Secure", "HttpOnly", "SameSite=lax"))
    finally:
        house.close()


def test_the_secret_leaves_the_address_and_stays_out_of_logs(
    web: Web, caplog: pytest.LogCaptureFixture
) -> None:
    _, token = web.link(web.study())
    with caplog.at_level(logging.DEBUG), web.client() as client:
        start = client.get(f"/j/{token}")
        data = dict(HIDDEN.findall(start.text))
        after = client.post(f"/j/{token}", data=data)
    ours = [record.getMessage() for record in caplog.records if "counterplay" in record.name]
    assert any("/j/***" in line for line in ours)
    assert not any(token in line for line in ours)
    assert token not in str(after.url)
    assert token not in after.text
    assert after.headers["referrer-policy"] == "no-referrer"
    assert redacted(f"/admin/link/{token}") == "/admin/link/***"
    for path in (
        f"//j/{token}",
        f"/J/{token}",
        f"/j/{token}/",
        f"/x{token}",
        f"/admin//link/{token}",
    ):
        assert token not in redacted(path)
    path = web.settings.sqlite_file
    assert path is not None
    for file in path.parent.glob("studio.sqlite*"):
        assert token.encode() not in file.read_bytes()


def test_opening_a_link_changes_nothing(web: Web) -> None:
    party, token = web.link(web.study())
    with web.client() as scanner:
        for _ in range(3):
            scanner.get(f"/j/{token}")
            scanner.head(f"/j/{token}")
        assert not scanner.cookies
    link = web.store.find_link(token)
    assert link is not None
    assert link.first_used_at is None
    assert link.used == 0
    assert web.store.events(party.public_id) == []


def test_other_sites_cannot_answer_in_her_name(web: Web) -> None:
    person = web.person()
    before = len(web.store.events(person.party.public_id))
    form = {**person.hidden, "answer": "first"}
    path = f"{person.home}/answer"
    refused = [
        person.client.post(path, data={**form, "csrf": "0" * 64}),
        person.client.post(path, data={k: v for k, v in form.items() if k != "csrf"}),
        person.client.post(path, data=form, headers={"sec-fetch-site": "cross-site"}),
        person.client.post(path, data=form, headers={"sec-fetch-site": "same-site"}),
        person.client.post(path, json=form),
    ]
    assert [answer.status_code for answer in refused] == [403] * 5
    assert len(web.store.events(person.party.public_id)) == before
    ok = person.client.post(path, data=form, headers={"sec-fetch-site": "same-origin"})
    assert ok.status_code == 200


def test_a_token_of_another_session_is_refused(web: Web) -> None:
    study = web.study()
    ann, bob = web.person(study, "ann"), web.person(study, "bob")
    form = {**ann.hidden, "csrf": bob.hidden["csrf"], "answer": "first"}
    assert ann.client.post(f"{ann.home}/answer", data=form).status_code == 403


def test_pages_cannot_be_framed_and_hold_no_inline_code(web: Web) -> None:
    person = web.person()
    admin = web.admin()
    home = f"/admin/studies/{person.study.public_id}"
    pages = [admin.get(path) for path in ("/admin", "/admin/studies/new", home)]
    pages += [person.page, web.client().get("/j/nothing")]
    person.finish()
    for page in [*pages, person.page]:
        policy = page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["x-frame-options"] == "DENY"
        assert inline_code(page.text) == []


INLINE = ("<script>a</script>", "<p style='a'>", "<style>a</style>",
          "<p title='a' ONCLICK=a>", "<a href=' javascript:a'>")  # fmt: skip


@pytest.mark.parametrize("text", INLINE)
def test_inline_code_is_found(text: str) -> None:
    assert len(inline_code(f"<p title=' onload='> style= {text}")) == 1


def inline_code(page: str) -> list[str]:
    """Return what of a page a browser would run or apply; text that looks like it is none."""
    found = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            given = {name: (value or "").strip().lower() for name, value in attrs}
            odd = [
                name
                for name, value in given.items()
                if name == "style" or name.startswith("on") or value.startswith("javascript:")
            ]
            if odd or tag == "style" or (tag == "script" and "src" not in given):
                found.append(tag)

    Reader().feed(page)
    return found


@pytest.mark.parametrize("text", INJECTIONS)
def test_text_of_strangers_is_shown_as_text(web: Web, text: str) -> None:
    table = catalogue().decode().replace("thing 0", f'"{text.replace(chr(34), chr(34) * 2)}"')
    raw = fields(name=text, asks=text, consent=text, units={"price": text[:20]})
    config = kind_of("elicitation").read_config(
        {**raw, "table_bytes": table.encode()}, web.settings.data
    )
    study = web.study(config, name=text)
    person = web.person(study, label=text)
    admin = web.admin()
    home = f"/admin/studies/{study.public_id}"
    pages = [admin.get(path) for path in ("/admin", home, f"{home}/preview")]
    pages += [person.page, web.client().get(f"/j/{person.token}")]
    person.finish()
    for page in [*pages, person.page]:
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text


def test_spreadsheets_do_not_run_what_labels_say(web: Web) -> None:
    admin, study = web.admin(), web.study()
    home = f"/admin/studies/{study.public_id}"
    csrf = token_of(admin.get(home))
    sent = admin.post(f"{home}/links.csv", data={"csrf": csrf, "n": "2", "label": "=cmd()"})
    assert sent.headers["content-type"].startswith("text/csv")
    assert all(not line.startswith("=") for line in sent.text.splitlines())
    assert [safe_cell(x)[0] for x in ("=a", "+a", "-a", "@a", "\ta")] == ["'"] * 5


def test_an_open_link_has_a_cap_and_twins_are_shown(web: Web) -> None:
    study = web.study()
    token = web.store.new_open_link(study, 2)
    people = []
    for _ in range(2):
        person = Person(web.client(), study, web.link(study)[0], token)
        person.start()
        person.finish()
        people.append(person)
    with web.client() as third:
        start = third.get(f"/j/{token}")
        assert FORM.search(start.text) is None
        assert "as many people as it is for" in start.text
        assert third.post(f"/j/{token}", data={"csrf": "x"}).status_code == 403
    assert len([party for party in web.store.parties(study) if "guest" in party.label]) == 2
    again = people[0].client.get(f"/j/{token}")
    assert "Continue where you stopped" in again.text  # one browser, one stream
    people[0].client.post(f"/j/{token}", data=dict(HIDDEN.findall(again.text)))
    assert len([party for party in web.store.parties(study) if "guest" in party.label]) == 2
    page = web.admin().get(f"/admin/studies/{study.public_id}").text
    assert "From one address: guest 1, guest 2" in page


def test_cookies_of_one_study_open_no_other(web: Web) -> None:
    ann, other = web.person(), web.study()
    secret = ann.client.cookies[f"cp_{ann.study.public_id}"]
    with web.client() as thief:
        thief.cookies.set(f"cp_{other.public_id}", secret)
        assert thief.get(f"/p/{other.public_id}").status_code == 404
        assert thief.get(ann.home).status_code == 404
        assert thief.get(f"{ann.home}/data.json").status_code == 404


def test_a_coordinator_sees_one_study(web: Web) -> None:
    mine, other = web.study(name="Mine"), web.study(name="Other people's")
    admin = web.admin("coordinator", mine)
    assert admin.get(f"/admin/studies/{mine.public_id}").status_code == 200
    assert "Other people" not in admin.get("/admin").text
    csrf = token_of(admin.get(f"/admin/studies/{mine.public_id}"))
    for path in ("", "/export", "/preview"):
        assert admin.get(f"/admin/studies/{other.public_id}{path}").status_code == 404
    for path in ("open", "pause", "close", "links.csv", "open-link"):
        sent = admin.post(f"/admin/studies/{other.public_id}/{path}", data={"csrf": csrf, "n": "1"})
        assert sent.status_code == 404
    assert admin.get("/admin/studies/new").status_code == 404
    party = web.link(other)[0]
    for word in ("revoke", "reissue"):
        path = f"/admin/studies/{mine.public_id}/parties/{party.public_id}/{word}"
        assert admin.post(path, data={"csrf": csrf}).status_code == 404


def test_a_viewer_changes_nothing(web: Web) -> None:
    study = web.study()
    admin = web.admin("viewer")
    page = admin.get(f"/admin/studies/{study.public_id}")
    assert page.status_code == 200
    assert "Close for good" not in page.text
    csrf = token_of(admin.get("/admin"))
    path = f"/admin/studies/{study.public_id}/close"
    assert admin.post(path, data={"csrf": csrf}).status_code == 404
    assert web.store.study(study.public_id).state == "open"


def _bomb() -> bytes:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("table.csv", b"0," * 10**6)
    return packed.getvalue()


HOSTILE_TABLES = [
    (pickle.dumps({"a": 1}), "not a text file"),
    (_bomb(), "not a text file"),
    (b"a,b\n" + b"1,2\n" * 5_300_000, "larger than 20 MB"),
    (b",".join(b"c%d" % i for i in range(10**6)) + b"\n", "more than 500 columns"),
    (b"a,b\n" + b"1,2\n" * 200_002, "more than 200,000 rows"),
    (b"a,b\n1,2\n1,\xff\n", "Line 3 is not UTF-8"),
    (b"a,b,c\n1,2,3\n1,2,3,4\n", "Line 3 has 4 fields, the header has 3"),
    (b"\0\0\0\0", "not a text file"),
]


@pytest.mark.parametrize(("content", "told"), HOSTILE_TABLES)
def test_hostile_tables_are_refused_in_little_memory(content: bytes, told: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInputError, match=told):
            read_catalogue(content)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200e6  # bytes on top of the file


@pytest.mark.slow
@pytest.mark.parametrize(("content", "told"), HOSTILE_TABLES)
def test_hostile_tables_are_refused_at_once(content: bytes, told: str) -> None:
    began = time.process_time()
    with pytest.raises(InvalidInputError, match=told):
        read_catalogue(content)
    assert time.process_time() - began < 1.0


def test_uploads_over_the_limit_are_refused_before_they_are_read(web: Web) -> None:
    admin = web.admin()
    csrf = token_of(admin.get("/admin/studies/new"))
    file = {"file": ("t.csv", b"x" * (22 * 2**20), "text/csv")}
    assert admin.post("/admin/studies/new", data={"csrf": csrf}, files=file).status_code == 413
    small = admin.post("/admin/studies/new", data={"csrf": csrf},
                       files={"file": ("t.csv", pickle.dumps([1]), "text/csv")})  # fmt: skip
    assert small.status_code == 422
    assert "not a text file" in small.text


def test_files_have_no_paths_and_there_is_no_open_redirect(web: Web) -> None:
    with web.client(follow_redirects=False) as client:
        for path in (
            "/static/../app.py",
            "/static/..%2fapp.py",
            "/static//etc/passwd",
            "/static/x",
        ):
            assert client.get(path).status_code == 404
        for path in ("/?next=https://evil.example", "//evil.example/%2e%2e", "/admin?next=//evil"):
            place = client.get(path).headers.get("location", "/")
            assert place.startswith("/")
            assert not place.startswith("//")


def test_verbs_that_are_not_listed(web: Web) -> None:
    person = web.person()
    with web.client() as client:
        for verb in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            assert client.request(verb, "/admin/login").status_code == 405
        assert client.get(f"{person.home}/answer").status_code == 405
        assert client.post("/healthz").status_code == 405


def test_every_answer_has_the_headers(web: Web) -> None:
    with web.client() as client:
        for path in ("/healthz", "/admin/login", "/j/nothing", "/static/studio.css", "/nowhere"):
            told = client.get(path).headers
            assert told["x-content-type-options"] == "nosniff"
            assert told["referrer-policy"] == "no-referrer"
            assert told["cross-origin-opener-policy"] == "same-origin"
            assert told["cross-origin-resource-policy"] == "same-origin"
            assert "camera=()" in told["permissions-policy"]
            kept = "public" if path.startswith("/static") else "no-store"
            assert kept in told["cache-control"]


def raw(web: Web, text: bytes, *, wait: float = 10.0) -> bytes:
    host, port = web.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=wait) as line:
        line.sendall(text)
        try:
            return line.recv(4096)
        except TimeoutError:
            return b""


def test_huge_headers_addresses_and_bodies(web: Web) -> None:
    huge = b"x" * (LARGEST_HEADER + 1)
    assert b" 431 " in raw(web, b"GET /healthz HTTP/1.1\r\nhost: a\r\nx-a: " + huge + b"\r\n\r\n")
    assert b" 414 " in raw(web, b"GET /" + b"a" * 3_000 + b" HTTP/1.1\r\nhost: a\r\n\r\n")
    told = b"POST /admin/login HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999\r\n\r\n"
    assert b" 413 " in raw(web, told)


def test_a_body_that_drips_is_cut_off(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from counterplay.studio import app as house_app

    original = house_app.Gate.__init__

    def quick(self: Any, app: Any, **given: Any) -> None:
        original(self, app, **{**given, "body_seconds": 0.2})

    monkeypatch.setattr(house_app.Gate, "__init__", quick)
    house = Web(tmp_path)
    try:
        sent = b"POST /admin/login HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nname"
        assert b" 408 " in raw(house, sent)
    finally:
        house.close()


def test_floods_are_answered_with_429(tmp_path: Any) -> None:
    house = Web(tmp_path, requests_per_minute=20, writes_per_minute=1, write_burst=2)
    try:
        person = house.person()
        answers = [person.answer() for _ in range(3)]
        slowed = next(answer for answer in answers if answer.status_code == 429)
        assert int(slowed.headers["retry-after"]) >= 1
        assert 'data-page="error"' in slowed.text
        with house.client() as client:
            last = [client.get("/admin/login") for _ in range(40)][-1]
        assert last.status_code == 429
        assert "retry-after" in last.headers
        assert "Nothing is lost" in last.text
    finally:
        house.close()


def test_an_untrusted_proxy_header_is_ignored(tmp_path: Any) -> None:
    house = Web(tmp_path, requests_per_minute=10)
    try:
        with house.client() as client:
            told = [
                client.get(
                    "/admin/login", headers={"x-forwarded-for": f"203.0.113.{i}"}
                ).status_code
                for i in range(20)
            ]
        assert told[-1] == 429
    finally:
        house.close()


def test_behind_a_proxy_its_own_line_counts(tmp_path: Path) -> None:
    """Some proxies add a line of their own below the one that a stranger invented."""
    house = Web(tmp_path, trusted_proxies=1, logins_per_minute=5, requests_per_minute=20)
    try:
        with house.client() as client:
            csrf = token_of(client.get("/admin/login"))
            told = []
            for i in range(8):
                head = [("x-forwarded-for", f"198.51.100.{i}"), ("x-forwarded-for", "203.0.113.9")]
                form = {"csrf": csrf, "name": f"name {i}", "password": "wrong"}
                told.append(client.post("/admin/login", data=form, headers=head).status_code)
            assert told == [401] * 5 + [429] * 3
            for i in range(20):
                head = [("x-forwarded-for", f"198.51.100.{i}"), ("x-forwarded-for", "203.0.113.9")]
                last = client.get("/admin/login", headers=head)
            assert last.status_code == 429
            other = [("x-forwarded-for", "198.51.100.1"), ("x-forwarded-for", "203.0.113.10")]
            assert client.get("/admin/login", headers=other).status_code == 200
    finally:
        house.close()


def test_a_link_has_one_limit_however_many_sessions_it_made(tmp_path: Path) -> None:
    from studio.studio_campaigns import Labeller, campaign_config

    house = Web(tmp_path, writes_per_minute=0.1, write_burst=0.3)  # ten cards count as one
    try:
        config, _ = campaign_config(tmp_path, n=92)
        study = house.store.new_study("campaign", "Scans", config, actor="a", open_now=True)
        first = Labeller(house, study, "clinic 0")
        second = Labeller.__new__(Labeller)
        second.web, second.study, second.party = house, study, first.party
        second.client = house.client()
        secret = house.store.new_session(party=first.party)
        second.client.cookies.set(f"cp_{study.public_id}", secret, path="/")
        told = [first.answer(fields, 1).status_code for _, fields in first.cards[:3]]
        assert told == [200] * 3
        second.look()
        assert second.answer(second.cards[0][1], 1).status_code == 429
    finally:
        house.close()


def test_numbers_for_monitoring_are_not_for_strangers(tmp_path: Path) -> None:
    house = Web(tmp_path, metrics_token="m" * 30)
    try:
        with house.client() as client:
            assert "counterplay_events" in client.get("/metrics").text  # this machine
            for name in ("x-forwarded-for", "x-real-ip", "forwarded", "via"):
                assert client.get("/metrics", headers={name: "203.0.113.9"}).status_code == 404
            head = {"x-forwarded-for": "203.0.113.9", "authorization": "Bearer wrong"}
            assert client.get("/metrics", headers=head).status_code == 404
            head["authorization"] = f"Bearer {'m' * 30}"
            assert client.get("/metrics", headers=head).status_code == 200
    finally:
        house.close()


def test_too_many_open_pages_of_live_numbers_are_refused(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    from counterplay.studio.web import live

    monkeypatch.setattr(live, "MOST_LISTENERS", 0)
    admin, study = web.admin(), web.study()
    told = admin.get(f"/admin/studies/{study.public_id}/live")
    assert told.status_code == 503
    assert int(told.headers["retry-after"]) >= 1


def test_a_connection_that_sends_no_whole_request_is_closed(tmp_path: Path) -> None:
    """Thousands of them would keep everybody else out; live numbers stay."""
    import threading

    import uvicorn

    from counterplay.studio.app import _Server, create_app
    from counterplay.studio.store import Store

    settings = Settings(data=tmp_path / "data")
    with Store.open(settings, server=True) as store:
        study = store.new_study(
            "elicitation", "Things",
            kind_of("elicitation").read_config({**fields(), "table_bytes": catalogue()}, tmp_path),
            actor="a", open_now=True,
        )  # fmt: skip
        secret = store.new_session(admin=store.new_admin("a", password=None, role="owner"))
        config = uvicorn.Config(create_app(settings, store=store), port=0, log_level="warning")
        server = _Server(config, store)

        async def run() -> None:
            hurry = asyncio.create_task(server.hurry(0.4))
            await server.serve()
            hurry.cancel()

        thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        lines = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(3)]
        lines[1].sendall(b"GET /healthz HTTP/1.1\r\nhost: a\r\nx-drip: ")
        live = f"/admin/studies/{study.public_id}/live"
        head = f"GET {live} HTTP/1.1\r\nhost: a\r\ncookie: cp_admin={secret}\r\n\r\n"
        lines[2].sendall(head.encode())
        assert [line.recv(10) for line in lines[:2]] == [b"", b""]  # closed, silent and dripping
        assert b" 200 " in lines[2].recv(4096)
        lines[2].settimeout(0.8)
        try:
            while lines[2].recv(4096):
                pass
            open_still = False
        except TimeoutError:
            open_still = True
        assert open_still
        server.handle_exit(15, None)
        lines[2].settimeout(30)
        rest = b"".join(iter(lambda: lines[2].recv(4096), b""))
        assert rest.endswith(b"0\r\n\r\n")  # the live numbers have ended, nobody cut them off
        thread.join(20)
        assert not thread.is_alive()
        for line in lines:
            line.close()


def test_a_browser_that_goes_away_is_no_error(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    sent = b"POST /admin/login HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nname"
    host, port = web.url.removeprefix("http://").split(":")
    with caplog.at_level(logging.WARNING):
        with socket.create_connection((host, int(port))) as line:
            line.sendall(sent)
            time.sleep(0.3)
        until = time.monotonic() + 2
        while time.monotonic() < until and not caplog.records:
            time.sleep(0.05)
    assert [record.getMessage() for record in caplog.records] == []


def test_the_session_changes_at_login_and_brute_force_is_slowed(tmp_path: Any) -> None:
    from counterplay.studio.passwords import hash_password

    house = Web(tmp_path, logins_per_minute=5)
    try:
        row = house.store.new_admin("ann", password=hash_password("correct horse"), role="owner")
        fixed = house.store.new_session(admin=row)
        with house.client(follow_redirects=False) as client:
            client.cookies.set("cp_admin", fixed, path="/")
            csrf = token_of(client.get("/admin/login"))
            form = {"csrf": csrf, "name": "ann", "password": "correct horse"}
            sent = client.post("/admin/login", data=form)
            assert sent.status_code == 303
            fresh = re.search(r"cp_admin=([^;]+)", sent.headers["set-cookie"])
            assert fresh is not None
            assert fresh[1] != fixed
            assert house.store.find_session(fixed) is None
        with house.client() as client:
            wrong = {"csrf": csrf, "name": "ann", "password": "wrong"}
            told = [client.post("/admin/login", data=wrong).status_code for _ in range(6)]
        assert told[0] == 401
        assert told[-1] == 429
    finally:
        house.close()


def test_a_login_link_works_once_and_by_its_button_alone(web: Web) -> None:
    row = web.store.new_admin("once", password=None, role="viewer")
    secret = web.store.new_login(row)
    with web.client() as client:
        first = client.get(f"/admin/link/{secret}")
        assert first.status_code == client.get(f"/admin/link/{secret}").status_code == 200
        form = {"csrf": token_of(first)}
        assert client.post(f"/admin/link/{secret}", data=form).url.path == "/admin"
    with web.client() as client:
        assert client.post(f"/admin/link/{secret}", data=form).status_code == 404


def test_logging_out_ends_the_session(web: Web) -> None:
    admin = web.admin()
    csrf = token_of(admin.get("/admin"))
    secret = admin.cookies["cp_admin"]
    assert admin.post("/admin/logout", data={"csrf": csrf}).url.path == "/admin/login"
    assert web.store.find_session(secret) is None


def test_revoking_a_link_ends_its_sessions(web: Web) -> None:
    person = web.person()
    web.store.revoke_links(person.party)
    person.look()
    assert person.page.status_code == 404


def test_a_link_that_was_revoked_a_moment_ago_makes_no_session(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The button was pressed before; the session would have outlived the link."""
    party, token = web.link(web.study())
    use = web.store.use_link

    def revoked_meanwhile(*given: Any, **more: Any) -> Any:
        found = use(*given, **more)
        web.store.revoke_links(party)
        return found

    monkeypatch.setattr(web.store, "use_link", revoked_meanwhile)
    with web.client() as client:
        start = client.get(f"/j/{token}")
        data = dict(HIDDEN.findall(start.text))
        done = client.post(f"/j/{token}", data=data)
        assert done.status_code == 404
        assert "does not open anything (any more)" in done.text
        assert not client.cookies


def test_open_links_and_tokens_can_be_revoked(web: Web) -> None:
    from studio.guards import guard_config

    admin, study = web.admin(), web.study()
    home = f"/admin/studies/{study.public_id}"
    token = web.store.new_open_link(study, 5)
    early = Person(web.client(), study, web.link(study)[0], token)
    early.start()
    page = admin.get(home).text
    assert "An open link for 5 people works: 1 came by it." in page
    csrf = token_of(admin.get(home))
    done = admin.post(f"{home}/open-link/revoke", data={"csrf": csrf})
    assert "came by it" not in done.text
    with web.client() as client:
        assert client.get(f"/j/{token}").status_code == 404
    early.look()
    assert early.name == "question"  # who came goes on
    assert web.store.audit_log()[0]["action"] == "open links revoked"
    guard = web.store.new_study("guard", "Loans", guard_config(), actor="a", open_now=True)
    home, secret = f"/admin/studies/{guard.public_id}", web.store.new_token(guard, ["serve"])
    head = {"authorization": f"Bearer {secret}"}
    with web.client(headers=head) as service:
        path = f"/api/guard/{guard.public_id}/serve"
        assert service.get(path).status_code == 200
        assert "1 token works." in admin.get(home).text
        done = admin.post(f"{home}/token/revoke", data={"csrf": csrf})
        assert done.status_code == 200
        assert "token works" not in done.text
        assert service.get(path).status_code == 401
    assert web.store.audit_log()[0]["action"] == "tokens revoked"


def test_the_log_has_every_action_of_admins(web: Web) -> None:
    admin, study = web.admin(), web.study(open_now=False)
    home = f"/admin/studies/{study.public_id}"
    csrf = token_of(admin.get(home))
    for path in ("open", "pause", "open", "close"):
        assert admin.post(f"{home}/{path}", data={"csrf": csrf}).status_code == 200
    admin.get(f"{home}/export")
    told = [line["action"] for line in web.store.audit_log() if line["object"] == study.public_id]
    assert told[::-1] == ["study open", "study paused", "study open", "study closed", "exported"]


def test_the_log_has_what_admins_do_to_links_campaigns_guards_and_audits(
    web: Web, tmp_path: Path
) -> None:
    """Every form and every download of the admins' pages leaves a line with a hashed address."""
    from studio.guards import guard_config
    from studio.studio_campaigns import campaign_config, pool

    admin, study = web.admin(), web.study()
    party = web.link(study)[0].public_id
    config, _ = campaign_config(tmp_path, n=92)
    campaign = web.store.new_study("campaign", "Scans", config, actor="a", open_now=True)
    guard = web.store.new_study("guard", "Loans", guard_config(), actor="a", open_now=True)
    csrf = token_of(admin.get(f"/admin/studies/{study.public_id}"))
    items, table = pool(92)[0].to_csv(index=False), b"income,paid\n1,yes\n2,no\n"
    more = "case,size,shape\n" + "\n".join(f"n{i},{i / 9},1" for i in range(9))
    sent: list[tuple[str, str, dict[str, str], dict[str, Any]]] = [
        ("links made", f"studies/{study.public_id}/links.csv", {"n": "1", "label": "x"}, {}),
        ("open link made", f"studies/{study.public_id}/open-link", {"cap": "3"}, {}),
        ("link reissued", f"studies/{study.public_id}/parties/{party}/reissue", {}, {}),
        ("link revoked", f"studies/{study.public_id}/parties/{party}/revoke", {}, {}),
        ("study edited", f"studies/{study.public_id}/edit", {"name": "B", "target": "5"}, {}),
        ("import", f"studies/{campaign.public_id}/import", {"what": "known"},
         {"file": ("k.csv", "item,label\nc1,benign\n")}),
        ("label.add", f"studies/{campaign.public_id}/add", {"party": "clinic 1"},
         {"file": ("i.csv", more)}),
        ("label.withdraw", f"studies/{campaign.public_id}/change",
         {"act": "withdraw", "item": "c5", "reason": "blurred"}, {}),
        ("links", f"studies/{campaign.public_id}/party-links", {}, {}),
        ("new token", f"studies/{guard.public_id}/token", {"serve": "yes"}, {}),
        ("take down", f"studies/{guard.public_id}/take-down", {"model": "1", "reason": "x"}, {}),
        ("study created", "studies/new/campaign",
         {"name": "New", "owner": "site", "classes": "a, b", "scope": "union", "max_error": "9",
          "confidence": "95"}, {"file": ("i.csv", items)}),
        ("audit", "audits", {"name": "Loans", "sections": "honest"},
         {"table": ("t.csv", table)}),
    ]  # fmt: skip
    for number, (action, path, told, files) in enumerate(sent):
        form = {"csrf": csrf, "key": f"log-{number:039}", **told}
        done = admin.post(f"/admin/{path}", data=form, files=files or None)
        assert done.status_code == 200, (action, done.text[-500:])
        last = web.store.audit_log()[0]
        assert (last["action"], last["actor"][:5]) == (action, "owner")
        assert len(last["address_hash"]) == 32
    for place in ("export", "labels.csv", "tasks.json"):
        admin.get(f"/admin/studies/{campaign.public_id}/{place}")
        assert web.store.audit_log()[0]["action"].startswith("exported")


def test_errors_show_a_number_that_is_in_the_log(
    web: Web, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    person = web.person()

    async def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(web.store, "view", broken)
    with caplog.at_level(logging.ERROR):
        person.look()
    assert person.page.status_code == 500
    assert "secret detail" not in person.page.text
    number = re.search(r"number ([0-9a-f]{8})", person.page.text)
    assert number is not None
    assert any(number[1] in r.getMessage() for r in caplog.records)


def test_writes_by_nobody_are_refused(web: Web) -> None:
    person = web.person()
    stream = person.party.public_id
    from counterplay.studio.kinds import NewEvent

    for kind, body in (
        ("elicit.result", {"item": 0}),
        ("elicit.asked", {"number": 0}),
        ("elicit.answered", {"asked": 1, "order": [0]}),
        ("elicit.answered", {"asked": 2, "order": [7]}),
        ("elicit.answered", {"asked": 2, "order": [0], "answer": "second"}),
        ("elicit.answered", json.loads('{"asked": 2, "order": [0], "x": 1}')),
    ):
        with pytest.raises(Refused):
            web.store.append_now(
                stream, NewEvent(kind, body, f"forged {kind} {body}", "x"), expected=None
            )


def test_the_studio_can_be_mounted_below_a_path(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from counterplay.studio import create_app
    from counterplay.studio.store import Store

    settings = Settings(data=tmp_path / "data")
    with Store.open(settings) as store:
        config = kind_of("elicitation").read_config(
            {**fields(), "table_bytes": catalogue()}, tmp_path
        )
        study = store.new_study("elicitation", "Things", config, actor="admin", open_now=True)
        token = store.new_link(store.new_party(study, role="participant", label="ann"))
    app = create_app(settings)
    outer = Starlette(routes=[Mount("/studio", app)])

    async def visit() -> list[httpx.Response]:
        transport = httpx.ASGITransport(outer)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            start = await client.get(f"/studio/j/{token}")
            form = FORM.search(start.text)
            assert form is not None
            entered = await client.post(form[1], data=dict(HIDDEN.findall(start.text)))
            return [start, entered, await client.get(entered.headers["location"])]

    with caplog.at_level(logging.INFO, "counterplay.studio.access"):
        start, entered, question = asyncio.run(visit())
    app.state.house.store.close()
    assert entered.headers["location"] == f"/studio/p/{study.public_id}?after=1"
    assert f"Path=/studio/p/{study.public_id}" in entered.headers["set-cookie"]
    assert 'data-page="question"' in question.text
    assert 'href="/studio/static/studio.css"' in start.text
    assert not any(token in record.getMessage() for record in caplog.records)


def test_forms_that_are_broken_are_no_error_of_ours(
    web: Web, caplog: pytest.LogCaptureFixture
) -> None:
    admin, head = web.admin(), {"content-type": "multipart/form-data; boundary=abc"}
    field = b'--abc\r\ncontent-disposition: form-data; name="a%d"\r\n\r\n1\r\n'
    many = b"".join(field % i for i in range(200)) + b"--abc--\r\n"
    for path in ("/admin/studies/new", "/admin/audits", "/admin/studies/import"):
        for content in (b"x" * 1_000, b"--abc\r\n\r\n", many):
            with caplog.at_level(logging.ERROR):
                told = admin.post(path, content=content, headers=head)
            assert 400 <= told.status_code < 500, (path, content[:20], told.status_code)
            assert 'data-page="error"' in told.text or told.status_code == 422
    assert not [record for record in caplog.records if "counterplay" in record.name]
