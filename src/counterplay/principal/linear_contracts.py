"""Stable linear contracts: pay a little more than the tempting share, and work is never a near-tie.

The tempting contract sits just below the share at which the Agent changes his mind. The oracle
moves up on a grid until every near-best action is worth exactly the same to the Principal.
The printed oracle accepts a contract whose near-best actions are *better* for her, and then gets
the bad one; the test here is two-sided (Theorem 7.3, repaired).
Source: Algorithm 7.3 and Theorem 7.3, repaired, see docs/theory/07-principal.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, check_real, check_size
from counterplay.errors import InvalidInputError
from counterplay.principal.bounds import Tuning, linear_contract_loss, linear_contract_tuning
from counterplay.principal.games import LinearContractGame, check_forecasts
from counterplay.principal.kernels import TOL, linear_oracle
from counterplay.principal.responses import OracleSpec
from counterplay.principal.rules import PolicyRule

_AT_ONE = 1e-9
MOST_CONTRACTS = 10**6


@checked
class LinearContractOracle(PolicyRule):
    """The near-optimal commission rate that leaves no near-tie.

    Parameters
    ----------
    game:
        A :class:`LinearContractGame`.
    P0:
        Benchmark contracts, numbers in [0, 1].
    beta:
        Stability. Give it together with ``delta``, or give ``horizon``.
    delta:
        Discretisation.
    horizon:
        Number of rounds T; sets ``beta`` and ``delta`` by ``tuning``.
    tuning:
        ``"balanced"`` (default): beta = delta = T^(-1/5), regret of order T^(-1/5).
        ``"thesis"``: beta = T^(-1/4), delta = T^(-1/8), regret of order T^(-1/8).
    as_printed:
        Use the one-sided test and the closed ball of the thesis, which violate its own theorem;
        only for studying the error.

    Notes
    -----
    (n (beta + delta), thr, thr, 0)-optimal stable with ``thr = cost_gap * beta / 2`` and n actions;
    the share exceeds the tempting one by at most n (beta + delta); at most floor(1/delta) + 2
    contracts are ever offered (Theorem 7.3 with the repaired test).

    Examples
    --------
    >>> from counterplay.principal import LinearContractGame, LinearContractOracle
    >>> game = LinearContractGame(values=[[0.0], [1.0]], costs=[0.0, 0.5])
    >>> oracle = LinearContractOracle(game, [0.48], beta=0.1, delta=0.02)
    >>> oracle.recommend([1.0])
    (0.54, 1)
    >>> LinearContractOracle(game, [0.48], beta=0.1, delta=0.02, as_printed=True).recommend([1.0])
    (0.48, 0)

    References
    ----------
    Theorem 7.3 in docs/theory/07-principal.md; Collina, Roth, Shao, "Efficient prior-free
    mechanisms for no-regret agents" (2024).
    """

    game: LinearContractGame

    def __init__(
        self,
        game: LinearContractGame,
        P0: Any,
        beta: float | None = None,
        delta: float | None = None,
        *,
        horizon: int | None = None,
        tuning: Tuning = "balanced",
        as_printed: bool = False,
    ) -> None:
        if not isinstance(game, LinearContractGame):
            raise InvalidInputError("LinearContractOracle needs a LinearContractGame")
        super().__init__(game, P0)
        if beta is None and delta is None and horizon is not None:
            beta, delta = linear_contract_tuning(horizon, tuning)
        if beta is None or delta is None:
            raise InvalidInputError("give beta and delta, or horizon")
        self.beta = check_real(beta, "beta", low=0.0, high=1.0, open_low=True)
        self.delta = check_real(delta, "delta", low=0.0, high=1.0, open_low=True)
        self.horizon, self.tuning, self.as_printed = horizon, tuning, as_printed
        self.margin = game.cost_gap * self.beta / 2
        self.grid = contract_grid(self.delta)
        self.policies = tuple(self.grid.tolist())
        self.n_policies = len(self.policies)
        self.max_actions = int(game.costs.size)
        # The closed ball contains an action exactly at U* - margin; the open one does not.
        self.eps = self.margin + 2 * TOL if as_printed else self.margin
        loss = linear_contract_loss(self.max_actions, self.beta, self.delta)
        self.spec = OracleSpec(loss, self.margin, self.margin, 0.0, self.n_policies)
        self._shares = np.array(self.benchmark)

    def decide(self, forecast: FloatArray) -> tuple[int, int]:
        """Return the index of the smallest stable contract from the tempting one up."""
        _, init, _, _ = self.benchmark_decisions(forecast)
        return self._stabilise(forecast, init)

    def _stabilise(self, forecast: FloatArray, init: int) -> tuple[int, int]:
        f = (self.game.values * forecast).sum(axis=1)
        index, action = linear_oracle(
            f,
            self.game.costs,
            float(self._shares[init]),
            self.grid,
            self.margin,
            not self.as_printed,
            TOL,
        )
        return int(index), int(action)

    def __repr__(self) -> str:
        return (
            f"LinearContractOracle(beta={self.beta:.4g}, delta={self.delta:.4g}, "
            f"benchmarks={len(self.benchmark)})"
        )


@checked
def contract_grid(delta: float) -> FloatArray:
    """Return 0, delta, 2 delta, ... together with 1, which the oracle may always offer.

    Examples
    --------
    >>> contract_grid(0.4).tolist()
    [0.0, 0.4, 0.8, 1.0]
    """
    parts = 1.0 / check_real(delta, "delta", low=0.0, high=1.0, open_low=True)
    check_size(parts, MOST_CONTRACTS, "contracts of the grid")
    whole = round(parts)
    if abs(parts - whole) < 1e-9:
        return np.arange(whole + 1) / whole
    steps = np.arange(math.floor(parts) + 1) * delta
    return np.append(steps, 1.0)


@checked
def tie_points(game: LinearContractGame, forecast: ArrayLike) -> FloatArray:
    """Contracts at which the Agent has more than one best response (Lemma F.1: at most n - 1).

    They are the breakpoints in [0, 1] of the upper envelope of the lines ``p f(a) - c(a)``. A
    breakpoint within 1e-9 above 1 counts as 1.

    Examples
    --------
    >>> game = LinearContractGame(values=[[0.0], [0.5], [1.0]], costs=[0.0, 0.1, 0.5])
    >>> tie_points(game, [1.0]).round(3).tolist()
    [0.2, 0.8]
    """
    pi = check_forecasts(forecast, game.n_states)[0]
    f = (game.values * pi).sum(axis=1)
    current = int(game.costs.argmin())
    share, found = 0.0, []
    while True:
        steeper = np.flatnonzero(f > f[current])
        if steeper.size == 0:
            break
        crossing = (game.costs[steeper] - game.costs[current]) / (f[steeper] - f[current])
        crossing = np.maximum(crossing, share)
        share = float(crossing.min())
        if share > 1.0 + _AT_ONE:
            break
        share = min(share, 1.0)  # a tie at 1 may come out above it by rounding
        found.append(share)
        tied = steeper[crossing <= share + TOL]
        current = int(tied[f[tied].argmax()])
    return np.array(found)
