"""Attacks on the support vector machine: one clean point, or a pair that dictates the separator.

Source: docs/theory/10-poisoning.md, "Theorem 10.6: one point breaks the SVM".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, check_real
from counterplay.poisoning.hard_margin import shortest_difference
from counterplay.poisoning.hulls import hull_points
from counterplay.poisoning.model import Attacker, LabelledSet, LinearTarget, Points, Target


@checked
class OnePointSVMAttacker(Attacker):
    """One clean point that breaks the hard-margin SVM on the half-sphere construction.

    Parameters
    ----------
    gamma:
        The construction's gamma.

    Examples
    --------
    >>> from counterplay.poisoning.instances import svm_half_sphere
    >>> game = svm_half_sphere(n=50, m_plus=20, random_state=0)
    >>> poison = game.attacker.attack(game.target, game.S, game.X_test[0], budget=1)
    >>> len(poison), round(float(np.linalg.norm(poison.X)), 6)
    (1, 1.0)
    """

    def __init__(self, gamma: float = 0.125) -> None:
        self.gamma = check_real(gamma, "gamma", low=0, high=1, open_low=True)

    def _attack(
        self, h_star: Target, S: LabelledSet, x0: Points, budget: int | None
    ) -> LabelledSet:
        point = np.asarray(x0, dtype=np.float64)
        v1 = np.zeros(point.size)
        v1[0] = 1.0
        rest = point - point[0] * v1
        if not rest.any():
            return LabelledSet.empty(S.X)
        v2 = rest / np.linalg.norm(rest)
        if not (S.y == 1).any():
            return LabelledSet(-v2[None], [1])
        poison = -self.gamma * v1 + np.sqrt(1 - self.gamma**2) * v2
        return LabelledSet(poison[None], [0])


@checked
class SqueezePairAttacker(Attacker):
    """Forces the SVM through a point of the target boundary with a normal of the attacker's choice.

    A pair ``q +- s u`` across the boundary makes every max-margin separator almost the hyperplane
    through q with normal u. It lower-bounds the SVM by almost the region of disagreement.

    Parameters
    ----------
    s:
        Half the distance of the pair; shrunk if a training point is closer to the hyperplane.

    Examples
    --------
    >>> from counterplay.poisoning.lab import HardMarginSVM
    >>> S = LabelledSet([[-0.8, 0.0], [0.8, 0.0]], [0, 1])
    >>> target = LinearTarget([1.0, 0.0], 0.0)
    >>> poison = SqueezePairAttacker().attack(target, S, [0.1, 0.9], budget=2)
    >>> both = S + poison
    >>> int(HardMarginSVM().fit(both.X, both.y).predict([[0.1, 0.9]])[0])  # the truth is 1
    0
    """

    def __init__(self, s: float = 1e-3) -> None:
        self.s = check_real(s, "s", low=0, open_low=True)

    def is_applicable(self, h_star: Target, S: LabelledSet, x0: Points) -> bool:
        """Whether the target is linear."""
        return isinstance(h_star, LinearTarget) and len(S) > 0

    def _attack(
        self, h_star: Target, S: LabelledSet, x0: Points, budget: int | None
    ) -> LabelledSet:
        if not isinstance(h_star, LinearTarget) or (budget is not None and budget < 2):
            return LabelledSet.empty(S.X)
        point = np.asarray(x0, dtype=np.float64)
        wrong = 1 - int(np.asarray(h_star(point[None]))[0])
        plane = widest_plane(np.vstack([S.X, point]), np.append(S.y, wrong))
        if plane is None:
            return LabelledSet.empty(S.X)
        u, b, slack = plane
        w = h_star.w / np.linalg.norm(h_star.w)
        offset = h_star.b / float(np.linalg.norm(h_star.w))
        if float(u @ w) <= 1e-9:
            return LabelledSet.empty(S.X)
        q = _meeting_point(u, b, w, offset, point)
        if q is None:
            return LabelledSet.empty(S.X)
        s = min(self.s, slack / 20)
        return LabelledSet(np.vstack([q + s * u, q - s * u]), [1, 0])


def widest_plane(X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, float, float] | None:
    """The separating hyperplane farthest from all points (unit normal, offset, distance), or None.

    Examples
    --------
    >>> widest_plane([[0.0], [1.0]], [0, 1])[2]
    0.5
    """
    points, labels = np.asarray(X, np.float64), np.asarray(y)
    positive, negative = points[labels == 1], points[labels == 0]
    if len(positive) == 0 or len(negative) == 0:
        return None
    if points.shape[1] == 2:
        positive, negative = hull_points(positive), hull_points(negative)
    v = shortest_difference(positive, negative)
    length = float(np.linalg.norm(v))
    if length <= 1e-9:
        return None
    u: FloatArray = v / length
    first, last = float((positive @ u).min()), float((negative @ u).max())
    if first - last <= 1e-9:
        return None
    return u, -(first + last) / 2, (first - last) / 2


def _meeting_point(
    u: FloatArray, b: float, w: FloatArray, offset: float, near: FloatArray
) -> FloatArray | None:
    """Point of both hyperplanes closest to ``near``; None if they are parallel."""
    rows, values = np.vstack([u, w]), -np.array([b, offset])
    if abs(float(u @ w)) > 1 - 1e-12:
        return None
    q: FloatArray = near + np.linalg.lstsq(rows, values - rows @ near, rcond=None)[0]
    if abs(float(w @ q) + offset) > 1e-9:
        return None
    return q
