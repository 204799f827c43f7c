"""Messages out, replies back: with patience for stragglers, and waiting for parties to connect."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from logging import INFO

from counterplay.errors import MissingDependencyError
from counterplay.federated.flower.messages import is_goodbye

try:
    from flwr.app import Message
    from flwr.common.logger import log
    from flwr.serverapp import Grid
except ImportError:
    raise MissingDependencyError.for_extra("flwr", "federated") from None

POLL_SECONDS = (0.05, 1.0)


def exchange(
    grid: Grid, messages: Iterable[Message], timeout: float, straggler_seconds: float | None
) -> list[Message]:
    """Return the replies that came within ``timeout`` seconds.

    Once half of the parties have answered, the others have ``straggler_seconds`` more; None waits
    for everybody until the timeout, as Flower does. Errors are no answers here: Flower sends one at
    once for a party that disconnects, and the others still need their time.
    """
    sent = list(messages)
    if not sent:
        return []
    if straggler_seconds is None:
        return list(grid.send_and_receive(sent, timeout=timeout))
    waiting = {number for number in grid.push_messages(sent) if number}
    missing, replies = len(waiting) / 2, list[Message]()
    end, pause = time.monotonic() + timeout, POLL_SECONDS[0]
    while waiting:
        new = list(grid.pull_messages(list(waiting)))
        waiting -= {message.metadata.reply_to_message_id for message in new}
        answers = sum(not message.has_error() or is_goodbye(message) for message in new)
        if missing > 0.0 and (missing := missing - answers) <= 0.0:
            end = min(end, time.monotonic() + straggler_seconds)
        replies += new
        if not waiting or time.monotonic() >= end:
            break
        time.sleep(pause)
        pause = min(2.0 * pause, POLL_SECONDS[1])
    return replies


def wait_for_parties(count: Callable[[], int], needed: int, timeout: float) -> bool:
    """Return whether ``needed`` parties are there; waits for them at most ``timeout`` seconds."""
    end, told = time.monotonic() + timeout, -1
    while (here := count()) < needed:
        if here != told:
            log(INFO, "Waiting for parties: %d of %d connected.", here, needed)
            told = here
        if time.monotonic() >= end:
            return False
        time.sleep(min(0.5, timeout))
    return True
