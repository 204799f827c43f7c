"""Large tables are read by a process of their own, under a limit of memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from counterplay.errors import InvalidInputError
from counterplay.studio import reading
from counterplay.studio.web.new_campaign import _EMPTY
from counterplay.studio.web.wizard import config_of
from studio.studio_campaigns import CLASSES, HIDDEN, campaign_config, pool
from studio.web_house import catalogue

KNOWN = "item,label\nc1,benign\nc2,malignant\n"
NEW = "case,size,shape\nn1,0.5,1\nn2,0.25,2\n"

if TYPE_CHECKING:
    from pathlib import Path

    from studio.web_house import Web

GIVEN = {"benefits": ["comfort"], "costs": ["price"], "name": "Cars", "seed": 7}
MEMORY = 4 * 2**30


@pytest.mark.claim("28.15")
@pytest.mark.slow
def test_a_configuration_that_cannot_be_stored_stays_outside_the_server() -> None:
    lines = [f"item {i}," + f"{i / 3:.9f},{i / 7:.9f}" for i in range(190_000)]
    content = ("name,comfort,price\n" + "\n".join(lines)).encode()
    with pytest.raises(InvalidInputError, match="too large to be read here"):
        reading.read_apart("elicitation", GIVEN, content, MEMORY)


@pytest.mark.claim("28.15")
def test_another_process_reads_the_same_table() -> None:
    made = reading.read_apart("elicitation", GIVEN, catalogue(), MEMORY)
    assert made == config_of(GIVEN, catalogue())


@pytest.mark.claim("28.15")
def test_a_table_that_needs_more_memory_than_allowed_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="too large to be read here") as told:
        reading.read_apart("elicitation", GIVEN, catalogue(), 2**26)
    assert getattr(told.value, "field", None) == "file"


@pytest.mark.slow
def test_what_is_wrong_comes_back_with_its_field() -> None:
    given = {**_EMPTY, "owner": "nobody", "classes": ", ".join(CLASSES), "max_error": "5",
             "confidence": "95"}  # fmt: skip
    items = pool(80)[0].to_csv(index=False).encode()
    with pytest.raises(InvalidInputError, match="There is no column 'nobody'") as told:
        reading.read_apart("campaign", given, items, MEMORY, {})
    assert getattr(told.value, "field", None) == "owner"


@pytest.mark.claim("28.15")
def test_the_pages_hand_large_tables_on(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a large table is parsed in the server."""
    handed: list[tuple[str, int, int]] = []

    def apart(
        what: str,
        given: dict[str, Any],
        content: bytes,
        memory: int,
        beside: dict[str, bytes] | None,
    ) -> Any:
        handed.append((what, len(content), memory))
        return reading._make(what, given, content, beside)

    monkeypatch.setattr(reading, "SMALL", 100)
    monkeypatch.setattr(reading, "read_apart", apart)
    admin, path = web.admin(), "/admin/studies/new"

    def csrf(place: str) -> dict[str, str]:
        return {"csrf": dict(HIDDEN.findall(admin.get(place).text))["csrf"]}

    sent = admin.post(path, data=csrf(path), files={"file": ("t.csv", catalogue())})
    columns = {"direction-1": "benefit", "direction-2": "cost"}
    sent = admin.post(str(sent.url), data={**csrf(str(sent.url)), **columns})
    assert 'data-page="new-texts"' in sent.text
    items = pool(80)[0].to_csv(index=False)
    given = {"owner": "site", "id": "case", "classes": ", ".join(CLASSES), "max_error": "10",
             "confidence": "95", "scope": "union"}  # fmt: skip
    made = admin.post(f"{path}/campaign", data={**csrf(path), **given},
                      files={"file": ("i.csv", items)})  # fmt: skip
    assert made.status_code == 200
    memory, size = web.store.settings.job_memory, len(catalogue())
    assert handed == [("columns", size, memory), ("elicitation", size, memory),
                      ("campaign", len(items), memory)]  # fmt: skip


@pytest.mark.claim("28.15")
@pytest.mark.parametrize(
    ("what", "given", "content", "wanted"),
    [
        ("known", {"names": ["c0", "c1", "c2"], "classes": CLASSES}, KNOWN, [[1, 0], [2, 1]]),
        ("answers", {}, "question,label\nq1,benign\n", [["q1", "benign", None, None, "line 2"]]),
        ("items", {"columns": ["case", "shape"]}, NEW, [["n1", 1], ["n2", 2]]),
    ],
)
def test_another_process_reads_what_comes_to_a_campaign(
    what: str, given: dict[str, Any], content: str, wanted: Any
) -> None:
    assert reading.read_apart(what, given, content.encode(), MEMORY) == wanted


@pytest.mark.claim("28.15")
def test_large_files_for_a_running_campaign_are_read_apart_and_refused_beside_their_field(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server parses nothing of them, and what stops the other process stops nothing here."""
    config, _ = campaign_config(tmp_path, n=92)
    study = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    admin, home = web.admin(), f"/admin/studies/{study.public_id}"
    handed: list[str] = []
    plain = reading.read_apart

    def apart(
        what: str,
        given: dict[str, Any],
        content: bytes,
        memory: int,
        beside: dict[str, bytes] | None,
    ) -> Any:
        handed.append(what)
        return plain(what, given, content, 2**26 if b"hostile" in content else memory, beside)

    monkeypatch.setattr(reading, "SMALL", 20)
    monkeypatch.setattr(reading, "read_apart", apart)

    def send(place: str, text: str, **fields: str) -> tuple[int, str]:
        csrf = dict(HIDDEN.findall(admin.get(home).text))["csrf"]
        data = {"csrf": csrf, "key": f"upload-{len(handed):06}", **fields}
        sent = admin.post(f"{home}/{place}", data=data, files={"file": ("f.csv", text)})
        wrong = re.search(r'id="wrong" role="alert">([^<]*)<', sent.text)
        return sent.status_code, wrong[1] if wrong else ""

    hostile = "item,label\nhostile,benign\n"
    too_much = (422, "The table is too large to be read here: leave out columns or rows.")
    for place, fields in (("import", {"what": "known"}), ("import", {"what": "answers"}),
                          ("add", {"party": "clinic 1"})):  # fmt: skip
        assert send(place, hostile, **fields) == too_much
    assert send("import", KNOWN, what="known") == (200, "")
    assert send("add", NEW, party="clinic 1") == (200, "")
    status, told = send("import", "question,label\nnone,benign\n", what="answers")
    assert status == 422
    assert told.startswith("Nothing was imported. line 2: there is no question")
    assert handed == ["known", "answers", "items", "known", "items", "answers"]
    state = web.store.fold_now(study.public_id).state
    assert dict(state.known) == {1: 0, 2: 1}
    assert state.config["items"] == 94


def test_a_field_that_is_too_long_for_a_table_is_a_sentence(web: Web, tmp_path: Path) -> None:
    config, _ = campaign_config(tmp_path, n=92)
    study = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    admin, home = web.admin(), f"/admin/studies/{study.public_id}"
    given = {"csrf": dict(HIDDEN.findall(admin.get(home).text))["csrf"], "what": "known",
             "key": "k" * 12}  # fmt: skip
    long = f"item,label\n{'x' * 200_000},benign\n"
    sent = admin.post(f"{home}/import", data=given, files={"file": ("k.csv", long)})
    assert sent.status_code == 422
    wrong = re.search(r"id=\"wrong\" role=\"alert\">([^<]*)<", sent.text)
    assert wrong is not None
    assert wrong[1].startswith("The labels cannot be read: field larger than field limit")
