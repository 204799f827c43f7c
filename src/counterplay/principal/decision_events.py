"""The events of a rule: what it chooses, what it hopes for, how benchmarks would be answered.

E1 (or E4): the offered policy and recommendation. E2: the optimistic pair. E3[p0]: the best
response to benchmark policy p0.
Source: Theorems 7.2 and 7.5, see docs/theory/07-principal.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.principal.events import Events
from counterplay.principal.rules import PolicyRule


class DecisionEvents(Events):
    """The events of a rule: its own choice (E1 or E4), the optimistic pair (E2), responses (E3)."""

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
