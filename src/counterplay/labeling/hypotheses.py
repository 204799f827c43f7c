"""Where possible labelings come from: thin names over the finite classes of core.

Every function returns a ``FiniteClass`` on the pool, ready for ``PoolProblem.from_class``.
Source: spec 06, sections 2.1 and 3.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.finite_class import FiniteClass
from counterplay.core.halfspaces import halfspaces_lp
from counterplay.core.validation import check_float_array


def enumerate_halfspaces_2d(X: ArrayLike) -> FiniteClass:
    """All labelings of points in the plane by halfspaces, exactly.

    Examples
    --------
    >>> len(enumerate_halfspaces_2d(np.random.default_rng(0).normal(size=(50, 2))))
    2452
    """
    return FiniteClass.halfspaces_2d(X)


def enumerate_halfspaces_lp(X: ArrayLike) -> FiniteClass:
    """All labelings by halfspaces in any dimension, one feasibility LP per candidate; small m.

    Examples
    --------
    >>> len(enumerate_halfspaces_lp([[1, 0], [-1, 0], [0, 1], [0, -1]]))
    14
    """
    return FiniteClass.from_matrix(halfspaces_lp(X), points=X)


def stumps(X: ArrayLike) -> FiniteClass:
    """Axis-parallel decision stumps: one feature, one cut, either side positive.

    Examples
    --------
    >>> len(stumps([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]))
    8
    """
    points = check_float_array(X, "X", ndim=2)
    rows = [FiniteClass.thresholds(column, direction="both").labels for column in points.T]
    return FiniteClass.from_matrix(np.vstack(rows), points=points).deduplicated().unique


def committee(
    estimators: Sequence[Any], X: ArrayLike, *, weights: ArrayLike | None = None
) -> FiniteClass:
    """Labelings of the pool by fitted classifiers, equal ones merged.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> X = [[0.0], [1.0]]
    >>> always = [DummyClassifier(strategy="constant", constant=c) for c in (0, 1, 1)]
    >>> committee([member.fit(X, [0, 1]) for member in always], X)
    FiniteClass(2 members, 2 points)
    """
    return FiniteClass.from_estimators(estimators, X, weights=weights).deduplicated().unique
