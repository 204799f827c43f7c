"""Play the game: one pass for the forecasts, then any Agent, then all counterfactuals.

Because the mechanism never reads the Agent's actions, its side of the game is computed once. The
realised Agent and one fresh Agent per benchmark policy are then replayed on the stored offers.
Source: prot:interaction; spec 07, sections 2.5, 2.6, A1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.errors import InvalidInputError
from counterplay.core.seeds import generator, spawn
from counterplay.core.validation import FloatArray, check_int, check_positive_int
from counterplay.principal.agents import Agent
from counterplay.principal.behaviour import Stage
from counterplay.principal.games import check_states
from counterplay.principal.protocol import Mechanism, Nature, Offer, Play
from counterplay.principal.transcript import Transcript


def simulate(
    mechanism: Mechanism | Play,
    agent: Agent,
    states: ArrayLike | Nature | None = None,
    *,
    rounds: int | None = None,
    replicates: int = 1,
    fixed_recommendation: int | None = None,
) -> Transcript:
    """Play a mechanism against an Agent, and every benchmark policy against fresh copies of him.

    Parameters
    ----------
    mechanism:
        A mechanism, or a :class:`Play` (the result of ``mechanism.run``) to be replayed.
    agent:
        The Agent. Counterfactual games use fresh, independent copies.
    states:
        State codes, or a Nature: a function of :class:`NatureView` that returns a state.
    rounds:
        Number of rounds if ``states`` is a Nature.
    replicates:
        Independent replicates of the Agent's randomness; utilities are averaged over them before
        the best benchmark is chosen.
    fixed_recommendation:
        Recommend this action under every benchmark policy instead of a*(p0, forecast).

    Returns
    -------
    Transcript
        With ``policy_regret``, ``regret_bound``, ``behaviour``, ``summary()`` and ``plot()``.

    Examples
    --------
    >>> from counterplay.principal import (BestResponseMechanism, SpitefulAgent,
    ...                                    near_tie_contract, simulate)
    >>> instance = near_tie_contract(2000, random_state=0)
    >>> mechanism = BestResponseMechanism(instance.game, instance.benchmark, random_state=0)
    >>> play = mechanism.run(instance.states)
    >>> simulate(play, SpitefulAgent()).policy_regret > 0.12      # the price of a near-tie
    True
    """
    played = mechanism if isinstance(mechanism, Play) else _run(mechanism, states, rounds)
    game, T = played.mechanism.game, len(played)
    P0 = played.mechanism.benchmark
    R = check_positive_int(replicates, "replicates")
    columns = dict(played.columns)
    columns["r0"] = _recommendations(played, fixed_recommendation)
    streams = spawn(agent.random_state, 1 + len(P0))
    stage = Stage(game, played.policies, columns["p_idx"], columns["r"], columns["y"])
    actions = stage.check_actions(agent.replay(stage, streams[0].random((T, R))))
    counterfactual = np.empty((T, len(P0), R), dtype=np.int64)
    for j, policy in enumerate(P0):
        zeros = np.zeros(T, dtype=np.int64)
        alone = Stage(game, (policy,), zeros, columns["r0"][:, j], columns["y"])
        replayed = agent.replay(alone, streams[1 + j].random((T, R)))
        counterfactual[:, j] = alone.check_actions(replayed)
    columns["a"] = actions[:, 0] if R == 1 else actions
    columns["a0"] = counterfactual[:, :, 0] if R == 1 else counterfactual
    return Transcript(
        columns,
        {"mechanism": repr(played.mechanism), "agent": repr(agent)},
        game=game,
        policies=played.policies,
        benchmark=P0,
        spec=played.mechanism.spec,
        kind=played.mechanism.kind,
        fixed_recommendation=fixed_recommendation,
    )


class InteractionProtocol:
    """The game of prot:interaction, one round at a time.

    Use it to watch a game, or to put a person or another program in the place of the Agent; use
    :func:`simulate` for whole games.

    Parameters
    ----------
    mechanism, agent:
        The two players.
    horizon:
        Number of rounds.

    Examples
    --------
    >>> from counterplay.principal import (ConstantMechanism, FollowRecommendation,
    ...                                    InteractionProtocol, LinearContractGame)
    >>> game = LinearContractGame(values=[[0, 0], [0, 1]], costs=[0, 0.25])
    >>> protocol = InteractionProtocol(ConstantMechanism(game, 0.6, random_state=0),
    ...                                FollowRecommendation(), horizon=3)
    >>> [record["a"] for record in protocol.play([1, 0, 1])]
    [1, 1, 1]
    """

    def __init__(self, mechanism: Mechanism, agent: Agent, horizon: int) -> None:
        self.mechanism, self.agent = mechanism, agent
        self.horizon = check_positive_int(horizon, "horizon")
        self._session = mechanism.start(self.horizon)
        agent.begin(mechanism.game, mechanism.policies, self.horizon)
        self._rng = spawn(agent.random_state, 1)[0]
        self.round = 0

    def __repr__(self) -> str:
        return f"InteractionProtocol({self.mechanism!r}, {self.agent!r}, round={self.round})"

    def offer(self) -> Offer:
        """Return what the Principal discloses this round."""
        return self._session.offer()

    def step(self, y: int) -> dict[str, Any]:
        """Let the Agent act, reveal the state ``y``, return the record of the round."""
        state = check_int(y, "state", low=0, high=self.mechanism.game.n_states - 1)
        if self.round >= self.horizon:
            raise InvalidInputError(f"the game has only {self.horizon} rounds")
        offer = self.offer()
        p, r = offer.policy_index, offer.recommendation
        a = self.agent.act(p, r, float(self._rng.random()))
        self.agent.observe(p, r, a, state)
        self._session.observe(state)
        self.round += 1
        game = self.mechanism.game
        return {
            "policy": offer.policy,
            "r": r,
            "a": a,
            "y": state,
            "agent": float(game.agent_utility(offer.policy)[a, state]),
            "principal": float(game.principal_utility(offer.policy)[a, state]),
        }

    def play(self, states: ArrayLike) -> Iterator[dict[str, Any]]:
        """Yield the records of a state sequence."""
        for y in check_states(states, self.mechanism.game.n_states):
            yield self.step(int(y))


def gap_adversary(random_state: Any = None) -> Nature:
    """Nature that picks the state on which an unbiased forecaster gains least (its worst case)."""
    rng = generator(random_state)

    def nature(view: Any) -> int:
        if view.gains is None:
            return int(rng.integers(view.points.shape[1] if view.points is not None else 2))
        worst = np.flatnonzero(view.gains <= view.gains.min() + 1e-15)
        return int(rng.choice(worst))

    return nature


def _run(mechanism: Mechanism, states: ArrayLike | Nature | None, rounds: int | None) -> Play:
    if states is None:
        raise InvalidInputError("give the states, or a Play that already contains them")
    return mechanism.run(states, rounds)


def _recommendations(played: Play, fixed: int | None) -> FloatArray:
    P0 = played.mechanism.benchmark
    if fixed is not None:
        smallest = min(played.mechanism.game.n_actions(policy) for policy in P0)
        action = check_int(fixed, "fixed_recommendation", low=0, high=smallest - 1)
        return np.full((len(played), len(P0)), action)
    if "r0" not in played.columns:
        raise InvalidInputError(
            "this mechanism makes no forecasts; give fixed_recommendation for the benchmarks"
        )
    found: FloatArray = played.columns["r0"]
    return found
