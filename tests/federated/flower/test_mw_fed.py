"""MW-FED on Flower with ordinary clients gives the model of the engine, and lets nobody cheat."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict

from counterplay.contribution.training import MLP, noisy_digits, run_keys
from counterplay.contribution.training import MWFed as Protocol
from counterplay.contribution.training.protocols import party_draw
from counterplay.federated import FedAvg, LocalWork, MWFed, SafeStep
from counterplay.federated.flower import InProcessGrid, RuleStrategy

M, B, ROUNDS, LR = 16, 2, 8, 0.3
THRESHOLDS = (0.6, 0.45, 0.3, 0.2)
NET = MLP()
COHORT = noisy_digits(run_keys(5, 1), size=300, train=200)


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("flwr").setLevel(logging.ERROR)


def params(message: Message) -> list[np.ndarray]:
    return [array.numpy()[None] for array in message.content["arrays"].values()]  # type: ignore[union-attr]


def ordinary(message: Message, context: Context) -> Message:
    """A Flower client that knows nothing of rules: it trains, and evaluates."""
    agent = int(context.node_config["partition-id"])
    if message.metadata.message_type == "evaluate":
        val = COHORT.val[0, agent]
        right = NET.correct(params(message), COHORT.X[val][None], COHORT.y[val][None])
        metrics = {"num-examples": len(val), "accuracy": float(right.mean())}
        metrics["threshold"] = THRESHOLDS[agent]
        return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)
    config: Any = message.content["config"]
    steps, t = int(config["local-steps"]), int(config["server-round"]) - 1
    weights, even = params(message), np.full((1, M), 1 / M, dtype=np.float32)
    for batch in party_draw(COHORT, agent, t, steps * M).reshape(steps, M):
        x, y = COHORT.X[batch][None], COHORT.y[batch][None]
        slopes = NET.gradients(weights, x, y, even, COHORT.keys)[1]
        weights = [p - np.float32(LR) * g for p, g in zip(weights, slopes)]
    content = {"arrays": ArrayRecord([p[0] for p in weights])}
    rows = MetricRecord({"num-examples": steps * M})
    return Message(RecordDict({**content, "metrics": rows}), reply_to=message)


def strategy(rule: Any) -> RuleStrategy:
    return RuleStrategy(rule, step_size=LR, accuracy=0.7, work=LocalWork(B, M))


def start() -> ArrayRecord:
    return ArrayRecord([p[0] for p in NET.init(COHORT.keys)])


@pytest.mark.claim("04.36")
def test_ordinary_clients_give_the_model_of_the_engine() -> None:
    protocol = Protocol(
        rounds=ROUNDS,
        batch_size=M,
        local_batches=B,
        lr=LR,
        optimizer="client_sgd",
        allocation="batches",
        rounding="floor",
        threshold=THRESHOLDS,
    )
    ours = protocol.fit(NET, COHORT, NET.init(COHORT.keys))
    server = strategy(MWFed(growth=4.0, work=B, rounding="floor"))
    result = server.start(InProcessGrid(ordinary, 4), start(), num_rounds=ROUNDS)
    arrays = result.arrays.to_numpy_ndarrays()
    assert max(abs(a - p[0]).max() for a, p in zip(arrays, ours.params)) <= 1e-6
    present = [[p.node - 1 for p in gauge.present] for gauge in server.history_.rounds]
    assert present == [np.flatnonzero(row).tolist() for row in ours.drawn[0]]
    assert min(map(len, present)) < 4  # somebody was satisfied and left alone


def test_ordinary_clients_are_averaged_and_cannot_be_protected() -> None:
    averaged = RuleStrategy(FedAvg(), step_size=LR, work=LocalWork(B, M))
    averaged.start(InProcessGrid(ordinary, 4), start(), num_rounds=3)
    assert averaged.status_ == "max_rounds"
    assert averaged.history_.dropped == {}
    safe = RuleStrategy(SafeStep(0.1), step_size=LR, threshold=0.5, work=LocalWork(B, M))
    safe.start(InProcessGrid(ordinary, 4), start(), num_rounds=9)
    assert safe.status_ == "no_usable_answer"
    assert "SafeStep needs the loss and the gradient" in safe.history_.summary()


@pytest.mark.parametrize(
    "lie",
    [
        {},
        {"accuracy": float("nan")},
        {"accuracy": [0.9, 0.9]},
        {"accuracy": 7.0},
        {"num-examples": 0.5},
    ],
)
def test_a_party_without_a_usable_accuracy_keeps_its_weight(lie: dict[str, Any]) -> None:
    def client(message: Message, context: Context) -> Message:
        if message.metadata.message_type == "evaluate" and context.node_id == 1:
            metrics = MetricRecord({"num-examples": 10, "threshold": 0.6, **lie})
            return Message(RecordDict({"metrics": metrics}), reply_to=message)
        return ordinary(message, context)

    server = strategy(MWFed(growth=4.0))
    server.start(InProcessGrid(client, 4), start(), num_rounds=3)
    weights = server._server.memory.per_party
    assert weights[0] == 0.0
    assert weights[1] > 0.0
