"""The constructive attack on DyadicDirectionLearner: two or four points on the target boundary.

Source: docs/theory/10-poisoning.md, "Theorem 10.5: with margin".
"""

from __future__ import annotations

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, check_real
from counterplay.poisoning.dyadic import (
    Candidate,
    DyadicDirectionLearner,
    candidates,
    project,
    support,
    target_angle,
)
from counterplay.poisoning.model import Attacker, LabelledSet, LinearTarget, Points, Target


@checked
class DyadicPathAttacker(Attacker):
    """Steers the dyadic search to a coarse direction and squeezes the offset there.

    Parameters
    ----------
    s:
        Half the distance of the pairs of poison points.
    learner:
        The learner under attack; each attempt is confirmed by a refit.

    Examples
    --------
    >>> from counterplay.poisoning.lab import DyadicDirectionLearner
    >>> target = LinearTarget([np.cos(1.0), np.sin(1.0)], 0.0)
    >>> S = LabelledSet([[0.5, 0.5], [-0.5, -0.5]], [1, 0])
    >>> poison = DyadicPathAttacker().attack(target, S, [0.6, -0.3])
    >>> both = S + poison
    >>> len(poison), int(DyadicDirectionLearner().fit(both.X, both.y).predict([[0.6, -0.3]])[0])
    (4, 0)
    """

    def __init__(self, learner: DyadicDirectionLearner | None = None, *, s: float = 1e-7) -> None:
        self.learner = DyadicDirectionLearner() if learner is None else learner
        self.s = check_real(s, "s", low=0, open_low=True)
        self._last: tuple[LabelledSet, DyadicDirectionLearner] | None = None

    def is_applicable(self, h_star: Target, S: LabelledSet, x0: Points) -> bool:
        """Whether the target is a half-plane."""
        return isinstance(h_star, LinearTarget) and h_star.w.size == 2

    def _attack(
        self, h_star: Target, S: LabelledSet, x0: Points, budget: int | None
    ) -> LabelledSet:
        if not isinstance(h_star, LinearTarget):
            return LabelledSet.empty(S.X)
        point = np.asarray(x0, dtype=np.float64).reshape(2)
        truth = int(np.asarray(h_star(point[None]))[0])
        fitted = self._fitted(S)
        for candidate in candidates(h_star):
            poison = self._try(h_star, fitted, candidate, point, truth)
            if poison is None or (budget is not None and len(poison) > budget):
                continue
            if int(fitted.partial_refit(poison).predict(point[None])[0]) != truth:
                return poison
        return LabelledSet.empty(S.X)

    def _fitted(self, S: LabelledSet) -> DyadicDirectionLearner:
        """The learner on the clean rows; kept, since many points of one S are attacked in a row."""
        if self._last is None or self._last[0] is not S:
            self._last = (S, DyadicDirectionLearner(self.learner.offset).fit(S.X, S.y))
        return self._last[1]

    def _try(
        self,
        h_star: LinearTarget,
        fitted: DyadicDirectionLearner,
        candidate: Candidate,
        point: FloatArray,
        truth: int,
    ) -> LabelledSet | None:
        first, last = support(fitted.positive_, fitted.negative_, candidate.beta)
        if first <= last:
            return None
        p0 = float(project(point[None], candidate.beta)[0])
        ends = _chord(h_star)
        if ends is None:
            return None
        e = np.sort(project(ends, candidate.beta))
        low, high = (max(p0, last), first) if truth == 1 else (last, min(p0, first))
        low, high = max(low, float(e[0])), min(high, float(e[1]))
        if low >= high:
            return None
        q = _on_chord(ends, candidate.beta, (low + high) / 2)
        poison = [self._pair(q, phi) for phi in _squeezing_angles(candidate, target_angle(h_star))]
        rows = np.vstack(poison)
        if (np.hypot(*rows.T) > 1).any():
            return None
        labels = np.tile([1, 0], len(poison))
        if (np.asarray(h_star(rows)) != labels).any():
            return None
        return LabelledSet(rows, labels)

    def _pair(self, q: FloatArray, phi: float) -> FloatArray:
        u = np.array([np.cos(phi), np.sin(phi)])
        return np.vstack([q + self.s * u, q - self.s * u])


def _squeezing_angles(candidate: Candidate, beta_star: float) -> list[float]:
    """Directions of the pairs that remove the ends of the interval but spare the candidate."""
    beta = candidate.beta
    if beta == 0.0:
        turn = beta_star if beta_star <= np.pi else beta_star - 2 * np.pi
        return [turn / 2]
    return [
        (candidate.low + min(beta, beta_star)) / 2 + np.pi / 2,
        (candidate.high + max(beta, beta_star)) / 2 - np.pi / 2,
    ]


def _chord(h_star: LinearTarget) -> FloatArray | None:
    """Ends of the target boundary within the unit disc."""
    norm = float(np.linalg.norm(h_star.w))
    u, distance = h_star.w / norm, -h_star.b / norm
    if abs(distance) >= 1:
        return None
    half = np.sqrt(1 - distance**2) * (1 - 1e-6)
    along = np.array([-u[1], u[0]])
    return np.vstack([distance * u - half * along, distance * u + half * along])


def _on_chord(ends: FloatArray, beta: float, value: float) -> FloatArray:
    """Point of the chord with the given projection."""
    a, b = project(ends, beta)
    share = 0.5 if a == b else (value - a) / (b - a)
    point: FloatArray = ends[0] + share * (ends[1] - ends[0])
    return point
