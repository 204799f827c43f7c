"""What came back in a round: read without ever failing, and measured against the usual length.

A vector far longer than the usual one is refused; one that is merely long counts less in the mean
(never in what protects a party). With fewer than half of the parties hostile the usual length is
that of an honest one.
Source: "The inbox" and "Influence", see docs/theory/23-training.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.federated.replies import (
    UNUSABLE,
    Answer,
    Fields,
    Trust,
    read_answer,
    reason,
    too_long,
)

NO_REPLY = "no reply"


class Inbox:
    """Reads answers, and remembers how long the latest vectors were, per local step."""

    def __init__(self, trust: Trust) -> None:
        self.trust = trust
        self._lengths: dict[int, float] = {}
        self._first: float | None = None  # usual length in the first round

    def read(
        self, w: FloatArray, replies: Mapping[int, Fields | str], asked: Collection[int], eta: float
    ) -> tuple[dict[int, Answer], dict[int, str]]:
        """Return usable answers by party, and why the other parties that were asked are absent."""
        answers: dict[int, Answer] = {}
        absent: dict[int, str] = {}
        for node in asked:
            reply = replies.get(node, NO_REPLY)
            if isinstance(reply, str):
                absent[node] = reply
                continue
            try:
                answers[node] = read_answer(reply, w, eta, self.trust)
            except Exception as error:  # a party may send anything; the others go on
                absent[node] = UNUSABLE + reason(error)
        refuse(too_long(answers, self._usual(answers)), answers, absent)
        return answers, absent

    def keep(self, answers: Mapping[int, Answer], steps: Mapping[int, int]) -> None:
        """Remember the lengths of what was sent after so many local steps."""
        for node, answer in answers.items():
            sent = answer.gradient if answer.update is None else answer.update
            self._lengths[node] = float(np.linalg.norm(sent)) / max(steps.get(node, 1), 1)

    def close(self, gone: Collection[int], answers: Mapping[int, Answer]) -> None:
        """End a round: forget who is gone; the first round with answers sets the measure."""
        for node in gone:
            self._lengths.pop(node, None)
        if self._first is None and answers:
            self._first = _median(list(self._lengths.values()))

    def influence(self, answers: Mapping[int, Answer]) -> FloatArray | None:
        """Factors that shorten vectors beyond ``clip`` times the usual length of all who remain."""
        if self.trust.clip is None:
            return None
        lengths = np.array([self._lengths[node] for node in answers])
        limit = self.trust.clip * self._usual({})
        if limit == 0.0 or (lengths <= limit).all():  # no measure, or nobody is too loud
            return None
        return np.asarray(limit / np.maximum(lengths, limit))

    def _usual(self, answers: Mapping[int, Answer]) -> float:
        """The usual length of a vector: the larger of two medians, now and in the first round.

        Late in a run most gradients vanish, and one that does not is no lie. In the first round the
        smaller of the two middle lengths counts, so that one of two parties cannot set the measure.
        """
        if self._first is not None:
            return max(_median(list(self._lengths.values())), self._first)
        lengths = sorted(float(np.linalg.norm(a.gradient)) for a in answers.values())
        return lengths[(len(lengths) - 1) // 2] if lengths else 0.0


def refuse(why: Mapping[int, str], answers: dict[int, Answer], absent: dict[int, str]) -> None:
    """Move answers that cannot be used to those who are absent, with the reason."""
    for node, problem in why.items():
        del answers[node]
        absent[node] = UNUSABLE + problem


def _median(lengths: list[float]) -> float:
    return sorted(lengths)[len(lengths) // 2] if lengths else 0.0
