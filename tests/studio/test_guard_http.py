"""The guard behind HTTP: tokens, batches, repeats, a server that is killed; and its client."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import sqlalchemy as sa

from counterplay.studio.client import GuardClient
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store, links
from counterplay.studio.store import tables as t
from studio.guards import Service, guard_config

if TYPE_CHECKING:
    from studio.web_house import Web

SERVER = """
import sys, pathlib
from counterplay.studio.app import serve
from counterplay.studio.settings import Settings
serve(Settings(data=pathlib.Path(sys.argv[1]), port=0, requests_per_minute=1e9,
               writes_per_minute=1e9), pathlib.Path(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def guarded(web: Web) -> tuple[str, dict[str, str], Any]:
    """A guard with a token that may do everything: address, headers, study."""
    study = web.store.new_study("guard", "Loans", guard_config(), actor="admin", open_now=True)
    token = web.store.new_token(study, ["serve", "report"])
    return f"/api/guard/{study.public_id}", {"Authorization": f"Bearer {token}"}, study


def test_serve_decisions_outcomes(web: Web, guarded: tuple[str, dict[str, str], Any]) -> None:
    path, head, _ = guarded
    client = web.client(headers=head)
    first = client.get(f"{path}/serve")
    told = first.json()
    assert set(told) == {"model", "decision", "valid_for_s", "reason", "harm"}
    assert told["decision"] == 0
    same = client.get(f"{path}/serve", headers={"If-None-Match": first.headers["etag"]})
    assert same.status_code == 304
    other = web.store.new_study("guard", "Other", guard_config(), actor="admin", open_now=True)
    theirs = {"Authorization": f"Bearer {web.store.new_token(other, ['serve'])}"}
    twin = web.client(headers=theirs).get(f"/api/guard/{other.public_id}/serve")
    assert twin.headers["etag"] != first.headers["etag"]  # as many events, another log
    second = client.post(f"{path}/decisions", json={"after": 0}).json()
    assert second["decision"] == 1
    assert client.post(f"{path}/decisions", json={"after": 0}).json() == second
    bad = client.post(f"{path}/decisions", json={"after": 7})
    assert bad.status_code == 422
    assert bad.json()["field"] == "after"
    good = {"id": "a", "decision": 0, "model": told["model"], "primary": 0.5, "secondary": 0.1}
    wrong = {**good, "id": "b", "decision": 1, "model": second["model"], "secondary": 1.5}
    none = client.post(f"{path}/outcomes", json=[good, wrong])
    assert none.status_code == 422
    assert none.json()["field"] == "[1]"
    assert "'b'" in none.json()["error"]
    assert client.get(f"{path}/state", headers=head).json()["judged"] == 0  # none of the batch
    assert client.post(f"{path}/outcomes", json=[good, good]).json() == {"stored": 1, "repeated": 1}
    assert client.post(f"{path}/outcomes", json=[good]).json() == {"stored": 0, "repeated": 1}
    assert client.post(f"{path}/outcomes", json=[good] * 1_001).status_code == 413
    assert client.post(f"{path}/outcomes", content=b"x" * (2**20 + 1)).status_code == 413


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_number_that_is_none_is_named_with_its_outcome(
    web: Web, guarded: tuple[str, dict[str, str], Any], number: str
) -> None:
    path, head, _ = guarded
    client = web.client(headers=head)
    before = client.get(f"{path}/state").json()["judged"]
    live = client.get(f"{path}/serve").json()
    good = {"id": "g", "decision": live["decision"], "model": live["model"], "primary": 0.5}
    batch = json.dumps([{**good, "secondary": 0.1}, {**good, "id": "n", "all": {"v1": [0.5, 7]}}])
    told = client.post(f"{path}/outcomes", content=batch.replace("7", number))
    assert told.status_code == 422
    assert told.json()["field"] == "[1]"
    assert told.json()["error"].startswith("outcome 1 ('n'): a loss is NaN or infinite")
    assert client.get(f"{path}/state").json()["judged"] == before  # none of the batch
    outside = client.post(f"{path}/outcomes", content=f'{{"id": {number}}}')
    assert outside.status_code == 422


def test_tokens_open_one_guard_with_their_scopes_and_no_cookie_does(
    web: Web, guarded: tuple[str, dict[str, str], Any]
) -> None:
    path, head, study = guarded
    other = web.store.new_study("guard", "Other", guard_config(), actor="admin", open_now=True)
    only = web.store.new_token(study, ["report"])
    client = web.client()
    assert client.get(f"{path}/serve").status_code == 401
    assert web.admin().get(f"{path}/serve").status_code == 401
    unknown = {"Authorization": "Bearer " + "x" * 43}
    assert client.get(f"{path}/serve", headers=unknown).status_code == 401
    assert client.get(f"/api/guard/{other.public_id}/serve", headers=head).status_code == 404
    refused = client.get(f"{path}/serve", headers={"Authorization": f"Bearer {only}"})
    assert refused.status_code == 403
    assert "scope" in refused.text


def _start(data: Path, ready: Path) -> tuple[subprocess.Popen[bytes], str]:
    ready.unlink(missing_ok=True)
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(data), str(ready)])
    until = time.monotonic() + 60
    while not ready.exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    return process, str(json.loads(ready.read_text())["url"])


@pytest.mark.claim("28.13")
def test_a_server_that_is_killed_gives_the_same_decisions(tmp_path: Path) -> None:
    ask_rounds(tmp_path, 14, stops={7})


@pytest.mark.slow
@pytest.mark.claim("28.13")
def test_five_thousand_rounds_and_five_kills_give_the_same_decisions(tmp_path: Path) -> None:
    ask_rounds(tmp_path, 4_999, stops={800, 1_600, 2_400, 3_200, 4_000})


def ask_rounds(tmp_path: Path, rounds: int, stops: set[int]) -> None:
    """A service asks the server who is live, and the library, which is not killed."""
    config = guard_config(horizon=max(400, rounds + 1))
    with Store.open(Settings(data=tmp_path / "data")) as store:
        study = store.new_study("guard", "Loans", config, actor="admin", open_now=True)
        token = store.new_token(study, ["serve", "report"])
    head = {"Authorization": f"Bearer {token}"}
    path = f"/api/guard/{study.public_id}"
    process, url = _start(tmp_path / "data", tmp_path / "ready")
    client = httpx.Client(headers=head, timeout=30)
    service = Service(config)
    try:
        for number in range(rounds):
            told = client.get(f"{url}{path}/serve").json()
            assert (told["model"] or told["fallback"]) == service.model
            batch = service.outcomes()
            for part in (batch[: len(batch) // 2], batch[len(batch) // 2 :], batch[:1]):
                assert client.post(f"{url}{path}/outcomes", json=part).status_code == 200
            service.hear(batch)
            if number in stops:
                process.kill()
                process.wait()
                process, url = _start(tmp_path / "data", tmp_path / "ready")
            assert client.post(f"{url}{path}/decisions", json={"after": number}).status_code == 200
            service.next_round()
    finally:
        process.kill()
        process.wait()
    with Store.open(Settings(data=tmp_path / "data")) as store:
        state = store.fold_now(study.public_id).state
        assert len(state.decisions) == rounds + 1
        assert state.decisions[-1][0] == service.now.model


@pytest.mark.claim("28.14")
def test_the_client_never_raises_and_sends_what_waited_once(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = web.store.new_study("guard", "Loans", guard_config(), actor="admin", open_now=True)
    token = web.store.new_token(study, ["serve", "report"])
    url, spool = f"{web.url}/api/guard/{study.public_id}", tmp_path / "spool"
    client = GuardClient(url, token, "v1", max_age=300, spool=spool, timeout=5)
    clock = [1_000.0]
    monkeypatch.setattr(GuardClient, "_clock", staticmethod(lambda: clock[0]))
    now = client.serve()
    assert now.source == "server"
    assert client.serve() == now  # by the ETag
    later = client.decide()
    assert later.decision == 1
    client.url = "http://127.0.0.1:9/api/guard/nobody"  # the server is away
    gone = client.serve()
    assert (gone.source, gone.model, gone.decision) == ("cache", later.model, 1)
    outcome = {"decision": 0, "model": now.model, "primary": 0.2, "secondary": 0.0}
    assert client.report([outcome]) == 1
    assert client.decide() == gone
    clock[0] += 301
    assert client.serve().source == "safe"
    assert client.serve().model == "v1"
    again = GuardClient(url, token, "v1", spool=spool, timeout=5)  # the service was restarted
    assert again.waiting == 1
    assert again.report() == 0
    assert spool.read_text() == ""
    state = web.store.fold_now(study.public_id).state
    assert len(state.outcomes) == 1
    assert again.report({**outcome, "decision": 77}) == 0  # refused: set aside, told, not repeated
    assert "no decision 77" in again.rejected[0][1]
    nothing = {**outcome, "decision": 1, "model": later.model, "primary": float("nan")}
    assert again.report([nothing]) == 0  # can never be sent: set aside, and does not raise
    assert len(again.rejected) == 2


def test_a_bound_beside_missing_outcomes_says_what_it_is_about(web: Web) -> None:
    study = web.store.new_study("guard", "Loans", guard_config(), actor="admin", open_now=True)
    token = web.store.new_token(study, ["serve", "report"])
    client = web.client(headers={"Authorization": f"Bearer {token}"})
    path, page = f"/api/guard/{study.public_id}", f"/admin/studies/{study.public_id}"
    live = client.get(f"{path}/serve").json()["model"]
    told = "The bound is about rounds whose outcomes are known"
    assert told not in web.admin().get(page).text
    gone = {"id": "a", "decision": 0, "model": live, "missing": True}
    assert client.post(f"{path}/outcomes", json=[gone]).status_code == 200
    assert f"{told}: 1 is missing, 0 are not in yet." in web.admin().get(page).text


def test_the_client_needs_the_standard_library_only() -> None:
    code = (
        "import sys, importlib.util, pathlib\n"
        "before = set(sys.modules)\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "spec = importlib.util.spec_from_file_location('client', path)\n"
        "module = importlib.util.module_from_spec(spec); sys.modules['client'] = module\n"
        "spec.loader.exec_module(module)\n"
        "new = {n.split('.')[0] for n in set(sys.modules) - before} - {'client'}\n"
        "print(sorted(n for n in new if n not in sys.stdlib_module_names))\n"
    )
    import counterplay.studio.client as client

    found = subprocess.run([sys.executable, "-S", "-c", code, str(client.__file__)],
                           capture_output=True, text=True, check=True)  # fmt: skip
    assert found.stdout.strip() == "[]"


def test_the_use_of_a_token_is_noted_once_a_minute(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = store.new_study("guard", "Loans", guard_config(), actor="admin", open_now=True)
    token, clock = store.new_token(study, ["serve"]), [1000.0]

    def noted() -> str | None:
        store._do(sa.update(t.api_token).values(last_used_at=None))
        assert store.use_token(token) is not None
        return store.tokens(study)[0].last_used_at

    monkeypatch.setattr(links.time, "monotonic", lambda: clock[0])
    assert store.use_token("unknown") is None
    assert noted() is not None
    clock[0] += 59.0
    assert noted() is None
    clock[0] += 2.0
    assert noted() is not None


def test_a_guard_serves_with_a_token_whose_use_is_noted(
    web: Web, guarded: tuple[str, dict[str, str], Any]
) -> None:
    path, head, study = guarded
    assert web.client(headers=head).get(f"{path}/serve").status_code == 200
    web.store._do(sa.update(t.setting).values(key=t.setting.c.key))  # after what waited
    used = max(one.last_used_at or "" for one in web.store.tokens(study))
    assert used
    page = web.admin().get(f"/admin/studies/{study.public_id}").text
    assert re.search(
        rf'The last request with one came on <time[^>]*datetime="{re.escape(used)}"', page
    )
