"""Orbit dimensions: VC dimension with at most one point per orbit, and on orbits as a whole.

For the orbits of a group, which partition the points. VCao counts shattered sets with points from
different orbits; VCo counts sets of orbits that are shattered by hypotheses constant on each of
them. Always VCo <= VCao <= VC dimension.
Source: Definitions 11.4 and 11.5, see docs/theory/11-invariance.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.dimensions.vc import Shattering, Values, vc_dimension
from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import IntArray
from counterplay.errors import InvalidInputError


@dataclass(frozen=True)
class OrbitShattering(Shattering):
    """A largest set of points in different orbits, or of orbits, that is shattered.

    For VCao the ``points`` are points; for VCo they are orbit numbers as in
    :func:`orbit_ids`.
    """

    whole_orbits: bool = False

    def verify_orbits(self, cls: FiniteClass, orbits: ArrayLike) -> bool:
        """Check the certificate against the class and the orbit of each point."""
        if self.whole_orbits:
            return self.verify(orbit_labels(cls, orbits))
        ids = orbit_ids(orbits, cls.n_points)[list(self.points)]
        return np.unique(ids).size == self.value and self.verify(cls)

    def summary(self) -> str:
        """One sentence with the dimension and the set."""
        name = "VCo" if self.whole_orbits else "VCao"
        relation = "is" if self.exact else "is at least"
        kind = "orbits" if self.whole_orbits else "points"
        return f"{name} {relation} {self.value}; shattered {kind}: {list(self.points)}"


def orbit_ids(orbits: ArrayLike, n_points: int) -> IntArray:
    """Return the orbit of each point as numbers 0..K-1, in the order of the sorted labels."""
    array = np.asarray(orbits)
    if array.shape != (n_points,):
        raise InvalidInputError(f"orbits must have length {n_points}, got shape {array.shape}")
    return np.unique(array, return_inverse=True)[1].reshape(-1).astype(np.int64)


def orbit_labels(cls: FiniteClass, orbits: ArrayLike) -> Values:
    """Label of each member on each orbit: 0, 1, or 2 where the member is not constant.

    Examples
    --------
    >>> cls = FiniteClass.from_matrix([[0, 0, 1], [0, 1, 1]])
    >>> orbit_labels(cls, [0, 0, 1])
    array([[0, 1],
           [2, 1]], dtype=uint8)
    """
    ids = orbit_ids(orbits, cls.n_points)
    if ids.size == 0:
        return np.zeros((len(cls), 0), dtype=np.uint8)
    order = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
    sorted_labels = cls.labels.view(np.uint8)[:, order]
    low = np.minimum.reduceat(sorted_labels, starts, axis=1)
    high = np.maximum.reduceat(sorted_labels, starts, axis=1)
    labels: Values = np.where(low == high, low, np.uint8(2))
    return labels


def group_vcao(
    cls: FiniteClass, orbits: ArrayLike, *, budget: int | None = None
) -> OrbitShattering:
    """Largest shattered set with at most one point per orbit (VCao).

    Examples
    --------
    Two orbits of two points and all labelings: VC dimension 4, but only two orbits.

    >>> cls = FiniteClass.all_labelings(4)
    >>> group_vcao(cls, [0, 0, 1, 1]).value, group_vco(cls, [0, 0, 1, 1]).value
    (2, 2)
    """
    ids = orbit_ids(orbits, cls.n_points)
    found = vc_dimension(cls, conflicts=ids[:, None] == ids[None, :], budget=budget)
    return OrbitShattering(found.points, found.witnesses, found.exact)


def group_vco(cls: FiniteClass, orbits: ArrayLike, *, budget: int | None = None) -> OrbitShattering:
    """Largest set of orbits shattered by hypotheses that are constant on each of them (VCo)."""
    found = vc_dimension(orbit_labels(cls, orbits), budget=budget)
    return OrbitShattering(found.points, found.witnesses, found.exact, whole_orbits=True)
