"""The transformed copies of a sample: which group, which images, which weights.

Source: docs/theory/11-invariance.md, "Proposition 11.H: look-up".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.seeds import RandomState
from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError
from counterplay.invariance.errors import ShapeError
from counterplay.invariance.transformations import TransformationSet, TrivialGroup, _byte_keys


def as_group(group: Any, n_features: int) -> TransformationSet:
    """The set of transformations for data with this many features.

    Examples
    --------
    >>> as_group(None, 3)
    TrivialGroup()
    """
    if group is None:
        return TrivialGroup()
    if isinstance(group, TransformationSet):
        return group
    if callable(group):
        made = group(n_features)
        if isinstance(made, TransformationSet):
            return made
    raise InvalidInputError(
        f"group must be a set of transformations (see counterplay.invariance.groups), a function "
        f"that returns one, or None, got {group!r}"
    )


def orbit_images(
    X: ArrayLike, group: TransformationSet, n_images: int = 8, random_state: RandomState = None
) -> NDArray[Any]:
    """All images of the points, or the points and random images where the group is too large.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> orbit_images([[1.0, 2.0]], groups.sequence_reversal(2)).shape
    (2, 1, 2)
    """
    points = group.check_points(X)
    if math.isfinite(group.order):
        return group.apply(points)
    seed = 0 if random_state is None else random_state
    return np.concatenate([points[None], group.sample(points, n_images, seed)])


def voting_images(
    X: ArrayLike, group: TransformationSet, n_images: int = 8, random_state: RandomState = None
) -> NDArray[Any]:
    """All images of the points; where the group is too large, some images of the orbit.

    The same ones for every member: the canonical member, and its images under random
    transformations.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> images = voting_images([[3.0, 1.0, 2.0], [2.0, 3.0, 1.0]], groups.set_permutations(3))
    >>> images.shape, bool((images[:, 0] == images[:, 1]).all())
    ((9, 2, 3), True)
    """
    listed = math.isfinite(group.order)
    return orbit_images(X if listed else group.canonical(X), group, n_images, random_state)


def augmented_sample(
    X: ArrayLike,
    y: ArrayLike,
    group: TransformationSet,
    n_images: int = 8,
    random_state: RandomState = None,
    *,
    distinct: bool = True,
) -> tuple[NDArray[Any], NDArray[Any], FloatArray]:
    """Transformed copies, their labels, and weights that sum to one per sample point.

    ``distinct`` drops copies that coincide with an earlier copy of the same point.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> copies, labels, weights = augmented_sample(
    ...     [[1.0, 2.0], [3.0, 3.0]], [0, 1], groups.sequence_reversal(2))
    >>> len(copies), weights
    (3, array([0.5, 1. , 0.5]))
    """
    images = orbit_images(X, group, n_images, random_state)
    n_copies, n = images.shape[:2]
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise ShapeError(f"y must have length {n}, got shape {labels.shape}")
    owner = np.tile(np.arange(n), n_copies)
    copies = images.reshape(n_copies * n, -1)
    if distinct:
        pairs = zip(owner.tolist(), _byte_keys(copies))
        first: dict[tuple[int, Any], int] = {}
        for index, pair in enumerate(pairs):
            first.setdefault(pair, index)
        keep = np.array(list(first.values()), dtype=np.int64)
        copies, owner = copies[keep], owner[keep]
    sizes = np.bincount(owner, minlength=n)
    return copies, labels[owner], 1.0 / sizes[owner]
