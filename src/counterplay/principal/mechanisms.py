"""Mechanisms: forecast, choose a policy, recommend the best response, never look at the Agent.

A mechanism is the learner of a repeated contract. Per round it discloses an offer (a policy and a
recommendation, from a forecast), the Agent acts, the state is revealed: ``act`` returns the offer,
``observe`` takes the state. No mechanism reads the Agent's actions, so its side of a game can be
replayed against any Agent.
Source: Algorithms 7.2 and F.1, see docs/theory/07-principal.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.play import Learner
from counterplay.core.seeds import RandomState, spawn
from counterplay.core.validation import FloatArray, IntArray, check_int
from counterplay.errors import InvalidInputError
from counterplay.principal.events import Events
from counterplay.principal.forecaster import UnbiasedForecaster
from counterplay.principal.forecasts import Forecaster
from counterplay.principal.games import PrincipalAgentGame
from counterplay.principal.responses import OracleSpec, best_response
from counterplay.principal.rules import BestResponseRule, DecisionEvents, PolicyRule

Kind: TypeAlias = Literal["stable", "best-response", "other"]


@checked(arrays=True)
@dataclass(frozen=True)
class Offer:
    """What the Principal discloses in a round, and the forecast behind it (None without one).

    ``benchmark_responses`` are the Agent's best responses to all benchmark policies;
    ``optimistic`` is the optimistic pair (benchmark index, action).
    """

    policy: Any
    policy_index: int
    recommendation: int
    forecast: FloatArray | None = None
    optimistic: tuple[int, int] | None = None
    benchmark_responses: IntArray | None = None


@checked(arrays=True)
@dataclass(frozen=True)
class NatureView:
    """What an adaptive Nature may use: the past states and the distribution of the offer.

    ``points``, ``weights`` describe the forecast lottery (never the draw); ``gains`` is the mean
    gain vector of an :class:`UnbiasedForecaster`, whose argmin is its worst state; ``offers`` lists
    (probability, policy index, recommendation).
    """

    round: int
    history: IntArray
    points: FloatArray | None
    weights: FloatArray | None
    gains: FloatArray | None
    offers: tuple[tuple[float, int, int], ...]


Nature: TypeAlias = Callable[[NatureView], int]


class Mechanism(Learner):
    """Base class of mechanisms: ``begin``, then ``act`` and ``observe`` in every round.

    Attributes
    ----------
    game:
        The stage game.
    benchmark:
        The benchmark policies P0.
    spec:
        The guarantee of the policy oracle, if any.
    kind:
        Which theorem applies.
    """

    game: PrincipalAgentGame
    benchmark: tuple[Any, ...]
    spec: OracleSpec | None = None
    kind: Kind = "other"

    @property
    @abstractmethod
    def policies(self) -> Sequence[Any]:
        """Policies that can be offered; indices refer to this list."""

    @abstractmethod
    def begin(self, rounds: int) -> None:
        """Forget everything; a new game of ``rounds`` rounds starts."""

    @abstractmethod
    def act(self, seen: Any = None) -> Offer:
        """Return the offer of this round; repeated calls return the same one."""

    @abstractmethod
    def observe(self, feedback: int) -> None:
        """Learn the state and close the round."""

    @abstractmethod
    def view(self, history: IntArray) -> NatureView:
        """Return what Nature may know before it chooses the state of this round."""


@checked
class ForecastMechanism(Mechanism):
    """A forecaster, a rule from forecasts to policies, and recommendations a*(p, pi).

    Parameters
    ----------
    rule:
        Turns forecasts into policies.
    forecaster:
        Any :class:`Forecaster`; default an :class:`UnbiasedForecaster` on the decision events of
        the rule.
    random_state:
        None, an int or a numpy Generator.
    """

    def __init__(
        self,
        rule: PolicyRule,
        *,
        forecaster: Forecaster | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.rule = rule
        self.game = rule.game
        self.benchmark = rule.benchmark
        self.forecaster = forecaster if forecaster is not None else UnbiasedForecaster()
        self.random_state = random_state

    @property
    def policies(self) -> Sequence[Any]:
        """Policies that can be offered."""
        return self.rule.policies

    def events(self) -> Events:
        """Return the decision events on which the forecaster must be unbiased."""
        return DecisionEvents(self.rule, optimistic=True)

    def begin(self, rounds: int) -> None:
        """Start again with a fresh forecaster (``forecaster_``)."""
        rng = spawn(self.random_state, 1)[0]
        n_states, events = self.game.n_states, self.events()
        self.forecaster_ = self.forecaster.started(n_states, events, rounds, rng)
        self._round = 0
        self._offer: Offer | None = None

    def act(self, seen: Any = None) -> Offer:
        """Draw the forecast and choose."""
        if self._offer is None:
            rule, forecast = self.rule, self.forecaster_.predict_one()
            index, action = rule.decide(forecast)
            _, init, init_action, responses = rule.benchmark_decisions(forecast)
            self._offer = Offer(
                rule.policies[index], index, action, forecast, (init, init_action), responses
            )
        return self._offer

    def observe(self, feedback: int) -> None:
        """Teach the forecaster the state."""
        self.act()
        self.forecaster_.learn_one(feedback)
        self._offer = None
        self._round += 1

    def view(self, history: IntArray) -> NatureView:
        """Return the lottery over forecasts and the offers it leads to."""
        points, weights = self.forecaster_.distribution()
        gains = None
        if isinstance(self.forecaster_, UnbiasedForecaster):
            gains = weights @ np.array([self.forecaster_.gain(point) for point in points])
        offers = tuple(
            (float(weight), *self.rule.decide(point)) for point, weight in zip(points, weights)
        )
        return NatureView(self._round, history, points, weights, gains, offers)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rule!r})"


@checked
class StableMechanism(ForecastMechanism):
    """Forecast, let a stable policy oracle choose, recommend: low policy regret without alignment.

    Use it when an oracle exists (:class:`LinearContractOracle`, :class:`PersuasionOracle`,
    :class:`FiniteStableOracle`, the LP oracles). It needs an Agent without swap regret and
    without secret information, and nothing about how he breaks near-ties.

    Parameters
    ----------
    oracle:
        A rule with a guarantee ``spec``.
    forecaster:
        Default: :class:`UnbiasedForecaster` on the events E1, E2, E3 of Theorem 7.2.
    random_state:
        None, an int or a numpy Generator.

    Notes
    -----
    Every transcript satisfies the inequality of Theorem 7.2 with explicit constants, see
    :meth:`ContractTranscript.regret_bounds`.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.principal import RepeatedContract, play
    >>> from counterplay.principal import LinearContractOracle, StableMechanism
    >>> from counterplay.principal.instances import near_tie_contract
    >>> from counterplay.principal.lab import SpitefulAgent
    >>> instance = near_tie_contract(2000, random_state=0)
    >>> oracle = LinearContractOracle(instance.game, instance.benchmark, horizon=2000)
    >>> game = RepeatedContract(instance.game, SpitefulAgent(), instance.states)
    >>> play(StableMechanism(oracle, random_state=0), game).policy_regret < 0.06
    True

    References
    ----------
    Theorem 7.2, see docs/theory/07-principal.md.
    """

    kind: Kind = "stable"

    def __init__(
        self,
        oracle: PolicyRule,
        *,
        forecaster: Forecaster | None = None,
        random_state: RandomState = None,
    ) -> None:
        if oracle.spec is None:
            raise InvalidInputError(
                "StableMechanism needs a stable policy oracle; use ForecastMechanism for a rule "
                "without a guarantee"
            )
        super().__init__(oracle, forecaster=forecaster, random_state=random_state)
        self.spec = oracle.spec


@checked
class BestResponseMechanism(ForecastMechanism):
    """Play the best policy for the forecast, as if it were a common prior (Algorithm F.1).

    Needs no oracle, but an Agent whose near-ties do not hurt the Principal (Alignment); the
    forecaster is unbiased on the events E3 and E4 of Theorem 7.5.

    Parameters
    ----------
    game:
        The stage game.
    P0:
        The benchmark policies.
    forecaster:
        As in :class:`StableMechanism`.
    random_state:
        None, an int or a numpy Generator.
    monitor_choice:
        Whether the forecaster guards the family E4 of the chosen policy; False only to see what
        goes wrong without it.

    Examples
    --------
    >>> from counterplay.principal import RepeatedContract, play
    >>> from counterplay.principal import FollowRecommendation
    >>> from counterplay.principal.instances import near_tie_contract
    >>> from counterplay.principal.lab import BestResponseMechanism
    >>> instance = near_tie_contract(1000, random_state=0)
    >>> mechanism = BestResponseMechanism(instance.game, instance.benchmark, random_state=0)
    >>> game = RepeatedContract(instance.game, FollowRecommendation(), instance.states)
    >>> transcript = play(mechanism, game)
    >>> transcript.policy_regret <= transcript.regret_bound
    True
    """

    kind: Kind = "best-response"

    def __init__(
        self,
        game: PrincipalAgentGame,
        P0: Any,
        *,
        forecaster: Forecaster | None = None,
        random_state: RandomState = None,
        monitor_choice: bool = True,
    ) -> None:
        super().__init__(
            BestResponseRule(game, P0), forecaster=forecaster, random_state=random_state
        )
        self.monitor_choice = monitor_choice

    def events(self) -> Events:
        """Return the families E4 (unless switched off) and E3."""
        return DecisionEvents(self.rule, optimistic=False, choice=self.monitor_choice)


@checked
class ConstantMechanism(ForecastMechanism):
    """Always the same policy; the recommendation follows the forecast, or is fixed, too.

    Parameters
    ----------
    game:
        The stage game.
    policy:
        The policy.
    recommendation:
        None for a*(policy, forecast), or an action that is recommended every round.
    P0:
        Benchmark policies; default the policy itself.
    """

    def __init__(
        self,
        game: PrincipalAgentGame,
        policy: Any,
        *,
        recommendation: int | None = None,
        P0: Any = None,
        forecaster: Forecaster | None = None,
        random_state: RandomState = None,
    ) -> None:
        rule = _ConstantRule(game, policy, recommendation, P0)
        super().__init__(rule, forecaster=forecaster, random_state=random_state)

    def __repr__(self) -> str:
        return f"ConstantMechanism({self.game.policy_label(self.policies[0])})"


@checked
class ScriptedMechanism(Mechanism):
    """A mechanism given by a function of the past states; it makes no forecasts.

    Parameters
    ----------
    game:
        The stage game.
    policies:
        The policies that can be offered.
    P0:
        The benchmark policies.
    script:
        ``script(past_states) -> (policy index, recommendation)``.
    """

    def __init__(
        self,
        game: PrincipalAgentGame,
        policies: Any,
        P0: Any,
        script: Callable[[IntArray], tuple[int, int]],
    ) -> None:
        self.game = game
        self._policies = game.check_policies(policies, "policies")
        self.benchmark = game.check_policies(P0)
        self.script = script

    @property
    def policies(self) -> Sequence[Any]:
        """Policies that can be offered."""
        return self._policies

    def __repr__(self) -> str:
        name = getattr(self.script, "__name__", "script")
        return f"ScriptedMechanism({name}, policies={len(self._policies)})"

    def begin(self, rounds: int) -> None:
        """Forget the past states."""
        self._past: list[int] = []

    def act(self, seen: Any = None) -> Offer:
        """Ask the script."""
        index, action = self.script(np.array(self._past, dtype=np.int64))
        check_int(index, "policy index of the script", low=0, high=len(self._policies) - 1)
        return Offer(self.policies[index], index, action)

    def observe(self, feedback: int) -> None:
        """Remember the state."""
        self._past.append(feedback)

    def view(self, history: IntArray) -> NatureView:
        """Return the one offer there is."""
        offer = self.act()
        offers = ((1.0, offer.policy_index, offer.recommendation),)
        return NatureView(len(self._past), history, None, None, None, offers)


class _ConstantRule(PolicyRule):
    def __init__(
        self, game: PrincipalAgentGame, policy: Any, recommendation: int | None, P0: Any
    ) -> None:
        chosen = game.check_policy(policy)
        super().__init__(game, (chosen,) if P0 is None else P0)
        self.policies = (chosen,)
        self.n_policies = 1
        self.max_actions = game.n_actions(chosen)
        if recommendation is not None:
            check_int(recommendation, "recommendation", low=0, high=self.max_actions - 1)
        self.recommendation = recommendation

    def decide(self, forecast: FloatArray) -> tuple[int, int]:
        if self.recommendation is not None:
            return 0, self.recommendation
        return 0, best_response(self.game, self.policies[0], forecast)
