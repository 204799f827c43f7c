"""What does gaming cost: everybody who can afford the way to acceptance goes there.

Prices, menus, cheapest moves, best shown scores and cuts are those of the area ``strategic``; this
section says for which rows, which model judges them, and on which rows a cut is chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from counterplay.auditing.context import Context, quiet
from counterplay.auditing.findings import Missing, SectionResult
from counterplay.auditing.section import Stage, stage_records
from counterplay.auditing.sections.gaming_ability import able_stage, has_samples
from counterplay.auditing.sections.gaming_plan import MANY, Pace
from counterplay.auditing.sections.gaming_result import gaming_result
from counterplay.auditing.sections.gaming_rules import rules_from, weights_of
from counterplay.auditing.sections.gaming_strategic import strategic_stage
from counterplay.core.validation import IntArray
from counterplay.strategic import Moves, cheapest_moves
from counterplay.strategic.best_shown import best_shown
from counterplay.strategic.cuts import cut_over_budgets
from counterplay.strategic.fold import LINEAR
from counterplay.strategic.rethreshold import scoring_model
from counterplay.tables import Table

STAGES = ("moves", "calm", "shown", "fixed", "strategic", "ability")
NODES = 4000
FEW = 40  # rows of a batch at least, where moves are searched


class GamingSection:
    """What does gaming cost?"""

    name, title, order, version = "gaming", "What does gaming cost?", 10, 1
    reads = ("data", "columns", "moves", "movable", "effort", "costs")

    def needs(self, context: Context) -> list[Missing]:
        """Return what is missing: moves with prices, budgets, a table with columns."""
        found = []
        if context.table.container not in ("table", "matrix") or context.table.is_sparse:
            return [Missing(sentence="Moves are about the columns of a table; this is text.")]
        if not context.settings.get("movable"):
            found.append(
                Missing(
                    sentence="Nobody can guess what a move costs: say what people can change.",
                    key="[movable.COLUMN]",
                )
            )
        if not context.setting("effort", "budgets"):
            found.append(Missing(sentence="Say what one person can spend.", key="[effort] budgets"))
        return found

    def stages(self, context: Context) -> list[Stage]:
        """Return cheapest moves, best shown scores, and the model without movable columns."""
        moves_of(context)  # its complaints come before anything is computed
        n, least = context.n, batch_of(context)
        pace = Pace(context, least)
        found = [
            Stage(
                name="moves", items=n, n_min=min(n, 200), n_want=n, batch=least, value=1.0,
                seconds=pace.moves, sized=pace.moves_size, run=_moves, prepare=_outer,
            )
        ]  # fmt: skip
        if has_score(context.estimator):
            found.append(
                Stage(
                    name="calm", items=n, n_min=n, n_want=n, batch=5000, value=0.1,
                    seconds=lambda pilot, m: 2 * pilot.predict * m, run=_calm, prepare=_outer,
                )
            )  # fmt: skip
            found.append(
                Stage(
                    name="shown", items=n, n_min=min(n, 200), n_want=n, batch=least, value=1.0,
                    seconds=pace.shown, sized=pace.shown_size, run=_shown, prepare=_every,
                )
            )  # fmt: skip
        if context.template is not None and has_score(context.estimator):
            folds = len(context.folds)
            found.append(
                Stage(
                    name="fixed", items=folds, n_min=folds, n_want=folds, batch=1, value=0.2,
                    seconds=pace.fixed, run=_fixed,
                )
            )  # fmt: skip
            if context.setting("effort", "fit", False):
                found.append(strategic_stage(context, moves_of(context), budgets_of(context)))
        if has_samples(context):
            found.append(
                Stage(
                    name="ability", items=1, n_min=1, n_want=1, batch=1, value=0.1,
                    seconds=lambda pilot, m: 10.0 + 1000 * pilot.moves, run=able_stage,
                )
            )  # fmt: skip
        return found

    def result(self, context: Context, records: pd.DataFrame) -> SectionResult:
        """Return the decision table per budget, who moves and how, what to deploy instead."""
        parts = {name: stage_records(records, name) for name in STAGES}
        return gaming_result(context, rules_from(context, parts, budgets_of(context)), parts)


def moves_of(context: Context) -> Moves:
    """Return the moves of the config, read once."""
    if "moves" not in context.fits:
        content = {
            "moves": context.settings.get("moves") or {},
            "movable": context.settings.get("movable") or {},
        }
        source = context.table if context.train is None else context.train[0]
        codes = context.setting("data", "special_codes")
        with quiet():
            context.fits["moves"] = Moves.from_toml(
                content, reference=source.frame(), codes=codes or None
            )
    moves: Moves = context.fits["moves"]
    return moves


def budgets_of(context: Context) -> tuple[float, ...]:
    """Return 0 and the budgets of the config in rising order."""
    given = context.setting("effort", "budgets", [])
    return tuple(sorted({0.0, *(float(b) for b in given)}))


def batch_of(context: Context) -> int:
    """Return the rows of a batch: many where scores add up, few where moves are searched."""
    model: Any = context.estimator
    while hasattr(model, "steps") or hasattr(model, "estimator"):
        model = model.steps[-1][1] if hasattr(model, "steps") else model.estimator
    return MANY if type(model).__name__ in LINEAR else FEW


def has_score(model: Any) -> bool:
    """Return whether a model gives a score, so that its cut can move."""
    try:
        scoring_model(model)
    except ValueError:
        return False
    return True


def cheapest_of(context: Context, rows: IntArray) -> Any:
    """Return the cheapest moves of some rows against the given model."""
    with quiet():
        return cheapest_moves(
            context.estimator, context.table.take(rows), moves_of(context),
            positive=context.positive, budget=budgets_of(context)[-1],
        )  # fmt: skip


def shown_of(context: Context, rows: IntArray) -> Any:
    """Return the best scores that some rows can show to the given model."""
    return _best_shown(context, context.estimator, rows)


def _outer(context: Context) -> list[Callable[[], Any]]:
    """Return the fits of the clones that judge, made before batches are handed to workers."""
    if not context.cross_fitted:
        return []
    return [partial(context.model_of, k) for k in range(len(context.folds))]


def _every(context: Context) -> list[Callable[[], Any]]:
    """Return the fits of the clones that judge, and of those inside their training rows."""
    inside = [
        partial(context.model_of, k, j)
        for k in range(len(context.folds) if context.cross_fitted else 0)
        for j in range(len(context.inside(k)))
    ]
    return _outer(context) + inside


def _judges(context: Context, rows: IntArray) -> list[tuple[Any, IntArray]]:
    """Return the model that judges each part of some rows, with the positions in them."""
    if not context.cross_fitted:
        return [(context.estimator, np.arange(len(rows)))]
    fold = context.folds.of_row[rows]
    return [
        (context.model_of(int(k)), np.flatnonzero(fold == k)) for k in np.unique(fold[fold >= 0])
    ]


def _moves(context: Context, items: IntArray) -> list[dict[str, Any]]:
    """Return the bounds of everybody's price, and what the found move changes."""
    rows = context.order[items]
    budget = budgets_of(context)[-1]
    records: list[dict[str, Any]] = []
    for model, places in _judges(context, rows):
        part = context.table.take(rows[places])
        with quiet():
            plan = cheapest_moves(
                model, part, moves_of(context), positive=context.positive, budget=budget
            )
            changed = plan.changes() if (plan.upper > 0).any() else None
        mine = [
            {"item": int(items[i]), "row": int(rows[i]), "lower": low, "upper": up, "exact": sure}
            for i, low, up, sure in zip(
                places.tolist(), plan.lower.tolist(), plan.upper.tolist(), plan.exact.tolist()
            )
        ]
        if changed is not None:
            _note_changes(mine, plan.people.index, changed)
        records += mine
    return records


def _calm(context: Context, items: IntArray) -> list[dict[str, Any]]:
    """Return decisions and scores of everybody where nobody moves."""
    rows = context.order[items]
    records: list[dict[str, Any]] = []
    for model, places in _judges(context, rows):
        part = context.table.part(rows[places])
        accepted = context.accepts(model, part)
        scores = context.scores(scoring_model(model), part)
        records += [
            {"item": int(items[i]), "row": int(rows[i]), "accepted": yes, "score": s}
            for i, yes, s in zip(places.tolist(), accepted.tolist(), scores.tolist())
        ]
    return records


def _note_changes(records: list[dict[str, Any]], index: pd.Index, changed: pd.DataFrame) -> None:
    """Write changes of cells into the records: a difference of numbers, or ``from -> to``."""
    place = {person: i for i, person in enumerate(index.tolist())}
    for row in changed.itertuples(index=False):
        record = records[place[row.person]]
        try:
            record[f"change:{row.column}"] = float(row.after) - float(row.before)
        except (TypeError, ValueError):
            record[f"change:{row.column}"] = f"{row.before} -> {row.after}"


def _shown(context: Context, items: IntArray) -> list[dict[str, Any]]:
    """Return the best scores that people can show: to their judge, and inside training parts."""
    rows = context.order[items]
    records: dict[int, dict[str, Any]] = {
        int(row): {"item": int(item), "row": int(row)} for item, row in zip(items, rows)
    }
    for model, places in _judges(context, rows):
        _note_shown(context, model, rows[places], records, "")
    if context.cross_fitted:
        for k in range(len(context.folds)):
            inside = context.inside(k)
            place = inside.of_row[rows]
            for j in np.unique(place[place >= 0]).tolist():
                model = context.model_of(k, j)
                _note_shown(context, model, rows[place == j], records, f"{k}:")
    return list(records.values())


def _note_shown(
    context: Context, model: Any, rows: IntArray, records: dict[int, dict[str, Any]], prefix: str
) -> None:
    if not len(rows):
        return
    found = _best_shown(context, model, rows)
    for i, row in enumerate(rows.tolist()):
        for b in range(len(found.budget)):
            records[row][f"{prefix}low{b}"] = float(found.low[i, b])
            if found.high[i, b] != found.low[i, b]:
                records[row][f"{prefix}high{b}"] = float(found.high[i, b])


def _best_shown(context: Context, model: Any, rows: IntArray) -> Any:
    with quiet():
        return best_shown(
            scoring_model(model), context.table.take(rows), moves_of(context),
            list(budgets_of(context)), positive=context.positive, nodes=NODES,
        )  # fmt: skip


def _fixed(context: Context, items: IntArray) -> list[dict[str, Any]]:
    """Return decisions of clones that cannot see movable columns, at their honest cut."""
    table = held_fixed(context)
    records = []
    for k in items.tolist():
        inside, train = context.inside(k), context.folds.train[k]
        scores = np.full(context.n, np.nan)
        for rows, test in zip(inside.train, inside.test):
            model = scoring_model(context.fit(rows, table))
            scores[test] = context.scores(model, table.part(test))
        judged = train[np.isfinite(scores[train])]
        own = scores[judged][:, None]
        cut = cut_over_budgets(
            own, own, context.wanted[judged], [0.0], sample_weight=weights_of(context, judged)
        ).cut
        test = context.folds.test[k]
        model = scoring_model(context.fit(train, table))
        shown = context.scores(model, table.part(test))
        records += [
            {"item": k, "row": row, "accepted": bool(s >= cut)}
            for row, s in zip(test.tolist(), shown.tolist())
        ]
    return records


def held_fixed(context: Context) -> Table:
    """Return the table with every movable column constant: a model cannot use it."""
    frame = context.table.frame().copy()
    for name in moves_of(context).touched:
        place = name if name in frame.columns else frame.columns[int(name)]
        column = frame[place]
        known = column.dropna()
        if not len(known):
            continue
        middle = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
        ranked = known.sort_values() if middle else known.mode()
        value = ranked.iloc[len(ranked) // 2 if middle else 0]
        frame[place] = pd.Series([value] * len(frame), index=frame.index).astype(column.dtype)
    if isinstance(context.table.rows, pd.DataFrame):
        return Table.of(frame)
    return Table.of(frame.to_numpy())
