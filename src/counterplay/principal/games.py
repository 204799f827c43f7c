"""Stage games between a Principal who commits to a policy and an Agent who answers it.

A game knows, for every policy, what each Agent action is worth to both sides in each state of
nature. Everything else (responses, stability, regret) is computed from those tables.
Source: "Setting", see docs/theory/07-principal.md.
"""

from __future__ import annotations

import numbers
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    array_fault,
    check_float_array,
    check_fraction,
    check_int,
    shorten,
)
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.principal.kernels import expectation
from counterplay.tables import Table
from counterplay.tables.cells import shown


class PrincipalAgentGame(ABC):
    """One round of a principal-agent problem with finitely many actions and states.

    Subclass it for a new kind of problem: two methods, the two utility tables of a policy.
    Utilities must lie in [-1, 1].

    Attributes
    ----------
    n_states:
        Number of states of nature; states are the codes 0, 1, ...
    value_range:
        Smallest and largest possible utility of the Principal; enters the regret bound.
    """

    n_states: int
    value_range: tuple[float, float] = (-1.0, 1.0)

    @abstractmethod
    def agent_utility(self, policy: Any) -> FloatArray:
        """Return U(a, policy, y) as an array of shape (actions, states)."""

    @abstractmethod
    def principal_utility(self, policy: Any) -> FloatArray:
        """Return V(a, policy, y) as an array of shape (actions, states)."""

    def check_policy(self, policy: Any) -> Any:
        """Return the policy in canonical form; raise when it is not in the policy space."""
        return policy

    def check_policies(self, policies: Any, name: str = "P0") -> tuple[Any, ...]:
        """Return a non-empty tuple of canonical policies."""
        if not isinstance(policies, Iterable) or getattr(policies, "shape", None) == ():
            raise InvalidInputError(f"{name} must be a list of policies, got {shorten(policies)}")
        checked = tuple(self.check_policy(policy) for policy in policies)
        if not checked:
            raise InvalidInputError(f"{name} must contain at least one policy")
        return checked

    def n_actions(self, policy: Any) -> int:
        """Return how many actions the Agent has under ``policy``."""
        return int(self.agent_utility(policy).shape[0])

    def action_label(self, policy: Any, action: int) -> str:
        """Return a readable name of an action under ``policy``."""
        return str(int(action))

    def policy_label(self, policy: Any) -> str:
        """Return a readable name of a policy."""
        return str(policy)

    def tables(self, policies: Sequence[Any]) -> tuple[FloatArray, FloatArray]:
        """Return U and V of several policies, each of shape (policies, actions, states).

        Policies with fewer actions than others are padded with NaN.
        """
        pairs = [(self.agent_utility(p), self.principal_utility(p)) for p in policies]
        width = max((u.shape[0] for u, _ in pairs), default=0)
        stack = np.full((2, len(pairs), width, self.n_states), np.nan)
        for i, (u, v) in enumerate(pairs):
            stack[0, i, : len(u)] = u
            stack[1, i, : len(v)] = v
        return stack[0], stack[1]

    def UV(self, policies: Sequence[Any], Pi: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Expected utilities of both sides for a batch of forecasts.

        Returns two arrays of shape (forecasts, policies, actions). The numbers of a forecast do
        not depend on the others in the batch, to the last bit.
        """
        forecasts = check_forecasts(Pi, self.n_states)
        U, V = self.tables(self.check_policies(policies, "policies"))
        return expectation(U, forecasts), expectation(V, forecasts)


@checked
class FiniteGame(PrincipalAgentGame):
    """A game given by its full tables: finitely many policies, actions and states.

    Parameters
    ----------
    U:
        Utilities of the Agent, an array (policies, actions, states) with entries in [-1, 1].
    V:
        Utilities of the Principal, of the same shape.
    p0_idx:
        Indices of the benchmark policies; all policies if None.

    Examples
    --------
    >>> from counterplay.principal.lab import FiniteGame, best_response
    >>> game = FiniteGame(U=[[[0.0, 0.0], [-0.1, 0.4]]], V=[[[0.0, 0.0], [0.2, 0.2]]])
    >>> best_response(game, 0, [0.5, 0.5])          # acting pays 0.15 on average
    1
    """

    def __init__(self, U: ArrayLike, V: ArrayLike, p0_idx: Sequence[int] | None = None) -> None:
        self.U = check_float_array(U, "U", ndim=3)
        self.V = check_float_array(V, "V", ndim=3)
        if self.U.shape != self.V.shape or 0 in self.U.shape:
            raise InvalidInputError(
                "U and V must have the same shape (policies, actions, states), without an empty "
                f"axis; got {self.U.shape} and {self.V.shape}"
            )
        for name, table in (("U", self.U), ("V", self.V)):
            check_utility_range(table, name, -1.0, 1.0)
            table.setflags(write=False)
        self.n_policies, _, self.n_states = self.U.shape
        self.value_range = (float(self.V.min()), float(self.V.max()))
        chosen = range(self.n_policies) if p0_idx is None else p0_idx
        self.p0_idx = self.check_policies(chosen, "p0_idx")

    def check_policy(self, policy: Any) -> int:
        """Return the index of the policy."""
        return check_int(policy, "policy", low=0, high=self.n_policies - 1)

    def agent_utility(self, policy: Any) -> FloatArray:
        """Return U(a, policy, y)."""
        return np.asarray(self.U[policy])

    def principal_utility(self, policy: Any) -> FloatArray:
        """Return V(a, policy, y)."""
        return np.asarray(self.V[policy])

    def __repr__(self) -> str:
        return f"FiniteGame(policies={self.n_policies}, shape={self.U.shape[1:]})"


@checked
class LinearContractGame(PrincipalAgentGame):
    """Revenue sharing: the Agent gets the fraction p of the value he produces and bears the cost.

    Use it for commissions, royalties and platform fees. A policy is the fraction p in [0, 1];
    the Agent earns ``p * values[a, y] - costs[a]``, the Principal ``(1 - p) * values[a, y]``.

    Parameters
    ----------
    values:
        ``values[a, y]`` in [0, 1]: what action a is worth in state y.
    costs:
        ``costs[a]`` in [0, 1], pairwise different.
    action_names:
        Optional labels for reports.
    state_names:
        Optional labels for reports.

    Examples
    --------
    >>> from counterplay.principal import LinearContractGame
    >>> from counterplay.principal.lab import best_response
    >>> game = LinearContractGame(values=[[0, 0], [0, 1]], costs=[0, 0.25])
    >>> best_response(game, 0.4, [0.5, 0.5]), best_response(game, 0.6, [0.5, 0.5])
    (0, 1)

    References
    ----------
    "Linear contracts", see docs/theory/07-principal.md.
    """

    value_range = (0.0, 1.0)

    def __init__(
        self,
        values: ArrayLike,
        costs: ArrayLike,
        *,
        action_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
    ) -> None:
        self.values = check_float_array(values, "values", ndim=2)
        self.costs = check_float_array(costs, "costs", ndim=1)
        if self.values.shape[0] != self.costs.size or 0 in self.values.shape:
            raise InvalidInputError(
                "values must have shape (actions, states) with one row per cost, got "
                f"{self.values.shape} and {self.costs.size} costs"
            )
        check_utility_range(self.values, "values", 0.0, 1.0)
        check_utility_range(self.costs, "costs", 0.0, 1.0)
        self.n_states = int(self.values.shape[1])
        self.cost_gap = smallest_cost_gap(self.costs)
        self.action_names = check_names(action_names, self.costs.size, "action_names")
        self.state_names = check_names(state_names, self.n_states, "state_names")
        self.values.setflags(write=False)
        self.costs.setflags(write=False)

    @classmethod
    def from_outcomes(
        cls, outcome: ArrayLike, outcome_value: ArrayLike, costs: ArrayLike
    ) -> LinearContractGame:
        """Build the game from ``outcome[a, y]`` (codes) and the value of each outcome.

        Examples
        --------
        >>> LinearContractGame.from_outcomes([[0, 0], [0, 1]], [0.0, 1.0], [0, 0.25]).values
        array([[0., 0.],
               [0., 1.]])
        """
        worth = check_float_array(outcome_value, "outcome_value", ndim=1)
        return cls(worth[check_outcomes(outcome, worth.size)], costs)

    def check_policy(self, policy: Any) -> float:
        """Return the share as a float in [0, 1]."""
        return check_fraction(policy, "contract")

    def agent_utility(self, policy: Any) -> FloatArray:
        """Return p * values - costs."""
        return np.asarray(policy * self.values - self.costs[:, None])

    def principal_utility(self, policy: Any) -> FloatArray:
        """Return (1 - p) * values."""
        return np.asarray((1.0 - policy) * self.values)

    def n_actions(self, policy: Any) -> int:
        """Return how many actions the Agent has, whatever the share."""
        return int(self.costs.size)

    def tables(self, policies: Sequence[Any]) -> tuple[FloatArray, FloatArray]:
        """Return U and V of several shares at once."""
        p = np.asarray(policies, dtype=np.float64).reshape(-1, 1, 1)
        return p * self.values - self.costs[:, None], (1.0 - p) * self.values

    def action_label(self, policy: Any, action: int) -> str:
        """Return the name of the action."""
        return self.action_names[int(action)] if self.action_names else str(int(action))

    def policy_label(self, policy: Any) -> str:
        """Return the share with four digits."""
        return f"{float(policy):.4g}"

    def __repr__(self) -> str:
        return f"LinearContractGame(actions={self.costs.size}, states={self.n_states})"


def check_utility_range(table: FloatArray, name: str, low: float, high: float) -> None:
    """Raise unless all entries are in [low, high]."""
    if table.size and (table.min() < low or table.max() > high):
        raise InvalidInputError(
            f"{name} must lie in [{low:g}, {high:g}], got values from {table.min():g} to "
            f"{table.max():g}; rescale both utilities by the same factor"
        )


def check_outcomes(outcome: ArrayLike, n_outcomes: int) -> IntArray:
    """Return outcome codes as an int64 array (actions, states)."""
    codes = np.asarray(outcome)
    if codes.ndim != 2 or not np.issubdtype(codes.dtype, np.integer) or codes.size == 0:
        raise InvalidInputError("outcome must be an integer array (actions, states)")
    if codes.min() < 0 or codes.max() >= n_outcomes:
        raise InvalidInputError(f"outcome must contain codes 0..{n_outcomes - 1}")
    return codes.astype(np.int64)


def check_forecasts(Pi: ArrayLike, n_states: int) -> FloatArray:
    """Return forecasts as an array (batch, states); sums within 1e-9 of one are renormalised."""
    forecasts = check_float_array(Pi, "forecast")
    if forecasts.ndim == 1:
        forecasts = forecasts[None, :]
    if forecasts.ndim != 2 or forecasts.shape[1] != n_states:
        raise InvalidInputError(
            f"forecast must have {n_states} probabilities in its last axis, got shape "
            f"{np.shape(Pi)}"
        )
    if (forecasts < 0).any():
        raise InvalidInputError("forecast must not contain negative probabilities")
    total = forecasts.sum(axis=1, keepdims=True)
    if (np.abs(total - 1) > 1e-9).any():
        worst = float(total.flat[int(np.abs(total - 1).argmax())])
        raise InvalidInputError(f"forecast must sum to 1, got {worst:g}")
    exact = np.abs(total - 1) <= 1e-12  # rounding only: keep the floats as they are
    return forecasts if exact.all() else np.where(exact, forecasts, forecasts / total)


def check_states(states: ArrayLike, n_states: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return a one-dimensional int64 array of state codes."""
    array = check_codes(states, "state")
    if array.ndim != 1 or array.size == 0:
        raise InvalidInputError("states must be a non-empty one-dimensional array of integer codes")
    if array.min() < 0 or array.max() >= n_states:
        raise InvalidInputError(
            f"states must be codes 0..{n_states - 1}, got {array.min()}..{array.max()}"
        )
    return array


def check_codes(
    values: Any, name: str, names_of: Callable[[int], Sequence[str]] | None = None
) -> IntArray:
    """Return codes as int64; ``names_of(row)`` lists the names that are understood in a row.

    Fractions and missing values are refused with their row, never truncated.
    """
    if fault := array_fault(values, kinds="biufUO"):
        raise InvalidInputError(f"{name} must hold one code or name per row: {fault}")
    array = np.asarray(values)
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    codes: IntArray = np.empty(array.shape, dtype=np.int64)
    for where, value in np.ndenumerate(array.astype(object)):
        row = where[0] if where else 0
        known = names_of(row) if names_of is not None and isinstance(value, str) else ()
        if value in known:
            codes[where] = known.index(value)
        elif known:
            raise InvalidInputError(
                f"{name} of row {row} is {shorten(value, 50)}, which the game does not know; "
                f"known: {', '.join(known)[:150]}"
            )
        elif not _is_code(value):
            raise InvalidInputError(
                f"{name} of row {row} is {shorten(value, 50)}: use whole-number codes from 0, or "
                "names that the game knows"
            )
        else:
            codes[where] = int(value)
    return codes


def check_contexts(contexts: Any, rounds: int) -> Sequence[Any] | None:
    """Return one context per round; the rows of a frame or array are its contexts."""
    if contexts is None:
        return None
    if hasattr(contexts, "columns") or hasattr(contexts, "column_names"):
        frame = Table.of(contexts, what="contexts").frame()
        contexts = [row for _, row in frame.iterrows()]
    if not isinstance(contexts, list | tuple | np.ndarray | pd.Series):
        raise InvalidInputError(
            f"contexts must be a list, an array or a frame, got {shown(contexts)}"
        )
    if isinstance(contexts, np.ndarray) and contexts.ndim == 0:
        raise InvalidInputError("contexts must have one entry per round, got a single value")
    if len(contexts) != rounds:
        raise InvalidInputError(f"contexts must have {rounds} entries, got {len(contexts)}")
    return list(contexts)


def _is_code(value: Any) -> bool:
    number: Any = value if isinstance(value, numbers.Real) else -1
    return bool(0 <= number < 2**31 and number % 1 == 0)


def smallest_cost_gap(costs: FloatArray) -> float:
    """Return the smallest difference of two costs; equal costs raise, tiny gaps warn."""
    if costs.size < 2:
        return 1.0
    gap = float(np.diff(np.sort(costs)).min())
    if gap == 0.0:
        raise InvalidInputError(
            "two actions have the same cost: linear-contract oracle needs distinct costs"
        )
    if gap < 1e-6:
        warnings.warn(
            f"two costs differ by only {gap:g}; the stability margin is proportional to it",
            AssumptionWarning,
            stacklevel=3,
        )
    return gap


def check_names(names: Sequence[str] | None, n: int, what: str) -> tuple[str, ...] | None:
    """Return labels as a tuple of ``n`` strings, or None."""
    if names is None:
        return None
    if len(names) != n:
        raise InvalidInputError(f"{what} must have {n} entries, got {len(names)}")
    return tuple(str(name) for name in names)
