"""How a policy is answered: best responses, near-best responses, stability.

Ties are broken deterministically, because the forecaster's events are defined by these functions.
Near-best responses form the *open* ball around the best utility; the closed ball of the thesis
overlaps the separation test on grids (Theorem 7.3, repaired).
Source: equations (7.1) and (7.2), Definitions 7.3 and 7.4, see docs/theory/07-principal.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_float_array,
    check_real,
    check_same_shape,
)
from counterplay.errors import InvalidInputError
from counterplay.principal.games import PrincipalAgentGame, check_forecasts
from counterplay.principal.kernels import TOL, first_maximum, optimistic, respond, stable


@checked
@dataclass(frozen=True)
class OracleSpec:
    """What an optimal stable policy oracle guarantees: (c, eps, beta, gamma) and |P_O|.

    Its policies are (beta, gamma)-stable, and lose at most c against every benchmark policy that
    is answered optimistically within eps. ``c = None`` means that no constant is known in advance
    and the loss is measured round by round instead.
    """

    c: float | None
    eps: float
    beta: float
    gamma: float
    n_policies: int | None


@checked
def best_responses(U: ArrayLike, V: ArrayLike, tol: float = TOL) -> IntArray:
    """Best responses for arrays of utilities with the actions in the last axis.

    Largest U; ties (within ``tol``) go to the larger V, remaining ties to the lowest index.

    Examples
    --------
    >>> best_responses([[0.0, 0.0, -1.0], [0.3, 0.1, 0.2]], [[0.1, 0.5, 1.0], [0.0, 1.0, 1.0]])
    array([1, 0])
    """
    u, v = check_float_array(U, "U"), check_float_array(V, "V")
    check_same_shape(u, v, ("U", "V"))
    if u.ndim == 0 or u.size == 0:
        raise InvalidInputError(f"U must have at least one action, got shape {u.shape}")
    tied = u >= u.max(axis=-1, keepdims=True) - tol
    worth = np.where(tied, v, -np.inf)
    return np.asarray(np.argmax(worth >= worth.max(axis=-1, keepdims=True) - tol, axis=-1))


@checked
def best_response(
    game: PrincipalAgentGame, policy: Any, forecast: ArrayLike, *, tol: float = TOL
) -> int:
    """The Agent's best response to ``policy`` under ``forecast``, ties in the Principal's favour.

    Parameters
    ----------
    game:
        The stage game.
    policy:
        One of its policies.
    forecast:
        Probabilities of the states.
    tol:
        Differences up to ``tol`` count as ties.

    Examples
    --------
    >>> from counterplay.principal import LinearContractGame
    >>> game = LinearContractGame(values=[[0, 0], [0, 1]], costs=[0, 0.25])
    >>> best_response(game, 0.5, [0.5, 0.5])     # an exact tie: he works, as she would like
    1
    """
    u, v = _expected(game, policy, forecast)
    return int(respond(u, v, u.size, tol))


@checked
def eps_ball(
    game: PrincipalAgentGame, policy: Any, forecast: ArrayLike, eps: float, *, tol: float = TOL
) -> BoolArray:
    """Mask of the actions whose utility is within ``eps`` of the best one (open ball).

    Exact best responses always belong to it, also for ``eps = 0``.

    Examples
    --------
    >>> from counterplay.principal import LinearContractGame
    >>> game = LinearContractGame(values=[[0.0], [1.0]], costs=[0, 0.5])
    >>> eps_ball(game, 0.475, [1.0], 0.025)      # exactly 0.025 away: separated, not near
    array([ True, False])
    """
    u, _ = _expected(game, policy, forecast)
    width = check_real(eps, "eps", low=0.0)
    top = u.max()
    return np.asarray((u > top - width + tol) | (u >= top - tol))


@checked
def optimistic_response(
    game: PrincipalAgentGame, policy: Any, forecast: ArrayLike, eps: float, *, tol: float = TOL
) -> int:
    """The action the Principal likes best among the Agent's ``eps``-best responses.

    Examples
    --------
    >>> from counterplay.principal import LinearContractGame
    >>> game = LinearContractGame(values=[[0.0], [1.0]], costs=[0, 0.5])
    >>> optimistic_response(game, 0.48, [1.0], 0.025)
    1
    """
    u, v = _expected(game, policy, forecast)
    return int(optimistic(u, v, u.size, check_real(eps, "eps", low=0.0), tol))


@checked
def principal_best_response(
    game: PrincipalAgentGame, P0: Sequence[Any], forecast: ArrayLike, *, tol: float = TOL
) -> int:
    """Index in ``P0`` of the policy that is best for the Principal when the Agent best responds.

    Examples
    --------
    >>> from counterplay.principal import LinearContractGame
    >>> game = LinearContractGame(values=[[0, 0], [0, 1]], costs=[0, 0.25])
    >>> principal_best_response(game, [0.0, 0.25, 0.5, 0.75], [0.5, 0.5])
    2
    """
    policies = game.check_policies(P0)
    worth = [_worth(game, p, forecast, best_response(game, p, forecast, tol=tol)) for p in policies]
    return int(first_maximum(np.array(worth), tol))


@checked
def optimistic_pair(
    game: PrincipalAgentGame,
    P0: Sequence[Any],
    forecast: ArrayLike,
    eps: float,
    *,
    tol: float = TOL,
) -> tuple[int, int]:
    """Index in ``P0`` and action of the best policy if the Agent responded optimistically.

    Examples
    --------
    >>> from counterplay.principal import LinearContractGame
    >>> game = LinearContractGame(values=[[0, 0], [0, 1]], costs=[0, 0.25])
    >>> optimistic_pair(game, [0.0, 0.45, 0.5], [0.5, 0.5], eps=0.05)
    (1, 1)
    """
    policies = game.check_policies(P0)
    actions = [optimistic_response(game, p, forecast, eps, tol=tol) for p in policies]
    worth = [_worth(game, p, forecast, a) for p, a in zip(policies, actions)]
    index = int(first_maximum(np.array(worth), tol))
    return index, actions[index]


@checked
def is_stable(
    game: PrincipalAgentGame,
    policy: Any,
    forecast: ArrayLike,
    beta: float,
    gamma: float,
    *,
    two_sided: bool = False,
    tol: float = TOL,
) -> bool:
    """Whether every other action is ``beta`` worse for the Agent or harmless up to ``gamma``.

    Parameters
    ----------
    game:
        The stage game.
    policy:
        One of its policies.
    forecast:
        Probabilities of the states.
    beta:
        Utility margin of the Agent.
    gamma:
        Tolerated loss of the Principal.
    two_sided:
        Also forbid near-best actions that are better for the Principal by more than ``gamma``;
        this is what the linear-contract oracle needs (Theorem 7.3, repaired).

    Examples
    --------
    >>> from counterplay.principal import LinearContractGame
    >>> game = LinearContractGame(values=[[0, 0], [0, 1]], costs=[0, 0.25])
    >>> is_stable(game, 0.5, [0.5, 0.5], 0.01, 0.0), is_stable(game, 0.6, [0.5, 0.5], 0.01, 0.0)
    (False, True)
    """
    u, v = _expected(game, policy, forecast)
    margin = check_real(beta, "beta", low=0.0)
    return bool(stable(u, v, u.size, margin, check_real(gamma, "gamma", low=0.0), two_sided, tol))


@checked
def optimality_loss(
    game: PrincipalAgentGame, policy: Any, forecast: ArrayLike, P0: Sequence[Any], eps: float
) -> float:
    """The smallest c for which ``policy`` is c-optimal under ``forecast`` (Definition 7.4).

    It compares the policy, answered by a best response, with the best benchmark policy answered
    optimistically within ``eps``.

    Examples
    --------
    >>> from counterplay.principal import LinearContractGame
    >>> game = LinearContractGame(values=[[0, 0], [0, 1]], costs=[0, 0.25])
    >>> round(optimality_loss(game, 0.6, [0.5, 0.5], [0.5], eps=0.0), 3)
    0.05
    """
    index, action = optimistic_pair(game, P0, forecast, eps)
    hoped = _worth(game, game.check_policies(P0)[index], forecast, action)
    return hoped - _worth(game, policy, forecast, best_response(game, policy, forecast))


def _expected(
    game: PrincipalAgentGame, policy: Any, forecast: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    pi = check_forecasts(forecast, game.n_states)
    if len(pi) != 1:
        raise InvalidInputError(
            "give one forecast at a time; for batches use best_responses(*game.UV(...))"
        )
    U, V = game.UV([game.check_policy(policy)], pi)
    return U[0, 0], V[0, 0]


def _worth(game: PrincipalAgentGame, policy: Any, forecast: ArrayLike, action: int) -> float:
    return float(_expected(game, policy, forecast)[1][action])
