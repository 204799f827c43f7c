"""Parties that block every step: named, and after a while, if the user wants it, let go.

A party that always claims to stand at its margin can stop a run, and so can an honest one; no log
can tell the two apart. Source: "Influence" in docs/theory/23-training.md.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from counterplay.federated.gauges import counted
from counterplay.federated.reports import Decision, Reports, Rule, RuleState

SHORT = 1e-3  # of the plain step: below it a step counts as blocked
FREES = 100.0  # how much longer the step must be without a party to call it the one that blocks


class Blocking:
    """Counts blocked rounds and finds who blocks.

    Parameters
    ----------
    rule:
        The rule that is blocked.
    veto:
        Blocked rounds in a row after which a party loses its protection; None for never.
    """

    def __init__(self, rule: Rule, veto: int | None = None) -> None:
        self.rule, self.veto = rule, veto
        self.free: set[int] = set()
        self.rounds = 0
        self._culprit: int | None = None
        self._told: list[tuple[int, int]] = []

    @property
    def waits(self) -> bool:
        """Whether a stalled run goes on, because the party that blocks may still lose its veto."""
        return self.veto is not None and self.rounds < self.veto

    def decide(
        self, sent: Reports, step_size: float, state: RuleState, nodes: list[int]
    ) -> Decision:
        """Let the rule decide; take the protection from a party that has blocked too long."""
        decision = self.rule.decide(sent, step_size, state)
        if not self._short(decision, sent, step_size):
            return decision
        self.rounds += 1
        if decision.status == "stalled" or self.rounds == self.veto:
            self._culprit = self._find(decision, sent, step_size, state, nodes)
        if self.rounds != self.veto or self._culprit is None:
            return decision
        self.free.add(self._culprit)
        self._told.append((self._culprit, self.rounds))
        self.rounds = 0
        caution = sent.caution
        assert caution is not None  # rules that protect always get one
        freed = replace(caution, free=np.array([node in self.free for node in nodes]))
        self._culprit = None
        return self.rule.decide(replace(sent, caution=freed), step_size, state)

    def _short(self, decision: Decision, sent: Reports, step_size: float) -> bool:
        """Whether the step is much shorter than the plain one; held models do not count."""
        held = decision.urgent is not None and decision.urgent.any()
        if decision.status == "converged" or (held and decision.status == "running"):
            return False
        if _length(sent, decision) >= SHORT * self._plain(sent, step_size):
            self.rounds = 0
            return False
        return True

    def _plain(self, sent: Reports, step_size: float) -> float:
        M = len(sent.loss)
        mean = sent.moves.combine(sent.bounded(np.full(M, 1.0 / M)))
        return step_size * math.sqrt(sent.moves.dot(mean, mean))

    def _find(
        self,
        decision: Decision,
        sent: Reports,
        step_size: float,
        state: RuleState,
        nodes: list[int],
    ) -> int | None:
        """The party without which the step would be longest, if it would be much longer."""
        caution = sent.caution
        if caution is None:
            return None
        lengths = {}
        for i, node in enumerate(nodes):
            if not caution.free[i]:
                free = caution.free.copy()
                free[i] = True
                without = replace(sent, caution=replace(caution, free=free))
                other = self.rule.decide(without, step_size, copy.deepcopy(state))
                lengths[node] = _length(sent, other)
        if not lengths:
            return None
        node = max(lengths, key=lambda key: lengths[key])
        least = max(FREES * _length(sent, decision), SHORT * self._plain(sent, step_size))
        return node if lengths[node] >= least > 0.0 else None

    def remarks(self, status: str, name: Callable[[int], str]) -> list[str]:
        """Who lost its protection, and who blocks a run that is stalled."""
        told = [
            f"{name(node)} blocked {counted(rounds)}; it is no longer protected."
            for node, rounds in self._told
        ]
        if status == "stalled" and self._culprit is not None:
            last = "the last round" if self.rounds == 1 else f"the last {counted(self.rounds)}"
            told.append(
                f"{name(self._culprit)} blocked {last}: it stands at its margin, or claims to."
            )
        return told


def _length(sent: Reports, decision: Decision) -> float:
    return math.sqrt(sent.gradients.dot(decision.step, decision.step))
