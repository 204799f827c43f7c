"""The questions of a campaign and its log: what was asked, shown, answered, and written down.

The base of :class:`Campaign`. Every open question gets a number when it is first seen; what is
handed out, answered or follows from answers is written as a line of the log.
Source: docs/theory/24-campaign.md, "The log".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import structs

from counterplay.core.arguments import checked
from counterplay.core.files import write_atomic
from counterplay.core.report import Report
from counterplay.core.session import Session
from counterplay.errors import InvalidInputError
from counterplay.labeling import campaign_log as log_lines
from counterplay.labeling.campaign_state import CampaignState
from counterplay.labeling.certificate import SKIPPED
from counterplay.labeling.joint import Certified, Launch
from counterplay.labeling.shadow import Key
from counterplay.tables.cells import listed, nearest, shown

SKIP = "skip"
"""What a campaign's ``tell`` takes from somebody who does not know."""


@checked
@dataclass(frozen=True)
class Question:
    """A question for one party; ``kind`` is not for the labeler's eyes.

    Examples
    --------
    >>> Question("q1", "north", 17, "learn", 0)
    Question(id='q1', party='north', item=17)
    """

    id: str
    party: str
    item: int
    kind: Literal["learn", "audit"]
    repeat: int

    def __repr__(self) -> str:
        return f"Question(id={self.id!r}, party={self.party!r}, item={self.item})"


class CampaignQuestions(Report, Session):
    """What people were asked and said, with the log of it.

    Parameters
    ----------
    state:
        The campaign itself.
    log:
        File to which every event is appended.
    """

    def __init__(self, state: CampaignState, log: str | os.PathLike[str] | None) -> None:
        self.classes = state.settings.classes
        self._state = state
        self._questions: dict[str, Question] = {}
        self._ids: dict[tuple[int, Key], str] = {}
        self._numbered = 0
        self._answered: dict[str, tuple[int, str | None]] = {}
        self._shown: set[str] = set()
        self._ahead: dict[int, int] = {}
        self._own: set[int] = set()
        self._emitted = 0
        self._lines: list[str] = []
        self._path: Path | None = None if log is None else Path(log)
        self._size = 0  # bytes of the file

    @property
    def events(self) -> tuple[str, ...]:
        """The lines of the log."""
        return tuple(self._lines)

    def log(self) -> str:
        """The log: one line of JSON per event; it holds the secret seed."""
        self._advance()
        return "".join(self._lines)

    def save(self, path: str | os.PathLike[str], *, source: log_lines.Source | None = None) -> None:
        """Write the log to a new file; from then on every event is appended to it.

        Parameters
        ----------
        path:
            The file; one that is there is refused.
        source:
            Where the pool was read from, for the command line.
        """
        text = self.log()
        if source is not None:
            start = structs.replace(log_lines.read_start(text.encode()), source=source)
            self._lines[0] = log_lines.line_text(start)
        target = Path(path)
        if target.exists():
            raise InvalidInputError(f"{target.name[:80]} is there already; nothing was written")
        self._write_whole(target)

    def _write_whole(self, path: Path) -> None:
        content = "".join(self._lines).encode()
        write_atomic(path, content)
        self._path, self._size = path, len(content)

    def _advance(self) -> None:
        """Go on as far as answers allow; write down what followed."""
        if not self._state.waiting():
            self._ahead.clear()
        self._state.advance()
        joint = self._state.joint
        if joint is None:
            return
        for event in joint.emitted[self._emitted :]:
            self._write(_derived(event, self._state.names))
        self._emitted = len(joint.emitted)
        for party, shadow in joint.shadows.items():
            certificate = getattr(shadow.run, "certificate", None)
            if shadow.finished_by == "own" and party not in self._own and certificate is not None:
                self._own.add(party)
                self._write(
                    log_lines.CertifyLine(
                        vector=None, scope=self._state.names[party], checked=certificate.checked,
                        wrong=certificate.wrong, known_wrong=0, bound=certificate.bound,
                    )
                )  # fmt: skip

    def _open(self) -> list[Question]:
        """Open questions, parties in turn, each with its id."""
        by_party: dict[int, list[Question]] = {}
        for party, key in self._state.open():
            by_party.setdefault(party, []).append(self._question(party, key))
        turns: list[Question] = []
        columns = [by_party[party] for party in sorted(by_party)]
        for place in range(max(map(len, columns), default=0)):
            turns += [column[place] for column in columns if place < len(column)]
        return turns

    def _question(self, party: int, key: Key) -> Question:
        known = self._ids.get((party, key))
        if known is None:
            self._numbered += 1
            known = f"q{self._numbered}"
            kind = self._state.purpose.get(key, "learn")
            name = self._state.names[party]
            self._ids[party, key] = known
            self._questions[known] = Question(known, name, key[0], kind, key[2])  # type: ignore[arg-type]
        return self._questions[known]

    def _where(self, question: Question) -> tuple[int, Key]:
        kind = question.kind if self._state.settings.noise else "label"
        return self._state.names.index(question.party), (question.item, kind, question.repeat)

    def _show(self, question: Question) -> None:
        """Write down that a question was handed out."""
        if question.id in self._shown:
            return
        line = self._ask_line(question)
        self._shown.add(question.id)
        self._write(line)

    def _ask_line(self, question: Question) -> log_lines.Ask:
        """What the log says of a question that is handed out now."""
        joint = self._state.joint
        assert joint is not None
        party, key = self._where(question)
        shadow = joint.shadows[party]
        if party not in self._ahead:  # the account changes with answers only
            self._ahead[party] = len(shadow.core_keys())
        return log_lines.Ask(
            id=question.id, party=question.party, item=question.item, kind=question.kind,
            repeat=question.repeat, core=key not in shadow.outside,
            passed=len(shadow.passed), ahead=self._ahead[party],
        )  # fmt: skip

    def _find(self, question: Question | str, *, answered: bool = False) -> Question:
        if not self._state.waiting():  # not begun, begun again, or a step is complete
            self._advance()
        name = question if isinstance(question, str) else question.id
        found = self._questions.get(name)
        if found is None or (isinstance(question, Question) and question != found):
            raise InvalidInputError(f"question {shown(name, 40)[1:-1]} was not asked")
        if answered:
            return found
        if name in self._answered:
            code, labeler = self._answered[name]
            label = SKIP if code == SKIPPED else self.classes[code]
            by = "" if labeler is None else f" by {labeler}"
            raise InvalidInputError(
                f"question {name} was answered {label!r}{by}; retract it first to change it"
            )
        if name not in self._shown:
            raise InvalidInputError(f"question {name} was not asked")
        party, key = self._where(found)
        if not self._state.is_open(party, key):
            raise InvalidInputError(f"question {name} is not open any more; ask() gives those")
        return found

    def _code(self, label: Any) -> int:
        return label_code(label, self.classes)

    def _take(self, question: Question, code: int, labeler: str | None) -> None:
        if code == SKIPPED:
            self._write(log_lines.Skip(id=question.id, labeler=labeler))
        else:
            self._write(log_lines.Tell(id=question.id, label=code, labeler=labeler))
        self._state.take(*self._where(question), code)
        self._ahead.clear()
        self._answered[question.id] = code, labeler

    def _party(self, name: str) -> int:
        if name not in self._state.names:
            known = listed(self._state.names)
            raise InvalidInputError(f"there is no party {shown(name, 40)}; parties are {known}")
        return self._state.names.index(name)

    def _write(self, record: Any, *, fresh: bool = False) -> None:
        """Write a line; what people do is written before it is done, so that none of it is lost."""
        derived = isinstance(record, log_lines.Derived)
        line = log_lines.line_text(record) if derived else log_lines.readable_line(record)
        if self._path is not None:
            try:
                with open(self._path, "xb" if fresh else "ab") as stream:
                    if os.fstat(stream.fileno()).st_size != self._size:
                        raise InvalidInputError(
                            f"{self._path.name[:80]} was changed by somebody else; nothing was "
                            "written. Read it again: Campaign.from_log"
                        )
                    stream.write(line.encode())
                    stream.flush()
                    os.fsync(stream.fileno())
                    self._size += len(line.encode())
            except FileExistsError:
                raise InvalidInputError(
                    f"{self._path.name[:80]} is there already; go on with Campaign.from_log"
                ) from None
        self._lines.append(line)


def _derived(event: Launch | Certified, names: Sequence[str]) -> log_lines.Line:
    v = event.vector
    if isinstance(event, Certified):
        c = event.certificate
        return log_lines.CertifyLine(
            vector=v.number, scope=c.scope, checked=c.checked, wrong=c.wrong,
            known_wrong=v.known_wrong, bound=c.bound,
        )  # fmt: skip
    return log_lines.LaunchLine(
        vector=v.number, scope="union" if event.scope < 0 else names[event.scope],
        items=tuple(v.items.tolist()), labels=tuple(v.labels.tolist()), n=v.n, alpha=v.alpha,
    )  # fmt: skip


def label_code(label: Any, classes: Sequence[Any]) -> int:
    """Position of a label among the classes; a skip has its own code."""
    if isinstance(label, str) and label == SKIP and SKIP not in classes:
        return SKIPPED
    plain = label.item() if isinstance(label, np.generic) else label
    if isinstance(plain, str | int | float):
        for code, known in enumerate(classes):
            if type(known) is type(plain) and known == plain:
                return code
        for code, known in enumerate(classes):
            if known == plain and isinstance(known, bool) == isinstance(plain, bool):
                return code
    near = nearest(str(label), map(str, classes)).replace("(nearest:", "did you mean")
    hint = f";{near[:-1]}?" if near else ""
    raise InvalidInputError(
        f"{shown(label)} is not a class of this campaign{hint} (classes: {listed(classes)})"
    )
