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
from counterplay.studio.web.studies import read_uploads

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()
COLUMNS = ("owner", "id", "text", "known_column", "image")
MOST_PICTURES = 2_000
_EMPTY = {"name": "", "owner": "", "classes": "", "id": "", "text": "", "known_column": "",
          "features": "", "image": "", "noise": "0", "first_to": "",
          "scope": "union", "max_error": "5", "confidence": "95", "asks": "", "consent": "",
          "names_open": ""}  # fmt: skip


async def show_form(request: Request) -> Response:
    """Show the empty form."""
    return await _form(request, dict(_EMPTY))


async def make(request: Request) -> Response:
    """Check everything and make the campaign as a draft; what is wrong stands beside its field."""
    who, house = await admin(request, "owner"), house_of(request)
    fields, files = await read_uploads(request, MOST_PICTURES + 1)
    who.check(house, fields)
    content = next((data for field, _, data in files if field == "file"), b"")
    pictures = {Path(name).name: data for field, name, data in files if field == "pictures"}
    given = {k: fields.get(k, "").strip()[:10_000] for k in _EMPTY}
    try:
        config = await reading.read(house.store, "campaign", given, content, pictures)
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


def config_of(given: dict[str, str], content: bytes, pictures: dict[str, bytes]) -> dict[str, Any]:
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
    people = _people(given)
    if given["scope"] not in ("union", "party"):
        raise Refused("Choose one of the two.", "scope")
    with tempfile.TemporaryDirectory(prefix="counterplay-new-") as folder:
        for name in filter(_may_be_written, pictures):
            Path(folder, name).write_bytes(pictures[name])
        Path(folder, "items.csv").write_bytes(content)
        columns = [str(c) for c in read_table(Path(folder, "items.csv")).frame.columns]
        for key in COLUMNS:
            if given[key] or key == "owner":
                _check_column(given[key], key, columns)
        features = [c.strip() for c in given["features"].split(",") if c.strip()]
        for name in features:
            _check_column(name, "features", columns)
        if given["image"] and not pictures:
            raise Refused("Choose a file first.", "pictures")
        raw = {"kind": "campaign", "table": "items.csv", "classes": classes, **shares, **people,
               **({"features": features} if features else {}),
               "scope": given["scope"], **{k: given[k] for k in COLUMNS if given[k]},
               "intro": given["asks"][:2_000], "consent": given["consent"],
               "names_open": given["names_open"] == "yes"}  # fmt: skip
        return read_config(raw, Path(folder))


def _may_be_written(name: str) -> bool:
    """Whether a name that a browser sent can be one of a file; its content is looked at later."""
    return name not in ("", ".", "..") and name.isprintable() and len(name.encode()) <= 200


def _check_column(name: str, field: str, columns: list[str]) -> None:
    if name not in columns:
        listed = ", ".join(columns[:12])
        raise Refused(f"There is no column {name[:40]!r}; there are {listed}.", field)


def _people(given: dict[str, str]) -> dict[str, Any]:
    """How often people are wrong, and how many must agree on a check."""
    told: dict[str, Any] = {}
    if given["noise"].strip("0.,"):
        told["noise"] = _share(given["noise"], "noise", 50)
    if count := given["first_to"]:
        if not (count.isascii() and count.isdigit() and 1 <= int(count[:9]) <= 20):
            raise Refused("A whole number from 1 to 20 is needed.", "first_to")
        told["first_to"] = int(count)
    return told


def _share(text: str, field: str, high: int = 100) -> float:
    try:
        percent = float(text.replace(",", "."))
    except ValueError:
        percent = -1.0
    if not 0.0 < percent < high:
        raise Refused(f"This must be a number of per cent between 0 and {high}.", field)
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
