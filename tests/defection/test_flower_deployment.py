"""The example app on a real SuperLink with TLS, with a SuperNode that dies in the middle."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")
pytest.importorskip("flwr.superlink.cli", reason="the deployment commands of newer Flower")

from defection.deployment import Deployment, deployment, wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower-defection"
NODES, ROUNDS = 3, 3


def run_and_kill(here: Deployment, history: Path) -> None:
    """Start the run, and kill a SuperNode while it works on its second round."""
    here.start_superlink()
    here.start_supernodes(NODES)
    here.run(
        EXAMPLE,
        num_rounds=ROUNDS,
        min_available_nodes=NODES,
        step_size=2.0,
        timeout=120.0,
        straggler_seconds=20.0,
        history=str(history),
    )
    victim = f"node{NODES - 1}"
    asked = "Receiving: train message"
    wait_for(lambda: here.text(victim).count(asked) >= 2, "the second round", 150.0)
    here.kill(victim)
    wait_for(lambda: here.processes["run"].poll() is not None, "the end of the run", 200.0)


@pytest.mark.claim("05.42")
def test_a_killed_supernode_is_dropped_and_training_goes_on(tmp_path: Path) -> None:
    if shutil.which("flower-superlink", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("the Flower commands are not beside this Python")
    history = tmp_path / "history.csv"
    with deployment(tmp_path) as here:
        try:
            run_and_kill(here, history)
        except TimeoutError as error:
            logs = "\n".join(f"--- {name}\n{here.text(name)[-3000:]}" for name in here.processes)
            pytest.fail(f"{error}\n{logs}")
        log = here.text("run")
    assert f"{ROUNDS} rounds, max_rounds" in log, log
    frame = pd.read_csv(history, keep_default_na=False, na_values={"loss": [""]})
    victim = frame[frame["party"] == f"hospital {NODES - 1}"]
    assert victim["event"].tolist()[:2] == ["", "no reply"]
    others = frame[(frame["party"] != f"hospital {NODES - 1}") & (frame["event"] == "")]
    assert set(others["round"]) == set(range(1, ROUNDS + 1))  # training went on without it
    loss = others.groupby("round")["loss"].mean()
    assert loss.is_monotonic_decreasing
    assert all(process.poll() is not None for process in here.processes.values())
