"""The same records with one worker, two workers, Ray, and after being killed and resumed."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import counterplay
from counterplay.studies.store import Store

SAMPLE = Path(__file__).parent / "sample"
CELLS = 12


def listen_to_ctrl_c() -> None:
    """Background jobs of a shell ignore Ctrl-C, and so would all they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(store: Path, *options: str, pause: float = 0.0) -> subprocess.Popen[bytes]:
    paths = [str(SAMPLE), str(Path(counterplay.__file__).parents[1])]
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "counterplay", "run", "sample/walk"),
            *("--seed", "7", "--store", str(store), "--out", str(store.parent), *options),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "SAMPLE_PAUSE": str(pause)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=listen_to_ctrl_c,
    )


def run(store: Path, *options: str) -> None:
    _, errors = (process := start(store, *options, "--quiet")).communicate(timeout=300)
    assert process.returncode == 0, errors.decode()


def wait_for_rows(store: Path, n: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if store.is_file() and count(store) >= n:
            return
        time.sleep(0.02)
    raise AssertionError(f"{store} never had {n} rows")


def count(store: Path) -> int:
    database = sqlite3.connect(store, timeout=60)
    try:
        return int(database.execute("SELECT count(*) FROM cell").fetchone()[0])
    except sqlite3.OperationalError:  # the table is not there yet
        return 0
    finally:
        database.close()


def contents(store: Path) -> list[tuple[object, ...]]:
    """Every column except the wall time, exactly as stored."""
    with Store(store, create=False) as opened:
        rows = [tuple(v for k, v in vars(row).items() if k != "wall_time") for row in opened.rows()]
    assert len(rows) == CELLS
    return rows


def kill_and_resume(store: Path) -> None:
    process = start(store, "--jobs", "2", pause=0.3)
    wait_for_rows(store, 3)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # its workers, which nobody collects any more
    assert 3 <= count(store) < CELLS
    run(store, "--jobs", "2")


def test_one_worker_two_workers_and_killed_in_between_store_the_same(tmp_path: Path) -> None:
    run(tmp_path / "one.sqlite", "--jobs", "1")
    run(tmp_path / "two.sqlite", "--jobs", "2")
    kill_and_resume(tmp_path / "killed.sqlite")
    expected = contents(tmp_path / "one.sqlite")
    assert contents(tmp_path / "two.sqlite") == expected
    assert contents(tmp_path / "killed.sqlite") == expected


@pytest.mark.slow
def test_all_four_ways_store_the_same(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="the Ray backend needs ray")
    run(tmp_path / "one.sqlite", "--jobs", "1")
    run(tmp_path / "two.sqlite", "--jobs", "2")
    kill_and_resume(tmp_path / "killed.sqlite")
    run(tmp_path / "started.sqlite", "--backend", "ray", "--jobs", "2")
    context = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        address = context.address_info["gcs_address"]
        run(tmp_path / "joined.sqlite", "--backend", "ray", "--address", address)
    finally:
        ray.shutdown()
    expected = contents(tmp_path / "one.sqlite")
    for name in ("two", "killed", "started", "joined"):
        assert contents(tmp_path / f"{name}.sqlite") == expected, name


@pytest.mark.parametrize("backend", ["joblib", pytest.param("ray", marks=pytest.mark.slow)])
def test_ctrl_c_leaves_a_consistent_store(tmp_path: Path, backend: str) -> None:
    if backend == "ray":
        pytest.importorskip("ray", reason="the Ray backend needs ray")
    store = tmp_path / "studies.sqlite"
    process = start(store, "--jobs", "2", "--quiet", "--backend", backend, pause=0.5)
    wait_for_rows(store, 2)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    sentence = errors.decode().strip()
    assert sentence.startswith("counterplay: interrupted: "), sentence
    assert "\n" not in sentence
    with Store(store, create=False) as opened:
        rows = list(opened.rows())
    assert 2 <= len(rows) < CELLS
    assert f"{len(rows)} of {CELLS} cells" in sentence
    run(store)
    run(tmp_path / "undisturbed.sqlite", "--jobs", "1")
    assert contents(store) == contents(tmp_path / "undisturbed.sqlite")
