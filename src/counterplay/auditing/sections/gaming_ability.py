"""What people can spend, estimated from tables of before and after the model was in force."""

from __future__ import annotations

from typing import Any

import pandas as pd

from counterplay.auditing.context import Context, quiet
from counterplay.auditing.findings import Finding
from counterplay.auditing.quantity import Quantity
from counterplay.core.validation import IntArray
from counterplay.strategic import Moves, estimate_ability
from counterplay.tables import Table, read_table


def has_samples(context: Context) -> bool:
    """Whether the config names both tables."""
    return bool(context.setting("effort", "before") and context.setting("effort", "after"))


def able_records(context: Context, moves: Moves, budget: float) -> list[dict[str, Any]]:
    """Return which share of people can spend a budget, with the band of the estimate."""
    names = context.table.names
    before, after = (
        Table.of(
            read_table(context.setting("effort", key)).frame, columns=names, extra="drop", what=key
        ).frame()
        for key in ("before", "after")
    )
    with quiet():
        found = estimate_ability(
            context.estimator, before, after, moves, positive=context.positive,
            random_state=context.seed,
        )  # fmt: skip
    low, high = found.band([budget])
    return [
        {
            "item": 0, "budget": budget, "able": 1 - float(found.cdf([budget])[0]),
            "low": 1 - float(high[0]), "high": 1 - float(low[0]),
            "rows": len(before) + len(after), "refuted": "; ".join(found.refuted),
        }
    ]  # fmt: skip


def able_findings(records: pd.DataFrame) -> list[Finding]:
    """Say which share of people can spend the middle budget."""
    if not len(records):
        return []
    row = records.iloc[0]
    able = min(max(row["able"], row["low"]), row["high"])
    share = Quantity(
        value=able, low=row["low"], high=row["high"], unit="share", basis="measured",
        n=int(row["rows"]), assumes=("costs of moves", "the same people before and after"),
    )  # fmt: skip
    sentence = (
        f"From before and after: {share} of people can spend {row['budget']:g}, if the population "
        "is the same."
    )
    if row["refuted"]:
        sentence += f" The samples refute an assumption: {row['refuted']}."
    return [Finding(name="able", sentence=sentence, severity="low", quantity=share)]


def able_stage(context: Context, items: IntArray) -> list[dict[str, Any]]:
    """Return the record of the stage: one item."""
    from counterplay.auditing.sections.gaming import budgets_of, moves_of

    given = [b for b in budgets_of(context) if b > 0]
    return able_records(context, moves_of(context), given[len(given) // 2])
