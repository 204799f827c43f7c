"""Work spread over threads: everything is done once, and errors are not lost."""

from __future__ import annotations

import threading
import time

import pytest

from counterplay.core import threads
from counterplay.core.threads import in_threads


@pytest.mark.parametrize("most", [None, 1, 3, 0])
def test_every_part_is_done_once(most: int | None) -> None:
    seen: list[int] = []
    in_threads(seen.append, range(100), most)
    assert sorted(seen) == list(range(100))


def test_one_thread_keeps_the_order() -> None:
    seen: list[int] = []
    in_threads(seen.append, range(20), 1)
    assert seen == list(range(20))


def test_parts_run_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "cores", lambda: 2)
    together = threading.Barrier(2, timeout=60)  # raises unless two threads arrive
    in_threads(lambda _: together.wait(), range(2))
    assert not together.broken


def test_the_first_error_is_raised_and_the_rest_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "cores", lambda: 2)
    done: list[int] = []

    def work(part: int) -> None:
        if part == 0:
            raise ValueError("part 0 is bad")
        time.sleep(0.01)
        done.append(part)

    with pytest.raises(ValueError, match="part 0 is bad"):
        in_threads(work, range(200))
    assert len(done) < 199
