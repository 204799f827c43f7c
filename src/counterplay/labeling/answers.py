"""What people said: answers and other events, what follows from them, and the result to read.

Source: docs/theory/06-labeling.md, "Sessions with people".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.programs import minimize_integer
from counterplay.core.report import Report
from counterplay.core.validation import BoolArray, FloatArray
from counterplay.errors import InvalidInputError
from counterplay.labeling.model import PoolProblem

if TYPE_CHECKING:
    import pandas as pd


@checked
@dataclass(frozen=True)
class Answer:
    """Event: somebody gave a label, here as its code 0, 1, ..."""

    agent: int
    point: int
    label: int


@checked
@dataclass(frozen=True)
class Retraction:
    """Event: the answers for a point were taken back."""

    point: int


Event: TypeAlias = Answer | Retraction


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class LabelingResult(Report):
    """Labels of a session, who gave them, and what they rest on.

    Attributes
    ----------
    problem:
        The campaign.
    classes:
        The labels people use.
    answers:
        What people said.
    labels:
        The most probable label of each point.
    confidence_if_realizable:
        Its probability, if one of the problem's labelings is right on every point and answers are
        right. The questions do not test this: without it the number says nothing, 1.0 included. To
        test it, audit the labels: :meth:`LabelingSession.verify`.
    """

    problem: PoolProblem
    classes: tuple[Any, ...]
    answers: tuple[Answer, ...]
    labels: NDArray[Any]
    confidence_if_realizable: FloatArray

    def summary(self) -> str:
        """Who answered how much, what the labels assume, and what no longer applies."""
        p, n = self.problem, len(self.answers)
        loads = np.bincount([a.agent for a in self.answers], minlength=p.k)
        shares = ", ".join(f"{p.name(i)}: {loads[i]}" for i in range(p.k))
        inferred = p.m - len({answer.point for answer in self.answers})
        lines = [
            f"{n} answers ({shares}); {inferred} of {p.m} labels were inferred, nobody gave them",
            f"assumed, not tested: {assumption(p)}",
            "then, and only then, the least certain label has probability "
            f"{self.confidence_if_realizable.min():.3f}",
        ]
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per point: its label, who was asked and what he said.

        The index is that of the pool, or the points' names.
        """
        import pandas as pd

        given = {answer.point: answer for answer in self.answers}
        asked = [given.get(x) for x in range(self.problem.m)]
        return pd.DataFrame(
            {
                "label": self.labels,
                "agent": [None if a is None else self.problem.name(a.agent) for a in asked],
                "answer": [None if a is None else self.classes[a.label] for a in asked],
                "confidence_if_realizable": self.confidence_if_realizable,
            },
            index=pd.RangeIndex(self.problem.m)
            if self.problem.point_ids is None
            else pd.Index(self.problem.point_ids),
        )


@checked
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
    wrong = contradicted(problem, answers)
    if not wrong.any(axis=1).all():
        raise InvalidInputError("some labeling agrees with all answers; there is no conflict")
    rows = np.unique(wrong, axis=0).astype(np.float64)
    chosen = minimize_integer(np.ones(len(answers)), rows=rows, low=1, what="the conflict").point
    return tuple(answer for answer, used in zip(answers, chosen) if used > 0.5)


def assumption(problem: PoolProblem) -> str:
    """What inferred labels and expected queries rest on, as text."""
    return f"one of the {problem.N} labelings is right on every point, and answers are right"


def contradicted(problem: PoolProblem, answers: Sequence[Answer]) -> BoolArray:
    """Which labelings contradict which answers, ``(N, answers)``."""
    points = [answer.point for answer in answers]
    wrong: BoolArray = problem.H[:, points] != [answer.label for answer in answers]
    return wrong


def posterior(problem: PoolProblem, answers: Sequence[Answer]) -> FloatArray:
    """Probability of each labeling given answers that are right."""
    wrong = contradicted(problem, answers).any(axis=1)
    weights = problem.prior.astype(np.float64) * ~wrong
    result: FloatArray = weights / weights.sum()
    return result
