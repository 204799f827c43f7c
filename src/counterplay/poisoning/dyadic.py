"""DyadicDirectionLearner: half-planes, coarsest dyadic direction first.

The directions consistent with the data form an arc. The learner returns the coarsest multiple of
2 pi / 2^k in it. Clean poison shrinks the arc around the target's direction, so it can only move
the answer along the dyadic path to that direction: few candidates, hence a certificate.
Source: alg:linear2d, thm:lin2d, spec 10 section 3.8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    check_choice,
    check_float_array,
    check_positive_int,
    check_real,
)
from counterplay.errors import InvalidInputError
from counterplay.poisoning.errors import (
    NotRealizableError,
    NumericallyDegenerateError,
    OutOfDomainError,
)
from counterplay.poisoning.hulls import hull_points
from counterplay.poisoning.model import LabelledSet, Labels, Learner, LinearTarget, Target

TWO_PI = 2 * np.pi
_MAX_DEPTH = 60
_LEVELS = 55


class UnitDiscScaler:
    """Maps a disc known in advance onto the unit disc.

    Fix centre and radius from the description of the domain, never from data: an attacker who can
    move the scaling moves the learner.

    Examples
    --------
    >>> UnitDiscScaler(center=(2.0, 0.0), radius=4.0).transform([[2.0, 2.0]])
    array([[0. , 0.5]])
    """

    def __init__(self, center: ArrayLike = (0.0, 0.0), radius: float = 1.0) -> None:
        self.center = check_float_array(center, "center", ndim=1)
        self.radius = check_real(radius, "radius", low=0, open_low=True)

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the rows of X in the coordinates of the unit disc."""
        scaled: FloatArray = (np.asarray(X, dtype=np.float64) - self.center) / self.radius
        if len(scaled) and (np.hypot(*scaled.T) > 1 + 1e-9).any():
            raise OutOfDomainError("a point lies outside the described disc")
        return scaled

    def __repr__(self) -> str:
        return f"UnitDiscScaler(center={self.center.tolist()}, radius={self.radius:g})"


class DyadicDirectionLearner(Learner):
    """Half-planes in the unit disc, robust to clean-label attack.

    Parameters
    ----------
    offset:
        Where the boundary lies between the classes along the direction: ``"mid"``, ``"inf"`` (at
        the first positive) or ``"sup"`` (right behind the last negative).
    check_domain:
        Refuse points outside the unit disc.

    Notes
    -----
    Guaranteed for margin gamma: attackable rate at most eps with probability 1 - delta after
    :func:`counterplay.poisoning.bounds.dyadic_margin_sample_size` rows. :meth:`certified` gives
    the points no clean poison can flip.

    Examples
    --------
    >>> X = [[0.1, 0.6], [-0.3, 0.4], [0.2, -0.5], [-0.4, -0.2]]
    >>> learner = DyadicDirectionLearner().fit(X, [1, 1, 0, 0])
    >>> learner.beta_ / (2 * np.pi), learner.depth_
    (0.25, 3)
    """

    def __init__(
        self, offset: Literal["mid", "inf", "sup"] = "mid", *, check_domain: bool = True
    ) -> None:
        self.offset = check_choice(offset, "offset", ("mid", "inf", "sup"))
        self.check_domain = check_domain

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Find the coarsest consistent dyadic direction."""
        points = np.asarray(X, dtype=np.float64).reshape(-1, 2)
        S = LabelledSet(points, np.asarray(y))
        if self.check_domain and len(S) and float(np.einsum("ij,ij->i", S.X, S.X).max()) > 1 + 1e-9:
            raise OutOfDomainError("points must lie in the unit disc; see UnitDiscScaler")
        positive = S.y == 1
        return self._fit_hulls(hull_points(S.X[positive]), hull_points(S.X[~positive]))

    def partial_refit(self, extra: LabelledSet) -> DyadicDirectionLearner:
        """Return the learner fitted with extra rows, from the stored hulls."""
        other = DyadicDirectionLearner(self.offset, check_domain=self.check_domain)
        positive = extra.y == 1
        return other._fit_hulls(
            np.vstack([self.positive_, extra.X[positive]]),
            np.vstack([self.negative_, extra.X[~positive]]),
        )

    def _fit_hulls(self, positive: FloatArray, negative: FloatArray) -> Self:
        self.positive_, self.negative_ = positive, negative
        self.path_: tuple[float, ...] = (0.0,)
        beta = 0.0
        if not self._consistent(beta):
            center = consistent_arc(positive, negative).center
            low, high = 0.0, TWO_PI
            while True:
                beta = (low + high) / 2
                self.path_ += (beta,)
                if self._consistent(beta):
                    break
                if len(self.path_) > _MAX_DEPTH:
                    raise NumericallyDegenerateError(
                        "the arc of consistent directions is too thin for 64-bit numbers"
                    )
                low, high = (low, beta) if center < beta else (beta, high)
        self.beta_, self.depth_ = beta, len(self.path_)
        first, last = support(positive, negative, beta)
        low_b, high_b = -first, -last
        self.b_ = {"mid": (low_b + high_b) / 2, "inf": low_b, "sup": np.nextafter(high_b, -9)}[
            self.offset
        ]
        return self

    def _consistent(self, beta: float) -> bool:
        first, last = support(self.positive_, self.negative_, beta)
        return first > last

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Signed distance to the boundary."""
        p = project(np.asarray(X, dtype=np.float64).reshape(-1, 2), self.beta_)
        return np.asarray(p + self.b_, dtype=np.float64)

    def predict(self, X: ArrayLike) -> Labels:
        """Label 1 on and above the boundary."""
        return (self.decision_function(X) >= 0).astype(np.uint8)

    def upper_region(self, h_star: LinearTarget, X: ArrayLike) -> BoolArray:
        """Points that some candidate direction could get wrong: contains the attackable region."""
        points = np.asarray(X, dtype=np.float64).reshape(-1, 2)
        positive = np.asarray(h_star(points)) == 1
        region = np.zeros(len(points), dtype=np.bool_)
        for candidate in candidates(h_star):
            first, last = support(self.positive_, self.negative_, candidate.beta)
            if first <= last:
                continue
            p = project(points, candidate.beta)
            region |= np.where(positive, p < first, p > last)
        return region

    def consistent_errors(
        self, h_star: LinearTarget, X: ArrayLike, n_directions: int = 400
    ) -> tuple[float, BoolArray]:
        """Errors of the half-planes consistent with the data, over a fan of directions.

        Returns the largest error on X of such a half-plane, and the points at which one of them
        errs (the region of disagreement, up to the fineness of the fan). The first is the e' of the
        theorem: the mass of :meth:`upper_region` is at most ``2 e' log(64 / gamma)`` for margin
        gamma. The candidates of the search are in the fan.
        """
        points = np.asarray(X, dtype=np.float64).reshape(-1, 2)
        one = np.asarray(h_star(points)) == 1
        spread = self._fan(check_positive_int(n_directions, "n_directions"))
        worst, region = 0.0, np.zeros(len(points), dtype=np.bool_)
        for beta in [*(c.beta for c in candidates(h_star)), *spread.tolist()]:
            first, last = support(self.positive_, self.negative_, beta)
            if first > last:
                p = project(points, beta)
                low, high = one & (p < first), ~one & (p > last)
                worst = max(worst, float(low.mean()), float(high.mean()))
                region |= low | high
        return worst, region

    def _fan(self, count: int) -> FloatArray:
        if len(self.positive_) and len(self.negative_):
            arc = consistent_arc(self.positive_, self.negative_)
            return arc.low + arc.width * (np.arange(count) + 0.5) / count
        return TWO_PI * np.arange(count) / count

    def certified(
        self, h_star: Target, S: LabelledSet, X: ArrayLike, budget: int | None = None
    ) -> BoolArray:
        """Points that no clean poison can flip (targets must be a LinearTarget in the plane)."""
        if not isinstance(h_star, LinearTarget):
            raise InvalidInputError("the certificate needs a LinearTarget with its direction")
        return ~self.upper_region(h_star, X)


@dataclass(frozen=True)
class Arc:
    """The open arc of consistent directions: ``(low, low + width)``."""

    low: float
    width: float

    @property
    def center(self) -> float:
        """Midpoint, in [0, 2 pi)."""
        return float((self.low + self.width / 2) % TWO_PI)


def consistent_arc(positive: FloatArray, negative: FloatArray) -> Arc:
    """Directions u with <u, p> > <u, n> for all positives p and negatives n.

    Examples
    --------
    >>> arc = consistent_arc(np.array([[0.0, 1.0]]), np.array([[0.0, 0.0]]))
    >>> float(round(arc.width / np.pi, 6)), round(arc.center / np.pi, 6)
    (1.0, 0.5)
    """
    differences = (positive[:, None, :] - negative[None, :, :]).reshape(-1, 2)
    if (differences == 0).all(axis=1).any():
        raise NotRealizableError("a point has both labels")
    angles = np.sort(np.arctan2(differences[:, 1], differences[:, 0]))
    gaps = np.diff(np.append(angles, angles[0] + TWO_PI))
    largest = int(gaps.argmax())
    if gaps[largest] <= np.pi:
        raise NotRealizableError("no line separates the positives from the negatives")
    start = angles[(largest + 1) % angles.size]
    spread = TWO_PI - gaps[largest]  # the differences fill [start, start + spread]
    return Arc(float(start + spread - np.pi / 2), float(np.pi - spread))


@dataclass(frozen=True)
class Candidate:
    """A direction on the dyadic path, with the interval in which it was the midpoint."""

    beta: float
    low: float
    high: float


def candidates(h_star: LinearTarget) -> Iterator[Candidate]:
    """All directions the learner can return on clean data: 0, then the path to the target's."""
    beta_star = target_angle(h_star)
    yield Candidate(0.0, 0.0, TWO_PI)
    if beta_star == 0.0:
        return
    low, high = 0.0, TWO_PI
    for _ in range(_LEVELS):
        beta = (low + high) / 2
        yield Candidate(beta, low, high)
        if beta == beta_star:
            return
        low, high = (low, beta) if beta_star < beta else (beta, high)


def target_angle(h_star: LinearTarget) -> float:
    """Angle of the target's normal in [0, 2 pi)."""
    if h_star.w.size != 2 or not h_star.w.any():
        raise InvalidInputError("the target must be a half-plane with a normal in the plane")
    angle = float(np.arctan2(h_star.w[1], h_star.w[0]) % TWO_PI)
    return 0.0 if angle == TWO_PI else angle


def project(X: FloatArray, beta: float) -> FloatArray:
    """Projection on direction beta; the same rounding for every shape of X."""
    return np.asarray(X[:, 0] * np.cos(beta) + X[:, 1] * np.sin(beta), dtype=np.float64)


def support(positive: FloatArray, negative: FloatArray, beta: float) -> tuple[float, float]:
    """Smallest projection of a positive and largest of a negative; +-2 for a missing class."""
    first = float(project(positive, beta).min()) if len(positive) else 2.0
    last = float(project(negative, beta).max()) if len(negative) else -2.0
    return first, last
