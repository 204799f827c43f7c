"""Who moves and how, and what it costs the qualified of each group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.auditing.findings import Column, Grid
from counterplay.auditing.intervals import LEAST_GROUP, Bootstrap, share
from counterplay.auditing.quantity import Basis, Quantity
from counterplay.auditing.sections.gaming_rules import AS_IS, HARDENED, Rules
from counterplay.core.validation import BoolArray

MOST_GROUPS = 12
CHANGES = "What movers change"
GROUPS = "Who pays?"


def movers_table(
    rules: Rules, records: pd.DataFrame
) -> tuple[Grid | None, list[tuple[str, float, str]]]:
    """Return what movers change under the model as it is at the middle budget.

    The list has (column, share of movers, mean change in words), most used first.
    """
    b = rules.headline
    sure, _ = rules.decisions[AS_IS][b]
    calm, _ = rules.decisions[AS_IS][0]
    rows = rules.rows[sure & ~calm]
    if not len(rows):
        return None, []
    mine = records.set_index("row").loc[rows]
    basis: Any = "exact" if rules.at(AS_IS, b).exact else "found"
    found: list[tuple[str, float, str, Quantity]] = []
    for name in [c for c in mine.columns if c.startswith("change:")]:
        used = mine[name].dropna()
        if len(used):
            part = Quantity.certain(len(used) / len(rows), unit="share", n=len(rows), basis=basis)
            found.append((name.removeprefix("change:"), part.value, _mean_change(used), part))
    found.sort(key=lambda item: (-item[1], item[0]))
    grid = Grid(
        title=CHANGES,
        columns=(Column(name="column"), Column(name="share of movers", number=True),
                 Column(name="mean or most frequent change")),
        rows=tuple((name, part, words) for name, _, words, part in found),
        note=f"{len(rows):,} of {len(rules.rows):,} rows move under the model as it is at "
        f"{rules.budgets[b]:g}; {int((~rules.context.wanted[rows]).sum()):,} of them have the "
        "unwanted outcome.",
    )  # fmt: skip
    return grid, [(name, part, words) for name, part, words, _ in found]


def _mean_change(used: pd.Series) -> str:
    """Return the mean change in the unit of the column, or the most common switch."""
    numbers = pd.to_numeric(used, errors="coerce")
    if numbers.notna().all():
        mean = float(numbers.mean())
        return f"{mean:+,.0f}" if abs(mean) >= 100 else f"{mean:+.3g}"
    top = used.astype(str).value_counts()
    return f"{top.index[0]} ({top.iloc[0]:,} of {len(used):,})"


def group_table(rules: Rules) -> Grid | None:
    """Return who of the qualified must move, and who is refused even after moving, by group."""
    names = rules.context.setting("columns", "group", ())
    names = [names] if isinstance(names, str) else list(names)
    y, b = rules.wanted, rules.headline
    moved = rules.decisions[AS_IS][b][0] & ~rules.decisions[AS_IS][0][0]
    last = HARDENED if HARDENED in rules.decisions else AS_IS
    refused = ~rules.decisions[last][b][0]
    price = np.where(moved, rules.upper, 0.0)
    found: Basis = "measured" if rules.at(AS_IS, b).exact else "found"
    lines: list[tuple[Any, ...]] = []
    for name in names:
        values = banded(rules.context.values(name, "[columns] group")[rules.rows])
        for value in sorted(set(values.tolist())):
            own = values == value
            lines.append((name, value, *group_cells(own, y, moved, refused, price, basis=found)))
    if not lines:
        return None
    number = [Column(name=c, number=True) for c in
              ("rows", "qualified", "must move", "refused after moving", "mean price")]  # fmt: skip
    unit = rules.context.setting("effort", "unit", "units of effort")
    return Grid(
        title=GROUPS,
        columns=(Column(name="column"), Column(name="group"), *number),
        rows=tuple(lines),
        note=f"Of the qualified of each group: who must move to be accepted as is at "
        f"{rules.budgets[b]:g}, who is refused under the {last} even after moving, and what "
        f"moving costs on average ({unit}, nothing for who need not move). Groups below "
        f"{LEAST_GROUP} rows have counts only. Decide whether that is acceptable before you deploy "
        f"the {last}.",
    )


def group_cells(
    own: BoolArray,
    y: BoolArray,
    moved: BoolArray,
    refused: BoolArray,
    price: NDArray[Any],
    *,
    basis: Basis = "measured",
) -> tuple[Any, ...]:
    """Return counts of one group, and rates where it has at least 30 rows."""
    rows, good = int(own.sum()), own & y
    able = int(good.sum())

    def count(value: int) -> Quantity:
        return Quantity.certain(value, unit="rows", n=rows)

    def rate(hit: BoolArray) -> Quantity:
        return share(int((good & hit).sum()), able, basis=basis)

    if rows < LEAST_GROUP or not able:
        few = [count(int((good & hit).sum())) for hit in (moved, refused)]
        return count(rows), count(able), *few, None
    low, high = Bootstrap(able, 0).interval(price[good])
    paid = Quantity(
        value=float(price[good].mean()), low=low, high=high, unit="effort", n=able, basis=basis
    )
    return count(rows), count(able), rate(moved), rate(refused), paid


def banded(values: NDArray[Any]) -> NDArray[Any]:
    """Return groups as texts; numbers with many values are cut at their quartiles."""
    column = pd.Series(values)
    if column.nunique() > MOST_GROUPS and pd.api.types.is_numeric_dtype(column):
        column = pd.qcut(column, 4, duplicates="drop").astype(str)
    texts: NDArray[Any] = column.astype(object).where(column.notna(), "missing").astype(str)
    return np.asarray(texts)
