"""CircleERM: circles on unit spheres, the class behind the lower bound with t poison points.

On each sphere a circle {x : <x, q> = 1/2} carries label s and the rest the other label; the origin
is 0. Two points of the circle leave at most two candidates for q. Source:
docs/theory/10-poisoning.md, "Theorem 10.10: the budgeted lower bound".
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, check_float_array
from counterplay.errors import NotRealizableError
from counterplay.poisoning.attackers.reflection import nearest_center
from counterplay.poisoning.model import BatchLearner, LabelledSet, Labels

_ON = 1e-9


@checked
class CircleTarget:
    """Labels of circles on unit spheres; the origin is 0.

    Parameters
    ----------
    centers:
        Centres of the spheres.
    q:
        Unit vectors to the poles of the circles.
    s:
        Labels of the circles.

    Examples
    --------
    >>> target = CircleTarget([[3.0, 0, 0]], [[1.0, 0, 0]], [1])
    >>> target([[3.5, np.sqrt(0.75), 0.0], [3.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    array([1, 0, 0], dtype=uint8)
    """

    def __init__(self, centers: ArrayLike, q: ArrayLike, s: ArrayLike) -> None:
        self.centers = check_float_array(centers, "centers", ndim=2)
        self.q = check_float_array(q, "q", ndim=2)
        self.s = np.asarray(s, dtype=np.int64)

    def __call__(self, X: ArrayLike) -> Labels:
        """Label the rows of X."""
        points = np.atleast_2d(np.asarray(X, dtype=np.float64))
        sphere = nearest_center(self.centers, points)
        place = np.maximum(sphere, 0)
        height = np.einsum("ij,ij->i", points - self.centers[place], self.q[place])
        on_circle = np.abs(height - 0.5) < _ON
        labels = np.where(on_circle, self.s[place], 1 - self.s[place])
        return np.where(sphere >= 0, labels, 0).astype(np.uint8)

    def __repr__(self) -> str:
        return f"CircleTarget({len(self.s)} spheres)"


@checked
class CircleERM(BatchLearner):
    """A consistent circle per sphere, chosen at random among the candidates.

    Parameters
    ----------
    centers:
        Centres of the spheres.
    random_state:
        Seed of the choice.

    Examples
    --------
    >>> a = np.array([[3.5, np.sqrt(0.75), 0.0], [3.5, 0.0, np.sqrt(0.75)],
    ...               [4.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    >>> CircleERM([[3.0, 0, 0]], random_state=0).fit(a, [1, 1, 0, 0]).target_.q.round(6) + 0.0
    array([[1., 0., 0.]])
    """

    randomised = True

    def __init__(self, centers: ArrayLike, *, random_state: RandomState = None) -> None:
        self.centers = check_float_array(centers, "centers", ndim=2)
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Find a consistent circle on every sphere."""
        S = LabelledSet(np.asarray(X, np.float64).reshape(-1, self.centers.shape[1]), np.asarray(y))
        rng = generator(self.random_state)
        sphere = nearest_center(self.centers, S.X)
        poles, labels = [], []
        for i, center in enumerate(self.centers):
            rows = sphere == i
            q, s = _circle(S.X[rows] - center, S.y[rows], rng)
            poles.append(q)
            labels.append(s)
        self.target_ = CircleTarget(self.centers, np.array(poles), labels)
        return self

    def predict(self, X: ArrayLike) -> Labels:
        """Labels of the fitted circles."""
        return self.target_(X)


def _circle(x: FloatArray, y: Labels, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """A pole q and a label s with <x, q> = 1/2 exactly at the points labelled s."""
    found: list[tuple[FloatArray, int]] = []
    for s in (0, 1):
        on, off = np.unique(x[y == s], axis=0), x[y != s]
        for q in _poles(on, rng):
            inside = np.abs(on @ q - 0.5) < _ON
            outside = np.abs(off @ q - 0.5) >= _ON
            if inside.all() and outside.all():
                found.append((q, s))
    if not found:
        raise NotRealizableError("no circle on the sphere agrees with all rows")
    return found[int(rng.integers(len(found)))]


def _poles(on: FloatArray, rng: np.random.Generator) -> list[FloatArray]:
    """Candidates for the pole of a circle through the given points."""
    if len(on) == 0:
        return [_unit(rng.normal(size=3))]
    if len(on) == 1:
        across = np.cross(on[0], rng.normal(size=3))
        return [_unit(0.5 * on[0] + np.sqrt(0.75) * _unit(across))]
    a, b = on[0], on[np.linalg.norm(on - on[0], axis=1).argmax()]
    if float(a @ b) <= -1 + 1e-12:
        return []
    g = (a + b) / (2 * (1 + float(a @ b)))
    square = 1 - float(g @ g)
    if square < 0:
        return []
    normal = _unit(np.cross(a, b))
    return [_unit(g + sign * np.sqrt(square) * normal) for sign in (1.0, -1.0)]


def _unit(v: FloatArray) -> FloatArray:
    unit: FloatArray = v / np.linalg.norm(v)
    return unit
