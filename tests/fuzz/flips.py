"""One changed byte in what a person's questionnaire or a guard wrote, in a child process.

A saved state is refused with one sentence, or it is a state whose guarantee follows from its own
events. An export is failed or refused, or every check of it says what it said before.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from . import states
from .tally import Tried, in_child, judged

FLIPS = 500
SUBJECTS = (
    "reliable elicitor", "polytope elicitor", "preference elicitor", "champion (guaranteed)",
    "champion (adaptive)", "live guard", "selective guard", "DeactivationLearner",
    "ReactivationLearner", "reliable export", "guard export",
)  # fmt: skip


def run(n: int = FLIPS, seed: int = 0, only: str = "") -> list[Tried]:
    """Change one byte ``n`` times in a text of every class."""
    rows: list[Tried] = []
    for subject in states.all_subjects():
        if subject.name in SUBJECTS and only in subject.name:
            rows += in_child(subject.name, n, _trial(subject, seed))
    return rows


def _trial(subject: states.Subject, seed: int) -> Callable[[int], Tried]:
    def one(number: int) -> Tried:
        what, data = flipped(subject.text, seed, number)
        return judged(subject.name, what, lambda: subject.read(data), subject.use)

    return one


def flipped(text: str, seed: int, number: int) -> tuple[str, bytes]:
    """Return the text with one byte changed, and which; the same for the same numbers."""
    rng = random.Random(f"flip {seed}/{number}")
    data = bytearray(text.encode())
    at, change = rng.randrange(len(data)), rng.randrange(1, 256)
    data[at] ^= change
    return f"byte {at} by {change}", bytes(data)
