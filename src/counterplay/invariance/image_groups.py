"""Groups of images: turns, mirror images, shifts, colours; and shifts that are no group.

Rows of X are flattened images. Source: docs/theory/11-invariance.md, "Conventions".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    check_choice,
    check_int,
    check_size,
    shorten,
)
from counterplay.invariance.callable_group import CallableGroup
from counterplay.invariance.errors import ShapeError
from counterplay.invariance.permutation_groups import (
    MOST_COORDINATES,
    CoordinatePermutationGroup,
    check_listable,
    of_kind,
)


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
    index = index_image(shape)
    if angles == 4 and index.shape[0] != index.shape[1]:
        raise ShapeError(
            f"quarter turns need square images, got shape {shorten(tuple(shape), 80)}; use angles=2"
        )
    return of_kind(
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
    index = index_image(shape)
    generators = [index.reshape(-1)]
    for axis in axes:
        check_choice(axis, "axes", ("horizontal", "vertical"))
        generators.append(np.flip(index, 1 if axis == "horizontal" else 0).reshape(-1))
    return of_kind(CoordinatePermutationGroup.closure(generators), "image")


@checked
def d4(shape: Sequence[int]) -> CoordinatePermutationGroup:
    """All eight symmetries of the square: quarter turns and mirror images.

    Examples
    --------
    >>> d4((3, 3)).order
    8
    """
    index = index_image(shape)
    if index.shape[0] != index.shape[1]:
        raise ShapeError(f"d4 needs square images, got shape {shorten(tuple(shape), 80)}")
    turns = [np.rot90(index, k) for k in range(4)]
    both = turns + [np.flip(turn, 1) for turn in turns]
    return of_kind(
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
    index = index_image(shape)
    generators = [index.reshape(-1)]
    if np.shape(steps) != (2,):
        raise ShapeError(f"steps must be two numbers (rows, columns), got {shorten(steps, 80)}")
    for axis, step in enumerate(steps):
        if check_int(step, "steps", low=0) > 0:
            generators.append(np.roll(index, step, axis=axis).reshape(-1))
    return of_kind(CoordinatePermutationGroup.closure(generators), "image")


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
    index = index_image(shape)
    far = check_int(pixels, "pixels", low=1, high=max(index.shape[:2]))
    steps = [(0, 0), (far, 0), (-far, 0), (0, far), (0, -far)]
    if diagonal:
        steps += [(a, b) for a in (far, -far) for b in (far, -far)]
    moves = [partial(_shift_images, shape=index.shape, step=step) for step in steps]
    return of_kind(CallableGroup(moves, index.size, is_group=False), "image")


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
    index = index_image(shape)
    check_listable(index.shape[2], "channels")
    orders = itertools.permutations(range(index.shape[2]))
    return of_kind(
        CoordinatePermutationGroup(
            np.array([index[:, :, list(order)].reshape(-1) for order in orders])
        ),
        "image",
    )


def index_image(shape: Sequence[int]) -> NDArray[np.int64]:
    """Numbers of the pixels of an image of this shape, checked."""
    if np.ndim(shape) != 1 or len(shape) not in (2, 3):
        raise ShapeError(
            f"shape must be (height, width) or (height, width, channels), got {shorten(shape, 80)}"
        )
    sizes = tuple(check_int(s, "shape", low=1) for s in shape)
    check_size(math.prod(sizes), MOST_COORDINATES, "numbers in an image")
    return np.arange(math.prod(sizes)).reshape(sizes)
