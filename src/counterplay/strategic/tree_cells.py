"""Tree ensembles in cells: where the splits of a model cut the raw columns of a table.

The readers take only the structure of fitted trees. Splits are then moved back through the
preprocessing into raw columns: the thresholds of a number become its cells, the options of a
category get one "goes left" bit per split. The sum of leaves is compared with the model's own raw
score before anything is searched.

Source: "Tree ensembles", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.strategic.asking import replaced
from counterplay.strategic.fold import ENCODERS, MONOTONE, Asked, OpenModel, known_step
from counterplay.strategic.move_blocks import Block, CategoryBlock, NumberBlock
from counterplay.strategic.moves import Moves, as_floats
from counterplay.strategic.tree_boxes import Forest
from counterplay.tables.cells import is_missing

FORESTS = ("RandomForestClassifier", "ExtraTreesClassifier")
TREES = ("DecisionTreeClassifier", "ExtraTreeClassifier")
BOOSTED = ("GradientBoostingClassifier", "HistGradientBoostingClassifier")
MOST_UNORDERED = 1000


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree on encoded columns: a row goes left if its value is at most the threshold.

    Parameters
    ----------
    left
        Left child of each node; -1 at leaves.
    right
        Right child.
    feature
        Encoded column of each split.
    threshold
        Largest value that goes left, as a float of the model's own type.
    missing_left
        Whether a missing value goes left.
    left_codes
        For category splits: codes that go left, by node.
    value
        What a leaf adds to the score of the second class.
    """

    left: IntArray
    right: IntArray
    feature: IntArray
    threshold: FloatArray
    missing_left: BoolArray
    left_codes: dict[int, frozenset[int]]
    value: FloatArray


@dataclass(frozen=True, eq=False)
class Cells:
    """An ensemble in cells of raw columns, with the people's own cells."""

    forest: Forest
    cuts: list[FloatArray]
    options: list[list[Any]]
    blocks: list[Block | None]
    columns: list[Any]
    own: IntArray  # (people, blocks) own cell or option; -1 if missing in an ordered block
    base: float

    @property
    def ordered(self) -> BoolArray:
        """Which blocks are ranges of cells."""
        return self.forest.ordered

    @property
    def offset(self) -> IntArray:
        """First cell of every block, and the number of all cells."""
        return self.forest.offset


def read_trees(final: Any) -> tuple[list[Tree], float] | None:
    """Return the trees of a fitted model and the float type of its comparisons' resolution.

    The second item scales the sum of leaves to the score (one over the number of trees of a
    forest). None if the model is no known ensemble with two classes.
    """
    name = type(final).__name__
    if len(getattr(final, "classes_", ())) != 2:
        return None
    if name in TREES:
        return [_sklearn_tree(final.tree_, _chance(final.tree_))], 1.0
    if name in FORESTS:
        n = len(final.estimators_)
        return [_sklearn_tree(t.tree_, _chance(t.tree_)) for t in final.estimators_], 1.0 / n
    if name == "GradientBoostingClassifier":
        rate = final.learning_rate
        stages = [stage[0].tree_ for stage in final.estimators_]
        return [_sklearn_tree(t, rate * t.value[:, 0, 0]) for t in stages], 1.0
    if name == "HistGradientBoostingClassifier":
        return [_histogram_tree(stage[0]) for stage in final._predictors], 1.0
    return None


def _chance(tree: Any) -> FloatArray:
    value = np.asarray(tree.value[:, 0, :], dtype=np.float64)
    return np.asarray(value[:, 1] / value.sum(axis=1), dtype=np.float64)


def _sklearn_tree(tree: Any, value: FloatArray) -> Tree:
    split = np.asarray(tree.threshold, dtype=np.float64)
    with np.errstate(over="ignore"):
        near = split.astype(np.float32)
    below = np.nextafter(near, np.float32(-np.inf))
    last = np.where(near <= split, near, below).astype(np.float64)  # the last float32 on the left
    missing = getattr(tree, "missing_go_to_left", np.zeros(split.size))
    return Tree(
        np.asarray(tree.children_left, dtype=np.int64),
        np.asarray(tree.children_right, dtype=np.int64),
        np.asarray(tree.feature, dtype=np.int64),
        last,
        np.asarray(missing).astype(bool),
        {},
        np.asarray(value, dtype=np.float64),
    )


def _histogram_tree(predictor: Any) -> Tree:
    nodes = predictor.nodes
    leaf = nodes["is_leaf"].astype(bool)
    codes = {
        int(i): _codes(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][i]])
        for i in np.flatnonzero(nodes["is_categorical"].astype(bool) & ~leaf)
    }
    return Tree(
        np.where(leaf, -1, nodes["left"].astype(np.int64)),
        np.where(leaf, -1, nodes["right"].astype(np.int64)),
        nodes["feature_idx"].astype(np.int64),
        nodes["num_threshold"].astype(np.float64),
        nodes["missing_go_to_left"].astype(bool),
        codes,
        nodes["value"].astype(np.float64),
    )


def _codes(words: Any) -> frozenset[int]:
    bits = np.unpackbits(np.asarray(words, dtype="<u4").view(np.uint8), bitorder="little")
    return frozenset(np.flatnonzero(bits).tolist())


class Encoder:
    """Rows of people as the numbers that the splits of the trees look at."""

    def __init__(self, asked: Asked, opened: OpenModel) -> None:
        self.asked, self.opened = asked, opened
        self.narrow = type(opened.final).__name__ != "HistGradientBoostingClassifier"

    def __call__(self, frame: pd.DataFrame) -> FloatArray:
        """Return the encoded rows, rounded as the model rounds them."""
        rows = self.opened.encode(self.asked.given(frame))
        if not self.narrow:
            return np.asarray(self.opened.final._preprocess_X(rows, reset=False), dtype=np.float64)
        if hasattr(rows, "toarray"):
            rows = rows.toarray()
        if isinstance(rows, pd.DataFrame):
            rows = rows.to_numpy(dtype=np.float64, na_value=np.nan)
        with np.errstate(over="ignore"):
            return np.asarray(rows, dtype=np.float32).astype(np.float64)

    def varied(self, name: Any, values: Sequence[Any]) -> FloatArray:
        """Return the first person encoded with one column set to each of the values."""
        person = self.asked.frame.iloc[np.zeros(len(values), dtype=np.int64)]
        person = person.reset_index(drop=True)
        column = replaced(person[name], np.arange(len(values)), list(values))
        frame = pd.DataFrame({c: column if c == name else person[c] for c in person.columns})
        return self(frame)

    def rounded(self, values: FloatArray) -> FloatArray:
        """Return raw numbers as the model rounds them when nothing stands before it."""
        if not self.narrow:
            return values
        with np.errstate(over="ignore"):
            return values.astype(np.float32).astype(np.float64)


def build_cells(asked: Asked, opened: OpenModel, moves: Moves) -> Cells | None:
    """Return the ensemble in cells of the raw columns, None if it is no known ensemble."""
    read = read_trees(opened.final)
    allow = frozenset(MONOTONE | ENCODERS)
    if read is None or not all(known_step(step, allow) for step in opened.steps):
        return None
    trees, scale = read
    encoder = Encoder(asked, opened)
    encoded = encoder(asked.frame)
    sign = 1.0 if opened.rising else -1.0
    trees = [
        Tree(
            t.left,
            t.right,
            t.feature,
            t.threshold,
            t.missing_left,
            t.left_codes,
            sign * scale * t.value,
        )
        for t in trees
    ]
    base = _checked_base(asked, opened, trees, encoded, sign)
    return _Builder(asked, moves, encoder, encoded, trees).build(base)


def raw_score(final: Any, rows: Any) -> FloatArray:
    """Return the score of the second class: chances of trees and forests, else raw margins."""
    if type(final).__name__ in BOOSTED:
        return np.asarray(final.decision_function(rows), dtype=np.float64).reshape(-1)
    return np.asarray(final.predict_proba(rows)[:, 1], dtype=np.float64)


def sum_of_leaves(trees: Sequence[Tree], encoded: FloatArray) -> FloatArray:
    """Return the sum of the leaves that encoded rows fall into."""
    total = np.zeros(len(encoded))
    for tree in trees:
        at = np.zeros(len(encoded), dtype=np.int64)
        while True:
            inner = np.flatnonzero(tree.left[at] >= 0)
            if not inner.size:
                break
            node = at[inner]
            goes = goes_left(tree, node, encoded[inner, tree.feature[node]])
            at[inner] = np.where(goes, tree.left[node], tree.right[node])
        total += tree.value[at]
    return total


def goes_left(tree: Tree, node: IntArray, values: FloatArray) -> BoolArray:
    """Return which encoded values go left at nodes of a tree."""
    left = np.where(np.isnan(values), tree.missing_left[node], values <= tree.threshold[node])
    for k in np.flatnonzero([int(i) in tree.left_codes for i in node]):
        if not np.isnan(values[k]):
            left[k] = int(values[k]) in tree.left_codes[int(node[k])]
    return np.asarray(left, dtype=bool)


def _checked_base(
    asked: Asked, opened: OpenModel, trees: Sequence[Tree], encoded: FloatArray, sign: float
) -> float:
    """Return what the score has beside its leaves; raise if that is not one number."""
    rows = opened.encode(asked.given(asked.frame))
    own = sign * raw_score(opened.final, rows)
    rest = own - sum_of_leaves(trees, encoded)
    base = float(np.median(rest))
    if (np.abs(rest - base) > 1e-9 * (1 + np.abs(own))).any():
        row = int(np.argmax(np.abs(rest - base)))
        raise InvalidInputError(
            f"the trees of {type(opened.final).__name__} do not add up to its own score in row "
            f"{asked.table.index[row]!r}; this version of the model cannot be read"
        )
    return 0.0 if abs(base) < 1e-14 else base


class _Builder:
    """Collects blocks, cuts and leaves of an ensemble."""

    def __init__(
        self,
        asked: Asked,
        moves: Moves,
        encoder: Encoder,
        encoded: FloatArray,
        trees: Sequence[Tree],
    ) -> None:
        self.asked, self.moves, self.encoder = asked, moves, encoder
        self.encoded, self.trees = encoded, trees
        self.block_of: dict[int, int] = {}  # encoded column -> block
        self.columns: list[Any] = []
        self.blocks: list[Block | None] = []
        self.ordered: list[bool] = []
        self.cuts: list[FloatArray] = []
        self.options: list[list[Any]] = []
        self.own: list[IntArray] = []
        self.at_option: dict[int, FloatArray] = {}  # block -> encoded row of each option
        self.at_missing: dict[int, FloatArray] = {}  # ordered block -> encoded row if missing
        self.cut_of: dict[tuple[int, float], tuple[int, bool]] = {}

    def build(self, base: float) -> Cells:
        used = self._splits()
        for name, block in self.moves.blocks.items():
            if isinstance(block, CategoryBlock):
                self._category(name, block, used)
            else:
                self._number(name, block, used)
        for j in used:
            if j not in self.block_of:
                self._fixed(j, used[j])
        return self._flat(base)

    def _splits(self) -> dict[int, FloatArray]:
        """Return the thresholds on every encoded column."""
        found: dict[int, set[float]] = {}
        for tree in self.trees:
            for node in np.flatnonzero(tree.left >= 0):
                values = found.setdefault(int(tree.feature[node]), set())
                if int(node) not in tree.left_codes:
                    values.add(float(tree.threshold[node]))
        return {j: np.array(sorted(values)) for j, values in found.items()}

    def _add(
        self,
        name: Any,
        block: Block | None,
        ordered: bool,
        cuts: FloatArray,
        options: list[Any],
        own: IntArray,
    ) -> int:
        self.columns.append(name)
        self.blocks.append(block)
        self.ordered.append(ordered)
        self.cuts.append(cuts)
        self.options.append(options)
        self.own.append(own)
        return len(self.columns) - 1

    def _category(self, name: Any, block: CategoryBlock, used: dict[int, FloatArray]) -> None:
        cells = self.asked.frame[name].tolist()
        own_keys = ["missing" if is_missing(c) else c for c in cells]
        options: list[Any] = list(block.categories)
        options += [k for k in dict.fromkeys(own_keys) if k not in options and k != "missing"]
        if "missing" in own_keys or np.isfinite(block.hide):
            options.append(np.nan)
        if len(options) > MOST_UNORDERED:
            raise InvalidInputError(
                f"{name!r} has {len(options)} options; at most {MOST_UNORDERED}"
            )
        rows = self.encoder.varied(name, options)
        place = {"missing" if is_missing(o) else o: k for k, o in enumerate(options)}
        own = np.array([place[k] for k in own_keys], dtype=np.int64)
        g = self._add(name, block, False, np.zeros(0), options, own)
        self.at_option[g] = rows
        self._claim(g, rows, used)

    def _claim(self, g: int, rows: FloatArray, used: dict[int, FloatArray]) -> list[int]:
        """Give a block the encoded columns that vary with it."""
        first = rows[:1]
        same = (rows == first) | (np.isnan(rows) & np.isnan(first))
        mine = [j for j in np.flatnonzero(~same.all(axis=0)).tolist() if j in used]
        for j in mine:
            self.block_of[j] = g
        return mine

    def _number(self, name: Any, block: NumberBlock, used: dict[int, FloatArray]) -> None:
        x = as_floats(self.asked.frame[name].to_numpy(), name)
        known = x[np.isfinite(x)]
        ends = [v for v in (block.low, block.high) if np.isfinite(v)]
        points = np.unique(
            np.concatenate(
                (ends, known if known.size < 200 else np.quantile(known, np.linspace(0, 1, 50)))
            )
        )
        if points.size < 2:
            points = np.array([*points, *(points + 1.0)])
        holes = bool(np.isnan(x).any()) or np.isfinite(block.hide)
        rows = self.encoder.varied(name, [*points.tolist(), *([np.nan] if holes else [])])
        g = self._add(name, block, True, np.zeros(0), [], np.zeros(0, dtype=np.int64))
        mine = self._claim(g, rows, used)
        if holes:
            self.at_missing[g] = rows[-1]
        edges: list[tuple[int, float, float, bool]] = []
        plain = not self.encoder.opened.steps
        for j in mine:
            low, high = rows[0, j], rows[points.size - 1, j]
            rising = not high < low
            if plain:
                cut = _raw_cuts(self.encoder, used[j])
            else:
                cut = self._bisect(name, j, used[j], rising, points)
            edges += [(j, t, c, rising) for t, c in zip(used[j].tolist(), cut.tolist())]
        cuts = np.unique(np.array([e[2] for e in edges if np.isfinite(e[2])]))
        for j, t, c, rising in edges:
            # cells up to k lie below the cut; a cut at infinity is beyond the last cell
            k = int(np.searchsorted(cuts, c)) if np.isfinite(c) else (cuts.size if c > 0 else -1)
            self.cut_of[(j, t)] = (k, not rising)
        self.cuts[g] = cuts
        own = np.searchsorted(cuts, x, "right")
        self.own[g] = np.where(np.isnan(x), -1, own).astype(np.int64)

    def _bisect(
        self, name: Any, j: int, thresholds: FloatArray, rising: bool, points: FloatArray
    ) -> FloatArray:
        """Return the least raw float beyond each threshold of an encoded column."""
        reach = 4 * (abs(points[0]) + abs(points[-1]) + 1.0)
        low = np.full(thresholds.size, -reach)
        high = np.full(thresholds.size, reach)

        def beyond(values: FloatArray) -> BoolArray:
            enc = self.encoder.varied(name, values.tolist())[:, j]
            return np.asarray(enc > thresholds if rising else enc <= thresholds, dtype=bool)

        never, always = ~beyond(high), beyond(low)
        for _ in range(70):
            middle = low + (high - low) / 2
            if ((middle <= low) | (middle >= high)).all():
                break
            up = beyond(middle)
            high = np.where(up, middle, high)
            low = np.where(up, low, middle)
        return np.where(never, np.inf, np.where(always, -np.inf, high))

    def _fixed(self, j: int, thresholds: FloatArray) -> None:
        """Add a block for an encoded column that nobody can move."""
        values = self.encoded[:, j]
        if any(int(tree.feature[node]) == j for tree in self.trees for node in tree.left_codes):
            codes = np.unique(values[~np.isnan(values)])
            options: list[Any] = [*codes.tolist(), np.nan]
            own = np.where(np.isnan(values), codes.size, np.searchsorted(codes, values))
            g = self._add(("fixed", j), None, False, np.zeros(0), options, own.astype(np.int64))
            rows = np.full((len(options), self.encoded.shape[1]), np.nan)
            rows[:, j] = np.array(options)
            self.at_option[g] = rows
        else:
            above = np.nextafter(thresholds, np.inf)
            own = np.where(np.isnan(values), -1, np.searchsorted(above, values, "right"))
            g = self._add(("fixed", j), None, True, above, [], own.astype(np.int64))
            for k, t in enumerate(thresholds.tolist()):
                self.cut_of[(j, t)] = (k, False)
        self.block_of[j] = g

    def _flat(self, base: float) -> Cells:
        nodes = _Nodes(self)
        for t, tree in enumerate(self.trees):
            nodes.add(t, tree)
        sizes = [
            cuts.size + 1 if ordered else len(options)
            for cuts, ordered, options in zip(self.cuts, self.ordered, self.options)
        ]
        return nodes.cells(np.cumsum([0, *sizes]).astype(np.int64), base)


def _raw_cuts(encoder: Encoder, last_left: FloatArray) -> FloatArray:
    """Return the least raw float that goes right, where the trees see the raw column."""
    if not encoder.narrow:
        return np.nextafter(last_left, np.inf)
    # trees round to 32 bits: the border lies half-way to the next 32-bit number
    left = last_left.astype(np.float32)
    right = np.nextafter(left, np.float32(np.inf))
    middle = (left.astype(np.float64) + right.astype(np.float64)) / 2
    goes_left = middle.astype(np.float32) <= left
    return np.where(goes_left, np.nextafter(middle, np.inf), middle)


class _Nodes:
    """Flat arrays of nodes and leaves."""

    def __init__(self, builder: _Builder) -> None:
        self.b = builder
        self.start = [0]
        self.rows: list[tuple[int, int, int, int, bool, bool, int, float]] = []
        self.masks: list[NDArray[np.uint8]] = []
        self.widest = max([1, *(len(o) for o in builder.options)])
        self.leaves: list[tuple[int, float, list[tuple[int, int, int, bool, int]]]] = []
        self.leaf_masks: list[NDArray[np.uint8]] = []

    def add(self, t: int, tree: Tree) -> None:
        """Add one tree."""
        first = len(self.rows)
        for node in range(tree.left.size):
            self.rows.append(self._node(tree, node, first))
        self.start.append(len(self.rows))
        self._walk(t, tree, first)

    def _node(
        self, tree: Tree, node: int, first: int
    ) -> tuple[int, int, int, int, bool, bool, int, float]:
        if tree.left[node] < 0:
            return (-1, -1, -1, -1, False, False, -1, float(tree.value[node]))
        j = int(tree.feature[node])
        g = self.b.block_of[j]
        left, right = int(tree.left[node]) + first, int(tree.right[node]) + first
        if self.b.ordered[g]:
            cut, flip = self.b.cut_of[(j, float(tree.threshold[node]))]
            missing = bool(tree.missing_left[node])
            if g in self.b.at_missing and not np.isnan(self.b.at_missing[g][j]):
                missing = bool(self.b.at_missing[g][j] <= tree.threshold[node])  # imputed
            return (left, right, g, cut, flip, missing, -1, 0.0)
        values = self.b.at_option[g][:, j]
        bits = goes_left(tree, np.full(values.size, node), values)
        row = np.zeros(self.widest, dtype=np.uint8)
        row[: bits.size] = bits
        self.masks.append(row)
        return (left, right, g, -1, False, False, len(self.masks) - 1, 0.0)

    def _walk(self, t: int, tree: Tree, first: int) -> None:
        """Collect the leaves of one tree with the cells they hold on every block of their path."""
        stack: list[tuple[int, dict[int, Any]]] = [(first, {})]
        while stack:
            node, held = stack.pop()
            left, right, g, cut, flip, missing, mask, value = self.rows[node]
            if left < 0:
                self._leaf(t, value, held)
                continue
            for child, goes in ((left, True), (right, False)):
                part = self._part(held.get(g), g, cut, flip, missing, mask, goes)
                if part is not None:
                    stack.append((child, {**held, g: part}))

    def _part(
        self, held: Any, g: int, cut: int, flip: bool, missing: bool, mask: int, goes: bool
    ) -> Any:
        """Return what remains of a block on one side of a split; None if nothing does."""
        if not self.b.ordered[g]:
            bits = self.masks[mask] == (1 if goes else 0)
            bits[len(self.b.options[g]) :] = False
            bits = bits if held is None else bits & held
            return bits if bits.any() else None
        low, high, hole = (0, self.b.cuts[g].size, True) if held is None else held
        if goes != flip:  # the lower side
            high = min(high, cut)
        else:
            low = max(low, cut + 1)
        hole = hole and missing == goes
        return (low, high, hole) if low <= high or hole else None

    def _leaf(self, t: int, value: float, held: dict[int, Any]) -> None:
        entries = []
        for g, part in held.items():
            if self.b.ordered[g]:
                entries.append((g, part[0], part[1], part[2], -1))
            else:
                self.leaf_masks.append(part.astype(np.uint8))
                entries.append((g, 0, -1, False, len(self.leaf_masks) - 1))
        self.leaves.append((t, value, entries))

    def cells(self, offset: IntArray, base: float) -> Cells:
        """Return everything as arrays."""
        nodes = list(zip(*self.rows))
        entries = [entry for leaf in self.leaves for entry in leaf[2]]
        columns = list(zip(*entries)) if entries else [(), (), (), (), ()]
        empty = np.zeros((1, self.widest), dtype=np.uint8)

        def ints(values: Any) -> IntArray:
            return np.array(values, dtype=np.int64)

        forest = Forest(
            ints(self.start),
            ints(nodes[0]),
            ints(nodes[1]),
            ints(nodes[2]),
            ints(nodes[3]),
            np.array(nodes[4], dtype=bool),
            np.array(nodes[5], dtype=bool),
            ints(nodes[6]),
            np.array(nodes[7], dtype=np.float64),
            np.array(self.masks, dtype=np.uint8) if self.masks else empty,
            ints([leaf[0] for leaf in self.leaves]),
            np.array([leaf[1] for leaf in self.leaves], dtype=np.float64),
            np.cumsum([0, *(len(leaf[2]) for leaf in self.leaves)]).astype(np.int64),
            ints(columns[0]),
            ints(columns[1]),
            ints(columns[2]),
            np.array(columns[3], dtype=bool),
            ints(columns[4]),
            np.array(self.leaf_masks, dtype=np.uint8) if self.leaf_masks else empty,
            np.array(self.b.ordered, dtype=bool),
            offset,
        )
        return Cells(
            forest,
            self.b.cuts,
            self.b.options,
            self.b.blocks,
            self.b.columns,
            np.column_stack(self.b.own)
            if self.b.own
            else np.zeros((len(self.b.encoded), 0), np.int64),
            base,
        )


@dataclass(frozen=True, eq=False)
class CellPrices:
    """Prices of all cells for some people, before the final root, and the values behind them."""

    price: FloatArray  # (people, cells)
    value: FloatArray  # (people, cells) raw value of ordered cells
    missing: FloatArray  # (people, blocks) price of having no value


def price_cells(cells: Cells, frame: pd.DataFrame, who: IntArray, power: float) -> CellPrices:
    """Return the price of the cheapest allowed value of every cell for every person."""
    n, total = who.size, int(cells.offset[-1])
    price, value = np.full((n, total), np.inf), np.full((n, total), np.nan)
    missing = np.full((n, len(cells.blocks)), np.inf)
    for g, block in enumerate(cells.blocks):
        own = cells.own[who, g]
        part = slice(int(cells.offset[g]), int(cells.offset[g + 1]))
        rows = np.arange(n)
        if block is None:
            present = own >= 0
            price[rows[present], part.start + own[present]] = 0.0
            missing[~present, g] = 0.0
        elif isinstance(block, CategoryBlock):
            codes = block.codes(cells.options[g])
            price[:, part] = block.price_codes(codes[own][:, None], codes[None, :])
            price[rows, part.start + own] = 0.0  # also for those whom no switch mentions
            unknown = codes[own] == -2
            price[unknown, part] = np.inf
            price[rows[unknown], part.start + own[unknown]] = 0.0
        else:
            x = as_floats(frame[cells.columns[g]].to_numpy(), block.name)[who]
            _number_prices(block, x, own, cells.cuts[g], price[:, part], value[:, part])
            missing[:, g] = np.where(
                np.isnan(x), 0.0, np.where(block.absent(x), np.inf, block.hide)
            )
    if power == 2:
        price, missing = price**2, missing**2
    return CellPrices(price, value, missing)


def _number_prices(
    block: NumberBlock,
    x: FloatArray,
    own: IntArray,
    cuts: FloatArray,
    price: FloatArray,
    value: FloatArray,
) -> None:
    """Write the cheapest allowed value of every cell and its price, for all people at once."""
    k = np.arange(cuts.size + 1)
    low = np.concatenate(([-np.inf], cuts))  # cell k holds low[k] <= v < low[k + 1]
    top = np.concatenate((np.nextafter(cuts, -np.inf), [np.inf]))
    absent = block.absent(x)
    start = np.where(absent, block.fill_start, x)[:, None]
    above = (k[None, :] > own[:, None]) | absent[:, None]
    with np.errstate(invalid="ignore", over="ignore"):
        up = block.reach_up(start, np.broadcast_to(low, (x.size, k.size)))
        up = np.where(up <= top[None, :], up, np.nan)
        down = block.reach_down(start, np.broadcast_to(top, (x.size, k.size)))
        down = np.where(down >= low[None, :], down, np.nan)
        goal = np.where(above, up, down)
        way = block.distance_price(start, goal)
    cost = np.where(absent[:, None], block.fill, way)
    cost = np.where(np.isnan(goal), np.inf, cost)
    cost = np.where(np.isnan(cost), np.inf, cost)
    price[:], value[:] = cost, goal
    rows = np.flatnonzero(own >= 0)
    price[rows, own[rows]] = 0.0
    value[rows, own[rows]] = x[rows]
