"""The commands of an operator leave lines in a log that can be read; admins can be disabled."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from counterplay import cli
from counterplay.studio import app, errors
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store

if TYPE_CHECKING:
    from studio.web_house import Web


class Operator:
    """Somebody at the command line of one studio."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.data, self.capsys = ["--data", str(folder)], capsys

    def say(self, *words: str, code: int = 0) -> str:
        assert cli.run(["studio", *words, *self.data]) == code, words
        told = self.capsys.readouterr()
        return told.err if code else told.out

    def read(self, *words: str) -> Any:
        return json.loads(self.say(*words, "--json"))


@pytest.fixture
def operator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Operator:
    monkeypatch.setenv("COUNTERPLAY_PASSWORD", "a long password")
    Store.open(Settings(data=tmp_path / "d")).close()
    return Operator(tmp_path / "d", capsys)


def test_what_operators_do_is_in_the_log(operator: Operator, tmp_path: Path) -> None:
    file = str(tmp_path / "b.tar")
    operator.say("admin", "create", "anna")
    operator.say("backup", file)
    operator.say("migrate")
    operator.say("scrub")
    lines = operator.read("admin", "log")
    assert [line["action"] for line in lines] == ["scrub", "migrate", "backup", "admin.create"]
    assert {line["actor"] for line in lines} == {"operator"}
    assert lines[2]["object"] == "b.tar"
    operator.say("restore", file)  # the log is now that of the backup, and what put it back
    actions = [line["action"] for line in operator.read("admin", "log")]
    assert actions == ["restore", "admin.create"]
    assert operator.say("admin", "log", "--n", "1").count("\n") == 1


def test_a_log_of_hostile_names_is_shown_as_text(operator: Operator, tmp_path: Path) -> None:
    with Store.open(Settings(data=tmp_path / "d")) as store:
        store.audit("\x1b[2Jeve\n", "login failed", "admin", {"long": "x" * 20_000})
    shown = operator.say("admin", "log")
    assert shown.count("\n") == 1
    assert "\x1b" not in shown
    assert operator.read("admin", "log")[0]["detail"].startswith('{"long":"xxx')


def test_a_disabled_admin_is_out_and_the_last_owner_stays(
    operator: Operator, tmp_path: Path
) -> None:
    with Store.open(Settings(data=tmp_path / "d")) as store:
        anna = store.new_admin("anna", password=None, role="owner")
        assert "last owner" in operator.say("admin", "disable", "anna", code=2)
        store.new_admin("bert", password=None, role="owner")
        store.new_admin("carl", password=None, role="viewer")
        assert "anna" in operator.say("admin", "disable", "ann", code=2)  # a suggestion
        session, login = store.new_session(admin=anna), store.new_login(anna)
        operator.say("admin", "disable", "anna")
        assert store.find_session(session) is None
        assert store.use_login(login) is None
    assert "last owner" in operator.say("admin", "disable", "bert", code=2)
    operator.say("admin", "disable", "carl")  # others may go
    ended = {row["name"]: row["disabled_at"] is not None for row in operator.read("admin", "list")}
    assert ended == {"anna": True, "bert": False, "carl": True}
    assert "is disabled" in operator.say("admin", "link", "anna", code=2)
    operator.say("admin", "reset", "anna")
    assert operator.say("admin", "link", "anna").startswith("http://127.0.0.1:8700/admin/link/")


def test_two_owners_cannot_disable_each_other(settings: Settings) -> None:
    with Store.open(settings) as store:
        owners = [store.new_admin(name, password=None, role="owner") for name in ("a", "b")]
        said: list[str] = []
        begin = threading.Barrier(2)

        def end(number: int) -> None:
            begin.wait()
            try:
                store.disable_admin(owners[number])
            except errors.Refused as error:
                said.append(str(error))

        threads = [threading.Thread(target=end, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(row.disabled_at is None for row in store.admins()) == 1
        assert len(said) == 1


def test_a_browser_of_a_disabled_admin_is_logged_out(web: Web) -> None:
    client, row = web.admin(), web.store.admins()[-1]
    web.admin()  # another owner, who stays
    assert 'data-page="login"' not in client.get("/admin").text
    web.store.disable_admin(row)
    assert 'data-page="login"' in client.get("/admin").text


def test_downloads_of_audit_files_are_in_the_log(web: Web) -> None:
    study = web.store.new_study("audit", "Loans", {"inputs": {}}, actor="admin")
    web.store.add_artifact("audit.json", "application/json", b"{}", study=study)
    assert web.admin().get(f"/admin/audits/{study.public_id}/files/audit.json").content == b"{}"
    line = web.store.audit_log()[0]
    assert (line["action"], line["object"]) == ("audit file", study.public_id)
    assert json.loads(line["detail"]) == {"name": "audit.json"}


def served(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """The secret of the login link with which a server would start."""
    found: list[str | None] = []

    async def run(*words: Any) -> None:
        found.append(words[-1])

    monkeypatch.setattr(app, "_run", run)
    app.serve(settings)
    return found[0]


def test_only_a_server_for_this_machine_makes_a_login_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal of a server behind a proxy is read by more than its owner."""
    local = Settings(data=tmp_path / "d", port=0)
    secret = served(local, monkeypatch)
    assert secret is not None
    public = Settings(data=tmp_path / "e", port=0, base_url="https://studio.example.org")
    assert served(public, monkeypatch) is None
    with Store.open(public) as store:
        assert store.admins() == []


def test_a_server_without_a_link_says_how_to_get_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def serve(settings: Settings, _: Any, announce: Any) -> None:
        announce({"url": settings.base_url, "pid": 1, "admin_link": None})

    monkeypatch.setattr(app, "serve", serve)
    words = ["--data", str(tmp_path), "--workers", "0", "--base-url", "https://studio.example.org"]
    assert cli.run(["studio", *words]) == 0
    said = capsys.readouterr().err
    assert "counterplay studio admin create NAME" in said
    assert "counterplay studio admin link NAME" in said


def test_links_of_the_command_line_have_the_address_of_the_server(
    operator: Operator, tmp_path: Path, tally: None
) -> None:
    settings = Settings(data=tmp_path / "d", base_url="https://studio.example.org/")
    with Store.open(settings) as store:
        study = store.new_study("elicitation", "Numbers", {}, actor="a", open_now=True).public_id
        assert operator.read("links", study)[0]["url"].startswith("http://127.0.0.1:8700/j/")
        app.create_app(settings, store=store).state.open_house()
        assert operator.read("links", study)[0]["url"].startswith("https://studio.example.org/j/")
        given = operator.read("links", study, "--base-url", "https://b.example.org/")
        assert given[0]["url"].startswith("https://b.example.org/j/")


def test_the_limit_of_requests_can_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[float] = []
    monkeypatch.setattr(app, "serve", lambda s, *_, **__: chosen.append(s.requests_per_minute))
    words = ["studio", "--data", str(tmp_path), "--workers", "0"]
    assert cli.run([*words, "--requests-per-minute", "1200"]) == 0
    assert cli.run(words) == 0
    assert chosen == [1200.0, 300.0]
    assert cli.run([*words, "--requests-per-minute", "0"]) == 2
    assert cli.run([*words, "--requests-per-minute", "nan"]) == 2
