"""How an Agent behaved: swap regret, negative regret, alignment gap, secret information.

All of it is computed from the counts N[(policy, recommendation), action, state]. The first three
are linked by an identity: gap = swap regret + negative regret.
Source: Assumptions 7.1, 7.2, F.1 and F.2, see docs/theory/07-principal.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.validation import FloatArray, IntArray, check_float_array
from counterplay.errors import InvalidInputError
from counterplay.principal.games import PrincipalAgentGame, check_codes, check_states

if TYPE_CHECKING:
    import pandas as pd


@checked
@dataclass(frozen=True)
class Stage:
    """What an Agent is shown in T rounds: policies and recommendations, then the states.

    ``p_idx`` are indices into ``policies``. ``U`` and ``V`` are the tables of the policies that
    were offered, ``local`` the index of each round's policy in them. Contexts, the different
    (policy, recommendation) pairs, are numbered in the order of their first appearance.
    """

    game: PrincipalAgentGame
    policies: Sequence[Any]
    p_idx: IntArray
    r: IntArray
    y: IntArray
    U: FloatArray = field(init=False, repr=False)
    V: FloatArray = field(init=False, repr=False)
    sizes: IntArray = field(init=False, repr=False)
    local: IntArray = field(init=False, repr=False)
    contexts: IntArray = field(init=False, repr=False)
    context_policy: IntArray = field(init=False, repr=False)
    context_action: IntArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        y = check_states(self.y, self.game.n_states)
        p, r = check_codes(self.p_idx, "policy"), check_codes(self.r, "recommendation")
        if not p.shape == r.shape == y.shape:
            raise InvalidInputError(
                "policies, recommendations and states must have the same length, got "
                f"{p.size}, {r.size} and {y.size}"
            )
        if p.min() < 0 or p.max() >= len(self.policies):
            raise InvalidInputError(f"policy indices must be in 0..{len(self.policies) - 1}")
        offered = np.unique(p)
        U, V = self.game.tables(self.game.check_policies([self.policies[i] for i in offered]))
        sizes = np.array([self.game.n_actions(self.policies[i]) for i in offered], dtype=np.int64)
        local = np.searchsorted(offered, p)
        if (r < 0).any() or (r >= sizes[local]).any():
            raise InvalidInputError("a recommendation is not an action of its policy")
        codes, first, inverse = np.unique(
            local * U.shape[1] + r, return_index=True, return_inverse=True
        )
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        for name, value in (
            ("y", y),
            ("p_idx", p),
            ("r", r),
            ("U", U),
            ("V", V),
            ("sizes", sizes),
            ("local", local),
            ("contexts", rank[inverse]),
            ("context_policy", (codes // U.shape[1])[order]),
            ("context_action", (codes % U.shape[1])[order]),
        ):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return int(self.y.size)

    @property
    def n_contexts(self) -> int:
        """Number of different (policy, recommendation) pairs."""
        return int(self.context_policy.size)

    @property
    def context_sizes(self) -> IntArray:
        """Number of actions in every context."""
        return self.sizes[self.context_policy]

    @property
    def stakes(self) -> tuple[float, float]:
        """Largest minus smallest utility of a round, mean over the rounds: Agent, Principal."""
        spread = [np.nanmax(W, axis=1) - np.nanmin(W, axis=1) for W in (self.U, self.V)]
        agent, principal = (float(s[self.local, self.y].mean()) for s in spread)
        return agent, principal

    def gains(self) -> FloatArray:
        """Utilities of all Agent actions in every round, shape (rounds, actions)."""
        return np.nan_to_num(self.U[self.local, :, self.y])

    def check_actions(self, actions: Any) -> IntArray:
        """Return the Agent's actions as an array (rounds, replicates)."""
        a = check_codes(actions, "action")
        a = a[:, None] if a.ndim == 1 else a
        if a.ndim != 2 or a.shape[0] != len(self):
            raise InvalidInputError(
                f"actions must have one entry per round ({len(self)}), got {np.shape(actions)}"
            )
        if (a < 0).any() or (a >= self.sizes[self.local][:, None]).any():
            raise InvalidInputError("an action is not available under its policy")
        return a

    def principal_values(self, actions: Any) -> FloatArray:
        """Utility of the Principal in every round and replicate."""
        a = self.check_actions(actions)
        return np.asarray(self.V[self.local[:, None], a, self.y[:, None]])

    def agent_values(self, actions: Any) -> FloatArray:
        """Utility of the Agent in every round and replicate."""
        a = self.check_actions(actions)
        return np.asarray(self.U[self.local[:, None], a, self.y[:, None]])


@checked(arrays=True)
@dataclass(frozen=True)
class Behaviour(Report):
    """Behavioural quantities of one Agent on one stage, averages over the rounds.

    Attributes
    ----------
    swap_regret:
        B2IR: what he would gain by the best change of each action in each context.
    negative_regret:
        NegReg: how much better he did than the best fixed action per context.
    utility_gap:
        UGap = swap_regret + negative_regret.
    secret_information:
        nb: how far his utility and the Principal's are from what independent actions would give.
    kappa:
        Largest b_k sqrt(n_k) over the contexts; bounded when actions carry no secret information.
    n_k:
        Rounds of every context.
    b_k:
        Deviation from independence of every context: the larger one of the next two.
    b_agent:
        Deviation of his utility.
    b_principal:
        Deviation of hers.
    """

    swap_regret: float
    negative_regret: float
    utility_gap: float
    secret_information: float
    kappa: float
    n_k: FloatArray
    b_k: FloatArray
    b_agent: FloatArray
    b_principal: FloatArray

    def summary(self) -> str:
        """Return the five numbers as text."""
        return (
            f"swap regret {self.swap_regret:.4f}, negative regret {self.negative_regret:.4f}, "
            f"gap {self.utility_gap:.4f}, secret information {self.secret_information:.4f} "
            f"(kappa {self.kappa:.2f}) in {self.n_k.size} contexts"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per context."""
        import pandas as pd

        return pd.DataFrame(
            {
                "n": self.n_k.astype(int),
                "b": self.b_k,
                "b_agent": self.b_agent,
                "b_principal": self.b_principal,
            }
        )


@checked
def behaviour(stage: Stage, actions: Any) -> Behaviour:
    """Measure how the Agent behaved on ``stage``.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.principal import LinearContractGame
    >>> game = LinearContractGame(values=[[0, 0], [1, 0]], costs=[0, 0.5])   # work pays in state 0
    >>> y = np.arange(1000) % 2
    >>> stage = Stage(game, (0.5,), np.zeros(1000, int), np.ones(1000, int), y)
    >>> secret = behaviour(stage, 1 - y)           # he works exactly when it pays
    >>> secret.swap_regret, secret.negative_regret, secret.secret_information
    (0.0, 0.0, 0.125)
    """
    a = stage.check_actions(actions)
    if a.shape[1] != 1:
        raise InvalidInputError("behaviour looks at one replicate; pass actions[:, i]")
    n_contexts, n_actions = stage.n_contexts, stage.U.shape[1]
    n_states = stage.game.n_states
    flat = (stage.contexts * n_actions + a[:, 0]) * n_states + stage.y
    counts = np.bincount(flat, minlength=n_contexts * n_actions * n_states).astype(np.float64)
    N = counts.reshape(n_contexts, n_actions, n_states)
    U, V = stage.U[stage.context_policy], stage.V[stage.context_policy]
    return _from_counts(N, U, V)


def _from_counts(N: FloatArray, U: FloatArray, V: FloatArray) -> Behaviour:
    T = N.sum()
    absent = np.isnan(U[:, :, 0])  # padding: actions that do not exist under the policy
    U, V = np.nan_to_num(U), np.nan_to_num(V)
    S = np.einsum("kay,kby->kab", N, U)  # utility of b on the rounds where a was played
    S_best = np.where(absent[:, None, :], -np.inf, S)
    earned = np.einsum("kaa->k", S)
    swapped = S_best.max(axis=2)
    used = N.sum(axis=2) > 0
    best_swap = np.where(used, swapped, 0.0).sum(axis=1)
    best_fixed = np.where(absent, -np.inf, S.sum(axis=1)).max(axis=1)
    n_k = N.sum(axis=(1, 2))
    # counts minus the counts of independent actions: exactly zero when only one action was played
    excess = N - N.sum(axis=2)[:, :, None] * N.sum(axis=1)[:, None, :] / n_k[:, None, None]
    gaps = [np.abs(np.einsum("kay,kay->k", excess, W)) for W in (U, V)]
    b_k = np.maximum(gaps[0], gaps[1]) / n_k
    return Behaviour(
        swap_regret=float((best_swap - earned).sum() / T),
        negative_regret=float((earned - best_fixed).sum() / T),
        utility_gap=float((best_swap - best_fixed).sum() / T),
        secret_information=float((n_k * b_k).sum() / T),
        kappa=float((b_k * np.sqrt(n_k)).max()),
        n_k=n_k,
        b_k=b_k,
        b_agent=gaps[0] / n_k,
        b_principal=gaps[1] / n_k,
    )


@checked
def conditional_bias(
    forecasts: ArrayLike, states: ArrayLike, ids: IntArray
) -> tuple[IntArray, FloatArray]:
    """Bias of one event family: ids that occurred and alpha of each (Definition 7.2).

    Examples
    --------
    >>> import numpy as np
    >>> ids, alpha = conditional_bias(np.array([[0.5, 0.5]] * 4), np.array([0, 0, 1, 1]),
    ...                               np.array([0, 0, 0, 1]))
    >>> alpha.round(3).tolist()
    [0.25, 0.25]
    """
    pi = check_float_array(forecasts, "forecasts", ndim=2)
    y = check_states(states, pi.shape[1])
    if not len(pi) == y.size == np.size(ids) or np.ndim(ids) != 1:
        raise InvalidInputError(
            f"give one forecast, state and id per round, got {len(pi)}, {y.size} and {np.size(ids)}"
        )
    residual = pi.copy()
    residual[np.arange(y.size), y] -= 1.0
    found, inverse = np.unique(ids, return_inverse=True)
    sums = np.zeros((found.size, pi.shape[1]))
    np.add.at(sums, inverse, residual)
    return found, np.abs(sums).sum(axis=1) / y.size
