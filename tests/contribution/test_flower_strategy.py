"""Claim 04.36: MW-FED on Flower."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from counterplay.contribution.training import MLP, Cohort, MWFed, noisy_digits, run_keys
from counterplay.contribution.training.rounds import party_draw

pytest.importorskip("flwr")

M, B, ROUNDS, LR = 16, 2, 8, 0.3
THRESHOLDS = (0.6, 0.45, 0.3, 0.2)


def world() -> tuple[Cohort, MLP]:
    return noisy_digits(run_keys(5, 1), size=300, train=200), MLP()


def engine_history() -> Any:
    cohort, net = world()
    protocol = MWFed(
        rounds=ROUNDS,
        batch_size=M,
        local_batches=B,
        lr=LR,
        optimizer="client_sgd",
        allocation="batches",
        rounding="floor",
        threshold=THRESHOLDS,
    )
    return protocol.fit(net, cohort, net.init(cohort.keys))


def unpack(message: Any) -> list[np.ndarray]:
    return [array.numpy()[None] for array in message.content["arrays"].values()]


def client_train(message: Any, party: int) -> Any:
    """What a client does: as many minibatch steps as it is told, on its own data."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

    cohort, net = world()
    config = message.content["config"]
    steps, t = int(config["local-batches"]), int(config["server-round"]) - 1
    params = unpack(message)
    points = party_draw(cohort, party, t, steps * M).reshape(steps, M)
    weight = np.full((1, M), 1 / M, dtype=np.float32)
    for batch in points:
        x, y = cohort.X[batch][None], cohort.y[batch][None]
        _, grads = net.gradients(params, x, y, weight, cohort.keys)
        params = [p - np.float32(LR) * g for p, g in zip(params, grads)]
    reply = {
        "arrays": ArrayRecord([p[0] for p in params]),
        "metrics": MetricRecord({"num-examples": steps * M}),
    }
    return Message(RecordDict(reply), reply_to=message)


def client_evaluate(message: Any, party: int) -> Any:
    from flwr.app import Message, MetricRecord, RecordDict

    cohort, net = world()
    val = cohort.val[0, party]
    right = net.correct(unpack(message), cohort.X[val][None], cohort.y[val][None])
    metrics = {
        "num-examples": len(val),
        "accuracy": float(right.mean()),
        "threshold": THRESHOLDS[party],
    }
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)


class MemoryGrid:
    """Four clients in this process: enough of Flower's Grid to drive a strategy."""

    nodes = (101, 102, 103, 104)

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Any]:
        replies = []
        for message in messages:
            party = self.nodes.index(message.metadata.dst_node_id)
            act = client_train if message.metadata.message_type == "train" else client_evaluate
            replies.append(act(message, party))
        return replies


@pytest.fixture(autouse=True)
def quiet() -> Any:
    logging.getLogger("flwr").setLevel(logging.ERROR)


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let messages be made outside a running Flower app (newer versions ask who makes them)."""
    task = pytest.importorskip("flwr.supercore.task_identity").TaskIdentity
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(task, name, 1)


def strategy() -> Any:
    from counterplay.contribution.flower import MWFed as FlowerMWFed

    return FlowerMWFed(batch_size=M, local_batches=B, rounding="floor", min_available_nodes=4)


def initial() -> Any:
    from flwr.app import ArrayRecord

    cohort, net = world()
    return ArrayRecord([p[0] for p in net.init(cohort.keys)])


@pytest.mark.claim("04.36")
@pytest.mark.usefixtures("identity")
def test_strategy_hooks_match_the_engine() -> None:
    ours, server = engine_history(), strategy()
    result = server.start(MemoryGrid(), initial(), num_rounds=ROUNDS)
    loads = [[round_[node] for node in MemoryGrid.nodes] for round_ in server.loads_]
    assert loads == (ours.drawn[0] // M).tolist()
    assert min(min(round_) for round_ in loads) == 0  # somebody was satisfied and left alone
    weights = [server.log_weights_[node] for node in MemoryGrid.nodes]
    assert weights == pytest.approx(ours.log_weights[0, -1])
    arrays = result.arrays.to_numpy_ndarrays()
    assert max(abs(a - p[0]).max() for a, p in zip(arrays, ours.params)) <= 1e-6


def test_strategy_rounds_and_rejects() -> None:
    from counterplay.contribution.flower import MWFed as FlowerMWFed
    from counterplay.errors import InvalidInputError

    server = FlowerMWFed(local_batches=1, rounding="floor")
    server.log_weights_ = {1: np.log(4.0), 2: np.log(4.0), 3: 0.0, 4: 0.0}
    assert server.plan_loads([4, 3, 2, 1], 1) == {1: 1, 2: 1, 3: 0, 4: 0}
    kept = FlowerMWFed(local_batches=1)
    kept.log_weights_ = dict(server.log_weights_)
    assert sum(kept.plan_loads([1, 2, 3, 4], 1).values()) == 4
    random = FlowerMWFed(local_batches=3, rounding="sigma")
    random.log_weights_ = dict(server.log_weights_)
    mean = np.mean([list(random.plan_loads([1, 2, 3, 4], t).values()) for t in range(400)], axis=0)
    assert mean == pytest.approx([4.8, 4.8, 1.2, 1.2], abs=0.15)
    with pytest.raises(InvalidInputError, match="rounding"):
        FlowerMWFed(rounding="up")  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.claim("04.36")
def test_flower_simulation_matches_the_engine() -> None:
    pytest.importorskip("ray")
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    client, server, out = ClientApp(), ServerApp(), {}

    @client.train()
    def train(message: Any, context: Any) -> Any:
        return client_train(message, int(context.node_config["partition-id"]))

    @client.evaluate()
    def evaluate(message: Any, context: Any) -> Any:
        return client_evaluate(message, int(context.node_config["partition-id"]))

    @server.main()
    def main(grid: Any, context: Any) -> None:
        plan = strategy()
        result = plan.start(grid, initial(), num_rounds=ROUNDS)
        out["arrays"] = result.arrays.to_numpy_ndarrays()
        out["loads"] = plan.loads_

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2}}
    run_simulation(server, client, num_supernodes=4, backend_config=resources)  # type: ignore[arg-type]
    ours = engine_history()
    drawn = [sorted(round_.values()) for round_ in out["loads"]]
    assert drawn == [sorted(row) for row in (ours.drawn[0] // M).tolist()]
    assert max(abs(a - p[0]).max() for a, p in zip(out["arrays"], ours.params)) <= 1e-6


def evaluated(message: Any, metrics: dict[str, Any], *names: str) -> Any:
    from flwr.app import Message, MetricRecord, RecordDict

    records = {name: MetricRecord(metrics) for name in names or ("metrics",)}
    return Message(RecordDict(records), reply_to=message)


def question(node: int) -> Any:
    from flwr.app import Message, RecordDict

    return Message(RecordDict(), dst_node_id=node, message_type="evaluate")


BAD_METRICS: dict[str, dict[str, Any]] = {
    "no accuracy": {"num-examples": 10},
    "accuracy nan": {"num-examples": 10, "accuracy": float("nan")},
    "accuracy list": {"num-examples": 10, "accuracy": [0.9, 0.9]},
    "accuracy seven": {"num-examples": 10, "accuracy": 7.0},
    "target nan": {"num-examples": 10, "accuracy": 0.9, "threshold": float("nan")},
    "no weight": {"accuracy": 0.9},
    "weight nan": {"num-examples": float("nan"), "accuracy": 0.9},
    "weight list": {"num-examples": [1, 2], "accuracy": 0.9},
    "weight zero": {"num-examples": 0, "accuracy": 0.9},
    "weight half": {"num-examples": 1.5, "accuracy": 0.9},
}


@pytest.mark.usefixtures("identity")
@pytest.mark.parametrize("kind", BAD_METRICS)
def test_f8_an_unusable_evaluation_neither_stops_the_server_nor_counts(kind: str) -> None:
    from counterplay.contribution.flower import MWFed as FlowerMWFed

    server = FlowerMWFed(threshold=0.7, c=4.0)
    server.log_weights_ = {1: 0.5}
    replies = [
        evaluated(question(1), BAD_METRICS[kind]),
        evaluated(question(2), {"num-examples": 30, "accuracy": 0.6}),
        evaluated(question(3), {"num-examples": 10, "accuracy": 0.8, "threshold": 0.9}),
        evaluated(question(4), {"num-examples": 10, "accuracy": 0.8}),
    ]
    metrics = server.aggregate_evaluate(1, replies)
    assert server.log_weights_ == {1: 0.5, 2: np.log(4.0), 3: np.log(4.0), 4: 0.0}
    assert list(server.refused_) == [1]
    named = (
        "accuracy" if "accuracy" in kind else "threshold" if "target" in kind else "num-examples"
    )
    assert named in server.refused_[1][0]
    assert metrics is not None
    assert metrics["accuracy"] == pytest.approx((30 * 0.6 + 10 * 0.8 + 10 * 0.8) / 50)


@pytest.mark.usefixtures("identity")
def test_f8_replies_without_or_with_two_records_are_refused() -> None:
    from counterplay.contribution.flower import MWFed as FlowerMWFed

    server = FlowerMWFed()
    good = {"num-examples": 10, "accuracy": 0.9}
    replies = [evaluated(question(1), good, "a", "b"), question(2), evaluated(question(3), good)]
    replies[1].metadata.__dict__["_src_node_id"] = 2
    assert server.aggregate_evaluate(1, replies) is not None
    assert set(server.log_weights_) == {3}
    assert server.aggregate_evaluate(2, []) is None
    assert server.aggregate_evaluate(3, replies[:2]) is None


@pytest.mark.usefixtures("identity")
@pytest.mark.parametrize("kind", ["shape", "nan", "text", "complex", "bytes", "stype", "keys"])
def test_f8_an_unusable_model_is_left_out_of_the_average(kind: str) -> None:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

    from counterplay.contribution.flower import MWFed as FlowerMWFed

    bad = {
        "shape": Array(np.zeros(3)),
        "nan": Array(np.array([np.nan, 0.0])),
        "text": Array(np.array(["a", "b"])),
        "complex": Array(np.array([1j, 0.0])),
        "bytes": Array(dtype="float64", shape=(2,), stype="numpy.ndarray", data=b"garbage"),
        "stype": Array(dtype="float64", shape=(2,), stype="unknown", data=b"xx"),
        "keys": Array(np.zeros(2)),
    }[kind]
    server = FlowerMWFed(fraction_train=1.0, min_available_nodes=4)
    model = ArrayRecord([np.zeros(2)])
    questions = list(server.configure_train(1, model, ConfigRecord(), MemoryGrid()))  # type: ignore[arg-type]

    def reply(message: Any, array: Any, name: str = "0") -> Any:
        content = {"arrays": ArrayRecord({name: array})}
        metrics = {"metrics": MetricRecord({"num-examples": 5})}
        return Message(RecordDict({**content, **metrics}), reply_to=message)

    replies = [reply(m, Array(np.array([float(i), 1.0]))) for i, m in enumerate(questions)]
    replies[0] = reply(questions[0], bad, "other" if kind == "keys" else "0")
    arrays, _ = server.aggregate_train(1, replies)
    assert arrays is not None
    assert arrays["0"].numpy().tolist() == [2.0, 1.0]  # the mean of 1, 2 and 3
    assert list(server.refused_) == [questions[0].metadata.dst_node_id]
