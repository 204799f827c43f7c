"""The moves file: one description of moves on disk, in TOML, that a credit analyst can edit.

``[moves]`` holds what concerns all columns, ``[movable.COLUMN]`` the keyword arguments of a
`Change` or a `Switch`. Other tables of the same file belong to others and are ignored; an unknown
key inside these two is an error that suggests the nearest one.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from counterplay.errors import InvalidInputError
from counterplay.strategic.changes import Change, Switch
from counterplay.strategic.links import Derived, Link, NotAbove, OneHot
from counterplay.strategic.moves import Moves
from counterplay.tables import Table
from counterplay.tables.cells import is_missing, listed, shown

if TYPE_CHECKING:
    from counterplay.strategic.moves import Combine

_CHANGE = ("direction", "cost", "step", "per", "low", "high", "grid", "missing", "hide", "codes")
_SWITCH = ("switch", "cost", "allowed", "ladder", "direction", "missing", "hide")


def read_moves(
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    reference: Any,
    codes: Mapping[str, Sequence[float]] | None = None,
) -> Moves:
    """Return the moves of a TOML file or of its parsed content; see `Moves.from_toml`."""
    content, what = _content(source)
    overall, movable = content.get("moves", {}), content.get("movable", {})
    if not isinstance(overall, Mapping) or not isinstance(movable, Mapping) or not movable:
        raise InvalidInputError(f"{what}: no [movable.COLUMN] table says what people can change")
    _check_keys(overall, ("combine", "budget", "links"), f"{what}: [moves]")
    frame = Table.of(reference, what="reference").frame()
    columns = {}
    for name, entry in movable.items():
        where = f"{what}: [movable.{shown(name, 40)[1:-1]}]"
        if not isinstance(entry, Mapping):
            raise InvalidInputError(f"{where} must be a table of settings, got {shown(entry)}")
        if name not in frame.columns:
            Moves({name: Change("up", per="unit")}, reference=frame)  # names the nearest column
        try:
            columns[name] = _item(entry, frame[name], where, _codes(codes, name))
        except InvalidInputError as error:
            raise InvalidInputError(
                str(error) if str(error).startswith(what) else f"{where} {error}"
            ) from None
    combine: Combine = overall.get("combine", "sum")
    links = _links(overall.get("links", []), f"{what}: links")
    return Moves(
        columns, reference=frame, combine=combine, budget=overall.get("budget"), links=links
    )


def write_moves(moves: Moves, path: str | os.PathLike[str]) -> None:
    """Write moves to a file that `read_moves` reads; see `Moves.to_toml`."""
    lines = ["[moves]", f'combine = "{moves.combine}"']
    if moves.budget is not None:
        lines.append(f"budget = {moves.budget!r}")
    if moves.links:
        lines.append("links = [" + ", ".join(map(_link_text, moves.links)) + "]")
    for name, item in moves.columns.items():
        if not isinstance(name, str):
            raise InvalidInputError("a moves file names columns; these moves count positions")
        lines += ["", f"[movable.{_quoted(name)}]"]
        lines += _change_lines(item) if isinstance(item, Change) else _switch_lines(item)
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _content(source: Any) -> tuple[Mapping[str, Any], str]:
    if isinstance(source, Mapping):
        return source, "moves"
    path = Path(source)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")), path.name
    except OSError as error:
        raise InvalidInputError(f"the moves file cannot be read: {shown(error, 160)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path.name} is no TOML file: {shown(error, 160)}") from None


def _codes(codes: Mapping[str, Sequence[float]] | None, name: str) -> Sequence[float]:
    return () if codes is None else codes.get(name, codes.get("*", ()))


def _check_keys(entry: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in entry:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.4)
            hint = f"nearest: {near[0]}" if near else f"known: {', '.join(known)}"
            raise InvalidInputError(f"{where} {key} is not a setting ({hint})")


def _item(
    entry: Mapping[str, Any], column: pd.Series, where: str, codes: Sequence[float]
) -> Change | Switch:
    if {"switch", "allowed", "ladder"} & set(entry) or not {"direction"} & set(entry):
        _check_keys(entry, _SWITCH, where)
        return _switch(dict(entry), column)
    _check_keys(entry, _CHANGE, where)
    given = dict(entry)
    if isinstance(given.get("cost"), list):
        given["cost"] = tuple(given["cost"])
    if codes and "codes" not in given:
        given["codes"] = tuple(codes)
    return Change(**given)


def _links(entries: Any, where: str) -> list[Link]:
    """Return the links of a file: derived, not_above and one_hot."""
    if not isinstance(entries, list):
        raise InvalidInputError(f"{where} must be a list of links, got {shown(entries)}")
    found: list[Link] = []
    for entry in entries:
        if not isinstance(entry, Mapping):
            raise InvalidInputError(f"{where}: a link is a table, got {shown(entry)}")
        _check_keys(entry, ("derived", "of", "by", "not_above", "one_hot"), where)
        keys = set(entry)
        if keys == {"derived", "of", "by"} and isinstance(entry["by"], str):
            found.append(Derived(entry["derived"], of=entry["of"], by=entry["by"]))
        elif keys == {"not_above"} and len(entry["not_above"]) == 2:
            found.append(NotAbove(*entry["not_above"]))
        elif keys == {"one_hot"}:
            found.append(OneHot(entry["one_hot"]))
        else:
            raise InvalidInputError(
                f"{where}: a link is {{derived, of, by}}, {{not_above = [a, b]}} or "
                f"{{one_hot = [...]}}, got {shown(dict(entry))}"
            )
    return found


def _link_text(link: Link) -> str:
    if isinstance(link, Derived):
        if not isinstance(link.by, str):
            raise InvalidInputError(
                f"{link.label}: a function cannot be written to a file; give by as a formula"
            )
        return (
            f"{{derived = {_value(link.column)}, of = {_value(list(link.of))}, "
            f"by = {_value(link.by)}}}"
        )
    if isinstance(link, OneHot):
        return f"{{one_hot = {_value(list(link.columns))}}}"
    return f"{{not_above = {_value(list(link.columns))}}}"


def _switch(given: dict[str, Any], column: pd.Series) -> Switch:
    """Return a switch whose categories, which are text in the file, are those of the data."""
    by_text = _by_text(column)
    if "switch" in given:
        table = given.pop("switch")
        if "cost" in given or not isinstance(table, Mapping):
            raise InvalidInputError("switch = {from = {to = price}} takes no cost beside it")
        given["cost"] = {
            (by_text.get(a, a), by_text.get(b, b)): price
            for a, targets in table.items()
            for b, price in targets.items()
        }
    if "allowed" in given:
        given["allowed"] = [tuple(by_text.get(c, c) for c in pair) for pair in given["allowed"]]
    if "ladder" in given:
        given["ladder"] = [by_text.get(c, c) for c in given["ladder"]]
    return Switch(**given)


def _by_text(column: pd.Series) -> dict[Any, Any]:
    """Return the categories of a column by their text; two with the same text are an error."""
    known: dict[Any, Any] = {}
    for value in dict.fromkeys(column.tolist()):
        if is_missing(value):
            continue
        text = str(value)
        if text in known and known[text] != value:
            raise InvalidInputError(f"has {listed([known[text], value])}, which read the same")
        known[text] = value
    return known


def _change_lines(item: Change) -> list[str]:
    lines = [f'direction = "{item.direction}"']
    cost = list(item.cost) if isinstance(item.cost, tuple) else item.cost
    lines.append(f"cost = {_value(cost)}")
    lines.append(f'per = "{item.per}"')
    for key in ("step", "low", "high", "hide"):
        if getattr(item, key) is not None:
            lines.append(f"{key} = {_value(getattr(item, key))}")
    if item.grid is not None:
        lines.append(f"grid = {_value(list(item.grid))}")
    if item.missing != "keep":
        lines.append(f"missing = {_value(item.missing)}")
    if item.codes:
        lines.append(f"codes = {_value(list(item.codes))}")
    return lines


def _switch_lines(item: Switch) -> list[str]:
    lines = []
    if isinstance(item.cost, Mapping):
        table: dict[Any, dict[Any, float]] = {}
        for (a, b), price in item.cost.items():
            table.setdefault(a, {})[b] = price
        parts = [
            f"{_quoted(str(a))} = {{"
            + ", ".join(f"{_quoted(str(b))} = {_value(p)}" for b, p in row.items())
            + "}"
            for a, row in table.items()
        ]
        lines.append("switch = {" + ", ".join(parts) + "}")
    else:
        lines.append(f"cost = {_value(item.cost)}")
    if item.allowed is not None:
        lines.append(f"allowed = {_value([[str(a), str(b)] for a, b in item.allowed])}")
    if item.ladder is not None:
        lines.append(f"ladder = {_value([str(c) for c in item.ladder])}")
        lines.append(f'direction = "{item.direction}"')
    if item.missing != "keep":
        lines.append(f"missing = {_value(item.missing)}")
    if item.hide is not None:
        lines.append(f"hide = {_value(item.hide)}")
    return lines


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    """Return a TOML string: quotes, backslashes and control characters escaped."""
    escaped = []
    for char in text:
        if char in '"\\':
            escaped.append("\\" + char)
        elif ord(char) < 0x20 or ord(char) == 0x7F:
            escaped.append(f"\\u{ord(char):04x}")
        else:
            escaped.append(char)
    return '"' + "".join(escaped) + '"'
