"""PAC games with exact utilities: a known finite class on few points, and the cycle of three.

On a handful of points every subset is enumerated, so labels of seen points also inform unseen ones
without sampling. In the cycle party ``i`` needs bits that party ``i-1`` sees as features; whether a
stable whole-number plan exists depends on a parity, so targets are handled as exact fractions.
Source: "PAC games" and Theorem 4.3, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Rational
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.contribution.coverage import miss_probability
from counterplay.contribution.game import CollabGame, _frozen, crossing_level
from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    check_float_array,
    check_labels01,
    check_positive_int,
    check_probabilities,
    check_size,
    shorten,
)
from counterplay.errors import InfeasibleError, InvalidInputError

MAX_POINTS = 14
MAX_STEPS = 20_000  # of exact arithmetic
MAX_DRAWS = 10_000_000


@checked
class FiniteClassPACGame(CollabGame):
    """Data sharing where the truth is drawn from a known finite class of labelings.

    The learner is Bayes optimal: after seeing labelled samples it predicts the likelier label of
    every point. Use it to see what knowledge of the class changes compared with coverage.

    Parameters
    ----------
    H:
        ``(N, n)`` array of 0/1 labelings of ``n <= 14`` points, or a
        :class:`counterplay.core.finite_class.FiniteClass`.
    prior:
        Probability of each labeling; None for uniform, or for the prior of the finite class.
    Q:
        ``(k, n)`` array, the parties' distributions over points.
    mu:
        Targets.
    integral:
        Whether contributions are whole numbers.
    upper:
        Caps on the contributions, or None.
    cost:
        Price per unit of each party, 1 by default.

    Notes
    -----
    With all ``2^n`` labelings and a uniform prior the game equals :class:`CoverageGame`.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Sec. 2 (general PAC learning).

    Examples
    --------
    >>> game = FiniteClassPACGame([[0, 0], [1, 1]], None, [[1, 0], [0, 1]], mu=0.9)
    >>> game.utilities([1, 0]).tolist()  # one sample of either party settles both
    [1.0, 1.0]
    """

    def __init__(
        self,
        H: Any,
        prior: ArrayLike | None,
        Q: ArrayLike,
        mu: ArrayLike,
        *,
        integral: bool = False,
        upper: ArrayLike | None = None,
        cost: ArrayLike | None = None,
    ) -> None:
        labels = check_labels01(getattr(H, "labels", H), "H")
        if labels.ndim != 2 or labels.size == 0 or labels.shape[1] > MAX_POINTS:
            raise InvalidInputError(
                f"H must be a table of labelings of at most {MAX_POINTS} points, "
                f"got shape {labels.shape}"
            )
        rows = check_probabilities(Q, "Q")
        if rows.ndim != 2 or rows.shape[1] != labels.shape[1]:
            raise InvalidInputError(
                f"Q must have {labels.shape[1]} columns, one per point, got shape {rows.shape}"
            )
        if prior is None:  # a finite class brings its own
            own: Any = getattr(H, "prior", np.full(len(labels), 1.0 / len(labels)))
        else:
            own = prior
        self.prior = _frozen(check_probabilities(own, "prior"))
        if self.prior.shape != (len(labels),):
            raise InvalidInputError(f"prior must have {len(labels)} entries, one per labeling")
        super().__init__(rows.shape[0], mu, integral=integral, upper=upper, cost=cost)
        self.labels, self.Q = labels, _frozen(rows)
        codes = (labels.astype(np.int64) << np.arange(labels.shape[1])).sum(axis=1)
        from counterplay.contribution._kernels import bayes_errors

        errors = bayes_errors(codes, np.asarray(self.prior), labels.shape[1])
        self._error = errors @ self.Q.T  # (2^n, k): expected error of party i if S was seen
        self._mass = _subset_sums(self.Q)  # (k, 2^n): probability of landing in S
        self._validate()

    def _utilities(self, theta: FloatArray) -> FloatArray:
        return np.stack([1.0 - self._seen(row) @ self._error for row in theta])

    def _seen(self, theta: FloatArray) -> FloatArray:
        """Distribution of the set of observed points, by inclusion-exclusion."""
        inside = np.prod(self._inside(theta[:, None]), axis=0)
        return moebius(inside)

    def _inside(self, theta: FloatArray) -> FloatArray:
        whole = np.floor(theta)
        return np.asarray(self._mass**whole * (1.0 - (theta - whole) * (1.0 - self._mass)))

    def _best_response(self, i: int, theta: FloatArray) -> float:
        inside = self._inside(theta[:, None])
        inside[i] = 1.0
        others = np.prod(inside, axis=0)

        def curve(t: float) -> float:
            return float(1.0 - moebius(others * self._mass[i] ** t) @ self._error[:, i])

        return crossing_level(
            curve, float(self.mu[i]), integral=self.integral, start=float(theta[i])
        )

    def _sup_alone(self, i: int) -> float:
        inside = (self._mass[i] >= 1.0 - 1e-15).astype(np.float64)
        return float(1.0 - moebius(inside) @ self._error[:, i])


def moebius(inside: FloatArray) -> FloatArray:
    """Turn ``P(observed inside S)`` for all bit-coded ``S`` into ``P(observed equals S)``.

    Examples
    --------
    >>> moebius(np.array([0.0, 0.25, 0.25, 1.0])).tolist()
    [0.0, 0.25, 0.25, 0.5]
    """
    exact = check_float_array(inside, "inside", ndim=1).copy()
    n = exact.size.bit_length() - 1
    for x in range(n):
        pairs = exact.reshape(-1, 2, 1 << x)
        pairs[:, 1] -= pairs[:, 0]
    return exact


def _subset_sums(Q: FloatArray) -> FloatArray:
    k, n = Q.shape
    members = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1
    sums = members @ Q.T
    sums[-1] = 1.0
    return np.ascontiguousarray(np.minimum(sums.T, 1.0).reshape(k, 1 << n))


@checked
class CyclePACGame(CollabGame):
    """The PAC game on a circle: ``u_i = 1 - 1/2 (1 - 1/d)^(theta_i + theta_{i-1})``, three parties.

    Use it as the example in which nobody's plan holds: for odd ``samples_needed`` no whole-number
    stable plan exists. ``d=1`` with ``upper=1`` is the simple version of the proof.

    Parameters
    ----------
    d:
        Number of hidden bits per party.
    mu:
        Common target; a ``fractions.Fraction`` or a string such as ``"7/9"`` is exact. A float
        that is a value of the utility up to rounding is read as that value.
    integral:
        Whether contributions are whole numbers. Otherwise fractions are rounded at random.
    upper:
        Cap, 1 for the simple construction.

    Notes
    -----
    With ``m = samples_needed``: odd ``m`` means no stable plan, even ``m`` exactly
    ``(m/2, m/2, m/2)``.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Thm. 2.

    Examples
    --------
    >>> CyclePACGame(3, "4/5").samples_needed, CyclePACGame(3, "7/9").samples_needed
    (3, 2)
    """

    def __init__(
        self,
        d: int,
        mu: Rational | str | float,
        integral: bool = True,
        *,
        upper: ArrayLike | None = None,
    ) -> None:
        self.d = check_positive_int(d, "d")
        self.target = _exact_target(mu, self.d)
        super().__init__(3, float(self.target), integral=integral, upper=upper)
        if self.target > 1 or (self.target == 1 and self.d > 1):
            raise InfeasibleError(
                f"{self.party(0)} cannot reach mu={self.target} alone: sup of u_0 is 1; "
                "ask for less"
            )
        self.samples_needed = samples_needed(self.target, self.d)
        self._validate()

    def with_mu(self, mu: ArrayLike) -> Self:
        """Return the same game with another common target."""
        values = np.unique(check_float_array(mu, "mu"))
        if values.size != 1:
            raise InvalidInputError("the cycle game has one target for all three parties")
        return type(self)(self.d, float(values[0]), self.integral, upper=self.upper)

    def next_odd(self) -> CyclePACGame:
        """Return this game if ``samples_needed`` is odd, else the one with one sample more."""
        if self.samples_needed % 2 == 1:
            return self
        harder = (1 - Fraction(1, self.d)) * self.target + Fraction(1, self.d)
        return CyclePACGame(self.d, harder, self.integral, upper=self.upper)

    def well_behaved_constants(
        self, C: ArrayLike | None = None, *, samples: int = 256, random_state: RandomState = 0
    ) -> tuple[FloatArray, FloatArray]:
        """Return exact constants; for ``d=1`` they are 1/2 and ``(1 - C)/2``: zero at C = 1."""
        corner, q = self._corner(C), 1.0 / self.d
        neighbour = np.roll(miss_probability(np.array(q), corner), 1)
        cell = np.maximum(np.ceil(corner) - 1.0, 0.0)
        return np.full(3, 0.5 * q), 0.5 * neighbour * q * (1.0 - q) ** cell

    def _utilities(self, theta: FloatArray) -> FloatArray:
        missed = miss_probability(np.array(1.0 / self.d), theta)
        return 1.0 - 0.5 * missed * np.roll(missed, 1, axis=1)

    def _best_response(self, i: int, theta: FloatArray) -> float:
        if self.integral:
            return max(0.0, self.samples_needed - float(theta[i - 1]))
        missed = float(miss_probability(np.array(1.0 / self.d), theta[i - 1]))
        keep = 1.0 - 1.0 / self.d
        return crossing_level(
            lambda t: 1.0 - 0.5 * missed * keep**t, float(self.mu[i]), integral=False
        )

    def _sup_alone(self, i: int) -> float:
        return 1.0


@checked
def samples_needed(mu: Rational | str | float, d: int) -> int:
    """Return the smallest ``m`` with ``1 - (1 - 1/d)^m / 2 >= mu``, in exact arithmetic.

    The formula ``ceil(log(2(1-mu)) / log(1-1/d))`` in floating point is wrong whenever ``mu`` is
    itself a value of the utility, which is the interesting case.

    Examples
    --------
    >>> samples_needed("7/9", 3)
    2
    """
    size = check_positive_int(d, "d")
    target, miss, m = _exact_target(mu, size), Fraction(1), 0
    if target == 1 and size > 1:
        raise InfeasibleError("no number of samples reaches mu=1; ask for less than 1")
    while 1 - miss / 2 < target:
        miss, m = miss * Fraction(size - 1, size), m + 1
    return m


@checked
def sample_cycle(
    d: int, theta: ArrayLike, random_state: RandomState = None, *, draws: int = 1
) -> FloatArray:
    """Simulate the cycle: draw hidden bits and samples, classify optimally, return accuracies.

    Returns ``(draws, 3)``: the accuracy of the best classifier on each party's distribution.

    Examples
    --------
    >>> sample_cycle(3, [2, 1, 0], 0, draws=40_000).mean(axis=0).round(2).tolist()
    [0.78, 0.85, 0.67]
    """
    size, rng = check_positive_int(d, "d"), generator(random_state)
    check_size(check_positive_int(draws, "draws") * size, MAX_DRAWS, "draws x points")
    levels = check_float_array(theta, "theta", ndim=1)
    if levels.shape != (3,) or (levels < 0).any():
        raise InvalidInputError("theta must be three non-negative numbers")
    check_size(draws * float(levels.max()), MAX_DRAWS, "drawn samples")
    bits = rng.integers(0, 2, size=(draws, 3, size))
    known = np.zeros((draws, 3, size), dtype=bool)
    for party in range(3):
        extra = rng.random(draws) < levels[party] - np.floor(levels[party])
        count = np.floor(levels[party]).astype(int) + extra
        index = rng.integers(0, size, size=(draws, int(count.max(initial=0))))
        row, column = np.nonzero(np.arange(index.shape[1]) < count[:, None])
        point = index[row, column]
        known[row, party, point] = True  # the feature shows the party's own bit
        known[row, party - 1, point] = True  # the label is the neighbour's bit
    guess = rng.integers(0, 2, size=bits.shape)
    answer = np.where(known, bits, guess)
    right = (answer == bits).mean(axis=2)
    return np.roll(right, 1, axis=1)  # party i is tested on the bits of party i-1


def _exact_target(mu: Rational | str | float, d: int) -> Fraction:
    """Read ``mu`` exactly; snap a float to the utility value it is the rounding of."""
    if isinstance(mu, float | np.floating) and not np.isfinite(mu):
        raise InvalidInputError(f"mu must be finite, got {mu}")
    try:
        target = Fraction(mu)
    except (TypeError, ValueError, ZeroDivisionError):
        raise InvalidInputError(
            f"mu must be a number or a fraction such as '7/9', got {shorten(mu, 100)}"
        ) from None
    if target > 1:
        raise InfeasibleError(
            f"no number of samples reaches mu={shorten(mu, 60)}; ask for less than 1"
        )
    if d > 1 and Fraction(1, 2) < target < 1:
        rate = math.log1p(-1.0 / d)
        check_size(math.log(2.0 * max(float(1 - target), 1e-300)) / rate, MAX_STEPS, "samples")
    return _snap(float(target), d) if isinstance(mu, float | np.floating) else target


def _snap(mu: float, d: int) -> Fraction:
    exact = Fraction(mu)
    miss = Fraction(1)
    for _ in range(100_000):
        value = 1 - miss / 2
        if abs(float(value) - mu) <= 4 * np.spacing(max(abs(mu), 0.5)):
            return value
        if value > exact or (d == 1 and miss == 0):
            return exact
        miss *= Fraction(d - 1, d)
    return exact
