"""Cheapest accepted moves against scores that are sums over columns, behind real pipelines.

A linear model behind column-wise steps (scalers, imputers, encoders, bins, splines) gives a score
that is a sum of one function per raw column. The functions are not retyped: the model is asked for
its score with one column set to every value that matters. What is left is a knapsack per person.

Source: "Additive scores", "Fold by asking", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.strategic.fold import (
    LINEAR,
    Asked,
    OpenModel,
    column_wise,
    has_probabilities,
)
from counterplay.strategic.knapsack import MOST_STATES, fill_lines, solve, solve_max
from counterplay.strategic.move_blocks import Block, CategoryBlock, NumberBlock
from counterplay.strategic.moves import Moves, as_floats, frame_of, thinned
from counterplay.tables.cells import is_missing

LONGEST_MENU = 64  # more equal steps than that are kept as a stair
MOST_OPTIONS = 20_000
CHUNK = 1000
SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class AdditiveScore:
    """A score that is a sum over columns, ready to be asked.

    Parameters
    ----------
    asked
        The model with its people.
    opened
        The model taken apart.
    blocks
        Prices of the columns that move; shaped columns have got a grid.
    slopes
        Gain of one raw unit of each column on which the score is affine.
    scores
        Score of each person.
    cut
        Accepted are scores above it.
    strict
        Whether a score at the cut is rejected.
    """

    asked: Asked
    opened: OpenModel
    blocks: Mapping[Any, Block]
    slopes: Mapping[Any, float]
    scores: FloatArray
    cut: float
    strict: bool

    @property
    def grids(self) -> dict[Any, int]:
        """Number of values of each column that was put on a grid because its score is shaped."""
        given = self.asked.frame
        return {
            name: block.grid.size
            for name, block in self.blocks.items()
            if isinstance(block, NumberBlock) and block.grid is not None and name in given
        }


@dataclass(frozen=True, eq=False)
class Candidate:
    """A move for each person: where it leads, as changed cells, and a bound on its price."""

    lower: FloatArray
    changes: dict[Any, tuple[IntArray, list[Any]]]
    found: BoolArray


def fold(asked: Asked, opened: OpenModel, moves: Moves) -> AdditiveScore | None:
    """Return the model as a sum over columns, None if it is not known to be one."""
    final = opened.final
    linear = type(final).__name__ in LINEAR or getattr(final, "kernel", "") == "linear"
    if not linear or not column_wise(opened.steps):
        return None
    frame = asked.frame
    if asked.fitted.model is not final and not _decisions_agree(asked, opened):
        return None
    scores = opened.score(asked.given(frame))
    ask = _Asking(asked, opened)
    if not _is_additive(ask, scores):
        return None
    slopes = _slopes(ask, moves)
    blocks: dict[Any, Block] = {}
    for name, block in moves.blocks.items():
        shaped = isinstance(block, NumberBlock) and not block.finite and name not in slopes
        blocks[name] = _gridded(block, moves, frame) if shaped else block  # type: ignore[arg-type]
    cut, strict = opened.cut()
    return AdditiveScore(asked, opened, blocks, slopes, scores, cut, strict)


def cheapest_additive(
    score: AdditiveScore, moves: Moves, who: IntArray, budget: float
) -> tuple[FloatArray, FloatArray, BoolArray, dict[Any, tuple[IntArray, list[Any]]]]:
    """Return lower and upper prices, exactness and changed cells for the people ``who``.

    The model itself is asked about every destination. A score that rounds onto the cut is first
    taken as accepted; where the model disagrees, a little more is demanded until it agrees.
    """
    n = who.size
    lower, upper = np.zeros(n), np.full(n, np.inf)
    exact = np.ones(n, dtype=bool)
    changes = _empty_changes(moves)
    values = _own_values(score)
    tables = _option_tables(score, values)
    size = 1.0 + np.abs(score.scores[who]) + (abs(score.cut) if np.isfinite(score.cut) else 0.0)
    smooth = any(isinstance(b, NumberBlock) and not b.finite for b in score.blocks.values())
    offsets = [-1e-12] + ([1e-15 * 8.0**k for k in range(8)] if smooth else [1e-12, 1e-10])
    pending = np.arange(n)
    for attempt, offset in enumerate(offsets):
        if not pending.size:
            break
        need = score.cut - score.scores[who[pending]] + offset * size[pending]
        found = _solve_people(score, moves, tables, values, who[pending], need, budget)
        if attempt == 0:
            lower[pending] = found.lower
            exact[pending] = found.found | np.isinf(found.lower)
        reach = np.isfinite(found.lower)
        frame = destinations(score.asked.frame, who[pending], found.changes)
        good = np.zeros(pending.size, dtype=bool)
        if reach.any():
            good[reach] = score.asked.accepts(frame.iloc[np.flatnonzero(reach)])
        price = moves.price(score.asked.frame.iloc[who[pending]], frame)
        done = good | ~reach
        upper[pending[good]] = price[good]
        if not reach.all() and attempt > 0:  # demanded a little more and found nothing
            gone = pending[~reach]
            exact[gone] = score.strict
            lower[gone] = np.where(exact[gone], np.inf, lower[gone])
        keep_changes(changes, found.changes, pending, done)
        if attempt > 0 and not smooth:
            tie = pending[good]
            exact[tie] &= score.strict | (upper[tie] <= lower[tie] * (1 + SLACK))
        pending = pending[~done]
    exact[pending] = False
    near = upper <= lower + SLACK * (1 + lower)
    exact &= near | np.isinf(upper) | (score.strict and not smooth)
    exact &= np.isfinite(upper) | np.isinf(lower)
    lower = np.where(exact, upper, np.minimum(lower, upper))
    return lower, upper, exact, changes


def _decisions_agree(asked: Asked, opened: OpenModel) -> bool:
    """Return whether score and cut give the model's own decisions (away from the cut)."""
    frame = asked.frame.iloc[:: max(1, len(asked.frame) // 500)]
    rows = asked.given(frame)
    if not hasattr(opened.final, "decision_function"):
        return False
    scores = opened.score(rows)
    if scores.shape != (len(frame),):
        return False
    sign = 1.0 if opened.rising else -1.0
    cut, _ = opened.cut()
    clear = np.abs(scores - cut) > 1e-6 * (1 + np.abs(scores))
    said = opened.accept(sign * scores)
    wrapped = asked.fitted.model
    if getattr(wrapped, "threshold", None) is not None or hasattr(wrapped, "best_threshold_"):
        uses_chances = getattr(wrapped, "response_method", "") != "decision_function"
        if uses_chances and not has_probabilities(opened, rows):
            calibrated = "Calibrated" in str(type(getattr(wrapped, "estimator_", None)))
            if not calibrated:
                return False
    return bool((said == asked.accepts(frame))[clear].all())


class _Asking:
    """Scores of one reference person with single columns set to other values."""

    def __init__(self, asked: Asked, opened: OpenModel) -> None:
        self.asked, self.opened = asked, opened
        self.person = asked.frame.iloc[[0]]
        self.base = float(opened.score(asked.given(self.person))[0])

    def __call__(self, requests: Mapping[Any, Sequence[Any]]) -> dict[Any, FloatArray]:
        """Return, per column, the gain of each value over the reference person's own."""
        sizes = {name: len(values) for name, values in requests.items()}
        total = sum(sizes.values())
        if total == 0:
            return {name: np.zeros(0) for name in requests}
        frame = self.person.iloc[np.zeros(total, dtype=np.int64)].reset_index(drop=True)
        at, columns = 0, {}
        for name, values in requests.items():
            places = np.arange(at, at + len(values))
            columns[name] = replaced(frame[name], places, list(values))
            at += len(values)
        frame = frame.assign(**columns) if _texts(columns) else _assigned(frame, columns)
        gains = self.opened.score(self.asked.given(frame)) - self.base
        parts = np.split(gains, np.cumsum(list(sizes.values()))[:-1])
        return dict(zip(requests, parts))


def _texts(columns: Mapping[Any, Any]) -> bool:
    return all(isinstance(name, str) for name in columns)


def _assigned(frame: pd.DataFrame, columns: Mapping[Any, Any]) -> pd.DataFrame:
    return pd.DataFrame({name: columns.get(name, frame[name]) for name in frame.columns})


def replaced(column: pd.Series, places: IntArray, values: Sequence[Any]) -> pd.Series:
    """Return a column with other cells at some places, in its own type where they fit it."""
    if not len(places):
        return column
    dtype = column.dtype
    if dtype == np.float64:
        cells = column.to_numpy(copy=True)
        cells[places] = np.asarray(values, dtype=np.float64)
        return pd.Series(cells, index=column.index, name=column.name)
    if isinstance(dtype, np.dtype) and dtype.kind in "fiu":
        wide = column.to_numpy(dtype=np.float64, copy=True)
        wide[places] = np.asarray(values, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            narrow = wide.astype(dtype)
        same = np.array_equal(narrow.astype(np.float64), wide, equal_nan=dtype.kind == "f")
        return pd.Series(narrow if same else wide, index=column.index, name=column.name)
    objects = np.asarray(column.astype(object), dtype=object).copy()
    for place, value in zip(places.tolist(), values):
        objects[place] = pd.NA if is_missing(value) else value
    if not pd.api.types.is_object_dtype(dtype):
        try:
            return pd.Series(objects, index=column.index, name=column.name).astype(dtype)
        except (TypeError, ValueError):  # a fraction in a column of nullable integers
            plain = [np.nan if is_missing(v) else float(v) for v in objects]
            return pd.Series(plain, index=column.index, name=column.name).astype("Float64")
    for place, value in zip(places.tolist(), values):
        objects[place] = np.nan if is_missing(value) else value
    return pd.Series(objects, index=column.index, name=column.name)


def destinations(
    frame: pd.DataFrame, who: IntArray, changes: Mapping[Any, tuple[IntArray, list[Any]]]
) -> pd.DataFrame:
    """Return the rows of some people with their changed cells."""
    part = frame.iloc[who]
    columns = {
        name: replaced(part[name], places, values)
        for name, (places, values) in changes.items()
        if len(places)
    }
    if not columns:
        return part
    new = pd.DataFrame({name: columns.get(name, part[name]) for name in part.columns})
    return new.set_axis(part.index, axis=0)


def _empty_changes(moves: Moves) -> dict[Any, tuple[IntArray, list[Any]]]:
    return {name: (np.zeros(0, dtype=np.int64), []) for name in moves.blocks}


def keep_changes(
    kept: dict[Any, tuple[IntArray, list[Any]]],
    new: Mapping[Any, tuple[IntArray, list[Any]]],
    pending: IntArray,
    done: BoolArray,
) -> None:
    """Add the changes of the people who are done to those that are kept."""
    for name, (places, values) in new.items():
        if not len(places):
            continue
        mine = done[places]
        old_places, old_values = kept[name]
        chosen = [v for v, m in zip(values, mine.tolist()) if m]
        kept[name] = (
            np.concatenate((old_places, pending[places[mine]])),
            [*old_values, *chosen],
        )


def _is_additive(ask: _Asking, scores: FloatArray) -> bool:
    """Compare scores of up to 100 people with the sum over columns."""
    frame = ask.asked.frame
    rows = np.unique(np.linspace(0, len(frame) - 1, min(100, len(frame))).astype(np.int64))
    total = np.full(rows.size, ask.base)
    requests = {name: frame[name].iloc[rows].tolist() for name in frame.columns}
    for gains in ask(requests).values():
        total += gains
    return bool((np.abs(total - scores[rows]) <= 1e-8 * (1 + np.abs(scores[rows]))).all())


def _slopes(ask: _Asking, moves: Moves) -> dict[Any, float]:
    """Return the slope of every numeric column on which the score is affine."""
    frame = ask.asked.frame
    probes: dict[Any, FloatArray] = {}
    for name, block in moves.blocks.items():
        if isinstance(block, NumberBlock) and np.isinf(block.hide):  # to hide is one more option
            points = _probes(block, as_floats(frame[name].to_numpy(), name))
            if points.size >= 3:
                probes[name] = points
    slopes = {}
    for name, gains in ask({k: v.tolist() for k, v in probes.items()}).items():
        v = probes[name]
        slope = (gains[-1] - gains[0]) / (v[-1] - v[0])
        off = np.abs(gains - gains[0] - slope * (v - v[0]))
        if (off <= 1e-9 * (np.abs(gains).max() + abs(slope) * (v[-1] - v[0]) + 1e-300)).all():
            slopes[name] = float(slope)
    return slopes


def _probes(block: NumberBlock, own: FloatArray) -> FloatArray:
    """Return values at which a column is asked: both ends, quantiles, beyond if unbounded."""
    known = own[np.isfinite(own) & ~block.absent(own)]
    ends = [v for v in (block.low, block.high) if np.isfinite(v)]
    inside = np.quantile(known, [0, 0.25, 0.5, 0.75, 1]) if known.size else np.zeros(0)
    points = np.unique(np.concatenate((ends, inside)))
    if points.size < 2:
        points = np.array([p + d for p in (*points, 0.0)[:1] for d in (-1.0, 0.0, 1.0)])
    low, high = points[0], points[-1]
    far = 4 * (high - low)
    more = [low + 0.37 * (high - low), low + 0.81 * (high - low)]
    more += [low - far] if not np.isfinite(block.low) else []
    more += [high + far] if not np.isfinite(block.high) else []
    return np.unique(np.concatenate((points, more)))


def _gridded(block: NumberBlock, moves: Moves, frame: pd.DataFrame) -> NumberBlock:
    """Return a shaped column on the grid of values that were seen."""
    source = frame if moves.reference is None else frame_of(moves.reference)
    seen = as_floats(source[block.name].to_numpy(), block.name)
    seen = np.unique(seen[np.isfinite(seen) & ~block.absent(seen)])
    return block.with_grid(thinned(seen[(seen >= block.low) & (seen <= block.high)]))


def _own_values(score: AdditiveScore) -> dict[Any, Any]:
    """Return the cells of the columns that move: floats, or places of categories."""
    frame = score.asked.frame
    return {
        name: block.codes(frame[name])
        if isinstance(block, CategoryBlock)
        else as_floats(frame[name].to_numpy(), name)
        for name, block in score.blocks.items()
    }


@dataclass(frozen=True, eq=False)
class _Options:
    """Options of one column that are the same for all people: values and their gains."""

    values: list[Any]
    gains: FloatArray
    own: FloatArray  # gain of each person's own value over the reference person's


def _option_tables(score: AdditiveScore, values: Mapping[Any, Any]) -> dict[Any, _Options]:
    """Ask the model, in one batch, for the gain of every option of every column."""
    frame = score.asked.frame
    options: dict[Any, list[Any]] = {}
    own: dict[Any, list[Any]] = {}
    back: dict[Any, NDArray[Any]] = {}
    for name, block in score.blocks.items():
        cells = frame[name].tolist()
        if isinstance(block, CategoryBlock):
            options[name] = list(block.categories)
        elif block.grid is not None:
            options[name] = block.fillings().tolist()
        elif name in score.slopes:
            absent = block.absent(values[name])
            options[name] = block.fillings().tolist() if absent.any() else []
            cells = cells if absent.any() or np.isfinite(block.hide) else []
        else:
            options[name] = _all_steps(block, values[name])
        if np.isfinite(block.hide):
            options[name] = [*options[name], np.nan]
        keys = ["missing" if is_missing(c) else c for c in cells]
        order = {key: k for k, key in enumerate(dict.fromkeys(keys))}
        back[name] = np.array([order[key] for key in keys], dtype=np.int64)
        own[name] = [np.nan if key == "missing" else key for key in order]
    ask = _Asking(score.asked, score.opened)
    gains = ask({(name): [*options[name], *own[name]] for name in score.blocks})
    tables = {}
    for name in score.blocks:
        k = len(options[name])
        mine = gains[name][k:][back[name]] if len(back[name]) else np.zeros(len(frame))
        tables[name] = _Options(options[name], gains[name][:k], mine)
    return tables


def _all_steps(block: NumberBlock, own: FloatArray) -> list[Any]:
    """Return every value that somebody can reach by steps in a shaped column."""
    assert block.step is not None
    found: set[float] = set(block.fillings().tolist()) if block.absent(own).any() else set()
    for x in np.unique(own[~block.absent(own)]).tolist():
        found.update(_steps_from(block, x).tolist())
    return sorted(found)


def _steps_from(block: NumberBlock, x: float) -> FloatArray:
    """Return the values that can be reached from x by whole steps."""
    assert block.step is not None
    up = 0 if np.isinf(block.up) else max(0.0, (block.high - x) / block.step)
    down = 0 if np.isinf(block.down) else max(0.0, (x - block.low) / block.step)
    count = np.arange(-min(np.ceil(down), MOST_OPTIONS), min(np.ceil(up), MOST_OPTIONS) + 1)
    values = x + count * block.step
    inside = (values >= block.low) & (values <= block.high) & (count != 0)
    return np.asarray(values[inside], dtype=np.float64)


def _solve_people(
    score: AdditiveScore,
    moves: Moves,
    tables: Mapping[Any, _Options],
    values: Mapping[Any, Any],
    who: IntArray,
    need: FloatArray,
    budget: float,
) -> Candidate:
    """Solve one knapsack per person; ``need`` is what their scores lack."""
    names = list(score.blocks)
    lines = [
        name
        for name in names
        if isinstance(block := score.blocks[name], NumberBlock)
        and not block.finite
        and score.slopes.get(name, 0.0) != 0.0
        and np.isfinite(block.up if score.slopes[name] > 0 else block.down)
    ]
    slope = np.array([score.slopes[name] for name in lines])
    unit_price = np.array([_line_price(score.blocks[n], score.slopes[n]) for n in lines])  # type: ignore[arg-type]
    room = np.zeros((who.size, len(lines)))
    for j, name in enumerate(lines):
        block = score.blocks[name]
        assert isinstance(block, NumberBlock)
        x = values[name][who]
        way = block.high - x if slope[j] > 0 else x - block.low
        room[:, j] = np.where(block.absent(x), 0.0, np.maximum(way, 0.0))
    menus = [_menus(score, name, tables[name], values[name], who) for name in names]
    if all(menu.empty for menu in menus):
        price, amount = fill_lines(need, np.abs(slope), unit_price, room, moves.power)
        inside = price <= budget * (1 + SLACK)
        lower = np.where(inside, price, np.inf)
        picks: list[dict[Any, Any]] = [{} for _ in range(who.size)]
        return _candidate(score, values, who, lower, picks, lines, slope, amount, inside)
    lower, amount = np.full(who.size, np.inf), np.zeros((who.size, len(lines)))
    closed = np.ones(who.size, dtype=bool)
    picks = []
    for i in range(who.size):
        low, high, pick, spent = _solve_person(
            float(need[i]), i, names, menus, np.abs(slope), unit_price, room[i], moves, budget
        )
        lower[i], amount[i] = low, spent
        closed[i] = low == high
        picks.append(pick)
    return _candidate(score, values, who, lower, picks, lines, slope, amount, closed)


def _line_price(block: NumberBlock, slope: float) -> float:
    return (block.up if slope > 0 else block.down) / block.unit


@dataclass(frozen=True, eq=False)
class _Menu:
    """Options of one column for some people."""

    block: Block
    values: list[Any]
    prices: FloatArray | None  # (people, options), for options that all people share
    gains: FloatArray | None
    own: Any  # people's own values, for steps
    slope: float
    steps: IntArray | None  # useful steps of each person

    @property
    def empty(self) -> bool:
        """Whether nobody has an option here."""
        shared = self.prices is not None and bool(np.isfinite(self.prices).any())
        return not shared and (self.steps is None or not self.steps.any())


def _menus(score: AdditiveScore, name: Any, options: _Options, values: Any, who: IntArray) -> _Menu:
    block, slope = score.blocks[name], score.slopes.get(name, 0.0)
    own = values[who]
    gains = options.gains[None, :] - options.own[who][:, None]
    if isinstance(block, CategoryBlock):
        places = np.array(
            [-1 if is_missing(v) else k for k, v in enumerate(options.values)], dtype=np.int64
        )
        prices = block.price_codes(own[:, None], places[None, :])
    elif options.values:
        prices = block.price(own[:, None], np.asarray(options.values, dtype=np.float64)[None, :])
    else:
        prices = np.full((who.size, 0), np.inf)
    steps = None
    useful = (prices > 0) & (gains > 0)
    if isinstance(block, NumberBlock) and block.grid is None and name in score.slopes:
        useful &= block.absent(own)[:, None]  # the others have a line or steps here
        if block.step is not None:
            steps = _useful_steps(block, own, slope)
    return _Menu(block, options.values, np.where(useful, prices, np.inf), gains, own, slope, steps)


def _useful_steps(block: NumberBlock, own: FloatArray, slope: float) -> IntArray:
    """Return how many steps each person can take in the direction that helps."""
    assert block.step is not None
    way = block.high - own if slope > 0 else own - block.low
    price = block.up if slope > 0 else block.down
    if slope == 0 or np.isinf(price):
        return np.zeros(own.size, dtype=np.int64)
    with np.errstate(invalid="ignore"):
        count = np.floor(np.where(block.absent(own), 0.0, np.clip(way, 0, None)) / block.step)
    count = np.minimum(np.nan_to_num(count, posinf=2.0**40), 2.0**40)
    sign = 1.0 if slope > 0 else -1.0
    for shift in (1.0, 0.0):  # the quotient may be rounded one up or down
        value = own + sign * (count + shift) * block.step
        inside = (value <= block.high) if slope > 0 else (value >= block.low)
        count = np.where(inside & (shift == 1), count + 1, count)
        count = np.where(~inside & (shift == 0), count - 1, count)
    return np.asarray(np.maximum(count, 0), dtype=np.int64)


def _solve_person(
    need: float,
    i: int,
    names: list[Any],
    menus: list[_Menu],
    line_gain: FloatArray,
    line_price: FloatArray,
    line_room: FloatArray,
    moves: Moves,
    budget: float,
) -> tuple[float, float, dict[Any, Any], FloatArray]:
    """Return bounds on the price, the chosen value per column, and the amounts of the lines."""
    power = moves.power
    rows: list[tuple[Any, list[Any], FloatArray, FloatArray]] = []
    stairs: list[tuple[Any, float, float, int]] = []
    for name, menu in zip(names, menus):
        values, prices, gains = _options_of(menu, i, power)
        if len(values):
            keep = _efficient(prices, gains)
            rows.append((name, [values[k] for k in keep], prices[keep], gains[keep]))
        if menu.steps is not None and menu.steps[i] > LONGEST_MENU and np.isfinite(power):
            block = menu.block
            assert isinstance(block, NumberBlock)
            assert block.step is not None
            each = _line_price(block, menu.slope) * block.step
            stairs.append((name, each, abs(menu.slope) * block.step, int(menu.steps[i])))
    rows.sort(key=lambda row: -len(row[1]))
    stairs.sort(key=lambda stair: stair[1] / stair[2])
    start = np.cumsum([0, *(len(row[1]) for row in rows)]).astype(np.int64)
    price = np.concatenate([row[2] for row in rows]) if rows else np.zeros(0)
    gain = np.concatenate([row[3] for row in rows]) if rows else np.zeros(0)
    open_line = line_room > 0
    if np.isinf(power):
        r, choice, some = solve_max(
            need,
            start,
            price,
            gain,
            line_gain[open_line],
            line_price[open_line],
            line_room[open_line],
        )
        low = high = r if r <= budget * (1 + SLACK) else np.inf
    else:
        choice = np.zeros(len(rows) + len(stairs), dtype=np.int64)
        some = np.zeros(int(open_line.sum()))
        low, high = solve(
            need,
            start,
            price**power,
            gain,
            np.array([s[1] for s in stairs]),
            np.array([s[2] for s in stairs]),
            np.array([s[3] for s in stairs], dtype=np.int64),
            line_gain[open_line],
            line_price[open_line],
            line_room[open_line],
            int(power),
            budget**power * (1 + SLACK),
            MOST_STATES,
            choice,
            some,
        )
        low, high = low ** (1 / power), high ** (1 / power)
    amount = np.zeros(line_gain.size)
    picked: dict[Any, Any] = {}
    if np.isfinite(high):
        amount[open_line] = some
        for g, row in enumerate(rows):
            if choice[g] >= 0:
                picked[row[0]] = row[1][choice[g] - start[g]]
        for k, stair in enumerate(stairs):
            if choice[len(rows) + k] > 0:
                menu = menus[names.index(stair[0])]
                picked[stair[0]] = _step_value(menu, i, int(choice[len(rows) + k]))
    return low, high, picked, amount


def _options_of(menu: _Menu, i: int, power: float) -> tuple[list[Any], FloatArray, FloatArray]:
    """Return the explicit options of one person: values, prices, gains."""
    assert menu.prices is not None
    assert menu.gains is not None
    open_ = np.flatnonzero(np.isfinite(menu.prices[i]))
    values = [menu.values[k] for k in open_]
    prices, gains = menu.prices[i, open_], menu.gains[i, open_]
    if menu.steps is None or not menu.steps[i]:
        return values, prices, gains
    if menu.steps[i] > LONGEST_MENU and np.isfinite(power):
        return values, prices, gains
    block = menu.block
    assert isinstance(block, NumberBlock)
    count = np.arange(1, min(int(menu.steps[i]), MOST_OPTIONS) + 1)
    x = float(menu.own[i])
    reached = [_step_value(menu, i, int(m)) for m in count]
    ways = block.price(x, np.asarray(reached))
    rise = menu.slope * (np.asarray(reached) - x)
    fine = np.isfinite(ways)
    return (
        values + [v for v, f in zip(reached, fine) if f],
        np.concatenate((prices, ways[fine])),
        np.concatenate((gains, rise[fine])),
    )


def _step_value(menu: _Menu, i: int, count: int) -> float:
    assert isinstance(menu.block, NumberBlock)
    assert menu.block.step is not None
    sign = 1.0 if menu.slope > 0 else -1.0
    return float(menu.own[i]) + sign * count * menu.block.step


def _efficient(prices: FloatArray, gains: FloatArray) -> IntArray:
    """Return the options that no other beats in price and gain, cheapest first."""
    order = np.lexsort((-gains, prices))
    top = np.maximum.accumulate(gains[order])
    first = np.concatenate(([True], gains[order][1:] > top[:-1]))
    return np.asarray(order[first], dtype=np.int64)


def _candidate(
    score: AdditiveScore,
    values: Mapping[Any, Any],
    who: IntArray,
    lower: FloatArray,
    picks: list[dict[Any, Any]],
    lines: list[Any],
    slope: FloatArray,
    amount: FloatArray,
    found: BoolArray,
) -> Candidate:
    """Write choices as changed cells."""
    cells: dict[Any, tuple[list[int], list[Any]]] = {name: ([], []) for name in score.blocks}
    for i, pick in enumerate(picks):
        for name, value in pick.items():
            cells[name][0].append(i)
            cells[name][1].append(value)
    for j, name in enumerate(lines):
        block = score.blocks[name]
        assert isinstance(block, NumberBlock)
        movers = np.flatnonzero((amount[:, j] > 0) & np.isfinite(lower))
        x = values[name][who[movers]]
        goal = np.clip(x + np.sign(slope[j]) * amount[movers, j], block.low, block.high)
        cells[name][0].extend(movers.tolist())
        cells[name][1].extend(goal.tolist())
    changes = {name: (np.array(p, dtype=np.int64), v) for name, (p, v) in cells.items()}
    return Candidate(lower, changes, found)
