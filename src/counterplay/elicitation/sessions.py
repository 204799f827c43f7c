"""Ask and tell: a procedure that can be paused, undone, saved and resumed.

The only state is the list of answers. Restoring replays them and checks that the procedure asks
the same questions again, so that a saved session cannot silently continue on another model.
Source: spec 08 section 2.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np

from counterplay.elicitation.comparisons import Answer, LoggedAnswer, Procedure, Query
from counterplay.errors import ContradictionError, InvalidInputError, ProtocolError

T = TypeVar("T")


class Session(Generic[T]):
    """Runs a procedure one question at a time.

    Parameters
    ----------
    start:
        Function that returns a fresh generator of the procedure.
    answers:
        Answers to replay, from a saved session.
    """

    def __init__(
        self, start: Callable[[], Procedure[T]], answers: Sequence[LoggedAnswer] = ()
    ) -> None:
        self._start = start
        self.answers: list[LoggedAnswer] = []
        self._restart()
        for logged in answers:
            self.check_same_question(logged)
            self._feed(logged.answer)

    @property
    def done(self) -> bool:
        """Whether the procedure has ended."""
        return self._pending is None

    @property
    def result(self) -> T:
        """The result, once done."""
        if self._pending is not None or self._result is None:
            raise ProtocolError("there are open questions; call ask() and tell() until done")
        return self._result

    def ask(self) -> Query:
        """Return the open question; asking twice returns the same one."""
        if self._pending is None:
            raise ProtocolError("there is no further question; read the result")
        return self._pending

    def tell(self, answer: Answer) -> None:
        """Take the answer. On a contradiction the state is as before, so one can answer again."""
        if self._pending is None:
            raise ProtocolError("there is no open question to answer; read the result")
        kept = list(self.answers)
        try:
            self._feed(answer)
        except ContradictionError:
            self._replay(kept)
            raise

    def undo(self) -> None:
        """Take the last answer back."""
        if not self.answers:
            raise ProtocolError("there is no answer to take back")
        self._replay(self.answers[:-1])

    def _restart(self) -> None:
        self._result: T | None = None
        self._pending: Query | None = None
        self._generator = self._start()
        self._advance(None)

    def _replay(self, answers: Sequence[LoggedAnswer]) -> None:
        kept = list(answers)
        self.answers = []
        self._restart()
        for logged in kept:
            self._feed(logged.answer)

    def _feed(self, answer: Answer) -> None:
        self.answers.append(self.ask().answered(answer))
        self._advance(answer)

    def _advance(self, answer: Answer | None) -> None:
        try:
            query = next(self._generator) if answer is None else self._generator.send(answer)
            self._pending = replace(query, number=len(self.answers))
        except StopIteration as stop:
            self._pending = None
            self._result = stop.value

    def check_same_question(self, logged: LoggedAnswer) -> None:
        """Raise unless the open question is the one that was answered."""
        query = self.ask()
        if query.purpose != logged.purpose:
            raise InvalidInputError(
                f"question {query.number + 1} of the saved session is a {logged.purpose!r:.40} "
                f"question, expected {query.purpose!r}; the saved state is damaged"
            )
        for now, then in ((query.first.value, logged.first), (query.second.value, logged.second)):
            if now.shape != then.shape or not np.allclose(now, then, rtol=1e-9, atol=1e-12):
                raise InvalidInputError(
                    f"question {query.number + 1} of the saved session shows other options than "
                    "this model; resume it with the model it was started with"
                )
