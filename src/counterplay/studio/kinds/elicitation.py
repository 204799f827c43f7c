"""Questions to a person: one stream per participant, every question recorded before its answer.

A sitting is what the events say: the open question, the answers, the result. Choosing the next
question needs an engine, which is rebuilt from the answers whenever it is not at hand; replay of a
stream never needs one.
Source: docs/theory/28-studio.md and docs/theory/26-people.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from counterplay.core import export_bodies as lines
from counterplay.core.exports import Event
from counterplay.core.records import require_state, to_record
from counterplay.elicitation.choice_log import ChoiceAnswer
from counterplay.elicitation.choice_log import Said as Word
from counterplay.errors import InvalidStateError
from counterplay.studio.errors import Refused
from counterplay.studio.kinds import NewEvent
from counterplay.studio.kinds.elicitation_config import read_config
from counterplay.studio.kinds.elicitation_engine import Engine, Problem, Problems, Recent

SERVER = "counterplay"
UNDECIDED = 3
"""So many questions in a row that could not be decided make the page offer to stop."""


@dataclass(frozen=True, eq=False)
class Said:
    """One answer: its event, the question, and what the area makes of it."""

    seq: int
    asked: lines.Asked | None
    entry: ChoiceAnswer
    forecast: tuple[float, ...]


@dataclass(eq=False)
class Sitting:
    """What the events of one participant say."""

    joined: bool = False
    consented: bool = False
    erased: bool = False
    stopped: bool = False
    locale: str | None = None
    open: tuple[int, lines.Asked] | None = None
    log: list[Said] = field(default_factory=list)
    result: lines.ReliableStated | None = None

    @property
    def answered(self) -> int:
        """Answers given, undecided ones included."""
        return len(self.log)

    @property
    def undecided(self) -> int:
        """Questions in a row, up to now, that could not be decided."""
        count = 0
        for said in reversed(self.log):
            if said.entry.said == "choice":
                break
            count += 1
        return count


class Elicitation:
    """The kind of study that asks one person at a time what she would rather have."""

    name = "elicitation"
    fold_version = 1

    def __init__(self) -> None:
        self.problems, self._engines = Problems(), Recent()

    def read_config(self, raw: dict[str, Any], folder: Path) -> dict[str, Any]:
        """Turn the fields of a file or of the wizard into a frozen configuration."""
        config = read_config(raw, folder)
        Problem.of(config)  # what the engine cannot do is refused before the study exists
        return config

    def begin(self, config: dict[str, Any]) -> Sitting:
        """Return the state of a participant who has not come yet."""
        if self.problems.of(config).config.page is None:
            raise InvalidStateError("the configuration does not say how its items are shown")
        return Sitting()

    def apply(self, config: dict[str, Any], state: Sitting, event: Event) -> Sitting:
        """Take one event; it changes the state that is given."""
        if event.body is None or event.kind == "party.withdrawn":
            state.erased = state.erased or event.kind.startswith(("elicit.", "party.withdrawn"))
        elif event.kind == "party.joined":
            state.joined, state.locale = True, event.body.get("locale")
        elif event.kind == "consent":
            state.consented = True
        elif event.kind == "elicit.asked":
            asked, n = _body(event, lines.Asked), len(config["items"])
            fits = len(asked.shown) == 2
            fits = fits and all(one.id is not None and one.id < n for one in asked.shown)
            require_state(fits, f"event {event.seq}", "shown", "must be two items of the list")
            state.open = (event.seq, asked)
        elif event.kind == "elicit.answered":
            chosen = _body(event, lines.Chosen)
            self._answer(state, event, chosen.asked, chosen.order, "choice")
        elif event.kind == "elicit.cannot_say":
            unsaid = _body(event, lines.Unsaid)
            self._answer(state, event, unsaid.asked, (), unsaid.said)
        elif event.kind == "elicit.volunteered":
            self._volunteer(state, event)
        elif event.kind == "elicit.undone":
            self._undo(state, event)
        elif event.kind == "elicit.stopped":
            state.stopped, state.open = True, None
        elif event.kind == "elicit.result":
            stated, n = _body(event, lines.ReliableStated), len(config["items"])
            fits = all(item < n for item in (stated.item, *(one.item for one in stated.compared)))
            require_state(fits, f"event {event.seq}", "item", "is not in the list")
            state.result, state.open = stated, None
        return state

    def check(self, config: dict[str, Any], state: Sitting, event: NewEvent) -> None:
        """Refuse what is no answer to the open question."""
        if state.erased:
            raise Refused("Your data were deleted; there is nothing to answer any more.")
        if not event.kind.startswith("elicit."):
            return
        if event.kind == "elicit.undone":
            seq = _new(event, lines.Undone).seq
            if not state.log or state.log[-1].seq != seq:
                raise Refused("There is no answer to take back.", "seq")
        elif event.kind in ("elicit.answered", "elicit.cannot_say"):
            self._check_answer(state, event)
        elif event.kind == "elicit.stopped":
            if state.open is None:
                raise Refused("There is no open question.")
            if not state.log:
                raise Refused("There is no answer yet, so there is nothing to stop.")
        elif event.kind == "elicit.volunteered":
            self._check_volunteered(config, state, event)
        else:
            raise Refused(f"{event.kind} is written by the server alone.", "kind")

    def follow(self, config: dict[str, Any], state: Sitting, event: Event) -> Sequence[NewEvent]:
        """Ask the next question, with its forecast, or state the result."""
        asks = event.kind in ("party.joined", "consent", "elicit.undone", "elicit.stopped")
        asks = asks or event.kind in ("elicit.answered", "elicit.cannot_say")
        if not asks or state.erased or not state.joined or state.open or state.result:
            return ()
        if (config.get("page") or {}).get("consent") and not state.consented:
            return ()
        problem = self.problems.of(config)
        engine = self._engine(problem, state, event.stream)
        engine.stopped = state.stopped
        found = engine.question()
        key = f"{event.hash[:32]}:next"
        if found is not None:
            return (NewEvent("elicit.asked", _builtins(found[1]), key, SERVER),)
        stated = engine.stated(problem.errors)
        self._engines.drop(state)
        return (NewEvent("elicit.result", _builtins(stated), key, SERVER),)

    def export(self, config: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the kind and the configuration that an export states."""
        return "elicitation", config

    def volunteered(
        self,
        config: dict[str, Any],
        state: Sitting,
        stream: str,
        pair: tuple[Sequence[float], Sequence[float]],
        order: tuple[int, ...],
    ) -> dict[str, Any]:
        """Return the body for a comparison that nobody asked for, in the units of the columns.

        Less of a cost is better: the values come from the file's own units, never from the caller.
        """
        problem = self.problems.of(config)
        values = [values_of(config, row) for row in pair]
        engine = self._engine(problem, state, stream)
        forecast = tuple(engine.forecast.predict(np.array(values)).tolist())
        shown = tuple(lines.Shown(id=None, values=tuple(map(float, row))) for row in values)
        return _builtins(lines.Volunteered(shown=shown, forecast=forecast, order=order))

    def so_far(self, config: dict[str, Any], state: Sitting, stream: str) -> Sitting:
        """Return the state as if she had stopped now; nothing of it is in the log."""
        problem = self.problems.of(config)
        engine = self._engine(problem, state, stream)
        engine.stopped = True
        engine.question()
        stated = engine.stated(problem.errors)
        self._engines.drop(state)
        return replace(state, result=stated, stopped=True)

    def _engine(self, problem: Problem, state: Sitting, stream: str) -> Engine:
        """The engine of a sitting, brought up to its last answer."""
        engine = self._engines.get(state)
        if engine is None:
            engine = Engine.fresh(problem, stream)
            self._engines.put(state, engine)
        for said in state.log[len(engine.log) :]:
            engine.take(said.entry, said.forecast)
        return engine

    def _answer(
        self, state: Sitting, event: Event, asked: int, order: tuple[int, ...], said: Word
    ) -> None:
        if state.open is None or state.open[0] != asked:
            raise InvalidStateError(f"event {event.seq} answers a question that was not open")
        question = state.open[1]
        repeats = None
        if question.repeat_of is not None:
            places = [i for i, one in enumerate(state.log) if one.asked is not None]
            repeats = places[question.repeat_of]
        rows = tuple(option.id if option.id is not None else -1 for option in question.shown)
        entry = ChoiceAnswer(
            "asked" if repeats is None else "repeat",
            rows,
            said,
            order,
            np.array([option.values for option in question.shown]),
            repeats,
        )
        state.log.append(Said(event.seq, question, entry, question.forecast))
        state.open = None

    def _volunteer(self, state: Sitting, event: Event) -> None:
        offered = _body(event, lines.Volunteered)
        values = np.array([option.values for option in offered.shown])
        said: Word = "choice" if offered.order else "cannot say"
        entry = ChoiceAnswer("volunteered", (), said, offered.order, values)
        state.log.append(Said(event.seq, None, entry, offered.forecast))

    def _undo(self, state: Sitting, event: Event) -> None:
        if not state.log or state.log[-1].seq != _body(event, lines.Undone).seq:
            raise InvalidStateError(f"event {event.seq} takes back what is not the last answer")
        state.log.pop()
        state.open = state.result = None
        state.stopped = False
        self._engines.drop(state)

    def _check_answer(self, state: Sitting, event: NewEvent) -> None:
        if state.open is None:
            raise Refused("There is no open question.")
        seq, question = state.open
        if event.kind == "elicit.cannot_say":
            asked = _new(event, lines.Unsaid).asked
        else:
            chosen = _new(event, lines.Chosen)
            asked = chosen.asked
            fits = len(chosen.order) == 1 and chosen.order[0] < len(question.shown)
            word = ("first", "second")[chosen.order[0]] if fits else None
            if not fits or chosen.answer not in (None, word):
                raise Refused("Choose one of the two.", "answer")
        if asked != seq:
            raise Refused("This question is not open any more.", "asked")

    def _check_volunteered(self, config: dict[str, Any], state: Sitting, event: NewEvent) -> None:
        if state.open is None:
            raise Refused("There is no open question.")
        offered = _new(event, lines.Volunteered)
        k = len(config["items"][0])
        fits = all(len(option.values) == k for option in offered.shown)
        if not fits or any(place > 1 for place in offered.order):
            raise Refused("Two options with a number for every column are needed.", "shown")
        if abs(sum(offered.forecast) - 1.0) > 1e-9:
            raise Refused("The forecast must add up to 1.", "forecast")


def values_of(config: dict[str, Any], row: Sequence[float]) -> list[float]:
    """Return numbers in the units of the columns as values: 0 the worst of the items, 1 the best.

    Examples
    --------
    >>> column = {"name": "price", "direction": "cost", "low": 10.0, "high": 20.0}
    >>> values_of({"page": {"columns": [column]}}, [12.0])
    [0.8]
    """
    values = []
    for column, number in zip(config["page"]["columns"], row, strict=True):
        low, high = column["low"], column["high"]
        share = (number - low) / (high - low)
        values.append(1.0 - share if column["direction"] == "cost" else share)
    return values


def _body(event: Event, kind: type[Any]) -> Any:
    return to_record(event.body, kind, what=f"event {event.seq} of {event.stream[:60]}")


def _new(event: NewEvent, kind: type[Any]) -> Any:
    try:
        return to_record(event.body, kind, what="the answer")
    except InvalidStateError as error:
        raise Refused(str(error)) from None


def _builtins(record: Any) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(record)
    return body


KIND = Elicitation()
