"""A few timed calls before the plan: one prediction, one refit, a few moves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from counterplay.auditing.context import Context
from counterplay.auditing.section import Pilot
from counterplay.errors import InvalidInputError
from counterplay.tables import Table

MANY = 4000  # rows of a prediction
FEW, SOME = 10, 60  # rows whose moves are searched
FIRST, STEP = 200, 4  # rows of the first refit, and how many times more the next one has
SHARE, MOST = 0.05, 10.0  # of the budget, and seconds, that each part of the pilot may take


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
    predict = _predictions(context, part, len(rows), most)
    spent = time.perf_counter() - started
    if spent > budget:
        raise InvalidInputError(
            f"{budget:.0f} s is too short: reading and one prediction take {spent:.0f} s. Give at "
            f"least {10 * max(1, round(2.5 * spent / 10)):.0f} s."
        )
    found = Pilot(predict=predict, fits=_refits(context, most))
    return _with_moves(context, found, most) if moves else found


def _predictions(context: Context, part: Table, n: int, most: float) -> float:
    """Return the seconds of a prediction per row, on many rows if they are quick."""

    def once(rows: Table) -> float:
        return _timed(lambda: context.accepts(context.estimator, rows))

    first = float(np.median([once(part) for _ in range(3)]))
    many = min(context.n, MANY)
    if many <= n or first * many / n > most:
        return first / n
    return once(context.table.part(np.sort(context.order[:many]))) / many


def _refits(context: Context, most: float) -> tuple[tuple[int, float], ...]:
    """Return rows and seconds of refits, of more and more rows as long as there is time."""
    if context.template is None:
        return ()
    n, spent = context.n, 0.0
    rows = np.sort(context.order[: min(n, FIRST)])
    if len(np.unique(context.wanted[rows])) < 2:
        rows = np.arange(n)
    context.fit(rows)
    found = [(len(rows), _timed(partial(context.fit, rows)))]
    while len(rows) < n:
        size = min(n, STEP * len(rows))
        spent += found[-1][1]
        if spent + found[-1][1] * size / len(rows) > most:  # most learners do not grow faster
            break
        rows = np.sort(context.order[:size])
        found.append((size, _timed(partial(context.fit, rows))))
    return tuple(found)


def refined(context: Context, pilot: Pilot, most: float) -> Pilot | None:
    """Return the pilot with a refit of more rows; None if there is none within so many seconds.

    Few rows say too much about many: a line through the refits of 200 and 800 rows on a busy
    machine can be ten times above that of 30,000.
    """
    if context.template is None or not pilot.fits or pilot.fits[-1][0] >= context.n:
        return None
    last, seconds = pilot.fits[-1]
    size = min(context.n, STEP * last)
    if seconds * size / last > most:
        return None
    rows = np.sort(context.order[:size])
    if len(np.unique(context.wanted[rows])) < 2:
        return None
    return replace(pilot, fits=(*pilot.fits, (size, _timed(partial(context.fit, rows)))))


def _with_moves(context: Context, pilot: Pilot, most: float) -> Pilot:
    """Return the pilot with the seconds of searches: per call, and per row."""
    from counterplay.auditing.sections.gaming import cheapest_of, has_score, shown_of

    usable = context.table.container in ("table", "matrix") and not context.table.is_sparse
    if not context.settings.get("movable") or not usable:
        return pilot
    try:
        moves_base, moves = _line(context, cheapest_of, most)
        shown_base, shown = 0.0, 0.0
        if has_score(context.estimator):
            shown_base, shown = _line(context, shown_of, most)
    except InvalidInputError:
        return pilot  # the section itself says what is wrong
    return replace(
        pilot, moves=moves, moves_base=moves_base, shown=shown, shown_base=shown_base
    )  # fmt: skip


def _line(
    context: Context, work: Callable[[Context, Any], Any], most: float
) -> tuple[float, float]:
    """Return the seconds of a search per call and per row, of few rows and of more.

    One row alone is a rejected one: who is accepted does not move.
    """
    few, some = context.order[:FEW], context.order[:SOME]
    rejected = some[~context.accepts(context.estimator, context.table.part(some))]
    one = np.append(rejected, some)[:1]
    work(context, one)  # compiles what it needs
    base, second = _timed(partial(work, context, one)), _timed(partial(work, context, few))
    slope = max(0.0, second - base) / max(1, len(few) - 1)
    if len(some) > len(few) and base + slope * len(some) <= most:
        slope = max(0.0, _timed(partial(work, context, some)) - base) / (len(some) - 1)
    return max(0.0, base - slope), slope


def _timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
