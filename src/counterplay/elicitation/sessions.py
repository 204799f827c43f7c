"""Ask and tell: a procedure that can be paused, undone, saved and resumed.

The only state is the list of answers. Restoring replays them and checks that the procedure asks
the same questions again, so that a saved session cannot silently continue on another model.
Source: docs/theory/08-elicitation.md, "Sessions".
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.session import Session
from counterplay.core.validation import shorten
from counterplay.elicitation.choice_log import ChoiceQuery
from counterplay.elicitation.comparisons import Answer, LoggedAnswer, Procedure, Query, User
from counterplay.errors import (
    ContradictionError,
    CounterplayError,
    InvalidInputError,
    ProtocolError,
)

T = TypeVar("T")


class Elicitor(Session):
    """What all elicitors share: options to choose from, comparisons to answer, a way back."""

    source: Any

    @abstractmethod
    def ask(self) -> Query | None:
        """Return the open question, or None when there is none; asking twice is free."""

    @abstractmethod
    def tell(self, answer: Answer | str) -> None:
        """Answer the open question: ``"first"``, ``"second"`` or ``"same"``."""

    @property
    @abstractmethod
    def events(self) -> tuple[LoggedAnswer, ...]:
        """Every answer so far."""

    def __repr__(self) -> str:
        changed = [_brief(self.source)]
        for name, parameter in inspect.signature(type(self)).parameters.items():
            value = getattr(self, name)
            if name != "source" and value is not parameter.default and value != parameter.default:
                changed.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(changed)})"


@checked
def answered_by(session: Session, user: User) -> Any:
    """Let a simulated user answer every remaining question and return the result.

    Use it to see how many questions a session needs and how good its recommendation is. A person
    answers with ``ask`` and ``tell``.

    Parameters
    ----------
    session:
        A :class:`ReliableElicitor`, a :class:`PolytopeElicitor`, a :class:`PreferenceElicitor` or
        another session that asks comparisons.
    user:
        Anyone with ``compare(first, second)``, such as a :class:`LinearPreferenceUser`; for
        questions about more than two options also ``choose(options)``.

    Examples
    --------
    >>> from counterplay.elicitation import LinearPreferenceUser, PolytopeElicitor
    >>> session = PolytopeElicitor([[1.0, 0.0], [0.7, 0.7], [0.0, 1.0]], random_state=0)
    >>> answered_by(session, LinearPreferenceUser([1.0, 1.0], eps=0.01)).index
    1

    References
    ----------
    "Sessions", see docs/theory/08-elicitation.md.
    """
    if getattr(session, "max_queries", 0) is None and getattr(user, "eps", 1.0) == 0:
        raise InvalidInputError(
            "a user with eps = 0 never says 'same', so the bisection does not end; set max_queries"
        )
    while (query := session.ask()) is not None:
        try:
            if isinstance(query, ChoiceQuery):
                said = query.answer_of(user)
            else:
                said = Answer.parse(user.compare(query.first, query.second))
        except CounterplayError:
            raise
        except Exception as error:
            raise InvalidInputError(f"the user could not compare: {shorten(error)}") from error
        session.tell(said)
    return session.result()


class ProcedureSession(Session, Generic[T]):
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
        self._answers: list[LoggedAnswer] = []
        self._restart()
        for logged in answers:
            self.check_same_question(logged)
            self._feed(logged.answer)

    @property
    def done(self) -> bool:
        """Whether the procedure has ended."""
        return self._pending is None

    @property
    def events(self) -> tuple[LoggedAnswer, ...]:
        """Every answer so far."""
        return tuple(self._answers)

    def result(self) -> T:
        """Return the result; a procedure has none before its last question is answered."""
        if self._pending is not None:
            raise ProtocolError("there are open questions; call ask() and tell() until done")
        result: T = self._result
        return result

    def ask(self) -> Query | None:
        """Return the open question, or None after the last; asking twice is free."""
        return self._pending

    def tell(self, answer: Answer) -> None:
        """Take the answer. On a contradiction the state is as before, so one can answer again."""
        kept = list(self._answers)
        try:
            self._feed(answer)
        except ContradictionError:
            self._replay(kept)
            raise

    def undo(self) -> None:
        """Take the last answer back."""
        if not self._answers:
            raise ProtocolError("there is no answer to take back")
        self._replay(self._answers[:-1])

    def _open_question(self) -> Query:
        if self._pending is None:
            raise ProtocolError("there is no open question to answer; read the result")
        return self._pending

    def _restart(self) -> None:
        self._result: Any = None
        self._pending: Query | None = None
        self._generator = self._start()
        self._advance(None)

    def _replay(self, answers: Sequence[LoggedAnswer]) -> None:
        kept = list(answers)
        self._answers = []
        self._restart()
        for logged in kept:
            self._feed(logged.answer)

    def _feed(self, answer: Answer) -> None:
        self._answers.append(self._open_question().answered(answer))
        self._advance(answer)

    def _advance(self, answer: Answer | None) -> None:
        try:
            query = next(self._generator) if answer is None else self._generator.send(answer)
            self._pending = replace(query, number=len(self._answers))
        except StopIteration as stop:
            self._pending = None
            self._result = stop.value

    def check_same_question(self, logged: LoggedAnswer) -> None:
        """Raise unless the open question is the one that was answered."""
        query = self._open_question()
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


def _brief(source: Any) -> str:
    text = repr(source)
    return text if len(text) <= 200 and " at 0x" not in text else f"<{type(source).__name__}>"
