"""One tree of an ensemble as a reader finds it: structure only, on encoded columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from counterplay.core.validation import BoolArray, FloatArray, IntArray

NEIGHBOURS = 200  # floats on either side of a printed start


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
    right_codes
        For category splits: codes that go right, by node, where the others go left.
    """

    left: IntArray
    right: IntArray
    feature: IntArray
    threshold: FloatArray
    missing_left: BoolArray
    left_codes: dict[int, frozenset[int]]
    value: FloatArray
    right_codes: dict[int, frozenset[int]] = field(default_factory=dict)

    def is_category(self, node: int) -> bool:
        """Whether a node splits categories."""
        return node in self.left_codes or node in self.right_codes


@dataclass(frozen=True, eq=False)
class Reading:
    """A fitted ensemble with two classes, taken apart.

    Parameters
    ----------
    trees
        Its trees.
    raw
        The model's own raw score of the second class for rows as the model takes them.
    encode
        Rows as the numbers that the splits look at.
    narrow
        Whether the model rounds raw numbers to 32 bits before it compares them.
    single
        Whether the model adds its leaves in 32 bits.
    scale
        What the sum of leaves is multiplied with.
    start
        What a model that adds in 32 bits starts from.
    """

    trees: list[Tree]
    raw: Callable[[Any], FloatArray]
    encode: Callable[[Any], FloatArray]
    narrow: bool = True
    single: bool = False
    scale: float = 1.0
    start: float = 0.0


def sum_of_leaves(
    trees: Sequence[Tree], encoded: FloatArray, start: float | None = None
) -> FloatArray:
    """Return the sum of the leaves that encoded rows fall into.

    With a start it is taken in 32 bits, from the start on, tree by tree.
    """
    wide = start is None
    kind: Any = np.float64 if wide else np.float32
    total: Any = np.full(len(encoded), start or 0.0, dtype=kind)
    for tree in trees:
        at = np.zeros(len(encoded), dtype=np.int64)
        while True:
            inner = np.flatnonzero(tree.left[at] >= 0)
            if not inner.size:
                break
            node = at[inner]
            goes = goes_left(tree, node, encoded[inner, tree.feature[node]])
            at[inner] = np.where(goes, tree.left[node], tree.right[node])
        total = total + tree.value[at].astype(kind)
    return np.asarray(total, dtype=np.float64)


def exact_start(reading: Reading, encoded: FloatArray, own: FloatArray) -> float:
    """Return the start from which leaves added in 32 bits give the model's own scores.

    A model prints its start with seven digits; the float behind them is one of the neighbours.
    """
    some = np.unique(np.linspace(0, len(own) - 1, min(50, len(own))).astype(np.int64))
    first = int(np.float32(reading.start).view(np.int32))
    starts = np.arange(first - NEIGHBOURS, first + NEIGHBOURS + 1).astype(np.int32).view(np.float32)
    total = np.repeat(starts[:, None], some.size, axis=1)
    for tree in reading.trees:
        total = total + sum_of_leaves([tree], encoded[some]).astype(np.float32)
    hits = (total == own[some].astype(np.float32)).sum(axis=1)
    return float(starts[int(np.argmax(hits))])


def goes_left(tree: Tree, node: IntArray, values: FloatArray) -> BoolArray:
    """Return which encoded values go left at nodes of a tree."""
    left = np.where(np.isnan(values), tree.missing_left[node], values <= tree.threshold[node])
    if not tree.left_codes and not tree.right_codes:
        return np.asarray(left, dtype=bool)
    for k, n in enumerate(node.tolist()):
        if tree.is_category(n) and not np.isnan(values[k]):
            code = int(values[k])
            left[k] = (
                code in tree.left_codes[n]
                if n in tree.left_codes
                else (code not in tree.right_codes[n])
            )
    return np.asarray(left, dtype=bool)


def as_numbers(rows: Any, *, narrow: bool) -> FloatArray:
    """Return rows as floats, rounded to 32 bits if the model does that; categories as codes."""
    import pandas as pd

    if hasattr(rows, "toarray"):
        rows = rows.toarray()
    if isinstance(rows, pd.DataFrame):
        rows = np.column_stack([_numbers(rows[name]) for name in rows.columns])
    with np.errstate(over="ignore"):
        rounded = np.asarray(rows, dtype=np.float32 if narrow else np.float64)
    return rounded.astype(np.float64)


def _numbers(column: Any) -> FloatArray:
    if hasattr(column, "cat"):
        codes = column.cat.codes.to_numpy(dtype=np.float64)
        return np.where(codes < 0, np.nan, codes)
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
