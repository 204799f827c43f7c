"""A new campaign on one page: a table of items, who owns them, the labels, and what is promised."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from counterplay.errors import InvalidInputError
from counterplay.studio import reading
from counterplay.studio.errors import Refused
from counterplay.studio.web import pages
from counterplay.studio.web.admin import note
from counterplay.studio.web.house import house_of
from counterplay.studio.web.sessions import admin
from counterplay.studio.web.studies import read_upload

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()
COLUMNS = ("owner", "id", "text", "known_column")
_EMPTY = {"name": "", "owner": "", "classes": "", "id": "", "text": "", "known_column": "",
          "scope": "union", "max_error": "5", "confidence": "95", "asks": "", "consent": "",
          "names_open": ""}  # fmt: skip


async def show_form(request: Request) -> Response:
    """Show the empty form."""
    return await _form(request, dict(_EMPTY))


async def make(request: Request) -> Response:
    """Check everything and make the campaign as a draft; what is wrong stands beside its field."""
    who, house = await admin(request, "owner"), house_of(request)
    fields, content = await read_upload(request, "file")
    who.check(house, fields)
    given = {k: fields.get(k, "").strip()[:10_000] for k in _EMPTY}
    try:
        config = await reading.read(house.store, "campaign", given, content)
    except Refused as error:
        return await _form(request, given, wrong=str(error), field=error.field)
    except InvalidInputError as error:
        return await _form(request, given, wrong=str(error), field="file")
    name = given["name"] or "Campaign"
    study = await house.store.run(
        lambda: house.store.new_study("campaign", name, config, actor=who.name)
    )
    await note(request, who, "study created", study.public_id)
    return pages.go(request, f"/admin/studies/{study.public_id}")


def config_of(given: dict[str, str], content: bytes) -> dict[str, Any]:
    """Return the frozen configuration of what was entered."""
    from counterplay.studio.kinds.audit import checked_text
    from counterplay.studio.kinds.campaign_config import read_config
    from counterplay.tables import read_table

    if not content:
        raise Refused("Choose a file first.", "file")
    try:
        checked_text("items.csv", content, "table")
    except Refused as error:
        raise Refused(str(error), "file") from None
    classes = [c.strip() for c in given["classes"].split(",") if c.strip()]
    if len(set(classes)) < 2 or len(set(classes)) != len(classes):
        raise Refused("Name two or more different labels, with commas between.", "classes")
    shares = {k: _share(given[k], k) for k in ("max_error", "confidence")}
    if given["scope"] not in ("union", "party"):
        raise Refused("Choose one of the two.", "scope")
    with tempfile.TemporaryDirectory(prefix="counterplay-new-") as folder:
        Path(folder, "items.csv").write_bytes(content)
        columns = [str(c) for c in read_table(Path(folder, "items.csv")).frame.columns]
        for key in COLUMNS:
            if (given[key] or key == "owner") and given[key] not in columns:
                listed = ", ".join(columns[:12])
                raise Refused(f"There is no column {given[key][:40]!r}; there are {listed}.", key)
        raw = {"kind": "campaign", "table": "items.csv", "classes": classes, **shares,
               "scope": given["scope"], **{k: given[k] for k in COLUMNS if given[k]},
               "intro": given["asks"][:2_000], "consent": given["consent"],
               "names_open": given["names_open"] == "yes"}  # fmt: skip
        return read_config(raw, Path(folder))


def _share(text: str, field: str) -> float:
    try:
        percent = float(text.replace(",", "."))
    except ValueError:
        percent = -1.0
    if not 0.0 < percent < 100.0:
        raise Refused("This must be a number of per cent between 0 and 100.", field)
    return percent / 100.0


async def _form(
    request: Request,
    given: dict[str, str],
    *,
    wrong: str | None = None,
    field: str | None = None,
) -> Response:
    who, house = await admin(request, "owner"), house_of(request)
    return pages.page(
        request, "label_new.html", status=422 if wrong else 200, given=given, wrong=wrong,
        field=field, csrf=who.token(house),
    )  # fmt: skip


router.add_route("/admin/studies/new/campaign", show_form, methods=["GET"])
router.add_route("/admin/studies/new/campaign", make, methods=["POST"])
