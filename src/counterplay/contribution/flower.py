"""MW-FED as a Flower strategy: a drop-in for FedAvg that gives satisfied clients less work.

The server keeps one weight per client, tells each client how many local minibatches to do, and
multiplies the weights of clients that miss their accuracy target. Needs the extra ``federated``.
Source: Algorithm C.2, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from logging import WARNING
from typing import Any

import numpy as np

from counterplay.contribution.training.loads import (
    ROUNDINGS,
    Rounding,
    ideal_loads,
    rounded_loads,
)
from counterplay.core.draws import fold, run_keys
from counterplay.core.replies import check_rows_sent, common_metrics
from counterplay.core.validation import check_choice, check_int, check_positive_int, check_real
from counterplay.errors import InvalidInputError, MissingDependencyError

try:
    from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
    from flwr.common.logger import log
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import FedAvg
except ImportError:
    raise MissingDependencyError.for_extra("flwr", "federated") from None


class MWFed(FedAvg):
    """Flower strategy that distributes a round's work by multiplicative weights.

    Use it instead of ``flwr.serverapp.strategy.FedAvg`` when clients have accuracy targets and
    should not be asked for data once they are satisfied. The client app has to

    * read ``local-batches`` (and ``batch-size``) from the train config and do that many minibatch
      steps, replying ``num-examples = local-batches * batch-size``;
    * reply its validation ``accuracy`` when evaluating, and, if it has a target of its own,
      ``threshold``.

    Parameters
    ----------
    threshold:
        Accuracy target of clients that do not send their own.
    c:
        Factor for the weights of clients below their target; 1 is federated averaging.
    batch_size, local_batches:
        Points per minibatch and average number of minibatches per client and round.
    rounding:
        How fractional numbers of minibatches are rounded; see ``rounded_loads``.
    min_share:
        Share of an equal load that nobody falls below.
    seed:
        Seed of ``rounding="sigma"``.
    accuracy_key, threshold_key:
        Names of the metrics in evaluation replies.
    **options:
        Passed to Flower's ``FedAvg``.

    Attributes
    ----------
    log_weights_:
        Logarithms of the clients' weights, by node id.
    loads_:
        Minibatches sent to each client, one dictionary per round.
    refused_:
        Why replies were not used, by node id. Such a client keeps its weight: it does not count as
        satisfied, and it does not stop the others.

    Notes
    -----
    Runs the same algorithm as :class:`counterplay.contribution.training.MWFed` with
    ``optimizer="client_sgd"`` and ``allocation="batches"``.

    Examples
    --------
    >>> strategy = MWFed(threshold=0.7, c=4.0)
    >>> strategy.plan_loads([11, 12], server_round=1)
    {11: 1, 12: 1}
    """

    def __init__(
        self,
        *,
        threshold: float = 0.7,
        c: float = 4.0,
        batch_size: int = 64,
        local_batches: int = 1,
        rounding: Rounding = "largest_remainder",
        min_share: float = 0.0,
        seed: int = 0,
        accuracy_key: str = "accuracy",
        threshold_key: str = "threshold",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.threshold = check_real(threshold, "threshold", low=0.0, high=1.0)
        self.c = check_real(c, "c", low=1.0)
        self.batch_size = check_positive_int(batch_size, "batch_size")
        self.local_batches = check_positive_int(local_batches, "local_batches")
        self.rounding: Rounding = check_choice(rounding, "rounding", ROUNDINGS)
        self.min_share = check_real(min_share, "min_share", low=0.0, high=1.0)
        self.seed = check_int(seed, "seed", low=0)
        self.accuracy_key, self.threshold_key = accuracy_key, threshold_key
        self.log_weights_: dict[int, float] = {}
        self.loads_: list[dict[int, int]] = []
        self.refused_: dict[int, list[str]] = {}
        self._model: ArrayRecord | None = None

    def plan_loads(self, node_ids: Sequence[int], server_round: int) -> dict[int, int]:
        """Return how many minibatches each of the clients does in this round."""
        nodes = sorted(node_ids)
        log_weights = np.array([self.log_weights_.get(node, 0.0) for node in nodes])
        ideal = ideal_loads(log_weights, float(self.local_batches * len(nodes)), self.min_share)
        keys = fold(run_keys(self.seed, 1), server_round)
        loads = rounded_loads(ideal[None, :], self.rounding, keys)[0]
        return {node: int(load) for node, load in zip(nodes, loads)}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send every client its own number of minibatches; clients with none are left alone."""
        self._model = arrays
        messages = list(super().configure_train(server_round, arrays, config, grid))
        loads = self.plan_loads([m.metadata.dst_node_id for m in messages], server_round)
        self.loads_.append(loads)
        for message in messages:
            own = ConfigRecord(dict(config))
            own["local-batches"] = loads[message.metadata.dst_node_id]
            own["batch-size"] = self.batch_size
            message.content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: own})
        return [m for m in messages if loads[m.metadata.dst_node_id] > 0]

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Raise the weights of clients below their target, then aggregate as usual."""
        usable = self._usable(replies, self._check_evaluated)
        for reply in usable:
            metrics, node = _metrics(reply), reply.metadata.src_node_id
            missed = metrics[self.accuracy_key] < metrics.get(self.threshold_key, self.threshold)
            step = float(np.log(self.c)) if missed else 0.0
            self.log_weights_[node] = self.log_weights_.get(node, 0.0) + step
        _keep_common_metrics(usable)
        return super().aggregate_evaluate(server_round, usable)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average the models of the clients whose replies can be used."""
        usable = self._usable(replies, self._check_trained)
        _keep_common_metrics(usable)
        return super().aggregate_train(server_round, usable)

    def _usable(
        self, replies: Iterable[Message], check: Callable[[Message], None]
    ) -> list[Message]:
        """Return the replies that pass the check; note why the others do not."""
        usable = []
        for reply in replies:
            try:
                if reply.has_error():
                    raise InvalidInputError(f"error: {reply.error.reason}")
                check(reply)
            except Exception as error:  # whatever a client sends, the others go on
                node, reason = reply.metadata.src_node_id, str(error)[:200]
                self.refused_.setdefault(node, []).append(reason)
                log(WARNING, "\t> reply of node %s is not used: %s", node, reason)
            else:
                usable.append(reply)
        return usable

    def _check_evaluated(self, reply: Message) -> None:
        metrics = _metrics(reply)
        if self.accuracy_key not in metrics:
            raise InvalidInputError(f"the reply has no metric {self.accuracy_key!r}")
        for key in (self.accuracy_key, self.threshold_key):
            check_real(metrics.get(key, 0.0), key, low=0.0, high=1.0)
        check_rows_sent(metrics, self.weighted_by_key)

    def _check_trained(self, reply: Message) -> None:
        check_rows_sent(_metrics(reply), self.weighted_by_key)
        records = list(reply.content.array_records.values())
        if len(records) != 1:
            raise InvalidInputError(f"the reply has {len(records)} array records, expected 1")
        model = self._model or records[0]
        if set(records[0]) != set(model):
            raise InvalidInputError("the arrays of the reply are not those of the model")
        for key, array in records[0].items():
            values, shape = array.numpy(), tuple(model[key].shape)
            if values.shape != shape or values.dtype.kind not in "iuf":
                raise InvalidInputError(
                    f"the array {key!r} has shape {values.shape} and type {values.dtype}, "
                    f"expected numbers of shape {shape}"
                )
            if not np.isfinite(values).all():
                raise InvalidInputError(f"the array {key!r} has a value that is not finite")


def _metrics(reply: Message) -> Any:
    records = list(reply.content.metric_records.values())
    if len(records) != 1:
        raise InvalidInputError(f"the reply has {len(records)} metric records, expected 1")
    return records[0]


def _keep_common_metrics(replies: Sequence[Message]) -> None:
    """Leave only the metrics that all replies have in the same form; Flower averages no others."""
    records = [_metrics(reply) for reply in replies]
    common = common_metrics(records)
    for reply, record in zip(replies, records):
        metrics = MetricRecord({key: record[key] for key in common})
        reply.content = RecordDict({**reply.content.array_records, "metrics": metrics})
