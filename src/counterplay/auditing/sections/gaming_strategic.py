"""A rule that was fitted for people who move: the strategic area's linear classifier.

It is fitted inside the training part of each fold, for the middle budget of the config and with
errors weighed by their cost, on the columns as the model prepares them where that is linear, else
as the default model does. Its rows are judged like those of the model: everybody who can afford
the way to acceptance goes there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.auditing.context import Context, quiet
from counterplay.auditing.default_model import encoder
from counterplay.auditing.section import Pilot, Stage
from counterplay.auditing.sections.gaming_rules import weights_of
from counterplay.core.validation import IntArray
from counterplay.errors import CounterplayError
from counterplay.strategic import Moves, StrategicLinearClassifier, cheapest_moves
from counterplay.strategic.fold import LINEAR

MOST_ROWS = 2000  # that one fit looks at
ROUNDS = 40  # searches over all people that one fit takes, about


def strategic_stage(context: Context, moves: Moves, budgets: tuple[float, ...]) -> Stage:
    """Return the stage that fits and judges the rule, one fold an item."""
    folds, n = len(context.folds), context.n

    def seconds(pilot: Pilot, m: int) -> float:
        fitted = min(MOST_ROWS, 4 * n // 5)
        return m * (ROUNDS * pilot.search(fitted) + pilot.search(n // folds))

    def run(context: Context, items: IntArray) -> list[dict[str, Any]]:
        return [r for k in items.tolist() for r in _judged(context, moves, budgets, int(k))]

    return Stage(
        name="strategic", items=folds, n_min=folds, n_want=folds, batch=1, value=0.2,
        seconds=seconds, run=run,
    )  # fmt: skip


def _judged(
    context: Context, moves: Moves, budgets: tuple[float, ...], k: int
) -> list[dict[str, Any]]:
    """Return the bounds of everybody's price of acceptance by the rule of one fold."""
    train, test = context.folds.train[k], context.folds.test[k]
    try:
        model = fitted_rule(context, moves, _middle(budgets), train)
        with quiet():
            plan = cheapest_moves(
                model, _frame(context, test), moves, positive=context.positive, budget=budgets[-1]
            )
    except CounterplayError as error:  # moves or columns that a linear rule cannot take
        return [{"item": k, "row": -1, "lower": 0.0, "upper": 0.0, "why": str(error)}]
    return [
        {"item": k, "row": row, "lower": low, "upper": up}
        for row, low, up in zip(test.tolist(), plan.lower.tolist(), plan.upper.tolist())
    ]


def fitted_rule(context: Context, moves: Moves, budget: float, rows: IntArray) -> Any:
    """Return the rule fitted on some rows, at most 2,000 of them."""
    place = np.argsort(context.order)
    rows = np.sort(rows[np.argsort(place[rows])][:MOST_ROWS])
    weights = weights_of(context, rows)
    rule = StrategicLinearClassifier(
        moves, budget=budget, preprocessor=preparation(context), positive=context.positive
    )
    with quiet():
        return rule.fit(
            _frame(context, rows), context.labels[rows], sample_weight=weights / weights.mean()
        )


def preparation(context: Context) -> Any:
    """Return the unfitted steps before the score: the model's own where its score is linear."""
    from sklearn.base import clone

    steps: Any = getattr(context.template, "steps", ())
    if len(steps) > 1 and type(steps[-1][1]).__name__ in LINEAR:
        return clone(context.template[:-1])
    return encoder(context.table.frame(), scaled=True)


def _frame(context: Context, rows: IntArray) -> Any:
    return context.table.frame().iloc[rows].reset_index(drop=True)


def _middle(budgets: tuple[float, ...]) -> float:
    given = [b for b in budgets if b > 0] or [0.0]
    return given[len(given) // 2]
