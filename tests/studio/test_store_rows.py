"""Links, sessions, admins, versions and withdrawal; what is a secret is nowhere in the files."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tally_kind import added

from counterplay.core.exports import read_export
from counterplay.studio import errors
from counterplay.studio.backup import back_up
from counterplay.studio.exports import export_lines
from counterplay.studio.passwords import check_password, hash_password
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store
from counterplay.studio.store.base import SessionRow, StudyRow
from counterplay.studio.store.database import later
from counterplay.verify import broken_at


def study_with_party(store: Store):  # type: ignore[no-untyped-def]
    study = store.new_study("elicitation", "Numbers", {}, actor="test", open_now=True)
    return study, store.new_party(study, role="participant", label="Anna Example")


def files_of(settings: Settings) -> bytes:
    """Everything that lies in the data folder."""
    return b"".join(p.read_bytes() for p in settings.data.rglob("*") if p.is_file())


def test_a_link_opens_its_party_until_it_is_revoked(store: Store) -> None:
    _, party = study_with_party(store)
    token = store.new_link(party)
    found = store.find_link(token)
    assert found is not None
    assert store.use_link(found).public_id == party.public_id
    assert store.use_link(found).public_id == party.public_id  # on another device, too
    fresh = store.reissue(party)
    assert store.find_link(token) is None
    assert store.find_link(fresh) is not None
    old = store.new_link(party, expires=later(-1))
    assert store.find_link(old) is None
    assert store.find_link("no such token") is None
    assert store.find_link("\x00\ud800") is None


def test_an_open_link_has_a_cap(store: Store) -> None:
    study, _ = study_with_party(store)
    link = store.find_link(store.new_open_link(study, 2))
    assert link is not None
    first, second = store.use_link(link), store.use_link(link)
    assert first.public_id != second.public_id
    with pytest.raises(errors.Refused, match="as many people"):
        store.use_link(link)


def test_joining_is_written_once(store: Store) -> None:
    _, party = study_with_party(store)
    assert not store.join(party).repeated
    assert store.join(party).repeated
    assert [e.kind for e in store.events(party.public_id)] == ["party.joined"]


def test_an_edit_makes_a_version_and_answers_keep_theirs(store: Store) -> None:
    study, party = study_with_party(store)
    later_party = store.new_party(study, role="participant", label="later")
    store.append_now(party.public_id, added(1, "a"), expected=0)
    edited = store.edit_study(study.public_id, {"most": 9}, actor="test", name="New name")
    assert (edited.version, edited.name) == (2, "New name")
    store.append_now(later_party.public_id, added(2, "a"), expected=0)
    assert store.fold_now(party.public_id).version == 1
    assert store.fold_now(later_party.public_id).version == 2
    exported = ["".join(export_lines(store, edited, version)) for version in (1, 2)]
    assert party.public_id in exported[0]
    assert party.public_id not in exported[1]
    assert later_party.public_id in exported[1]


def test_an_edit_reaches_streams_that_are_in_memory(store: Store, settings: Settings) -> None:
    study, early = study_with_party(store)
    late = store.new_party(study, role="participant", label="late")
    store.append_now(early.public_id, added(1, "a"), expected=0)
    assert store.fold_now(late.public_id).version == 1  # somebody looked at the list of people
    store.edit_study(study.public_id, {"most": 9}, actor="test")
    assert store.fold_now(early.public_id).version == 1
    assert store.fold_now(late.public_id).version == 2
    store.append_now(late.public_id, added(2, "b"), expected=0)
    with Store.open(settings) as fresh:
        assert fresh.fold_now(late.public_id) == store.fold_now(late.public_id)
        assert fresh.fold_now(study.public_id) == store.fold_now(study.public_id)


def test_an_answer_under_an_old_version_is_looked_at_again(
    store: Store, settings: Settings
) -> None:
    """Another process edits the study between the look at the stream and the write."""
    study, _ = study_with_party(store)
    party = store.new_party(study, role="participant", label="late")
    begin, edits = store._begin, []

    def late(*given: Any) -> Any:
        if not edits:
            store.fold_now(party.public_id)
            with Store.open(settings) as other:
                edits.append(other.edit_study(study.public_id, {"most": 9}, actor="test"))
            store._current = lambda stream, **_: stale  # type: ignore[assignment,method-assign]
            stale = store._folds.get(party.public_id)
            try:
                return begin(*given)
            finally:
                del store._current
        return begin(*given)

    store._begin = late  # type: ignore[method-assign]
    store.append_now(party.public_id, added(2, "b"), expected=0)
    assert store.fold_now(party.public_id).version == 2


def test_a_look_up_that_races_with_a_change_is_not_kept(
    settings: Settings, tally: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(settings, server=True) as store:
        study, party = study_with_party(store)
        link = store.find_link(store.new_link(party))
        assert link is not None
        secret = store.new_session(party=party, link=link.id)
        plain_first: Any = store._first
        waiting: dict[type, Any] = {
            StudyRow: lambda: store.set_state(study.public_id, "paused", actor="test"),
            SessionRow: lambda: store.revoke_links(party),
        }

        def first(query: Any, kind: type) -> Any:
            found = plain_first(query, kind)
            if change := waiting.pop(kind, None):
                change()
            return found

        store._forget_studies()
        monkeypatch.setattr(store, "_first", first)
        assert store.study(study.public_id).state == "open"  # what it was when it was read
        assert store.study(study.public_id).state == "paused"
        assert store.find_session(secret) is not None
        assert store.find_session(secret) is None
        assert not waiting
        with pytest.raises(errors.Missing, match="does not open anything"):
            store.new_session(party=party, link=link.id)


def test_sessions_and_logins(store: Store) -> None:
    _, party = study_with_party(store)
    secret = store.new_session(party=party)
    found = store.find_session(secret)
    assert found is not None
    assert (found.role, found.party) == ("participant", party.id)
    store.revoke_links(party)
    assert store.find_session(secret) is None
    owner = store.new_admin("anna", password=None, role="owner")
    with pytest.raises(errors.Refused, match="already"):
        store.new_admin("anna", password=None, role="owner")
    with pytest.raises(errors.Refused, match="one study"):
        store.new_admin("carl", password=None, role="coordinator")
    login = store.new_login(owner)
    assert store.find_session(login) is None
    assert store.login_exists(login)
    used = store.use_login(login)
    assert used is not None
    assert used.name == "anna"
    assert store.use_login(login) is None
    session = store.new_session(admin=owner)
    store.change_admin(owner, password="$argon2id$new")
    assert store.find_session(session) is None


def test_passwords() -> None:
    stored = hash_password("correct horse battery")
    assert stored.startswith("$argon2id$")
    assert check_password(stored, "correct horse battery")
    assert not check_password(stored, "correct horse batterz")
    assert not check_password(None, "correct horse battery")
    with pytest.raises(errors.Refused, match="10 to 200"):
        hash_password("short")


@pytest.mark.claim("28.16")
def test_only_digests_of_tokens_are_stored(settings: Settings, tally: None) -> None:
    from counterplay.studio.store.links import new_secret

    many = {new_secret() for _ in range(10_000)}
    assert len(many) == 10_000
    assert {len(token) for token in many} == {43}
    with Store.open(settings) as store:
        study, party = study_with_party(store)
        owner = store.new_admin("anna", password=None, role="owner")
        tokens = [store.new_link(party) for _ in range(20)]
        tokens += [store.new_open_link(study, 5), store.new_token(study, ["serve"])]
        tokens += [store.new_session(party=party), store.new_login(owner)]
        assert store.find_token(tokens[21]) is not None
        archive = settings.data.parent / "backup.tar"
        back_up(settings, archive)
        kept = files_of(settings) + archive.read_bytes()
        if settings.sqlite_file is None:
            kept += dumped(settings)
        assert party.public_id.encode() in kept  # we look in the right place
        assert not [token for token in tokens if token.encode() in kept]


def dumped(settings: Settings) -> bytes:
    """All of a PostgreSQL database as plain text."""
    from counterplay.studio.backup import _pg

    file = settings.data / "plain.sql"
    _pg("pg_dump", settings, ["--format=plain", f"--file={file}"])
    return file.read_bytes()


@pytest.mark.claim("28.21")
def test_withdrawal_erases_what_was_said(settings: Settings, tally: None) -> None:
    marker = 7_313_371_337
    with Store.open(settings) as store:
        study, party = study_with_party(store)
        other = store.new_party(study, role="participant", label="other")
        for stream in (party.public_id, other.public_id):
            store.append_now(stream, added(1, "a", stream), expected=0)
        store.join(party)
        token = store.new_link(party)
        store.append_now(party.public_id, added(marker, "b", party.public_id), expected=None)
        head = store.events(party.public_id)[-1]
        store.withdraw_party(party)
        assert store.party(party.public_id).label == "withdrawn"
        assert store.find_link(token) is None
        events = store.events(party.public_id)
        assert [e.body is None for e in events] == [True] * 5 + [False]
        assert (events[-2].hash, events[-1].kind) == (head.hash, "party.withdrawn")
        assert store.fold_now(party.public_id).state["erased"] == 5
        export = "".join(export_lines(store, study)).encode()
        kept_events = [e for e in read_export(export).events if e.stream == party.public_id]
        assert broken_at(kept_events) is None
        assert [e.body is None for e in kept_events] == [True] * 5 + [False]
        archive = settings.data.parent / "backup.tar"
        back_up(settings, archive)
        kept = export + files_of(settings) + archive.read_bytes()
        if settings.sqlite_file is None:
            kept += dumped(settings)
        assert str(marker).encode() not in kept
        assert b"Anna Example" not in kept
        assert store.fold_now(other.public_id).state["numbers"] == [(1, 1)]


def test_withdrawal_is_seen_by_a_server(settings: Settings, tally: None) -> None:
    with Store.open(settings, server=True) as server, Store.open(settings) as command:
        _, party = study_with_party(server)
        server.append_now(party.public_id, added(1, "a"), expected=0)
        command.withdraw_party(party)
        end = time.monotonic() + 10
        while not server.fold_now(party.public_id).state["erased"] and time.monotonic() < end:
            time.sleep(0.05)
        assert server.fold_now(party.public_id).state["numbers"] == []


def test_artifacts_are_named_by_their_content(store: Store, tmp_path: Path) -> None:
    kept = store.add_artifact("page.html", "text/html", b"<p>x</p>")
    assert store.read_artifact(kept) == b"<p>x</p>"
    for name in ("../x", "a/b", "a\\b", "", "x" * 300, "a\x00"):
        with pytest.raises(errors.Refused):
            store.add_artifact(name, "text/plain", b"")
    (tmp_path / "secret").write_text("secret")
    for path in ("../../secret", "/etc/passwd", "artifacts/../studio.lock"):
        with pytest.raises(errors.Missing):
            store.read_artifact(replace(kept, path=path))
    (store.settings.data / kept.path).write_bytes(b"other")
    with pytest.raises(errors.Missing, match="damaged"):
        store.read_artifact(kept)


def test_the_folder_is_the_operators_alone(store: Store) -> None:
    assert os.stat(store.settings.data).st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["a\x00b", "no such study", "\ud800"])
def test_unknown_names_are_missing(store: Store, name: str) -> None:
    for look in (store.study, store.party, store.fold_now):
        with pytest.raises(errors.Missing):
            look(name)
