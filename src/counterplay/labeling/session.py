"""Run a protocol with real labelers: ask, tell, stop, resume, and survive wrong labels.

A session is the list of answers so far plus the protocol; its JSON state holds just that. It is
checked and replayed on resume, so nothing depends on when or where it was stopped. An answer that
contradicts every hypothesis is not recorded; the error names a smallest set of answers that cannot
all be true. A protocol asks only what splits the labelings that are left, so with two labels wrong
answers, or a list of labelings without the right one, usually go unnoticed.
Source: spec 06, sections 3.12 and 9.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from counterplay.core.seeds import RandomState, generator
from counterplay.core.transcript import Transcript
from counterplay.core.validation import FloatArray, IntArray, check_int, check_real
from counterplay.errors import (
    AssumptionWarning,
    ContradictionError,
    InvalidInputError,
    NotRealizableError,
    ProtocolError,
)
from counterplay.labeling.algorithm import QueryAlgorithm, State
from counterplay.labeling.gbs import GBS
from counterplay.labeling.model import PoolProblem

if TYPE_CHECKING:
    import pandas as pd

_FORMAT = 2


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
    agent_name: str = ""
    point_name: str = ""


@dataclass(frozen=True)
class Answer:
    """A label somebody gave."""

    agent: int
    point: int
    label: int


class LabelingSession:
    """A protocol in progress.

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

    Examples
    --------
    >>> from counterplay.labeling import GBS, instances
    >>> problem = instances.threshold_example()
    >>> session = LabelingSession(problem, GBS(tie_break=[1, 3, 6]), seed=0)
    >>> while (query := session.ask()) is not None:
    ...     session.tell(query, int(problem.H[2, query.point]))
    >>> session.labels
    array([0, 0, 1, 0, 0, 0, 1])
    >>> print(session.summary())
    2 answers (agent 1: 1, agent 2: 1); 5 of 7 labels were inferred, nobody gave them
    assumed, not tested: one of the 4 labelings is right on every point, and answers are right
    then, and only then, the least certain label has probability 1.000
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
        self.answers: tuple[Answer, ...] = ()
        self.noise: float | None = None
        self._state: State = protocol.start(problem, None, generator(self.seed))

    def ask(self) -> LabelQuery | None:
        """The next question, or None when every label is known."""
        query = self._noisy_query() if self.noise is not None else self._state.next_query()
        if query is None:
            return None
        agent, x = query
        return LabelQuery(agent, x, self.problem.name(agent), self.problem.point_name(x))

    def tell(self, query: LabelQuery, label: Any) -> None:
        """Record the label of the current question.

        Raises ``ContradictionError`` when no hypothesis agrees with all answers; the session stays
        as it was, so the label can be corrected, an answer retracted (:meth:`retract`), or the
        campaign continued with :meth:`tolerate_noise`.
        """
        current = self.ask()
        if current is None:
            raise ProtocolError("the campaign is finished; there is nothing to tell")
        if (query.agent, query.point) != (current.agent, current.point):
            raise ProtocolError(
                f"the open question is {current.point_name} for {current.agent_name}, "
                f"not point {query.point}"
            )
        answer = Answer(current.agent, current.point, self._code(label))
        if self.noise is None:
            self._update_exact(answer)
        self.answers = (*self.answers, answer)

    def retract(self, point: int) -> None:
        """Forget the answer for a point and replay all others as far as they are asked again."""
        kept = tuple(answer for answer in self.answers if answer.point != point)
        if len(kept) == len(self.answers):
            raise InvalidInputError(f"there is no answer for point {point} to retract")
        known = {answer.point: answer.label for answer in kept}
        noise, self.noise, self.answers = self.noise, None, ()
        self._state = self.protocol.start(self.problem, None, generator(self.seed))
        if noise is not None:
            self.noise, self.answers = noise, kept
            return
        while (query := self.ask()) is not None and query.point in known:
            self.tell(query, self.classes[known[query.point]])

    def tolerate_noise(self, error_rate: float = 0.05) -> None:
        """From now on let each answer be wrong with this probability, independently.

        The posterior weighs a hypothesis by ``(q / (1 - q))`` per contradicted answer. Questions
        are chosen by generalized binary search on it, each point at most once, and go to the owner
        with the fewest answers. This is not the protocol any more: what an incentive report
        promises about each party's work does not apply, as an ``AssumptionWarning`` says. Answers
        may be outvoted by the labelings; see :attr:`overruled`.
        """
        self.noise = _error_rate(error_rate, "error_rate")
        warnings.warn(
            "tolerate_noise leaves the planned protocol: questions go to the least loaded owner, "
            "and the expected queries and incentives of the plan's report do not apply",
            AssumptionWarning,
            stacklevel=2,
        )

    @property
    def posterior(self) -> FloatArray:
        """Probability of each labeling given the answers."""
        weights: FloatArray = self.problem.prior.astype(np.float64)
        wrong = np.zeros(self.problem.N)
        for answer in self.answers:
            wrong += self.problem.H[:, answer.point] != answer.label
        if self.noise is None:
            weights = weights * (wrong == 0)
        else:
            weights = weights * (self.noise / (1 - self.noise)) ** (wrong - wrong.min())
        posterior: FloatArray = weights / weights.sum()
        return posterior

    @property
    def confidence_if_realizable(self) -> FloatArray:
        """Probability of the most probable label of each point, if one labeling is right.

        It assumes that one of the problem's labelings is right on every point and that answers are
        right (or wrong independently at the rate of :meth:`tolerate_noise`). The questions do not
        test this: without it the number says nothing, 1.0 included. To test it, let people label
        randomly drawn points and count how often :attr:`labels` is wrong.
        """
        confidence: FloatArray = self._label_masses().max(axis=0)
        return confidence

    @property
    def overruled(self) -> tuple[Answer, ...]:
        """Answers that :attr:`labels` contradicts; empty unless noise is tolerated."""
        codes = self._label_masses().argmax(axis=0)
        return tuple(answer for answer in self.answers if codes[answer.point] != answer.label)

    def summary(self) -> str:
        """Who answered how much, what the labels assume, and what no longer applies."""
        p, n = self.problem, len(self.answers)
        loads = np.bincount([a.agent for a in self.answers], minlength=p.k)
        shares = ", ".join(f"{p.name(i)}: {loads[i]}" for i in range(p.k))
        lines = [
            f"{n} answers ({shares}); {p.m - n} of {p.m} labels were inferred, nobody gave them",
            f"assumed, not tested: {assumption(p, self.noise)}",
            "then, and only then, the least certain label has probability "
            f"{self.confidence_if_realizable.min():.3f}",
        ]
        if self.noise is not None:
            lines.append(
                "the planned protocol is not followed: the expected queries and incentives of "
                "the plan's report do not apply"
            )
            lines.append(f"{len(self.overruled)} of {n} answers are overruled by the labelings")
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per point: its label, who was asked and what he said, and whether it counted."""
        import pandas as pd

        given = {answer.point: answer for answer in self.answers}
        asked = [given.get(x) for x in range(self.problem.m)]
        lost = set(self.overruled)
        return pd.DataFrame(
            {
                "label": self.labels,
                "agent": [None if a is None else self.problem.name(a.agent) for a in asked],
                "answer": [None if a is None else self.classes[a.label] for a in asked],
                "overruled": [a in lost for a in asked],
                "confidence_if_realizable": self.confidence_if_realizable,
            },
            index=pd.Index([self.problem.point_name(x) for x in range(self.problem.m)]),
        )

    @property
    def labels(self) -> NDArray[Any]:
        """The most probable label of each point.

        Once :meth:`ask` returns None they follow from the answers if one labeling is right.
        """
        codes = self._label_masses().argmax(axis=0)
        labels: NDArray[Any] = np.array(self.classes)[codes]
        return labels

    def transcript(self) -> Transcript:
        """Who answered what, with the remaining uncertainty in bits before and after."""
        replay = LabelingSession(self.problem, self.protocol, seed=self.seed)
        replay.noise = self.noise
        entropies, sizes = [_entropy(replay.posterior)], [self.problem.N]
        for n in range(len(self.answers)):
            replay.answers = self.answers[: n + 1]
            posterior = replay.posterior
            entropies.append(_entropy(posterior))
            sizes.append(int(np.count_nonzero(posterior > 0)))
        columns = {
            "agent": np.array([answer.agent for answer in self.answers], dtype=np.int64),
            "point": np.array([answer.point for answer in self.answers], dtype=np.int64),
            "label": np.array([answer.label for answer in self.answers], dtype=np.int64),
            "entropy_before": np.array(entropies[:-1]),
            "entropy_after": np.array(entropies[1:]),
            "hypotheses_left": np.array(sizes[1:], dtype=np.int64),
        }
        return Transcript(columns, {"protocol": repr(self.protocol), "seed": self.seed})

    def to_json(self) -> str:
        """The state as JSON: seed, answers, noise, and a fingerprint of the problem."""
        answers = [[answer.agent, answer.point, answer.label] for answer in self.answers]
        state = {
            "format": _FORMAT,
            "problem": _fingerprint(self.problem, self.classes),
            "seed": self.seed,
            "noise": self.noise,
            "answers": answers,
        }
        return json.dumps(state)

    def replay(self, text: str) -> None:
        """Bring a fresh session to the state of :meth:`to_json`.

        Raises ``InvalidInputError``, and leaves the session as it is, when the text was saved for
        another problem or holds something that no session writes.
        """
        state = _parse(text)
        if self.answers:
            raise ProtocolError("only a fresh session can be resumed")
        if state.get("problem") != _fingerprint(self.problem, self.classes):
            raise InvalidInputError(
                "the saved session belongs to another problem: points, their order, owners, "
                "labelings, weights and classes must be those of the session that was saved"
            )
        seed = check_int(state.get("seed"), "seed of the saved session", low=0)
        noise = state.get("noise")
        answers = self._read_answers(state.get("answers"))
        fresh = LabelingSession(self.problem, self.protocol, seed=seed, classes=self.classes)
        if noise is None:
            for answer in answers:
                fresh._play(answer)
        else:
            fresh.noise = _error_rate(noise, "noise of the saved session")
            fresh.answers = answers
        self.seed, self.noise, self.answers = seed, fresh.noise, fresh.answers
        self._state = fresh._state

    def __repr__(self) -> str:
        return f"LabelingSession({len(self.answers)} answers, {self.problem!r})"

    def _read_answers(self, rows: Any) -> tuple[Answer, ...]:
        """Saved answers as records, after checking everything that can be checked alone."""
        p, answers, seen = self.problem, [], set()
        if not isinstance(rows, list):
            raise InvalidInputError("the saved session has no list of answers")
        for i, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != 3:
                raise InvalidInputError(f"saved answer {i} must be a list: agent, point, label")
            agent = check_int(row[0], f"agent of saved answer {i}", low=0, high=p.k - 1)
            point = check_int(row[1], f"point of saved answer {i}", low=0, high=p.m - 1)
            label = check_int(
                row[2], f"label code of saved answer {i}", low=0, high=len(self.classes) - 1
            )
            if not p.owner_mask[agent, point]:
                raise InvalidInputError(
                    f"saved answer {i}: {p.name(agent)} does not own {p.point_name(point)}"
                )
            if point in seen:
                raise InvalidInputError(f"saved answer {i} repeats {p.point_name(point)}")
            seen.add(point)
            answers.append(Answer(agent, point, label))
        return tuple(answers)

    def _play(self, answer: Answer) -> None:
        """Give a saved answer, which the protocol must ask for now."""
        query = self.ask()
        if query is None or (query.agent, query.point) != (answer.agent, answer.point):
            raise InvalidInputError(
                "the saved answers do not belong to this campaign: the protocol asks "
                f"{query}, the file answers point {answer.point}"
            )
        self.tell(query, self.classes[answer.label])

    def _update_exact(self, answer: Answer) -> None:
        try:
            self._state.update(answer.point, answer.label)
        except NotRealizableError as error:
            conflict = smallest_conflict(self.problem, (*self.answers, answer))
            named = ", ".join(
                f"{self.problem.point_name(a.point)} = {self.classes[a.label]} "
                f"({self.problem.name(a.agent)})"
                for a in conflict
            )
            raise ContradictionError(
                f"no hypothesis agrees with these {len(conflict)} answers: {named}; correct one, "
                "retract one, or call tolerate_noise()",
                conflict=conflict,
            ) from error

    def _noisy_query(self) -> tuple[int, int] | None:
        asked = {answer.point for answer in self.answers}
        certain = self.confidence_if_realizable >= 1.0 - 1e-3
        left = np.array([x for x in range(self.problem.m) if x not in asked and not certain[x]])
        if left.size == 0:
            return None
        x = GBS().choose(self.problem, self.posterior, left)
        if x is None:
            return None
        loads = np.bincount([a.agent for a in self.answers], minlength=self.problem.k)
        owners = np.flatnonzero(self.problem.owner_mask[:, x])
        return int(owners[np.argmin(loads[owners])]), x

    def _label_masses(self) -> FloatArray:
        posterior = self.posterior
        rows = [posterior @ (label == self.problem.H) for label in range(self.problem.n_classes)]
        return np.stack(rows)

    def _code(self, label: Any) -> int:
        for code, known in enumerate(self.classes):
            if label == known:
                return code
        raise InvalidInputError(
            f"{label!r} is not a label of this campaign; use one of {list(self.classes)}"
        )


def smallest_conflict(problem: PoolProblem, answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """A smallest set of answers that no labeling agrees with: a minimum hitting set.

    Examples
    --------
    >>> from counterplay.labeling import instances
    >>> thresholds = instances.identical_pools(k=1)
    >>> told = [Answer(0, 5, 1), Answer(0, 1, 1), Answer(0, 3, 0)]
    >>> [answer.point for answer in smallest_conflict(thresholds, told)]
    [1, 3]
    """
    contradicted = np.stack([problem.H[:, a.point] != a.label for a in answers], axis=1)
    if not contradicted.any(axis=1).all():
        raise InvalidInputError("some labeling agrees with all answers; there is no conflict")
    rows = np.unique(contradicted, axis=0).astype(np.float64)
    n = len(answers)
    result = milp(
        np.ones(n), constraints=LinearConstraint(rows, lb=1), integrality=np.ones(n),
        bounds=Bounds(0, 1),
    )  # fmt: skip
    return tuple(answer for answer, used in zip(answers, result.x) if used > 0.5)


def run(
    protocol: QueryAlgorithm,
    problem: PoolProblem,
    labels: Sequence[int] | NDArray[Any],
    *,
    random_state: RandomState = None,
) -> Transcript:
    """Run a protocol against known labels and return the transcript.

    Examples
    --------
    >>> from counterplay.labeling import B2IR, GBS, instances
    >>> problem = instances.gbs_counterexample(6)
    >>> game = run(B2IR(GBS(tie_break=[8])), problem, problem.H[0], random_state=0)
    >>> game["agent"]
    array([0, 0, 0, 1])
    """
    truth = np.asarray(labels)
    if truth.shape != (problem.m,):
        raise InvalidInputError(f"labels must have length {problem.m}, got shape {truth.shape}")
    seed = int(generator(random_state).integers(2**32))
    session = LabelingSession(problem, protocol, seed=seed)
    while (query := session.ask()) is not None:
        session.tell(query, int(truth[query.point]))
    return session.transcript()


def simulate(
    protocol: QueryAlgorithm, problem: PoolProblem, targets: IntArray | None = None
) -> NDArray[Any]:
    """Queries of each agent for each target (default: all), through the cost matrix.

    Examples
    --------
    >>> from counterplay.labeling import GBS, instances
    >>> simulate(GBS(), instances.threshold_example()).sum(axis=1)
    array([2, 2, 2, 2])
    """
    costs = protocol.cost_matrix(problem)
    return costs if targets is None else costs[targets]


def _entropy(posterior: FloatArray) -> float:
    p = posterior[posterior > 0]
    return float(max(0.0, -(p * np.log2(p)).sum()))


def assumption(problem: PoolProblem, noise: float | None = None) -> str:
    """What inferred labels and expected queries rest on, as text."""
    answers = "are right" if noise is None else f"are wrong independently with chance {noise:g}"
    return f"one of the {problem.N} labelings is right on every point, and answers {answers}"


def _error_rate(value: Any, name: str) -> float:
    return check_real(value, name, low=0.0, high=0.5, open_low=True, open_high=True)


def _fingerprint(problem: PoolProblem, classes: Sequence[Any]) -> str:
    """Digest of everything that gives the numbers of a saved answer their meaning."""
    digest = hashlib.blake2b(np.ascontiguousarray(problem.H).tobytes(), digest_size=16)
    # nine digits: the same weights computed on another machine may differ in the last bits
    weights = [f"{float(w):.9g}" for w in problem.prior]
    owned = [columns.tolist() for columns in problem.agents]
    names = [problem.point_ids, problem.agent_names, [str(label) for label in classes]]
    digest.update(repr((problem.H.shape, problem.n_classes, weights, owned, names)).encode())
    return digest.hexdigest()


def _parse(text: str) -> Mapping[str, Any]:
    try:
        state = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"this is not a saved session: {error}") from None
    if not isinstance(state, dict):
        raise InvalidInputError("this is not a saved session: expected a JSON object")
    if state.get("format") != _FORMAT:
        raise InvalidInputError(
            f"this saved session has format {str(state.get('format'))[:20]}, expected {_FORMAT}; "
            "sessions without a fingerprint of their problem cannot be resumed safely"
        )
    return state
