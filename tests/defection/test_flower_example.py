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

from counterplay.defection.flower import InProcessGrid

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower-defection"


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Any:
    logging.getLogger("flwr").setLevel(logging.ERROR)
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import hospitals.client_app
    import hospitals.server_app

    yield hospitals
    for name in [name for name in sys.modules if name.split(".")[0] == "hospitals"]:
        monkeypatch.delitem(sys.modules, name)


def run(app: Any, rule: str, rounds: int) -> Any:
    config = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["tool"]["flwr"]["app"][
        "config"
    ]
    config["rule"] = rule
    strategy = app.server_app.make_strategy(config)
    strategy.verbose = False
    start = ArrayRecord(app.server_app.make_module().state_dict())
    grid = InProcessGrid(app.client_app.app, 4, run_config=config)
    strategy.start(grid, start, num_rounds=rounds)
    return strategy.history_


@pytest.mark.claim("05.47")
def test_safe_step_keeps_the_hospitals_that_averaging_loses(app: Any) -> None:
    kept = run(app, "safe-step", 60)
    assert kept.status == "converged"
    assert kept.left == {}
    assert all(0.0 < p.gap <= 0.1 for p in kept.rounds[-1].present)
    assert len(kept.rounds[-1].present) == 4
    lost = run(app, "fedavg", 40)
    assert len(lost.left) >= 2
    assert max(p.gap for p in lost.rounds[-1].present) > 0.3  # those who stayed pay for it
