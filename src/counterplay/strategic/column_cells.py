"""Where the splits of a tree ensemble cut one raw column of a table.

Thresholds on a number, moved back through the preprocessing, cut its line into cells; the options
of a category get one "goes left" bit per split.

Source: "Tree ensembles", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.strategic.asking import replaced
from counterplay.strategic.columns import as_floats
from counterplay.strategic.fold import Asked, OpenModel, float_at, float_order
from counterplay.strategic.move_blocks import CategoryBlock, NumberBlock
from counterplay.strategic.tree_readers.tree import Reading, Tree, goes_left
from counterplay.tables.cells import is_missing

MOST_UNORDERED = 1000


@dataclass(frozen=True, eq=False)
class ColumnCells:
    """The cells of one column: ranges between cuts, or options.

    Parameters
    ----------
    ordered
        Whether the cells are ranges.
    cuts
        Ordered: cell k holds the values from cut k - 1 up to, but not at, cut k.
    options
        Unordered: the values.
    own
        Own cell of every person; -1 if missing (ordered).
    cut_of
        Ordered: encoded column and threshold to (last cell below it, whether that side goes right).
    at_option
        Unordered: encoded row of every option.
    at_missing
        Ordered: encoded row of a missing value; None if nobody has one.
    encoded
        Encoded columns that vary with this one.
    """

    ordered: bool
    cuts: FloatArray
    options: list[Any]
    own: IntArray
    cut_of: Mapping[tuple[int, float], tuple[int, bool]]
    at_option: FloatArray
    at_missing: FloatArray | None
    encoded: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.cuts.size + 1 if self.ordered else len(self.options)

    def cut(self, tree: Tree, node: int) -> tuple[int, bool, bool]:
        """Return cut, flip and the way of a missing value at a split of an ordered column."""
        j = int(tree.feature[node])
        k, flip = self.cut_of[(j, float(tree.threshold[node]))]
        missing = bool(tree.missing_left[node])
        if self.at_missing is not None and not np.isnan(self.at_missing[j]):
            missing = bool(self.at_missing[j] <= tree.threshold[node])  # imputed
        return k, flip, missing

    def left_bits(self, tree: Tree, node: int) -> BoolArray:
        """Return which cells go left at a split; the last entry of ordered ones is "missing"."""
        if self.ordered:
            k, flip, missing = self.cut(tree, node)
            return np.append((np.arange(self.size) <= k) != flip, missing)
        values = self.at_option[:, int(tree.feature[node])]
        return goes_left(tree, np.full(values.size, node), values)

    def cells_of(self, values: Sequence[Any], name: Any) -> IntArray:
        """Return the cells of raw values; -1 if missing (ordered)."""
        if self.ordered:
            x = as_floats(np.array(values, dtype=object), name)
            return np.where(np.isnan(x), -1, np.searchsorted(self.cuts, x, "right"))
        place = {_key(o): k for k, o in enumerate(self.options)}
        return np.array([place[_key(v)] for v in values], dtype=np.int64)


def _key(value: Any) -> Any:
    return "missing" if is_missing(value) else value


class Encoder:
    """Rows of people as the numbers that the splits of the trees look at."""

    def __init__(self, asked: Asked, opened: OpenModel, reading: Reading) -> None:
        self.asked, self.opened, self.reading = asked, opened, reading

    def __call__(self, frame: pd.DataFrame) -> FloatArray:
        """Return the encoded rows, rounded as the model rounds them."""
        return self.reading.encode(self.opened.encode(self.asked.given(frame)))

    def varied(self, name: Any, values: Sequence[Any]) -> FloatArray:
        """Return the first person encoded with one column set to each of the values."""
        person = self.asked.frame.iloc[np.zeros(len(values), dtype=np.int64)]
        person = person.reset_index(drop=True)
        column = replaced(person[name], np.arange(len(values)), list(values))
        frame = pd.DataFrame({c: column if c == name else person[c] for c in person.columns})
        return self(frame)


def category_cells(
    encoder: Encoder, name: Any, block: CategoryBlock | None, used: Mapping[int, FloatArray]
) -> ColumnCells:
    """Return the options of a category, with those that people have but no switch mentions."""
    keys = [_key(c) for c in encoder.asked.frame[name].tolist()]
    options: list[Any] = [] if block is None else list(block.categories)
    options += [k for k in dict.fromkeys(keys) if k not in options and k != "missing"]
    if "missing" in keys or (block is not None and np.isfinite(block.hide)):
        options.append(np.nan)
    if len(options) > MOST_UNORDERED:
        raise InvalidInputError(f"{name!r} has {len(options)} options; at most {MOST_UNORDERED}")
    rows = encoder.varied(name, options)
    place = {_key(o): k for k, o in enumerate(options)}
    own = np.array([place[k] for k in keys], dtype=np.int64)
    mine = _varying(rows, used)
    return ColumnCells(False, np.zeros(0), options, own, {}, rows, None, mine)


def number_cells(
    encoder: Encoder, name: Any, block: NumberBlock, used: Mapping[int, FloatArray]
) -> ColumnCells:
    """Return the cells between the cuts of a number."""
    x = as_floats(encoder.asked.frame[name].to_numpy(), name)
    known = x[np.isfinite(x)]
    ends = [v for v in (block.low, block.high) if np.isfinite(v)]
    some = known if known.size < 200 else np.quantile(known, np.linspace(0, 1, 50))
    points = np.unique(np.concatenate((ends, some)))
    if points.size < 2:
        points = np.array([*points, *(points + 1.0)]) if points.size else np.array([0.0, 1.0])
    holes = bool(np.isnan(x).any()) or np.isfinite(block.hide)
    rows = encoder.varied(name, [*points.tolist(), *([np.nan] if holes else [])])
    mine = _varying(rows, used)
    edges: list[tuple[int, float, float, bool]] = []
    for j in mine:
        rising = not rows[points.size - 1, j] < rows[0, j]
        if not encoder.opened.steps:
            cut = _raw_cuts(encoder.reading.narrow, used[j])
        else:
            cut = _bisect(encoder, name, j, used[j], rising, points)
        edges += [(j, t, c, rising) for t, c in zip(used[j].tolist(), cut.tolist())]
    cuts = np.unique(np.array([e[2] for e in edges if np.isfinite(e[2])]))
    cut_of = {}
    for j, t, c, rising in edges:
        # cells up to k lie below the cut; a cut at infinity is beyond the last cell
        k = int(np.searchsorted(cuts, c)) if np.isfinite(c) else (cuts.size if c > 0 else -1)
        cut_of[(j, t)] = (k, not rising)
    own = np.where(np.isnan(x), -1, np.searchsorted(cuts, x, "right")).astype(np.int64)
    hole = rows[-1] if holes else None
    return ColumnCells(True, cuts, [], own, cut_of, np.zeros((0, 0)), hole, mine)


def fixed_cells(
    values: FloatArray, j: int, thresholds: FloatArray, trees: Sequence[Tree]
) -> ColumnCells:
    """Return the cells of an encoded column that nobody can move."""
    at = [(t, node) for t in trees for node in (*t.left_codes, *t.right_codes)]
    if any(int(tree.feature[node]) == j for tree, node in at):
        codes = np.unique(values[~np.isnan(values)])
        options: list[Any] = [*codes.tolist(), np.nan]
        own = np.where(np.isnan(values), codes.size, np.searchsorted(codes, values))
        rows = np.full((len(options), j + 1), np.nan)
        rows[:, j] = np.array(options)
        return ColumnCells(False, np.zeros(0), options, own.astype(np.int64), {}, rows, None, (j,))
    above = np.nextafter(thresholds, np.inf)
    own = np.where(np.isnan(values), -1, np.searchsorted(above, values, "right"))
    cut_of = {(j, t): (k, False) for k, t in enumerate(thresholds.tolist())}
    return ColumnCells(True, above, [], own.astype(np.int64), cut_of, np.zeros((0, 0)), None, (j,))


def _varying(rows: FloatArray, used: Mapping[int, FloatArray]) -> tuple[int, ...]:
    """Return the encoded columns that the model uses and that vary over rows."""
    first = rows[:1]
    same = (rows == first) | (np.isnan(rows) & np.isnan(first))
    return tuple(j for j in np.flatnonzero(~same.all(axis=0)).tolist() if j in used)


def _bisect(
    encoder: Encoder,
    name: Any,
    j: int,
    thresholds: FloatArray,
    rising: bool,
    points: FloatArray,
) -> FloatArray:
    """Return the least raw float beyond each threshold of an encoded column."""
    reach = 4 * (abs(points[0]) + abs(points[-1]) + 1.0)
    low = float_order(np.full(thresholds.size, -reach))
    high = float_order(np.full(thresholds.size, reach))

    def beyond(places: IntArray) -> BoolArray:
        enc = encoder.varied(name, float_at(places).tolist())[:, j]
        return np.asarray(enc > thresholds if rising else enc <= thresholds, dtype=bool)

    never, always = ~beyond(high), beyond(low)
    # halve the floats between, not the distance: in the end both are neighbours
    while (high - 1 > low).any():
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        up = beyond(middle)
        high = np.where(up, np.maximum(middle, low + 1), high)
        low = np.where(up, low, np.minimum(middle, high - 1))
    return np.where(never, np.inf, np.where(always, -np.inf, float_at(high)))


def _raw_cuts(narrow: bool, last_left: FloatArray) -> FloatArray:
    """Return the least raw float that goes right, where the trees see the raw column."""
    if not narrow:
        return np.nextafter(last_left, np.inf)
    # the model rounds to 32 bits: the border lies half-way to the next 32-bit number
    left = last_left.astype(np.float32)
    right = np.nextafter(left, np.float32(np.inf))
    middle = (left.astype(np.float64) + right.astype(np.float64)) / 2
    goes_left_ = middle.astype(np.float32) <= left
    return np.where(goes_left_, np.nextafter(middle, np.inf), middle)
