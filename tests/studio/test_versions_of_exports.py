"""A study that was edited while it was open: one export per version, and none hides another."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from counterplay import cli
from counterplay.core.exports import Event, EventChain, read_export, receipt, write_export
from counterplay.core.records import write_record
from counterplay.errors import InvalidStateError
from counterplay.studio import Studio, errors
from counterplay.studio.exports import export_lines
from counterplay.verify import verify

if TYPE_CHECKING:
    from counterplay.studio.store.base import StudyRow
    from studio.web_house import Web


@pytest.fixture(scope="module")
def edited(web: Web) -> tuple[StudyRow, list[str], list[bytes]]:
    """A study with a person under each of its two versions: receipts and exports."""
    study, people = web.study(name="Before"), []
    people.append(web.person(study, "early"))
    people[0].answer()
    web.store.edit_study(study.public_id, {**web.config, "target": 0.1}, actor="admin", name="Now")
    web.store.edit_study(study.public_id, {**web.config, "target": 0.2}, actor="admin")
    people.append(web.person(web.store.study(study.public_id), "late"))
    people[1].answer()
    web.store.set_state(study.public_id, "closed", actor="admin")
    last = [web.store.events(one.party.public_id)[-1] for one in people]
    admin, home = web.admin(), f"/admin/studies/{study.public_id}"
    page = admin.get(home).text
    links = re.findall(rf'href="({home}/export[^"]*)"', page)
    assert links == [f"{home}/export?version=1", f"{home}/export?version=3"]  # nobody had 2
    assert "Export with proof, version 1" in page
    files = [admin.get(link).content for link in links]
    assert admin.get(f"{home}/export").content == files[1]
    assert admin.get(f"{home}/export?version=4").status_code == 404
    assert admin.get(f"{home}/export?version=x").status_code == 422
    return study, [receipt(event.hash) for event in last], files


def test_each_version_has_a_file_that_holds_and_names_the_others(
    edited: tuple[StudyRow, list[str], list[bytes]],
) -> None:
    _, codes, files = edited
    for number, (code, file) in enumerate(zip(codes, files)):
        line = read_export(file).study
        assert (line.study_version, line.other_versions) == [(1, (3,)), (3, (1,))][number]
        assert verify(file, receipts=[code]).holds
        found = verify(file, receipts=[codes[1 - number]])
        assert not found.holds
        other = line.other_versions[0]
        told = f"answers under another version (here: {other}) are in another file"
        assert told in found.summary()


def test_a_study_of_one_version_has_the_export_it_had(web: Web) -> None:
    study = web.study()
    page = web.admin().get(f"/admin/studies/{study.public_id}").text
    assert f'/admin/studies/{study.public_id}/export" download>Export with proof</a>' in page
    text = "".join(export_lines(web.store, study))
    assert "study_version" not in text.partition("\n")[0]
    assert "other_versions" not in text.partition("\n")[0]
    assert "another version" not in verify(text.encode(), receipts=["0000"]).summary()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_versions_are_imported_beside_each_other(
    edited: tuple[StudyRow, list[str], list[bytes]], order: tuple[int, int], tmp_path: Path
) -> None:
    study, codes, files = edited
    with Studio(tmp_path / "d") as studio:
        for number in order:
            studio.load(files[number])
        row = studio.store.study(study.public_id)
        assert (row.version, row.config_hash) == (3, read_export(files[1]).study.config_hash)
        assert (len(studio.store.parties(row)), len(studio.studies())) == (2, 1)
        for number, version in enumerate((1, 3)):
            again = studio.export(study.public_id, version).encode()
            assert again == files[number]
            assert verify(again, receipts=[codes[number]]).holds
            with pytest.raises(errors.Refused, match="here already"):
                studio.load(files[number])


def test_a_version_that_the_log_does_not_name_is_not_added(
    edited: tuple[StudyRow, list[str], list[bytes]], tmp_path: Path
) -> None:
    study, _, files = edited
    read = read_export(files[0])
    own = [event for event in read.events if event.stream == study.public_id]
    forged = chain_of(study.public_id, own)
    config = {**read.study.config, "target": 0.3}
    digest = write_export("x", "elicitation", config, []).partition('config_hash":"')[2][:64]
    body = {"version": 4, "config_hash": digest, "name": "Forged"}
    forged.add("study.edited", body, actor="somebody", key="edited:4")
    line = read_export(write_export(study.public_id, "elicitation", config, [forged]).encode())
    first = replace(line.study, study_version=4)
    text = "".join(f"{write_record(record)}\n" for record in (first, *forged.events)).encode()
    assert verify(text).holds  # hashes alone prove no more
    with Studio(tmp_path / "d") as studio:
        studio.load(files[1])
        with pytest.raises(errors.Refused, match="with an older log"):
            studio.load(text)
        assert studio.store.versions(studio.store.study(study.public_id)) == [3]


def with_line_1(file: bytes, **change: Any) -> bytes:
    """The export with another first line."""
    changed = replace(read_export(file).study, **change)
    return write_record(changed).encode() + b"\n" + file.partition(b"\n")[2]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"study_version": 3}, "it is not version 3 of the log"),
        ({"other_versions": (3, 7)}, "line 1 names a version that is not in the log"),
    ],
)
def test_line_1_must_agree_with_the_log(
    edited: tuple[StudyRow, list[str], list[bytes]], change: dict[str, Any], told: str
) -> None:
    found = verify(with_line_1(edited[2][0], **change))
    assert told in found.summary()
    assert not found.holds


def test_a_version_that_no_database_can_hold_is_refused(
    edited: tuple[StudyRow, list[str], list[bytes]],
) -> None:
    with pytest.raises(InvalidStateError, match="<= 1000000"):
        verify(with_line_1(edited[2][0], study_version=2**53))


def chain_of(stream: str, events: list[Event]) -> EventChain:
    """A chain that goes on from events."""
    chain = EventChain(stream)
    chain.events = list(events)
    return chain


def test_the_command_line_names_the_other_versions(
    edited: tuple[StudyRow, list[str], list[bytes]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study, _, files = edited
    with Studio(tmp_path / "d") as studio:
        studio.load(files[1])
        studio.load(files[0])
    out = tmp_path / "x.jsonl"
    words = ["study", "export", study.public_id, "-o", str(out), "--data", str(tmp_path / "d")]
    assert cli.run(["studio", *words]) == 0
    assert "answers under version 1 are in a file of their own: --version 1" in (
        capsys.readouterr().out
    )
    assert cli.run(["studio", *words, "--version", "1"]) == 0
    assert out.read_bytes() == files[0]


def test_a_study_of_which_an_older_version_was_imported_can_be_edited(
    web: Web, tmp_path: Path
) -> None:
    study = web.study(name="Before")
    web.person(study, "early").answer()
    web.store.edit_study(study.public_id, {**web.config, "target": 0.1}, actor="admin")
    web.person(web.store.study(study.public_id), "late").answer()
    now = web.store.study(study.public_id)
    files = ["".join(export_lines(web.store, now, number)).encode() for number in (1, 2)]
    with Studio(tmp_path / "d") as studio:
        store, row = studio.store, studio.load(files[0])
        assert (row.version, row.state) == (1, "open")
        row = store.edit_study(row.public_id, {**web.config, "target": 0.2}, actor="eve", name="C")
        assert (row.version, row.name) == (3, "C")  # the log names 2, which is not here
        assert store.versions(row) == [1, 3]
        party = store.new_party(row, role="participant", label="new")
        store.join(party)
        assert verify("".join(export_lines(store, row)).encode()).holds
        assert studio.load(files[1]).version == 3  # it can still come
        assert store.versions(store.study(row.public_id)) == [1, 2, 3]
        assert store.edit_study(row.public_id, web.config, actor="eve").version == 4
