"""The pictures of the section: money over the budget and over the share, changes, groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from counterplay.auditing.findings import Chart, Figure, Grid, Series
from counterplay.auditing.quantity import Quantity
from counterplay.auditing.sections.gaming_rules import AS_IS, HARDENED, HONEST, Rules
from counterplay.auditing.sections.honest import plain_cost
from counterplay.auditing.sections.honest_words import PLAIN

if TYPE_CHECKING:
    from counterplay.auditing.sections.gaming_actions import Worth
    from counterplay.auditing.sections.gaming_result import Line

MOST_BARS = 12


def figures(
    rules: Rules, table: list[Line], changes: Grid | None, groups: Grid | None, worth: Worth
) -> Iterator[Figure]:
    """Yield the pictures that there is something to show for."""
    yield _money(rules, table)
    if HARDENED in rules.decisions:
        yield _shares(rules, worth)
    if changes is not None:
        yield _changes(changes)
    if groups is not None:
        yield from _groups(groups, rules.context.setting("effort", "unit", "units of effort"))


def _money(rules: Rules, table: list[Line]) -> Figure:
    series = []
    for rule in rules.decisions:
        lines = [line for line in table if line.rule == rule]
        series.append(
            Series(
                label=rule, x=rules.budgets, y=tuple(line.money.value for line in lines),
                low=tuple(line.money.low for line in lines),
                high=tuple(line.money.high for line in lines),
            )
        )  # fmt: skip
    for rule in PLAIN:
        cost = 1000 * float(plain_cost(rules.context, rule, rules.paid_rows).mean())
        ends = (rules.budgets[0], rules.budgets[-1])
        series.append(Series(label=rule, x=ends, y=(cost, cost), style="dashed"))
    unit = rules.context.setting("effort", "unit", "units of effort")
    first, last = table[0].money.value, table[len(rules.budgets) - 1].money.value
    return Figure(
        title="Money against effort",
        alt=f"Cost of every rule over the effort people can spend. The model as it is costs "
        f"{first:,.0f} if nobody games and {last:,.0f} at {rules.budgets[-1]:g} {unit}.",
        chart=Chart(
            x_label=f"effort ({unit})", y_label=rules.context.money_unit, series=tuple(series)
        ),
    )


def _shares(rules: Rules, worth: Worth) -> Figure:
    b = rules.headline
    series = []
    for rule in (AS_IS, HONEST, HARDENED):
        ends = [1000 * float(rules.cost(rule, k)[0].mean()) for k in (0, b)]
        series.append(Series(label=rule, x=(0.0, 1.0), y=tuple(ends)))
    crossing = worth.crossing
    if crossing is not None and crossing.kind in ("from", "below"):
        s = crossing.share
        one, two = series[1].y
        series.append(
            Series(label="break-even", x=(s,), y=((1 - s) * one + s * two,), style="mark")
        )
    return Figure(
        title="Money against the share of people who game",
        alt=f"Cost of three rules over the share of people who game at {rules.budgets[b]:g}. "
        f"{worth.pays_sentence()}",
        chart=Chart(
            x_label="share of people who game", y_label=rules.context.money_unit,
            series=tuple(series),
        ),
    )  # fmt: skip


def _changes(grid: Grid) -> Figure:
    rows: list[Any] = list(grid.rows[:MOST_BARS])
    return Figure(
        title="What movers change",
        alt="Share of movers that change each column: "
        + ", ".join(f"{row[0]} {row[1].value:.0%}".replace("%", " %") for row in rows[:5]),
        chart=Chart(
            x_label="share of movers", y_label="column", horizontal=True,
            series=(
                Series(label="share of movers", x=tuple(str(row[0]) for row in rows),
                       y=tuple(float(row[1].value) for row in rows), style="bars"),
            ),
        ),
        table=grid,
    )  # fmt: skip


def _groups(grid: Grid, unit: str) -> Iterator[Figure]:
    rows: list[Any] = [row for row in grid.rows if isinstance(row[6], Quantity)][:MOST_BARS]
    if not rows:
        return
    names = tuple(f"{row[0]}: {row[1]}" for row in rows)
    yield Figure(
        title="Price paid by the qualified, by group",
        alt="Mean price that the qualified of each group pay: "
        + ", ".join(f"{name} {row[6].value:.2g}" for name, row in zip(names, rows)),
        chart=Chart(
            x_label=f"mean price ({unit})", y_label="group", horizontal=True,
            series=(
                Series(label="mean price", x=names, style="bars",
                       y=tuple(float(row[6].value) for row in rows),
                       low=tuple(float(row[6].low) for row in rows),
                       high=tuple(float(row[6].high) for row in rows)),
            ),
        ),
        table=grid,
    )  # fmt: skip
