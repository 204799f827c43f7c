"""Which answers exclude each other, and the fewest to set aside.

Source: spec 08 section 2.4 (contradictory answers are detected and reported, never looped on).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from counterplay.core.validation import FloatArray
from counterplay.elicitation.comparisons import Answer
from counterplay.elicitation.consistent_set import ConsistentSet, answer_rows

LabelledAnswer: TypeAlias = tuple[FloatArray, Answer]
_MARGIN = 1e-6  # above the tolerance of the integer program


def explainable(answers: Sequence[LabelledAnswer], scale: float = 1.0) -> bool:
    """Whether some preference (w, eps) explains all answers; ``scale`` bounds eps."""
    return not answers or ConsistentSet(len(answers[0][0]), scale).reset(answers)


def smallest_conflict(answers: Sequence[LabelledAnswer], scale: float = 1.0) -> tuple[int, ...]:
    """Return positions of answers that exclude each other, none of which can be left out.

    Empty if a preference explains all answers.

    Examples
    --------
    >>> a, b = np.array([1.0, -1.0]), np.array([1.0, -2.0])
    >>> smallest_conflict([(a, Answer.FIRST), (b, Answer.SECOND), (a, Answer.SECOND)])
    (0, 2)
    """
    kept = list(range(len(answers)))
    if explainable(answers, scale):
        return ()
    for position in range(len(answers)):
        trial = [i for i in kept if i != position]
        if trial and not explainable([answers[i] for i in trial], scale):
            kept = trial
    return tuple(kept)


def fewest_to_set_aside(answers: Sequence[LabelledAnswer], scale: float = 1.0) -> tuple[int, ...]:
    """Return a smallest set of positions whose removal leaves explainable answers.

    Among several smallest sets, later answers are set aside first.

    Examples
    --------
    >>> a, b = np.array([1.0, -1.0]), np.array([1.0, -2.0])
    >>> said = [(b, Answer.FIRST), (a, Answer.SECOND), (a, Answer.FIRST)]
    >>> fewest_to_set_aside(said)
    (1,)
    """
    if explainable(answers, scale):
        return ()
    n, q = len(answers[0][0]) + 1, len(answers)
    rows, owners, least = [], [], []
    for i, (difference, said) in enumerate(answers):
        for row in answer_rows(difference, said):
            rows.append(row / np.abs(row).max())
            owners.append(i)
            least.append(0.0 if said is Answer.INDISTINGUISHABLE else _MARGIN)
    excuse = np.zeros((len(rows), q))
    excuse[np.arange(len(rows)), owners] = 2.0 + max(1.0, scale)  # more than any row can miss
    system = np.hstack([np.array(rows), excuse])
    total = np.concatenate([np.ones(n - 1), [0.0], np.zeros(q)])
    prices = np.concatenate([np.zeros(n), 1.0 - 1e-4 * np.arange(q) / q])
    upper = np.concatenate([np.ones(n - 1), [scale], np.ones(q)])
    answer = milp(
        prices,
        constraints=[LinearConstraint(system, least), LinearConstraint(total[None], 1.0, 1.0)],
        integrality=np.concatenate([np.zeros(n), np.ones(q)]),
        bounds=Bounds(np.zeros(n + q), upper),
    )
    if answer.x is None:
        return (q - 1,)
    return tuple(int(i) for i in np.flatnonzero(answer.x[n:] > 0.5)) or (q - 1,)
