"""Which rows are neighbours: the numbers in which distances are taken.

Pixels, cells and sequences are compared as they are. Columns of tables and sets are standardised;
columns that the group exchanges share one scale, so that it keeps distances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np

from counterplay.core.validation import FloatArray, IntArray, array_fault, shorten
from counterplay.errors import InvalidInputError
from counterplay.invariance.images import Form
from counterplay.invariance.permutation_groups import CoordinatePermutationGroup
from counterplay.invariance.symmetric_group import SymmetricGroup
from counterplay.invariance.transformations import TransformationSet

Kind = Literal["auto", "image", "board", "sequence", "set", "graph", "text", "table"]
KINDS: tuple[str, ...] = get_args(Kind)
_AS_THEY_ARE = ("image", "board", "sequence", "graph", "text")


def kind_of(kind: str, group: TransformationSet, form: Form) -> str:
    """The kind of rows: as said, by the group they come with, images by their axes, else a table.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> kind_of("auto", groups.image_rotations((2, 2)), Form(4))
    'image'
    """
    if kind != "auto":
        return kind
    if form.shape is not None:
        return "image"
    if isinstance(group, SymmetricGroup):
        return "set"
    return group.kind or "table"


def embedding(
    rows: FloatArray,
    group: TransformationSet,
    kind: str,
    form: Form,
    feats: Callable[[Any], Any] | None = None,
) -> Callable[[FloatArray], FloatArray]:
    """A function from rows to the numbers in which distances are taken.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> rows = np.array([[0.0, 4.0], [2.0, 2.0]])
    >>> embedding(rows, groups.column_permutations(2), "table", Form(2))(rows).round(1)
    array([[-1.4,  1.4],
           [ 0. ,  0. ]])
    """
    if feats is not None:
        return lambda X: _embedded(feats, form.give(X), len(X))
    if kind in _AS_THEY_ARE:
        return _complete
    shared = column_orbits(group, rows.shape[1])
    holes = np.isnan(rows)
    known = np.where(holes, 0.0, rows)
    most = np.zeros(int(shared.max()) + 1)  # of columns that share a scale: squares stay finite
    np.maximum.at(most, shared, np.abs(known).max(axis=0, initial=0.0))
    unit = np.where(most > 0, most, 1.0)[shared]
    known = known / unit
    counts = np.bincount(shared, (~holes).sum(axis=0))
    centre = (np.bincount(shared, known.sum(axis=0)) / np.maximum(counts, 1))[shared]
    squares = np.where(holes, 0.0, (known - centre) ** 2).sum(axis=0)
    scale = np.sqrt(np.bincount(shared, squares) / np.maximum(counts, 1))[shared]
    scale[scale == 0] = 1.0
    flagged = holes.any(axis=0)

    def embed(X: FloatArray) -> FloatArray:
        standard = (X / unit - centre) / scale
        missing = np.isnan(standard)
        numbers = np.where(missing, 0.0, standard)
        if not flagged.any() and not missing.any():
            return numbers
        return np.column_stack([numbers, missing.astype(np.float64)])

    return embed


def column_orbits(group: TransformationSet, width: int) -> IntArray:
    """Number of the orbit of every column under the group; columns of their own where unknown.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> column_orbits(groups.sequence_reversal(3), 3)
    array([0, 1, 0])
    """
    if isinstance(group, CoordinatePermutationGroup):
        smallest = group.perms.min(axis=0)
    elif isinstance(group, SymmetricGroup) and group.shape is not None and group.axis == 1:
        smallest = np.arange(width) % (width // group.shape[0])
    elif isinstance(group, SymmetricGroup):
        smallest = np.zeros(width, dtype=np.int64)
    else:
        smallest = np.arange(width)
    return np.asarray(np.unique(smallest, return_inverse=True)[1].reshape(-1), dtype=np.int64)


def _complete(X: FloatArray) -> FloatArray:
    missing = np.isnan(X)
    if not missing.any():
        return X
    return np.column_stack([np.where(missing, 0.0, X), missing.astype(np.float64)])


def _embedded(feats: Callable[[Any], Any], given: Any, n: int) -> FloatArray:
    try:
        found = feats(given)
    except Exception as error:
        raise InvalidInputError(f"feats raised on the rows: {shorten(str(error), 120)}") from error
    if fault := array_fault(found, kinds="biuf"):
        raise InvalidInputError(f"feats must return rows of numbers: {fault}")
    array = np.asarray(found, dtype=np.float64)
    if array.ndim < 2 or len(array) != n or not np.isfinite(array).all():
        raise InvalidInputError(
            f"feats must return one row of finite numbers per row, got shape {array.shape} for {n}"
        )
    return np.ascontiguousarray(array.reshape(n, -1))
