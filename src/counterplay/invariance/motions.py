"""Continuous groups: point sets in the plane moved and turned freely, pictures turned by any angle.

A frame is read off the points: the smallest angular moment that does not vanish. It turns with the
points, so the turned, shifted and sorted points are the same for all members of an orbit. Averages
over angles start at the frame, which makes them exactly invariant.
Source: docs/theory/22-symmetry.md, "Continuous groups"; Puny et al. (2022), "Frame averaging for
invariant and equivariant network design".
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import BoolArray, FloatArray, check_int
from counterplay.errors import AssumptionWarning
from counterplay.invariance.errors import InfiniteOrbitError, ShapeError
from counterplay.invariance.transformations import TransformationSet, byte_keys, finite_numbers

_MOST_MOMENTS = 6
_ZERO = 1e-6  # of a moment, relative
_DIGITS = 7  # that decide between frames


class PlaneMotions(TransformationSet):
    """Unordered points in the plane, turned and shifted (and scaled) freely; never listed.

    Rows are flattened (n_points, 2). A row without a frame (a regular polygon of seven corners or
    more) is *ambiguous*: its canonical form starts at an arbitrary angle; ``ambiguous`` says which.

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

    kind = "set"

    def __init__(self, n_points: int, scale: bool = False) -> None:
        self.n_points = check_int(n_points, "n_points", low=1, high=1 << 16)
        self.scale = bool(scale)

    def __repr__(self) -> str:
        return f"PlaneMotions({self.n_points} points, scale={self.scale})"

    @property
    def order(self) -> float:
        """Infinite."""
        return math.inf

    def check_points(self, X: ArrayLike) -> FloatArray:
        """Return sets as rows of 2 n_points numbers."""
        array = finite_numbers(X, "point sets")
        if array.ndim < 2 or math.prod(array.shape[1:]) != 2 * self.n_points:
            raise ShapeError(
                f"point sets must have {self.n_points} points of two numbers, got {array.shape}"
            )
        return np.ascontiguousarray(array.reshape(len(array), -1) + 0.0)

    def apply(self, X: ArrayLike) -> NDArray[Any]:
        """Not possible: there are infinitely many motions."""
        raise InfiniteOrbitError("motions cannot be listed; use sample(X, n_images)")

    def canonical(self, X: ArrayLike) -> FloatArray:
        """Centred, turned to the frame and sorted; a warning counts ambiguous rows."""
        points, angle, count, size = self._framed(self.check_points(X))
        lost = int((count == 0).sum())
        if lost:
            warnings.warn(
                f"{lost} of {len(points)} point sets have no frame (too regular): their canonical "
                "form starts at an arbitrary angle; use quadrature with a finer grid",
                AssumptionWarning,
                stacklevel=2,
            )
        best: NDArray[Any] | None = None
        key: FloatArray | None = None
        for j in range(_MOST_MOMENTS):  # of the frames of each row, the one with the smallest image
            turn = angle + 2 * np.pi * np.minimum(j, np.maximum(count - 1, 0)) / np.maximum(
                count, 1
            )
            image = _sorted(points * np.exp(-1j * turn)[:, None], size)
            value = np.round(_flat(image) / size[:, None], _DIGITS) + 0.0
            if best is None or key is None:
                best, key = image, value
                continue
            place = (value != key).argmax(axis=1)
            rows = np.arange(len(points))
            better = value[rows, place] < key[rows, place]
            best = np.where(better[:, None], image, best)
            key = np.where(better[:, None], value, key)
        assert best is not None
        return _flat(best)

    def orbit_key(self, X: ArrayLike) -> list[Any]:
        """Bytes of the canonical form to six digits relative to the size of the set."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssumptionWarning)
            forms = self.canonical(X)
        size = np.abs(forms).max(axis=1, initial=0.0, keepdims=True)
        unit = 10.0 ** np.floor(np.log10(np.where(size > 0, 1.2345678 * size, 1.0)))
        return byte_keys(np.round(forms / unit, _DIGITS - 1) * unit + 0.0)

    def ambiguous(self, X: ArrayLike) -> BoolArray:
        """Which rows have no frame."""
        return np.asarray(self._framed(self.check_points(X))[2] == 0)

    def sample(self, X: ArrayLike, n_images: int, random_state: RandomState = None) -> FloatArray:
        """Images under random turns, shifts (by about the size of a set) and orders.

        Shape (n_images, n, p). One motion per image, the same for all sets: what is asked about a
        set must not depend on the others that are asked about with it.
        """
        points = self.check_points(X)
        rng = generator(random_state)
        z = _complex(points)
        spread = np.abs(z - z.mean(axis=1, keepdims=True)).max(axis=1, keepdims=True)
        out = []
        for _ in range(check_int(n_images, "n_images", low=1)):
            turn = np.exp(2j * np.pi * rng.random())
            shift = spread * complex(*rng.normal(size=2))
            factor = np.exp(rng.normal()) if self.scale else 1.0
            out.append(_flat((factor * turn * z + shift)[:, rng.permutation(z.shape[1])]))
        return np.stack(out)

    def quadrature(self, X: ArrayLike, n_angles: int = 16) -> FloatArray:
        """Canonical forms turned by multiples of 360/n_angles degrees: the same for an orbit."""
        start = _complex(self.canonical(X))
        steps = check_int(n_angles, "n_angles", low=1)
        turns = np.exp(2j * np.pi * np.arange(steps) / steps)
        return np.stack([_flat(start * turn) for turn in turns])

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


def _sorted(z: NDArray[Any], size: FloatArray) -> NDArray[Any]:
    """Points from left to right, ties (to seven digits) from below."""
    across, up = (np.round(part / size[:, None], _DIGITS) + 0.0 for part in (z.real, z.imag))
    return np.take_along_axis(z, np.lexsort((up, across), axis=1), axis=1)


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


class TurnedImages:
    """Turns of pictures by any angle, as functions, and a canonical form by moments."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)

    def turned(self, X: NDArray[Any], angle: Any) -> FloatArray:
        """Pictures turned by an angle (degrees; one number, or one per row), interpolated."""
        images = X.reshape(len(X), *self.shape)
        angles = np.broadcast_to(np.asarray(angle, dtype=np.float64), (len(X),))
        out = np.empty(images.shape)
        for i, image in enumerate(images):
            out[i] = ndimage.rotate(image, angles[i], axes=(1, 0), reshape=False, order=1)
        return out.reshape(X.shape)

    def upright(self, X: NDArray[Any]) -> FloatArray:
        """Pictures turned to the axis of their second moments, the sign by the third ones."""
        grey = np.abs(X.reshape(len(X), *self.shape[:2], -1)).sum(axis=3)
        rows, columns = np.mgrid[: self.shape[0], : self.shape[1]].astype(np.float64)
        mass = np.maximum(grey.sum(axis=(1, 2)), 1e-300)[:, None, None]
        v = rows - (grey * rows).sum(axis=(1, 2), keepdims=True) / mass
        h = columns - (grey * columns).sum(axis=(1, 2), keepdims=True) / mass
        second = [(grey * a * b).sum(axis=(1, 2)) for a, b in ((v, v), (h, h), (v, h))]
        axis = 0.5 * np.arctan2(2 * second[2], second[1] - second[0])
        along = h * np.cos(axis)[:, None, None] + v * np.sin(axis)[:, None, None]
        axis = axis + np.pi * ((grey * along**3).sum(axis=(1, 2)) < 0)
        return self.turned(X, np.degrees(axis))
