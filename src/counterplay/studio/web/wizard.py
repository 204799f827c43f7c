"""New elicitation in four steps: file, columns, texts, preview.

What was entered so far is kept in memory with the admin's session, for an hour; nothing is in the
database before the last button.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import APIRouter

from counterplay.errors import InvalidInputError
from counterplay.studio import reading
from counterplay.studio.errors import Refused
from counterplay.studio.web import pages, security, sessions
from counterplay.studio.web.admin import note
from counterplay.studio.web.house import house_of
from counterplay.studio.web.studies import read_upload, sample_question, study_page
from counterplay.studio.web.texts import recognised

if TYPE_CHECKING:
    import pandas as pd
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()
DIRECTIONS = ("ignore", "benefit", "cost", "either", "name_of")
_LARGEST = 1e100  # beyond it a column is shown as words, like one with infinite numbers
_BARS = 14
_MOST_DRAFTS, _SECONDS = 20, 3_600.0
_SHOWN_COLUMNS = 60


@dataclass
class Draft:
    """What was entered so far."""

    admin: int
    content: bytes
    rows: list[dict[str, Any]]
    """Its first columns, see :func:`describe`."""
    columns: int
    """How many it has."""
    until: float
    fields: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] | None = None


_drafts: OrderedDict[str, Draft] = OrderedDict()


async def file_page(request: Request) -> Response:
    """Ask for the table."""
    who = await sessions.admin(request, "owner")
    token = who.token(house_of(request))
    return pages.page(request, "new_file.html", csrf=token, wrong=None)


async def take_file(request: Request) -> Response:
    """Check the table; an error stands beside the field."""
    who, house = await sessions.admin(request, "owner"), house_of(request)
    fields, content = await read_upload(request, "file")
    who.check(house, fields)
    try:
        if not content:
            raise Refused("Choose a file first." if content is None else "The file is empty.")
        found = await reading.read(house.store, "columns", {}, content)
    except InvalidInputError as error:
        token = who.token(house)
        return pages.page(request, "new_file.html", status=422, csrf=token, wrong=str(error))
    key = secrets.token_urlsafe(16)
    until = time.monotonic() + _SECONDS
    _drafts[key] = Draft(who.row.id, content, found["rows"], found["columns"], until)
    while len(_drafts) > _MOST_DRAFTS:
        _drafts.popitem(last=False)
    return pages.go(request, f"/admin/studies/new/{key}/columns")


async def columns_page(request: Request) -> Response:
    """Ask what each column means."""
    _, draft = await _draft(request)
    return await _columns(request, draft, None)


async def take_columns(request: Request) -> Response:
    """Check the columns by making the catalogue."""
    who, draft = await _draft(request)
    fields = await security.read_form(request)
    who.check(house_of(request), fields)
    chosen: dict[str, list[str]] = {name: [] for name in DIRECTIONS}
    units = {}
    for j, column in enumerate(row["name"] for row in draft.rows):
        direction = fields.get(f"direction-{j}", "ignore")
        chosen[direction if direction in DIRECTIONS else "ignore"].append(column)
        if unit := fields.get(f"unit-{j}", "").strip()[:20]:
            units[column] = unit
    draft.fields |= {
        "benefits": chosen["benefit"], "costs": chosen["cost"], "either": chosen["either"],
        "name_column": chosen["name_of"][0] if chosen["name_of"] else None, "units": units,
    }  # fmt: skip
    wrong = await _try(request, draft)
    if wrong is not None:
        return await _columns(request, draft, wrong)
    return pages.go(request, f"/admin/studies/new/{request.path_params['key']}/texts")


async def texts_page(request: Request) -> Response:
    """Ask what participants read."""
    who, draft = await _draft(request)
    return _texts(request, who, draft, None)


async def take_texts(request: Request) -> Response:
    """Keep the texts."""
    who, draft = await _draft(request)
    fields = await security.read_form(request)
    who.check(house_of(request), fields)
    target = fields.get("target", "5")
    draft.fields |= {
        "name": " ".join(fields.get("name", "").split())[:200],
        "asks": fields.get("asks", "").strip()[:2_000],
        "consent": fields.get("consent", "").strip()[:10_000],
        "locale": "de" if fields.get("locale") == "de" else "en",
        "target_regret": int(target) / 100 if target in ("1", "2", "5", "10") else 0.05,
    }
    wrong = await _try(request, draft)
    if wrong is not None:
        return _texts(request, who, draft, wrong)
    return pages.go(request, f"/admin/studies/new/{request.path_params['key']}/preview")


async def preview_page(request: Request) -> Response:
    """Show a question as participants will see it, and the last button."""
    who, draft = await _draft(request)
    house = house_of(request)
    if draft.config is None and await _try(request, draft) is not None:
        return pages.go(request, f"/admin/studies/new/{request.path_params['key']}/columns")
    from counterplay.studio.kinds.elicitation_pages import announced

    config = draft.config or {}
    model = await house.store.run(sample_question, config, pages.reader(request))
    return pages.page(
        request, "new_preview.html", csrf=who.token(house), fields=draft.fields,
        about=announced(config)[0], items=len(config["items"]),
        key=request.path_params["key"], **model,
    )  # fmt: skip


async def create(request: Request) -> Response:
    """Make the study."""
    who, draft = await _draft(request)
    house = house_of(request)
    fields = await security.read_form(request)
    who.check(house, fields)
    if draft.config is None:
        raise Refused(pages.reader(request)("new.gone"))
    config, name, now = draft.config, draft.fields["name"], fields.get("open") == "yes"
    study = await house.store.run(
        lambda: house.store.new_study("elicitation", name, config, actor=who.name, open_now=now)
    )
    _drafts.pop(request.path_params["key"], None)
    await note(request, who, "study created", study.public_id, open=now)
    return pages.go(request, f"/admin/studies/{study.public_id}")


async def _draft(request: Request) -> tuple[sessions.Admin, Draft]:
    who = await sessions.admin(request, "owner")
    draft = _drafts.get(request.path_params["key"])
    if draft is None or draft.admin != who.row.id or draft.until < time.monotonic():
        raise Refused(pages.reader(request)("new.gone"), "file")
    return who, draft


async def _try(request: Request, draft: Draft) -> str | None:
    """Make the configuration; return what is wrong with what was entered."""
    if "name" in draft.fields and not draft.fields["name"]:
        return "Give the study a name."
    store = house_of(request).store
    try:
        draft.config = await reading.read(store, "elicitation", draft.fields, draft.content)
    except InvalidInputError as error:
        draft.config = None
        return str(error)
    return None


async def _columns(request: Request, draft: Draft, wrong: str | None) -> Response:
    house, words = house_of(request), pages.reader(request)
    who = await sessions.admin(request, "owner")
    rows = [_worded(row, words) for row in draft.rows]
    return pages.page(
        request, "new_columns.html", status=200 if wrong is None else 422, rows=rows,
        chosen=_chosen(draft, rows), units=draft.fields.get("units", {}), wrong=wrong,
        csrf=who.token(house), at=_column_of(wrong, rows), columns=draft.columns,
        key=request.path_params["key"], directions=DIRECTIONS,
    )  # fmt: skip


def _column_of(wrong: str | None, rows: list[dict[str, Any]]) -> str | None:
    """The column that a sentence is about: the error stands beside it."""
    found = None if wrong is None else recognised(wrong)
    named = "" if found is None else found.values.get("column", "")
    return next((row["name"] for row in rows if repr(row["name"]) == named), None)


def _chosen(draft: Draft, rows: list[dict[str, Any]]) -> dict[str, str]:
    """The meaning of every column: as entered before, or a modest guess."""
    given: dict[str, str] = {}
    for word, key in (("benefit", "benefits"), ("cost", "costs"), ("either", "either")):
        given |= dict.fromkeys(draft.fields.get(key, ()), word)
    if named := draft.fields.get("name_column"):
        given[named] = "name_of"
    if "benefits" in draft.fields:
        return given
    texts = [row for row in rows if not row["numeric"]]
    return {max(texts, key=lambda row: row["different"])["name"]: "name_of"} if texts else {}


def _texts(request: Request, who: sessions.Admin, draft: Draft, wrong: str | None) -> Response:
    return pages.page(
        request, "new_texts.html", status=200 if wrong is None else 422, fields=draft.fields,
        wrong=wrong, field="name" if wrong and not draft.fields.get("name") else None,
        csrf=who.token(house_of(request)), key=request.path_params["key"],
    )  # fmt: skip


def columns_of(given: dict[str, Any], content: bytes) -> dict[str, Any]:
    """Return the first columns of an uploaded table, and how many it has."""
    from counterplay.studio.kinds.elicitation_config import read_catalogue

    frame = read_catalogue(content)
    return {"rows": describe(frame), "columns": frame.shape[1]}


def config_of(given: dict[str, Any], content: bytes) -> dict[str, Any]:
    """Return the frozen configuration of what was entered so far."""
    from counterplay.studio.kinds import kind_of

    raw = {"kind": "elicitation", "table": "table.csv", "name": "draft", **given,
           "table_bytes": content}  # fmt: skip
    config: dict[str, Any] = kind_of("elicitation").read_config(raw, Path())
    return config


def _worded(row: dict[str, Any], words: Any) -> dict[str, Any]:
    """A column with its numbers as the reader's language writes them."""
    ends = [end for end in ("low", "high") if end in row]
    return {**row, **{end: words.number(row[end], row["digits"]) for end in ends}}


def describe(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return every column with its spread as bars, and the rows that lack a number."""
    import pandas as pd

    from counterplay.studio.kinds.elicitation_config import decimals

    rows = []
    for column in frame.columns[:_SHOWN_COLUMNS]:
        numbers = pd.to_numeric(frame[column], errors="coerce")
        known = numbers.dropna().to_numpy(dtype=float)
        known = known[np.abs(known) < _LARGEST]
        numeric = len(known) > 0 and len(known) >= int(frame[column].notna().sum())
        row: dict[str, Any] = {"name": column, "numeric": numeric, "bars": [], "missing": []}
        if numeric:
            above = known - known.min()
            counts: Any = [1]
            if above.max() > 0:
                counts = np.histogram(above / above.max(), bins=_BARS, range=(0, 1))[0]
            top = max(1, int(np.max(counts)))
            row["bars"] = [round(32 * int(count) / top, 1) for count in counts]
            row |= {"low": float(known.min()), "high": float(known.max())}
            row["digits"] = decimals(known)
            row["missing"] = (np.flatnonzero(frame[column].isna()) + 1).tolist()
        else:
            row["different"] = int(frame[column].nunique())
            row["sample"] = ", ".join(map(str, frame[column].dropna().head(3)))[:80]
        rows.append(row)
    return rows


_DRAFT = "/admin/studies/new/{key}"
router.add_route("/admin/studies/new", file_page, methods=["GET"])
router.add_route("/admin/studies/new", take_file, methods=["POST"])
for _name, _show, _take in (
    ("columns", columns_page, take_columns),
    ("texts", texts_page, take_texts),
    ("preview", preview_page, create),
):
    router.add_route(f"{_DRAFT}/{_name}", _show, methods=["GET"])
    router.add_route(f"{_DRAFT}/{_name}", _take, methods=["POST"])
router.add_route("/admin/studies/{study}", study_page, methods=["GET"])
