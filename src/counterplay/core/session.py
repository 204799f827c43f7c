"""Loops with people or parties: ask a question, tell the answer, stop at any time.

A session is a log of events; everything else (state, result, certificate) is recomputed from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class Session(ABC):
    """Base class of loops in which somebody outside answers.

    Call :meth:`ask`, hand the question over, :meth:`tell` the answer, until :meth:`ask` returns
    None; :meth:`result` may be called at any time.
    """

    @abstractmethod
    def ask(self) -> Any | None:
        """Return the open question, or None when nothing is left to ask; asking twice is free."""

    @abstractmethod
    def tell(self, answer: Any) -> None:
        """Record the answer to the open question."""

    @abstractmethod
    def result(self) -> Any:
        """What is known now."""

    @property
    def done(self) -> bool:
        """Whether nothing is left to ask."""
        return self.ask() is None

    @property
    @abstractmethod
    def events(self) -> tuple[Any, ...]:
        """What happened so far, in order; replaying it gives the same session."""
