"""Pictures turned by any angle: interpolation loses information, so these turns are no group.

A picture is turned back to the axis of its second moments (the sign by the third ones). That form
is nearly the same for all turns of a picture: a canonical form "by moments".
Source: docs/theory/22-symmetry.md, "Continuous groups".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, check_int
from counterplay.invariance.callable_group import CallableGroup
from counterplay.invariance.image_groups import index_image

_FEW = 8  # turns that are listed where every angle is possible


@checked
def image_turns(shape: Sequence[int], angles: int | Literal["any"] = 8) -> ImageTurns:
    """Turns of pictures, interpolated: by multiples of 360/angles degrees, or by any angle.

    They are not a group: augment, vote, or use ``form="smallest"``, which turns pictures to the
    axis of their moments and is approximate.

    Parameters
    ----------
    shape:
        (height, width) or (height, width, channels) of one picture.
    angles:
        Number of turns; "any": random angles wherever images are drawn.

    Examples
    --------
    >>> image_turns((8, 8)).order, image_turns((8, 8), "any").order
    (8, inf)
    """
    return ImageTurns(shape, angles)


class ImageTurns(CallableGroup):
    """Pictures turned by some angles, with a canonical form by moments; see :func:`image_turns`."""

    kind = "image"
    approximate_form = True
    uniform = False

    def __init__(self, shape: Sequence[int], angles: int | Literal["any"] = 8) -> None:
        index = index_image(shape)
        self.any = angles == "any"
        count = _FEW if self.any else check_int(angles, "angles", low=1, high=360)
        self.shape = index.shape
        turns = [partial(self.turned, angle=360.0 * k / count) for k in range(count)]
        super().__init__(turns, index.size, is_group=False)

    def __repr__(self) -> str:
        return f"ImageTurns(order={self.order}, shape={self.shape})"

    @property
    def order(self) -> float:
        """Number of turns; infinite for any angle."""
        return math.inf if self.any else len(self.functions)

    def sample(self, X: ArrayLike, n_images: int, random_state: RandomState = None) -> NDArray[Any]:
        """Images under random turns, shape (n_images, n, p)."""
        if not self.any:
            return super().sample(X, n_images, random_state)
        rng, points = generator(random_state), self.check_points(X)
        angles = 360.0 * rng.random(check_int(n_images, "n_images", low=1))
        return np.stack([self.turned(points, angle) for angle in angles])

    def canonical(self, X: ArrayLike) -> FloatArray:
        """Pictures turned to the axis of their second moments, the sign by the third ones."""
        points = self.check_points(X)
        grey = np.abs(points.reshape(len(points), *self.shape[:2], -1)).sum(axis=3)
        rows, columns = np.mgrid[: self.shape[0], : self.shape[1]].astype(np.float64)
        mass = np.maximum(grey.sum(axis=(1, 2)), 1e-300)[:, None, None]
        v = rows - (grey * rows).sum(axis=(1, 2), keepdims=True) / mass
        h = columns - (grey * columns).sum(axis=(1, 2), keepdims=True) / mass
        second = [(grey * a * b).sum(axis=(1, 2)) for a, b in ((v, v), (h, h), (v, h))]
        axis = 0.5 * np.arctan2(2 * second[2], second[1] - second[0])
        along = h * np.cos(axis)[:, None, None] + v * np.sin(axis)[:, None, None]
        axis = axis + np.pi * ((grey * along**3).sum(axis=(1, 2)) < 0)
        return self.turned(points, np.degrees(axis))

    def turned(self, X: NDArray[Any], angle: Any) -> FloatArray:
        """Pictures turned by an angle (degrees; one number, or one per row), interpolated."""
        images = X.reshape(len(X), *self.shape)
        angles = np.broadcast_to(np.asarray(angle, dtype=np.float64), (len(X),))
        out = np.empty(images.shape)
        for i, image in enumerate(images):
            out[i] = ndimage.rotate(image, angles[i], axes=(1, 0), reshape=False, order=1)
        return out.reshape(X.shape)
