"""Do transformations obey the group laws on given points: identity, products, inverses?

Functions and matrices compute with rounding, so their images are compared within a tolerance; all
other sets move values exactly. Source: docs/theory/11-invariance.md, "Conventions".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import BoolArray, FloatArray
from counterplay.invariance.transformation_set import TransformationSet


@dataclass(frozen=True)
class GroupLaws:
    """Which laws hold on the points that were looked at.

    Examples
    --------
    >>> from counterplay.invariance.groups import sign_flips
    >>> check_group_laws(sign_flips(1), np.array([[1.0], [2.0]]))
    GroupLaws(identity=True, closed=True, inverses=True, missing_pair=None)
    """

    identity: bool
    closed: bool
    inverses: bool
    missing_pair: tuple[int, int] | None

    @property
    def hold(self) -> bool:
        """Whether it is a group on these points."""
        return self.identity and self.closed and self.inverses


def check_group_laws(group: TransformationSet, points: FloatArray) -> GroupLaws:
    """Check the laws of a set that can be listed, on all the points at once.

    Examples
    --------
    >>> from counterplay.invariance.groups import from_callables
    >>> shift = from_callables([lambda X: X, lambda X: X + 1], n_features=1)
    >>> check_group_laws(shift, np.array([[0.3], [5.0]])).missing_pair
    (1, 1)
    """
    if group.proved_group:
        return GroupLaws(True, True, True, None)
    images = np.stack([group.exact_image(g, points) for g in range(int(group.order))])
    room = group.tolerance * max(1.0, float(np.abs(images).max(initial=0.0)))
    own = _matches(points, images, room)
    inverse, pair = np.zeros(len(images), dtype=np.bool_), None
    for b, image in enumerate(images):
        for a in range(len(images)):
            product = group.exact_image(a, image)
            inverse[b] |= bool(np.abs(product - points).max(initial=0.0) <= room)
            if pair is None and not _matches(product, images, room).any():
                pair = (a, b)
    return GroupLaws(bool(own.any()), pair is None, bool(inverse.all()), pair)


def _matches(points: NDArray[np.float64], images: FloatArray, room: float) -> BoolArray:
    """Which transformations give these points, all of them, up to rounding."""
    first = np.abs(images[:, :1] - points[:1]).reshape(len(images), -1)
    likely = first.max(axis=1, initial=0.0) <= room  # one point excludes most of them
    for c in np.flatnonzero(likely):
        likely[c] = np.abs(images[c] - points).max(initial=0.0) <= room
    return np.asarray(likely)
