"""Agents: obedient, prior-driven, learning, spiteful.

An Agent sees the policy and the recommendation, acts, and then learns the state. Mechanisms never
look at his actions, so a whole game can be replayed for any Agent after the policies are known;
``replay`` does that at once, ``begin``/``act``/``observe`` round by round, with the same numbers.
Source: "Agents" and Proposition 7.I, see docs/theory/07-principal.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_float_array,
    check_real,
    shorten,
)
from counterplay.errors import InvalidInputError
from counterplay.principal.behaviour import Stage
from counterplay.principal.blum_mansour import contextual_probabilities, mixed_action, sample
from counterplay.principal.bounds import balance_threshold
from counterplay.principal.events import FunctionFamily
from counterplay.principal.forecaster import UnbiasedForecaster
from counterplay.principal.games import PrincipalAgentGame
from counterplay.principal.kernels import TOL, respond


class Agent(ABC):
    """Base class. Subclasses implement ``begin``, ``act`` and ``observe``.

    Parameters
    ----------
    random_state:
        None, an int or a numpy Generator. Every replay starts from it afresh.
    """

    def __init__(self, random_state: RandomState = None) -> None:
        self.random_state = random_state

    def begin(self, game: PrincipalAgentGame, policies: Sequence[Any], horizon: int) -> None:
        """Forget everything; a new game of ``horizon`` rounds starts."""
        self.game, self.policies, self.horizon = game, policies, horizon

    @abstractmethod
    def act(self, p_idx: int, r: int, uniform: float) -> int:
        """Return the action; ``uniform`` is the only randomness of the round."""

    def observe(self, p_idx: int, r: int, a: int, y: int) -> None:  # noqa: B027  # optional hook
        """Learn the state of the round."""

    def replay(self, stage: Stage, uniforms: FloatArray) -> IntArray:
        """Play a whole stage; ``uniforms`` has the shape (rounds, replicates) of the result."""
        uniforms = _check_uniforms(stage, uniforms)
        actions = np.empty(uniforms.shape, dtype=np.int64)
        for replicate in range(uniforms.shape[1]):
            self.begin(stage.game, stage.policies, len(stage))
            for t in range(len(stage)):
                p, r, y = int(stage.p_idx[t]), int(stage.r[t]), int(stage.y[t])
                a = self.act(p, r, float(uniforms[t, replicate]))
                self.observe(p, r, a, y)
                actions[t, replicate] = a
        return actions

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


@checked
class FollowRecommendation(Agent):
    """Does what is recommended: no secret information, and regret only through the forecast's bias.

    Use it as the friendliest counterparty, to see what the recommendations are worth.

    Parameters
    ----------
    random_state:
        Not used: the recommendation is followed.

    Examples
    --------
    >>> FollowRecommendation().act(p_idx=0, r=1, uniform=0.3)
    1

    References
    ----------
    "Agents", "The Agent who follows", see docs/theory/07-principal.md.
    """

    def act(self, p_idx: int, r: int, uniform: float) -> int:
        """Return the recommendation."""
        return r

    def replay(self, stage: Stage, uniforms: FloatArray) -> IntArray:
        """Return the recommendations."""
        uniforms = _check_uniforms(stage, uniforms)
        return np.repeat(stage.r[:, None], uniforms.shape[1], axis=1)


@checked
class CommonPriorAgent(Agent):
    """Best responds to a fixed prior, as in the classical model.

    Parameters
    ----------
    prior:
        His probabilities of the states.
    """

    def __init__(self, prior: ArrayLike, random_state: RandomState = None) -> None:
        super().__init__(random_state)
        self.prior = check_float_array(prior, "prior", ndim=1)

    def act(self, p_idx: int, r: int, uniform: float) -> int:
        """Return the best response to the policy under the prior."""
        U, V = self.game.UV([self.policies[p_idx]], self.prior)
        return int(respond(U[0, 0], V[0, 0], U.shape[2], TOL))

    def replay(self, stage: Stage, uniforms: FloatArray) -> IntArray:
        """Look up the best response of every policy."""
        uniforms = _check_uniforms(stage, uniforms)
        self.begin(stage.game, stage.policies, len(stage))
        offered, inverse = np.unique(stage.p_idx, return_inverse=True)
        answers = np.array([self.act(int(p), 0, 0.0) for p in offered], dtype=np.int64)
        return np.repeat(answers[inverse][:, None], uniforms.shape[1], axis=1)


@checked
class ContextualSwapAgent(Agent):
    """Rational without a prior: a Blum-Mansour learner for every (policy, recommendation) pair.

    Use it as the default model of a learning counterparty. His expected contextual swap regret
    falls like ``sqrt(contexts * n ln n / T)``.

    Parameters
    ----------
    random_state:
        Seed of the draws.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.principal import LinearContractGame, LinearContractOracle
    >>> from counterplay.principal import RepeatedContract, StableMechanism, play
    >>> game = LinearContractGame(values=[[0, 0], [0, 1]], costs=[0, 0.25])
    >>> mechanism = StableMechanism(LinearContractOracle(game, [0.3, 0.6], horizon=500),
    ...                             random_state=0)
    >>> states = np.random.default_rng(0).integers(0, 2, 500)
    >>> agent = ContextualSwapAgent(random_state=1)
    >>> transcript = play(mechanism, RepeatedContract(game, agent, states))
    >>> transcript.behaviour.swap_regret < 0.1
    True

    References
    ----------
    "Agents", Proposition 7.I, see docs/theory/07-principal.md.
    """

    def begin(self, game: PrincipalAgentGame, policies: Sequence[Any], horizon: int) -> None:
        """Start with no contexts."""
        super().begin(game, policies, horizon)
        self._gains: dict[tuple[int, int], FloatArray] = {}
        self._visits: dict[tuple[int, int], int] = {}
        self._tables: dict[int, FloatArray] = {}

    def _table(self, p_idx: int) -> FloatArray:
        if p_idx not in self._tables:
            self._tables[p_idx] = np.asarray(self.game.agent_utility(self.policies[p_idx]))
        return self._tables[p_idx]

    def _mixed(self, p_idx: int, r: int) -> FloatArray:
        n = len(self._table(p_idx))
        gains = self._gains.setdefault((p_idx, r), np.zeros((n, n)))
        mixed: FloatArray = mixed_action(gains, n, self._visits.get((p_idx, r), 0), 2.0)
        return mixed

    def act(self, p_idx: int, r: int, uniform: float) -> int:
        """Draw from the mixed action of the context."""
        return int(sample(self._mixed(p_idx, r), len(self._table(p_idx)), uniform))

    def observe(self, p_idx: int, r: int, a: int, y: int) -> None:
        """Feed the gains of all actions to the learner of the context."""
        self._gains[p_idx, r] += np.outer(self._mixed(p_idx, r), self._table(p_idx)[:, y])
        self._visits[p_idx, r] = self._visits.get((p_idx, r), 0) + 1

    def probabilities(self, stage: Stage) -> FloatArray:
        """Return his mixed action in every round; it does not depend on the actions drawn."""
        mixed: FloatArray = contextual_probabilities(
            stage.contexts, stage.context_sizes, stage.gains(), 2.0
        )
        return mixed

    def replay(self, stage: Stage, uniforms: FloatArray) -> IntArray:
        """Compute the mixed actions once, then draw all replicates."""
        uniforms = _check_uniforms(stage, uniforms)
        drawn: IntArray = _draw(self.probabilities(stage), stage.sizes[stage.local], uniforms)
        return drawn


@checked
class SpitefulAgent(Agent):
    """Low regret, but breaks near-ties against the Principal (ours).

    In each context he looks at the actions whose cumulative utility is within ``B sqrt(n)`` of the
    best and plays the one with the smallest cumulative Principal utility. He is the test of
    stability: policies that rest on a near-tie lose everything against him.

    Parameters
    ----------
    B:
        Size of a near-tie; his swap regret is of order ``B / sqrt(n)`` per context.
    """

    def __init__(self, B: float = 0.5, random_state: RandomState = None) -> None:
        super().__init__(random_state)
        self.B = check_real(B, "B", low=0.0)

    def begin(self, game: PrincipalAgentGame, policies: Sequence[Any], horizon: int) -> None:
        """Start with no contexts."""
        super().begin(game, policies, horizon)
        self._sums: dict[tuple[int, int], FloatArray] = {}

    def _sum(self, p_idx: int, r: int) -> FloatArray:
        n = self.game.n_actions(self.policies[p_idx])
        return self._sums.setdefault((p_idx, r), np.zeros((3, n)))

    def act(self, p_idx: int, r: int, uniform: float) -> int:
        """Return the near-best action that has hurt the Principal most."""
        own, hers, visits = self._sum(p_idx, r)
        return int(_spite(own, hers, own.size, visits[0], self.B))

    def observe(self, p_idx: int, r: int, a: int, y: int) -> None:
        """Add the utilities of all actions to the sums of the context."""
        sums = self._sum(p_idx, r)
        sums[0] += self.game.agent_utility(self.policies[p_idx])[:, y]
        sums[1] += self.game.principal_utility(self.policies[p_idx])[:, y]
        sums[2] += 1.0

    def replay(self, stage: Stage, uniforms: FloatArray) -> IntArray:
        """Play deterministically; all replicates are equal."""
        uniforms = _check_uniforms(stage, uniforms)
        actions = _spiteful(
            stage.contexts,
            stage.context_sizes,
            stage.gains(),
            np.nan_to_num(stage.V[stage.local, :, stage.y]),
            self.B,
        )
        return np.repeat(actions[:, None], uniforms.shape[1], axis=1)

    def __repr__(self) -> str:
        return f"SpitefulAgent(B={self.B:g})"


@checked
class ForecastBestResponseAgent(Agent):
    """Best responds to his own unbiased forecasts, the other efficient way to be rational.

    His forecaster is unbiased on the events (policy, recommendation, his own best response), so
    his contextual swap regret is at most twice its bias.
    """

    def begin(self, game: PrincipalAgentGame, policies: Sequence[Any], horizon: int) -> None:
        """Forget the forecaster; the next action starts a fresh one."""
        super().begin(game, policies, horizon)
        self._forecaster: UnbiasedForecaster | None = None
        self._tables: dict[int, tuple[FloatArray, FloatArray]] = {}

    def _own_event(self, forecast: FloatArray, context: Any) -> tuple[int, int, int]:
        p_idx, r = context
        return p_idx, r, self._respond(p_idx, forecast)

    def _respond(self, p_idx: int, forecast: FloatArray) -> int:
        if p_idx not in self._tables:
            policy = self.policies[p_idx]
            tables = self.game.agent_utility(policy), self.game.principal_utility(policy)
            self._tables[p_idx] = tables
        U, V = self._tables[p_idx]
        own, hers = (U * forecast).sum(axis=1), (V * forecast).sum(axis=1)
        return int(respond(own, hers, own.size, TOL))

    def act(self, p_idx: int, r: int, uniform: float) -> int:
        """Best respond to his forecast of this round; the first uniform seeds the forecaster."""
        if self._forecaster is None:
            self._forecaster = UnbiasedForecaster(
                self.game.n_states,
                events=[FunctionFamily(self._own_event, "own response")],
                horizon=self.horizon,
                random_state=int(uniform * 2**32),
            )
        return self._respond(p_idx, self._forecaster.predict_one((p_idx, r)))

    def observe(self, p_idx: int, r: int, a: int, y: int) -> None:
        """Teach the forecaster."""
        if self._forecaster is not None:
            self._forecaster.learn_one(y)


@checked
class SecretInfoAgent(ContextualSwapAgent):
    """Knows the future and uses it only where no regret test can see it (Algorithm F.2, repaired).

    Made for :func:`secret_information_instance`: states M = 0 and H = 1, actions shirk = 0 and
    work = 1. He shirks in round 1. If the first state is M he then works exactly on M as long as
    he is offered (0.5, work); if it is H he works on M, and on H with probability 1/5, as long as
    he is offered (0.6, work). Once the Principal deviates, or the states get unbalanced, he plays
    a Blum-Mansour learner fed with the whole history, for ever.

    Parameters
    ----------
    check_first_round:
        Whether round 1 must already be the required offer. The printed pseudo-code does not check
        it, and then a reactive mechanism has no regret (Proposition 7.1, repaired).
    """

    def __init__(self, *, check_first_round: bool = True, random_state: RandomState = None) -> None:
        super().__init__(random_state)
        self.check_first_round = check_first_round

    def act(self, p_idx: int, r: int, uniform: float) -> int:
        """Not available: he acts on states that are not yet revealed; use ``replay``."""
        raise InvalidInputError("SecretInfoAgent knows the future: simulate him with replay")

    def replay(self, stage: Stage, uniforms: FloatArray) -> IntArray:
        """Play with the whole state sequence in view."""
        uniforms = _check_uniforms(stage, uniforms)
        if stage.game.n_states != 2 or (stage.context_sizes != 2).any():
            raise InvalidInputError("SecretInfoAgent needs two states and two actions")
        learned = super().replay(stage, uniforms)
        required = 0.5 if stage.y[0] == 0 else 0.6
        shares = np.array([float(p) for p in stage.policies])[stage.p_idx]
        kept = (np.abs(shares - required) < 1e-9) & (stage.r == 1)
        if not self.check_first_round:
            kept[0] = True
        walk = np.abs(np.cumsum(np.where(stage.y == 0, 1, -1)))
        calm = walk[:-1] <= balance_threshold(len(stage))  # states known before the round
        balanced = np.concatenate([[True], calm])
        secret = np.logical_and.accumulate(kept & balanced)
        works_on_h = 0.0 if stage.y[0] == 0 else 0.2
        informed = np.where(stage.y[:, None] == 0, 1, (uniforms < works_on_h).astype(np.int64))
        actions = np.where(secret[:, None], informed, learned)
        actions[0] = 0
        return actions


def _check_uniforms(stage: Stage, uniforms: FloatArray) -> FloatArray:
    """Return the draws as an array (rounds, replicates), before it enters compiled code."""
    if not isinstance(stage, Stage):
        raise InvalidInputError(f"stage must be a Stage, got {shorten(stage)}")
    array = check_float_array(uniforms, "uniforms", ndim=2)
    if len(array) != len(stage):
        raise InvalidInputError(
            f"uniforms must have one row for each of {len(stage)} rounds, got {len(array)}"
        )
    return array


@njit(cache=True)
def _draw(mixed: FloatArray, sizes: IntArray, uniforms: FloatArray) -> IntArray:
    """Draw every replicate's action of every round from the mixed action of the round."""
    rounds, replicates = uniforms.shape
    actions = np.empty((rounds, replicates), dtype=np.int64)
    for t in range(rounds):
        for i in range(replicates):
            actions[t, i] = sample(mixed[t], sizes[t], uniforms[t, i])
    return actions


@njit(cache=True)
def _spite(own: FloatArray, hers: FloatArray, n: int, visits: float, B: float) -> int:
    """The action that hurt her most so far, among those within B sqrt(visits) of his best."""
    top = own[0]
    for a in range(1, n):
        top = max(top, own[a])
    # His best action is always a candidate, so one is chosen.
    chosen = -1
    for a in range(n):
        if own[a] >= top - B * math.sqrt(visits) and (chosen < 0 or hers[a] < hers[chosen]):
            chosen = a
    return chosen


@njit(cache=True)
def _spiteful(
    contexts: IntArray, sizes: IntArray, gains: FloatArray, values: FloatArray, B: float
) -> IntArray:
    """Play all rounds; contexts are codes < ``len(sizes)``, sizes <= ``gains.shape[1]``."""
    rounds, n_max = gains.shape
    own = np.zeros((sizes.shape[0], n_max))
    hers = np.zeros((sizes.shape[0], n_max))
    visits = np.zeros(sizes.shape[0])
    actions = np.empty(rounds, dtype=np.int64)
    for t in range(rounds):
        k = contexts[t]
        actions[t] = _spite(own[k], hers[k], sizes[k], visits[k], B)
        # The state is revealed: he learns what every action would have given to both.
        for a in range(sizes[k]):
            own[k, a] += gains[t, a]
            hers[k, a] += values[t, a]
        visits[k] += 1.0
    return actions
