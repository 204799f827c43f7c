"""MW-FED on Flower with ordinary clients gives the model of the engine, and lets nobody cheat."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict

from counterplay.contribution.lab import DigitsNetwork, noisy_digits
from counterplay.core.draws import run_keys
from counterplay.federated import FedAvg, LocalWork, MWFed, SafeStep
from counterplay.federated.flower import InProcessGrid, RuleStrategy

M, B, ROUNDS, LR = 16, 2, 8, 0.3
THRESHOLDS = (0.6, 0.45, 0.3, 0.2)
NET = DigitsNetwork()
COHORT = noisy_digits(run_keys(5, 1), size=300, train=200)
EVEN = np.full((1, M), 1 / M, dtype=np.float32)


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("flwr").setLevel(logging.ERROR)


def accuracy(w: np.ndarray, party: int) -> float:
    val = COHORT.val[0, party]
    right = NET.predict(NET.outputs(w, COHORT.X[val][None])) == COHORT.y[val]
    return float(right.mean())


def local_steps(w: np.ndarray, party: int, t: int, steps: int) -> np.ndarray:
    """Algorithm C.1 for one party."""
    for batch in COHORT.draw(party, t, steps * M).reshape(steps, M):
        x, y = COHORT.X[batch][None], COHORT.y[batch][None]
        w = w - np.float32(LR) * NET.gradient(w, x, y, EVEN)
    return w


def ordinary(message: Message, context: Context) -> Message:
    """A Flower client that knows nothing of rules: it trains, and evaluates."""
    party = int(context.node_config["partition-id"])
    w = message.content["arrays"]["0"].numpy()[None]  # type: ignore[index,union-attr]
    if message.metadata.message_type == "evaluate":
        metrics = {"num-examples": COHORT.val.shape[2], "accuracy": accuracy(w, party)}
        metrics["threshold"] = THRESHOLDS[party]
        return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)
    config: Any = message.content["config"]
    steps, t = int(config["local-steps"]), int(config["server-round"]) - 1
    content = {"arrays": ArrayRecord([local_steps(w, party, t, steps)[0]])}
    rows = MetricRecord({"num-examples": steps * M})
    return Message(RecordDict({**content, "metrics": rows}), reply_to=message)


def strategy(rule: Any) -> RuleStrategy:
    return RuleStrategy(rule, step_size=LR, accuracy=0.7, work=LocalWork(B, M))


def start() -> ArrayRecord:
    return ArrayRecord([NET.start(COHORT.keys)[0].astype(np.float32)])


def by_hand(rule: MWFed) -> tuple[np.ndarray, list[list[int]]]:
    """Algorithm C.2 as a plain loop; the final model and who worked in every round."""
    w, weights, worked = NET.start(COHORT.keys).astype(np.float32), np.zeros(4), []
    for t in range(ROUNDS):
        loads = rule.loads(weights, B)
        models = [local_steps(w, i, t, int(n)) for i, n in enumerate(loads)]
        w = np.average(models, axis=0, weights=loads).astype(np.float32)
        worked.append(np.flatnonzero(loads).tolist())
        missing = np.array([accuracy(w, i) < THRESHOLDS[i] for i in range(4)])
        weights = rule.raised(weights, missing)
    return w[0], worked


@pytest.mark.claim("04.36")
def test_ordinary_clients_give_the_model_of_the_algorithm() -> None:
    rule = MWFed(growth=4.0, work=B, rounding="floor")
    model, worked = by_hand(rule)
    server = strategy(rule)
    result = server.start(InProcessGrid(ordinary, 4), start(), num_rounds=ROUNDS)
    (found,) = result.arrays.to_numpy_ndarrays()
    assert abs(found - model).max() <= 1e-6
    present = [[p.node - 1 for p in gauge.present] for gauge in server.history_.rounds]
    assert present == worked
    assert min(map(len, present)) < 4  # somebody was satisfied and left alone


def test_ordinary_clients_without_a_loss_are_averaged_and_told_so() -> None:
    averaged = RuleStrategy(FedAvg(), step_size=LR, work=LocalWork(B, M))
    averaged.start(InProcessGrid(ordinary, 4), start(), num_rounds=3)
    assert averaged.status_ == "max_rounds"
    assert averaged.history_.dropped == {}
    safe = RuleStrategy(SafeStep(0.1), step_size=LR, threshold=0.5, work=LocalWork(B, M))
    safe.start(InProcessGrid(ordinary, 4), start(), num_rounds=9)
    assert safe.status_ == "max_rounds"  # they answer evaluations without a loss: as averaging
    assert safe.history_.summary().startswith("No party sent a loss: nobody is protected")
    assert safe.history_.guarantee == "none"


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
