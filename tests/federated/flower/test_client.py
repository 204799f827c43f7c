"""Claim 05.46: rational clients, and a party's work with torch."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from counterplay.defection import instances
from counterplay.defection.flower import RationalClient
from counterplay.defection.lab import (
    BetaUser,
    IrrationalAgent,
    MisreportingAgent,
    UnderconfidentAgent,
)
from counterplay.errors import InvalidInputError
from counterplay.federated import FedAvg, LocalWork, SafeStep
from counterplay.federated.flower import (
    InProcessGrid,
    RuleStrategy,
    goodbye,
    is_goodbye,
    report,
    torch_client_app,
    torch_report,
    train_message,
)
from federated.flower.flower_world import problem_grid, start_from


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("flwr").setLevel(logging.ERROR)


def quadratic(mod: RationalClient, rows: int = 1) -> ClientApp:
    """One party with loss ``w^2 / 2`` on ``rows`` points."""
    app = ClientApp(mods=[mod])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        w = message.content["arrays"]["0"].numpy()  # type: ignore[union-attr]
        return report(message, loss=float(w @ w) / 2, gradient=[w], num_examples=rows)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return Message(RecordDict({"metrics": MetricRecord({"accuracy": 1.0})}), reply_to=message)

    return app


def departures(app: ClientApp, losses: list[float], **options: Any) -> list[bool]:
    """Whether the party says goodbye to models with these losses, one per round."""
    grid = InProcessGrid(app, 1, **options)
    said = []
    for i, loss in enumerate(losses):
        asked = train_message([np.array([np.sqrt(2.0 * loss)])], server_round=i + 1)
        said.append(is_goodbye(grid.send_and_receive([asked])[0]))
    return said


@pytest.mark.claim("05.46")
@pytest.mark.parametrize("kind", ["number", "node config", "run config", "function"])
def test_a_client_leaves_at_its_threshold_and_for_good(kind: str) -> None:
    losses = [2.0, 0.51, 0.5, 8.0, 0.125]  # exact in binary; the threshold is inclusive
    options: dict[str, Any] = {}
    mod = RationalClient(0.5)
    if kind == "node config":
        mod, options = RationalClient(), {"node_config": [{"threshold": 0.5}]}
    elif kind == "run config":
        mod, options = RationalClient("eps"), {"run_config": {"eps": 0.5}}
    elif kind == "function":

        def own_loss(message: Message, context: Context) -> float:
            return float(message.content["arrays"]["0"].numpy()[0] ** 2) / 2  # type: ignore[union-attr]

        mod = RationalClient(0.5, loss=own_loss)
    losses[1] = 0.625
    assert departures(quadratic(mod), losses, **options) == [False, False, True, True, True]


def test_zero_threshold_never_leaves_and_missing_ones_are_named() -> None:
    assert departures(quadratic(RationalClient(0.0)), [0.0]) == [False]
    grid = InProcessGrid(quadratic(RationalClient("target")), 1)
    reply = grid.send_and_receive([train_message([np.ones(1)])])[0]
    assert "no train" not in reply.error.reason
    assert "'target'" in reply.error.reason


@pytest.mark.parametrize(
    ("behaviour", "rows", "expected"),
    [
        (IrrationalAgent(), 1, [False, False, False, False]),
        (UnderconfidentAgent(1.0), 16, [False, False, False, True]),  # needs loss + 1/4 <= 1/2
        (BetaUser(publish_every=3), 1, [False, False, False, True]),  # judges rounds 1 and 4 only
        (MisreportingAgent(0.125), 1, [False, True, True, True]),
    ],
)
def test_behaviours(behaviour: Any, rows: int, expected: list[bool]) -> None:
    mod = RationalClient(0.5, behaviour=behaviour)
    assert departures(quadratic(mod, rows), [2.0, 0.5, 0.375, 0.125]) == expected


def test_what_is_told_to_the_server() -> None:
    ask = [train_message([np.array([2.0])])]
    for mod, told in (
        (RationalClient(0.5), 0.5),
        (RationalClient(0.5, behaviour=MisreportingAgent(0.125)), 0.125),
        (RationalClient(0.5, tell=False), None),
    ):
        reply = InProcessGrid(quadratic(mod), 1).send_and_receive(ask)[0]
        assert reply.content["metrics"].get("threshold") == told  # type: ignore[union-attr]


@pytest.mark.claim("05.46")
def test_a_client_leaves_under_flowers_own_fedavg() -> None:
    from flwr.serverapp.strategy import FedAvg as FlowerFedAvg

    app = ClientApp(mods=[RationalClient()])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        w = message.content["arrays"]["0"].numpy()  # type: ignore[union-attr]
        metrics = MetricRecord({"loss": float(w @ w) / 2})
        metrics["num-examples"] = 10
        arrays = ArrayRecord([0.5 * w])
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    grid = InProcessGrid(app, 3, node_config=[{"threshold": t} for t in (0.6, 0.1, 0.1)])
    strategy = FlowerFedAvg(fraction_evaluate=0.0)
    result = strategy.start(grid, ArrayRecord([np.array([2.0])]), num_rounds=2)
    assert result.arrays["0"].numpy().tolist() == [0.5]
    left = [bool(c.state.metric_records["counterplay"].get("left-in-round")) for c in
            grid.contexts.values()]  # fmt: skip
    assert left == [True, False, False]  # 0.5 is enough for the first one only


@pytest.mark.claim("05.46")
def test_replies_hold_numbers_of_the_size_of_the_model_only() -> None:
    torch = pytest.importorskip("torch")
    X, y = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % 2
    app = torch_client_app(
        lambda: torch.nn.Linear(3, 2), lambda context: (X, y), mods=[RationalClient(0.01)]
    )
    start = ArrayRecord(torch.nn.Linear(3, 2).state_dict())
    ask = train_message(start, step_size=0.1, local_steps=3, batch_size=8)
    content = InProcessGrid(app, 1).send_and_receive([ask])[0].content
    assert set(content) == {"anchor", "update", "metrics", "party"}
    assert dict(content["party"]) == {"name": "party 0"}  # type: ignore[arg-type]
    for key in ("anchor", "update"):
        assert {k: tuple(a.shape) for k, a in content[key].items()} == {  # type: ignore[union-attr]
            "weight": (2, 3),
            "bias": (2,),
        }
    assert set(content["metrics"]) == {"loss", "num-examples", "threshold"}
    sent = InProcessGrid(app, 1)
    far = train_message(ArrayRecord({"weight": torch.zeros(2, 3), "bias": torch.zeros(2)}))
    left = goodbye(far, 1)
    assert not left.has_content()
    assert len(sent.contexts) == 1


def by_hand(module: Any, X: np.ndarray, y: np.ndarray, eta: float, steps: int) -> Any:
    """Loss, gradient and mean gradient along the local steps, with plain autograd."""
    import torch

    x, labels = torch.from_numpy(X), torch.from_numpy(y)
    params, total, first = list(module.parameters()), None, None
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(module(x), labels)
        gradient = torch.autograd.grad(loss, params)
        if first is None:
            first, value = gradient, float(loss.detach())
        total = gradient if total is None else [t + g for t, g in zip(total, gradient)]
        with torch.no_grad():
            for p, g in zip(params, gradient):
                p -= eta / steps * g
    return value, [g.numpy() for g in first], [t.numpy() / steps for t in total]


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("source", ["pair", "loader"])
def test_torch_report_is_the_gradient(steps: int, source: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(20, 4)), rng.integers(0, 3, 20)
    torch.manual_seed(0)
    parts = torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)
    module = torch.nn.Sequential(*parts).double()
    data: Any = (X, y)
    if source == "loader":
        tensors = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
        data = torch.utils.data.DataLoader(tensors, batch_size=7)
    ask = train_message(ArrayRecord(module.state_dict()), step_size=0.5, local_steps=steps)
    context = InProcessGrid(print, 1, node_config=[{"name": "north"}]).contexts[1]  # type: ignore[arg-type]
    content = torch_report(ask, context, module, data).content
    loss, gradient, update = by_hand(module, X, y, 0.5, steps)
    metrics: Any = content["metrics"]
    assert metrics["loss"] == pytest.approx(loss, abs=1e-12)
    assert content["party"]["name"] == "north"  # type: ignore[call-overload]
    sent = [a.numpy() for a in content["anchor"].values()]  # type: ignore[union-attr]
    assert max(abs(a - b).max() for a, b in zip(sent, gradient)) <= 1e-12
    if steps == 1:
        assert "update" not in content
    else:
        sent = [a.numpy() for a in content["update"].values()]  # type: ignore[union-attr]
        assert max(abs(a - b).max() for a, b in zip(sent, update)) <= 1e-12


@pytest.mark.claim("23.23")
def test_running_statistics_are_averaged_by_rows() -> None:
    torch = pytest.importorskip("torch")

    def make() -> Any:
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2))

    rng = np.random.default_rng(0)
    data = [(rng.normal(m, 1, (n, 2)).astype(np.float32), np.arange(n) % 2)
            for m, n in enumerate((30, 10))]  # fmt: skip
    app = torch_client_app(make, lambda context: data[context.node_config["partition-id"]])
    strategy = RuleStrategy(FedAvg(), step_size=0.5)
    start = ArrayRecord(make().state_dict())
    result = strategy.start(InProcessGrid(app, 2), start, num_rounds=5)
    assert list(result.arrays) == list(start)
    expected = np.zeros(2)
    for _ in range(5):  # momentum 0.1 of every party's own mean, averaged by rows
        own = [0.9 * expected + 0.1 * X.mean(axis=0) for X, _ in data]
        expected = np.average(own, axis=0, weights=[30, 10])
    assert np.abs(expected).min() > 0.0
    assert result.arrays["0.running_mean"].numpy() == pytest.approx(expected, abs=1e-6)
    assert result.arrays["0.num_batches_tracked"].numpy() == 5
    first = strategy.history_.summary().splitlines()[0]
    assert first == "BatchNorm statistics averaged over 2 parties; GroupNorm avoids this."


def test_the_module_of_the_party_stays_as_it_is() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2))
    module[1].bias.requires_grad_(False)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    data = (np.random.default_rng(0).normal(3.0, 1, (20, 2)), np.arange(20) % 2)
    start = ArrayRecord({name: value + 1 for name, value in before.items()})
    reply = torch_report(
        train_message(start, step_size=0.1), InProcessGrid(print, 1).contexts[1], module, data
    )
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    sent: Any = reply.content["buffers"]
    mean = 0.9 * 1.0 + 0.1 * data[0].mean(axis=0)  # of what was received, not of the module's own
    assert sent["0.running_mean"].numpy() == pytest.approx(mean, abs=1e-5)


def test_evaluation_rounds_of_a_torch_app() -> None:
    torch = pytest.importorskip("torch")
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 2
    app = torch_client_app(
        lambda: torch.nn.Linear(2, 2), lambda context: (X, y), mods=[RationalClient(0.01)]
    )
    strategy = RuleStrategy(SafeStep(0.1, cap="step_size"), step_size=0.5, fraction_evaluate=1.0)
    start = ArrayRecord(torch.nn.Linear(2, 2).state_dict())
    result = strategy.start(InProcessGrid(app, 2), start, num_rounds=2)
    assert {"loss", "accuracy"} <= set(result.evaluate_metrics_clientapp[2])


@pytest.mark.parametrize(
    ("gradient", "words"),
    [
        ({"0": np.zeros(7)}, "shape"),
        ({"weight": np.zeros(6)}, "'weight' is not wanted"),
        ({}, "no array '0'"),
        ({"0": np.full(6, np.inf)}, "not finite"),
    ],
)
def test_a_party_with_another_model_is_dropped(gradient: Any, words: str) -> None:
    c = instances.random_overparameterised(M=3, n=2, d=6, random_state=0)
    grid = problem_grid(c.problem, [0.1, 0.1, 0.1])
    app = grid.client

    def client(message: Message, context: Context) -> Message:
        if context.node_id == 1:
            return report(message, loss=1.0, gradient=gradient, threshold=0.1)
        return app(message, context)

    grid.client = client
    strategy = RuleStrategy(SafeStep(0.05, cap="step_size"), step_size=1.0)
    strategy.start(grid, start_from(c.w0), num_rounds=2)
    events = strategy.history_.to_frame().groupby("node")["event"].agg(list)
    assert all(words in event for event in events[1])
    assert events[2] == events[3] == ["", ""]


def test_reports_that_make_no_sense_are_refused() -> None:
    ask = train_message([np.zeros(2), np.zeros(3)])
    with pytest.raises(InvalidInputError, match="1 arrays for 2"):
        report(ask, loss=1.0, gradient=[np.zeros(2)])
    mute = ClientApp(mods=[RationalClient(0.1)])

    @mute.train()
    def train(message: Message, context: Context) -> Message:
        metrics = MetricRecord({"train_loss": 1.0})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    reply = InProcessGrid(mute, 1).send_and_receive([train_message([np.zeros(2)])])[0]
    assert "no metric 'loss'" in reply.error.reason


def autoencoder(kind: str) -> Any:
    """Two square layers and a head; tied, frozen or neither."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
            self.head = torch.nn.Linear(3, 2)
            if kind == "tied":
                self.b.weight = self.a.weight
            if kind == "frozen":
                self.a.requires_grad_(False)

        def forward(self, x: Any) -> Any:
            return self.head(torch.tanh(self.b(torch.tanh(self.a(x)))))

    return Net().double()


@pytest.mark.parametrize("kind", ["plain", "tied", "frozen"])
@pytest.mark.parametrize("local_steps", [1, 3])
def test_the_returned_model_has_the_reported_losses(kind: str, local_steps: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3, 40, 3))
    y = (X @ rng.normal(size=3) > 0).astype(int)

    def rows(context: Context) -> Any:
        party = int(context.node_config["partition-id"])
        return X[party], y[party]

    torch.manual_seed(0)
    start = autoencoder(kind)
    before = {key: value.clone() for key, value in start.state_dict().items()}
    app = torch_client_app(lambda: autoencoder(kind), rows, mods=[RationalClient(0.0)])
    strategy = RuleStrategy(FedAvg(), step_size=1.0, work=LocalWork(local_steps))
    arrays = ArrayRecord(start.state_dict())
    first = strategy.start(InProcessGrid(app, 3), arrays, num_rounds=30)
    again = RuleStrategy(FedAvg(), step_size=1.0)
    again.start(InProcessGrid(app, 3), first.arrays, num_rounds=1)
    told = [p.loss for p in again.history_.rounds[0].present]
    final = autoencoder("plain")  # no ties: every array of the answer counts
    final.load_state_dict(first.arrays.to_torch_state_dict())
    true = [
        torch.nn.functional.cross_entropy(final(torch.from_numpy(a)), torch.from_numpy(b)).item()
        for a, b in zip(X, y)
    ]
    assert told == pytest.approx(true, abs=1e-12)
    assert max(true) < 0.6  # it has learned: ln 2 is guessing
    after = final.state_dict()
    assert torch.equal(after["a.weight"], after["b.weight"]) is (kind == "tied")
    assert torch.equal(after["a.weight"], before["a.weight"]) is (kind == "frozen")
    assert not torch.equal(after["b.weight"], before["b.weight"])


def test_a_module_with_nothing_to_train_is_refused() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 2).requires_grad_(False)
    context = InProcessGrid(print, 1).contexts[1]  # type: ignore[arg-type]
    ask = train_message(ArrayRecord(module.state_dict()), step_size=0.1)
    with pytest.raises(InvalidInputError, match="every parameter of the module is frozen"):
        torch_report(ask, context, module, (np.zeros((2, 2)), np.array([0, 1])))


def test_ties_that_make_no_sense_are_ignored() -> None:
    """A party may claim anything; only names of the model with the same shape count."""
    model = [np.array([2.0, 1.0]), np.zeros(2), np.zeros(3)]

    def client(message: Message, context: Context) -> Message:
        w = message.content["arrays"]["0"].numpy()  # type: ignore[union-attr]
        tied = {"0": "1", "1": "0", "2": "0", "nothing": "0"}
        return report(message, loss=float(w @ w) / 2, gradient={"0": w}, threshold=0.0, tied=tied)

    strategy = RuleStrategy(FedAvg(), step_size=0.5)
    result = strategy.start(InProcessGrid(client, 2), ArrayRecord(model), num_rounds=1)
    got = [result.arrays[key].numpy().tolist() for key in ("0", "1", "2")]
    assert got == [[1.0, 0.5], [1.0, 0.5], [0.0, 0.0, 0.0]]
