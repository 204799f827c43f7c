"""Is this set of transformations a group on these data, and do labels respect its orbits?

Images are compared with the tolerance that the set declares: matrices and functions of real numbers
round, so they need one; all other sets move values exactly.
Source: docs/theory/11-invariance.md, "Conventions".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.validation import BoolArray, FloatArray, check_int, check_size
from counterplay.invariance.transformations import MOST_NUMBERS, TransformationSet, number_keys
from counterplay.tables import Labels

_Laws = tuple[bool, bool, bool, tuple[int, int] | None]  # identity, closed, inverses, witness


@checked
@dataclass(frozen=True)
class ValidityReport(Report):
    """What a set of transformations does on data: is it a group, do labels fit?

    Attributes
    ----------
    has_identity:
        Whether the identity is there, on the given points.
    closed:
        Whether products are there, on the given points.
    has_inverses:
        Whether inverses are there, on the given points.
    missing_pair:
        Two transformations whose product is not in the set, if there are such.
    n_orbits:
        Number of different orbits.
    n_repeated:
        Number of points whose orbit occurs more than once.
    conflicts:
        Rows of points that share an orbit with a point of another label.

    Examples
    --------
    >>> from counterplay.invariance.groups import sign_flips
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
        names = ["has_identity", "closed", "has_inverses", "n_points", "n_orbits", "n_repeated"]
        values = [getattr(self, name) for name in names]
        return pd.DataFrame(
            {"check": [*names, "n_conflicts"], "value": [*values, len(self.conflicts)]}
        )


@checked
def check_validity(
    group: TransformationSet, X: Any, y: Any = None, *, n_points: int = 50
) -> ValidityReport:
    """Check the group laws on (at most ``n_points`` of) the data, and labels inside orbits.

    Examples
    --------
    >>> from counterplay.invariance.groups import from_callables
    >>> shift = from_callables([lambda X: X, lambda X: X + 1], n_features=1)
    >>> report = check_validity(shift, [[0.0], [5.0]])
    >>> report.closed, report.missing_pair
    (False, (1, 1))
    """
    points = group.check_points(X)
    some = points[: check_int(n_points, "n_points", low=1)]
    laws: _Laws = (True, True, True, None)
    if math.isfinite(group.order) and not group.proved_group:
        check_size(group.order**2 * some.size, MOST_NUMBERS, "numbers in products of images")
        laws = _group_laws(group, some)
    elif math.isfinite(group.order) and group.tolerance > 0 and not _keeps_keys(group, some):
        laws = (True, False, True, None)  # rounding separates members of one orbit at this scale
    keys = group.orbit_key(points) if all(laws[:3]) else group.point_key(points)
    ids = number_keys(keys)
    counts = np.bincount(ids)
    conflicts: tuple[int, ...] = ()
    if y is not None:
        labels = Labels.of(y, rows=len(points))
        pairs = np.unique(np.column_stack([ids, labels.codes]), axis=0)
        mixed = np.bincount(pairs[:, 0], minlength=counts.size) > 1
        conflicts = tuple(np.flatnonzero(mixed[ids]).tolist())
    repeated = int((counts[ids] > 1).sum())
    return ValidityReport(*laws, len(points), int(counts.size), repeated, conflicts)


def _keeps_keys(group: TransformationSet, points: FloatArray) -> bool:
    """Whether every transformation leaves the keys of these points as they are."""
    keys = group.orbit_key(points)
    elements = range(min(int(group.order), 64))
    return all(group.orbit_key(group.exact_image(g, points)) == keys for g in elements)


def _group_laws(group: TransformationSet, points: FloatArray) -> _Laws:
    """Check the laws of a set that can be listed, on all the points at once."""
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
    return bool(own.any()), pair is None, bool(inverse.all()), pair


def _matches(points: NDArray[np.float64], images: FloatArray, room: float) -> BoolArray:
    """Which transformations give these points, all of them, up to rounding."""
    first = np.abs(images[:, :1] - points[:1]).reshape(len(images), -1)
    likely = first.max(axis=1, initial=0.0) <= room  # one point excludes most of them
    for c in np.flatnonzero(likely):
        likely[c] = np.abs(images[c] - points).max(initial=0.0) <= room
    return np.asarray(likely)
