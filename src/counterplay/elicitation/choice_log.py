"""Questions about several options and their answers, as they are shown and stored.

Source: docs/theory/26-people.md, "Setting".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from counterplay.core.validation import FloatArray, shorten
from counterplay.elicitation.comparisons import Answer, Option
from counterplay.errors import InvalidInputError

Said = Literal["choice", "same", "cannot say"]
Kind = Literal["asked", "repeat", "volunteered"]
UNSURE = ("same", "cannot say")
_WORDS = {
    "same": "same", "equal": "same", "=": "same", "indistinguishable": "same",
    "cannot say": "cannot say", "cannot tell": "cannot say", "?": "cannot say", "0": "cannot say",
}  # fmt: skip
_PLACES = {"first": 0, "left": 0, "second": 1, "right": 1, "third": 2, "fourth": 3}


@dataclass(frozen=True, eq=False)
class ChoiceQuery:
    """A question: which of these options does the person prefer?"""

    options: tuple[Option, ...]
    rows: tuple[int, ...]
    """Position of each option in the table, in the order shown."""
    reason: str = ""
    """Why this question is asked, in plain words."""
    number: int = 0
    """How many questions were asked before."""
    repeats: int | None = None
    """Number of the earlier question that is asked again."""
    labels: tuple[str, ...] = ()
    ranking: bool = False
    """Whether all options are to be put in order, the best first."""

    @property
    def first(self) -> Option:
        """The option shown first."""
        return self.options[0]

    @property
    def second(self) -> Option:
        """The option shown second."""
        return self.options[1]

    def describe(self) -> str:
        """Return the options, one per line."""
        return "\n".join(
            f"{number}: {option.describe()}" for number, option in enumerate(self.options, 1)
        )

    def parse(self, answer: Any) -> tuple[Said, tuple[int, ...]]:
        """Return what was said and the positions in order of preference; a choice names one."""
        if isinstance(answer, list | tuple):
            if not self.ranking:
                raise InvalidInputError("name one option; a list is the answer to show='rank'")
            order = tuple(self._position(part) for part in answer)
            if sorted(order) != list(range(len(self.options))):
                raise InvalidInputError(
                    f"put all {len(self.options)} options in order, each once; got "
                    f"{shorten(answer, 60)}"
                )
            return "choice", order
        word = _WORDS.get(answer.strip().lower()) if isinstance(answer, str) else None
        if word == "same" or word == "cannot say":
            return ("same", ()) if word == "same" else ("cannot say", ())
        return "choice", (self._position(answer),)

    def answer_of(self, user: Any) -> Any:
        """Return what a simulated user answers."""
        if hasattr(user, "choose"):
            chosen = user.choose(self.options)
        elif len(self.options) == 2:
            return str(Answer.parse(user.compare(*self.options)).value)
        else:
            raise InvalidInputError("questions about several options need a user with choose()")
        if chosen is None:
            return "cannot say"
        if not self.ranking:
            return int(chosen) + 1
        left, order = list(range(len(self.options))), [int(chosen)]
        left.remove(order[0])
        while len(left) > 1:  # the best of the rest
            best = user.choose([self.options[i] for i in left])
            order.append(left[0 if best is None else int(best)])
            left.remove(order[-1])
        return [i + 1 for i in (*order, *left)]

    def _position(self, answer: Any) -> int:
        told = str(answer).strip()
        place = _PLACES.get(told.lower(), -1)
        if not isinstance(answer, bool | float) and told.isascii() and told.isdigit():
            place = int(told[:6]) - 1
        if 0 <= place < len(self.options):
            return place
        if told in self.labels:
            return self.labels.index(told)
        shown = ", ".join(map(str, self.rows))
        raise InvalidInputError(
            f"answer {shorten(answer, 40)} is none of the {len(self.options)} options shown "
            f"(rows {shown}) nor 'cannot say'"
        )


@dataclass(frozen=True, eq=False)
class ChoiceAnswer:
    """One answered question, as it is stored."""

    kind: Kind
    rows: tuple[int, ...]
    """Positions in the order shown; empty for vectors that were volunteered."""
    said: Said
    order: tuple[int, ...]
    """Which of the options shown, the best first; a choice names one."""
    values: FloatArray
    """Values (m, k) of the options shown."""
    repeats: int | None = None

    def choices(self) -> list[tuple[FloatArray, int]]:
        """Return the choices that the answer stands for: a ranking is a chain of nested ones."""
        if self.said != "choice":
            return []
        left = list(range(len(self.values)))
        result = []
        for best in self.order:
            if len(left) < 2:
                break
            result.append((self.values[left], left.index(best)))
            left.remove(best)
        return result

    def __str__(self) -> str:
        names = [str(row) for row in self.rows] or [
            np.array2string(v, precision=3) for v in self.values
        ]
        if self.said != "choice":
            return f"{' / '.join(names)}: {self.said}"
        return f"{' / '.join(names)}: {' > '.join(names[i] for i in self.order)}"
