"""Attacks by reflection: two worlds that no learner can tell apart after the poison.

Each attacker mirrors the training rows through the test point and flips their labels. The poisoned
set could as well have come from the mirrored world, in which the test point has the other label:
any learner errs with probability one half. Source: docs/theory/10-poisoning.md, Theorems 10.2, 10.7
and 10.10.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, check_choice, check_float_array, check_real
from counterplay.poisoning.chain import Chain
from counterplay.poisoning.errors import NotCleanError
from counterplay.poisoning.model import Attacker, LabelledSet, Points, Target


def reflect_through_axis(X: ArrayLike, x0: ArrayLike) -> FloatArray:
    """Reflect rows through the axis of the unit vector x0: ``2 <x0, x> x0 - x``.

    Examples
    --------
    >>> reflect_through_axis([[0.0, 1.0, 0.0]], [1.0, 0.0, 0.0])
    array([[ 0., -1.,  0.]])
    """
    points, axis = np.asarray(X, dtype=np.float64), np.asarray(x0, dtype=np.float64)
    reflected: FloatArray = 2 * (points @ axis)[:, None] * axis - points
    return reflected


@checked
class SphereReflectionAttacker(Attacker):
    """Beats every learner for half-spaces in three dimensions (two tangent circles).

    Parameters
    ----------
    eta:
        Distance of the two parallel planes of the construction.
    careful:
        Attack only if no training point is within sqrt(3 eta / 2) of x0; then it is always clean.

    Examples
    --------
    >>> from counterplay.poisoning.instances import tangent_circles
    >>> game = tangent_circles(m=20, eta=1e-6, n_test=1, random_state=0)
    >>> len(game.attacker.attack(game.target, game.S, game.X_test[0]))
    20
    """

    def __init__(self, eta: float, *, careful: bool = True) -> None:
        self.eta = check_real(eta, "eta", low=0, high=1 / 6, open_low=True, open_high=True)
        self.careful = careful

    def _attack(
        self, h_star: Target, S: LabelledSet, x0: Points, budget: int | None
    ) -> LabelledSet:
        near = float(np.linalg.norm(S.X - x0, axis=1).min(initial=np.inf))
        if self.careful and near <= np.sqrt(1.5 * self.eta):
            return LabelledSet.empty(S.X)
        if budget is not None and len(S) > budget:
            return LabelledSet.empty(S.X)
        return LabelledSet(reflect_through_axis(S.X, x0), 1 - S.y)


@checked
class ChainReflectionAttacker(Attacker):
    """Beats every learner for half-planes, on the convex chain.

    Cleanliness is checked in the chain's own coordinates, where it survives rounding.

    Examples
    --------
    >>> from counterplay.poisoning.instances import convex_chain
    >>> game = convex_chain(m=2, random_state=1)
    >>> poison = game.attacker.attack(game.target, game.S, game.X_test[0])
    >>> len(poison), bool((game.attacker.chain.to_local(poison.X)[:, 1] < 0).all())
    (2, True)
    """

    def __init__(self, chain: Chain) -> None:
        self.chain = chain

    def is_applicable(self, h_star: Target, S: LabelledSet, x0: Points) -> bool:
        """Whether x0 is a point of the chain that is not in the training set."""
        here = self.chain.index_of(np.asarray(x0)[None])[0]
        return bool(here >= 0 and here not in self.chain.index_of(S.X))

    def _attack(
        self, h_star: Target, S: LabelledSet, x0: Points, budget: int | None
    ) -> LabelledSet:
        if not self.is_applicable(h_star, S, x0) or (budget is not None and len(S) > budget):
            return LabelledSet.empty(S.X)
        here = int(self.chain.index_of(np.asarray(x0)[None])[0])
        local = self.chain.reflected(here)[self.chain.index_of(S.X)]
        if (local[:, 1] >= 0).any():
            raise NotCleanError("a reflected chain point is not below the boundary")
        return LabelledSet(self.chain.to_world(local), 1 - S.y)

    def check_clean(self, h_star: Target, poison: LabelledSet) -> None:
        """The check is made in local coordinates by the attack itself."""


@checked
class MarginReflectionAttacker(Attacker):
    """Beats every learner under a margin in high dimension.

    Parameters
    ----------
    w:
        Unit normal of the target within the first n - 1 coordinates.
    gamma:
        The construction's gamma.
    mode:
        ``"maximal"``: attack whenever all reflected rows are clean (still symmetric, so any learner
        errs with probability 1/2). ``"paper"``: only on the event E_1 of the proof.

    Examples
    --------
    >>> from counterplay.poisoning.instances import margin_half_sphere
    >>> game = margin_half_sphere(n=50, m_plus=5, random_state=0)
    >>> len(game.attacker.attack(game.target, game.S, game.X_test[0]))
    5
    """

    def __init__(
        self,
        w: ArrayLike,
        *,
        gamma: float = 0.125,
        mode: Literal["maximal", "paper"] = "maximal",
    ) -> None:
        self.w = check_float_array(w, "w", ndim=1)
        self.gamma = check_real(gamma, "gamma", low=0, high=1, open_low=True)
        self.mode = check_choice(mode, "mode", ("maximal", "paper"))

    def reflect(self, X: ArrayLike, x0: ArrayLike) -> FloatArray:
        """Reflect in the plane of w and x0 through the axis of x0; the rest stays."""
        x, axis = np.asarray(X, np.float64), np.asarray(x0, np.float64)
        v2 = _rest(axis, self.w)
        parallel = np.outer(x @ self.w, self.w) + np.outer(x @ v2, v2)
        turned = 2 * np.outer(parallel @ axis, axis) / float(axis @ axis)
        reflected: FloatArray = x - 2 * parallel + turned
        return reflected

    def allowed(self, X: ArrayLike, x0: ArrayLike) -> bool:
        """Whether the mode's condition holds for the half-sphere rows and the test point."""
        x, axis = np.asarray(X, np.float64), np.asarray(x0, np.float64)
        if self.mode == "maximal":
            return bool((self.reflect(x, axis) @ self.w < self.gamma / 2).all())
        v2, cap = _rest(axis, self.w), 0.125
        small = (x @ self.w <= cap + self.gamma) & (x @ v2 <= cap)
        return bool(small.all() and axis @ self.w <= cap + self.gamma)

    def _attack(
        self, h_star: Target, S: LabelledSet, x0: Points, budget: int | None
    ) -> LabelledSet:
        on_sphere = S.X[:, -1] == 0
        rows, axis = S.X[on_sphere, :-1], np.asarray(x0, dtype=np.float64)[:-1]
        too_many = budget is not None and len(rows) > budget
        if float(np.asarray(x0)[-1]) != 0 or too_many or not self.allowed(rows, axis):
            return LabelledSet.empty(S.X)
        poison = np.column_stack([self.reflect(rows, axis), np.zeros(len(rows))])
        return LabelledSet(poison, 1 - S.y[on_sphere])


@checked
class CircleReflectionAttacker(Attacker):
    """Beats every learner with at most t points: mirrors the few rows on x0's circle.

    Parameters
    ----------
    centers:
        Centres of the unit spheres, one row each.

    Examples
    --------
    >>> from counterplay.poisoning.instances import circles_on_spheres
    >>> game = circles_on_spheres(m=40, t=8, d=1, n_test=1, random_state=0)
    >>> len(game.attacker.attack(game.target, game.S, game.X_test[0], budget=8)) <= 8
    True
    """

    def __init__(self, centers: ArrayLike) -> None:
        self.centers = check_float_array(centers, "centers", ndim=2)

    def _attack(
        self, h_star: Target, S: LabelledSet, x0: Points, budget: int | None
    ) -> LabelledSet:
        here = nearest_center(self.centers, np.asarray(x0, np.float64)[None])[0]
        rows = np.flatnonzero(nearest_center(self.centers, S.X) == here)
        seen = (S.X[rows] == np.asarray(x0)).all(axis=1).any()
        if here < 0 or seen or (budget is not None and len(rows) > budget):
            return LabelledSet.empty(S.X)
        center = self.centers[here]
        mirrored = reflect_through_axis(S.X[rows] - center, np.asarray(x0) - center) + center
        return LabelledSet(mirrored, 1 - S.y[rows])


def nearest_center(
    centers: FloatArray, X: FloatArray
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Sphere of each row, -1 for rows on no sphere."""
    distance = np.linalg.norm(X[:, None, :] - centers[None, :, :], axis=2)
    best = distance.argmin(axis=1)
    on = np.abs(distance[np.arange(len(X)), best] - 1) < 1e-9
    return np.where(on, best, -1).astype(np.int64)


def _rest(x0: FloatArray, w: FloatArray) -> FloatArray:
    """Unit vector of the part of x0 orthogonal to w."""
    rest = x0 - float(x0 @ w) * w
    unit: FloatArray = rest / np.linalg.norm(rest)
    return unit
