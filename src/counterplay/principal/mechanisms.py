"""Mechanisms: forecast, choose a policy, recommend the best response, never look at the Agent.

A mechanism describes how to play; ``start`` opens a session that is played round by round and
``run`` plays a whole state sequence. Because no mechanism reads the Agent's actions, the result of
``run`` can be replayed against any Agent.
Source: prot:interaction, alg:general-stable, alg:general; spec 07, sections A1, A3, A8.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.errors import InvalidInputError
from counterplay.core.seeds import RandomState, spawn
from counterplay.core.validation import FloatArray, IntArray, check_int
from counterplay.principal.events import Events
from counterplay.principal.forecaster import Forecaster, UnbiasedForecaster
from counterplay.principal.games import PrincipalAgentGame, check_states
from counterplay.principal.responses import OracleSpec, best_response
from counterplay.principal.rules import BestResponseRule, PolicyRule

Kind: TypeAlias = Literal["stable", "best-response", "other"]


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


@dataclass(frozen=True)
class Play:
    """The Principal's side of a finished game: offers and states, before any Agent.

    ``columns`` holds ``y``, ``p_idx``, ``r`` and, if there were forecasts, ``pi``, ``init_idx``,
    ``init_a`` and ``r0`` (best responses to the benchmark policies).
    """

    mechanism: Mechanism
    policies: tuple[Any, ...]
    columns: dict[str, Any]
    forecaster: Forecaster | None

    def __len__(self) -> int:
        return len(self.columns["y"])


class Session(ABC):
    """One game in progress: ``offer``, then ``observe`` the state, and again."""

    @abstractmethod
    def view(self, history: IntArray) -> NatureView:
        """Return what Nature may know before it chooses the state of this round."""

    @abstractmethod
    def offer(self) -> Offer:
        """Return the offer of this round; repeated calls return the same one."""

    @abstractmethod
    def observe(self, y: int) -> None:
        """Learn the state and close the round."""


class Mechanism(ABC):
    """Base class of mechanisms.

    Attributes
    ----------
    game, policies, benchmark:
        The stage game, the policies that can be offered and the benchmark policies P0.
    spec, kind:
        The guarantee of the policy oracle, if any, and which theorem applies.
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
    def start(self, horizon: int) -> Session:
        """Open a new game of ``horizon`` rounds."""

    def run(self, states: ArrayLike | Nature, rounds: int | None = None) -> Play:
        """Play against a state sequence, or against a Nature for ``rounds`` rounds."""
        nature = states if callable(states) else None
        fixed = None if nature is not None else check_states(states, self.game.n_states)  # type: ignore[arg-type]  # not callable here
        T = _rounds(fixed, rounds)
        session = self.start(T)
        y = np.empty(T, dtype=np.int64)
        offers: list[Offer] = []
        for t in range(T):
            if nature is not None:
                top = self.game.n_states - 1
                y[t] = check_int(nature(session.view(y[:t])), "state chosen by nature", 0, top)
            elif fixed is not None:
                y[t] = fixed[t]
            offers.append(session.offer())
            session.observe(int(y[t]))
        return Play(
            self, tuple(self.policies), _columns(offers, y), getattr(session, "forecaster", None)
        )


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

    def start(self, horizon: int) -> ForecastSession:
        """Open a new game with a fresh forecaster."""
        return ForecastSession(self, horizon)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rule!r})"


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
        Default: :class:`UnbiasedForecaster` on the events E1, E2, E3 of thm:stable.
    random_state:
        None, an int or a numpy Generator.

    Notes
    -----
    Every transcript satisfies the inequality of thm:stable with explicit constants, see
    :func:`regret_bound_from_transcript`.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.principal import (LinearContractOracle, SpitefulAgent, StableMechanism,
    ...                                    near_tie_contract, simulate)
    >>> instance = near_tie_contract(2000, random_state=0)
    >>> oracle = LinearContractOracle(instance.game, instance.benchmark, horizon=2000)
    >>> play = simulate(StableMechanism(oracle, random_state=0), SpitefulAgent(), instance.states)
    >>> play.policy_regret < 0.06
    True

    References
    ----------
    Theorem thm:stable of the thesis.
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


class BestResponseMechanism(ForecastMechanism):
    """Play the best benchmark policy for the forecast, as if it were a common prior (alg:general).

    Needs no oracle, but an Agent whose near-ties do not hurt the Principal (Alignment); the
    forecaster is unbiased on the events E3 and E4 of thm:general.

    Parameters
    ----------
    game, P0:
        The stage game and the benchmark policies.
    forecaster, random_state:
        As in :class:`StableMechanism`.
    monitor_choice:
        Whether the forecaster guards the family E4 of the chosen policy; False only to see what
        goes wrong without it.

    Examples
    --------
    >>> from counterplay.principal import (BestResponseMechanism, FollowRecommendation,
    ...                                    near_tie_contract, simulate)
    >>> instance = near_tie_contract(1000, random_state=0)
    >>> mechanism = BestResponseMechanism(instance.game, instance.benchmark, random_state=0)
    >>> play = simulate(mechanism, FollowRecommendation(), instance.states)
    >>> play.policy_regret <= play.regret_bound
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


class ConstantMechanism(ForecastMechanism):
    """Always the same policy; the recommendation follows the forecast, or is fixed, too.

    Parameters
    ----------
    game, policy:
        The stage game and the policy.
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


class ScriptedMechanism(Mechanism):
    """A mechanism given by a function of the past states; it makes no forecasts.

    Parameters
    ----------
    game, policies, P0:
        The stage game, the policies that can be offered, the benchmark policies.
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

    def start(self, horizon: int) -> Session:
        """Open a new game."""
        return _ScriptedSession(self)


class DecisionEvents(Events):
    """The events of a rule: its own choice (E1 or E4), the optimistic pair (E2), responses (E3)."""

    context_free = True

    def __init__(self, rule: PolicyRule, *, optimistic: bool, choice: bool = True) -> None:
        self.rule, self.optimistic, self.choice = rule, optimistic, choice
        P, A = len(rule.benchmark), max(rule.max_actions, int(rule._sizes.max()))
        self._actions, self._choice_offset = A, (2 if optimistic else 1) * P * A
        self.n_families = P + int(optimistic) + int(choice)
        outputs = rule.n_policies if choice else 0
        self.n_events = None if outputs is None else self._choice_offset + outputs * A
        self._offsets = (np.arange(P) * A).tolist()

    def active(self, forecast: FloatArray, context: Any = None) -> list[int]:
        """Return the ids of the families E3, E2 (if used) and E1 or E4 (if used)."""
        _, init, action, responses = self.rule.benchmark_decisions(forecast)
        ids = [offset + a for offset, a in zip(self._offsets, responses.tolist())]
        if self.optimistic:
            ids.append(len(self._offsets) * self._actions + init * self._actions + action)
        if self.choice:
            p, r = self.rule.decide(forecast)
            ids.append(self._choice_offset + p * self._actions + r)
        return ids

    def _locate(self, event: int) -> tuple[str, Any, int]:
        P, A = len(self.rule.benchmark), self._actions
        if event < P * A:
            return "E3", self.rule.benchmark[event // A], event % A
        if event < self._choice_offset:
            return "E2", self.rule.benchmark[event // A - P], event % A
        index = (event - self._choice_offset) // A
        return "E1" if self.optimistic else "E4", self.rule.policies[index], event % A

    def family(self, event: int) -> str:
        """Return E1, E2, E4, or E3 with its benchmark policy."""
        name, policy, _ = self._locate(event)
        return f"E3[{self.rule.game.policy_label(policy)}]" if name == "E3" else name

    def label(self, event: int) -> str:
        """Return the family, the policy and the action."""
        name, policy, action = self._locate(event)
        game = self.rule.game
        return f"{name}: ({game.policy_label(policy)}, {game.action_label(policy, action)})"


class ForecastSession(Session):
    """A running :class:`ForecastMechanism`."""

    def __init__(self, mechanism: ForecastMechanism, horizon: int) -> None:
        self.mechanism = mechanism
        rng = spawn(mechanism.random_state, 1)[0]
        self.forecaster = mechanism.forecaster.started(
            mechanism.game.n_states, mechanism.events(), horizon, rng
        )
        self._round = 0
        self._offer: Offer | None = None

    def view(self, history: IntArray) -> NatureView:
        """Return the lottery over forecasts and the offers it leads to."""
        points, weights = self.forecaster.distribution()
        gains = None
        if isinstance(self.forecaster, UnbiasedForecaster):
            gains = weights @ np.array([self.forecaster.gain(point) for point in points])
        offers = tuple(
            (float(weight), *self.mechanism.rule.decide(point))
            for point, weight in zip(points, weights)
        )
        return NatureView(self._round, history, points, weights, gains, offers)

    def offer(self) -> Offer:
        """Draw the forecast and choose."""
        if self._offer is None:
            rule = self.mechanism.rule
            forecast = self.forecaster.forecast()
            index, action = rule.decide(forecast)
            _, init, init_action, responses = rule.benchmark_decisions(forecast)
            self._offer = Offer(
                rule.policies[index], index, action, forecast, (init, init_action), responses
            )
        return self._offer

    def observe(self, y: int) -> None:
        """Teach the forecaster."""
        self.offer()
        self.forecaster.update(y)
        self._offer = None
        self._round += 1


class _ScriptedSession(Session):
    def __init__(self, mechanism: ScriptedMechanism) -> None:
        self.mechanism = mechanism
        self._past: list[int] = []

    def view(self, history: IntArray) -> NatureView:
        offer = self.offer()
        offers = ((1.0, offer.policy_index, offer.recommendation),)
        return NatureView(len(self._past), history, None, None, None, offers)

    def offer(self) -> Offer:
        index, action = self.mechanism.script(np.array(self._past, dtype=np.int64))
        return Offer(self.mechanism.policies[index], index, action)

    def observe(self, y: int) -> None:
        self._past.append(y)


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


def _rounds(fixed: IntArray | None, rounds: int | None) -> int:
    if fixed is None:
        if rounds is None:
            raise InvalidInputError("give rounds when the states are chosen by a Nature")
        return check_int(rounds, "rounds", low=1)
    if rounds is not None and rounds != fixed.size:
        raise InvalidInputError(f"rounds is {rounds} but there are {fixed.size} states")
    return int(fixed.size)


def _columns(offers: Sequence[Offer], y: IntArray) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "y": y,
        "p_idx": np.array([offer.policy_index for offer in offers], dtype=np.int64),
        "r": np.array([offer.recommendation for offer in offers], dtype=np.int64),
    }
    if offers[0].forecast is not None:
        columns["pi"] = np.array([offer.forecast for offer in offers])
        pairs = np.array([offer.optimistic for offer in offers], dtype=np.int64)
        columns["init_idx"], columns["init_a"] = pairs[:, 0], pairs[:, 1]
        columns["r0"] = np.array([offer.benchmark_responses for offer in offers], dtype=np.int64)
    return columns
