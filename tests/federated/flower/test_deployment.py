"""The example app on a real SuperLink with TLS, with a SuperNode that dies in the middle."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")
pytest.importorskip("flwr.superlink.cli", reason="the deployment commands of newer Flower")

from counterplay.contribution.lab import describe_site, write_measuring_app
from federated.flower.deployment import Deployment, deployment, wait_for, write_key

EXAMPLE = Path(__file__).parents[3] / "examples" / "flower-defection"
ASKED = "Receiving: train message"
ROUNDS = 3


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Deployment]:
    """A deployment; shows its logs if something does not happen in time."""
    if os.name != "posix":
        pytest.skip("needs process groups")
    if shutil.which("flower-superlink", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("the Flower commands are not beside this Python")
    with deployment(tmp_path) as federation:
        yield federation


def wait(here: Deployment, ready: Callable[[], bool], what: str) -> None:
    try:
        wait_for(ready, what, 240.0)
    except TimeoutError as error:
        logs = "\n".join(f"--- {name}\n{here.text(name)[-3000:]}" for name in here.processes)
        pytest.fail(f"{error}\n{logs}")


def record(path: Path) -> tuple[pd.DataFrame, dict[int, dict[int, str]]]:
    """The history of a run, and what happened to every node in every round."""
    frame = pd.read_csv(path, keep_default_na=False, na_values={"loss": [""]})
    events = {node: dict(zip(rows["round"], rows["event"])) for node, rows in frame.groupby("node")}
    return frame, events


@pytest.mark.long
@pytest.mark.claim("05.42")
def test_a_killed_supernode_is_dropped_and_training_goes_on(here: Deployment) -> None:
    """Two full rounds, then a sampled one: of two hospitals one is asked."""
    history = here.folder / "history.csv"
    here.start_superlink()
    here.start_supernodes("threshold=9.0", "", "")  # hospital 0 is satisfied from the start
    here.run(
        EXAMPLE,
        num_rounds=ROUNDS,
        min_available_nodes=3,
        fraction_train=0.5,
        full_every=2,
        step_size=2.0,
        timeout=120.0,
        straggler_seconds=8.0,
        history=str(history),
    )
    wait(here, lambda: here.text("node2").count(ASKED) >= 2, "the second round")
    here.kill("node2")
    wait(here, lambda: here.processes["run"].poll() is not None, "the end of the run")
    assert f"{ROUNDS} rounds, max_rounds" in here.text("run"), here.text("run")
    here.close()
    assert all(process.poll() is not None for process in here.processes.values())
    frame, events = record(history)
    assert {1: "left"} in events.values()  # it said goodbye and was never asked again
    assert {1: "", 2: "", 3: ""} in events.values()
    killed = next(e for e in events.values() if e[1] == "" and any(e.values()))
    # On a slow machine Flower notices the missing heartbeat before our wait is over.
    assert killed[2] == "no reply" or killed[2].startswith("error: Node Unavailable")
    assert 3 not in killed  # one of two is asked, and the seed says who
    assert "Nobody leaves: curvature estimated." in here.text("run")
    stayed = frame[frame["party"] == "hospital 1"]
    assert stayed["round"].tolist() == [1, 2, 3]
    assert stayed["loss"].is_monotonic_decreasing


@pytest.mark.slow
@pytest.mark.claim("05.42")
def test_an_authenticated_supernode_comes_back_as_the_same_party(here: Deployment) -> None:
    history, rounds = here.folder / "history.csv", 9
    here.start_superlink("--enable-supernode-auth")
    keys = [write_key(here.folder / f"key{i}") for i in range(2)]
    for i, key in enumerate(keys):
        here.register(key)
        own = ("--auth-supernode-private-key", str(key))
        here.start_supernode(f"node{i}", f"partition-id={i} num-partitions=2", *own)
    for i in range(2):
        here.wait_for_node(f"node{i}")
    here.run(
        EXAMPLE,
        num_rounds=rounds,
        min_available_nodes=2,
        timeout=120.0,
        straggler_seconds=20.0,
        history=str(history),
    )
    wait(here, lambda: here.text("node1").count(ASKED) >= 2, "the second round")
    here.stop("node1")
    own = ("--auth-supernode-private-key", str(keys[1]))
    here.start_supernode("node1b", "partition-id=1 num-partitions=2", *own)
    wait(here, lambda: here.processes["run"].poll() is not None, "the end of the run")
    _, events = record(history)
    assert len(events) == 2  # the same node ids before and after
    stayed, restarted = sorted(events.values(), key=lambda e: sum(map(bool, e.values())))
    assert set(stayed.values()) == {""}  # the wait for the one that is gone does not hurt it
    assert restarted[1] == ""
    assert restarted[2] != ""
    assert restarted[max(restarted)] == ""  # it takes part again
    assert max(restarted) > 2


@pytest.mark.slow
@pytest.mark.claim("23.30")
def test_the_app_of_a_consortium_trains_over_tls(here: Deployment) -> None:
    """The written app, unchanged: every site says where its table is, and rows stay there."""
    rng = np.random.default_rng(0)
    told, files = [], []
    for name, n in (("north", 60), ("south", 40)):
        x = rng.normal(size=n)
        frame = pd.DataFrame({"x": x, "y": (x + 0.3 * rng.normal(size=n) > 0).astype(int)})
        files.append(here.folder / f"{name}.csv")
        frame.to_csv(files[-1], index=False)
        told.append(describe_site(files[-1], "y"))
    write_measuring_app(told, here.folder / "out", rows={"north": 30})
    here.start_superlink()
    here.start_supernodes(*(f'data-path="{path}"' for path in files))
    here.run(here.folder / "out", num_rounds=3, timeout=120.0, straggler_seconds=20.0)
    wait(here, lambda: here.processes["run"].poll() is not None, "the end of the run")
    text = here.text("run")
    assert "3 rounds, max_rounds" in text, text
    assert "Nobody leaves" in text or "Nobody left" in text, text
    assert "north" in text
