"""Large tables are read by a process of their own, under a limit of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from counterplay.errors import InvalidInputError
from counterplay.studio import reading
from counterplay.studio.web.new_campaign import _EMPTY
from counterplay.studio.web.wizard import config_of
from studio.studio_campaigns import CLASSES, HIDDEN, pool
from studio.web_house import catalogue

if TYPE_CHECKING:
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
