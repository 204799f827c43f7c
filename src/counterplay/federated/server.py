"""The server of one federation, whatever carries the messages: Flower or this process.

:class:`Coordinator` says whom to ask, reads what comes back, lets the rule decide and keeps the
record. A rule that protects sees the latest answer of every party that remains, so that those who
were not asked are protected, too. Reading is total: an answer that cannot be used is refused with a
reason that names the field, and the others go on. Influence is bounded: a vector far longer than
the usual one is refused or shortened in the mean (never in what protects a party). A subtle liar,
whose loss is wrong by a tenth, is not noticed.
Source: Algorithm 5.1 in docs/theory/05-defection.md, docs/theory/23-training.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError
from counterplay.federated.anchor import Anchor
from counterplay.federated.blocking import Blocking
from counterplay.federated.buffers import Buffers
from counterplay.federated.cuts import Cuts, Slack
from counterplay.federated.gauges import GOODBYE, PartyGauge, RoundGauge, Status
from counterplay.federated.history import FederationHistory
from counterplay.federated.inbox import NO_REPLY, Inbox, refuse
from counterplay.federated.replies import UNUSABLE, Answer, Fields, Trust
from counterplay.federated.reports import Decision, Reports, Rule, RuleState
from counterplay.federated.roster import Roster
from counterplay.federated.rules import FedAvg, MWFed, SafeStep
from counterplay.federated.schedule import Schedule
from counterplay.federated.stack import NumpyStack

PROVED, ESTIMATED, UPDATES = "proved (convex)", "curvature estimated", "updates only: none"
CAPPED, NONE = "not proved (everybody was asked, steps are capped)", "none"
NOBODY = (
    "No party sent a loss: nobody is protected, and the run is plain averaging. Let clients answer "
    "evaluate messages with a metric 'loss'."
)


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
    convex:
        Whether every party's loss is convex in the parameters. None: not known, so bounds get a
        slack that is learned from the answers as soon as somebody is not asked.
    full_every:
        Every such round asks everybody, for rules that protect.
    learn_scale:
        Learn the length of the updates of ordinary clients; False takes them as mean gradients.
    """

    def __init__(
        self,
        rule: Rule,
        *,
        threshold: float | None = None,
        trust: Trust | None = None,
        patience: int = 3,
        seed: int = 0,
        convex: bool | None = None,
        full_every: int = 20,
        learn_scale: bool = True,
    ) -> None:
        if not isinstance(rule, Rule):
            raise InvalidInputError(f"rule must have a method decide, got {type(rule).__name__}")
        self.rule, self.threshold, self.patience = rule, threshold, patience
        self.protects = bool(getattr(rule, "protects", False))
        self.trust = Trust() if trust is None else trust
        self.schedule = Schedule(seed, full_every if self.protects else 2**62)
        self.status: Status = "running"
        self.memory = RuleState()
        self.roster = Roster()
        self.cuts = Cuts(learn_scale)
        self.gauges: list[RoundGauge] = []
        self.last: Reports | None = None
        self.buffers = Buffers(self.trust.clip)
        self.tolerance = 1e-9  # of bounds that were computed in double precision
        self.rollbacks = 0
        self.remarks: list[str] = []
        self._convex, self._sampled, self._averaged = bool(convex), False, False
        self._blocking = Blocking(rule, self.trust.veto)
        self._silent: set[int] = set()  # not protected because they do not answer
        self._anchor: Anchor | None = None
        self._inbox = Inbox(self.trust)
        self._steps: dict[int, int] = {}
        self._without_answer = 0

    def history(self, notes: tuple[str, ...] = (), **more: Any) -> FederationHistory:
        """The run so far."""
        first: tuple[str, ...] = (NOBODY,) if self._averaged else ()
        first += self.buffers.told()
        name = self.roster.name  # a party may have told its name later
        blocked = self._blocking.remarks(self.status, name)
        gauges = (
            replace(g, parties=tuple(replace(p, party=name(p.node)) for p in g.parties))
            for g in self.gauges
        )
        return FederationHistory(
            tuple(gauges),
            self.status,
            getattr(self.rule, "delta", None),
            notes=(*first, *notes),
            guarantee=self.guarantee,
            set_aside={name(node): r for node, r in self.roster.aside.items()},
            remarks=(*self.remarks, *self._undone_told(), *blocked),
            **more,
        )

    def _undone_told(self) -> list[str]:
        if not self.rollbacks:
            return []
        some = "1 period" if self.rollbacks == 1 else f"{self.rollbacks} periods"
        return [f"{some} fell too little and were replaced by one full step each."]

    @property
    def guarantee(self) -> str:
        """What the run promises about who stays."""
        if not self.protects or self._averaged:
            return NONE
        if self.cuts.ordinary:
            label = UPDATES
        elif self._convex:
            label = PROVED
        else:
            label = ESTIMATED if self._sampled else CAPPED
        free = sorted(map(self.roster.name, self._silent | self._blocking.free))
        return label + (f", except {', '.join(free)}" if free else "")

    def ask(
        self, connected: Iterable[int], server_round: int, fraction: float = 1.0, least: int = 0
    ) -> list[int]:
        """Return the parties to ask: those that have not left, or a fraction of them."""
        nodes = self.roster.candidates(connected, server_round)
        new = [node for node in nodes if node not in self.cuts] if self.protects else ()
        asked = self.schedule.draw(
            nodes, server_round, fraction, least, key=self.roster.order, first=new
        )
        self._sampled = self._sampled or len(asked) < len(nodes)
        return asked

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
        if not self.protects or self._averaged:
            return self._plain(server_round, w, answers, absent, step_size)
        self._learn(server_round, w, answers)
        if (back := self._undone(w, step_size)) is not None:
            self._record(server_round, w, answers, absent)
            return back
        self.last = sent = self._bounds(w)
        decision = self._blocking.decide(sent, step_size, self.memory, self.cuts.nodes)
        self._anchor_at(w, decision, sent)
        self.status = self._verdict(w, decision, connected)
        self._record(server_round, w, answers, absent, sent, decision)
        return self._moved(w, decision, answers)

    def _moved(
        self, w: FloatArray, decision: Decision, answers: Mapping[int, Answer]
    ) -> FloatArray:
        """The next model; statistics change with it only, so that answers at one model agree."""
        step = np.asarray(decision.step)
        if decision.status != "running" or not step.any():
            return w
        self.buffers.take(list(answers.values()))
        return np.asarray(w + step)

    def _plain(
        self,
        server_round: int,
        w: FloatArray,
        answers: Mapping[int, Answer],
        absent: Mapping[int, str],
        step_size: float,
    ) -> FloatArray:
        """A rule that does not protect sees those who answered, and never stops."""
        self.last = sent = self._reports(answers)
        rule = FedAvg() if self._averaged else self.rule
        decision = rule.decide(sent, step_size, self.memory)
        self.status = decision.status
        self._record(server_round, w, answers, absent, sent, decision)
        return self._moved(w, decision, answers)

    def _read(
        self, w: FloatArray, replies: Mapping[int, Fields | str], asked: Collection[int], eta: float
    ) -> tuple[dict[int, Answer], dict[int, str]]:
        """Return usable answers by party, and why the other parties that were asked are absent."""
        answers, absent = self._inbox.read(w, replies, asked, eta)
        if self.protects and answers:
            silent = all(math.isnan(answer.loss) for answer in answers.values())
            self._averaged = silent and not len(self.cuts)
        if not self._averaged and (self.protects or getattr(self.rule, "reads_losses", False)):
            refuse(self._too_little(answers), answers, absent)
        return answers, absent

    def forget_bounds(self) -> None:
        """Drop all bounds: the model is another vector now, and everybody is new."""
        for node in self.cuts.nodes:
            self.cuts.drop(node)
        self._anchor = None

    def _too_little(self, answers: Mapping[int, Answer]) -> dict[int, str]:
        """Answers that say too little for a rule that protects, or that looks at losses."""
        found = {}
        for node, answer in answers.items():
            if math.isnan(answer.loss):
                found[node] = f"{type(self.rule).__name__} needs the loss at the model sent"
            elif self.protects and math.isnan(answer.threshold) and self.threshold is None:
                found[node] = (
                    "it has no threshold: let the client send one, or set threshold in the strategy"
                )
        return found

    def _note(
        self, server_round: int, answers: Mapping[int, Answer], absent: Mapping[int, str]
    ) -> None:
        for node, answer in answers.items():
            self.roster.introduce(node, answer.name)
            self.roster.present(node)
            self._silent.discard(node)
        self._inbox.keep(answers, self._steps)
        for node, why in absent.items():
            self.roster.introduce(node, None)
            if why == GOODBYE:
                self.roster.goodbye(node, server_round)
            else:
                refused = why.startswith(UNUSABLE)
                self.roster.absent(node, server_round, silent=why == NO_REPLY, refused=refused)
            if self.roster.gone(node):
                self.cuts.drop(node)
        self._inbox.close([node for node in absent if self.roster.gone(node)], answers)

    def _learn(self, server_round: int, w: FloatArray, answers: Mapping[int, Answer]) -> None:
        """Replace the cuts of those who answered; a loss below its bound refutes convexity."""
        for node, answer in answers.items():
            above = self.cuts.take(node, w, answer)
            if answer.loss_se > 0.0 and answer.gradient_error == 0.0:
                self._convex = False
            refuted = above > self.tolerance * max(1.0, answer.loss)
            if self._convex and refuted and not answer.ordinary:
                self._convex, self._sampled, self._anchor = False, True, None
                self.remarks.append(
                    f"{self.roster.name(node)} answered {above:.3g} below its lower bound in round "
                    f"{server_round}: its loss is not convex, or its data changed."
                )
        for node in self.schedule.urgent & set(self.cuts.nodes):
            if node not in self._silent and self.roster.absences(node) >= self.patience:
                self._silent.add(node)
                self.remarks.append(
                    f"{self.roster.name(node)} did not answer {self.patience} times; it is not "
                    f"protected since round {server_round}."
                )

    def _undone(self, w: FloatArray, step_size: float) -> FloatArray | None:
        """Theorem 23.B: a period that fell too little is replaced by the full step at its start."""
        if self._anchor is None:
            return None
        self._anchor.rounds += 1
        everybody = all(self.cuts.fresh(node, w) for node in self.cuts.nodes)
        if not everybody or self._anchor.holds(self.cuts, step_size):
            return None
        back = self._anchor.back(self.cuts)
        self._anchor, self.schedule.everybody_next = None, True
        self.rollbacks += 1
        return back

    def _anchor_at(self, w: FloatArray, decision: Decision, sent: Reports) -> None:
        """Anchor the run wherever everybody has answered, if the theorem applies."""
        if not self._convex or self.cuts.ordinary or not isinstance(self.rule, SafeStep):
            self._anchor = None
        elif decision.status == "running" and all(
            self.cuts.fresh(node, w) for node in self.cuts.nodes
        ):
            self._anchor = Anchor.of(w, np.asarray(decision.step), self.cuts)
        if self._anchor is not None and sent.influence is not None:
            self._anchor.void = True

    def _bounds(self, w: FloatArray) -> Reports:
        """What is known at ``w`` of every party that remains."""
        nodes = self.cuts.nodes
        stale = not all(self.cuts.fresh(node, w) for node in nodes)
        self._sampled = self._sampled or stale
        sent = self._reports({node: self.cuts[node].answer for node in nodes})
        free = self._silent | self._blocking.free
        slack: Slack = "curvature" if self._sampled and not self._convex else "none"
        return replace(
            sent,
            loss=self.cuts.bounds(w, nodes),
            gradients=NumpyStack(np.stack([self.cuts[node].gradient for node in nodes])),
            caution=self.cuts.caution(w, nodes, slack, free.__contains__),
        )

    def _reports(self, answers: Mapping[int, Answer]) -> Reports:
        """Return what a rule wants to see."""
        sent = list(answers.values())
        default = math.nan if self.threshold is None else self.threshold
        eps = np.array([a.threshold for a in sent])
        errors = np.array([a.loss_se for a in sent])
        updates = None
        if any(a.update is not None for a in sent):
            moves = [a.gradient if a.update is None else a.update for a in sent]
            updates = NumpyStack(np.stack(moves))
        return Reports(
            loss=np.array([a.loss for a in sent]),
            gradients=NumpyStack(np.stack([a.gradient for a in sent])),
            eps=np.where(np.isnan(eps), default, eps),
            ids=np.array([self.roster.number(node) for node in answers]),
            updates=updates,
            loss_se=errors if errors.any() else None,
            steps=np.array([self._steps[node] for node in answers]) if self._steps else None,
            influence=self._inbox.influence(answers),
        )

    def _verdict(self, w: FloatArray, decision: Decision, connected: Collection[int]) -> Status:
        """The rule's status; it is not done before everybody has answered at this very model."""
        self.schedule.everybody_next = False
        nodes = self.cuts.nodes
        asked_next = decision.urgent if decision.urgent is not None else np.zeros(len(nodes), bool)
        self.schedule.urgent = {node for node, soon in zip(nodes, asked_next) if soon}
        if decision.status == "running":
            return "running"
        there = [node for node in nodes if self.cuts.fresh(node, w)]
        if self.roster.awaited(connected, there, self.patience):
            self.schedule.everybody_next = True
            return "running"
        if decision.status == "stalled" and self._blocking.waits:
            return "running"
        return decision.status

    def _nobody(
        self, server_round: int, absent: Mapping[int, str], connected: Collection[int]
    ) -> None:
        """A round without a usable answer: all have left, nobody is there, or all are refused."""
        self._without_answer += 1
        if self.roster.only_leavers(connected):
            self.status = "everybody_left"
        elif self._without_answer >= self.patience or self.roster.only_gone(connected):
            silent = all(why in (NO_REPLY, GOODBYE) for why in absent.values())
            self.status = "unreachable" if silent else "no_usable_answer"
        self._record(server_round, None, {}, absent)

    def _record(
        self,
        server_round: int,
        w: FloatArray | None,
        answers: Mapping[int, Answer],
        absent: Mapping[int, str],
        sent: Reports | None = None,
        decision: Decision | None = None,
    ) -> None:
        name = self.roster.name
        away = [PartyGauge(name(node), node, event=why) for node, why in absent.items()]
        here = [
            PartyGauge(name(node), node, a.loss, self._target(a)) for node, a in answers.items()
        ]
        gauge = RoundGauge(server_round, (*here, *away), self.status)
        if sent is not None and decision is not None:
            nodes = self.cuts.nodes if self.protects and not self._averaged else list(answers)
            called = [(name(node), node) for node in nodes]
            gauge = RoundGauge.of(
                server_round, sent, decision, self.status, called, away, set(answers)
            )
        self.gauges.append(gauge)

    def _target(self, answer: Answer) -> float:
        if math.isnan(answer.threshold) and self.threshold is not None:
            return self.threshold
        return answer.threshold
