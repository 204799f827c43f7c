"""The example app does what its README says, in one process."""

from __future__ import annotations

import logging
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

from flwr.app import ArrayRecord

from counterplay.federated.flower import InProcessGrid

EXAMPLE = Path(__file__).parents[3] / "examples" / "flower-defection"


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Any:
    logging.getLogger("flwr").setLevel(logging.ERROR)
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import hospitals.client_app
    import hospitals.server_app
    import hospitals.task

    yield hospitals
    for name in [name for name in sys.modules if name.split(".")[0] == "hospitals"]:
        monkeypatch.delitem(sys.modules, name)


def run(app: Any, rule: str, **more: Any) -> tuple[Any, list[float]]:
    """The record of a run, and the final model's loss at every hospital, gone or not."""
    import torch

    config = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["tool"]["flwr"]["app"][
        "config"
    ]
    config |= {"rule": rule} | {key.replace("_", "-"): value for key, value in more.items()}
    strategy = app.server_app.make_strategy(config)
    strategy.verbose = False
    module = app.task.make_module()
    grid = InProcessGrid(app.client_app.app, 4, run_config=config)
    start = ArrayRecord(module.state_dict())
    result = strategy.start(grid, start, num_rounds=config["num-rounds"])
    module.load_state_dict(result.arrays.to_torch_state_dict())
    losses = []
    for hospital in range(4):
        X, y = app.task.load_data(hospital, 4)
        scores = module(torch.tensor(X, dtype=torch.float32))
        losses.append(torch.nn.functional.cross_entropy(scores, torch.tensor(y)).item())
    return strategy.history_, losses


@pytest.mark.claim("05.47")
def test_safe_step_keeps_the_hospitals_that_averaging_loses(app: Any) -> None:
    kept, losses = run(app, "safe-step")
    assert kept.status == "converged"
    assert kept.left == {}
    assert all(0.4 < loss <= 0.4 + 2 * 0.05 + 1e-6 for loss in losses)
    lost, losses = run(app, "fedavg")
    assert lost.status == "everybody_left"
    assert len(lost.left) == 4
    assert sum(loss > 2 * 0.4 for loss in losses) >= 3  # each was below 0.4 when it left


@pytest.mark.claim("23.20")
def test_half_of_the_hospitals_per_round_will_do(app: Any) -> None:
    kept, losses = run(app, "safe-step", fraction_train=0.5, num_rounds=200)
    assert kept.status == "converged"
    assert kept.left == {}
    assert all(0.4 < loss <= 0.4 + 2 * 0.05 + 1e-6 for loss in losses)
    assert kept.guarantee == "curvature estimated"
    assert {len(gauge.present) for gauge in kept.rounds} >= {2, 4}
