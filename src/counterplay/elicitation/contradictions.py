"""Which answers exclude each other, and the fewest to set aside.

Source: docs/theory/08-elicitation.md, "Proposition 8.O: contradictions".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.programs import minimize_integer, minimize_linear
from counterplay.core.validation import FloatArray, check_float_array, check_real
from counterplay.elicitation.comparisons import Answer
from counterplay.elicitation.consistent_set import ConsistentSet, answer_rows
from counterplay.errors import InvalidInputError

LabelledAnswer: TypeAlias = tuple[FloatArray, Answer]


def explainable(answers: Sequence[LabelledAnswer], scale: float = 1.0) -> bool:
    """Whether some preference (w, eps) explains all answers; ``scale`` bounds eps."""
    return not answers or ConsistentSet(len(answers[0][0]), scale).reset(answers)


@checked
def smallest_conflict(answers: Sequence[LabelledAnswer], scale: float = 1.0) -> tuple[int, ...]:
    """Return positions of answers that exclude each other, none of which can be left out.

    Empty if a preference explains all answers.

    Examples
    --------
    >>> a, b = np.array([1.0, -1.0]), np.array([1.0, -2.0])
    >>> smallest_conflict([(a, Answer.FIRST), (b, Answer.SECOND), (a, Answer.SECOND)])
    (0, 2)
    """
    _check_answers(answers, scale)
    kept = list(range(len(answers)))
    if explainable(answers, scale):
        return ()
    for position in range(len(answers)):
        trial = [i for i in kept if i != position]
        if trial and not explainable([answers[i] for i in trial], scale):
            kept = trial
    return tuple(kept)


@checked
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
    _check_answers(answers, scale)
    conflicts: list[tuple[int, ...]] = []
    while True:
        dropped = _smallest_hitting(conflicts, len(answers))
        kept = [i for i in range(len(answers)) if i not in dropped]
        if explainable([answers[i] for i in kept], scale):
            return dropped
        conflict = _some_conflict([answers[i] for i in kept], scale)
        conflicts.append(tuple(kept[i] for i in conflict))


def _check_answers(answers: Sequence[LabelledAnswer], scale: float) -> None:
    """Refuse answers that are not about the same objectives."""
    check_real(scale, "scale", low=0.0, open_low=True)
    sizes = {check_float_array(difference, "answers", ndim=1).size for difference, _ in answers}
    if len(sizes) > 1:
        raise InvalidInputError(f"answers are about {min(sizes)} and about {max(sizes)} objectives")


def _smallest_hitting(conflicts: Sequence[tuple[int, ...]], n: int) -> tuple[int, ...]:
    """A smallest set of positions below n that meets every conflict, later positions first."""
    if not conflicts:
        return ()
    members = np.zeros((len(conflicts), n))
    for row, conflict in zip(members, conflicts):
        row[list(conflict)] = 1.0
    prices = 1.0 - np.arange(n) / (2.0 * n * n)  # all preferences together weigh less than one
    found = minimize_integer(prices, rows=members, low=1.0, gap=0.0)
    return tuple(int(i) for i in np.flatnonzero(found.point > 0.5))


def _some_conflict(answers: Sequence[LabelledAnswer], scale: float) -> tuple[int, ...]:
    """A smallest conflict among unexplainable answers, from the multipliers of one linear program.

    The program asks for the preference that explains all answers by the largest margin. Where none
    has a positive one, the rows with a multiplier contradict each other.
    """
    rows, owners, strict = [], [], []
    for i, (difference, said) in enumerate(answers):
        for row in answer_rows(difference, said):
            rows.append(row / np.abs(row).max())
            owners.append(i)
            strict.append(said is not Answer.INDISTINGUISHABLE)
    k = len(rows[0]) - 1
    best = minimize_linear(
        np.append(np.zeros(k + 1), -1.0),
        A_ub=np.hstack([-np.array(rows), np.array(strict, dtype=np.float64)[:, None]]),
        b_ub=np.zeros(len(rows)),
        A_eq=np.concatenate([np.ones(k), [0.0, 0.0]])[None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * k + [(0.0, scale), (None, 1.0)],
        allow=("infeasible", "limit"),
    )
    if best.upper_duals is not None:
        blamed = {owners[i] for i in np.flatnonzero(best.upper_duals < -1e-9)}
        suspects = sorted(blamed)
        if suspects and not explainable([answers[i] for i in suspects], scale):
            conflict = smallest_conflict([answers[i] for i in suspects], scale)
            return tuple(suspects[i] for i in conflict)
    return smallest_conflict(answers, scale)  # rounding: look at all of them
