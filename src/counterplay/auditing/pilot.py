"""A few timed calls before the plan: one prediction, one refit, a few moves."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from counterplay.auditing.context import Context
from counterplay.auditing.section import Pilot
from counterplay.errors import InvalidInputError

FEW, SOME, REFIT = 10, 50, 2000
SHARE, MOST = 0.05, 10.0  # of the budget, and seconds, that the pilot may take


def measure(context: Context, budget: float, *, started: float, moves: bool = True) -> Pilot:
    """Return the seconds of predictions, refits and moves; raise if the budget is below them.

    Parameters
    ----------
    context
        Model, table and settings.
    budget
        Seconds of the whole audit.
    started
        When the audit began.
    moves
        Whether moves are to be timed.
    """
    most = min(MOST, max(1.0, SHARE * budget))
    rows = np.sort(context.order[:200])
    part = context.table.part(rows)
    context.accepts(context.estimator, part)  # the first call loads what it needs
    predict = float(np.median([_timed(lambda: context.accepts(context.estimator, part))
                               for _ in range(3)]))  # fmt: skip
    spent = time.perf_counter() - started
    if spent > budget:
        raise InvalidInputError(
            f"{budget:.0f} s is too short: reading and one prediction take {spent:.0f} s. Give at "
            f"least {10 * max(1, round(2.5 * spent / 10)):.0f} s."
        )
    base, slope = _refits(context, most)
    moves_base, each = _moves(context, budget) if moves else (0.0, 0.0)
    return Pilot(
        predict=predict / len(rows), refit=slope, refit_base=base, moves=each,
        moves_base=moves_base,
    )  # fmt: skip


def _refits(context: Context, most: float) -> tuple[float, float]:
    """Return seconds of a refit: whatever its rows, and per row."""
    if context.template is None:
        return 0.0, 0.0
    n = context.n
    small = np.sort(context.order[: min(n, 200)])
    if len(np.unique(context.wanted[small])) < 2:
        small = np.arange(n)
    context.fit(small)
    first = _timed(lambda: context.fit(small))
    large = np.sort(context.order[: min(n, REFIT)])
    if len(large) <= len(small) or first * len(large) / len(small) > most:
        return 0.0, first / len(small)
    second = _timed(lambda: context.fit(large))
    slope = max(0.0, (second - first) / (len(large) - len(small)))
    return max(0.0, first - slope * len(small)), slope


def _moves(context: Context, budget: float) -> tuple[float, float]:
    """Return seconds of cheapest moves: per call, and per row."""
    from counterplay.auditing.sections.gaming import cheapest_of

    usable = context.table.container in ("table", "matrix") and not context.table.is_sparse
    if not context.settings.get("movable") or not usable:
        return 0.0, 0.0
    try:
        few, some = context.order[:FEW], context.order[FEW : FEW + SOME]
        cheapest_of(context, few)  # compiles what it needs
        first = _timed(lambda: cheapest_of(context, few))
        if not len(some) or first > SHARE * budget:
            return 0.0, first / len(few)
        second = _timed(lambda: cheapest_of(context, some))
    except InvalidInputError:
        return 0.0, 0.0  # the section itself says what is wrong
    slope = max(0.0, second - first) / max(1, len(some) - len(few))
    return max(0.0, first - slope * len(few)), slope


def _timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
