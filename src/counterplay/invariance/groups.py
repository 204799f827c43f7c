"""Ready-made groups for images, sequences, tables, sets and graphs, and for your own functions.

All of them are exact: values move to other places or change sign, nothing is interpolated, so
"same orbit" is decided without tolerance. A rotation by 30 degrees is not in this list, because
it is not invertible on a grid of pixels. Images are in ``image_groups.py``, your own functions in
``callable_group.py``. Source: docs/theory/11-invariance.md, "Conventions".
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import check_int, check_size, shorten
from counterplay.invariance.callable_group import from_callables
from counterplay.invariance.common_factor import CommonFactor
from counterplay.invariance.errors import ShapeError
from counterplay.invariance.graph_relabelling import GraphRelabelling
from counterplay.invariance.image_groups import (
    colour_permutations,
    d4,
    image_flips,
    image_jitter,
    image_rotations,
    image_shifts,
)
from counterplay.invariance.motions import PlaneMotions
from counterplay.invariance.named_columns import ColumnsByName
from counterplay.invariance.permutation_groups import (
    MOST_COORDINATES,
    CoordinatePermutationGroup,
    check_listable,
    of_kind,
)
from counterplay.invariance.space_motions import SpaceMotions
from counterplay.invariance.symmetric_group import SymmetricGroup
from counterplay.invariance.turned_images import image_turns
from counterplay.invariance.validity import ValidityReport, check_validity
from counterplay.invariance.vector_groups import MatrixGroup, SignFlipGroup

__all__ = [
    "ValidityReport", "check_validity", "colour_permutations", "column_permutations",
    "common_factor", "cyclic_shifts", "d4", "from_callables", "graph_relabelling", "image_flips",
    "image_jitter", "image_rotations", "image_shifts", "image_turns", "plane_motions",
    "plane_rotations", "reverse_complement", "sequence_reversal", "set_permutations", "sign_flips",
    "space_motions",
]  # fmt: skip


@checked
def sequence_reversal(length: int, channels: int = 1) -> CoordinatePermutationGroup:
    """Read sequences backwards; rows of X are flattened (length, channels).

    Examples
    --------
    >>> sequence_reversal(3).apply([[1, 2, 3]])[1]
    array([[3., 2., 1.]])
    """
    index = _index_sequence(length, channels)
    return of_kind(
        CoordinatePermutationGroup(np.array([index.reshape(-1), index[::-1].reshape(-1)])),
        "sequence",
    )


@checked
def cyclic_shifts(length: int, step: int = 1, channels: int = 1) -> CoordinatePermutationGroup:
    """Shift sequences cyclically by multiples of ``step``.

    Examples
    --------
    >>> cyclic_shifts(12, step=3).order
    4
    """
    index = _index_sequence(length, channels)
    gen = np.roll(index, check_int(step, "step", low=1), axis=0)
    return of_kind(CoordinatePermutationGroup.closure(np.array([gen.reshape(-1)])), "sequence")


@checked
def reverse_complement(length: int) -> CoordinatePermutationGroup:
    """Read the other strand: sequences of bases as one-hot rows (A, C, G, T) of ``length`` bases.

    Reverses the order and exchanges A with T and C with G.

    Examples
    --------
    >>> reverse_complement(2).apply([[1, 0, 0, 0, 0, 1, 0, 0]])[1].astype(int)  # AC
    array([[0, 0, 1, 0, 0, 0, 0, 1]])
    """
    index = _index_sequence(length, 4)
    both = np.array([index.reshape(-1), index[::-1, ::-1].reshape(-1)])
    return of_kind(CoordinatePermutationGroup(both), "sequence")


@overload
def column_permutations(
    n_features: int, blocks: Sequence[Sequence[int]] | None = None
) -> CoordinatePermutationGroup: ...


@overload
def column_permutations(*, columns: Sequence[str] | Sequence[Sequence[str]]) -> ColumnsByName: ...


@checked
def column_permutations(
    n_features: int | None = None,
    blocks: Sequence[Sequence[int]] | None = None,
    *,
    columns: Any = None,
) -> CoordinatePermutationGroup | ColumnsByName:
    """Permute interchangeable columns of a table.

    Parameters
    ----------
    n_features:
        Number of columns.
    blocks:
        Lists of columns of equal length: the blocks as a whole are interchangeable, such as the
        measurements of the left and of the right eye. Default: all single columns.
    columns:
        Instead of numbers: names of interchangeable columns, or lists of names (blocks). They are
        looked up in the frame that an estimator, a test or the advisor is given.

    Examples
    --------
    >>> column_permutations(5, blocks=[[0, 1], [2, 3]]).canonical([[7, 8, 1, 2, 0]])
    array([[1., 2., 7., 8., 0.]])
    >>> column_permutations(columns=["left", "right"])
    ColumnsByName(blocks=(('left',), ('right',)))
    """
    if columns is not None:
        if n_features is not None or blocks is not None:
            raise ShapeError("give columns by name, or n_features and blocks by number, not both")
        return ColumnsByName.of(columns)
    p = check_int(n_features, "n_features", low=1, high=MOST_COORDINATES)
    parts = [[j] for j in range(p)] if blocks is None else _column_sets(blocks, p, "blocks")
    used = [j for part in parts for j in part]
    if len({len(part) for part in parts}) != 1 or len(set(used)) != len(used):
        raise ShapeError("blocks must have equal lengths and no common columns")
    check_listable(len(parts), "blocks")
    perms = []
    for order in itertools.permutations(range(len(parts))):
        perm = np.arange(p)
        for target, source in zip(parts, order):
            perm[target] = parts[source]
        perms.append(perm)
    return CoordinatePermutationGroup(np.array(perms))


@checked
def sign_flips(n_features: int, columns: Sequence[Sequence[int]] | None = None) -> SignFlipGroup:
    """Flip the signs of columns; each entry of ``columns`` is a set that flips together.

    The default is one flip of all columns at once.

    Examples
    --------
    >>> sign_flips(3).order, sign_flips(3, columns=[[0], [1, 2]]).order
    (2, 4)
    """
    p = check_int(n_features, "n_features", low=1, high=MOST_COORDINATES)
    sets = [list(range(p))] if columns is None else _column_sets(columns, p, "columns")
    masks = np.zeros((len(sets), p), dtype=np.int64)
    for mask, part in zip(masks, sets):
        mask[part] = 1
    return SignFlipGroup(masks)


@checked
def plane_rotations(n: int) -> MatrixGroup:
    """Rotations of points in the plane by multiples of 360/n degrees.

    Examples
    --------
    >>> plane_rotations(3).order
    3
    """
    angles = 2 * np.pi * np.arange(check_int(n, "n", low=1, high=2000)) / n
    c, s = np.cos(angles), np.sin(angles)
    return MatrixGroup(np.moveaxis(np.array([[c, -s], [s, c]]), 2, 0))


@checked
def set_permutations(n_elements: int, element_size: int = 1) -> SymmetricGroup:
    """All permutations of the elements of a set; rows of X are flattened sets.

    Examples
    --------
    >>> set_permutations(2, 2).canonical([[5.0, 0.0, 1.0, 9.0]])
    array([[1., 9., 5., 0.]])
    """
    n = check_int(n_elements, "n_elements", low=1)
    return SymmetricGroup(axis=1, shape=(n, check_int(element_size, "element_size", low=1)))


@checked
def graph_relabelling(n_nodes: int) -> GraphRelabelling:
    """All relabellings of the nodes of a graph; rows of X are flattened adjacency matrices.

    Examples
    --------
    >>> path = [[0, 1, 0, 1, 0, 1, 0, 1, 0]]     # the path 0 - 1 - 2
    >>> other = [[0, 1, 1, 1, 0, 0, 1, 0, 0]]    # the path 1 - 0 - 2
    >>> group = graph_relabelling(3)
    >>> group.orbit_key(path) == group.orbit_key(other)
    True
    """
    return of_kind(GraphRelabelling(n_nodes), "graph")


@checked
def plane_motions(n_points: int, scale: bool = False) -> PlaneMotions:
    """Unordered points in the plane, turned and shifted (and scaled) freely.

    Examples
    --------
    >>> plane_motions(5)
    PlaneMotions(5 points, scale=False)
    """
    return PlaneMotions(n_points, scale)


@checked
def space_motions(n_points: int, dimension: int = 3, scale: bool = False) -> SpaceMotions:
    """Unordered points in space, turned and shifted (and scaled) freely.

    Examples
    --------
    >>> space_motions(5)
    SpaceMotions(5 points, scale=False)
    """
    return SpaceMotions(n_points, dimension, scale)


@checked
def common_factor(n_features: int, columns: Sequence[int], most: float = 2.0) -> CommonFactor:
    """Multiply columns that share a unit by one positive factor.

    Whether labels survive it is a candidate that only you can name: which columns share a unit is
    not in the numbers. Pass it to ``find_symmetries(candidates={"in cents": ...})``.

    Parameters
    ----------
    n_features:
        Number of columns.
    columns:
        Those that share the unit.
    most:
        Images are drawn with factors between 1/most and most.

    Examples
    --------
    >>> factor = common_factor(3, [0, 1])
    >>> factor.orbit_key([[1.0, 2.0, 7.0]]) == factor.orbit_key([[3.0, 6.0, 7.0]])
    True
    """
    return CommonFactor(n_features, columns, most)


def _column_sets(sets: Sequence[Sequence[int]], p: int, name: str) -> list[list[int]]:
    """Lists of column numbers below p, at least one list, none empty."""
    try:
        parts = [[check_int(j, name, low=0, high=p - 1) for j in part] for part in sets]
    except TypeError:
        parts = []
    if not parts or not all(parts):
        raise ShapeError(
            f"{name} must be a list of non-empty lists of column numbers between 0 and {p - 1}, "
            f"got {shorten(sets, 80)}"
        )
    return parts


def _index_sequence(length: int, channels: int) -> NDArray[np.int64]:
    n, c = check_int(length, "length", low=1), check_int(channels, "channels", low=1)
    check_size(n * c, MOST_COORDINATES, "numbers in a sequence")
    return np.arange(n * c).reshape(n, c)
