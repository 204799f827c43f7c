"""What every set of transformations can do: act, name orbits, tie points, check itself.

Every orbit has a canonical member, so "same orbit" is one comparison of keys.
Source: docs/theory/11-invariance.md, "Setting".
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import IntArray, check_int
from counterplay.invariance.errors import IdentityMissingError, NotAGroupError, ShapeError


class TransformationSet(ABC):
    """A set G of transformations of a domain; the orbit of x is {g x : g in G}.

    Concrete sets say how they act (``apply``, ``act``), name the orbit of a point (``orbit_key``)
    and list the images of points (``images``). ``is_group`` is True where orbits partition the
    domain; other sets tie points whose orbits intersect (``components``).
    """

    is_group: bool = True
    contains_identity: bool = True
    proved_group: bool = True  # by how it is made; False: to be checked on data
    tolerance: float = 0.0  # of images, relative to the largest number in them

    @property
    @abstractmethod
    def order(self) -> float:
        """Number of transformations; ``math.inf`` where it is not finite."""

    @abstractmethod
    def check_points(self, X: ArrayLike) -> NDArray[Any]:
        """Return points as an array the set acts on, or raise ShapeError."""

    @abstractmethod
    def apply(self, X: ArrayLike) -> NDArray[Any]:
        """All images, shape (number of transformations, n, ...)."""

    @abstractmethod
    def orbit_key(self, X: ArrayLike) -> list[Any]:
        """A sortable key per point that is equal exactly for points of one orbit."""

    def canonical(self, X: ArrayLike) -> NDArray[Any]:
        """The member that stands for the orbit of every point, where the set has such a form."""
        raise NotAGroupError(f"{self!r} has no canonical form; use a group that acts on vectors")

    def act(self, g: int, x: ArrayLike) -> NDArray[Any]:
        """Image of one point (or of an array of points) under transformation number ``g``."""
        array = np.asarray(x)
        single = array.ndim == self._point_ndim
        index = check_int(g, "g", low=0, high=int(min(self.order, 2**62)) - 1)
        images = self._act(index, array[None] if single else array)
        result: NDArray[Any] = images[0] if single else images
        return result

    _point_ndim = 1

    def _act(self, g: int, X: NDArray[Any]) -> NDArray[Any]:
        result: NDArray[Any] = self.apply(X)[g]
        return result

    def exact_image(self, g: int, X: NDArray[Any]) -> NDArray[Any]:
        """Image of checked points under transformation number ``g``, not rounded."""
        return self._act(g, X)

    def iterate(self, X: ArrayLike) -> Iterator[NDArray[Any]]:
        """Images of all points under one transformation after the other."""
        points = self.check_points(X)
        for g in range(int(self.order)):
            yield self._act(g, points)

    def point_key(self, X: ArrayLike) -> list[Any]:
        """A sortable key of each point itself."""
        return _byte_keys(self.check_points(X))

    def images(self, X: ArrayLike) -> tuple[NDArray[Any], IntArray]:
        """All image points, and which point each belongs to (sorted)."""
        points = self.check_points(X)
        stacked = np.moveaxis(self.apply(points), 0, 1)
        owner = np.repeat(np.arange(len(points)), stacked.shape[1])
        return stacked.reshape(-1, *points.shape[1:]), owner

    def components(self, X: ArrayLike) -> tuple[IntArray, list[Any]]:
        """Which points must share a label: component of each point, and a key per component.

        For a group these are the orbits; otherwise connected components of "orbits intersect".
        """
        keys = self.orbit_key(X) if self.is_group else self._component_keys(X)
        distinct = sorted(set(keys))
        number = {key: i for i, key in enumerate(distinct)}
        return np.array([number[key] for key in keys], dtype=np.int64), distinct

    def _component_keys(self, X: ArrayLike) -> list[Any]:
        points = self.check_points(X)
        own = self.point_key(points)
        image_points, owner = self.images(points)
        everything = own + self.point_key(image_points)
        number = {key: i for i, key in enumerate(sorted(set(everything)))}
        columns = np.array([number[key] for key in everything])
        rows = np.concatenate([np.arange(len(own)), owner])
        n = len(own)
        graph = sparse.coo_array(
            (np.ones(rows.size, dtype=np.int8), (rows, n + columns)),
            shape=(n + len(number), n + len(number)),
        )
        labels = connected_components(graph, directed=False)[1][:n]
        smallest: dict[int, Any] = {}
        for label, key in zip(labels.tolist(), own):
            smallest[label] = min(smallest.get(label, key), key)
        return [smallest[label] for label in labels.tolist()]

    def sample(self, X: ArrayLike, n_images: int, random_state: RandomState = None) -> NDArray[Any]:
        """Images of all points under random transformations, shape (n_images, n, ...)."""
        points = self.check_points(X)
        rng = generator(random_state)
        picks = rng.integers(int(self.order), size=check_int(n_images, "n_images", low=1))
        return np.stack([self._act(int(g), points) for g in picks])

    def validate(self, X: ArrayLike | None = None) -> None:
        """Raise if the set is not what it claims to be; with data, also check the orbit keys."""
        if not self.contains_identity:
            raise IdentityMissingError("the identity is missing; add it to the set")
        if X is not None and self.is_group and math.isfinite(self.order):
            points = self.check_points(X)
            keys = self.orbit_key(points)
            for g, image in enumerate(self.iterate(points)):
                if self.orbit_key(image) != keys:
                    raise NotAGroupError(
                        f"transformation {g} moves a point out of its orbit; the set is not a "
                        "group on these data: use closure(), or pass a MapSet"
                    )


class TrivialGroup(TransformationSet):
    """Only the identity: every point is its own orbit; acts on rows of any length.

    Examples
    --------
    >>> TrivialGroup().apply([[1.0, 2.0]]).shape
    (1, 1, 2)
    """

    def __repr__(self) -> str:
        return "TrivialGroup()"

    @property
    def order(self) -> float:
        """One."""
        return 1

    def check_points(self, X: ArrayLike) -> NDArray[Any]:
        """Return the points as an array without negative zeros."""
        array = np.asarray(X)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ShapeError("the points contain NaN or infinity; remove or impute them")
        return np.ascontiguousarray(array + 0.0) if array.dtype.kind == "f" else array

    def apply(self, X: ArrayLike) -> NDArray[Any]:
        """The points themselves, with one leading axis."""
        return self.check_points(X)[None]

    def canonical(self, X: ArrayLike) -> NDArray[Any]:
        """The points themselves."""
        return self.check_points(X)

    def orbit_key(self, X: ArrayLike) -> list[Any]:
        """Bytes of every point."""
        return _byte_keys(self.check_points(X))


def orbit_table(keys: Sequence[Hashable], labels: NDArray[Any]) -> dict[Hashable, Any]:
    """First label seen for every key.

    Examples
    --------
    >>> orbit_table(["a", "b", "a"], np.array([1, 0, 1]))
    {'a': 1, 'b': 0}
    """
    table: dict[Hashable, Any] = {}
    for key, label in zip(keys, labels.tolist()):
        table.setdefault(key, label)
    return table


def finite_numbers(X: ArrayLike, what: str) -> NDArray[np.float64]:
    """Points as finite numbers, or ShapeError with the first offending row.

    Examples
    --------
    >>> finite_numbers([[1, 2]], "sets")
    array([[1., 2.]])
    """
    try:
        array = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise ShapeError(f"{what} must be rows of numbers of one length") from None
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise ShapeError(f"point {row} contains NaN or infinity; remove or impute it")
    return array


def _byte_keys(array: NDArray[Any]) -> list[Any]:
    rows = np.ascontiguousarray(array).reshape(len(array), -1)
    if rows.size == 0 or rows.dtype == object:
        return [row.tobytes() for row in rows]
    joined = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))
    result: list[Any] = joined.reshape(-1).tolist()
    return result
