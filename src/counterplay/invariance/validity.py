"""Is this set of transformations a group on these data, and do labels respect its orbits?

Source: docs/theory/11-invariance.md, "Conventions".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from counterplay.core.report import Report
from counterplay.core.validation import check_int
from counterplay.invariance.errors import ShapeError
from counterplay.invariance.group_laws import GroupLaws, check_group_laws
from counterplay.invariance.transformations import TransformationSet


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
    laws = GroupLaws(True, True, True, None)
    if math.isfinite(group.order):
        laws = check_group_laws(group, some)
    keys = group.orbit_key(points) if laws.hold else group.point_key(points)
    numbers: dict[Any, int] = {}
    ids = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    counts = np.bincount(ids)
    conflicts: tuple[int, ...] = ()
    if y is not None:
        labels = np.asarray(y)
        if labels.shape != (len(points),):
            raise ShapeError(f"y must have length {len(points)}, got shape {labels.shape}")
        pairs = np.unique(np.column_stack([ids, np.unique(labels, return_inverse=True)[1]]), axis=0)
        mixed = np.bincount(pairs[:, 0], minlength=counts.size) > 1
        conflicts = tuple(np.flatnonzero(mixed[ids]).tolist())
    return ValidityReport(
        laws.identity, laws.closed, laws.inverses, laws.missing_pair, len(points), int(counts.size),
        int((counts[ids] > 1).sum()), conflicts,
    )  # fmt: skip
