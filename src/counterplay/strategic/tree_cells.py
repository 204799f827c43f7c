"""Tree ensembles in cells: where the splits of a model cut the raw columns of a table.

The readers take only the structure of fitted trees. Splits are then moved back through the
preprocessing into raw columns. The sum of leaves is compared with the model's own raw score before
anything is searched.

Source: "Tree ensembles", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.strategic.asking import Changes
from counterplay.strategic.column_cells import (
    ColumnCells,
    Encoder,
    category_cells,
    fixed_cells,
    number_cells,
)
from counterplay.strategic.fold import (
    ENCODERS,
    MONOTONE,
    Asked,
    OpenModel,
    keeps_order,
    known_step,
    own_chance,
)
from counterplay.strategic.links import JointBlock, differs
from counterplay.strategic.move_blocks import Block, CategoryBlock, NumberBlock, side_by_side
from counterplay.strategic.moves import Moves
from counterplay.strategic.number_line import Lines
from counterplay.strategic.tree_boxes import Forest
from counterplay.strategic.tree_readers import read_ensemble
from counterplay.strategic.tree_readers.tree import Reading, Tree, exact_start, sum_of_leaves
from counterplay.tables.cells import is_missing


@dataclass(frozen=True, eq=False)
class Numbers:
    """The blocks that are moved along a line, side by side."""

    block: IntArray
    lines: Lines
    values: FloatArray  # (people, numbers) raw values, NaN if missing
    bottom: FloatArray  # least value of every cell of the ensemble; -inf, inf of other blocks
    top: FloatArray  # largest value

    @classmethod
    def of(cls, made: Sequence[Made], people: int) -> Numbers:
        """Return the numbers among the blocks of an ensemble."""
        block, values, bottom, top = [], [], [np.zeros(0)], [np.zeros(0)]
        for g, (_, priced, cells) in enumerate(made):
            edges = np.zeros(cells.size - 1)
            if isinstance(priced, NumberBlock) and isinstance(cells, ColumnCells):
                assert cells.values is not None
                edges = cells.cuts
                block.append(g)
                values.append(cells.values)
            bottom.append(np.concatenate(([-np.inf], edges)))
            top.append(np.concatenate((np.nextafter(edges, -np.inf), [np.inf])))
        priced_blocks = [cast(NumberBlock, made[g][1]) for g in block]
        return cls(
            np.array(block, dtype=np.int64),
            side_by_side(priced_blocks),
            np.column_stack(values) if values else np.zeros((people, 0)),
            np.concatenate(bottom),
            np.concatenate(top),
        )


@dataclass(frozen=True, eq=False)
class Cells:
    """An ensemble in cells of raw columns, with the people's own cells."""

    forest: Forest
    cuts: list[FloatArray]
    options: list[list[Any]]
    blocks: list[Block | JointCells | None]  # prices; None if nobody can move the block
    columns: list[Any]
    own: IntArray  # (people, blocks) own cell or option; -1 if missing in an ordered block
    base: float
    numbers: Numbers

    @property
    def ordered(self) -> BoolArray:
        """Which blocks are ranges of cells."""
        return self.forest.ordered

    @property
    def offset(self) -> IntArray:
        """First cell of every block, and the number of all cells."""
        return self.forest.offset


class JointCells:
    """Linked columns as one unordered block: an option is one cell per column.

    People share the options; each has her own prices, and values, of those within her reach.
    """

    ordered = False

    def __init__(
        self, joint: JointBlock, members: Sequence[ColumnCells], frame: pd.DataFrame, budget: float
    ) -> None:
        self.joint, self.members = joint, members
        self.encoded = tuple(j for member in members for j in member.encoded)
        self.place: dict[tuple[int, ...], int] = {}
        self.reach: dict[tuple[Any, ...], tuple[IntArray, FloatArray, pd.DataFrame]] = {}
        rows = frame[list(joint.columns)]
        self.keys = [
            tuple("missing" if is_missing(v) else v for v in row)
            for row in rows.itertuples(index=False)
        ]
        for key, row in zip(self.keys, rows.itertuples(index=False)):
            if key not in self.reach:
                self.reach[key] = self._reach(dict(zip(joint.columns, row)), budget)
        self.cells = np.array(list(self.place), dtype=np.int64).reshape(-1, len(members))
        self.own = np.array([self.reach[key][0][0] for key in self.keys], dtype=np.int64)

    def _reach(
        self, person: dict[Any, Any], budget: float
    ) -> tuple[IntArray, FloatArray, pd.DataFrame]:
        """Return the cheapest joint option in every combination of cells; the own one first."""
        options, prices = self.joint.options(person, budget)
        cells = np.column_stack(
            [
                member.cells_of(options[name].tolist(), name)
                for name, member in zip(self.joint.columns, self.members)
            ]
        )
        order = np.argsort(prices, kind="stable")
        _, first = np.unique(cells[order], axis=0, return_index=True)
        kept = np.sort(order[first])
        numbers = [self.place.setdefault(tuple(c), len(self.place)) for c in cells[kept].tolist()]
        return np.array(numbers, dtype=np.int64), prices[kept], options.iloc[kept]

    @property
    def size(self) -> int:
        """Number of options of all people together."""
        return len(self.place)

    def left_bits(self, tree: Tree, node: int) -> BoolArray:
        """Return which options go left at a split."""
        j = int(tree.feature[node])
        k = next(k for k, member in enumerate(self.members) if j in member.encoded)
        return np.asarray(self.members[k].left_bits(tree, node)[self.cells[:, k]], dtype=bool)

    def open_to(self, person: int) -> tuple[IntArray, FloatArray]:
        """Return the options of a person and their prices."""
        options, prices, _ = self.reach[self.keys[person]]
        return options, prices

    def changes(self, who: IntArray, moved: IntArray, chosen: IntArray) -> Changes:
        """Return the chosen options of some people as changed values per column."""
        found: dict[Any, tuple[list[int], list[Any]]] = {c: ([], []) for c in self.joint.columns}
        for i, option in zip(moved.tolist(), chosen.tolist()):
            options, _, frame = self.reach[self.keys[int(who[i])]]
            row = frame.iloc[int(np.flatnonzero(options == option)[0])]
            for name in self.joint.columns:
                if differs(frame[name].iloc[[0]], row[name])[0]:
                    found[name][0].append(i)
                    found[name][1].append(row[name])
        return {name: (np.array(p, dtype=np.int64), v) for name, (p, v) in found.items()}


Made = tuple[Any, "Block | JointCells | None", "ColumnCells | JointCells"]  # name, prices, cells


def build_cells(
    asked: Asked, opened: OpenModel, moves: Moves, budget: float = np.inf
) -> Cells | None:
    """Return the ensemble in cells of the raw columns, None if it is no known ensemble."""
    reading = read_ensemble(opened.final)
    allow = frozenset(MONOTONE | ENCODERS)
    if reading is None or not all(known_step(step, allow) for step in opened.steps):
        return None
    encoder = Encoder(asked, opened, reading)
    names = list(asked.frame.columns)
    if not all(keeps_order(opened.steps, names.index(name)) for name in _numbers(asked, moves)):
        return None
    if opened.by_chance and not _knows_chances(asked, opened, reading):
        return None
    encoded = encoder(asked.frame)
    start, base = _checked_base(asked, opened, reading, encoded)
    sign = 1.0 if opened.rising else -1.0
    trees = [replace(tree, value=sign * reading.scale * tree.value) for tree in reading.trees]
    made = _blocks(encoder, moves, trees, encoded, budget)
    nodes = Nodes([cells for _, _, cells in made])
    for t, tree in enumerate(trees):
        nodes.add(t, tree)
    return Cells(
        nodes.forest(sign * start, reading.single),
        [c.cuts if isinstance(c, ColumnCells) else np.zeros(0) for _, _, c in made],
        [c.options if isinstance(c, ColumnCells) else [] for _, _, c in made],
        [block for _, block, _ in made],
        [name for name, _, _ in made],
        np.column_stack([c.own for _, _, c in made])
        if made
        else np.zeros((len(encoded), 0), np.int64),
        sign * base,
        Numbers.of(made, len(encoded)),
    )


def _wanted(moves: Moves) -> list[tuple[Any, Block | None]]:
    """Return the columns that move or are linked, with their prices."""
    linked = [(name, joint.movers.get(name)) for joint in moves.joint for name in joint.columns]
    return [*moves.alone.items(), *linked]


def _numbers(asked: Asked, moves: Moves) -> dict[Any, NumberBlock]:
    """Return those of them that are numbers; one without prices follows others, or is fixed."""
    found = {}
    for name, block in _wanted(moves):
        if isinstance(block, NumberBlock):
            found[name] = block
        elif block is None and _is_number(asked.frame[name].dtype):
            found[name] = NumberBlock(name, 1.0, 1.0, 1.0, -np.inf, np.inf)
    return found


def _blocks(
    encoder: Encoder, moves: Moves, trees: Sequence[Tree], encoded: FloatArray, budget: float
) -> list[Made]:
    """Return name, prices and cells of every block: columns that move, links, the fixed rest."""
    used = _splits(trees)
    cells = _columns(encoder, moves, used)
    made: list[Made] = [
        (name, block, one) for (name, block), one in zip(moves.alone.items(), cells)
    ]
    at = len(made)
    for joint in moves.joint:
        members = cells[at : at + len(joint.columns)]
        at += len(joint.columns)
        together = JointCells(joint, members, encoder.asked.frame, budget)
        made.append((joint.columns, together, together))
    taken = {j for _, _, one in made for j in one.encoded}
    for j, thresholds in used.items():
        if j not in taken:
            made.append((("fixed", j), None, fixed_cells(encoded[:, j], j, thresholds, trees)))
    return made


def _columns(encoder: Encoder, moves: Moves, used: dict[int, FloatArray]) -> list[ColumnCells]:
    """Return the cells of the raw columns that move or are linked."""
    numbers = _numbers(encoder.asked, moves)
    found = dict(zip(numbers, number_cells(encoder, list(numbers.items()), used)))
    return [
        found[name] if name in found
        else category_cells(encoder, name, block if isinstance(block, CategoryBlock) else None,
                            used)
        for name, block in _wanted(moves)
    ]  # fmt: skip


def _is_number(dtype: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype))


def _splits(trees: Sequence[Tree]) -> dict[int, FloatArray]:
    """Return the thresholds on every encoded column."""
    found: dict[int, set[float]] = {}
    for tree in trees:
        for node in np.flatnonzero(tree.left >= 0).tolist():
            values = found.setdefault(int(tree.feature[node]), set())
            if not tree.is_category(node):
                values.add(float(tree.threshold[node]))
    return {j: np.array(sorted(values)) for j, values in found.items()}


def _knows_chances(asked: Asked, opened: OpenModel, reading: Reading) -> bool:
    """Return whether the classifier's chances are the known function of its raw score."""
    few = asked.frame.iloc[:: max(1, len(asked.frame) // 500)]
    rows = opened.encode(asked.given(few))
    chances = np.asarray(opened.final.predict_proba(rows), dtype=np.float64)[:, 1]
    return bool(np.allclose(chances, own_chance(opened.final, reading.raw(rows)), atol=1e-6))


def _checked_base(
    asked: Asked, opened: OpenModel, reading: Reading, encoded: FloatArray
) -> tuple[float, float]:
    """Return what comes before the first leaf and after the last; raise if leaves do not add up.

    A model that adds in 32 bits is added up in the same order and must agree to the last bit.
    """
    own = reading.raw(opened.encode(asked.given(asked.frame)))
    if reading.single:
        start, base = exact_start(reading, encoded, own), 0.0
        fine = own == sum_of_leaves(reading.trees, encoded, start)
    else:
        rest, start = own - reading.scale * sum_of_leaves(reading.trees, encoded), 0.0
        base = float(np.median(rest))
        fine = np.abs(rest - base) <= 1e-9 * (1 + np.abs(own))
    if not fine.all():
        row = int(np.argmin(fine))
        raise InvalidInputError(
            f"the trees of {type(opened.final).__name__} do not add up to its own score in row "
            f"{asked.table.index[row]!r}; this version of the model cannot be read"
        )
    return start, 0.0 if abs(base) < 1e-14 else base


class Nodes:
    """Flat arrays of nodes and leaves."""

    def __init__(self, blocks: Sequence[ColumnCells | JointCells]) -> None:
        self.blocks = blocks
        self.block_of = {j: g for g, block in enumerate(blocks) for j in block.encoded}
        self.start = [0]
        self.rows: list[tuple[int, int, int, int, bool, bool, int, float]] = []
        self.masks: list[NDArray[np.uint8]] = []
        self.widest = max([1, *(b.size for b in blocks if not b.ordered)])
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
        g = self.block_of[int(tree.feature[node])]
        block = self.blocks[g]
        left, right = int(tree.left[node]) + first, int(tree.right[node]) + first
        if isinstance(block, ColumnCells) and block.ordered:
            cut, flip, missing = block.cut(tree, node)
            return (left, right, g, cut, flip, missing, -1, 0.0)
        bits = block.left_bits(tree, node)
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
        if not self.blocks[g].ordered:
            bits = self.masks[mask] == (1 if goes else 0)
            bits[self.blocks[g].size :] = False
            bits = bits if held is None else bits & held
            return bits if bits.any() else None
        low, high, hole = (0, self.blocks[g].size - 1, True) if held is None else held
        if goes != flip:  # the lower side
            high = min(high, cut)
        else:
            low = max(low, cut + 1)
        hole = hole and missing == goes
        return (low, high, hole) if low <= high or hole else None

    def _leaf(self, t: int, value: float, held: dict[int, Any]) -> None:
        entries = []
        for g, part in held.items():
            if self.blocks[g].ordered:
                entries.append((g, part[0], part[1], part[2], -1))
            else:
                self.leaf_masks.append(part.astype(np.uint8))
                entries.append((g, 0, -1, False, len(self.leaf_masks) - 1))
        self.leaves.append((t, value, entries))

    def forest(self, start: float, single: bool) -> Forest:
        """Return everything as arrays."""
        nodes = list(zip(*self.rows))
        self.leaves.sort(key=lambda leaf: (leaf[0], -leaf[1]))  # the best of a tree first
        entries = [entry for leaf in self.leaves for entry in leaf[2]]
        columns = list(zip(*entries)) if entries else [(), (), (), (), ()]
        empty = np.zeros((1, self.widest), dtype=np.uint8)

        def ints(values: Any) -> IntArray:
            return np.array(values, dtype=np.int64)

        return Forest(
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
            np.array([block.ordered for block in self.blocks], dtype=bool),
            np.cumsum([0, *(block.size for block in self.blocks)]).astype(np.int64),
            start,
            single,
        )
