"""Claim 23.29: a sampled run gives one model, from function calls and from Flower clients."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from sklearn.datasets import load_digits

from counterplay.defection.flower import RationalClient
from counterplay.defection.split import heterogeneous_split
from counterplay.federated import FedAvg, LocalParties, LocalWork, ParameterSpace, SafeStep, train
from counterplay.federated.flower import InProcessGrid, RuleStrategy, torch_client_app

M, EPS, DELTA, SEED = 4, 1.4, 0.1, 7
nn = torch.nn


def tied() -> Any:
    net = nn.Sequential(nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    net[4].weight = net[2].weight
    return nn.Sequential(net, nn.Linear(8, 10))


def frozen() -> Any:
    net = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    net[0].bias.requires_grad_(False)
    return net


def convolution() -> Any:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(27, 10),
    )  # fmt: skip


MODULES = {
    "network": lambda: nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10)),
    "linear": lambda: nn.Linear(64, 10),
    "tied": tied,
    "frozen": frozen,
    "convolution": convolution,
}


def make(kind: str) -> Any:
    torch.manual_seed(3)
    return MODULES[kind]().double()


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    X, y = load_digits(return_X_y=True)
    X, y = X[:200] / 16.0, y[:200]
    owner = heterogeneous_split(X, y, n_agents=M, own_fraction=0.8, random_state=0).agent_of_row
    return {f"party {m}": (X[owner == m], y[owner == m]) for m in range(M)}


def on_flower(app: Any, start: Any, rule: Any, **more: Any) -> tuple[Any, Any]:
    logging.getLogger("flwr").setLevel(logging.ERROR)
    options: dict[str, Any] = {"step_size": 0.8, "fraction_train": 0.5, "seed": SEED} | more
    rounds = options.pop("rounds")
    strategy = RuleStrategy(rule, **options)
    result = strategy.start(InProcessGrid(app, M), start, num_rounds=rounds)
    return result.arrays, strategy.history_


@pytest.mark.claim("23.29")
@pytest.mark.parametrize("work", [LocalWork(), LocalWork(2, 8)], ids=["one step", "minibatches"])
@pytest.mark.parametrize("kind", MODULES)
def test_the_same_model_here_and_on_flower(data: Any, kind: str, work: LocalWork) -> None:
    rounds = 24  # with a full round in it
    convex = True if kind == "linear" else None
    here = train(
        LocalParties(make(kind), data, threshold=EPS, work=work), SafeStep(DELTA, cap=0.4),
        step_size=0.8, fraction=0.5, rounds=rounds, random_state=SEED, convex=convex,
    )  # fmt: skip
    app = torch_client_app(
        lambda: make(kind), lambda context: data[f"party {context.node_config['partition-id']}"],
        mods=[RationalClient(EPS)],
    )  # fmt: skip
    start = ArrayRecord(make(kind).state_dict())
    arrays, history = on_flower(
        app, start, SafeStep(DELTA, cap=0.4), work=work, rounds=rounds, convex=convex
    )
    space = ParameterSpace.of_module(make(kind))
    found = {key: arrays[key].numpy() for key in arrays}
    assert list(found) == list(make(kind).state_dict())
    assert here.w is not None
    assert np.abs(space.flatten(found) - here.w).max() <= 1e-12
    for name, value in here.buffers.items():
        assert np.abs(found[name] - value).max() <= 1e-12
    for alias, source in space.tied.items():
        assert np.array_equal(found[alias], found[source])
    assert [{p.party for p in g.parties} for g in history.rounds] == [
        {p.party for p in g.parties} for g in here.rounds
    ]
    assert (history.status, history.guarantee) == (here.status, here.guarantee)
    assert {len(g.present) for g in here.rounds} >= {2, M}
    assert np.abs(here.w - space.flatten({k: v.numpy() for k, v in start.items()})).max() > 0.01


@pytest.mark.claim("23.21")
@pytest.mark.parametrize("key", ["loss", "eval_loss", "eval-loss"])
def test_ordinary_flower_clients_are_asked_for_their_loss(data: Any, key: str) -> None:
    """They know nothing of gradients: they train, and evaluate the model they are sent."""
    module, asked = make("network"), []

    def client(message: Message, context: Any) -> Message:
        X, y = (torch.tensor(part) for part in data[f"party {context.node_config['partition-id']}"])
        net = make("network")
        (sent,) = message.content.array_records.values()
        net.load_state_dict({k: torch.tensor(sent[k].numpy()) for k in sent})
        asked.append(message.metadata.message_type)
        metrics = {"num-examples": len(y)}
        if message.metadata.message_type == "evaluate":
            loss = float(nn.functional.cross_entropy(net(X), y).detach())
            return Message(RecordDict({"m": MetricRecord(metrics | {key: loss})}), reply_to=message)
        for _ in range(3):
            net.zero_grad()
            nn.functional.cross_entropy(net(X), y).backward()
            with torch.no_grad():
                for p in net.parameters():
                    p -= 0.2 * p.grad
        content = {"arrays": ArrayRecord(net.state_dict()), "m": MetricRecord(metrics)}
        return Message(RecordDict(content), reply_to=message)

    start = ArrayRecord(module.state_dict())
    rule = SafeStep(DELTA, cap=0.5)
    _, history = on_flower(client, start, rule, rounds=60, threshold=EPS)
    assert history.guarantee == "updates only: none"
    frame = history.to_frame()
    assert frame["gap"].min() > 0.0  # nobody would have left
    assert (
        frame.groupby("party")["loss"].last().max() < frame.groupby("party")["loss"].first().min()
    )
    assert asked.count("evaluate") == asked.count("train") > 20
    _, plain = on_flower(client, start, FedAvg(), rounds=2, threshold=EPS)
    assert asked.count("evaluate") < asked.count("train")  # averaging needs no losses
    assert plain.guarantee == "none"
