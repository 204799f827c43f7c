"""The repeated game between Principal, Agent and Nature, with all its counterfactuals.

The mechanism never reads the Agent's actions, so its side of the game is played first. The realised
Agent and one fresh Agent per benchmark policy then answer the recorded offers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.play import Game, Learner
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import IntArray, check_int, check_positive_int
from counterplay.errors import InvalidInputError, ProtocolError
from counterplay.principal.agents import Agent
from counterplay.principal.games import PrincipalAgentGame, check_states
from counterplay.principal.mechanisms import Mechanism, Nature, NatureView, Offer
from counterplay.principal.transcript import ContractTranscript, answered


@checked
class RepeatedContract(Game[ContractTranscript]):
    """A stage game played round after round against an Agent, over a sequence of states.

    Play it with a mechanism (:class:`StableMechanism`): in every round it offers a policy with a
    recommendation, the Agent acts, the state is revealed. It serves commissions, payment schemes
    and disclosure alike; the stage game says which.

    Parameters
    ----------
    game:
        The stage game; it must be the mechanism's.
    agent:
        The Agent. Counterfactual games use fresh, independent copies.
    states:
        State codes in order, or a Nature: a function of :class:`NatureView` that returns a state
        (then ``play`` needs ``rounds``).
    replicates:
        Independent replicates of the Agent's randomness; utilities are averaged over them before
        the best benchmark is chosen.
    fixed_recommendation:
        Recommend this action under every benchmark policy instead of a*(p0, forecast).

    Examples
    --------
    >>> from counterplay.principal import RepeatedContract, instances, lab, play
    >>> near = instances.near_tie_contract(2000, random_state=0)
    >>> mechanism = lab.BestResponseMechanism(near.game, near.benchmark, random_state=0)
    >>> game = RepeatedContract(near.game, lab.SpitefulAgent(), near.states)
    >>> play(mechanism, game).policy_regret > 0.12      # the price of a near-tie
    True

    References
    ----------
    "The interaction (Algorithm 7.1)", Proposition 7.B, see docs/theory/07-principal.md.
    """

    def __init__(
        self,
        game: PrincipalAgentGame,
        agent: Agent,
        states: ArrayLike | Nature,
        *,
        replicates: int = 1,
        fixed_recommendation: int | None = None,
    ) -> None:
        self.game, self.agent = game, agent
        self.nature: Nature | None = states if callable(states) else None
        self.states = None if callable(states) else check_states(states, game.n_states)
        self.replicates = check_positive_int(replicates, "replicates")
        self.fixed_recommendation = fixed_recommendation
        self._y: list[int] = []
        self._offers: list[Offer] = []
        self._agent_seed: RandomState = None

    def __repr__(self) -> str:
        length = "a nature" if self.states is None else f"{self.states.size} states"
        return f"RepeatedContract({self.game!r}, {self.agent!r}, {length})"

    @property
    def rounds(self) -> int | None:
        """Number of states; None against a Nature."""
        return None if self.states is None else int(self.states.size)

    def check(self, learner: Learner) -> None:
        """Refuse anything but a mechanism for this very stage game."""
        if not isinstance(learner, Mechanism):
            raise InvalidInputError(
                f"a repeated contract is played by a mechanism, not by {type(learner).__name__}"
            )
        if learner.game is not self.game:
            raise InvalidInputError(
                "the mechanism was made for another stage game; build both from the same object"
            )

    def start(self, rounds: int, random_state: RandomState) -> None:
        """Begin with the first state; ``random_state`` replaces the Agent's own seed."""
        if self.states is not None and rounds > self.states.size:
            raise InvalidInputError(f"rounds is {rounds} but there are {self.states.size} states")
        self._y, self._offers = [], []
        self._agent_seed = self.agent.random_state if random_state is None else random_state

    def arrive(self, learner: Learner) -> bool:
        """Fix the state of the round; a Nature sees the past and the law of the offer."""
        assert isinstance(learner, Mechanism)
        if self.states is not None:
            self._y.append(int(self.states[len(self._y)]))
            return True
        assert self.nature is not None
        chosen = self.nature(learner.view(np.array(self._y, dtype=np.int64)))
        top = self.game.n_states - 1
        self._y.append(check_int(chosen, "state chosen by nature", low=0, high=top))
        return True

    def respond(self, action: Offer) -> int:
        """Record the offer and reveal the state."""
        if not self._y:
            raise ProtocolError("no state has been fixed yet; use play(mechanism, game)")
        self._offers.append(action)
        return self._y[-1]

    def transcript(self, learner: Learner) -> ContractTranscript:
        """Let the Agent answer the offers, and fresh copies of him every benchmark policy."""
        assert isinstance(learner, Mechanism)
        offers = ContractTranscript(
            _columns(self._offers, np.array(self._y, dtype=np.int64)),
            {"mechanism": repr(learner)},
            game=self.game,
            policies=tuple(learner.policies),
            benchmark=learner.benchmark,
            spec=learner.spec,
            kind=learner.kind,
        )
        return answered(
            offers, self.agent, self.replicates, self.fixed_recommendation, self._agent_seed
        )


@checked
def gap_adversary(random_state: RandomState = None) -> Nature:
    """Nature that picks the state on which an unbiased forecaster gains least (its worst case)."""
    rng = generator(random_state)

    def nature(view: NatureView) -> int:
        if view.gains is None:
            return int(rng.integers(view.points.shape[1] if view.points is not None else 2))
        worst = np.flatnonzero(view.gains <= view.gains.min() + 1e-15)
        return int(rng.choice(worst))

    return nature


def _columns(offers: Sequence[Offer], y: IntArray) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "y": y,
        "p_idx": np.array([offer.policy_index for offer in offers], dtype=np.int64),
        "r": np.array([offer.recommendation for offer in offers], dtype=np.int64),
    }
    if offers and offers[0].forecast is not None:
        columns["pi"] = np.array([offer.forecast for offer in offers])
        pairs = np.array([offer.optimistic for offer in offers], dtype=np.int64)
        columns["init_idx"], columns["init_a"] = pairs[:, 0], pairs[:, 1]
        columns["r0"] = np.array([offer.benchmark_responses for offer in offers], dtype=np.int64)
    return columns
