"""Jobs: none lost, none done twice, whatever happens to the workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from counterplay.studio.settings import Settings
from counterplay.studio.store import Store
from counterplay.studio.store import tables as t
from counterplay.studio.store.jobs import ATTEMPTS, Watch
from counterplay.studio.worker import run_worker


@contextmanager
def worker(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    raw = {**asdict(settings), "data": str(settings.data)}
    process = subprocess.Popen(
        [sys.executable, "-m", "counterplay.studio.worker"],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps({"parent": os.getpid(), "settings": raw}).encode())
    process.stdin.close()
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def test_a_job_is_taken_once_and_ends_once(store: Store) -> None:
    number = store.enqueue("probe", {"seconds": 0})
    job = store.claim("one", Watch())
    assert job is not None
    assert (job.id, job.state, job.attempt, job.fence) == (number, "running", 1, 1)
    assert store.claim("two", Watch()) is None
    assert store.beat(job, {"stage": "half"})
    assert store.job(number).progress == {"stage": "half"}
    assert store.finish(job, {"n": 1})
    assert not store.finish(job, {"n": 2})
    assert not store.fail(job, "late")
    assert store.job(number).result == {"n": 1}


def test_an_expired_lease_is_taken_over_and_fenced(store: Store) -> None:
    store.enqueue("probe", {})
    store.settings = replace(store.settings, lease=0.0)
    old = store.claim("old", Watch())
    time.sleep(0.02)
    new = store.claim("new", Watch())
    assert old is not None
    assert new is not None
    assert (new.id, new.fence, new.attempt) == (old.id, 2, 2)
    assert not store.beat(old)
    assert not store.finish(old, {"by": "old"})
    assert store.finish(new, {"by": "new"})


@pytest.mark.claim("28.24")
def test_a_clock_set_back_delays_no_takeover(store: Store) -> None:
    """The lease ends an hour from now by the clock; the worker is silent by the watch."""
    store.enqueue("probe", {})
    store.settings = replace(store.settings, lease=0.2)
    old = store.claim("old", Watch())
    assert old is not None
    store._do(sa.update(t.job).values(lease=t.job.c.lease + 3600.0))
    watch = Watch()
    assert store.claim("new", watch) is None
    time.sleep(0.1)
    assert store.beat(old)  # it lives: not silent
    store._do(sa.update(t.job).values(lease=t.job.c.lease + 3600.0))
    assert store.claim("new", watch) is None
    time.sleep(0.25)
    new = store.claim("new", watch)
    assert new is not None
    assert not store.finish(old, {})
    assert store.finish(new, {})


@pytest.mark.claim("28.06")
def test_four_failures_end_a_job_with_its_log(store: Store) -> None:
    number = store.enqueue("probe", {"fails": True})
    for attempt in range(1, ATTEMPTS + 1):
        job = store.claim("w", Watch())
        assert job is not None
        assert job.attempt == attempt
        assert store.fail(job, "\n".join(f"line {i}" for i in range(100)))
    failed = store.job(number)
    assert failed.state == "failed"
    assert (failed.error or "").splitlines() == [f"line {i}" for i in range(60, 100)]
    assert store.claim("w", Watch()) is None
    assert store.retry(number).state == "ready"


def test_a_worker_that_always_dies_is_given_up(store: Store) -> None:
    number = store.enqueue("probe", {})
    store.settings = replace(store.settings, lease=0.0)
    for _ in range(ATTEMPTS):
        assert store.claim("w", Watch()) is not None
        time.sleep(0.02)
    assert store.claim("w", Watch()) is None
    assert store.job(number).state == "failed"
    assert "given up" in (store.job(number).error or "")


def test_jobs_run_under_limits(tmp_path: Path) -> None:
    limits = Settings(data=tmp_path / "s", job_seconds=0.3, job_memory=2 * 2**30)
    with Store.open(limits) as store:
        slow = store.enqueue("probe", {"seconds": 30})
        large = store.enqueue("probe", {"bytes": 3 * 2**30})
        fine = store.enqueue("probe", {})
        wrong = store.enqueue("nonsense", {})
        for number in (slow, large, wrong):  # this attempt is the last
            store._do(sa.update(t.job).where(t.job.c.id == number).values(attempt=ATTEMPTS - 1))
        run_worker(limits, once=True)
        assert "the most a job may take" in (store.job(slow).error or "")
        assert "MemoryError" in (store.job(large).error or "")
        assert "there is no kind of study named" in (store.job(wrong).error or "")
        assert store.job(fine).result == {"attempt": 1}


def kill_workers(settings: Settings, jobs: int, workers: int, kills: int) -> dict[str, int]:
    with Store.open(settings) as store:
        numbers = [store.enqueue("probe", {"seconds": 0.05 + 0.6 * (i % 5 == 0)})
                   for i in range(jobs)]  # fmt: skip
        counted = 0

        def rest() -> int:
            return sum(store.job(n).state != "done" for n in numbers)

        while rest() and counted < kills:
            with worker(settings) as victim:
                running = [worker(settings) for _ in range(workers - 1)]
                for one in running:
                    one.__enter__()
                until(lambda: any(j.state == "running" for j in store.jobs()) or not rest())
                time.sleep(0.2)
                os.killpg(victim.pid, signal.SIGKILL)
                counted += 1
                for one in running:
                    one.__exit__(None, None, None)
                    counted += 1
        with worker(settings):
            until(lambda: not rest(), 120)
        done = [store.job(n) for n in numbers]
        assert all(job.result is not None for job in done)
        return {"jobs": jobs, "done": len(done), "kills": counted,
                "attempts": sum(job.attempt for job in done)}  # fmt: skip


@pytest.mark.claim("28.06")
def test_killed_workers_lose_no_job(settings: Settings) -> None:
    found = kill_workers(replace(settings, lease=1.0), jobs=6, workers=1, kills=1)
    assert found["done"] == 6


@pytest.mark.slow
def test_killed_workers_in_full(settings: Settings) -> None:
    print(kill_workers(replace(settings, lease=2.0), jobs=60, workers=3, kills=10))


@pytest.mark.claim("28.06")
def test_a_stopped_worker_that_goes_on_writes_nothing(settings: Settings) -> None:
    found, watch = [], Watch()
    with Store.open(settings) as store, Store.open(replace(settings, lease=0.3)) as hasty:

        def taken() -> bool:
            found.append(hasty.claim("new", watch))
            return found[-1] is not None

        number = store.enqueue("probe", {"seconds": 2.0})
        with worker(replace(settings, lease=4.0)) as stopped:  # it looks every second
            until(lambda: store.job(number).state == "running")
            os.killpg(stopped.pid, signal.SIGSTOP)
            until(taken)
            new = found[-1]
            assert new is not None
            assert store.beat(new)  # a lease that no busy machine outlasts
            os.killpg(stopped.pid, signal.SIGCONT)
            for _ in range(25):  # the new holder lives
                assert store.beat(new)
                time.sleep(0.08)
            assert store.job(number).state == "running"
            assert store.job(number).fence == new.fence
            assert store.finish(new, {"by": "new"})
        assert store.job(number).result == {"by": "new"}
