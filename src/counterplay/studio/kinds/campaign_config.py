"""The configuration of a campaign: a pool of items with owners, and what is promised.

A table, the column of its owners and the classes become a frozen record that holds the pool itself,
so that a campaign can be folded, exported and imported without any other file. The seed of the
checks is drawn here and stays on the server until the study is exported.
Source: docs/theory/24-campaign.md.
"""

from __future__ import annotations

import base64
import csv
import io
import math
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from counterplay.core.files import read_limited
from counterplay.errors import InvalidInputError
from counterplay.labeling import Campaign
from counterplay.labeling.campaign_export import export_config
from counterplay.labeling.campaign_questions import label_code
from counterplay.studio.kinds import FileName, typed
from counterplay.tables import read_table
from counterplay.tables.cells import listed, shown

MOST_ROWS = 50_000
MOST_COLUMNS = 500
MOST_IMAGE_BYTES = 20 * 2**20
LARGEST_SIDE = 640
"""Images are shown, not measured: they are re-encoded and made this small."""
MOST_PIXELS = 50_000_000
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
_SETTINGS = ("scope", "noise", "first_to", "free", "stake", "batch")


class Fields(msgspec.Struct, frozen=True):
    """What a campaign's TOML file may say."""

    kind: str | None = None
    name: str | None = None
    table: FileName | None = None
    owner: str | None = None
    classes: list[str] | None = None
    id: str | None = None
    features: list[str] | None = None
    text: str | None = None
    image: str | None = None
    known: FileName | None = None
    known_column: str | None = None
    max_error: float | None = None
    confidence: float | None = None
    scope: str | None = None
    noise: float | None = None
    first_to: int | None = None
    free: str | None = None
    stake: int | None = None
    batch: int | None = None
    names_open: bool | None = None
    title: str | None = None
    intro: str | None = None
    who: str | None = None
    consent: str | None = None
    seed: int | None = None
    locale: str | None = None


def read_config(raw: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Turn the fields of a TOML file into a frozen configuration; the pool is read here."""
    raw = typed(raw, Fields, "a campaign")
    for name in ("table", "owner", "classes"):
        if not raw.get(name):
            raise InvalidInputError(f"a campaign needs {name} = ...")
    frame = read_table(folder / str(raw["table"])).frame.reset_index(drop=True)
    _check_frame(frame, raw)
    apart = {raw["owner"], raw.get("known_column")}
    columns = [c for c in map(str, frame.columns) if c not in apart]
    page: dict[str, Any] = {
        "columns": columns,
        "rows": [[plain_cell(v) for v in row] for row in frame[columns].itertuples(index=False)],
        "id": raw.get("id"),
        "text": raw.get("text"),
        "features": _features(raw, columns),
        "settings": {k: raw[k] for k in _SETTINGS if raw.get(k) is not None},
        "names_open": bool(raw.get("names_open", False)),
        "images": _images(frame, raw, folder),
        "image": raw.get("image"),
    }
    page |= {k: str(raw[k]) for k in ("title", "intro", "who", "consent") if raw.get(k)}
    known = _read_known(folder, raw, page) or _known_column(frame, raw)
    campaign = Campaign(
        pool(page), owners=frame[raw["owner"]], classes=raw["classes"],
        max_error=float(raw.get("max_error", 0.05)), confidence=float(raw.get("confidence", 0.95)),
        known=known, random_state=int(raw.get("seed", secrets.randbits(62))), **page["settings"],
    )  # fmt: skip
    config: dict[str, Any] = msgspec.to_builtins(export_config(campaign._state))
    return {**config, "page": page}


def new_campaign(config: dict[str, Any], known: Sequence[Sequence[int]] | None = None) -> Campaign:
    """Begin the campaign of a configuration; the same seed gives the same checks."""
    page, classes = config["page"], config["classes"]
    given = config["known"] if known is None else known
    return Campaign(
        pool(page), owners=config["parties"], classes=classes, max_error=config["max_error"],
        confidence=config["confidence"], known={item: classes[code] for item, code in given},
        random_state=config["seed"], **page["settings"],
    )  # fmt: skip


def pool(page: dict[str, Any]) -> Any:
    """What the learner sees: the texts of a column, or columns."""
    if page["text"] is not None:
        place = page["columns"].index(page["text"])
        return [str(row[place] or "") for row in page["rows"]]
    places = {c: j for j, c in enumerate(page["columns"])}
    return pd.DataFrame(
        {c: _column([row[places[c]] for row in page["rows"]]) for c in page["features"]}
    )


def item_names(page: dict[str, Any]) -> list[str]:
    """How people call the items: by the id column, or by the row of the file."""
    if page["id"] is None:
        return [f"row {i + 1}" for i in range(len(page["rows"]))]
    place = page["columns"].index(page["id"])
    return [str(row[place]) for row in page["rows"]]


def read_labels(text: str, items: Sequence[str], classes: Sequence[str]) -> list[tuple[int, int]]:
    """Read known labels, columns item and label: all of them, or a sentence with five offenders."""
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    names = [str(n or "").strip().lower() for n in reader.fieldnames or []]
    if "item" not in names or "label" not in names:
        raise InvalidInputError(f"the file needs the columns item and label, found {listed(names)}")
    places = {name: i for i, name in enumerate(items)}
    found: dict[int, int] = {}
    problems: list[str] = []
    for row in _rows(reader):
        cells = {str(k).strip().lower(): str(v or "").strip() for k, v in row.items()}
        item = places.get(cells.get("item", ""))
        try:
            if item is None:
                raise InvalidInputError(f"there is no item {shown(cells.get('item', ''), 40)}")
            if item in found:
                raise InvalidInputError(f"item {shown(cells['item'], 40)} is there twice")
            code = label_code(cells.get("label", ""), classes)
            if code < 0:
                raise InvalidInputError("a known label cannot be a skip")
            found[item] = code
        except InvalidInputError as error:
            problems.append(f"line {reader.line_num}: {error}")
    if problems:
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise InvalidInputError(f"nothing was imported. {'; '.join(problems[:5])}{more}")
    return sorted(found.items())


def _rows(reader: csv.DictReader[str]) -> Iterator[dict[str, str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise InvalidInputError(f"the labels cannot be read: {shown(error, 100)}") from None


def plain_cell(value: Any) -> str | int | float | bool | None:
    """A cell as JSON can hold it."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, bool | int | float | str):
        return value
    return None if pd.isna(value) else str(value)


def _column(cells: list[Any]) -> Any:
    numbers = all(
        c is None or (isinstance(c, int | float) and not isinstance(c, bool)) for c in cells
    )
    if numbers and any(c is not None for c in cells):
        return np.array([np.nan if c is None else float(c) for c in cells])
    return pd.Series([None if c is None else str(c) for c in cells], dtype=object)


def _check_frame(frame: pd.DataFrame, raw: dict[str, Any]) -> None:
    if len(frame) > MOST_ROWS or frame.shape[1] > MOST_COLUMNS:
        raise InvalidInputError(
            f"the table has {len(frame):,} rows and {frame.shape[1]:,} columns; at most "
            f"{MOST_ROWS:,} and {MOST_COLUMNS} can be labelled here"
        )
    named = [raw["owner"], *(raw.get(k) for k in ("id", "text", "image", "known_column"))]
    for name in [*filter(None, named), *(raw.get("features") or ())]:
        if name not in frame.columns:
            raise InvalidInputError(
                f"the table has no column {shown(name, 60)}; columns are {listed(frame.columns)}"
            )
    ownerless = frame.index[frame[raw["owner"]].isna()]
    if len(ownerless):
        raise InvalidInputError(
            f"line {ownerless[0] + 2} has no party in the column {shown(raw['owner'], 60)}; give "
            "every item a party, or leave its line out"
        )
    if raw.get("id"):
        twice = frame[raw["id"]][frame[raw["id"]].duplicated()]
        if len(twice):
            raise InvalidInputError(
                f"the id {shown(twice.iloc[0], 40)} is there twice (line {twice.index[0] + 2})"
            )


def _features(raw: dict[str, Any], columns: list[str]) -> list[str]:
    if raw.get("features"):
        return [str(c) for c in raw["features"]]
    apart = {raw.get("id"), raw.get("image")}
    found = [c for c in columns if c not in apart]
    if not found and not raw.get("text"):
        raise InvalidInputError("no column is left to learn from; name some with features = [...]")
    return found


def _read_known(folder: Path, raw: dict[str, Any], page: dict[str, Any]) -> dict[int, str] | None:
    if not raw.get("known"):
        return None
    data = read_limited(folder / str(raw["known"]), what="the known labels", limit=2**26)
    text = data.decode("utf-8-sig", "replace")
    pairs = read_labels(text, item_names(page), raw["classes"])
    return {item: raw["classes"][code] for item, code in pairs}


def _known_column(frame: pd.DataFrame, raw: dict[str, Any]) -> dict[int, str] | None:
    """Labels that stand in the table already; empty cells are to be asked."""
    if not raw.get("known_column"):
        return None
    found = {}
    for row, cell in enumerate(frame[raw["known_column"]]):
        told = plain_cell(cell)
        if isinstance(told, float) and told.is_integer():  # 1 in a column with empty cells
            told = int(told)
        if told is None or not str(told).strip():
            continue
        if str(told).strip() not in raw["classes"]:
            raise InvalidInputError(
                f"line {row + 2}: {shown(told, 40)} is none of the labels {listed(raw['classes'])}"
            )
        found[row] = str(told).strip()
    return found


def _images(frame: pd.DataFrame, raw: dict[str, Any], folder: Path) -> list[str] | None:
    """Re-encode the images beside the table, so that nothing but pixels is ever shown."""
    if not raw.get("image"):
        return None
    from PIL import Image

    found, total = [], 0
    for row, name in enumerate(frame[raw["image"]].astype(str)):
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise InvalidInputError(f"line {row + 2}: the image {shown(name, 60)} is elsewhere")
        try:
            with Image.open(path, formats=_FORMATS) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise ValueError
                image.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
                out = io.BytesIO()
                image.convert("RGB").save(out, "WEBP", quality=80)
        except (OSError, ValueError, Image.DecompressionBombError):
            raise InvalidInputError(f"line {row + 2}: {shown(name, 60)} is no image") from None
        total += out.tell()
        if total > MOST_IMAGE_BYTES:
            raise InvalidInputError("the images take more than 20 MB; make them smaller")
        found.append(base64.b64encode(out.getvalue()).decode())
    return found
