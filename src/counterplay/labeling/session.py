"""Run a protocol with real labelers: ask, tell, stop, resume.

A session is its log of events: answers and retractions. State and result are a replay of the log,
and the saved JSON holds just that, with a fingerprint of the problem. An answer that contradicts
every hypothesis is not recorded; the error names a smallest set of answers that cannot all be true.
A protocol asks only what splits the labelings that are left, so with two labels wrong answers, or a
list of labelings without the right one, usually go unnoticed: audit the labels with ``verify``.
Source: docs/theory/06-labeling.md, "Sessions with people".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.records import (
    check_fingerprint,
    read_record,
    refusal,
    require_state,
    write_record,
)
from counterplay.core.seeds import RandomState, generator
from counterplay.core.session import Session
from counterplay.core.transcript import Transcript
from counterplay.core.validation import FloatArray, check_int
from counterplay.errors import (
    ContradictionError,
    InvalidInputError,
    InvalidStateError,
    ProtocolError,
)
from counterplay.labeling.algorithm import QueryAlgorithm, State
from counterplay.labeling.answers import (
    Answer,
    Event,
    LabelingResult,
    Retraction,
    contradicted,
    posterior,
    smallest_conflict,
)
from counterplay.labeling.audit import LabelAudit
from counterplay.labeling.gbs import label_masses
from counterplay.labeling.model import PoolProblem
from counterplay.labeling.saved import (
    WHAT,
    SavedAnswer,
    SavedEvent,
    SavedRetraction,
    SavedSession,
    export_text,
    problem_fingerprint,
    saved_event,
)
from counterplay.tables.cells import listed, shown


@checked
@dataclass(frozen=True)
class LabelQuery:
    """One question: which agent should label which point.

    Examples
    --------
    >>> LabelQuery(agent=0, point=3, agent_name="north", point_name="scan 3")
    LabelQuery(agent=0, point=3, agent_name='north', point_name='scan 3')
    """

    agent: int
    point: int
    agent_name: str = field(default="", compare=False)
    point_name: str = field(default="", compare=False)


@checked
class LabelingSession(Session):
    """A labelling protocol in progress: who is asked about which point next.

    Use it to drive people or a labelling tool: call :meth:`ask`, hand the question to its agent,
    call :meth:`tell` with the label, until :meth:`ask` returns None.

    Parameters
    ----------
    problem:
        The campaign.
    protocol:
        What decides who is asked.
    seed:
        Seed of the protocol's own randomness (mixtures, random owners).
    classes:
        The labels people use, in the order 0, 1, ...; default the numbers themselves.

    Attributes
    ----------
    answers:
        The answers that stand, in the order in which they were given.

    Examples
    --------
    >>> from counterplay.labeling import GBS, instances
    >>> problem = instances.threshold_example()
    >>> session = LabelingSession(problem, GBS(tie_break=[1, 3, 6]), seed=0)
    >>> while (query := session.ask()) is not None:
    ...     session.tell(int(problem.H[2, query.point]))
    >>> session.labels
    array([0, 0, 1, 0, 0, 0, 1])
    >>> print(session.result().summary())
    2 answers (agent 1: 1, agent 2: 1); 5 of 7 labels were inferred, nobody gave them
    assumed, not tested: one of the 4 labelings is right on every point, and answers are right
    then, and only then, the least certain label has probability 1.000

    References
    ----------
    "Sessions with people", see docs/theory/06-labeling.md.
    """

    def __init__(
        self,
        problem: PoolProblem,
        protocol: QueryAlgorithm,
        *,
        seed: int = 0,
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.problem, self.protocol = problem, protocol
        self.seed = check_int(seed, "seed", low=0)
        names = range(problem.n_classes) if classes is None else classes
        self.classes: tuple[Any, ...] = tuple(names)
        if len(self.classes) <= problem.H.max():
            raise InvalidInputError(
                f"classes must name {problem.H.max() + 1} labels, got {listed(self.classes)}"
            )
        self.answers: tuple[Answer, ...] = ()
        self._events: tuple[Event, ...] = ()
        self._state: State = protocol.start(problem, None, generator(self.seed))
        self._kept: list[Answer] = []  # paid before a retraction, not asked for again so far
        self._open: LabelQuery | None = None

    @property
    def events(self) -> tuple[Event, ...]:
        """Answers and retractions, in order."""
        return self._events

    def ask(self) -> LabelQuery | None:
        """The next question, or None when every label is known; the same until it is answered."""
        if self._open is None:
            query = self._state.next_query()
            if query is not None:
                names = self.problem.name(query[0]), self.problem.point_name(query[1])
                self._open = LabelQuery(*query, *names)
        return self._open

    @overload
    def tell(self, answer: Any, /) -> None: ...

    @overload
    def tell(self, question: LabelQuery, answer: Any, /) -> None: ...

    def tell(self, *answer: Any) -> None:
        """Record the label of the open question: ``tell(label)`` or ``tell(question, label)``.

        The longer form is that of sessions with several open questions; it also refuses the answer
        to another question. Raises ``ContradictionError`` when no hypothesis agrees with all
        answers; the session stays as it was, so the label can be corrected or an answer retracted
        (:meth:`retract`). If people err or no labeling is right, use :class:`Campaign`.
        """
        current = self.ask()
        if current is None:
            raise ProtocolError("the campaign is finished; there is nothing to tell")
        *question, label = answer or (None,)
        if question and question != [current]:
            raise ProtocolError(
                f"the open question is {current.point_name} for {current.agent_name}, "
                f"not {str(question[0])[:200]}"
            )
        self._take(Answer(current.agent, current.point, self._code(label)))

    def retract(self, point: int) -> None:
        """Forget the answers for a point; all others stay and are used where they are asked for.

        The protocol starts again with the answers that are there. Where its path has changed, some
        of them are no longer asked for: they still count for the labels, and as work done.
        """
        point = check_int(point, "point", low=0, high=self.problem.m - 1)
        kept = tuple(answer for answer in self.answers if answer.point != point)
        if len(kept) == len(self.answers):
            raise InvalidInputError(f"there is no answer for point {point} to retract")
        self.answers = kept
        self._log(Retraction(point))
        self._state = self.protocol.start(self.problem, None, generator(self.seed))
        self._kept = list(kept)
        self._use_kept()

    @property
    def posterior(self) -> FloatArray:
        """Probability of each labeling given the answers."""
        return posterior(self.problem, self.answers)

    @property
    def labels(self) -> NDArray[Any]:
        """The most probable label of each point.

        Once :meth:`ask` returns None they follow from the answers if one labeling is right.
        """
        return self.result().labels

    def result(self) -> LabelingResult:
        """Labels so far, who gave them, and what they rest on."""
        masses = self._label_masses()
        codes = masses.argmax(axis=0)
        labels = np.array(self.classes)[codes]
        return LabelingResult(
            self.problem, self.classes, self.answers, labels, masses.max(axis=0)
        )  # fmt: skip

    def verify(
        self,
        *,
        max_error: float = 0.05,
        confidence: float = 0.95,
        random_state: RandomState = None,
    ) -> LabelAudit:
        """Audit the labels of a finished session: nothing in it tests that a labeling is right.

        Parameters
        ----------
        max_error:
            Share of wrong labels that the audit is to exclude.
        confidence:
            One minus the probability of a false certificate.
        random_state:
            Seed of the order of checks; leave it out in a real audit.
        """
        if self.ask() is not None:
            raise ProtocolError("the campaign is not finished; there are questions left")
        return LabelAudit(
            self.labels, max_error=max_error, confidence=confidence, random_state=random_state
        )

    def transcript(self) -> Transcript:
        """Who answered what, with the remaining uncertainty in bits before and after."""
        steps = [posterior(self.problem, self.answers[:n]) for n in range(len(self.answers) + 1)]
        entropies = np.array([_entropy(step) for step in steps])
        left = [np.count_nonzero(step > 0) for step in steps]
        columns = {
            "agent": np.array([answer.agent for answer in self.answers], dtype=np.int64),
            "point": np.array([answer.point for answer in self.answers], dtype=np.int64),
            "label": np.array([answer.label for answer in self.answers], dtype=np.int64),
            "entropy_before": entropies[:-1],
            "entropy_after": entropies[1:],
            "hypotheses_left": np.array(left[1:], dtype=np.int64),
        }
        return Transcript(columns, {"protocol": repr(self.protocol), "seed": self.seed})

    def to_json(self) -> str:
        """The session as JSON: seed, events, and a fingerprint of the problem."""
        record = SavedSession(
            kind="LabelingSession",
            version=5,
            problem=problem_fingerprint(self.problem, self.classes),
            seed=self.seed,
            events=tuple(map(saved_event, self.events)),
        )
        return write_record(record)

    @classmethod
    def from_json(
        cls,
        text: str,
        problem: PoolProblem,
        protocol: QueryAlgorithm,
        *,
        classes: Sequence[Any] | None = None,
    ) -> LabelingSession:
        """Replay the events of :meth:`to_json`.

        Raises ``InvalidStateError`` when the text was saved for another problem or holds something
        that no session writes.
        """
        saved = read_record(text, SavedSession, what=WHAT)
        session = cls(problem, protocol, seed=saved.seed, classes=classes)
        check_fingerprint(saved.problem, problem_fingerprint(problem, session.classes), what=WHAT)
        for i, event in enumerate(saved.events):
            try:
                session._replay(event, f"events[{i}]")
            except InvalidStateError:
                raise
            except InvalidInputError as error:
                raise refusal(WHAT, f"events[{i}]", str(error)) from None
        return session

    def export(self, study: str = "campaign") -> str:
        """Events and result as lines of text that ``counterplay verify`` recomputes."""
        codes = self._label_masses().argmax(axis=0)
        return export_text(study, self.events, self.result(), codes)

    def __repr__(self) -> str:
        return f"LabelingSession({len(self.answers)} answers, {self.problem!r})"

    def _take(self, answer: Answer) -> None:
        """Record an answer that is known to be asked for."""
        self._check_consistent((*self.answers, answer))
        self._state.update(answer.point, answer.label)
        self._use_kept()
        self.answers = (*self.answers, answer)
        self._log(answer)

    def _use_kept(self) -> None:
        """Answer the protocol's questions with what was paid before a retraction."""
        while self._kept and (query := self._state.next_query()) is not None:
            agent, point = query
            given = [answer for answer in self._kept if answer.point == point]
            if not given:
                return
            used = min(given, key=lambda answer: answer.agent != agent)
            self._kept.remove(used)
            self._state.update(point, used.label)

    def _log(self, event: Event) -> None:
        self._events, self._open = (*self._events, event), None

    def _replay(self, event: SavedEvent, where: str) -> None:
        """Apply one saved event after checking it."""
        p = self.problem
        match event:
            case SavedAnswer(agent=agent, point=point, label=label):
                sizes = {"agent": p.k, "point": p.m, "label": len(self.classes)}
                for name, value in (("agent", agent), ("point", point), ("label", label)):
                    size = sizes[name]
                    told = f"must be below {size}, got {value}"
                    require_state(value < size, WHAT, f"{where}.{name}", told)
                answer = Answer(agent, point, label)
                self._check_asked(answer, where)
                self._take(answer)
            case SavedRetraction(point=point):
                self.retract(point)

    def _check_asked(self, answer: Answer, where: str) -> None:
        """A saved answer must be to a question that could have been open."""
        p, asked = self.problem, (answer.agent, answer.point)
        open_now = self._state.next_query()
        told = f"the protocol asks {open_now}, the answer is to {asked}"
        require_state(open_now == asked, WHAT, where, told)
        told = f"{p.name(answer.agent)} does not own {p.point_name(answer.point)}"
        require_state(p.owner_mask[asked], WHAT, where, told)

    def _check_consistent(self, answers: Sequence[Answer]) -> None:
        if not contradicted(self.problem, answers).any(axis=1).all():
            return
        conflict = smallest_conflict(self.problem, answers)
        named = ", ".join(
            f"{self.problem.point_name(a.point)[:20]} = {str(self.classes[a.label])[:20]} "
            f"({self.problem.name(a.agent)[:20]})"
            for a in conflict[:3]
        )
        named += f" and {len(conflict) - 3} more" if len(conflict) > 3 else ""
        raise ContradictionError(
            f"no hypothesis agrees with these {len(conflict)} answers: {named}; correct or retract "
            "one; if people err, use Campaign",
            conflict=conflict,
        )

    def _label_masses(self) -> FloatArray:
        posterior = self.posterior
        alive = np.flatnonzero(posterior > 0)
        return label_masses(self.problem.H[alive], posterior[alive], self.problem.n_classes)

    def _code(self, label: Any) -> int:
        for code, known in enumerate(self.classes):
            if label == known:
                return code
        raise InvalidInputError(
            f"{shown(label)} is not a label of this campaign; use one of {listed(self.classes)}"
        )


def _entropy(posterior: FloatArray) -> float:
    p = posterior[posterior > 0]
    return float(max(0.0, -(p * np.log2(p)).sum()))
