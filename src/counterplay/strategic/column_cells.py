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
from counterplay.strategic.asking import MOST_DECADES, far_out, replaced
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
    values
        Ordered and movable: the raw number of every person, NaN if missing.
    """

    ordered: bool
    cuts: FloatArray
    options: list[Any]
    own: IntArray
    cut_of: Mapping[tuple[int, float], tuple[int, bool]]
    at_option: FloatArray
    at_missing: FloatArray | None
    encoded: tuple[int, ...]
    values: FloatArray | None = None

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
        return self.varied_each([(name, values)])[0]

    def varied_each(self, requests: Sequence[tuple[Any, Sequence[Any]]]) -> list[FloatArray]:
        """Do the same for several columns in one call of the model's steps."""
        ends = np.cumsum([0, *(len(values) for _, values in requests)])
        person = self.asked.frame.iloc[np.zeros(ends[-1], dtype=np.int64)].reset_index(drop=True)
        columns = {c: person[c] for c in person.columns}
        for k, (name, values) in enumerate(requests):
            places = np.arange(ends[k], ends[k + 1])
            columns[name] = replaced(columns[name], places, list(values))
        encoded = self(pd.DataFrame(columns))
        return [encoded[a:b] for a, b in zip(ends, ends[1:])]


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


@dataclass(frozen=True, eq=False)
class Probe:
    """A number looked at: where it was set, and what became of it.

    Parameters
    ----------
    x
        Values of all people; NaN if missing.
    points
        Rising values that were tried.
    rows
        The first person encoded with each of them, and without a value if anybody has none.
    varying
        Encoded columns that vary with this one, of those the trees split on.
    near
        Places of the first and the last point that are not far out.
    """

    x: FloatArray
    points: FloatArray
    rows: FloatArray
    varying: tuple[int, ...]
    near: tuple[int, int]

    @property
    def missing(self) -> FloatArray | None:
        """The encoded row of a missing value, if there is one."""
        return self.rows[-1] if len(self.rows) > self.points.size else None

    def rising(self, j: int) -> bool:
        """Whether an encoded column does not fall in this one."""
        return not self.rows[self.points.size - 1, j] < self.rows[0, j]


def probe_numbers(
    encoder: Encoder, blocks: Sequence[tuple[Any, NumberBlock]], used: Mapping[int, FloatArray]
) -> list[Probe]:
    """Look at numbers at their bounds, at some of their values, far out, and at no value."""
    if not blocks:
        return []
    far = MOST_DECADES if encoder.opened.steps else 0  # without steps every value is itself
    while True:
        try:
            with np.errstate(all="ignore"):
                return _probed(encoder, blocks, used, far)
        except (ValueError, OverflowError):  # a step has no value so far out
            if not far:
                raise
            far //= 2


def _probed(
    encoder: Encoder,
    blocks: Sequence[tuple[Any, NumberBlock]],
    used: Mapping[int, FloatArray],
    decades: int,
) -> list[Probe]:
    given = []
    for name, block in blocks:
        x = as_floats(encoder.asked.frame[name].to_numpy(), name)
        known = x[np.isfinite(x)]
        ends = [v for v in (block.low, block.high) if np.isfinite(v)]
        some = known if known.size < 200 else np.quantile(known, np.linspace(0, 1, 50))
        points = np.unique(np.concatenate((ends, some)))
        if points.size < 2:
            points = np.array([*points, *(points + 1.0)]) if points.size else np.array([0.0, 1.0])
        holes = bool(np.isnan(x).any()) or np.isfinite(block.hide)
        below, above = far_out(points, block, decades)
        near = below.size, below.size + points.size - 1
        points = np.concatenate((below, points, above))
        given.append((x, points, near, [*points.tolist(), *([np.nan] if holes else [])]))
    found = encoder.varied_each([(name, one[-1]) for (name, _), one in zip(blocks, given)])
    return [
        Probe(x, points, rows, _varying(rows, used), near)
        for (x, points, near, _), rows in zip(given, found)
    ]


def number_cells(
    encoder: Encoder, blocks: Sequence[tuple[Any, NumberBlock]], used: Mapping[int, FloatArray]
) -> list[ColumnCells]:
    """Return the cells between the cuts of numbers."""
    probes = probe_numbers(encoder, blocks, used)
    pairs = [(k, j) for k, probe in enumerate(probes) for j in probe.varying]
    if encoder.opened.steps:
        asked = [(blocks[k][0], j, used[j], probes[k]) for k, j in pairs]
        edges = _bisect(encoder, asked)
    else:
        edges = [_raw_cuts(encoder.reading.narrow, used[j]) for _, j in pairs]
    beyond = dict(zip(pairs, edges))
    return [
        _number_cells(probe, {j: (used[j], beyond[(k, j)]) for j in probe.varying})
        for k, probe in enumerate(probes)
    ]


def _number_cells(probe: Probe, edges: Mapping[int, tuple[FloatArray, FloatArray]]) -> ColumnCells:
    """Return the cells of one number, given the least raw float beyond every threshold."""
    every = np.concatenate([np.zeros(0), *(cut for _, cut in edges.values())])
    cuts = np.unique(every[np.isfinite(every)])
    cut_of = {}
    for j, (thresholds, found) in edges.items():
        for t, c in zip(thresholds.tolist(), found.tolist()):
            # cells up to k lie below the cut; a cut at infinity is beyond the last cell
            k = int(np.searchsorted(cuts, c)) if np.isfinite(c) else (cuts.size if c > 0 else -1)
            cut_of[(j, t)] = (k, not probe.rising(j))
    own = np.where(np.isnan(probe.x), -1, np.searchsorted(cuts, probe.x, "right")).astype(np.int64)
    nothing = np.zeros((0, 0))
    return ColumnCells(True, cuts, [], own, cut_of, nothing, probe.missing, probe.varying, probe.x)


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
    encoder: Encoder, asked: Sequence[tuple[Any, int, FloatArray, Probe]]
) -> list[FloatArray]:
    """Return the least raw float beyond each threshold, for (column, encoded column, thresholds).

    All of them together: every halving is one call of the model's steps.
    """
    if not asked:
        return []
    ends = np.cumsum([0, *(thresholds.size for _, _, thresholds, _ in asked)])
    # nobody is, or goes, outside the points that were tried
    bottom, top = (np.repeat([p.points[k] for _, _, _, p in asked], np.diff(ends)) for k in (0, -1))

    def beyond(places: IntArray) -> BoolArray:
        values = float_at(places)
        parts = [values[a:b].tolist() for a, b in zip(ends, ends[1:])]
        rows = encoder.varied_each([(one[0], part) for one, part in zip(asked, parts)])
        found = [
            row[:, j] > thresholds if probe.rising(j) else row[:, j] <= thresholds
            for row, (_, j, thresholds, probe) in zip(rows, asked)
        ]
        return np.concatenate(found).astype(bool)

    low, high = float_order(bottom), float_order(top)
    never, always = ~beyond(high), beyond(low)
    # where the steps are affine the float is next to a guess: most of the halvings are saved
    guess = np.concatenate([_guess(j, thresholds, probe) for _, j, thresholds, probe in asked])
    for side, width in ((-1.0, 1e-9), (1.0, 1e-9)):
        near = float_order(np.clip(guess + side * width * (1.0 + np.abs(guess)), bottom, top))
        up = beyond(near)
        high = np.where(up, np.minimum(high, near), high)
        low = np.where(up, low, np.maximum(low, near))
    # halve the floats between, not the distance: in the end both are neighbours
    while (high - 1 > low).any():
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        up = beyond(middle)
        high = np.where(up, np.maximum(middle, low + 1), high)
        low = np.where(up, low, np.minimum(middle, high - 1))
    cuts = np.where(never, np.inf, np.where(always, -np.inf, float_at(high)))
    return [cuts[a:b] for a, b in zip(ends, ends[1:])]


def _guess(j: int, thresholds: FloatArray, probe: Probe) -> FloatArray:
    """Return where an affine step would reach the thresholds: a guess, and nothing more."""
    ends = list(probe.near)
    x, e = probe.points[ends], probe.rows[ends, j]
    if e[1] == e[0] or not np.isfinite(e).all():
        return np.full(thresholds.size, x[0])
    with np.errstate(over="ignore", invalid="ignore"):
        at = x[0] + (thresholds - e[0]) * ((x[1] - x[0]) / (e[1] - e[0]))
    return np.asarray(np.nan_to_num(at), dtype=np.float64)


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
