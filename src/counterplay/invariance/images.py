"""Transformed copies of people's rows: all images, images to vote on, augmented samples.

Rows come in through the door as numbers and go back into the container they came in: named columns
stay named, images keep their axes, sparse rows stay sparse.
Source: docs/theory/11-invariance.md, "Baselines".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csr_array

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState
from counterplay.core.validation import FloatArray, IntArray, check_int, check_size, shorten
from counterplay.errors import CounterplayError, InvalidInputError
from counterplay.invariance.errors import DenseRowsError
from counterplay.invariance.named_columns import ColumnsByName
from counterplay.invariance.symmetric_group import SymmetricGroup
from counterplay.invariance.transformations import (
    MOST_NUMBERS,
    TransformationSet,
    TrivialGroup,
    byte_keys,
    number_keys,
)
from counterplay.tables import Table
from counterplay.tables.cells import shown
from counterplay.tables.labels import as_labels

Rows = Any  # FloatArray (n, p), or csr_array
_BLOCK = 1 << 20  # numbers of sparse rows that are written out at once


@dataclass(frozen=True)
class Form:
    """How rows were given, so that images of them can be given back alike.

    Parameters
    ----------
    width:
        Numbers in a row.
    names:
        Names of the columns, None where there are none.
    shape:
        Shape of one item (an image), None for rows of a table.
    dtype:
        Type of the numbers of arrays; whole numbers stay whole under groups that only move them.
    """

    width: int
    names: tuple[str, ...] | None = None
    shape: tuple[int, ...] | None = None
    dtype: str = "float64"

    @classmethod
    def of(cls, table: Table) -> Form:
        """Return the form of a table."""
        dtype = getattr(table.rows, "dtype", None)
        kept = dtype.name if isinstance(dtype, np.dtype) and dtype.kind in "fiu" else "float64"
        if table.container != "arrays":
            array = isinstance(table.rows, np.ndarray)
            return cls(table.width, table.names, None, kept if array else "float64")
        return cls(table.width, None, tuple(table.rows.shape[1:]), kept)

    def under(self, group: TransformationSet) -> Form:
        """Return the form of images under a group: numbers that change are floating."""
        whole = np.dtype(self.dtype).kind in "iu"
        return replace(self, dtype="float64") if whole and not group.keeps_values else self

    def give(self, rows: Rows) -> Any:
        """Return rows of numbers in this form: a frame, images, or as they are."""
        if sparse.issparse(rows):
            return rows
        if self.shape is not None:
            return rows.reshape(len(rows), *self.shape).astype(self.dtype, copy=False)
        if self.names is not None:
            return pd.DataFrame(rows, columns=list(self.names))
        return rows.astype(self.dtype, copy=False)


def as_group(group: Any, n_features: int) -> TransformationSet:
    """The set of transformations for data with this many features.

    Examples
    --------
    >>> as_group(None, 3)
    TrivialGroup()
    """
    if group is None:
        return TrivialGroup()
    if isinstance(group, TransformationSet):
        return group
    if callable(group) and not isinstance(group, type):
        try:
            made = group(n_features)
        except CounterplayError:
            raise
        except Exception as error:
            raise InvalidInputError(
                f"the function group could not make a set of transformations of {n_features} "
                f"numbers: {shown(error, 120)}"
            ) from error
        if isinstance(made, TransformationSet):
            return made
    raise InvalidInputError(
        f"group must be a set of transformations (see counterplay.invariance.groups), a function "
        f"that returns one, or None, got {shorten(group, 80)}"
    )


def group_for(group: Any, form: Form) -> TransformationSet:
    """Return the set of transformations for rows of this form; named columns are looked up."""
    if isinstance(group, ColumnsByName):
        from counterplay.invariance.groups import column_permutations

        return column_permutations(form.width, group.places(form.names))
    found = as_group(group, form.width)
    if isinstance(found, SymmetricGroup) and found.shape is None and form.shape is not None:
        return SymmetricGroup(found.axis, form.shape)
    return found


def numbers_for(table: Table, group: TransformationSet, *, missing: bool = True) -> Rows:
    """Return the rows of a table as numbers that the group can move; refuse what it cannot.

    Missing numbers pass where the group moves them like any other value; sparse rows stay sparse.
    """
    if table.is_sparse:
        if not group.allows_sparse:
            raise DenseRowsError(shorten(group, 80))
        rows = table.matrix()
        group.check_points(np.zeros((1, table.width)))
        return rows
    numbers = table.numbers(missing=missing and group.allows_missing)
    flat = numbers.reshape(len(numbers), table.width)
    group.check_points(flat[:1])
    return flat


def blocks_of(rows: Rows) -> Iterator[FloatArray]:
    """Yield rows as dense blocks; sparse ones a few at a time."""
    if not sparse.issparse(rows):
        yield rows
        return
    step = max(1, _BLOCK // max(rows.shape[1], 1))
    for start in range(0, rows.shape[0], step):
        yield rows[start : start + step].toarray()


def orbit_keys(rows: Rows, group: TransformationSet) -> list[Any]:
    """Return a key per row that is equal exactly for rows of one orbit."""
    return [key for block in blocks_of(rows) for key in group.orbit_key(block)]


def orbit_images(
    X: Rows,
    group: TransformationSet,
    n_images: int = 8,
    random_state: RandomState = None,
) -> Any:
    """All images of the points, or the points and random images where the group is too large.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> orbit_images([[1.0, 2.0]], groups.sequence_reversal(2)).shape
    (2, 1, 2)
    """
    if sparse.issparse(X):
        check_size(group.order * X.nnz, MOST_NUMBERS, "numbers in all images")
        return group.sparse_images(X)
    points = group.check_points(X)
    if math.isfinite(group.order):
        check_size(group.order * points.size, MOST_NUMBERS, "numbers in all images")
        return group.apply(points)
    seed = 0 if random_state is None else random_state
    count = check_int(n_images, "n_images", low=1)
    check_size((count + 1) * points.size, MOST_NUMBERS, "numbers in all images")
    return np.concatenate([points[None], group.sample(points, count, seed)])


def voting_images(
    X: Rows,
    group: TransformationSet,
    n_images: int = 8,
    random_state: RandomState = None,
) -> Any:
    """All images of the points; where the group is too large, random members of the orbit.

    The same ones for every member: images of the canonical member under transformations that depend
    on the seed alone. The canonical member itself is not among them: their mean is then unbiased
    for the mean over the orbit.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> images = voting_images([[3.0, 1.0, 2.0], [2.0, 3.0, 1.0]], groups.set_permutations(3))
    >>> images.shape, bool((images[:, 0] == images[:, 1]).all())
    ((8, 2, 3), True)
    """
    if sparse.issparse(X) or math.isfinite(group.order):
        return orbit_images(X, group, n_images, random_state)
    return group.orbit_sample(X, n_images, 0 if random_state is None else random_state)


def stacked(images: Any) -> Rows:
    """Return images of rows below one another."""
    if sparse.issparse(images[0]):
        return csr_array(sparse.vstack(list(images), format="csr"))
    return np.ascontiguousarray(np.concatenate(list(images)))


def copies_of(
    rows: Rows,
    group: TransformationSet,
    n_images: int,
    random_state: RandomState,
    *,
    distinct: bool,
) -> tuple[Rows, IntArray]:
    """Return the copies of rows and the row that each is a copy of."""
    n = rows.shape[0]
    if math.isfinite(group.order) and not sparse.issparse(rows):  # one array, filled in place
        order = int(group.order)
        check_size(order * rows.size, MOST_NUMBERS, "numbers in all images")
        points = group.check_points(rows)
        copies = np.empty((order * n, *points.shape[1:]), dtype=points.dtype)
        for g in range(order):
            copies[g * n : (g + 1) * n] = group.act(g, points)
        owner = np.tile(np.arange(n), order)
    else:
        images = orbit_images(rows, group, n_images, random_state)
        owner = np.tile(np.arange(n), len(images))
        copies = stacked(images)
    if not distinct:
        return copies, owner
    pairs = list(zip(owner.tolist(), byte_keys(copies)))
    keep = np.unique(number_keys(pairs), return_index=True)[1]  # the first copy of each
    return copies[keep], owner[keep]


@checked
def augmented_sample(
    X: Any,
    y: Any,
    group: TransformationSet | ColumnsByName,
    n_images: int = 8,
    random_state: RandomState = None,
    *,
    distinct: bool = True,
    sample_weight: Any = None,
) -> tuple[Any, NDArray[Any], FloatArray]:
    """Transformed copies, their labels, and weights that sum to one per sample point.

    Parameters
    ----------
    X:
        Rows: a frame, an array, images (their axes are kept), or a sparse matrix where the group
        permutes coordinates or flips signs. A frame gives a frame; each copy has the index of the
        row it is a copy of.
    y:
        Their labels, in any coding.
    group:
        The transformations.
    n_images:
        For groups too large to list: number of random copies besides the point itself.
    random_state:
        Seed of the copies.
    distinct:
        Drop copies that coincide with an earlier copy of the same point.
    sample_weight:
        Weights of the rows; the copies of a row share its weight. Default: one each.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> copies, labels, weights = augmented_sample(
    ...     [[1.0, 2.0], [3.0, 3.0]], [0, 1], groups.sequence_reversal(2))
    >>> len(copies), weights
    (3, array([0.5, 1. , 0.5]))

    References
    ----------
    "Baselines", Theorem 11.1, see docs/theory/11-invariance.md.
    """
    table = Table.of(X, _given(y), sample_weight=sample_weight)
    if table.labels is None:
        raise InvalidInputError("y must have one label per row")
    form = Form.of(table)
    found = group_for(group, form)
    rows = numbers_for(table, found)
    copies, owner = copies_of(rows, found, n_images, random_state, distinct=distinct)
    shares = 1.0 / np.bincount(owner, minlength=len(table))
    weights = shares if table.weights is None else shares * table.weights
    given = form.under(found).give(copies)
    if isinstance(given, pd.DataFrame):
        given.index = table.index[owner]
    return given, as_labels(table.labels.classes)[table.labels.codes[owner]], weights[owner]


def _given(y: Any) -> Any:
    if y is None:
        raise InvalidInputError("y is None; one label per row is needed")
    return y
