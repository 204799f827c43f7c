"""Moves that work against any model: start from destinations that may work, then undo.

Starts are accepted people, copied as far as allowed, and the destinations for a tree ensemble that
was fitted to the model's own decisions. Every move found is checked with the model's own
``predict``; its price is called "found".

Source: "Everything else", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.strategic.asking import Changes, destinations
from counterplay.strategic.columns import as_floats, frame_of
from counterplay.strategic.fold import Asked
from counterplay.strategic.move_blocks import CategoryBlock, NumberBlock
from counterplay.strategic.moves import Moves

STARTS = 5
MOST_MODELS_TO_COPY = 300
BISECTIONS = 25


Cells = dict[Any, list[Any]]


def search_moves(
    asked: Asked, moves: Moves, who: IntArray, more: list[Changes]
) -> tuple[FloatArray, Changes]:
    """Return prices found and changed cells, from accepted people and ``more`` destinations."""
    frame = asked.frame
    best = np.full(who.size, np.inf)
    chosen = {name: frame[name].iloc[who].tolist() for name in moves.touched}
    trials = [_cells(frame, moves, who, changes) for changes in more]
    pool = _accepted(asked, moves)
    if len(pool) and moves.alone:
        trials += _starts(frame.iloc[who], pool, moves)
    if trials:
        _improve(asked, moves, who, trials, best, chosen)
    changes = {}
    for name in moves.touched:
        own = frame[name].iloc[who].tolist()
        places = [i for i, (a, b) in enumerate(zip(own, chosen[name])) if _differ(a, b)]
        changes[name] = (np.array(places, dtype=np.int64), [chosen[name][i] for i in places])
    return best, changes


def _cells(frame: pd.DataFrame, moves: Moves, who: IntArray, changes: Changes) -> Cells:
    """Return changes as full columns."""
    found = {name: frame[name].iloc[who].tolist() for name in moves.touched}
    for name, (places, values) in changes.items():
        for i, value in zip(places.tolist(), values):
            found[name][i] = value
    return found


def _differ(a: Any, b: Any) -> bool:
    return not (a is b or a == b or (pd.isna(a) and pd.isna(b)))


def _accepted(asked: Asked, moves: Moves) -> pd.DataFrame:
    """Return accepted people of the table and of the reference data, at most 300."""
    parts = [asked.frame]
    if moves.reference is not None:
        other = frame_of(moves.reference)
        if set(other.columns) >= set(asked.frame.columns):
            parts.append(other[list(asked.frame.columns)])
    kept = [part.iloc[np.flatnonzero(asked.accepts(part))] for part in parts]
    names = list(moves.touched)
    pool = pd.concat([part[names] for part in kept], ignore_index=True)
    if len(pool) > MOST_MODELS_TO_COPY:
        rows = np.linspace(0, len(pool) - 1, MOST_MODELS_TO_COPY).astype(np.int64)
        pool = pool.iloc[np.unique(rows)]
    return pool


def _starts(people: pd.DataFrame, pool: pd.DataFrame, moves: Moves) -> list[Cells]:
    """Return the cheapest accepted people to copy, snapped to what each person can do."""
    n, m = len(people), len(pool)
    total = np.zeros((n, m))
    snapped: dict[Any, Any] = {}
    for name, block in moves.alone.items():
        if isinstance(block, CategoryBlock):
            a, b = block.codes(people[name])[:, None], block.codes(pool[name])[None, :]
            price = block.price_codes(a, b)
            snapped[name] = np.where(np.isfinite(price), np.broadcast_to(b, (n, m)), a)
        else:
            x = as_floats(people[name].to_numpy(), name)[:, None]
            goal = np.broadcast_to(as_floats(pool[name].to_numpy(), name)[None, :], (n, m))
            snapped[name], price = _snap(block, np.broadcast_to(x, (n, m)), goal)
        price = np.where(np.isfinite(price), price, 0.0)
        total = np.maximum(total, price) if np.isinf(moves.power) else total + price**moves.power
    order = np.argsort(total, axis=1)[:, : min(STARTS, m)]
    trials = []
    for k in range(order.shape[1]):
        cells = {name: people[name].tolist() for name in moves.touched}
        for name, block in moves.alone.items():
            picked = snapped[name][np.arange(n), order[:, k]]
            own = people[name].tolist()
            if isinstance(block, CategoryBlock):
                cells[name] = [
                    block.categories[c] if c >= 0 else own[i] for i, c in enumerate(picked.tolist())
                ]
            else:
                cells[name] = [own[i] if np.isnan(v) else v for i, v in enumerate(picked.tolist())]
        trials.append(cells)
    return trials


def _snap(block: NumberBlock, x: FloatArray, goal: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the allowed values nearest to the goals on the way from x, and their prices."""
    with np.errstate(invalid="ignore"):
        value = np.where(goal > x, block.reach_down(x, goal), block.reach_up(x, goal))
        value = np.where(np.isnan(x), block.fill_start, value)
    price = block.price(x, value)
    value = np.where(np.isfinite(price), value, x)
    return value, np.where(np.isfinite(price), price, 0.0)


def _improve(
    asked: Asked,
    moves: Moves,
    who: IntArray,
    trials: list[Cells],
    best: FloatArray,
    chosen: Cells,
) -> None:
    """Undo what is not needed, walk back what is, and keep what is cheaper than before.

    All trials go side by side, one row per trial and person: asking the model is what takes long,
    and it takes little longer for many rows.
    """
    rows = np.tile(who, len(trials))
    people = asked.frame.iloc[rows]
    places = np.arange(rows.size)
    own = {name: people[name].tolist() for name in moves.touched}
    units = [(name,) for name in moves.alone] + [joint.columns for joint in moves.joint]
    units = [tuple(c for c in unit if c in own) for unit in units]
    parts = [slice(k * who.size, (k + 1) * who.size) for k in range(len(trials))]

    def moved(cells: Cells) -> pd.DataFrame:
        changed = {name: (places, values) for name, values in cells.items()}
        return destinations(asked.frame, rows, changed)

    def accepted(cells: Cells) -> BoolArray:
        return asked.accepts(moved(cells))

    current = {name: [v for trial in trials for v in trial[name]] for name in own}
    works = accepted(current)
    if not works.any():
        return
    for _ in range(2):
        orders = [_dearest_first(moves, units, own, current, at) for at in parts]
        for step in zip(*orders):  # one unit of every trial
            test = {**current, **{name: list(current[name]) for unit in step for name in unit}}
            for at, unit in zip(parts, step):
                for name in unit:
                    test[name][at] = own[name][at]
            fine = accepted(test) & works
            for name in {name for unit in step for name in unit}:
                current[name] = [t if f else c for t, c, f in zip(test[name], current[name], fine)]
        for name, block in moves.alone.items():
            if isinstance(block, NumberBlock):
                current[name] = _walk_back(block, name, own, current, works, accepted)
    prices = moves.price(people, moved(current))
    for at in parts:
        better = works[at] & (prices[at] < best)
        best[better] = prices[at][better]
        for name, values in current.items():
            for i in np.flatnonzero(better).tolist():
                chosen[name][i] = values[at][i]


def _dearest_first(
    moves: Moves, units: list[tuple[Any, ...]], own: Cells, current: Cells, at: slice
) -> list[tuple[Any, ...]]:
    prices = np.array([_mean_price(moves, unit, own, current, at) for unit in units])
    return [units[k] for k in np.argsort(-prices, kind="stable")]


def _mean_price(
    moves: Moves, unit: tuple[Any, ...], own: Cells, current: Cells, at: slice
) -> float:
    """Return what the columns of a unit cost on average in one trial, counted alone."""
    total = 0.0
    for name in unit:
        block, before, after = moves.blocks.get(name), own[name][at], current[name][at]
        if isinstance(block, NumberBlock):
            price = block.price(as_floats(before, name), as_floats(after, name))
        elif block is not None:
            price = block.price(np.array(before, object), np.array(after, object))
        else:
            continue
        finite = price[np.isfinite(price)]
        total += float(finite.mean()) if finite.size else 0.0
    return total


def _walk_back(
    block: NumberBlock,
    name: Any,
    own: Cells,
    current: Cells,
    works: BoolArray,
    accepted: Any,
) -> list[Any]:
    """Bisect one column between the own value and the current one; the result is accepted."""
    x, z = as_floats(own[name], name), as_floats(current[name], name)
    near, far = x.copy(), z.copy()
    for _ in range(BISECTIONS):
        middle = near + (far - near) / 2
        with np.errstate(invalid="ignore"):
            value = np.where(z > x, block.reach_up(x, middle), block.reach_down(x, middle))
        inside = np.isfinite(value) & (np.abs(value - x) < np.abs(far - x)) & works
        if not inside.any():
            break
        cells = [v if i else c for v, c, i in zip(value.tolist(), far.tolist(), inside)]
        cells = [o if np.isnan(c) else c for o, c in zip(current[name], cells)]
        fine = accepted({**current, name: cells}) & inside
        far = np.where(fine, value, far)
        near = np.where(fine | ~np.isfinite(middle), near, middle)
    return [c if np.isnan(f) else f for c, f in zip(current[name], far.tolist())]
