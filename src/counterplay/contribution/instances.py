"""Worked examples and hard instances: what can go wrong, as games you can hold in your hand.

The flower makes stability and fairness cost about sqrt(k)/2; the cycle has no stable plan in whole
numbers; N1 to N5 show that each condition of the linear theorems is needed.
Source: Theorems 4.3, 4.4, 4.8 and 4.9, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np
from scipy import sparse

from counterplay.contribution.coverage import CoverageGame
from counterplay.contribution.linear import LinearGame
from counterplay.contribution.pac import CyclePACGame
from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    check_int,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.errors import InvalidInputError

MOST_CELLS = 10_000_000


@checked
@dataclass(frozen=True)
class Flower:
    """One core party that overlaps everybody, and ``s^2`` petals in ``s`` groups.

    The core sees ``b = s^2`` points in s groups; a petal of group j sees core group j and ``b - s``
    private points. One core sample helps all; but in the stable plan the core brings nothing.
    """

    s: int

    @property
    def b(self) -> int:
        """Number of petals, and of points each party sees."""
        return self.s**2

    @property
    def k(self) -> int:
        """Number of parties."""
        return self.s**2 + 1

    def linear(self) -> LinearGame:
        """Return the game with linear utilities and targets 1."""
        s, b = self.s, self.b
        W = np.zeros((self.k, self.k))
        W[1:, 1:] = np.kron(np.eye(s), np.ones((s, s))) / s
        W[0, 1:] = W[1:, 0] = 1.0 / s
        np.fill_diagonal(W, 1.0)
        return LinearGame(sparse.csr_array(W) if b > 500 else W, 1.0)

    def coverage(self, *, integral: bool = False) -> CoverageGame:
        """Return the coverage game with targets ``1/2 + 1/(2b)``; equal points are merged."""
        s, b = self.s, self.b
        Q = np.zeros((self.k, s + b))
        Q[0, :s] = 1.0 / b
        for petal in range(b):
            Q[1 + petal, petal // s] = 1.0 / b
            Q[1 + petal, s + petal] = 1.0 / b
        multiplicity = np.concatenate([np.full(s, s), np.full(b, b - s)])
        if b == s:  # s = 1 has no private points
            Q, multiplicity = Q[:, :s], multiplicity[:s]
        return CoverageGame(Q, 0.5 + 0.5 / b, multiplicity, integral)


@checked
def flower(s: int | None = None, *, k: int | None = None) -> Flower:
    """Return the flower with ``s^2`` petals (Theorem 4.4): PoS and PoF grow like sqrt(k)/2.

    Give ``s >= 2``, or ``k`` with ``k - 1`` a perfect square.

    Examples
    --------
    >>> flower(3).k, flower(k=17).s
    (10, 4)
    """
    if (s is None) == (k is None):
        raise InvalidInputError("give either s or k")
    if k is not None:
        check_int(k, "k", low=5)
        s = isqrt(k - 1)
        if s * s != k - 1:
            raise InvalidInputError(f"k - 1 must be a perfect square, got k={k}")
    return Flower(check_int(s, "s", low=2))


@checked
def simple_cycle() -> CyclePACGame:
    """Return the cycle with contributions 0 or 1 and target 1: four feasible plans, none stable.

    Examples
    --------
    >>> simple_cycle().utilities([1, 0, 0]).tolist()
    [1.0, 1.0, 0.5]
    """
    return CyclePACGame(1, 1, upper=1)


@checked
def identical_pair(*, integral: bool = False) -> CoverageGame:
    """Return two identical parties on two points, target 3/4 (Theorem 4.8).

    Either one brings one sample, and both plans are stable; nothing in between is even feasible.

    Examples
    --------
    >>> identical_pair().utilities([0.5, 0.5]).tolist()
    [0.71875, 0.71875]
    """
    return CoverageGame([[0.5, 0.5], [0.5, 0.5]], 0.75, integral=integral)


@checked
def directed_triangle() -> LinearGame:
    """Return the linear cycle: unique stable plan (1/2, 1/2, 1/2), but taking turns never settles.

    Examples
    --------
    >>> directed_triangle().utilities([0.5, 0.5, 0.5]).tolist()
    [1.0, 1.0, 1.0]
    """
    return LinearGame([[1, 0, 1], [1, 1, 0], [0, 1, 1]], 1.0)


K4_EDGES = ((0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 3))


@checked
def k4_edges() -> CoverageGame:
    """Return the coverage game on the edges of K4, target 0.6 (Theorem 4.9).

    Perfect matchings (parties 0 and 2, or 1 and 3) are envy-free, mixtures of them need not be.

    Examples
    --------
    >>> round(float(k4_edges().utilities([1, 0, 1, 0, 0, 0])[1]), 6)
    0.611111
    """
    Q = np.zeros((6, 10))
    for party, (a, b) in enumerate(K4_EDGES):
        Q[party, [a, b, 4 + party]] = 1.0 / 3.0
    return CoverageGame(Q, 0.6)


@checked
def k4_segment(alpha: float) -> FloatArray:
    """Return ``alpha`` times one perfect matching plus ``1 - alpha`` times the other.

    Examples
    --------
    >>> k4_segment(0.9).tolist()
    [0.9, 0.1, 0.9, 0.1, 0.0, 0.0]
    """
    a = check_real(alpha, "alpha", low=0.0, high=1.0)
    other = round(1 - a, 15)
    return np.array([a, other, a, other, 0.0, 0.0])


@checked
def stable_but_envied() -> CoverageGame:
    """Return a coverage game with a stable plan that is not envy-free (needs non-linearity).

    Examples
    --------
    >>> stable_but_envied().k
    3
    """
    return CoverageGame([[4 / 7, 1 / 7, 2 / 7], [1, 0, 0], [0, 3 / 4, 1 / 4]], 0.75)


@checked
def unequal_targets() -> LinearGame:
    """N1: different targets, stable plans with totals sqrt(2) and 2.

    Examples
    --------
    >>> unequal_targets().is_psd
    True
    """
    r = np.sqrt(0.5)
    rows = np.array([[1, 0], [0, 1], [r, r]])
    return LinearGame(np.minimum(rows @ rows.T, 1.0), [1, 1, np.sqrt(2)])


@checked
def star_with_one_high_target() -> LinearGame:
    """N2: everybody contributes in the stable plan, yet it is not optimal: targets differ.

    Examples
    --------
    >>> round(star_with_one_high_target().min_eig, 6)
    0.1
    """
    W = np.eye(5)
    W[0, 1:] = W[1:, 0] = 0.45
    return LinearGame(W, [1.9, 1, 1, 1, 1])


@checked
def indefinite() -> LinearGame:
    """N3: symmetric but not positive semidefinite; stable totals 1 and 2 with equal targets.

    Examples
    --------
    >>> indefinite().is_psd
    False
    """
    return LinearGame([[1, 1, 1], [1, 1, 0], [1, 0, 1]], 1.0)


@checked
def dominant_but_directed() -> LinearGame:
    """N4: strictly diagonally dominant but not symmetric; stability costs 8 % more.

    Examples
    --------
    >>> dominant_but_directed().is_strictly_diag_dominant
    True
    """
    return LinearGame([[1, 0, 0], [0.9, 1, 0], [0.9, 0, 1]], 1.0)


@checked
def identical_linear_pair() -> LinearGame:
    """N5: two interchangeable parties; (0.7, 0.3) is stable, and party 0 envies party 1.

    Examples
    --------
    >>> identical_linear_pair().diag_strictly_largest
    False
    """
    return LinearGame(np.ones((2, 2)), 1.0)


@checked
def random_linear_game(
    k: int = 20, n: int = 30, density: float = 0.3, random_state: RandomState = None
) -> LinearGame:
    """Return a random overlap game: cosines of random sparse rows, targets 1.

    Each of ``n`` points is seen by each party with probability ``density``, with random weight.

    Examples
    --------
    >>> random_linear_game(4, 10, random_state=0).is_psd
    True
    """
    check_positive_int(k, "k")
    check_positive_int(n, "n")
    check_size(k * n, MOST_CELLS, "parties x points")
    check_real(density, "density", low=0.0, high=1.0, open_low=True)
    rng = generator(random_state)
    rows = rng.random((k, n)) * (rng.random((k, n)) < density)
    empty = ~rows.any(axis=1)
    rows[empty, rng.integers(0, n, size=int(empty.sum()))] = 1.0
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    W = np.clip(rows @ rows.T, 0.0, 1.0)
    np.fill_diagonal(W, 1.0)
    return LinearGame((W + W.T) / 2, 1.0)


@checked
def random_coverage_game(
    k: int,
    n: int,
    random_state: RandomState = None,
    *,
    integral: bool = False,
    concentration: float = 0.4,
    mu: tuple[float, float] = (0.6, 0.9),
) -> CoverageGame:
    """Return a coverage game with Dirichlet distributions and random targets.

    Examples
    --------
    >>> random_coverage_game(3, 6, 0).k
    3
    """
    check_positive_int(k, "k")
    check_positive_int(n, "n")
    check_size(k * n, MOST_CELLS, "parties x points")
    check_real(concentration, "concentration", low=1e-3, high=1e6)
    rng = generator(random_state)
    Q = rng.dirichlet(np.full(n, concentration), size=k)
    Q[Q < 1e-12] = 0.0
    Q /= Q.sum(axis=1, keepdims=True)
    return CoverageGame(Q, rng.uniform(*mu, size=k), integral=integral)
