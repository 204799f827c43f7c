"""Ctrl-C is noticed even where a library swallows it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

import pytest

from counterplay.studies.interrupts import remembered_interrupts


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # the handler runs between two instructions of the main thread
        pass


@pytest.fixture(autouse=True)
def default_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_swallowed_interrupt_is_raised_at_the_next_check() -> None:
    with remembered_interrupts() as check:
        check()
        with contextlib.suppress(KeyboardInterrupt):
            press_ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            check()


def test_an_interrupt_is_raised_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), remembered_interrupts():
        press_ctrl_c()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_handler_of_a_program_stays() -> None:
    seen: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    with remembered_interrupts() as check:
        press_ctrl_c()
        check()
    assert seen == [signal.SIGINT]


def test_other_threads_change_nothing() -> None:
    handlers = []

    def enter() -> None:
        with remembered_interrupts() as check:
            check()
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
