"""Augmentation without the copies in memory: blocks of transformed rows, for ``partial_fit``.

Every pair of a row and a transformation comes once per epoch. The order needs one number per row: a
random order of rows and a random first transformation for each; pass t takes the t-th next one.
Source: docs/theory/22-symmetry.md, "Lazy augmentation".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, IntArray, check_int
from counterplay.errors import InvalidInputError
from counterplay.invariance.images import Form, group_for, numbers_for
from counterplay.invariance.permutation_groups import CoordinatePermutationGroup
from counterplay.invariance.random_images import random_images
from counterplay.invariance.transformations import TransformationSet
from counterplay.tables import Table
from counterplay.tables.labels import label_values

Block = tuple[Any, NDArray[Any], FloatArray]


@checked
def augmented_blocks(
    X: Any,
    y: Any,
    group: Any,
    *,
    block_rows: int = 8192,
    epochs: int = 1,
    sample_weight: Any = None,
    shuffle: bool = True,
    random_state: RandomState = None,
) -> Iterator[Block]:
    """Yield transformed copies block by block: (rows, labels, weights).

    Parameters
    ----------
    X:
        Rows: a frame, an array of any number type, images with their axes, or a sparse matrix where
        the group permutes coordinates or flips signs. Blocks are of the same kind.
    y:
        Their labels, or numbers.
    group:
        The transformations. Groups too large to list: one random image of each row per epoch.
    block_rows:
        Rows of a block at most.
    epochs:
        How often every copy comes.
    sample_weight:
        Weights of the rows; the copies of a row share its weight. Default: one each.
    shuffle:
        False: all rows under the first transformation, then under the second, and so on.
    random_state:
        Seed of the order.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> X, y = np.arange(8).reshape(4, 2), ["a", "b", "a", "b"]
    >>> blocks = augmented_blocks(X, y, groups.sequence_reversal(2), block_rows=3, shuffle=False)
    >>> [(len(rows), float(weights.sum())) for rows, _, weights in blocks]
    [(3, 1.5), (3, 1.5), (2, 1.0)]

    References
    ----------
    "Lazy augmentation", see docs/theory/22-symmetry.md.
    """
    size = check_int(block_rows, "block_rows", low=1)
    rounds = check_int(epochs, "epochs", low=1)
    if y is None:
        raise InvalidInputError("y is None; one label per row is needed")
    table = Table.of(X, sample_weight=sample_weight)
    labels = label_values(y)
    if len(labels) != len(table):
        raise InvalidInputError(f"y has {len(labels)} labels for {len(table)} rows")
    found = group_for(group, Form.of(table))
    if len(table):
        numbers_for(table.part(slice(0, 1)), found)  # refuse what the group cannot move
    rng = generator(random_state)
    return _blocks(table, labels, found, size, rounds, shuffle, rng)


def _blocks(
    table: Table,
    labels: NDArray[Any],
    group: TransformationSet,
    size: int,
    epochs: int,
    shuffle: bool,
    rng: np.random.Generator,
) -> Iterator[Block]:
    n = len(table)
    listed = math.isfinite(group.order)
    passes = int(group.order) if listed else 1
    weights = np.ones(n) if table.weights is None else table.weights
    form = Form.of(table).under(group)
    for _ in range(epochs):
        order: IntArray = rng.permutation(n) if shuffle else np.arange(n)
        start = rng.integers(passes, size=n) if shuffle else np.zeros(n, dtype=np.int64)
        for first in range(0, n * passes, size):
            rows, element = _pairs(order, start, passes, first, size)
            copies = _images(table, rows, group, element if listed else None, form, rng)
            yield copies, labels[rows], weights[rows] / passes


def _pairs(
    order: IntArray, start: IntArray, passes: int, first: int, size: int
) -> tuple[IntArray, IntArray]:
    """Rows and elements number ``first``, ``first + 1``, ...: pass by pass in the order of rows."""
    n = len(order)
    rows, elements = [], []
    last = min(first + size, n * passes)
    while first < last:
        number, place = divmod(first, n)
        part = order[place : place + last - first]
        rows.append(part)
        elements.append((start[part] + number) % passes)
        first += len(part)
    return np.concatenate(rows), np.concatenate(elements)


def _images(
    table: Table,
    rows: IntArray,
    group: TransformationSet,
    element: IntArray | None,
    form: Form,
    rng: np.random.Generator,
) -> Any:
    """Images of some rows, each under its own transformation, in the form of the table."""
    array = isinstance(table.rows, np.ndarray) and table.rows.dtype.kind in "fiu"
    if isinstance(group, CoordinatePermutationGroup) and array and element is not None:
        flat = table.rows.reshape(len(table), -1)
        if flat.dtype.kind == "f" and np.isinf(flat[rows]).any():
            raise InvalidInputError("X has infinite numbers; remove them")
        return group.gathered(flat, rows, element).reshape(len(rows), *table.rows.shape[1:])
    numbers = numbers_for(table.part(rows), group)
    if sparse.issparse(numbers):
        return _sparse_images(numbers, group, element)
    if element is None:
        moved = random_images(numbers, group, rng)[0]
    else:
        moved = np.empty(numbers.shape)
        for g in np.unique(element).tolist():
            mine = element == g
            moved[mine] = group.exact_image(g, numbers[mine])
    given = form.give(moved)
    if isinstance(given, pd.DataFrame):
        given.index = table.index[rows]
    return given


def _sparse_images(rows: Any, group: TransformationSet, element: IntArray | None) -> Any:
    assert element is not None  # sparse rows are moved by listed groups only
    used, which = np.unique(element, return_inverse=True)
    images = group.sparse_images(rows)
    stack = sparse.vstack([images[int(g)] for g in used], format="csr")
    return stack[which.reshape(-1) * rows.shape[0] + np.arange(rows.shape[0])]
