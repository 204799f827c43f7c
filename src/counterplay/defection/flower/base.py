"""The server of a Flower federation that runs a rule of :mod:`counterplay.defection.rules`.

Each round the parties send loss, gradient and local update; the rule decides the step. The run ends
as soon as the rule has converged or stalled, or nobody is left; parties that do not answer are left
out of the round and training goes on.
Source: Alg. alg:icfo, spec 05 sections 3.1, 3.5 to 3.8 and 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from logging import INFO, WARNING
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.validation import FloatArray, check_int, check_positive_int, check_real
from counterplay.defection.flower.exchange import exchange, wait_for_parties
from counterplay.defection.flower.history import (
    MEANING,
    FederationHistory,
    RoundGauge,
    Status,
    panel,
    parallel_sentence,
    round_gauge,
)
from counterplay.defection.flower.inbox import GOODBYE, NO_REPLY, Inbox, readable_metrics
from counterplay.defection.flower.messages import PartyReport
from counterplay.defection.flower.roster import Roster
from counterplay.defection.landing import landing_step
from counterplay.defection.reports import Aggregator, Decision, Reports, RuleState
from counterplay.errors import InvalidInputError, MissingDependencyError

try:
    from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
    from flwr.common.logger import log
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import FedAvg, Result
except ImportError:
    raise MissingDependencyError.for_extra("flwr", "federated") from None

if TYPE_CHECKING:
    from rich.table import Table

StepSize = float | Callable[[int], float]
EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


class RuleStrategy(FedAvg):
    """Flower strategy around any server rule: the common part of AdaGD and SafeStep.

    Use :class:`SafeStep` or :class:`AdaGD` to keep parties in; use this class to run another rule
    with the same clients, for example ``FedAvg()`` of :mod:`counterplay.defection.rules` to see
    who would leave under plain averaging. The client app answers train messages with ``report`` or
    ``torch_report``.

    Parameters
    ----------
    rule :
        A server rule: an object with ``decide(reports, eta, state)``.
    step_size :
        ``eta``, one number or a function of the round. Sent to the parties as ``step-size``.
    threshold :
        Target loss ``eps_m`` of parties that do not send their own.
    local_steps, batch_size :
        Local steps per round and points per step (None: all), sent to the parties.
    seed :
        Draws who is asked in a round if ``fraction_train < 1``; also sent to the parties, for their
        order of minibatches.
    straggler_seconds :
        Once half of the parties have answered, wait at most this long for the others; None waits
        until the timeout of ``start``.
    smoothness :
        Lipschitz constant ``H`` of the parties' gradients. If given, a run that has converged ends
        with one last step into everybody's target, if that step can be certified.
    max_silent_rounds :
        End with status ``unreachable`` after this many rounds in a row without any answer. A run
        that has converged for the others asks a dropped party again until it missed as many.
    loss_range :
        Smallest and largest loss that is believed; a reply with another one is refused.
    verbose :
        Print the panel after every round.
    **options :
        Passed to Flower's ``FedAvg``: ``fraction_train``, ``min_available_nodes`` ... Evaluation
        rounds are off by default, because the train replies already hold every loss.

    Attributes
    ----------
    history_ : FederationHistory
        Every party's loss, target and state in every round so far.
    status_ : str
        ``running``, ``converged``, ``stalled``, ``everybody_left``, ``unreachable`` or
        ``max_rounds``.

    Guarantees
    ----------
    Those of the rule, with full participation (``fraction_train=1``) and honest answers. A party
    that was dropped from a round is not protected in it, nor is one that was not asked. With any
    ``fraction_train`` a run ends as ``converged`` or ``stalled`` only after a round in which
    everybody was asked at that model. No reply ends the run: one that cannot be used is refused,
    and ``history_`` holds the reason.

    Examples
    --------
    >>> from counterplay.defection.rules import FedAvg as Averaging
    >>> RuleStrategy(Averaging(), step_size=0.1, threshold=0.2)
    RuleStrategy(rule=FedAvg(nu=1.0), step_size=0.1, threshold=0.2)

    References
    ----------
    Spec 05 sections 3.1 and 8.
    """

    def __init__(
        self,
        rule: Aggregator,
        *,
        step_size: StepSize,
        threshold: float | None = None,
        local_steps: int = 1,
        batch_size: int | None = None,
        seed: int = 0,
        straggler_seconds: float | None = None,
        smoothness: float | None = None,
        max_silent_rounds: int = 3,
        loss_range: tuple[float, float] = (0.0, 1e6),
        verbose: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**({"fraction_evaluate": 0.0} | options))
        if not isinstance(rule, Aggregator):
            raise InvalidInputError(f"rule must have a method decide, got {type(rule).__name__}")
        self.rule = rule
        if not callable(step_size):
            check_real(step_size, "step_size", low=0.0, open_low=True)
        self.step_size = step_size
        self.threshold = _unless_none(threshold, "threshold")
        self.local_steps = check_positive_int(local_steps, "local_steps")
        if batch_size is not None:
            check_positive_int(batch_size, "batch_size")
        self.batch_size = batch_size
        self.seed = check_int(seed, "seed", low=0)
        self.straggler_seconds = _unless_none(straggler_seconds, "straggler_seconds")
        self.smoothness = _unless_none(smoothness, "smoothness")
        self.max_silent_rounds = check_positive_int(max_silent_rounds, "max_silent_rounds")
        low, high = (check_real(end, "loss_range") for end in loss_range)
        if not low < high:
            raise InvalidInputError(f"loss_range must rise, got {loss_range}")
        self.loss_range = (low, high)
        self.verbose = bool(verbose)
        self._reset()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(rule={self.rule!r}, step_size={self.step_size!r}, "
            f"threshold={self.threshold!r})"
        )

    def _reset(self) -> None:
        self.status_: Status = "running"
        self._gauges: list[RoundGauge] = []
        self._roster = Roster()
        self._memory = RuleState()
        self._model: ArrayRecord | None = None
        self._inbox = Inbox(self.threshold, self.loss_range)
        self._questions: list[Message] = []
        self._connected: set[int] = set()
        self._lifetime: float | None = None
        self._silent_rounds = 0
        self._everybody_next = False
        self._last: tuple[Reports, FloatArray] | None = None
        self._landed: bool | None = None

    @property
    def history_(self) -> FederationHistory:
        """The run so far."""
        delta = getattr(self.rule, "delta", None)
        return FederationHistory(tuple(self._gauges), self.status_, delta, self._landed)

    def panel(self) -> Table:
        """Return the health gauge of the last round as a table for the terminal."""
        return panel(self._gauges[-1] if self._gauges else RoundGauge(0, (), self.status_))

    def summary(self) -> None:
        """Log the rule and what Flower logs."""
        log(INFO, "\t├──> Rule: %r, step size %r", self.rule, self.step_size)
        super().summary()

    def eta(self, server_round: int) -> float:
        """Return the step size of a round."""
        return float(self.step_size(server_round) if callable(self.step_size) else self.step_size)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
    ) -> Result:
        """Train until the rule is done, nobody is left, or ``num_rounds`` are over.

        Same arguments and result as Flower's ``Strategy.start``; ``result.arrays`` is the final
        model even if no round changed it.
        """
        self._reset()
        self._lifetime = max(float(timeout), 1.0)
        self.summary()
        result = Result(arrays=initial_arrays)
        configs = (train_config or ConfigRecord(), evaluate_config or ConfigRecord())
        self._judge(0, result, evaluate_fn)
        needed = max(self.min_available_nodes, 1)
        for server_round in range(1, num_rounds + 1):
            if not self._somebody(grid, server_round, needed, timeout):
                break
            needed = 1  # once training has begun, whoever is there goes on
            log(INFO, "[ROUND %s/%s]", server_round, num_rounds)
            self._train_round(server_round, result, configs[0], grid, timeout)
            self._evaluate_round(server_round, result, configs[1], grid, timeout)
            self._judge(server_round, result, evaluate_fn)
        if self.status_ == "running":
            self.status_ = "max_rounds"
        if self.status_ == "converged" and self.smoothness:
            self._land(result)
        log(INFO, "%s", self.history_.summary())
        return result

    def _train_round(
        self, server_round: int, result: Result, config: ConfigRecord, grid: Grid, timeout: float
    ) -> None:
        messages = self.configure_train(server_round, result.arrays, config, grid)
        replies = exchange(grid, messages, timeout, self.straggler_seconds)
        arrays, metrics = self.aggregate_train(server_round, replies)
        if arrays is not None:
            result.arrays = arrays
        if metrics is not None:
            result.train_metrics_clientapp[server_round] = metrics

    def _evaluate_round(
        self, server_round: int, result: Result, config: ConfigRecord, grid: Grid, timeout: float
    ) -> None:
        messages = self.configure_evaluate(server_round, result.arrays, config, grid)
        replies = exchange(grid, messages, timeout, self.straggler_seconds)
        metrics = self.aggregate_evaluate(server_round, replies)
        if metrics is not None:
            result.evaluate_metrics_clientapp[server_round] = metrics

    def _judge(self, server_round: int, result: Result, evaluate_fn: EvaluateFn | None) -> None:
        metrics = evaluate_fn(server_round, result.arrays) if evaluate_fn else None
        if metrics is not None:
            result.evaluate_metrics_serverapp[server_round] = metrics

    def _land(self, result: Result) -> None:
        """Take the certified last step from the last reports, or keep the model."""
        assert self._last is not None  # a converged run has reports
        sent, position = self._last
        step, reason = landing_step(sent, float(self.smoothness or 0.0))
        self._landed = step is not None
        log(INFO, "\t> landing: %s", reason)
        if step is not None:
            result.arrays = self._inbox.space.rebuild(position + np.asarray(step), result.arrays)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask every party that has not left, or a fraction of them while the rule is not done."""
        self._model = arrays
        self._connected = set(grid.get_node_ids())
        fraction = 1.0 if self._everybody_next else self.fraction_train
        nodes = self._choose(server_round, grid, fraction, self.min_train_nodes)
        own = ConfigRecord(dict(config))
        own["server-round"] = server_round
        own["step-size"] = self.eta(server_round)
        own["local-steps"] = self.local_steps
        own["batch-size"] = self.batch_size or 0
        own["seed"] = self.seed
        record = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: own})
        self._questions = self._messages(record, nodes, MessageType.TRAIN, server_round)
        return self._questions

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Evaluate on parties that have not left."""
        nodes = self._choose(server_round, grid, self.fraction_evaluate, self.min_evaluate_nodes)
        own = ConfigRecord(dict(config))
        own["server-round"] = server_round
        record = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: own})
        return self._messages(record, nodes, MessageType.EVALUATE, server_round)

    def _messages(
        self, record: RecordDict, nodes: list[int], kind: str, server_round: int
    ) -> list[Message]:
        """Messages that expire with the round, so that nobody works on an old one later."""
        group = str(server_round)
        return [Message(record, node, kind, ttl=self._lifetime, group_id=group) for node in nodes]

    def _somebody(self, grid: Grid, server_round: int, needed: int, timeout: float) -> bool:
        """Whether there is a next round: the rule is not done and parties are there, or come."""

        def here() -> int:
            return len(self._roster.candidates(grid.get_node_ids(), server_round))

        if self.status_ == "running" and self._roster.only_leavers(grid.get_node_ids()):
            self.status_ = "everybody_left"
        if self.status_ == "running" and not wait_for_parties(here, needed, timeout):
            self.status_ = "unreachable"
        return self.status_ == "running"

    def _choose(self, server_round: int, grid: Grid, fraction: float, least: int) -> list[int]:
        if fraction == 0.0 or self.status_ != "running":
            return []
        nodes = self._roster.candidates(grid.get_node_ids(), server_round)
        size = max(math.ceil(fraction * len(nodes)), least)
        if size >= len(nodes):
            return nodes
        rng = np.random.default_rng([self.seed, server_round])
        return [nodes[i] for i in sorted(rng.choice(len(nodes), size, replace=False))]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Run the rule on what the parties sent and move the model."""
        if self.status_ != "running" or self._model is None:
            return None, None
        reports, absent = self._read(server_round, list(replies))
        if not reports:
            self._nobody(server_round, absent)
            return None, None
        self._silent_rounds = 0
        numbers = [self._roster.number(node) for node in reports]
        sent = self._inbox.stack(list(reports.values()), numbers)
        decision = self.rule.decide(sent, self.eta(server_round), self._memory)
        position = self._inbox.space.flatten(self._model)
        self._last = (sent, position)
        self.status_ = self._verdict(decision.status, reports)
        gauge = self._record(server_round, reports, absent, sent, decision)
        model = self._model
        if decision.status == "running":
            model = self._inbox.space.rebuild(position + np.asarray(decision.step), model)
        return model, MetricRecord(gauge.numbers())

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Average the metrics of the replies that can be used."""
        usable, refused = readable_metrics(replies, self.weighted_by_key)
        for node, why in refused.items():
            log(WARNING, "\t> evaluation of %s is not used: %s", self._roster.name(node), why)
        return super().aggregate_evaluate(server_round, usable)

    def _verdict(self, status: Status, answered: Collection[int]) -> Status:
        """The rule's status; it is not final before everybody was asked at this model."""
        self._everybody_next = False
        if status != "running":
            awaited = self._roster.awaited(self._connected, answered, self.max_silent_rounds)
            if awaited:
                log(INFO, "\t> %s for those who answered; asking %d more", status, len(awaited))
                self._everybody_next = True
                return "running"
        return status

    def _read(
        self, server_round: int, replies: list[Message]
    ) -> tuple[dict[int, PartyReport], dict[int, str]]:
        """Return reports by party, and why the other parties are absent."""
        assert self._model is not None  # checked by the caller
        reports, absent = self._inbox.sort(replies, self._questions, self._model)
        for node, report in reports.items():
            self._roster.introduce(node, report.name)
            self._roster.present(node)
        for node, why in absent.items():
            self._roster.introduce(node, None)
            if why == GOODBYE:
                self._roster.goodbye(node, server_round)
            else:
                self._roster.absent(node, server_round, silent=why == NO_REPLY)
        return reports, absent

    def _nobody(self, server_round: int, absent: dict[int, str]) -> None:
        """A round without a report: everybody has left, or nobody can be reached."""
        self._silent_rounds += 1
        if self._roster.only_leavers(self._connected):
            self.status_ = "everybody_left"
        elif self._silent_rounds >= self.max_silent_rounds:
            self.status_ = "unreachable"
        self._record(server_round, {}, absent, None, None)

    def _record(
        self,
        server_round: int,
        reports: dict[int, PartyReport],
        absent: dict[int, str],
        sent: Reports | None,
        decision: Decision | None,
    ) -> RoundGauge:
        gauge = round_gauge(
            server_round, self.status_, list(reports), absent, self._roster.name, sent, decision
        )
        self._gauges.append(gauge)
        self._tell(gauge)
        return gauge

    def _tell(self, gauge: RoundGauge) -> None:
        """Log who left and who was dropped, and print the panel if asked to."""
        for p in gauge.parties:
            if p.event == GOODBYE:
                log(INFO, "\t> %s left the federation", p.party)
            elif p.event:
                log(WARNING, "\t> %s is dropped from this round: %s", p.party, p.event)
        if gauge.status != "running":
            log(INFO, "\t> %s: %s", gauge.status, MEANING[gauge.status])
        if gauge.parallel is not None:
            log(WARNING, "\t> %s", parallel_sentence(gauge.parallel))
        if self.verbose:
            from rich.console import Console

            Console(width=100).print(panel(gauge))


def _unless_none(value: float | None, name: str) -> float | None:
    return None if value is None else check_real(value, name, low=0.0)
