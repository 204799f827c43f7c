"""The attack on consistent proper learners: reveal everything but two points of a hollow star.

Source: docs/theory/10-poisoning.md, "Theorem 10.13: hollow stars".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import check_labels01
from counterplay.errors import InvalidInputError
from counterplay.poisoning.model import Attacker, LabelledSet, Points, Target, as_points


@checked
class HollowStarAttacker(Attacker):
    """Leaves a proper learner only two hypotheses, which differ at x0.

    Parameters
    ----------
    points:
        A minimal set (positions or coordinates) that no hypothesis labels with ``labels``.
    labels:
        The labels; the target differs from them at exactly one of the points.

    Examples
    --------
    >>> from counterplay.core.finite_class import FiniteClass
    >>> from counterplay.poisoning.lab import OrderedERM, TableTarget
    >>> attacker = HollowStarAttacker(np.arange(6), np.zeros(6, int))
    >>> S = LabelledSet([1, 3], [0, 0])
    >>> both = S + attacker.attack(TableTarget(np.eye(6, dtype=int)[5]), S, 2)
    >>> OrderedERM(FiniteClass.singletons(6)).fit(both.X, both.y).predict([2, 5])
    array([1, 0], dtype=uint8)
    """

    def __init__(self, points: ArrayLike, labels: ArrayLike) -> None:
        self.points = as_points(points)
        self.labels = check_labels01(np.asarray(labels), "labels").astype(np.uint8)
        if len(self.points) != len(self.labels):
            raise InvalidInputError("points and labels must have the same length")

    def _attack(
        self, h_star: Target, S: LabelledSet, x0: Points, budget: int | None
    ) -> LabelledSet:
        flat = self.points.reshape(len(self.points), -1)
        here = np.flatnonzero((flat == np.asarray(x0).reshape(1, -1)).all(axis=1))
        star = np.flatnonzero(np.asarray(h_star(self.points)) != self.labels)
        if here.size != 1 or star.size != 1 or here[0] == star[0]:
            return LabelledSet.empty(S.X)
        rest = np.setdiff1d(np.arange(len(self.labels)), [here[0], star[0]])
        if budget is not None and rest.size > budget:
            return LabelledSet.empty(S.X)
        return LabelledSet(self.points[rest], self.labels[rest])
