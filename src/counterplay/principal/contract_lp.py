"""Contracts that need not be linear: a payment for every outcome, by linear programming.

For every action the cheapest payments that make it the Agent's best by a margin are a small linear
program; the Principal takes the action that leaves her most. Payments are rounded to a grid, which
costs part of the margin.
Source: the standard program of optimal contracts (Dütting, Roughgarden, Talgam-Cohen 2019); margins
and rounding are ours, for the stable mechanism of Theorem 7.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.programs import PRECISE, minimize_linear
from counterplay.core.validation import (
    FloatArray,
    check_float_array,
    check_fraction,
    check_positive_int,
    check_real,
)
from counterplay.errors import InvalidInputError
from counterplay.principal.games import (
    PrincipalAgentGame,
    check_forecasts,
    check_outcomes,
    check_utility_range,
    smallest_cost_gap,
)
from counterplay.principal.kernels import TOL
from counterplay.principal.responses import OracleSpec
from counterplay.principal.rules import GrowingRule


@checked
class ContractGame(PrincipalAgentGame):
    """General contracts: a payment in [0, 1] for every outcome.

    Parameters
    ----------
    outcome:
        ``outcome[a, y]``: code of the outcome of action a in state y.
    outcome_value:
        Value of each outcome to the Principal, in [0, 1].
    costs:
        Cost of each action, in [0, 1].

    Notes
    -----
    A policy is a tuple of payments, one per outcome. The Agent earns ``payment - cost``, the
    Principal ``value - payment``.

    Examples
    --------
    >>> game = ContractGame([[0, 0], [0, 1]], [0.0, 1.0], [0.0, 0.25])
    >>> game.linear(0.6)
    (0.0, 0.6)

    References
    ----------
    Proposition 7.G, see docs/theory/07-principal.md; Dütting, Roughgarden and Talgam-Cohen (2019),
    Simple versus optimal contracts.
    """

    value_range = (-1.0, 1.0)

    def __init__(self, outcome: ArrayLike, outcome_value: ArrayLike, costs: ArrayLike) -> None:
        self.outcome_value = check_float_array(outcome_value, "outcome_value", ndim=1)
        self.costs = check_float_array(costs, "costs", ndim=1)
        self.outcome = check_outcomes(outcome, self.outcome_value.size)
        if self.outcome.shape[0] != self.costs.size:
            raise InvalidInputError("outcome must have one row per cost")
        check_utility_range(self.outcome_value, "outcome_value", 0.0, 1.0)
        check_utility_range(self.costs, "costs", 0.0, 1.0)
        self.n_states = int(self.outcome.shape[1])
        self.cost_gap = smallest_cost_gap(self.costs)

    def check_policy(self, policy: Any) -> tuple[float, ...]:
        """Return the payments as a tuple of floats in [0, 1]."""
        payments = check_float_array(policy, "payments", ndim=1)
        if payments.size != self.outcome_value.size:
            raise InvalidInputError(f"give one payment per outcome ({self.outcome_value.size})")
        check_utility_range(payments, "payments", 0.0, 1.0)
        return tuple(payments.tolist())

    def linear(self, share: float) -> tuple[float, ...]:
        """Return the linear contract that pays the given share of the value."""
        return self.check_policy(check_fraction(share, "share") * self.outcome_value)

    def agent_utility(self, policy: Any) -> FloatArray:
        """Return payment minus cost."""
        return np.asarray(np.asarray(policy)[self.outcome] - self.costs[:, None])

    def principal_utility(self, policy: Any) -> FloatArray:
        """Return value minus payment."""
        return np.asarray((self.outcome_value - np.asarray(policy))[self.outcome])

    def outcome_probabilities(self, forecast: FloatArray) -> FloatArray:
        """Return F[a, o]: the probability of outcome o after action a."""
        F = np.zeros((self.costs.size, self.outcome_value.size))
        np.add.at(F, (np.arange(self.costs.size)[:, None], self.outcome), forecast)
        return F

    def policy_label(self, policy: Any) -> str:
        """Return the payments with three digits."""
        return "(" + ", ".join(f"{p:.3g}" for p in policy) + ")"

    def __repr__(self) -> str:
        return (
            f"ContractGame(actions={self.costs.size}, outcomes={self.outcome_value.size}, "
            f"states={self.n_states})"
        )


@checked
def optimal_payments(
    game: ContractGame, forecast: ArrayLike, *, margin: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Cheapest payments that make each action the Agent's best response by ``margin``.

    Returns the payments, shape (actions, outcomes), and the Principal's value of each action. Where
    no payments in [0, 1] are enough the payments are NaN and the value is minus infinity. Every
    action is one linear program.

    Examples
    --------
    >>> game = ContractGame([[0, 0], [0, 1]], [0.0, 1.0], [0.0, 0.25])
    >>> payments, value = optimal_payments(game, [0.5, 0.5])
    >>> payments[1].round(6).tolist(), value.round(6).tolist()
    ([0.0, 0.5], [0.0, 0.25])
    """
    pi = check_forecasts(forecast, game.n_states)[0]
    gap = check_real(margin, "margin", low=0.0)
    F = game.outcome_probabilities(pi)
    if len(F) == 1:
        return np.zeros(F.shape), F @ game.outcome_value
    payments = np.full(F.shape, np.nan)
    for a in range(len(F)):
        others = np.arange(len(F)) != a
        # his utility of a is at least that of every other action, plus the margin
        solved = minimize_linear(
            F[a],
            A_ub=F[others] - F[a],
            b_ub=game.costs[others] - game.costs[a] - gap,
            bounds=(0.0, 1.0),
            solver=PRECISE,
            what=f"the payment program of action {a}",
            allow=("infeasible",),
        )
        if solved.x is not None:
            payments[a] = np.clip(solved.x, 0.0, 1.0)
    value = (F * (game.outcome_value - payments)).sum(axis=1)
    return payments, np.where(np.isnan(value), -np.inf, value)


@checked
class ContractLPOracle(GrowingRule):
    """Near-optimal stable contracts with a payment for every outcome.

    Parameters
    ----------
    game:
        A :class:`ContractGame`.
    P0:
        Benchmark contracts (tuples of payments), for instance ``[game.linear(p) for p in ...]``.
    margin:
        Utility margin of the recommended action before rounding; at most the smallest difference
        of two costs.
    parts:
        Payments are multiples of 1 / parts; needs ``1 / parts < margin``.

    Notes
    -----
    (margin - 1/parts, 0)-stable under every forecast: no other action is a near-best response. The
    loss c is measured round by round.

    Examples
    --------
    >>> game = ContractGame([[0, 0], [0, 1]], [0.0, 1.0], [0.0, 0.25])
    >>> oracle = ContractLPOracle(game, [game.linear(0.5)], margin=0.05, parts=100)
    >>> oracle.recommend([0.5, 0.5])
    ((0.0, 0.6), 1)

    References
    ----------
    Proposition 7.G, see docs/theory/07-principal.md; Dütting, Roughgarden and Talgam-Cohen (2019),
    Simple versus optimal contracts.
    """

    game: ContractGame

    def __init__(self, game: ContractGame, P0: Any, *, margin: float, parts: int = 100) -> None:
        if not isinstance(game, ContractGame):
            raise InvalidInputError("ContractLPOracle needs a ContractGame")
        super().__init__(game, P0)
        self.margin = check_real(margin, "margin", low=0.0, high=game.cost_gap, open_low=True)
        self.parts = check_positive_int(parts, "parts")
        beta = self.margin - 1.0 / self.parts
        if beta <= 0.0:
            raise InvalidInputError(
                f"1/parts must be below the margin {self.margin:g}; use parts > {1 / self.margin:g}"
            )
        self.eps = beta
        self.spec = OracleSpec(None, beta, beta, 0.0, None)
        self.max_actions = int(game.costs.size)
        self._memory: dict[bytes, tuple[int, int]] = {}

    def decide(self, forecast: FloatArray) -> tuple[int, int]:
        """Return the index of the rounded payments and the action they are made for."""
        self._check_length(forecast)
        key = forecast.tobytes()
        found = self._memory.get(key)
        if found is None:
            if len(self._memory) > 10_000:
                self._memory.clear()
            found = self._memory[key] = self._solve(forecast)
        return found

    def _solve(self, forecast: FloatArray) -> tuple[int, int]:
        payments, value = optimal_payments(self.game, forecast, margin=self.margin)
        chosen = payments[int(np.argmax(value >= value.max() - TOL))]
        rounded = tuple((np.rint(chosen * self.parts) / self.parts).tolist())
        return self._answered(self._number(rounded), forecast)

    def __repr__(self) -> str:
        return f"ContractLPOracle(margin={self.margin:.4g}, parts={self.parts})"
