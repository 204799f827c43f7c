"""The example app on a real SuperLink with TLS, with a SuperNode that dies in the middle."""

from __future__ import annotations

import os
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
ROUNDS = 3


def run_and_kill(here: Deployment, history: Path) -> None:
    """Hospital 0 leaves at once; kill the SuperNode of hospital 2 in the second round."""
    here.start_superlink()
    here.start_supernodes("threshold=9.0", "", "")
    here.run(
        EXAMPLE,
        num_rounds=ROUNDS,
        min_available_nodes=3,
        step_size=2.0,
        timeout=120.0,
        straggler_seconds=20.0,
        history=str(history),
    )
    asked = "Receiving: train message"
    wait_for(lambda: here.text("node2").count(asked) >= 2, "the second round", 150.0)
    here.kill("node2")
    wait_for(lambda: here.processes["run"].poll() is not None, "the end of the run", 200.0)


@pytest.mark.claim("05.42")
@pytest.mark.skipif(os.name != "posix", reason="process groups")
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
    assert all(process.poll() is not None for process in here.processes.values())
    frame = pd.read_csv(history, keep_default_na=False, na_values={"loss": [""]})
    events = {name: rows["event"].tolist() for name, rows in frame.groupby("node", sort=False)}
    assert ["left"] in events.values()  # it said goodbye in round 1 and was never asked again
    assert ["", "no reply"] in events.values()
    assert ["", "", ""] in events.values()
    stayed = frame[frame["party"] == "hospital 1"]
    assert stayed["round"].tolist() == [1, 2, 3]
    assert stayed["loss"].is_monotonic_decreasing
