"""Stable persuasion: reveal slightly more than necessary, on a finite menu of schemes.

The classical optimal scheme leaves the Agent exactly indifferent. Moving every posterior by beta
into the interval of its strategy costs at most beta / C and makes obedience strictly better. A
finite menu comes from rounding the probabilities (thesis) or from snapping the prior to a grid in
log-odds, where Bayes' rule is a shift (ours).
Source: Lemma 7.5, Theorem 7.4, Propositions 7.C to 7.E, see docs/theory/07-principal.md.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, check_choice, check_fraction, check_real
from counterplay.errors import InvalidInputError
from counterplay.principal import bounds
from counterplay.principal.persuasion import (
    PersuasionGame,
    PersuasionGeometry,
    Scheme,
    split_chances,
    split_scheme,
    upper_hull,
)
from counterplay.principal.responses import OracleSpec
from counterplay.principal.rules import GrowingRule, PolicyRule

Discretization = Literal["rounding", "logit"]


@checked
class StabilizedPersuasion:
    """The scheme p'(mu): optimal persuasion with posteriors moved by beta off the edges.

    Parameters
    ----------
    game:
        A :class:`PersuasionGame` or its :class:`PersuasionGeometry`.
    beta:
        0 < beta < C / 4.

    Notes
    -----
    For all x in [0, 1]: (beta / C + eps / (c1 C), eps, x c1 beta, x)-optimal stable (Propositions
    7.C and 7.D). The thesis has 3 beta / C and a term of order sqrt(eps) (Lemma 7.5).

    Examples
    --------
    >>> from counterplay.principal.instances import prosecutor_game
    >>> from counterplay.principal.lab import StabilizedPersuasion
    >>> stable = StabilizedPersuasion(prosecutor_game(), beta=0.02)
    >>> round(stable.value(0.3), 6), stable.scheme(0.3).matrix[0].round(7).tolist()
    (0.576923, [0.6043956, 0.0])
    """

    def __init__(self, game: PersuasionGame | PersuasionGeometry, beta: float) -> None:
        self.geometry = game if isinstance(game, PersuasionGeometry) else PersuasionGeometry(game)
        self.game = self.geometry.game
        self.beta = check_real(beta, "beta", low=0.0, open_low=True)
        if self.beta >= self.geometry.C / 4:
            raise InvalidInputError(
                f"beta must be below C/4 = {self.geometry.C / 4:g} for this game, got {beta:g}"
            )
        self.extreme = self._moved_points()

    def _moved_points(self) -> tuple[FloatArray, FloatArray, Any]:
        x, value, label = self.geometry.extreme
        position = {int(s): i for i, s in enumerate(self.geometry.strategies)}
        moved = x.copy()
        for j in range(1, x.size - 1):
            below = self.geometry.edges[position[int(label[j])] + 1] <= x[j]
            moved[j] += -self.beta if below else self.beta
        return upper_hull(moved, value, label)

    def __repr__(self) -> str:
        return f"StabilizedPersuasion(beta={self.beta:.4g})"

    def value(self, mu: float) -> float:
        """Return v'(mu), the Principal's value when the Agent obeys."""
        return float(np.interp(check_fraction(mu, "mu"), self.extreme[0], self.extreme[1]))

    def scheme(self, mu: float) -> Scheme:
        """Return p'(mu)."""
        return split_scheme(self.game, self.extreme, check_fraction(mu, "mu"))

    def posterior_split(self, mu: float) -> tuple[FloatArray, FloatArray]:
        """Return the posteriors and their probabilities at prior ``mu``."""
        belief = check_fraction(mu, "mu")
        k, _ = split_chances(self.extreme, belief)
        low, high = self.extreme[0][k], self.extreme[0][k + 1]
        tau = (high - belief) / (high - low)
        return np.array([low, high]), np.array([tau, 1 - tau])


@checked
class PersuasionOracle(PolicyRule):
    """Near-optimal stable disclosure rules from a finite menu.

    Parameters
    ----------
    game:
        A :class:`PersuasionGame`.
    P0:
        Benchmark schemes; default :func:`benchmark_schemes`.
    beta:
        How far posteriors are moved, 0 < beta < C / 4. Or give ``horizon``.
    delta:
        Step of the rounding, one over an integer and at most beta^2 / 16; default the largest.
    discretization:
        ``"logit"`` (default): prior snapped to a grid of spacing 4 beta in log-odds, no loss from
        rounding and O(log(1/beta)/beta) schemes. ``"rounding"``: as in the thesis.
    x:
        Free parameter of the guarantee; default from ``horizon``, else beta.
    eps:
        Free parameter of the guarantee; default from ``horizon``, else beta.
    horizon:
        Sets beta, x and eps, see :func:`counterplay.principal.bounds.persuasion_tuning`.
    tuning:
        Which of its tunings.
    prune:
        Drop strategies that are never strictly best for the Agent, with a warning, instead of
        raising.

    Notes
    -----
    Rounding: (beta/C + eps/(c1 C) + 2 sqrt(delta), eps, x c1 beta/2, max(x, sqrt(delta) +
    delta/2))-optimal stable. Logit: (2 beta/C + eps/(c1 C), eps, x c1 beta/2, x).
    Each decision takes O(log n) time.

    Examples
    --------
    >>> from counterplay.principal import PersuasionOracle
    >>> from counterplay.principal.instances import prosecutor_game
    >>> oracle = PersuasionOracle(prosecutor_game(), beta=0.02, discretization="rounding")
    >>> scheme, action = oracle.recommend([0.7, 0.3])
    >>> oracle.parts, round(float(scheme.signal_probabilities([0.7, 0.3])[1]), 5)
    (40000, 0.57692)

    References
    ----------
    Theorem 7.4, see docs/theory/07-principal.md.
    """

    game: PersuasionGame

    def __init__(
        self,
        game: PersuasionGame,
        P0: Any = None,
        beta: float | None = None,
        delta: float | None = None,
        *,
        discretization: Discretization = "logit",
        x: float | None = None,
        eps: float | None = None,
        horizon: int | None = None,
        tuning: bounds.Tuning = "balanced",
        prune: bool = False,
    ) -> None:
        self.geometry = PersuasionGeometry(game, prune=prune)
        check_choice(discretization, "discretization", ("logit", "rounding"))
        super().__init__(game, benchmark_schemes(self.geometry) if P0 is None else P0)
        if horizon is not None:
            tuned = bounds.persuasion_tuning(horizon, discretization, tuning)
            beta = min(tuned[0], 0.249 * self.geometry.C) if beta is None else beta
            x, eps = tuned[1] if x is None else x, tuned[2] if eps is None else eps
        if beta is None:
            raise InvalidInputError("give beta, or horizon")
        self.stabilized = StabilizedPersuasion(self.geometry, beta)
        self.beta = self.stabilized.beta
        self.discretization: Discretization = discretization
        self.x = check_real(self.beta if x is None else x, "x", low=0.0, high=1.0, open_low=True)
        self.eps = check_real(self.beta if eps is None else eps, "eps", low=0.0, open_low=True)
        self.parts = _parts(self.beta, delta)
        self.delta = 1.0 / self.parts
        self.policies: list[Scheme] = []
        self._index: dict[tuple[int, ...], int] = {}
        self.max_actions = game.n_strategies**2
        self.n_policies = self._count()
        self.spec = self._guarantee()

    def _count(self) -> int:
        if self.discretization == "rounding":
            return bounds.staircase_policies(len(self.stabilized.extreme[0]), self.parts)
        return bounds.log_odds_policies(self.beta, self.geometry.C)

    def _guarantee(self) -> OracleSpec:
        C, c1, beta = self.geometry.C, self.geometry.c1, self.beta
        loss, harm = bounds.log_odds_loss(beta, C), self.x
        if self.discretization == "rounding":
            loss = bounds.rounded_loss(beta, C, self.delta)
            harm = max(self.x, math.sqrt(self.delta) + self.delta / 2)
        loss += bounds.optimistic_excess(self.eps, c1, C)
        return OracleSpec(loss, self.eps, self.x * c1 * beta / 2, harm, self.n_policies)

    def scheme(self, mu: float) -> Scheme:
        """Return the scheme for prior ``mu``."""
        return self.policies[self._locate(check_fraction(mu, "mu"))]

    def decide(self, forecast: FloatArray) -> tuple[int, int]:
        """Return the index of the scheme and the best response map (not always obedience)."""
        self._check_length(forecast)
        return self._answered(self._locate(float(forecast[1])), forecast)

    def _locate(self, mu: float) -> int:
        key = self._rounded_key(mu) if self.discretization == "rounding" else self._logit_key(mu)
        index = self._index.get(key)
        if index is None:
            index = self._index[key] = len(self.policies)
            self.policies.append(self._build(key))
        return index

    def _rounded_key(self, mu: float) -> tuple[int, ...]:
        hull = self.stabilized.extreme
        k, chance = split_chances(hull, mu)
        low, high = int(hull[2][k]), int(hull[2][k + 1])
        if low == high:
            return (low,)
        zero, one = np.rint(chance * self.parts).astype(int).tolist()
        return low, high, zero, one

    def _logit_key(self, mu: float) -> tuple[int, ...]:
        edge = self.beta * self.geometry.C
        if mu < edge:
            return (int(self.geometry.strategies[0]),)
        if mu > 1 - edge:
            return (int(self.geometry.strategies[-1]),)
        return 0, round(math.log(mu / (1 - mu)) / (4 * self.beta))

    def _build(self, key: tuple[int, ...]) -> Scheme:
        if len(key) == 1:
            return self.game.no_disclosure(key[0])
        if len(key) == 2:
            return self.stabilized.scheme(1 / (1 + math.exp(-4 * self.beta * key[1])))
        matrix = np.zeros_like(self.game.u)
        chance = np.array(key[2:]) / self.parts
        matrix[key[0]], matrix[key[1]] = chance, 1 - chance
        return Scheme(matrix)

    def __repr__(self) -> str:
        return f"PersuasionOracle(beta={self.beta:.4g}, discretization={self.discretization!r})"


@checked
class KGRule(GrowingRule):
    """Baseline: the classical optimal scheme for the forecast (unstable).

    It leaves the Agent indifferent at the posteriors, so a spiteful tie-break loses everything.

    Examples
    --------
    >>> from counterplay.principal.instances import prosecutor_game
    >>> from counterplay.principal.lab import KGRule
    >>> KGRule(prosecutor_game())([0.7, 0.3]).matrix[1].round(4).tolist()
    [0.4286, 1.0]
    """

    game: PersuasionGame

    def __init__(self, game: PersuasionGame, P0: Any = None, *, prune: bool = False) -> None:
        self.geometry = PersuasionGeometry(game, prune=prune)
        super().__init__(game, benchmark_schemes(self.geometry) if P0 is None else P0)
        self.max_actions = game.n_strategies**2

    def decide(self, forecast: FloatArray) -> tuple[int, int]:
        """Return the index of the optimal scheme and the best response to it."""
        self._check_length(forecast)
        scheme = self.geometry.optimal_scheme(float(forecast[1]))
        return self._answered(self._number(scheme), forecast)


@checked
def benchmark_schemes(geometry: PersuasionGeometry, n: int = 9) -> tuple[Scheme, ...]:
    """No disclosure, full disclosure, and the optimal schemes at ``n`` priors, without repeats.

    Examples
    --------
    >>> from counterplay.principal.instances import prosecutor_game
    >>> from counterplay.principal.lab import PersuasionGeometry
    >>> len(benchmark_schemes(PersuasionGeometry(prosecutor_game())))
    6
    """
    game = geometry.game
    first = int(geometry.strategies[0])
    schemes = [game.no_disclosure(first), game.full_disclosure()]
    schemes += [geometry.optimal_scheme((i + 1) / (n + 1)) for i in range(n)]
    unique: dict[Any, Scheme] = {}
    for scheme in schemes:
        key = scheme.matrix[list(scheme.support)].tobytes()  # labels of signals do not matter
        unique.setdefault(key, scheme)
    return tuple(unique.values())


def _parts(beta: float, delta: float | None) -> int:
    needed = math.ceil(16 / beta**2 - 1e-9)
    if delta is None:
        return needed
    parts = round(1 / check_real(delta, "delta", low=0.0, high=1.0, open_low=True))
    if abs(parts * delta - 1) > 1e-9 or parts < needed:
        raise InvalidInputError(
            f"delta must be one over an integer and at most beta^2/16 = {1 / needed:g}, got {delta}"
        )
    return parts
