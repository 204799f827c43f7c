"""MW-FED as a Flower strategy: a drop-in for FedAvg that gives satisfied clients less work.

The server keeps one weight per client, tells each client how many local minibatches to do, and
multiplies the weights of clients that miss their accuracy target. Needs the extra ``federated``.
Source: Alg. alg:MW, spec 04 sections 3.19 and 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from counterplay.contribution.training.loads import (
    ROUNDINGS,
    Rounding,
    ideal_loads,
    rounded_loads,
)
from counterplay.core.draws import fold, run_keys
from counterplay.core.validation import check_choice, check_int, check_positive_int, check_real
from counterplay.errors import MissingDependencyError

try:
    from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
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
        received = list(replies)
        for reply in received:
            if reply.has_error():
                continue
            metrics: Any = next(iter(reply.content.metric_records.values()))
            node = reply.metadata.src_node_id
            target = float(metrics.get(self.threshold_key, self.threshold))
            missed = float(metrics[self.accuracy_key]) < target
            step = float(np.log(self.c)) if missed else 0.0
            self.log_weights_[node] = self.log_weights_.get(node, 0.0) + step
        return super().aggregate_evaluate(server_round, received)
