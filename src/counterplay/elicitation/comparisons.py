"""Questions and answers: two options, three possible answers, and procedures that ask.

A procedure is a generator that yields questions and receives answers. The same generator serves a
simulated user, a person at a terminal and a resumed session, because its only state is the list of
answers so far.
Source: docs/theory/08-elicitation.md, "Setting".
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    shorten,
)
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    from counterplay.elicitation.trajectories import WeightedTrajectorySet

T = TypeVar("T")


class Answer(StrEnum):
    """What a person says about two options.

    Examples
    --------
    >>> Answer.parse("second").swapped() is Answer.FIRST
    True

    References
    ----------
    "Setting", see docs/theory/08-elicitation.md.
    """

    FIRST = "first"
    SECOND = "second"
    INDISTINGUISHABLE = "same"

    @classmethod
    def parse(cls, value: object) -> Answer:
        """Return the answer for ``"first"``, ``"second"``, ``"same"`` or a usual synonym.

        Examples
        --------
        >>> Answer.parse("indistinguishable")
        <Answer.INDISTINGUISHABLE: 'same'>
        """
        if isinstance(value, cls):
            return value
        if not isinstance(value, str | int):
            raise InvalidInputError(
                f"an answer must be 'first', 'second' or 'same', got {shorten(value, 60)}"
            )
        word = shorten(value, 40).strip("'").strip().lower()
        for answer, words in _WORDS.items():
            if word in words:
                return answer
        raise InvalidInputError(
            f"an answer must be 'first', 'second' or 'same', got {shorten(value, 60)}"
        )

    def swapped(self) -> Answer:
        """Return the answer to the same question with the options exchanged."""
        return _SWAPPED[self]


_WORDS: dict[Answer, tuple[str, ...]] = {
    Answer.FIRST: ("first", "1", "a", "left"),
    Answer.SECOND: ("second", "2", "b", "right"),
    Answer.INDISTINGUISHABLE: ("same", "indistinguishable", "=", "0", "equal", "cannot tell"),
}
_SWAPPED = {
    Answer.FIRST: Answer.SECOND,
    Answer.SECOND: Answer.FIRST,
    Answer.INDISTINGUISHABLE: Answer.INDISTINGUISHABLE,
}


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class Option:
    """One side of a question, in up to three representations.

    ``value`` is the value vector, ``item`` the row, policy or mixture itself, ``trajectories``
    the weighted trajectory set. ``chance`` is the probability of getting the item; otherwise the
    person gets nothing.

    Examples
    --------
    >>> Option(np.array([0.2, 0.4]), item=7, chance=0.5, label="the blue car").describe()
    'with 50 % chance the blue car, otherwise nothing'
    """

    value: FloatArray
    item: Any = None
    chance: float = 1.0
    label: str = "this option"
    trajectories: WeightedTrajectorySet | None = None

    def describe(self) -> str:
        """Return the option in plain words."""
        if self.chance >= 1.0:
            return self.label
        if self.chance <= 0.0:
            return "nothing"
        return f"with {100 * self.chance:.3g} % chance {self.label}, otherwise nothing"


@checked
@dataclass(frozen=True, eq=False)
class Query:
    """A question: which of two options does the person prefer?

    Examples
    --------
    >>> query = Query(Option(np.array([1.0, 0.0])), Option(np.array([0.4, 0.5])))
    >>> query.difference.tolist()
    [0.6, -0.5]
    """

    first: Option
    second: Option
    reason: str = ""
    """Why this question is asked, in plain words."""
    number: int = 0
    """How many questions were asked before."""
    purpose: str = "compare"
    """The stage of the procedure, such as ``benchmark`` or ``ratio``."""
    options: tuple[int, int] | None = None
    """Positions of the two options in a pool, for adaptive questions."""
    about: int | None = None
    """Number of the earlier answer that is asked again, for confirmations."""

    @property
    def difference(self) -> FloatArray:
        """Value of the first option minus value of the second."""
        return self.first.value - self.second.value

    def describe(self) -> str:
        """Return both options, one per line."""
        return f"first:  {self.first.describe()}\nsecond: {self.second.describe()}"

    def answered(self, answer: Answer) -> LoggedAnswer:
        """Return the record of this question with its answer."""
        return LoggedAnswer(
            self.first.value, self.second.value, answer, self.purpose, self.options, self.about
        )


@dataclass(frozen=True, eq=False)
class LoggedAnswer:
    """One answered question, as it is stored."""

    first: FloatArray
    second: FloatArray
    answer: Answer
    purpose: str = "compare"
    options: tuple[int, int] | None = None
    """Positions of the two options in a pool, for adaptive questions."""
    about: int | None = None
    """Number of the earlier answer that was asked again, for confirmations."""

    @property
    def difference(self) -> FloatArray:
        """Value of the first option minus value of the second."""
        return self.first - self.second

    def __str__(self) -> str:
        verdict = {"first": ">", "second": "<", "same": "~"}[self.answer.value]
        left, right = (np.array2string(v, precision=4) for v in (self.first, self.second))
        return f"{left} {verdict} {right} ({self.purpose})"


Procedure: TypeAlias = Generator[Query, Answer, T]
"""A generator that yields questions, receives answers and returns a result."""


class User(Protocol):
    """Anyone who can compare two options."""

    def compare(self, first: Option, second: Option) -> Answer:
        """Return which option is preferred."""
        ...
