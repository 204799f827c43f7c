"""The server of one federation, whatever carries the messages: Flower or this process.

:class:`Coordinator` says whom to ask, reads what comes back, lets the rule decide and keeps the
record. Reading is total: an answer that cannot be used is refused with a reason that names the
field, and the others go on. Influence is bounded: a vector far longer than the usual one is refused
or shortened in the mean (never in what protects a party). A subtle liar, whose loss is wrong by a
tenth, is not noticed. Source: Algorithm 5.1, see docs/theory/05-defection.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from counterplay.core.draws import fold, run_keys, uniforms
from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError
from counterplay.federated.history import (
    GOODBYE,
    FederationHistory,
    PartyGauge,
    RoundGauge,
    Status,
)
from counterplay.federated.replies import (
    UNUSABLE,
    Answer,
    Fields,
    Trust,
    read_answer,
    reason,
    too_long,
)
from counterplay.federated.reports import Decision, Reports, Rule, RuleState
from counterplay.federated.rules import FedAvg, MWFed
from counterplay.federated.stack import NumpyStack

NO_REPLY = "no reply"
_WHO = 701


class Coordinator:
    """Runs a rule over rounds of answers: whom to ask, what to believe, when to stop.

    Parties are known by the number (node id) that the transport gives them.

    Parameters
    ----------
    rule:
        A server rule: an object with ``decide(reports, step_size, state)``.
    threshold:
        Target loss of parties that do not send their own.
    trust:
        What is believed.
    patience:
        A run ends after this many rounds in a row without an answer; a run that is done for those
        who answered asks the others again until they missed as many.
    seed:
        Draws who is asked where not everybody is.
    """

    def __init__(
        self,
        rule: Rule,
        *,
        threshold: float | None = None,
        trust: Trust | None = None,
        patience: int = 3,
        seed: int = 0,
    ) -> None:
        if not isinstance(rule, Rule):
            raise InvalidInputError(f"rule must have a method decide, got {type(rule).__name__}")
        self.rule, self.threshold, self.patience = rule, threshold, patience
        self.trust = Trust() if trust is None else trust
        self.key = run_keys(seed, 1)
        self.status: Status = "running"
        self.memory = RuleState()
        self.roster = Roster()
        self.gauges: list[RoundGauge] = []
        self.last: Reports | None = None
        self._lengths: dict[int, float] = {}  # of the latest vectors, per local step
        self._first: float | None = None  # usual length in the first round
        self._steps: dict[int, int] = {}
        self._without_answer = 0
        self._everybody_next = False

    def history(self, **more: Any) -> FederationHistory:
        """The run so far."""
        delta = getattr(self.rule, "delta", None)
        return FederationHistory(tuple(self.gauges), self.status, delta, **more)

    def ask(
        self, connected: Iterable[int], server_round: int, fraction: float = 1.0, least: int = 0
    ) -> list[int]:
        """Return the parties to ask: those that have not left, or a fraction of them."""
        nodes = self.roster.candidates(connected, server_round)
        size = max(math.ceil(fraction * len(nodes)), least)
        if size >= len(nodes) or self._everybody_next:
            return nodes
        draw = uniforms(fold(self.key, _WHO, server_round), len(nodes))[0]
        return [nodes[i] for i in sorted(np.argsort(draw, kind="stable")[:size])]

    def local_steps(self, nodes: list[int]) -> list[int] | None:
        """Return the local steps that the rule wants of every party; None for the same of all."""
        if not isinstance(self.rule, MWFed):
            return None
        numbers = np.array([self.roster.number(node) for node in nodes])
        steps = self.rule.local_steps(numbers, self.memory)
        if steps is None:
            return None
        self._steps = {node: int(k) for node, k in zip(nodes, steps)}
        return list(self._steps.values())

    def receive(
        self,
        server_round: int,
        w: FloatArray,
        replies: Mapping[int, Fields | str],
        asked: Collection[int],
        connected: Collection[int],
        step_size: float,
    ) -> FloatArray:
        """Return the next model from the replies to a round: fields, or why there are none."""
        answers, absent = self._read(w, replies, asked, step_size)
        self._note(server_round, answers, absent)
        if not answers:
            self._nobody(server_round, absent, connected)
            return w
        self._without_answer = 0
        self.last = sent = self._reports(answers)
        decision = self.rule.decide(sent, step_size, self.memory)
        self.status = self._verdict(decision, answers, connected)
        self._record(server_round, list(answers), absent, sent, decision)
        return w + np.asarray(decision.step) if decision.status == "running" else w

    def _read(
        self, w: FloatArray, replies: Mapping[int, Fields | str], asked: Collection[int], eta: float
    ) -> tuple[dict[int, Answer], dict[int, str]]:
        """Return usable answers by party, and why the other parties that were asked are absent."""
        answers: dict[int, Answer] = {}
        absent: dict[int, str] = {}
        for node in asked:
            reply = replies.get(node, NO_REPLY)
            if isinstance(reply, str):
                absent[node] = reply
                continue
            try:
                answers[node] = self._check(read_answer(reply, w, eta, self.trust))
            except Exception as error:  # a party may send anything; the others go on
                absent[node] = UNUSABLE + reason(error)
        for node, why in too_long(answers).items():
            del answers[node]
            absent[node] = UNUSABLE + why
        return answers, absent

    def _check(self, answer: Answer) -> Answer:
        """Refuse answers that say too little for the rule."""
        if isinstance(self.rule, FedAvg | MWFed):
            return answer
        if math.isnan(answer.loss) or answer.gradient is answer.update:
            raise InvalidInputError(
                f"{type(self.rule).__name__} needs the loss and the gradient at the model sent"
            )
        if math.isnan(answer.threshold) and self.threshold is None:
            raise InvalidInputError(
                "it has no threshold: let the client send one, or set threshold in the strategy"
            )
        return answer

    def _note(
        self, server_round: int, answers: Mapping[int, Answer], absent: Mapping[int, str]
    ) -> None:
        for node, answer in answers.items():
            self.roster.introduce(node, answer.name)
            self.roster.present(node)
        for node, why in absent.items():
            self.roster.introduce(node, None)
            if why == GOODBYE:
                self.roster.goodbye(node, server_round)
                self._lengths.pop(node, None)
            else:
                self.roster.absent(node, server_round, silent=why == NO_REPLY)

    def _reports(self, answers: Mapping[int, Answer]) -> Reports:
        """Return what a rule wants to see."""
        sent = list(answers.values())
        default = math.nan if self.threshold is None else self.threshold
        eps = np.array([a.threshold for a in sent])
        errors = np.array([a.loss_se for a in sent])
        moves = np.stack([a.gradient if a.update is None else a.update for a in sent])
        for node, length in zip(answers, np.linalg.norm(moves, axis=1).tolist()):
            self._lengths[node] = length / max(self._steps.get(node, 1), 1)
        return Reports(
            loss=np.array([a.loss for a in sent]),
            gradients=NumpyStack(np.stack([a.gradient for a in sent])),
            eps=np.where(np.isnan(eps), default, eps),
            ids=np.array([self.roster.number(node) for node in answers]),
            updates=NumpyStack(moves) if any(a.update is not None for a in sent) else None,
            loss_se=errors if errors.any() else None,
            steps=np.array([self._steps[node] for node in answers]) if self._steps else None,
            influence=self._influence(answers),
        )

    def _influence(self, answers: Mapping[int, Answer]) -> FloatArray | None:
        """Shorten vectors beyond ``clip`` medians of the latest lengths of all who remain.

        The median of the first round counts where it is larger: late in a run most gradients
        vanish, and one that does not is no lie.
        """
        if self.trust.clip is None:
            return None
        usual = sorted(self._lengths.values())[len(self._lengths) // 2]
        self._first = usual if self._first is None else self._first
        lengths = np.array([self._lengths[node] for node in answers])
        limit = self.trust.clip * max(usual, self._first)
        if limit == 0.0 or (lengths <= limit).all():  # no measure, or nobody is too loud
            return None
        return np.asarray(limit / np.maximum(lengths, limit))

    def _verdict(
        self, decision: Decision, answers: Collection[int], connected: Collection[int]
    ) -> Status:
        """The rule's status; it is not done before everybody was asked at this very model."""
        self._everybody_next = False
        if decision.status == "running":
            return "running"
        if self.roster.awaited(connected, answers, self.patience):
            self._everybody_next = True
            return "running"
        return decision.status

    def _nobody(
        self, server_round: int, absent: Mapping[int, str], connected: Collection[int]
    ) -> None:
        """A round without a usable answer: all have left, nobody is there, or all are refused."""
        self._without_answer += 1
        if self.roster.only_leavers(connected):
            self.status = "everybody_left"
        elif self._without_answer >= self.patience:
            silent = all(why in (NO_REPLY, GOODBYE) for why in absent.values())
            self.status = "unreachable" if silent else "no_usable_answer"
        self._record(server_round, [], absent, None, None)

    def _record(
        self,
        server_round: int,
        present: list[int],
        absent: Mapping[int, str],
        sent: Reports | None,
        decision: Decision | None,
    ) -> None:
        name = self.roster.name
        away = [PartyGauge(name(node), node, event=why) for node, why in absent.items()]
        gauge = RoundGauge(server_round, tuple(away), self.status)
        if sent is not None and decision is not None:
            called = [(name(node), node) for node in present]
            gauge = RoundGauge.of(server_round, sent, decision, self.status, called, away)
        self.gauges.append(gauge)


class Roster:
    """Who is in the federation: names, goodbyes, and parties that do not answer.

    A party that said goodbye is never asked again. A party that did not answer is left out of the
    next rounds, twice as long after each further silence, so that a dead party does not cost a
    timeout in every round; a party that answered with an error is asked again in the next round.
    """

    def __init__(self) -> None:
        self.left: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._numbers: dict[int, int] = {}
        self._absences: dict[int, int] = {}
        self._ask_again: dict[int, int] = {}

    def number(self, node: int) -> int:
        """Return a small number for the party, the key of the rule's memory."""
        return self._numbers.setdefault(node, len(self._numbers))

    def name(self, node: int) -> str:
        """Return the party's own name, or ``node N``."""
        return self._names.get(node, f"node {node}")

    def introduce(self, node: int, name: str | None) -> None:
        """Remember the party, and its name if it has one that nobody else has."""
        self.number(node)
        if name is not None and self._names.get(node) != name:
            taken = name in self._names.values()
            self._names[node] = f"{name} (node {node})" if taken else name

    def candidates(self, nodes: Iterable[int], server_round: int) -> list[int]:
        """Return the parties to ask in this round, in the order of first appearance."""
        here = sorted((n for n in nodes if n not in self.left), key=self._order)
        ready = [n for n in here if self._ask_again.get(n, 0) <= server_round]
        return ready or here

    def _order(self, node: int) -> tuple[int, int]:
        return self._numbers.get(node, len(self._numbers)), node

    def present(self, node: int) -> None:
        """Forget earlier absences of the party."""
        self._absences.pop(node, None)
        self._ask_again.pop(node, None)

    def absent(self, node: int, server_round: int, *, silent: bool) -> None:
        """Note that the party missed a round; if it was silent, spare it some rounds."""
        self._absences[node] = self._absences.get(node, 0) + 1
        if silent:
            self._ask_again[node] = server_round + 1 + 2 ** (self._absences[node] - 1)

    def awaited(
        self, connected: Iterable[int], answered: Collection[int], patience: int
    ) -> list[int]:
        """Return connected parties that have not answered now; ask them again.

        Those that left or missed ``patience`` rounds in a row are not waited for.
        """
        nodes = [
            node
            for node in connected
            if node not in self.left
            and node not in answered
            and self._absences.get(node, 0) < patience
        ]
        for node in nodes:
            self._ask_again.pop(node, None)
        return nodes

    def goodbye(self, node: int, server_round: int) -> None:
        """Strike the party off for good."""
        self.left.setdefault(node, server_round)

    def only_leavers(self, connected: Iterable[int]) -> bool:
        """Return whether somebody has left and nobody else is connected."""
        return bool(self.left) and all(node in self.left for node in connected)
