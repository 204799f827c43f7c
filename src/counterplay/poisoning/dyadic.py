"""DyadicDirectionLearner: half-planes, coarsest dyadic direction first.

The directions consistent with the data form an arc. The learner returns the coarsest multiple of
2 pi / 2^k in it. Clean poison shrinks the arc around the target's direction, so it can only move
the answer along the dyadic path to that direction: few candidates, hence a certificate. Which way
the search turns is decided exactly, by a pair of rows that a direction gets wrong, so that rows
which differ in the last bit cannot push it off the path.
Source: Algorithm 10.1; docs/theory/10-poisoning.md, "Theorem 10.4: the dyadic direction".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.programs import Highs, minimize_linear
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    check_choice,
    check_float_array,
    check_positive_int,
    check_real,
)
from counterplay.errors import InvalidInputError, NotRealizableError
from counterplay.poisoning.errors import OutOfDomainError
from counterplay.poisoning.hulls import hull_points
from counterplay.poisoning.model import (
    BatchLearner,
    LabelledSet,
    Labels,
    LinearTarget,
    Target,
    check_clean,
    first_conflict,
)

TWO_PI = 2 * np.pi
LEVELS = 46  # the rounded vectors of neighbouring angles are in strict order down to this level
_ROUNDING = 2.0**-48  # more than the error of a projection, or of its sum with an offset
_LAST_LEVEL = 2.0**-42  # more than four times pi / 2^46, see `upper_region`
_AXES = {
    0.0: (1.0, 0.0),
    np.pi / 2: (0.0, 1.0),
    np.pi: (-1.0, 0.0),
    (np.pi + TWO_PI) / 2: (0.0, -1.0),
}
Vector = tuple[Fraction, Fraction]


@checked
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
        rows = check_float_array(X, "X")
        if rows.ndim != 2 or rows.shape[1] != self.center.size:
            raise InvalidInputError(
                f"X must have {self.center.size} columns as the centre has, got {rows.shape}"
            )
        scaled: FloatArray = (rows - self.center) / self.radius
        if len(scaled) and (np.hypot(*scaled.T) > 1 + 1e-9).any():
            raise OutOfDomainError("a point lies outside the described disc")
        return scaled

    def __repr__(self) -> str:
        return f"UnitDiscScaler(center={self.center.tolist()}, radius={self.radius:g})"


@checked
class DyadicDirectionLearner(BatchLearner):
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
        self._check(S.X)
        positive = S.y == 1
        return self._fit_hulls(hull_points(S.X[positive]), hull_points(S.X[~positive]))

    def partial_refit(self, extra: LabelledSet) -> DyadicDirectionLearner:
        """Return the learner fitted with extra rows, from the stored hulls."""
        self._check(extra.X)
        other = DyadicDirectionLearner(self.offset, check_domain=self.check_domain)
        positive = extra.y == 1
        return other._fit_hulls(
            np.vstack([self.positive_, extra.X[positive]]),
            np.vstack([self.negative_, extra.X[~positive]]),
        )

    def _check(self, X: FloatArray) -> None:
        if self.check_domain and len(X) and float(np.einsum("ij,ij->i", X, X).max()) > 1 + 1e-9:
            raise OutOfDomainError("points must lie in the unit disc; see UnitDiscScaler")

    def _fit_hulls(self, positive: FloatArray, negative: FloatArray) -> Self:
        self.positive_, self.negative_ = positive, negative
        self.path_ = _search(positive, negative)
        self.beta_, self.depth_ = self.path_[-1], len(self.path_)
        first, last = support(positive, negative, self.beta_)
        low_b, high_b = -first, -last
        self.b_ = {"mid": (low_b + high_b) / 2, "inf": low_b, "sup": np.nextafter(high_b, -9)}[
            self.offset
        ]
        return self

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Signed distance to the boundary."""
        p = project(np.asarray(X, dtype=np.float64).reshape(-1, 2), self.beta_)
        return np.asarray(p + self.b_, dtype=np.float64)

    def predict(self, X: ArrayLike) -> Labels:
        """Label 1 on and above the boundary."""
        return (self.decision_function(X) >= 0).astype(np.uint8)

    def upper_region(self, h_star: LinearTarget, X: ArrayLike) -> BoolArray:
        """Points that some candidate direction could get wrong: contains the attackable region.

        Notes
        -----
        Rows in the unit disc with exact labels of the target keep its normal w consistent, so the
        search follows the dyadic path of w. It stops at a candidate only if that is consistent with
        the rows of the fit, too; the boundary then lies between their first positive and their last
        negative. At the last level the angle to w is below e = pi / 2^45. No positive projects
        below -b - e and no negative above -b + e there (-b: the target's boundary), so the learner
        is off by at most 2 e, consistent or not.
        """
        points = np.asarray(X, dtype=np.float64).reshape(-1, 2)
        positive = np.asarray(h_star(points)) == 1
        size = np.maximum(1.0, np.hypot(*points.T))
        region = np.zeros(len(points), dtype=np.bool_)
        for level, candidate in enumerate(candidates(h_star)):
            at_end = level == LEVELS
            if not at_end and violated_pair(self.positive_, self.negative_, candidate.beta):
                continue
            first, last = support(self.positive_, self.negative_, candidate.beta)
            slack = (_LAST_LEVEL if at_end else _ROUNDING) * size
            p = project(points, candidate.beta)
            region |= np.where(positive, p < first + slack, p > last - slack)
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
        """Points that no clean poison in the unit disc can flip, for targets in the plane.

        Raises :class:`NotCleanError` if a row of S contradicts the target. A poison row counts as
        clean if the target says so exactly, see :class:`LinearTarget`.
        """
        if not isinstance(h_star, LinearTarget):
            raise InvalidInputError("the certificate needs a LinearTarget with its direction")
        if not self.check_domain:
            raise InvalidInputError(
                "the certificate holds in the unit disc; use check_domain=True and UnitDiscScaler"
            )
        check_clean(h_star, S, "training")
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
    check_plane(h_star)
    w = exact(h_star.w)
    yield Candidate(0.0, 0.0, TWO_PI)
    if w[0] > 0 and w[1] == 0:
        return
    low, high = 0.0, TWO_PI
    for _ in range(LEVELS):
        beta = (low + high) / 2
        yield Candidate(beta, low, high)
        side = cross(exact(direction(beta)), w)
        if side == 0:
            return
        low, high = (beta, high) if side > 0 else (low, beta)


def check_plane(h_star: LinearTarget) -> None:
    """Raise unless the target is a half-plane."""
    if h_star.w.size != 2 or not h_star.w.any():
        raise InvalidInputError("the target must be a half-plane with a normal in the plane")


def target_angle(h_star: LinearTarget) -> float:
    """Angle of the target's normal in [0, 2 pi)."""
    check_plane(h_star)
    angle = float(np.arctan2(h_star.w[1], h_star.w[0]) % TWO_PI)
    return 0.0 if angle == TWO_PI else angle


def direction(beta: float) -> tuple[float, float]:
    """Vector of an angle; exact for the axes, of which cosines and sines are not."""
    return _AXES.get(beta) or (float(np.cos(beta)), float(np.sin(beta)))


def project(X: FloatArray, beta: float) -> FloatArray:
    """Projection on direction beta; the same rounding for every shape of X."""
    u = direction(beta)
    return np.asarray(X[:, 0] * u[0] + X[:, 1] * u[1], dtype=np.float64)


def support(positive: FloatArray, negative: FloatArray, beta: float) -> tuple[float, float]:
    """Smallest projection of a positive and largest of a negative; +-2 for a missing class."""
    first = float(project(positive, beta).min()) if len(positive) else 2.0
    last = float(project(negative, beta).max()) if len(negative) else -2.0
    return first, last


def _search(positive: FloatArray, negative: FloatArray) -> tuple[float, ...]:
    """The dyadic path to the first consistent direction, or to the last level.

    Every consistent direction c has <c, d> > 0 for the difference d = p - n of a pair, and a pair
    that u gets wrong has <u, d> <= 0. If c is within a quarter turn of u it is therefore on that
    side of u on which d is.
    """
    path = [0.0]
    before = violated_pair(positive, negative, 0.0)
    low, high = 0.0, TWO_PI
    while before is not None:
        beta = (low + high) / 2
        path.append(beta)
        pair = violated_pair(positive, negative, beta)
        if pair is None:
            break
        if len(path) > LEVELS:
            _refuse_overlap(positive, negative)
            break
        ahead = (
            _lower_half(before, pair) if len(path) == 2 else cross(exact(direction(beta)), pair) > 0
        )
        low, high = (beta, high) if ahead else (low, beta)
        before = pair
    return tuple(path)


def violated_pair(positive: FloatArray, negative: FloatArray, beta: float) -> Vector | None:
    """Difference p - n of a pair with <u, p> <= <u, n>, or None if direction beta is consistent.

    Decided exactly: by rationals where the projections are closer than their rounding.
    """
    if not len(positive) or not len(negative):
        return None
    up, down = project(positive, beta), project(negative, beta)
    first, last = float(up.min()), float(down.max())
    slack = _ROUNDING * max(1.0, float(np.abs(positive).max()), float(np.abs(negative).max()))
    if first > last + slack:
        return None
    u = exact(direction(beta))
    near = map(exact, positive[up <= first + slack]), map(exact, negative[down >= last - slack])
    p = min(near[0], key=lambda x: dot(u, x))
    n = max(near[1], key=lambda x: dot(u, x))
    d = (p[0] - n[0], p[1] - n[1])
    return d if dot(u, d) <= 0 else None


def exact(vector: Iterable[float]) -> Vector:
    """The rational numbers that the floats are."""
    x, y = (Fraction(float(value)) for value in vector)
    return x, y


def dot(a: Vector, b: Vector) -> Fraction:
    """Scalar product."""
    return a[0] * b[0] + a[1] * b[1]


def cross(a: Vector, b: Vector) -> Fraction:
    """Positive iff b is on the left of a, that is at a larger angle."""
    return a[0] * b[1] - a[1] * b[0]


def _lower_half(right: Vector, left: Vector) -> bool:
    """Whether consistent directions point downwards, from pairs that (1, 0) and (-1, 0) get wrong.

    right has x <= 0 and left has x >= 0. Their combination without an x has a positive product with
    every consistent direction.
    """
    if right[0] == 0 or left[0] == 0:
        return (right if right[0] == 0 else left)[1] < 0
    return cross(left, right) < 0


def _refuse_overlap(positive: FloatArray, negative: FloatArray) -> None:
    """Raise if no line separates the rows, up to what rounded labels can explain."""
    points = np.vstack([positive, negative])
    labels = np.repeat([1, 0], [len(positive), len(negative)])
    if first_conflict(points, labels) is not None:
        raise NotRealizableError("a point has both labels")
    if overlap(positive, negative) > 1e-9:
        raise NotRealizableError("no line separates the positives from the negatives")


def overlap(positive: FloatArray, negative: FloatArray) -> float:
    """Depth to which the hulls overlap, negative if they do not; directions have largest entry 1.

    Examples
    --------
    >>> overlap(np.array([[0.0, 1.0], [0.0, -0.5]]), np.array([[1.0, 0.0], [-0.25, 0.0]]))
    0.25
    """
    gaps = []
    for axis in (0, 1):
        other, one = 1 - axis, np.ones
        for sign in (1.0, -1.0):  # over v, t, s: <u, p> - t >= s and <u, n> <= t, u = (sign, v)
            rows = np.vstack(
                [
                    np.column_stack([-positive[:, other], one(len(positive)), one(len(positive))]),
                    np.column_stack([negative[:, other], -one(len(negative)), 0 * negative[:, 0]]),
                ]
            )
            sides = sign * np.concatenate([positive[:, axis], -negative[:, axis]])
            found = minimize_linear(
                [0.0, 0.0, -1.0],
                A_ub=rows,
                b_ub=sides,
                bounds=[(-1, 1), (None, None), (None, None)],
                solver=Highs(primal_tolerance=1e-10),
            )
            gaps.append(-found.value)
    return -max(gaps)
