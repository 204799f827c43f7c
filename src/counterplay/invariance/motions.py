"""Point sets moved and turned freely, in the plane.

A frame is read off the points: the smallest angular moment that does not vanish. It turns with the
points, so the turned, shifted and sorted points are the same for all members of an orbit. Averages
over angles start at the frame, which makes them exactly invariant.
Source: docs/theory/22-symmetry.md, "Continuous groups"; Puny et al. (2022), "Frame averaging for
invariant and equivariant network design".
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import BoolArray, FloatArray, check_int
from counterplay.errors import AssumptionWarning
from counterplay.invariance.errors import InfiniteOrbitError, ShapeError
from counterplay.invariance.transformations import TransformationSet, byte_keys, finite_numbers

_MOST_MOMENTS = 6
_ZERO = 1e-6  # of a moment, relative
DIGITS = 7  # that decide between frames


class PointMotions(TransformationSet):
    """Unordered points in space, turned and shifted (and scaled) freely; never listed.

    Rows are flattened (n_points, dimension). A row without a frame is *ambiguous*: its canonical
    form starts at an arbitrary turn; ``ambiguous`` says which, and votes average over turns of it.

    Parameters
    ----------
    n_points:
        Points of a set.
    scale:
        Whether sizes do not matter either.
    """

    kind = "set"
    uniform = False  # there is no uniform shift
    dimension = 2

    def __init__(self, n_points: int, scale: bool = False) -> None:
        self.n_points = check_int(n_points, "n_points", low=1, high=1 << 16)
        self.scale = bool(scale)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_points} points, scale={self.scale})"

    @property
    def order(self) -> float:
        """Infinite."""
        return math.inf

    def check_points(self, X: ArrayLike) -> FloatArray:
        """Return sets as rows of numbers."""
        array = finite_numbers(X, "point sets")
        if array.ndim < 2 or math.prod(array.shape[1:]) != self.dimension * self.n_points:
            raise ShapeError(
                f"point sets must have {self.n_points} points of {self.dimension} numbers, got "
                f"{array.shape}"
            )
        return np.ascontiguousarray(array.reshape(len(array), -1) + 0.0)

    def apply(self, X: ArrayLike) -> NDArray[Any]:
        """Not possible: there are infinitely many motions."""
        raise InfiniteOrbitError("motions cannot be listed; use sample(X, n_images)")

    def canonical(self, X: ArrayLike) -> FloatArray:
        """Centred, turned to the frame and sorted; a warning counts ambiguous rows."""
        points = self.check_points(X)
        forms, lost = self._forms(points)
        if lost.any():
            warnings.warn(
                f"{int(lost.sum())} of {len(points)} point sets have no frame (too regular): their "
                "canonical form starts at an arbitrary turn; votes average over turns of them",
                AssumptionWarning,
                stacklevel=2,
            )
        return forms

    def ambiguous(self, X: ArrayLike) -> BoolArray:
        """Which rows have no frame."""
        return self._forms(self.check_points(X))[1]

    def orbit_key(self, X: ArrayLike) -> list[Any]:
        """Bytes of the canonical form to six digits relative to the size of the set."""
        forms = self._forms(self.check_points(X))[0]
        size = np.abs(forms).max(axis=1, initial=0.0, keepdims=True)
        unit = 10.0 ** np.floor(np.log10(np.where(size > 0, 1.2345678 * size, 1.0)))
        return byte_keys(np.round(forms / unit, DIGITS - 1) * unit + 0.0)

    def orbit_sample(
        self, X: ArrayLike, n_images: int, random_state: RandomState = None
    ) -> FloatArray:
        """Images of the canonical forms; rows without a frame are turned evenly instead."""
        points = self.check_points(X)
        forms, lost = self._forms(points)
        out = self.sample(forms, n_images, random_state)
        if lost.any():
            out[:, lost] = self._turns(points[lost], n_images, random_state)
        return out

    def sample(self, X: ArrayLike, n_images: int, random_state: RandomState = None) -> FloatArray:
        """Images under random turns, shifts (by about the size of a set) and orders.

        Shape (n_images, n, p). One motion per image, the same for all sets: what is asked about a
        set must not depend on the others that are asked about with it.
        """
        points, rng, d = self.check_points(X), generator(random_state), self.dimension
        z = points.reshape(len(points), -1, d)
        middle = z.mean(axis=1, keepdims=True)
        spread = np.sqrt(((z - middle) ** 2).sum(axis=2)).max(axis=1)[:, None, None]
        out = []
        for _ in range(check_int(n_images, "n_images", low=1)):
            turn, shift = random_turn(d, rng), spread * rng.normal(size=d)
            factor = np.exp(rng.normal()) if self.scale else 1.0
            moved = (factor * z @ turn.T + shift)[:, rng.permutation(z.shape[1])]
            out.append(moved.reshape(points.shape))
        return np.stack(out)

    @abstractmethod
    def _forms(self, points: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Canonical forms, and which of them are ambiguous."""

    @abstractmethod
    def _turns(self, points: FloatArray, count: int, random_state: RandomState) -> FloatArray:
        """Turns of point sets that have no frame, shape (count, n, p)."""


def random_turn(dimension: int, rng: np.random.Generator) -> FloatArray:
    """A rotation, uniformly distributed.

    Examples
    --------
    >>> round(float(np.linalg.det(random_turn(3, np.random.default_rng(0)))), 9)
    1.0
    """
    q, r = np.linalg.qr(rng.normal(size=(dimension, dimension)))
    q *= np.sign(np.diag(r))
    q[:, 0] *= np.linalg.det(q)
    return np.asarray(q)


def sorted_points(z: FloatArray, size: FloatArray) -> FloatArray:
    """Points ordered by their coordinates, ties (to seven digits) by the next one."""
    keys = np.round(z / size[:, None, None], DIGITS) + 0.0
    order = np.lexsort(np.moveaxis(keys, 2, 0)[::-1], axis=1)
    return np.take_along_axis(z, order[:, :, None], axis=1)


class PlaneMotions(PointMotions):
    """Unordered points in the plane, turned and shifted (and scaled) freely; never listed.

    Rows are flattened (n_points, 2). Regular polygons of seven corners or more have no frame.

    Parameters
    ----------
    n_points:
        Points of a set.
    scale:
        Whether sizes do not matter either.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> motions = groups.plane_motions(3)
    >>> x = np.array([[0.0, 0.0, 2.0, 0.0, 0.0, 1.0]])
    >>> moved = motions.sample(x, 1, 0)[0]
    >>> bool(np.abs(motions.canonical(moved) - motions.canonical(x)).max() < 1e-9)
    True
    """

    def quadrature(self, X: ArrayLike, n_angles: int = 16) -> FloatArray:
        """Canonical forms turned by multiples of 360/n_angles degrees: the same for an orbit."""
        return self._turns(self.canonical(X), check_int(n_angles, "n_angles", low=1), None)

    def _turns(self, points: FloatArray, count: int, random_state: RandomState) -> FloatArray:
        z = _complex(points)
        z = z - z.mean(axis=1, keepdims=True)
        return np.stack([_flat(z * np.exp(2j * np.pi * k / count)) for k in range(count)])

    def _forms(self, points: FloatArray) -> tuple[FloatArray, BoolArray]:
        z, angle, count, size = self._framed(points)
        best: FloatArray | None = None
        key: FloatArray | None = None
        for j in range(_MOST_MOMENTS):  # of the frames of each row, the one with the smallest image
            turn = angle + 2 * np.pi * np.minimum(j, np.maximum(count - 1, 0)) / np.maximum(
                count, 1
            )
            flat = _flat(z * np.exp(-1j * turn)[:, None])
            image = sorted_points(flat.reshape(len(z), -1, 2), size).reshape(flat.shape)
            value = np.round(image / size[:, None], DIGITS) + 0.0
            if best is None or key is None:
                best, key = image, value
                continue
            place = (value != key).argmax(axis=1)
            rows = np.arange(len(points))
            better = value[rows, place] < key[rows, place]
            best = np.where(better[:, None], image, best)
            key = np.where(better[:, None], value, key)
        assert best is not None
        return best, np.asarray(count == 0)

    def _framed(self, points: FloatArray) -> tuple[Any, FloatArray, NDArray[Any], FloatArray]:
        """Centred points, angle of the first frame, number of frames (0: none), size."""
        z = _complex(points)
        z = z - z.mean(axis=1, keepdims=True)
        size = np.sqrt((np.abs(z) ** 2).mean(axis=1))
        size = np.where(size > 0, size, 1.0)
        if self.scale:
            z, size = z / size[:, None], np.ones(len(z))
        length = np.abs(z)
        unit = np.where(length > 1e-12 * size[:, None], z / np.where(length > 0, length, 1.0), 0.0)
        total = np.maximum((length**2).sum(axis=1), 1e-300)
        angle, count = np.zeros(len(z)), np.zeros(len(z), dtype=np.int64)
        for m in range(1, _MOST_MOMENTS + 1):  # the m-th moment turns by m times the angle
            moment = (length**2 * unit**m).sum(axis=1) / total
            new = (count == 0) & (np.abs(moment) > _ZERO)
            angle = np.where(new, np.angle(moment) / m, angle)
            count = np.where(new, m, count)
        return z, angle, count, size


def _complex(points: FloatArray) -> NDArray[Any]:
    """Points of the plane as complex numbers, shape (n, n_points)."""
    pairs = points.reshape(len(points), -1, 2)
    return np.asarray(pairs[..., 0] + 1j * pairs[..., 1])


def _flat(z: NDArray[Any]) -> FloatArray:
    """Complex numbers as rows of pairs."""
    return np.stack([z.real, z.imag], axis=-1).reshape(len(z), -1)


def anchored_mean(
    score: Callable[[FloatArray], Any], X: Any, group: PlaneMotions, n_angles: int = 16
) -> tuple[FloatArray, FloatArray]:
    """Mean of a score over angles from the frame on, and the change when angles are doubled.

    Exactly invariant; at most pi L / (2 n_angles) from the mean over all angles if the score is
    L-Lipschitz in the angle.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> x = np.array([[0.0, 0.0, 2.0, 0.0, 0.0, 1.0]])
    >>> value, change = anchored_mean(lambda A: A[:, 0] ** 2, x, groups.plane_motions(3), 4)
    >>> bool(change[0] < 1e-12)   # a trigonometric polynomial of degree two
    True
    """
    fine = np.stack([np.asarray(score(part), dtype=np.float64) for part in
                     group.quadrature(X, 2 * n_angles)])  # fmt: skip
    coarse = fine[::2].mean(axis=0)
    return coarse, np.abs(fine.mean(axis=0) - coarse)
