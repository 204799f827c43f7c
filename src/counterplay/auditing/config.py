"""The config of an audit: one TOML file whose every key is checked before anything is computed.

``[moves]`` and ``[movable]`` are the moves file of the strategic area, read there. Everything else
is read here into typed records: an unknown key names the nearest one, a wrong type names its place.
The model is never named in the file, so that a config from elsewhere cannot choose what is loaded.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta

from counterplay.core.files import read_limited
from counterplay.core.records import Record, to_record
from counterplay.errors import InvalidInputError
from counterplay.tables.cells import shown

LARGEST_CONFIG = 1 << 20
_LONGEST = 300

Word = Annotated[str, Meta(min_length=1, max_length=1000)]
Words = Annotated[tuple[Word, ...], Meta(max_length=10_000)]
Price = Annotated[float, Meta(ge=0.0, le=1e12)]
Value = str | bool | int | float
Values = Annotated[tuple[Value, ...], Meta(min_length=1, max_length=1000)]
Codes = Annotated[tuple[float, ...], Meta(max_length=100)]
Seconds = Annotated[float, Meta(ge=1.0, le=7 * 86_400.0)]


class DataSettings(Record, frozen=True):
    """``[data]``: what the rows are."""

    label: Word | None = None
    positive: Value | Annotated[tuple[Value, ...], Meta(min_length=1, max_length=1000)] | None = (
        None
    )
    rows: Literal["heldout", "training", "unknown"] = "unknown"
    special_codes: dict[str, Codes] = msgspec.field(default_factory=dict)
    classes: dict[str, Value] = msgspec.field(default_factory=dict)


class ColumnSettings(Record, frozen=True):
    """``[columns]``: the roles of columns."""

    fixed: Words = ()
    id: Words = ()
    source: Word | None = None
    group: Words = ()
    group_by: Word | None = None
    time: Word | None = None
    text: Words = ()
    ignore: Words = ()

    def named(self) -> dict[str, tuple[str, ...]]:
        """Return the columns that are named, by key."""
        roles = {
            "fixed": self.fixed, "id": self.id, "group": self.group, "text": self.text,
            "ignore": self.ignore,
        }  # fmt: skip
        single = {"source": self.source, "group_by": self.group_by, "time": self.time}
        return roles | {key: (name,) for key, name in single.items() if name is not None}


class EffortSettings(Record, frozen=True):
    """``[effort]``: what people can spend."""

    unit: Word = "units of effort"
    budgets: Annotated[tuple[Annotated[float, Meta(gt=0, le=1e12)], ...], Meta(max_length=20)] = ()
    share_gaming: Annotated[float, Meta(ge=0, le=1)] | Literal["unknown"] = "unknown"
    before: Word | None = None
    after: Word | None = None
    fit: bool = False

    @property
    def headline(self) -> float | None:
        """The middle budget; None if there is none."""
        return self.budgets[len(self.budgets) // 2] if self.budgets else None


class CostSettings(Record, frozen=True):
    """``[costs]``: what errors cost; a number, or the name of a column."""

    false_accept: Price | Word | None = None
    false_reject: Price | Word | None = None
    unit: Annotated[str, Meta(max_length=100)] = ""

    @property
    def given(self) -> bool:
        """Whether errors have costs of their own."""
        return self.false_accept is not None or self.false_reject is not None

    @property
    def page_unit(self) -> str:
        """The unit of money on the page."""
        if not self.given:
            return "errors per 1,000 decisions"
        return f"{self.unit or 'cost units'} per 1,000 decisions"


class PlantedSettings(Record, frozen=True):
    """``[planted]``: how many planted rows to look at."""

    rows: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=10**6)], ...], Meta(min_length=1, max_length=20)
    ] = (1, 5, 10)


class SymmetrySettings(Record, frozen=True):
    """``[symmetry]``: families of columns, common units and text changes that should not matter."""

    families: Annotated[tuple[Words, ...], Meta(max_length=50)] = ()
    units: Annotated[tuple[Words, ...], Meta(max_length=50)] = ()
    texts: Words = ()


class SiteSettings(Record, frozen=True):
    """``[sites]``: where rows come from."""

    column: Word | None = None
    files: Words = ()


class ChampionSettings(Record, frozen=True):
    """``[champion]``: a log of models in use."""

    file: Word | None = None
    time: Word = "time"
    model: Word = "model"
    primary: Word = "primary"
    harm: Word = "harm"
    budget: Price | None = None


class OfferSettings(Record, frozen=True):
    """``[offers]``: a log of offers and outcomes."""

    file: Word | None = None
    offer: Word = "offer"
    outcome: Word = "outcome"
    terms: Literal["commission", "fee", "price", "discount", "bonus", "arms"] = "commission"
    unit_cost: Price = 0.0


class RunSettings(Record, frozen=True):
    """``[run]``: time and seed."""

    time: Seconds = 300.0
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0


class GateSettings(Record, frozen=True):
    """``[gates]``: what must hold."""

    require: Annotated[tuple[Annotated[str, Meta(max_length=500)], ...], Meta(max_length=200)] = ()


class ModelSettings(Record, frozen=True):
    """``[model]``: the columns of a model that knows no names."""

    columns: Words | None = None


class Config(Record, frozen=True):
    """The settings of an audit.

    Examples
    --------
    >>> config = Config.of({"effort": {"budgets": [0.5, 1, 2]}, "costs": {"false_accept": 5}})
    >>> config.effort.headline, config.costs.page_unit
    (1.0, 'cost units per 1,000 decisions')
    >>> Config.of({"costs": {"false_acept": 5}})
    Traceback (most recent call last):
        ...
    counterplay.errors.InvalidInputError: config: [costs] false_acept is not a setting
    (nearest: false_accept).

    References
    ----------
    docs/audit.md; "The config", see docs/theory/27-audit.md.
    """

    version: Literal[1] = 1
    confirmed: bool = True
    data: DataSettings = DataSettings()
    columns: ColumnSettings = ColumnSettings()
    moves: dict[str, Any] = msgspec.field(default_factory=dict)
    movable: Annotated[dict[str, Any], Meta(max_length=1000)] = msgspec.field(default_factory=dict)
    effort: EffortSettings = EffortSettings()
    costs: CostSettings = CostSettings()
    planted: PlantedSettings = PlantedSettings()
    symmetry: SymmetrySettings = SymmetrySettings()
    sites: SiteSettings = SiteSettings()
    champion: ChampionSettings = ChampionSettings()
    offers: OfferSettings = OfferSettings()
    run: RunSettings = RunSettings()
    gates: GateSettings = GateSettings()
    model: ModelSettings = ModelSettings()
    section: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    name: str = "config"
    folder: str = ""
    guesses: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: Mapping[str, Any] | str | os.PathLike[str] | Config | None) -> Config:
        """Read a config from a TOML file or from a mapping of its content."""
        if isinstance(source, Config):
            return source
        if source is None:
            return cls()
        if isinstance(source, Mapping):
            return _checked(source, "config", {})
        if not isinstance(source, str | os.PathLike):
            raise InvalidInputError(
                f"config must be a file, a mapping or None, got {shown(source)}"
            )
        path = Path(source)
        text, content = read_toml(path)
        extra = {"folder": str(path.resolve().parent), "guesses": _open_guesses(text)}
        content.setdefault("confirmed", False)
        return _checked(content, path.name[:80], extra)

    def moves_content(self) -> dict[str, Any]:
        """Return what `Moves.from_toml` reads."""
        return {"moves": dict(self.moves), "movable": dict(self.movable)}

    def part(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the named tables as plain values: what a stored result depends on."""
        try:
            wanted = sorted(names)
        except TypeError:
            raise InvalidInputError(f"names of tables are needed, got {shown(names)}") from None
        for name in wanted:
            if name not in self.__struct_fields__:
                raise InvalidInputError(f"the config has no table {shown(name, 60)}")
        return {name: msgspec.to_builtins(getattr(self, name)) for name in wanted}

    @property
    def named_files(self) -> tuple[str, ...]:
        """The keys that name files to read."""
        given = {
            "[effort] before": self.effort.before, "[effort] after": self.effort.after,
            "[sites] files": self.sites.files, "[champion] file": self.champion.file,
            "[offers] file": self.offers.file,
        }  # fmt: skip
        return tuple(key for key, value in given.items() if value)

    def path(self, name: str) -> Path:
        """Return a file that the config names, relative to the config."""
        return Path(self.folder, name)


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text and the content of a TOML file; what is wrong with it names the line."""
    name = path.name[:80]
    raw = read_limited(path, what="the config", limit=LARGEST_CONFIG)
    try:
        text = raw.decode("utf-8-sig")
        return text, tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InvalidInputError(f"{name} line {line}: the file is not UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(_cut(_syntax(name, str(error), text))) from None
    except (RecursionError, ValueError) as error:
        raise InvalidInputError(_cut(f"{name} is no TOML file: {shown(error, 120)}.")) from None


def _syntax(name: str, message: str, text: str) -> str:
    """The sentence for a syntax error: line first."""
    place = re.search(r" \(at line (\d+), column \d+\)$", message)
    told = message[: place.start()] if place else message.removesuffix(" (at end of document)")
    line = place.group(1) if place else str(text.count("\n") + 1)
    told = told.replace("'=' after a key in a key/value pair", "'=' after the key")
    return f"{name} line {line}: {told[:1].lower() + told[1:]}."


def _checked(content: Mapping[str, Any], name: str, extra: dict[str, Any]) -> Config:
    """Turn parsed TOML into a config, table by table, so that messages name the key."""
    hints = get_type_hints(Config, include_extras=True)
    inner = ("name", "folder", "guesses")
    tables = [key for key in hints if key not in inner]
    values: dict[str, Any] = {}
    for key, given in content.items():
        if key not in tables:
            raise InvalidInputError(_cut(f"{name}: {_unknown(str(key), tables, table=True)}"))
        values[key] = _table(key, given, hints[key], name)
    config: Config = _built(Config, values | extra, name, "")
    _check_budgets(config, name)
    return config


def _table(key: str, given: Any, hint: Any, name: str) -> Any:
    """Read one table or top-level setting."""
    if not (isinstance(hint, type) and issubclass(hint, Record)):
        if key in ("moves", "movable", "section") and not isinstance(given, Mapping):
            raise InvalidInputError(
                _cut(f"{name}: [{key}] must be a table of settings, got {shown(given)}.")
            )
        return given
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            _cut(f"{name}: [{key}] must be a table of settings, got {shown(given)}.")
        )
    known = list(get_type_hints(hint))
    for setting in given:
        if setting not in known:
            raise InvalidInputError(_cut(f"{name}: [{key}] {_unknown(str(setting), known)}"))
    return _built(hint, _words(key, given), name, f"[{key}] ")


def _words(table: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Short forms: one name for a list of one, ``"?"`` for not set, ``"5m"`` for seconds."""
    values = dict(given)
    if table == "data":
        values = {k: v for k, v in values.items() if not (isinstance(v, str) and v == "?")}
        codes = values.get("special_codes")
        if isinstance(codes, Mapping):
            single = {k: [v] for k, v in codes.items() if isinstance(v, int | float)}
            values["special_codes"] = {**codes, **single}
    if table == "columns":
        lists = ("fixed", "id", "group", "text", "ignore")
        values = {k: [v] if k in lists and isinstance(v, str) else v for k, v in values.items()}
    if table == "run" and isinstance(values.get("time"), str):
        values["time"] = read_seconds(values["time"])
    return values


def _built(kind: type[Any], values: dict[str, Any], name: str, where: str) -> Any:
    try:
        return to_record(values, kind, what=name)
    except InvalidInputError as error:
        told = str(error).removeprefix(f"{name} cannot be used: ")
        raise InvalidInputError(_cut(f"{name}: {where}{told}.")) from None


def _unknown(name: str, known: Iterable[str], *, table: bool = False) -> str:
    options = list(known)
    near = difflib.get_close_matches(name[:80], options, n=1, cutoff=0.4)
    shape = "[{}]" if table else "{}"
    hint = "nearest: " + shape.format(near[0]) if near else f"known: {', '.join(options)}"
    return f"{shape.format(name[:80])} is not a setting ({hint})."


def _check_budgets(config: Config, name: str) -> None:
    budgets = config.effort.budgets
    if any(later <= earlier for earlier, later in zip(budgets, budgets[1:])):
        raise InvalidInputError(
            _cut(f"{name}: [effort] budgets must increase, got {shown(list(budgets))}.")
        )
    rows = config.planted.rows
    if any(later <= earlier for earlier, later in zip(rows, rows[1:])):
        raise InvalidInputError(_cut(f"{name}: [planted] rows must increase, got {list(rows)}."))


def read_seconds(text: str) -> float:
    """Return seconds from ``90``, ``"90s"``, ``"5m"`` or ``"2h"``.

    Examples
    --------
    >>> read_seconds("5m"), read_seconds("90s"), read_seconds("20")
    (300.0, 90.0, 20.0)
    """
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(s|m|h|min|sec)?\s*", str(text))
    if match is None:
        raise InvalidInputError(f"a time is written 90s, 5m or 2h, got {shown(text)}.")
    scale = {"m": 60.0, "min": 60.0, "h": 3600.0}.get(match.group(2) or "s", 1.0)
    seconds = float(match.group(1)) * scale
    if not 1.0 <= seconds <= 7 * 86_400.0:
        raise InvalidInputError(f"a time must be from 1 second to 7 days, got {shown(text)}.")
    return seconds


def _open_guesses(text: str) -> tuple[str, ...]:
    """The settings that ``init`` guessed and that still carry their mark, with the reason."""
    found = re.findall(r"^([A-Za-z_]\w*)\s*=[^\n]*?#\?\s*([^\n]*)$", text, flags=re.MULTILINE)
    return tuple(f"{key}: {reason}"[:300] for key, reason in found)[:100]


def _cut(text: str) -> str:
    safe = " ".join(text.split()).encode("utf-8", "backslashreplace").decode()
    return safe if len(safe) <= _LONGEST else safe[: _LONGEST - 4] + " ..."
