"""Ready-made groups for images, sequences, tables, sets and graphs, and for your own functions.

All of them are exact: values move to other places or change sign, nothing is interpolated, so
"same orbit" is decided without tolerance. A rotation by 30 degrees is not in this list, because
it is not invertible on a grid of pixels. Source: docs/theory/11-invariance.md, "Conventions".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    array_fault,
    check_choice,
    check_int,
    check_size,
    shorten,
)
from counterplay.errors import InvalidInputError
from counterplay.invariance.errors import (
    IdentityMissingError,
    InfiniteOrbitError,
    NotAGroupError,
    ShapeError,
)
from counterplay.invariance.graph_relabelling import GraphRelabelling
from counterplay.invariance.motions import PlaneMotions, TurnedImages
from counterplay.invariance.named_columns import ColumnsByName
from counterplay.invariance.permutation_groups import CoordinatePermutationGroup
from counterplay.invariance.symmetric_group import SymmetricGroup
from counterplay.invariance.transformations import TransformationSet
from counterplay.invariance.validity import ValidityReport, check_validity
from counterplay.invariance.vector_groups import MatrixGroup, SignFlipGroup, VectorGroup

__all__ = [
    "ValidityReport", "check_validity", "colour_permutations", "column_permutations",
    "cyclic_shifts", "d4", "from_callables", "graph_relabelling", "image_flips", "image_jitter",
    "image_rotations", "image_shifts", "image_turns", "plane_motions", "plane_rotations",
    "reverse_complement",
    "sequence_reversal", "set_permutations", "sign_flips",
]  # fmt: skip

_Group = TypeVar("_Group", bound=TransformationSet)
_MOST_COORDINATES = 1 << 22  # of one point: an image of 2048 x 2048


@checked
def image_rotations(shape: Sequence[int], angles: int = 4) -> CoordinatePermutationGroup:
    """Rotations of square images by multiples of 90 degrees (or of 180: ``angles=2``).

    Parameters
    ----------
    shape:
        (height, width) or (height, width, channels) of one image; rows of X are flattened images.
    angles:
        4 for quarter turns, 2 for half turns, 1 for none.

    Examples
    --------
    >>> image_rotations((8, 8)).order
    4
    """
    check_choice(angles, "angles", (1, 2, 4))
    index = _index_image(shape)
    if angles == 4 and index.shape[0] != index.shape[1]:
        raise ShapeError(
            f"quarter turns need square images, got shape {shorten(tuple(shape), 80)}; use angles=2"
        )
    return _of_kind(
        CoordinatePermutationGroup(
            np.array([np.rot90(index, k * 4 // angles).reshape(-1) for k in range(angles)])
        ),
        "image",
    )


@checked
def image_flips(
    shape: Sequence[int], axes: Sequence[str] = ("horizontal", "vertical")
) -> CoordinatePermutationGroup:
    """Mirror images: left-right ("horizontal"), upside-down ("vertical"), or both.

    Examples
    --------
    >>> image_flips((2, 3)).order, image_flips((2, 3), axes=["horizontal"]).order
    (4, 2)
    """
    index = _index_image(shape)
    generators = [index.reshape(-1)]
    for axis in axes:
        check_choice(axis, "axes", ("horizontal", "vertical"))
        generators.append(np.flip(index, 1 if axis == "horizontal" else 0).reshape(-1))
    return _of_kind(CoordinatePermutationGroup.closure(generators), "image")


@checked
def d4(shape: Sequence[int]) -> CoordinatePermutationGroup:
    """All eight symmetries of the square: quarter turns and mirror images.

    Examples
    --------
    >>> d4((3, 3)).order
    8
    """
    index = _index_image(shape)
    if index.shape[0] != index.shape[1]:
        raise ShapeError(f"d4 needs square images, got shape {shorten(tuple(shape), 80)}")
    turns = [np.rot90(index, k) for k in range(4)]
    both = turns + [np.flip(turn, 1) for turn in turns]
    return _of_kind(
        CoordinatePermutationGroup(np.array([turn.reshape(-1) for turn in both])), "image"
    )


@checked
def image_shifts(
    shape: Sequence[int], steps: tuple[int, int] = (1, 1)
) -> CoordinatePermutationGroup:
    """Shifts of images with wrap-around, by multiples of ``steps`` pixels (rows, columns).

    A step of 0 means no shift along that axis.

    Examples
    --------
    >>> image_shifts((4, 4), steps=(0, 2)).order
    2
    """
    index = _index_image(shape)
    generators = [index.reshape(-1)]
    if np.shape(steps) != (2,):
        raise ShapeError(f"steps must be two numbers (rows, columns), got {shorten(steps, 80)}")
    for axis, step in enumerate(steps):
        if check_int(step, "steps", low=0) > 0:
            generators.append(np.roll(index, step, axis=axis).reshape(-1))
    return _of_kind(CoordinatePermutationGroup.closure(generators), "image")


@checked
def image_jitter(shape: Sequence[int], diagonal: bool = False, pixels: int = 1) -> CallableGroup:
    """Shifts by one pixel (or ``pixels``) without wrap-around, and the identity: not a group.

    Pixels that leave the image are lost, so there are no orbits to look up. Use it as ``jitter`` of
    :class:`~counterplay.invariance.OrbitKernelClassifier`, or to augment.

    Examples
    --------
    >>> image_jitter((8, 8)).order, image_jitter((8, 8), diagonal=True).order
    (5, 9)
    """
    index = _index_image(shape)
    far = check_int(pixels, "pixels", low=1, high=max(index.shape[:2]))
    steps = [(0, 0), (far, 0), (-far, 0), (0, far), (0, -far)]
    if diagonal:
        steps += [(a, b) for a in (far, -far) for b in (far, -far)]
    moves = [partial(_shift_images, shape=index.shape, step=step) for step in steps]
    return _of_kind(CallableGroup(moves, index.size, is_group=False), "image")


def _shift_images(X: NDArray[Any], shape: tuple[int, ...], step: tuple[int, int]) -> NDArray[Any]:
    images = X.reshape(len(X), *shape)
    far = max(abs(step[0]), abs(step[1]), 1)
    room = [(0, 0), (far, far), (far, far)] + [(0, 0)] * (len(shape) - 2)
    wide = np.pad(images, room)
    a, b = far + step[0], far + step[1]
    moved: NDArray[Any] = wide[:, a : a + shape[0], b : b + shape[1]].reshape(X.shape)
    return moved


@checked
def colour_permutations(shape: Sequence[int]) -> CoordinatePermutationGroup:
    """All permutations of the channels of images (height, width, channels).

    Examples
    --------
    >>> colour_permutations((4, 4, 3)).order
    6
    """
    if len(tuple(shape)) != 3:
        raise ShapeError(
            f"shape must be (height, width, channels), got {shorten(tuple(shape), 80)}"
        )
    index = _index_image(shape)
    _check_listable(index.shape[2], "channels")
    orders = itertools.permutations(range(index.shape[2]))
    return _of_kind(
        CoordinatePermutationGroup(
            np.array([index[:, :, list(order)].reshape(-1) for order in orders])
        ),
        "image",
    )


@checked
def sequence_reversal(length: int, channels: int = 1) -> CoordinatePermutationGroup:
    """Read sequences backwards; rows of X are flattened (length, channels).

    Examples
    --------
    >>> sequence_reversal(3).apply([[1, 2, 3]])[1]
    array([[3., 2., 1.]])
    """
    index = _index_sequence(length, channels)
    return _of_kind(
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
    return _of_kind(CoordinatePermutationGroup.closure(np.array([gen.reshape(-1)])), "sequence")


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
    return _of_kind(CoordinatePermutationGroup(both), "sequence")


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
    p = check_int(n_features, "n_features", low=1, high=_MOST_COORDINATES)
    parts = [[j] for j in range(p)] if blocks is None else _column_sets(blocks, p, "blocks")
    used = [j for part in parts for j in part]
    if len({len(part) for part in parts}) != 1 or len(set(used)) != len(used):
        raise ShapeError("blocks must have equal lengths and no common columns")
    _check_listable(len(parts), "blocks")
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
    p = check_int(n_features, "n_features", low=1, high=_MOST_COORDINATES)
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
    return _of_kind(GraphRelabelling(n_nodes), "graph")


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
def image_turns(shape: Sequence[int], angles: int = 8) -> ImageTurns:
    """Turns of pictures by multiples of 360/angles degrees, interpolated: not a group.

    Use them to augment or vote. ``canonical`` turns pictures of any angle to the axis of their
    moments; it is approximate, because interpolation loses information.

    Examples
    --------
    >>> image_turns((8, 8)).order
    8
    """
    return ImageTurns(shape, angles)


@checked
def from_callables(
    functions: Sequence[Callable[[NDArray[Any]], NDArray[Any]]],
    n_features: int,
    decimals: int = 9,
    is_group: bool = True,
) -> CallableGroup:
    """A group given by functions that map an (n, p) array to its transformed copy.

    Check it on your data with :func:`check_validity`; classifiers that need a group do so, too.
    Functions that are not meant to be a group (``is_group=False``) can be used to augment or vote.

    Examples
    --------
    >>> mirror = from_callables([lambda X: X, lambda X: X[:, ::-1]], n_features=2)
    >>> check_validity(mirror, [[1.0, 2.0], [3.0, 5.0]]).is_group
    True
    """
    return CallableGroup(functions, n_features, decimals, is_group)


def _of_kind(group: _Group, kind: str) -> _Group:
    group.kind = kind
    return group


def _index_image(shape: Sequence[int]) -> NDArray[np.int64]:
    if np.ndim(shape) != 1 or len(shape) not in (2, 3):
        raise ShapeError(
            f"shape must be (height, width) or (height, width, channels), got {shorten(shape, 80)}"
        )
    sizes = tuple(check_int(s, "shape", low=1) for s in shape)
    check_size(math.prod(sizes), _MOST_COORDINATES, "numbers in an image")
    return np.arange(math.prod(sizes)).reshape(sizes)


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


def _check_listable(n: int, what: str) -> None:
    if n > 8:
        raise InfiniteOrbitError(
            f"{n} {what} have {math.factorial(n):,} permutations; use set_permutations (on rows "
            f"with the {what} first), which never lists them"
        )


def _index_sequence(length: int, channels: int) -> NDArray[np.int64]:
    n, c = check_int(length, "length", low=1), check_int(channels, "channels", low=1)
    check_size(n * c, _MOST_COORDINATES, "numbers in a sequence")
    return np.arange(n * c).reshape(n, c)


class CallableGroup(VectorGroup):
    """Transformations given by functions of an (n, p) array; see :func:`from_callables`.

    Images are rounded to ``decimals`` before they are compared. Classifiers that rely on orbits
    check on their training data that the functions are a group; ``is_group=False`` says that they
    are not meant to be one.
    """

    proved_group = False

    def __init__(
        self,
        functions: Sequence[Callable[[NDArray[Any]], NDArray[Any]]],
        n_features: int,
        decimals: int = 9,
        is_group: bool = True,
    ) -> None:
        if callable(functions) or not all(callable(f) for f in functions) or len(functions) == 0:
            raise InvalidInputError(
                "functions must be a list of functions of an (n, p) array, the identity among them"
            )
        self.functions = tuple(functions)
        self.n_features = check_int(n_features, "n_features", low=1)
        self.decimals = check_int(decimals, "decimals", low=-300, high=300)
        self.is_group = bool(is_group)
        self.tolerance = 10.0**-self.decimals

    def __repr__(self) -> str:
        return f"CallableGroup({len(self.functions)} functions, p={self.n_features})"

    @property
    def order(self) -> float:
        """Number of functions."""
        return len(self.functions)

    def exact_image(self, g: int, X: NDArray[Any]) -> NDArray[Any]:
        """What function number ``g`` returns, checked."""
        given = self.functions[g](X.copy())
        if fault := array_fault(given, kinds="biuf"):
            raise ShapeError(f"function {g} must return an array of numbers: {fault}")
        image = np.asarray(given, dtype=np.float64)
        if image.shape != X.shape:
            raise ShapeError(f"function {g} returns shape {image.shape} for input {X.shape}")
        if not np.isfinite(image).all():
            raise ShapeError(f"function {g} returns NaN or infinity; functions must keep X finite")
        return image

    def _act(self, g: int, X: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.round(self.exact_image(g, X), self.decimals) + 0.0)

    def apply(self, X: ArrayLike) -> FloatArray:
        """All images, shape (|G|, n, p)."""
        points = self.check_points(X)
        return np.stack([self._act(g, points) for g in range(len(self.functions))])

    def validate(self, X: ArrayLike | None = None) -> None:
        """Raise if the functions are not a group on these data (first 50 points)."""
        if X is None or not self.is_group:
            return
        laws = check_validity(self, np.asarray(X)[:50])
        advice = "add what is missing, or say is_group=False"
        if not laws.has_identity:
            raise IdentityMissingError(f"none of the functions is the identity; {advice}")
        if laws.missing_pair is not None:
            a, b = laws.missing_pair
            raise NotAGroupError(
                f"function {a} after function {b} is none of the functions; {advice}", pair=(a, b)
            )
        if not laws.has_inverses:
            raise NotAGroupError(f"a function has no inverse among the functions; {advice}")


class ImageTurns(CallableGroup):
    """Pictures turned by some angles, with a canonical form by moments; see :func:`image_turns`."""

    kind = "image"

    def __init__(self, shape: Sequence[int], angles: int = 8) -> None:
        index = _index_image(shape)
        count = check_int(angles, "angles", low=1, high=360)
        self.pictures = TurnedImages(index.shape)
        turns = [partial(self.pictures.turned, angle=360.0 * k / count) for k in range(count)]
        super().__init__(turns, index.size, is_group=False)

    def __repr__(self) -> str:
        return f"ImageTurns(order={len(self.functions)}, shape={self.pictures.shape})"

    def canonical(self, X: ArrayLike) -> FloatArray:
        """Pictures turned to the axis of their second moments, the sign by the third ones."""
        return self.pictures.upright(self.check_points(X))
