"""Ready-made groups for images, sequences, tables, sets and graphs, and for your own functions.

All of them are exact: values move to other places or change sign, nothing is interpolated, so
"same orbit" is decided without tolerance. A rotation by 30 degrees is not in this list, because
it is not invertible on a grid of pixels. Source: spec 11 sections 2.1, 7.16 and 9.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, check_choice, check_int
from counterplay.errors import InvalidInputError
from counterplay.invariance.errors import InfiniteOrbitError, ShapeError
from counterplay.invariance.transformations import (
    CoordinatePermutationGroup,
    MatrixGroup,
    SignFlipGroup,
    SymmetricGroup,
    TransformationSet,
    TrivialGroup,
    _byte_keys,
    _VectorGroup,
)

__all__ = [
    "CallableGroup",
    "GraphRelabelling",
    "ValidityReport",
    "check_validity",
    "colour_permutations",
    "column_permutations",
    "cyclic_shifts",
    "d4",
    "from_callables",
    "graph_relabelling",
    "image_flips",
    "image_rotations",
    "image_shifts",
    "plane_rotations",
    "sequence_reversal",
    "set_permutations",
    "sign_flips",
    "trivial",
]


def trivial() -> TrivialGroup:
    """The group that does nothing, for any number of features.

    >>> trivial().order
    1
    """
    return TrivialGroup()


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
            f"quarter turns need square images, got shape {tuple(shape)}; use angles=2"
        )
    return CoordinatePermutationGroup(
        np.array([np.rot90(index, k * 4 // angles).reshape(-1) for k in range(angles)])
    )


def image_flips(
    shape: Sequence[int], axes: Sequence[str] = ("horizontal", "vertical")
) -> CoordinatePermutationGroup:
    """Mirror images: left-right ("horizontal"), upside-down ("vertical"), or both.

    >>> image_flips((2, 3)).order, image_flips((2, 3), axes=["horizontal"]).order
    (4, 2)
    """
    index = _index_image(shape)
    generators = [index.reshape(-1)]
    for axis in axes:
        check_choice(axis, "axes", ("horizontal", "vertical"))
        generators.append(np.flip(index, 1 if axis == "horizontal" else 0).reshape(-1))
    return CoordinatePermutationGroup.closure(generators)


def d4(shape: Sequence[int]) -> CoordinatePermutationGroup:
    """All eight symmetries of the square: quarter turns and mirror images.

    >>> d4((3, 3)).order
    8
    """
    index = _index_image(shape)
    if index.shape[0] != index.shape[1]:
        raise ShapeError(f"d4 needs square images, got shape {tuple(shape)}")
    turns = [np.rot90(index, k) for k in range(4)]
    both = turns + [np.flip(turn, 1) for turn in turns]
    return CoordinatePermutationGroup(np.array([turn.reshape(-1) for turn in both]))


def image_shifts(
    shape: Sequence[int], steps: tuple[int, int] = (1, 1)
) -> CoordinatePermutationGroup:
    """Shifts of images with wrap-around, by multiples of ``steps`` pixels (rows, columns).

    A step of 0 means no shift along that axis.

    >>> image_shifts((4, 4), steps=(0, 2)).order
    2
    """
    index = _index_image(shape)
    generators = [index.reshape(-1)]
    for axis, step in enumerate(steps):
        if check_int(step, "steps", low=0) > 0:
            generators.append(np.roll(index, step, axis=axis).reshape(-1))
    return CoordinatePermutationGroup.closure(generators)


def colour_permutations(shape: Sequence[int]) -> CoordinatePermutationGroup:
    """All permutations of the channels of images (height, width, channels).

    >>> colour_permutations((4, 4, 3)).order
    6
    """
    if len(tuple(shape)) != 3:
        raise ShapeError(f"shape must be (height, width, channels), got {tuple(shape)}")
    index = _index_image(shape)
    orders = itertools.permutations(range(index.shape[2]))
    return CoordinatePermutationGroup(
        np.array([index[:, :, list(order)].reshape(-1) for order in orders])
    )


def sequence_reversal(length: int, channels: int = 1) -> CoordinatePermutationGroup:
    """Read sequences backwards; rows of X are flattened (length, channels).

    >>> sequence_reversal(3).apply([[1, 2, 3]])[1]
    array([[3., 2., 1.]])
    """
    index = _index_sequence(length, channels)
    return CoordinatePermutationGroup(np.array([index.reshape(-1), index[::-1].reshape(-1)]))


def cyclic_shifts(length: int, step: int = 1, channels: int = 1) -> CoordinatePermutationGroup:
    """Shift sequences cyclically by multiples of ``step``.

    >>> cyclic_shifts(12, step=3).order
    4
    """
    index = _index_sequence(length, channels)
    gen = np.roll(index, check_int(step, "step", low=1), axis=0)
    return CoordinatePermutationGroup.closure(np.array([gen.reshape(-1)]))


def column_permutations(
    n_features: int, blocks: Sequence[Sequence[int]] | None = None
) -> CoordinatePermutationGroup:
    """Permute interchangeable columns of a table.

    Parameters
    ----------
    n_features:
        Number of columns.
    blocks:
        Lists of columns of equal length: the blocks as a whole are interchangeable, such as the
        measurements of the left and of the right eye. Default: all single columns.

    Examples
    --------
    >>> column_permutations(5, blocks=[[0, 1], [2, 3]]).canonical([[7, 8, 1, 2, 0]])
    array([[1., 2., 7., 8., 0.]])
    """
    p = check_int(n_features, "n_features", low=1)
    parts = [[j] for j in range(p)] if blocks is None else [list(block) for block in blocks]
    used = [j for part in parts for j in part]
    if len({len(part) for part in parts}) != 1 or len(set(used)) != len(used):
        raise ShapeError("blocks must have equal lengths and no common columns")
    if min(used) < 0 or max(used) >= p:
        raise ShapeError(f"blocks must contain columns between 0 and {p - 1}")
    if len(parts) > 8:
        raise InfiniteOrbitError(
            f"{len(parts)} blocks have {math.factorial(len(parts)):,} permutations; "
            "use set_permutations, which never lists them"
        )
    perms = []
    for order in itertools.permutations(range(len(parts))):
        perm = np.arange(p)
        for target, source in zip(parts, order):
            perm[target] = parts[source]
        perms.append(perm)
    return CoordinatePermutationGroup(np.array(perms))


def sign_flips(n_features: int, columns: Sequence[Sequence[int]] | None = None) -> SignFlipGroup:
    """Flip the signs of columns; each entry of ``columns`` is a set that flips together.

    The default is one flip of all columns at once.

    >>> sign_flips(3).order, sign_flips(3, columns=[[0], [1, 2]]).order
    (2, 4)
    """
    p = check_int(n_features, "n_features", low=1)
    sets = [list(range(p))] if columns is None else [list(part) for part in columns]
    masks = np.zeros((len(sets), p), dtype=np.int64)
    for mask, part in zip(masks, sets):
        if not part or min(part) < 0 or max(part) >= p:
            raise ShapeError(f"columns must be non-empty sets of numbers between 0 and {p - 1}")
        mask[part] = 1
    return SignFlipGroup(masks)


def plane_rotations(n: int) -> MatrixGroup:
    """Rotations of points in the plane by multiples of 360/n degrees.

    >>> plane_rotations(3).order
    3
    """
    angles = 2 * np.pi * np.arange(check_int(n, "n", low=1)) / n
    c, s = np.cos(angles), np.sin(angles)
    return MatrixGroup(np.moveaxis(np.array([[c, -s], [s, c]]), 2, 0))


def set_permutations(n_elements: int, element_size: int = 1) -> SymmetricGroup:
    """All permutations of the elements of a set; rows of X are flattened sets.

    >>> set_permutations(2, 2).canonical([[5.0, 0.0, 1.0, 9.0]])
    array([[1., 9., 5., 0.]])
    """
    n = check_int(n_elements, "n_elements", low=1)
    return SymmetricGroup(axis=1, shape=(n, check_int(element_size, "element_size", low=1)))


def graph_relabelling(n_nodes: int) -> GraphRelabelling:
    """All relabellings of the nodes of a graph; rows of X are flattened adjacency matrices.

    >>> path = [[0, 1, 0, 1, 0, 1, 0, 1, 0]]     # the path 0 - 1 - 2
    >>> other = [[0, 1, 1, 1, 0, 0, 1, 0, 0]]    # the path 1 - 0 - 2
    >>> group = graph_relabelling(3)
    >>> group.orbit_key(path) == group.orbit_key(other)
    True
    """
    return GraphRelabelling(n_nodes)


def from_callables(
    functions: Sequence[Callable[[NDArray[Any]], NDArray[Any]]], n_features: int, decimals: int = 9
) -> CallableGroup:
    """A group given by functions that map an (n, p) array to its transformed copy.

    Check it on your data with :func:`check_validity` before you rely on it.

    >>> mirror = from_callables([lambda X: X, lambda X: X[:, ::-1]], n_features=2)
    >>> check_validity(mirror, [[1.0, 2.0], [3.0, 5.0]]).is_group
    True
    """
    return CallableGroup(functions, n_features, decimals)


class CallableGroup(_VectorGroup):
    """Transformations given by functions of an (n, p) array; see :func:`from_callables`.

    Images are rounded to ``decimals`` before they are compared.

    >>> CallableGroup([lambda X: X, lambda X: -X], n_features=1).canonical([[2.0], [-2.0]])
    array([[-2.],
           [-2.]])
    """

    def __init__(
        self,
        functions: Sequence[Callable[[NDArray[Any]], NDArray[Any]]],
        n_features: int,
        decimals: int = 9,
    ) -> None:
        if len(functions) == 0:
            raise InvalidInputError("functions must contain at least the identity")
        self.functions = tuple(functions)
        self.n_features = check_int(n_features, "n_features", low=1)
        self.decimals = check_int(decimals, "decimals")

    def __repr__(self) -> str:
        return f"CallableGroup({len(self.functions)} functions, p={self.n_features})"

    @property
    def order(self) -> float:
        """Number of functions."""
        return len(self.functions)

    def _act(self, g: int, X: NDArray[Any]) -> NDArray[Any]:
        image = np.asarray(self.functions[g](X.copy()), dtype=np.float64)
        if image.shape != X.shape:
            raise ShapeError(f"function {g} returns shape {image.shape} for input {X.shape}")
        return np.asarray(np.round(image, self.decimals) + 0.0)

    def apply(self, X: ArrayLike) -> FloatArray:
        """All images, shape (|G|, n, p)."""
        points = self.check_points(X)
        return np.stack([self._act(g, points) for g in range(len(self.functions))])


class GraphRelabelling(TransformationSet):
    """Node relabellings of graphs on ``n_nodes`` nodes, through an exact canonical form.

    Nodes are refined by the multiset of their neighbours' colours; remaining ties are broken in
    every possible way and the smallest adjacency matrix is kept. Meant for small graphs.

    >>> GraphRelabelling(3).canonical([[0, 1, 0, 1, 0, 1, 0, 1, 0]]).shape
    (1, 9)
    """

    def __init__(self, n_nodes: int) -> None:
        self.n_nodes = check_int(n_nodes, "n_nodes", low=1)

    def __repr__(self) -> str:
        return f"GraphRelabelling({self.n_nodes})"

    @property
    def order(self) -> float:
        """Infinite as far as listing is concerned; the factorial of n_nodes in truth."""
        return math.inf

    def check_points(self, X: ArrayLike) -> FloatArray:
        """Return graphs as rows of n_nodes^2 numbers."""
        array = np.asarray(X, dtype=np.float64)
        size = self.n_nodes**2
        if array.ndim < 2 or math.prod(array.shape[1:]) != size or not np.isfinite(array).all():
            raise ShapeError(
                f"graphs must be finite adjacency matrices of {self.n_nodes} nodes, "
                f"got shape {array.shape}"
            )
        return np.ascontiguousarray(array.reshape(len(array), size) + 0.0)

    def apply(self, X: ArrayLike) -> NDArray[Any]:
        """Not possible: there are too many relabellings."""
        raise InfiniteOrbitError("all relabellings cannot be listed; use sample(X, n_images)")

    def act(self, g: int, x: ArrayLike) -> NDArray[Any]:
        """Not possible: relabellings are not numbered."""
        raise InfiniteOrbitError("relabellings are not numbered; use sample(X, n_images)")

    def sample(self, X: ArrayLike, n_images: int, random_state: RandomState = None) -> NDArray[Any]:
        """Images under random relabellings, shape (n_images, n, n_nodes^2)."""
        points = self.check_points(X).reshape(-1, self.n_nodes, self.n_nodes)
        rng = generator(random_state)
        out = []
        for _ in range(check_int(n_images, "n_images", low=1)):
            perm = rng.permutation(self.n_nodes)
            out.append(points[:, perm][:, :, perm].reshape(len(points), -1))
        return np.stack(out)

    def canonical(self, X: ArrayLike) -> FloatArray:
        """The canonical adjacency matrix of every graph."""
        points = self.check_points(X)
        graphs = points.reshape(-1, self.n_nodes, self.n_nodes)
        return np.array([_canonical_graph(graph).reshape(-1) for graph in graphs]).reshape(
            points.shape
        )

    def orbit_key(self, X: ArrayLike) -> list[Any]:
        """Bytes of the canonical adjacency matrix."""
        return _byte_keys(self.canonical(X))


@dataclass(frozen=True)
class ValidityReport:
    """What a set of transformations does on data: is it a group, do labels fit?

    Attributes
    ----------
    has_identity, closed, has_inverses:
        The three laws, checked on the given points.
    missing_pair:
        Two transformations whose product is not in the set, if there are such.
    n_orbits, n_repeated:
        Number of different orbits, and of points whose orbit occurs more than once.
    conflicts:
        Rows of points that share an orbit with a point of another label.

    Examples
    --------
    >>> report = check_validity(sign_flips(1), [[1.0], [-1.0], [2.0]], [0, 1, 1])
    >>> report.is_group, report.conflicts
    (True, (0, 1))
    """

    has_identity: bool
    closed: bool
    has_inverses: bool
    missing_pair: tuple[int, int] | None
    n_points: int
    n_orbits: int
    n_repeated: int
    conflicts: tuple[int, ...]

    @property
    def is_group(self) -> bool:
        """Whether all three laws hold on the given points."""
        return self.has_identity and self.closed and self.has_inverses

    def summary(self) -> str:
        """A few sentences in plain words."""
        if self.is_group:
            first = "The transformations are a group on these data."
        elif not self.has_identity:
            first = "Not a group: the identity is missing."
        elif self.missing_pair is not None:
            first = f"Not a group: the product of transformations {self.missing_pair} is missing."
        else:
            first = "Not a group: an inverse is missing."
        return (
            f"{first} {self.n_points} points lie in {self.n_orbits} orbits, {self.n_repeated} "
            f"points share their orbit with another one, {len(self.conflicts)} of them in orbits "
            "with different labels."
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per checked law or count."""
        items = {
            "has_identity": self.has_identity,
            "closed": self.closed,
            "has_inverses": self.has_inverses,
            "n_points": self.n_points,
            "n_orbits": self.n_orbits,
            "n_repeated": self.n_repeated,
            "n_conflicts": len(self.conflicts),
        }
        return pd.DataFrame({"check": list(items), "value": list(items.values())})


def check_validity(
    group: TransformationSet, X: ArrayLike, y: ArrayLike | None = None, *, n_points: int = 50
) -> ValidityReport:
    """Check the group laws on (at most ``n_points`` of) the data, and labels inside orbits.

    >>> shift = from_callables([lambda X: X, lambda X: X + 1], n_features=1)
    >>> report = check_validity(shift, [[0.0], [5.0]])
    >>> report.closed, report.missing_pair
    (False, (1, 1))
    """
    points = group.check_points(X)
    some = points[: check_int(n_points, "n_points", low=1)]
    identity, closed, inverses, pair = True, True, True, None
    if math.isfinite(group.order):
        identity, closed, inverses, pair = _group_laws(group, some)
    keys = group.orbit_key(points) if closed and identity else group.point_key(points)
    ids = np.unique(np.array([hash(k) for k in keys]), return_inverse=True)[1].reshape(-1)
    counts = np.bincount(ids)
    conflicts: tuple[int, ...] = ()
    if y is not None:
        labels = np.asarray(y)
        pairs = np.unique(np.column_stack([ids, np.unique(labels, return_inverse=True)[1]]), axis=0)
        mixed = np.bincount(pairs[:, 0], minlength=counts.size) > 1
        conflicts = tuple(np.flatnonzero(mixed[ids]).tolist())
    return ValidityReport(
        identity, closed, inverses, pair, len(points), int(counts.size),
        int((counts[ids] > 1).sum()), conflicts,
    )  # fmt: skip


def _group_laws(
    group: TransformationSet, points: NDArray[Any]
) -> tuple[bool, bool, bool, tuple[int, int] | None]:
    images = [image.tobytes() for image in group.iterate(points)]
    known = set(images)
    own = np.ascontiguousarray(next(iter([points + 0]))).tobytes()
    inverses, pair = [False] * len(images), None
    for b, second in enumerate(group.iterate(points)):
        for a, product in enumerate(group.iterate(second)):
            if product.tobytes() not in known and pair is None:
                pair = (a, b)
            if product.tobytes() == own:
                inverses[b] = True
    return own in known, pair is None, all(inverses), pair


def _canonical_graph(adjacency: FloatArray) -> FloatArray:
    n = adjacency.shape[0]
    best: FloatArray | None = None
    stack = [np.zeros(n, dtype=np.int64)]
    while stack:
        colours = _refine(adjacency, stack.pop())
        counts = np.bincount(colours, minlength=n)
        split = np.flatnonzero(counts > 1)
        if split.size == 0:
            order = np.argsort(colours)
            candidate = adjacency[np.ix_(order, order)]
            if best is None or candidate.tobytes() < best.tobytes():
                best = candidate
            continue
        for node in np.flatnonzero(colours == split[0]):
            branch = 2 * colours
            branch[node] -= 1
            stack.append(branch)
    assert best is not None
    return best


def _refine(adjacency: FloatArray, colours: NDArray[np.int64]) -> NDArray[np.int64]:
    """Split colours by the sorted (edge, colour) lists of each node until nothing changes."""
    colours = np.unique(colours, return_inverse=True)[1].reshape(-1)
    while True:
        n_colours = colours.max() + 1
        signatures = []
        for v in range(len(colours)):
            around = sorted(zip(colours.tolist(), adjacency[v].tolist(), adjacency[:, v].tolist()))
            signatures.append((int(colours[v]), float(adjacency[v, v]), tuple(around)))
        rank = {signature: i for i, signature in enumerate(sorted(set(signatures)))}
        colours = np.array([rank[signature] for signature in signatures])
        if colours.max() + 1 == n_colours:
            return colours


def _index_image(shape: Sequence[int]) -> NDArray[np.int64]:
    sizes = tuple(check_int(s, "shape", low=1) for s in shape)
    if len(sizes) not in (2, 3):
        raise ShapeError(f"shape must be (height, width) or (height, width, channels), got {sizes}")
    return np.arange(math.prod(sizes)).reshape(sizes)


def _index_sequence(length: int, channels: int) -> NDArray[np.int64]:
    n, c = check_int(length, "length", low=1), check_int(channels, "channels", low=1)
    return np.arange(n * c).reshape(n, c)
