"""Rules that turn a forecast into a policy: the common shape of oracles and baselines.

The forecasts behind a rule must be unbiased on its :class:`DecisionEvents`.
Source: Theorems 7.2 and 7.5, see docs/theory/07-principal.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, IntArray, check_real, shorten
from counterplay.errors import InvalidInputError
from counterplay.principal.events import Events
from counterplay.principal.games import PrincipalAgentGame, check_forecasts
from counterplay.principal.kernels import TOL, benchmark_responses, respond
from counterplay.principal.responses import OracleSpec


class PolicyRule(ABC):
    """A deterministic map from forecasts to policies, with the benchmark set it competes with.

    Subclass it for your own rule: ``decide`` returns the index of the policy in ``policies`` and
    the Agent's best response to it. ``policies`` may grow while the rule is used.

    Attributes
    ----------
    game:
        The stage game.
    benchmark:
        The benchmark policies P0.
    policies:
        The policies the rule can return.
    spec:
        The guarantee (c, eps, beta, gamma), or None if the rule has none.
    eps:
        Width of the optimistic ball behind the event family E2.
    n_policies:
        Number of possible outputs; None if not known in advance.
    max_actions:
        Largest number of actions under a policy.
    """

    spec: OracleSpec | None = None
    eps: float = 0.0
    n_policies: int | None
    max_actions: int
    policies: Sequence[Any]

    def __init__(self, game: PrincipalAgentGame, P0: Any) -> None:
        self.game = game
        self.benchmark = game.check_policies(P0)
        if len(set(self.benchmark)) != len(self.benchmark):
            raise InvalidInputError("P0 must not contain a policy twice")
        self._U0, self._V0 = game.tables(self.benchmark)
        self.benchmark_sizes = np.array([game.n_actions(p) for p in self.benchmark], dtype=np.int64)

    @abstractmethod
    def decide(self, forecast: FloatArray) -> tuple[int, int]:
        """Return (index of the policy, recommended action); the forecast is taken as it is."""

    def __call__(self, forecast: ArrayLike) -> Any:
        """Return the policy for a forecast."""
        return self.policies[self.decide(self._check(forecast))[0]]

    def recommend(self, forecast: ArrayLike) -> tuple[Any, int]:
        """Return the policy for a forecast and the action recommended with it."""
        index, action = self.decide(self._check(forecast))
        return self.policies[index], action

    def benchmark_decisions(self, forecast: FloatArray) -> tuple[int, int, int, IntArray]:
        """Return p*(pi), the optimistic pair, and the best responses to all benchmark policies."""
        self._check_length(forecast)
        found: tuple[int, int, int, IntArray] = benchmark_responses(
            self._U0, self._V0, self.benchmark_sizes, np.ascontiguousarray(forecast), self.eps, TOL
        )
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}(benchmarks={len(self.benchmark)})"

    def _answered(self, index: int, forecast: FloatArray) -> tuple[int, int]:
        """Return the policy with the Agent's best response to it."""
        own = self.game.agent_utility(self.policies[index]) @ forecast
        hers = self.game.principal_utility(self.policies[index]) @ forecast
        return index, int(respond(own, hers, own.size, TOL))

    def _check_length(self, forecast: FloatArray) -> None:
        """Refuse a forecast of the wrong length before it enters compiled code."""
        if not isinstance(forecast, np.ndarray) or forecast.dtype != np.float64:
            raise InvalidInputError(f"forecast must be an array of floats, got {shorten(forecast)}")
        if forecast.shape != (self.game.n_states,):
            raise InvalidInputError(
                f"forecast must have {self.game.n_states} probabilities, got shape {forecast.shape}"
            )

    def _check(self, forecast: ArrayLike) -> FloatArray:
        pi = check_forecasts(forecast, self.game.n_states)
        if len(pi) != 1:
            raise InvalidInputError("give one forecast at a time")
        return np.asarray(pi[0])


class GrowingRule(PolicyRule):
    """A rule that computes its policies; each is numbered when it is first returned."""

    n_policies = None

    def __init__(self, game: PrincipalAgentGame, P0: Any) -> None:
        super().__init__(game, P0)
        self.policies: list[Any] = []
        self._index: dict[Any, int] = {}

    def _number(self, policy: Any) -> int:
        index = self._index.setdefault(policy, len(self.policies))
        if index == len(self.policies):
            self.policies.append(policy)
        return index


@checked
class BestResponseRule(PolicyRule):
    """The benchmark policy that is best if the Agent best responds to the forecast (Algorithm F.1).

    It tends to sit on a tie of the Agent, so it needs an Agent who breaks near-ties kindly.
    """

    def __init__(self, game: PrincipalAgentGame, P0: Any) -> None:
        super().__init__(game, P0)
        self.policies = self.benchmark
        self.n_policies = len(self.benchmark)
        self.max_actions = int(self.benchmark_sizes.max())

    def decide(self, forecast: FloatArray) -> tuple[int, int]:
        """Return the index of p*(pi) and the best response to it."""
        star, _, _, responses = self.benchmark_decisions(forecast)
        return star, int(responses[star])


@checked
class OptimisticRule(BestResponseRule):
    """Baseline: the benchmark policy that would be best against an optimistic Agent (unstable).

    Parameters
    ----------
    game:
        The stage game.
    P0:
        The benchmark policies.
    eps:
        How far from optimal the Agent is hoped to go in the Principal's favour.

    Examples
    --------
    >>> from counterplay.principal import LinearContractGame
    >>> from counterplay.principal.lab import OptimisticRule
    >>> game = LinearContractGame(values=[[0, 0], [0, 1]], costs=[0, 0.25])
    >>> OptimisticRule(game, [0.4, 0.5, 0.6], eps=0.06)([0.5, 0.5])   # he would shirk at 0.4
    0.4
    """

    def __init__(self, game: PrincipalAgentGame, P0: Any, eps: float) -> None:
        super().__init__(game, P0)
        self.eps = check_real(eps, "eps", low=0.0)

    def decide(self, forecast: FloatArray) -> tuple[int, int]:
        """Return the index of the optimistic policy and the best response to it."""
        _, init, _, responses = self.benchmark_decisions(forecast)
        return init, int(responses[init])


class DecisionEvents(Events):
    """What a rule chooses, what it hopes for, how its benchmarks would be answered.

    E1 (or E4): the offered policy and recommendation. E2: the optimistic pair. E3[p0]: the best
    response to benchmark policy p0.
    """

    context_free = True

    def __init__(self, rule: PolicyRule, *, optimistic: bool, choice: bool = True) -> None:
        self.rule, self.optimistic, self.choice = rule, optimistic, choice
        P, A = len(rule.benchmark), max(rule.max_actions, int(rule.benchmark_sizes.max()))
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

    def __repr__(self) -> str:
        return f"DecisionEvents({self.rule!r})"

    def family(self, event: int) -> str:
        """Return E1, E2, E4, or E3 with its benchmark policy."""
        name, policy, _ = self._locate(event)
        return f"E3[{self.rule.game.policy_label(policy)}]" if name == "E3" else name

    def label(self, event: int) -> str:
        """Return the family, the policy and the action."""
        name, policy, action = self._locate(event)
        game = self.rule.game
        return f"{name}: ({game.policy_label(policy)}, {game.action_label(policy, action)})"
