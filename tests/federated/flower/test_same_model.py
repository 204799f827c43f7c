"""Claim 05.41: four Flower clients with torch give the models of the in-process engine."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import torch
from flwr.app import ArrayRecord
from sklearn.datasets import load_digits

from counterplay.core.draws import run_keys
from counterplay.defection.flower import RationalClient
from counterplay.defection.split import heterogeneous_split
from counterplay.federated import ADAGD, FedAvg, Federation, LocalWork, SafeStep, Sites
from counterplay.federated.flower import InProcessGrid, RuleStrategy, torch_client_app
from counterplay.federated.modules import torch_objective

M, ROUNDS, SEED, DELTA = 4, 20, 7, 0.05
EPS = (1.6, 1.4, 1.6, 1.4)  # within reach in a few rounds, so that somebody leaves under averaging


def make_module() -> Any:
    torch.manual_seed(3)
    layers = torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 10)
    return torch.nn.Sequential(*layers).double()


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] / 16.0, y[:400]
    split = heterogeneous_split(X, y, n_agents=M, own_fraction=0.8, random_state=0)
    return X, y, split.agent_of_row


def vector(arrays: Any) -> np.ndarray:
    return np.concatenate([a.numpy().ravel() for a in arrays.values()])


@pytest.mark.claim("05.41")
@pytest.mark.parametrize(("local_steps", "batch_size"), [(1, None), (3, None), (3, 16)])
@pytest.mark.parametrize("name", ["safe step", "ada-gd", "fedavg"])
def test_flower_clients_give_the_models_of_the_engine(
    data: Any, name: str, local_steps: int, batch_size: int | None
) -> None:
    logging.getLogger("flwr").setLevel(logging.ERROR)
    X, y, owner = data
    work = LocalWork(local_steps, batch_size)
    step = 0.4 if name == "ada-gd" else 1.5
    rule, strategy = {
        "safe step": (
            SafeStep(DELTA, cap="step_size"),
            RuleStrategy(SafeStep(DELTA, cap="step_size"), step_size=step, seed=SEED, work=work),
        ),
        "ada-gd": (ADAGD(DELTA), RuleStrategy(ADAGD(DELTA), step_size=step, seed=SEED, work=work)),
        "fedavg": (FedAvg(), RuleStrategy(FedAvg(), step_size=step, seed=SEED, work=work)),
    }[name]
    start = ArrayRecord(make_module().state_dict())
    objective = torch_objective(make_module(), dtype="float64")
    federation = Federation(objective, Sites.from_agents(X, y, owner), eps=EPS)
    keys, first = run_keys(SEED, 1), vector(start)
    record = federation.train(rule, keys, step_size=step, rounds=ROUNDS, start=first, work=work)

    def rows(context: Any) -> Any:
        mine = owner == context.node_config["partition-id"]
        return X[mine], y[mine]

    app = torch_client_app(make_module, rows, mods=[RationalClient("threshold")])
    grid = InProcessGrid(app, M, node_config=[{"threshold": e} for e in EPS])
    result = strategy.start(grid, start, num_rounds=ROUNDS)
    history = strategy.history_
    assert np.abs(vector(result.arrays) - record.w[0]).max() <= 1e-10
    left = {f"party {m}": int(r) for m, r in enumerate(record.defect_round[0]) if r >= 0}
    assert history.left == left
    assert bool(left) is (name == "fedavg")
    for gauge in history.rounds:
        for p in gauge.present:
            assert p.loss == pytest.approx(record.loss[0, gauge.round - 1, p.node - 1], abs=1e-10)
    assert history.status == record.status[0]
