"""A log of offers and outcomes, read once: names, rows, and one sentence for what cannot be used.

Nothing is guessed: columns are found by name, percentages are refused, missing outcomes are an
error unless the user says that rows without one may go.
Source: docs/theory/25-offers.md, "Setting".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from counterplay.core.validation import FloatArray, IntArray, check_choice
from counterplay.errors import InvalidInputError
from counterplay.principal.offer_terms import Terms
from counterplay.tables import Table
from counterplay.tables.cells import is_missing, listed, nearest, shown

LEAST_ROWS = 30
_ZONE = r"\d(?:Z|[+-]\d{2}:?\d{2})$"
_DAY_FIRST = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}")


@dataclass(frozen=True)
class OfferLog:
    """The columns of a log that matter, row by row in the order of the user.

    ``offers`` are numbers, or the names of arms; ``power`` their strength (a code for arms).
    ``agent``, ``stratum`` and ``action`` are codes, ``time`` ranks; None where not given.
    """

    terms: Terms
    offer: str
    outcome: str
    offers: np.ndarray[Any, Any]
    power: FloatArray
    values: FloatArray
    rows: pd.Index
    agent: IntArray | None = None
    stratum: IntArray | None = None
    time: FloatArray | None = None
    action: np.ndarray[Any, Any] | None = None
    columns: tuple[tuple[str, str], ...] = ()
    dropped: int = 0

    def __len__(self) -> int:
        return int(self.values.size)

    @cached_property
    def distinct(self) -> tuple[np.ndarray[Any, Any], FloatArray]:
        """Distinct offers and their powers, weakest first."""
        power, first = np.unique(self.power, return_index=True)
        return self.offers[first], power


def read_columns(log: Any, wanted: Mapping[str, str | None], what: str = "the log") -> Table:
    """Return the table of a log; a column that is asked for and missing is an error."""
    if isinstance(log, Mapping):
        try:
            log = pd.DataFrame(dict(log))
        except (ValueError, TypeError) as error:
            raise InvalidInputError(f"{what} is no table: {shown(error, 120)}") from None
    table = Table.of(log, what=what)
    if table.names is None:
        needed = listed([name for name in wanted.values() if name is not None])
        raise InvalidInputError(f"{what} needs columns with names: {needed}")
    for name in wanted.values():
        if name is not None and name not in table.names:
            near = nearest(name, table.names).replace(" (nearest: ", "; did you mean ")
            hint = near.replace(")", "?") if near else "."
            raise InvalidInputError(
                f"{what} has no column {shown(name, 40)}{hint} Columns: {listed(table.names, 8)}"
            )
    return table


def column_of(table: Table, name: str) -> pd.Series:
    """Return a column by name; it is there."""
    assert table.names is not None
    return table.column(table.names.index(name))


def numbers_of(column: pd.Series, name: str, rows: pd.Index) -> FloatArray:
    """Return finite numbers, NaN where missing; anything else names its row."""
    kind = column.dtype.kind if hasattr(column.dtype, "kind") else "O"
    if (kind in "fiu" and not isinstance(column.dtype, pd.CategoricalDtype)) or kind == "b":
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        numbers = np.array([_number(v, name, row) for v, row in zip(column, rows)])
    if np.isinf(numbers).any():
        row = rows[int(np.argmax(np.isinf(numbers)))]
        raise InvalidInputError(f"{name} of row {shown(row, 30)} is infinite: expected a number")
    return np.asarray(numbers, dtype=np.float64)


def _number(value: Any, name: str, row: Any) -> float:
    if is_missing(value):
        return float("nan")
    good = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not good and type(value).__name__ != "Decimal":
        raise InvalidInputError(
            f"{name} of row {shown(row, 30)} is {shown(value, 40)}: expected a number"
        )
    return float(value)


def codes_of(column: pd.Series, name: str, rows: pd.Index) -> tuple[IntArray, list[Any]]:
    """Return codes of the different cells, in sorted order of their text; missing is an error."""
    values = column.to_numpy(dtype=object)
    for value, row in zip(values, rows):
        if is_missing(value):
            raise InvalidInputError(f"{name} of row {shown(row, 30)} is missing")
    try:
        known = sorted(set(values), key=lambda v: (str(type(v)), str(v)))
    except TypeError:
        raise InvalidInputError(f"{name} holds cells that cannot be names") from None
    place = {value: i for i, value in enumerate(known)}
    return np.array([place[value] for value in values], dtype=np.int64), known


def read_offer_log(
    log: Any,
    terms: Terms,
    *,
    offer: str,
    outcome: str,
    others: Mapping[str, str | None],
    floor: float = 0.0,
    missing: str = "error",
) -> OfferLog:
    """Read a log; ``others`` names the columns ``agent``, ``time``, ``within`` and ``action``."""
    check_choice(missing, "missing", ("error", "drop"))
    wanted = {"offer": offer, "outcome": outcome, **others}
    table = read_columns(log, wanted)
    if offer == outcome:
        raise InvalidInputError(f"offer and outcome are both the column {shown(offer, 40)}")
    rows = table.index
    m = numbers_of(column_of(table, outcome), outcome, rows)
    given = column_of(table, offer)
    gone = np.isnan(m) | given.isna().to_numpy(dtype=bool)
    keep = _kept(gone, m, offer, outcome, rows, missing)
    m, rows, given = m[keep], rows[keep], given[keep]
    if m.size < LEAST_ROWS:
        raise InvalidInputError(f"{m.size} rows are too few for limits; {LEAST_ROWS} is the least")
    if (m < floor).any():
        row = int(np.argmax(m < floor))
        raise InvalidInputError(
            f"{outcome} of row {shown(rows[row], 30)} is {m[row]:g}; set floor, or use the amount "
            "before returns"
        )
    offers, power = _offers(given, terms, offer, rows)
    _check_variety(offers, m, terms, outcome)
    extra: dict[str, Any] = {}
    for name, target in (("agent", "agent"), ("within", "stratum"), ("action", "action")):
        if others.get(name) is not None:
            label = str(others[name])
            codes, known = codes_of(column_of(table, label)[keep], label, rows)
            extra[target] = codes if name != "action" else np.array(known, dtype=object)[codes]
    if others.get("time") is not None:
        extra["time"] = _ranks(
            column_of(table, str(others["time"]))[keep], str(others["time"]), rows
        )
    named = tuple((key, str(value)) for key, value in others.items() if value is not None)
    return OfferLog(
        terms, offer, outcome, offers, power, m, rows, columns=named,
        dropped=int(gone.sum()), **extra,
    )  # fmt: skip


def _kept(gone: Any, m: FloatArray, offer: str, outcome: str, rows: pd.Index, missing: str) -> Any:
    """Which rows stay; missing cells are an error unless the user lets them go."""
    if gone.any() and missing == "error":
        first = int(np.argmax(gone))
        lacking = outcome if np.isnan(m[first]) else offer
        count = int(gone.sum())
        raise InvalidInputError(
            f"{count} {'row' if count == 1 else 'rows'} without {shown(lacking, 40)[1:-1]} (first: "
            f"row {shown(rows[first], 30)}): drop them or say missing='drop'; missing outcomes "
            "that depend on the offer bias every number"
        )
    return ~gone


def _offers(
    given: pd.Series, terms: Terms, name: str, rows: pd.Index
) -> tuple[np.ndarray[Any, Any], FloatArray]:
    if not terms.ordered:
        codes, known = codes_of(given, name, rows)
        return np.array(known, dtype=object)[codes], codes.astype(np.float64)
    x = numbers_of(given, name, rows)
    bad = (x < 0) | (x > 1) if terms.is_share else x < 0
    if bad.any():
        at = int(np.argmax(bad))
        hint = " (percent? divide by 100)" if terms.is_share and 1 < x[at] <= 100 else ""
        rule = "a share between 0 and 1" if terms.is_share else "0 or more"
        raise InvalidInputError(
            f"{name} must be {rule}; row {shown(rows[at], 30)} has {x[at]:g}{hint}"
        )
    if not (terms.margin(x) > 0).any():
        least = {"price": "unit_cost", "discount": "unit_cost", "bonus": "unit_value"}
        what = least.get(terms.kind)
        if what is None:
            raise InvalidInputError(f"no tried {name} leaves a margin: nothing to optimise")
        side = "below" if terms.kind == "bonus" else "above"
        money = terms.unit_value if terms.kind == "bonus" else terms.unit_cost
        raise InvalidInputError(
            f"no tried {name} is {side} {what} = {money:g}: there is nothing to optimise"
        )
    return x, terms.power(x)


def _check_variety(offers: Any, m: FloatArray, terms: Terms, outcome: str) -> None:
    """Two offers at least, and outcomes that differ."""
    if len(set(offers.tolist())) < 2:
        raise InvalidInputError(
            f"all {m.size} rows have the offer {shown(offers[0], 40)}: nothing can be learned "
            "about other offers; try a second one in at least 15 rows"
        )
    values, counts = np.unique(m, return_counts=True)
    binary = values.size <= 2 and values[0] == 0.0
    if m.size - counts.max() < 5 and not (binary and values.size == 2):
        common = values[int(counts.argmax())]
        raise InvalidInputError(
            f"{counts.max()} of {m.size} rows have {outcome} {common:g}: at least 5 other values "
            "are needed for limits"
        )


def _ranks(column: pd.Series, name: str, rows: pd.Index) -> FloatArray:
    """Order in time: numbers, dates, or texts whose order is that of time."""
    if column.isna().any():
        row = rows[int(np.argmax(column.isna().to_numpy(dtype=bool)))]
        raise InvalidInputError(f"{name} of row {shown(row, 30)} is missing")
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    if all(isinstance(cell, str) for cell in column):
        column = _times(column.astype(object), name, rows)
    try:
        return np.asarray(column.rank(method="average"), dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name} holds cells that have no order in time") from None


def _times(column: pd.Series, name: str, rows: pd.Index) -> pd.Series:
    """Texts as times: ISO dates, or counters of one form such as w07, which sort as they stand."""
    zoned = column.str.contains(_ZONE)
    try:
        found = pd.to_datetime(column, format="ISO8601", utc=True)
    except (ValueError, TypeError):
        forms = column.str.replace(r"\d", "0", regex=True)
        row = next((i for i, form in enumerate(forms) if form != forms.iloc[0]), None)
        if row is None and "0" in forms.iloc[0] and not _DAY_FIRST.match(column.iloc[0]):
            return column
        at = 0 if row is None else row
        raise InvalidInputError(
            f"{name} of row {shown(rows[at], 30)} is {shown(column.iloc[at], 40)}: give times as "
            "numbers, dates, or texts like 2024-12-31"
        ) from None
    if zoned.any() and not zoned.all():
        row = rows[int(np.argmax((zoned != zoned.iloc[0]).to_numpy()))]
        raise InvalidInputError(
            f"{name} has a time zone in some rows and none in others (row {shown(row, 30)})"
        )
    return found
