"""A Flower strategy around any server rule: SafeStep, ADA-GD, MW-FED or averaging.

Each round the parties send loss, gradient and local update; the rule decides the step. The run ends
as soon as the rule has converged or stalled, or nobody is left; parties that do not answer are left
out of the round and training goes on.
Source: Algorithm 5.1, see docs/theory/05-defection.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from logging import INFO, WARNING
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.validation import check_int, check_positive_int, check_real
from counterplay.errors import InvalidInputError, MissingDependencyError
from counterplay.federated.flower.decoder import Decoder
from counterplay.federated.flower.exchange import exchange, wait_for_parties
from counterplay.federated.flower.messages import averageable, readable_losses, readable_metrics
from counterplay.federated.gauges import (
    GOODBYE,
    MEANING,
    RoundGauge,
    Status,
    panel,
    parallel_sentence,
)
from counterplay.federated.history import FederationHistory
from counterplay.federated.landing import landing_step
from counterplay.federated.replies import Trust
from counterplay.federated.reports import Rule
from counterplay.federated.rules import MWFed
from counterplay.federated.server import Coordinator
from counterplay.federated.work import ONE_STEP, LocalWork

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
    """Flower strategy with a server rule inside; replace Flower's ``FedAvg`` by it.

    The client app answers train messages with ``report`` or ``torch_report``. Ordinary clients,
    which answer with their trained model, will do, too: rules that protect then ask them for their
    loss at the model sent by an evaluate message, and promise less (``history_.guarantee``).

    Parameters
    ----------
    rule :
        A server rule, such as ``SafeStep(delta, cap="step_size")`` to keep every party in.
    step_size :
        One number or a function of the round. Sent to the parties as ``step-size``.
    threshold :
        Target loss ``eps_m`` of parties that do not send their own.
    accuracy :
        For ``MWFed``: accuracy that a party wants, if it does not send its own ``threshold`` with
        its evaluation. Evaluation rounds are then on, and say who misses its target.
    work :
        Local work of a round, sent to the parties as ``local-steps`` and ``batch-size``.
    trust :
        Which answers are believed, see :class:`~counterplay.federated.Trust`.
    seed :
        Draws who is asked if ``fraction_train < 1``; also sent to the parties, for their order of
        minibatches.
    smoothness :
        Lipschitz constant ``H`` of the parties' gradients. If given, a run that has converged ends
        with one last step into everybody's target, if that step can be certified.
    verbose :
        Print the panel after every round.
    **options :
        ``straggler_seconds`` (once half of the parties have answered, wait at most this long for
        the others; None waits until the timeout of ``start``), ``max_silent_rounds`` (end after
        this many rounds in a row without a usable answer; a run that is done for those who answered
        asks the others again until they missed as many; default 3), ``convex`` (True if every
        party's loss is convex in the parameters, as of linear models; otherwise the bounds of
        parties that were not asked get a slack), ``full_every`` (every such round asks everybody;
        default 20), and what Flower's ``FedAvg`` takes: ``fraction_train``,
        ``min_available_nodes`` ... Evaluation rounds are off by default, because the train replies
        already hold every loss.

    Attributes
    ----------
    history_ : FederationHistory
        Every party's loss, target and state in every round so far.
    status_ : str
        ``running``, ``converged``, ``stalled``, ``everybody_left``, ``no_usable_answer``,
        ``unreachable`` or ``max_rounds``.

    Guarantees
    ----------
    Those of the rule, with honest answers and any ``fraction_train``: ``SafeStep`` and ``ADAGD``
    protect parties that were not asked, or did not answer, by their latest answer (Theorem 23.A for
    ``convex=True``; otherwise ``history_.guarantee`` says what is promised). A run ends as
    ``converged`` or ``stalled`` only after everybody has answered at that model. No reply ends the
    run: one that cannot be used is refused, and ``history_`` holds the reason; one that is far too
    long is shortened.

    Examples
    --------
    >>> from counterplay.federated import FedAvg
    >>> RuleStrategy(FedAvg(), step_size=0.1, threshold=0.2)
    RuleStrategy(rule=FedAvg(nu=1.0), step_size=0.1, threshold=0.2)
    """

    def __init__(
        self,
        rule: Rule,
        *,
        step_size: StepSize,
        threshold: float | None = None,
        accuracy: float | None = None,
        work: LocalWork = ONE_STEP,
        trust: Trust | None = None,
        seed: int = 0,
        smoothness: float | None = None,
        verbose: bool = False,
        **options: Any,
    ) -> None:
        patience, straggler = (
            options.pop("max_silent_rounds", 3),
            options.pop("straggler_seconds", None),
        )
        self.convex, self.full_every = options.pop("convex", None), options.pop("full_every", 20)
        evaluate = 0.0 if accuracy is None else 1.0
        super().__init__(**({"fraction_evaluate": evaluate} | options))
        self.rule = rule
        if not callable(step_size):
            check_real(step_size, "step_size", low=0.0, open_low=True)
        self.step_size = step_size
        self.threshold = _unless_none(threshold, "threshold")
        self.accuracy = _unless_none(accuracy, "accuracy", high=1.0)
        if not isinstance(work.steps, int):
            raise InvalidInputError("steps must be one number for all parties; MWFed shares it out")
        self.work, self.trust = work, trust
        self.seed = check_int(seed, "seed", low=0)
        self.straggler_seconds = _unless_none(straggler, "straggler_seconds")
        self.smoothness = _unless_none(smoothness, "smoothness")
        self.max_silent_rounds = check_positive_int(patience, "max_silent_rounds")
        self.verbose = bool(verbose)
        self._reset()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(rule={self.rule!r}, step_size={self.step_size!r}, "
            f"threshold={self.threshold!r})"
        )

    def _reset(self) -> None:
        self._server = Coordinator(
            self.rule,
            threshold=self.threshold,
            trust=self.trust,
            patience=self.max_silent_rounds,
            seed=self.seed,
            convex=self.convex,
            full_every=self.full_every,
        )
        self._decoder = Decoder()
        self._model: ArrayRecord | None = None
        self._questions: list[Message] = []
        self._connected: set[int] = set()
        self._lifetime: float | None = None
        self._losses: dict[int, Any] = {}
        self._landed: bool | None = None

    @property
    def status_(self) -> Status:
        """How the run stands."""
        return self._server.status

    @property
    def history_(self) -> FederationHistory:
        """The run so far."""
        return self._server.history(landed=self._landed)

    def panel(self) -> Table:
        """Return the health gauge of the last round as a table for the terminal."""
        gauges = self._server.gauges
        return panel(gauges[-1] if gauges else RoundGauge(0, (), self.status_))

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
            self._server.status = "max_rounds"
        if self.status_ == "converged" and self.smoothness:
            self._land(result)
        log(INFO, "%s", self.history_.summary())
        return result

    def _train_round(
        self, server_round: int, result: Result, config: ConfigRecord, grid: Grid, timeout: float
    ) -> None:
        messages = self.configure_train(server_round, result.arrays, config, grid)
        replies = exchange(grid, messages, timeout, self.straggler_seconds)
        self._losses = self._ask_losses(server_round, replies, grid, timeout)
        arrays, metrics = self.aggregate_train(server_round, replies)
        if arrays is not None:
            result.arrays = arrays
        if metrics is not None:
            result.train_metrics_clientapp[server_round] = metrics

    def _ask_losses(
        self, server_round: int, replies: Iterable[Message], grid: Grid, timeout: float
    ) -> dict[int, Any]:
        """Ask ordinary clients for their loss at the model they were sent, where a rule needs it.

        Their train reply holds what they trained, and perhaps the loss of that.
        """
        if not self._server.protects or self._model is None:
            return {}
        nodes = Decoder.without_loss(replies)
        config = ConfigRecord({"server-round": server_round})
        questions = [
            self._message(self._model, config, node, MessageType.EVALUATE) for node in nodes
        ]
        return readable_losses(exchange(grid, questions, timeout, self.straggler_seconds))

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
        assert self._server.last is not None  # a converged run has reports
        step, why = landing_step(self._server.last, float(self.smoothness or 0.0))
        self._landed = step is not None
        log(INFO, "\t> landing: %s", why)
        if step is not None:
            w = self._decoder.vector(result.arrays)
            result.arrays = self._decoder.rebuild(w + np.asarray(step), result.arrays)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask every party that has not left (or a fraction of them)."""
        self._model = arrays
        self._connected = set(grid.get_node_ids())
        nodes = self._choose(server_round, grid, self.fraction_train, self.min_train_nodes)
        steps = self._server.local_steps(nodes)
        own = ConfigRecord(dict(config))
        own["server-round"] = server_round
        own["step-size"] = self.eta(server_round)
        own["batch-size"] = self.work.batch_size or 0
        own["seed"] = self.seed
        messages = []
        for i, node in enumerate(nodes):
            own["local-steps"] = int(self.work.steps) if steps is None else steps[i]  # type: ignore[arg-type]  # one number, checked
            if own["local-steps"]:  # a party without work is left alone
                messages.append(self._message(arrays, own, node, MessageType.TRAIN))
        self._questions = messages
        return messages

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Evaluate on parties that have not left."""
        nodes = self._choose(server_round, grid, self.fraction_evaluate, self.min_evaluate_nodes)
        own = ConfigRecord(dict(config))
        own["server-round"] = server_round
        return [self._message(arrays, own, node, MessageType.EVALUATE) for node in nodes]

    def _message(self, arrays: ArrayRecord, config: ConfigRecord, node: int, kind: str) -> Message:
        """A message that expires with the round, so that nobody works on an old one later."""
        content = RecordDict({self.arrayrecord_key: arrays})
        content[self.configrecord_key] = ConfigRecord(dict(config))
        group = str(config["server-round"])
        return Message(content, node, kind, ttl=self._lifetime, group_id=group)

    def _choose(self, server_round: int, grid: Grid, fraction: float, least: int) -> list[int]:
        if fraction == 0.0 or self.status_ != "running":
            return []
        return self._server.ask(grid.get_node_ids(), server_round, fraction, least)

    def _somebody(self, grid: Grid, server_round: int, needed: int, timeout: float) -> bool:
        """Whether there is a next round: the rule is not done and parties are there, or come."""
        server = self._server

        def here() -> int:
            return len(server.roster.candidates(grid.get_node_ids(), server_round))

        if server.status == "running" and server.roster.only_leavers(grid.get_node_ids()):
            server.status = "everybody_left"
        if server.status == "running" and not wait_for_parties(here, needed, timeout):
            server.status = "unreachable"
        return server.status == "running"

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Run the rule on what the parties sent and move the model."""
        if self.status_ != "running" or self._model is None:
            return None, None
        before = self._decoder.space
        fields = self._decoder.read(list(replies), self._questions, self._model, self._losses)
        self._server.tolerance = self._decoder.tolerance(self._model)
        known = self._decoder.space is not None
        if self._decoder.space != before:  # other arrays are trained
            self._server.forget_bounds()
            self._server.buffers.now = self._decoder.others(self._model)
        w = self._decoder.vector(self._model) if known else np.zeros(0)
        asked = [m.metadata.dst_node_id for m in self._questions]
        eta = self.eta(server_round)
        moved = self._server.receive(server_round, w, fields, asked, self._connected, eta)
        gauge = self._server.gauges[-1]
        self._tell(gauge)
        if not gauge.present:
            return None, None
        if moved is not w:
            self._model = self._decoder.rebuild(moved, self._model, self._server.buffers.now)
        return self._model, MetricRecord(gauge.numbers())

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Average what can be averaged; tell ``MWFed`` who misses its accuracy."""
        usable, refused = readable_metrics(list(replies), self.weighted_by_key)
        for node, why in refused.items():
            name = self._server.roster.name(node)
            log(WARNING, "\t> the evaluation of %s is left out: %s", name, why)
        if self.accuracy is not None and isinstance(self.rule, MWFed):
            self._learn_accuracies(usable)
        return super().aggregate_evaluate(server_round, averageable(usable))

    def _learn_accuracies(self, usable: list[tuple[Message, dict[str, Any]]]) -> None:
        """A party whose accuracy cannot be read keeps its weight; it is not called satisfied."""
        assert isinstance(self.rule, MWFed)
        numbers, missing = [], []
        for reply, metrics in usable:
            try:
                reached = check_real(metrics["accuracy"], "accuracy", low=0.0, high=1.0)
                wanted = metrics.get("threshold", self.accuracy)
                wanted = check_real(wanted, "threshold", low=0.0, high=1.0)
            except (KeyError, InvalidInputError) as error:
                node = reply.metadata.src_node_id
                log(
                    WARNING,
                    "\t> %s: no usable accuracy (%s)",
                    self._server.roster.name(node),
                    error,
                )
                continue
            numbers.append(self._server.roster.number(reply.metadata.src_node_id))
            missing.append(reached < wanted)
        if numbers:
            self.rule.judge(np.array(numbers), np.array(missing), self._server.memory)

    def _tell(self, gauge: RoundGauge) -> None:
        """Log who left and who was dropped, and print the panel if asked to."""
        for p in gauge.parties:
            if p.event == GOODBYE:
                log(INFO, "\t> %s left the federation", p.party)
            elif p.event:
                log(WARNING, "\t> %s is dropped from this round: %s", p.party, p.event)
        if gauge.status != "running":
            log(INFO, "\t> %s: %s", gauge.status, MEANING[gauge.status])
        if gauge.parallel is not None and gauge.status == "stalled":
            log(WARNING, "\t> %s", parallel_sentence(gauge.parallel))
        if self.verbose:
            from rich.console import Console

            Console(width=100).print(panel(gauge))


def _unless_none(value: float | None, name: str, high: float = math.inf) -> float | None:
    return None if value is None else check_real(value, name, low=0.0, high=high)
