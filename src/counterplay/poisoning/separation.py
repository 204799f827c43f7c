"""Does a hyperplane strictly separate two sets of points? Answered exactly, or not at all.

A linear program proposes a separator, or weights of a common point of the two convex hulls;
rational arithmetic on the rows as given confirms one or the other. Source:
docs/theory/10-poisoning.md, "Theorem 10.6: one point breaks the SVM".
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.programs import PRECISE, minimize_linear
from counterplay.core.validation import FloatArray, check_float_array
from counterplay.errors import ConvergenceError, InvalidInputError
from counterplay.poisoning.errors import NumericallyDegenerateError


@checked
def separable(X: ArrayLike, y: ArrayLike) -> bool:
    """Whether a hyperplane strictly separates the two labels, in exact arithmetic on the rows.

    Raises :class:`NumericallyDegenerateError` where neither a separator nor a common point of the
    hulls could be confirmed.

    Examples
    --------
    >>> separable([[0, 0], [1, 1], [0, 1], [1, 0]], [0, 0, 1, 1])
    False
    >>> separable([[0, 0], [1e6, 0], [0, 1e-9], [1e6, 1e-9]], [0, 0, 1, 1])
    True
    """
    points = np.atleast_2d(check_float_array(X, "X"))
    labels = np.atleast_1d(check_float_array(y, "y"))
    if points.ndim != 2 or labels.shape != (len(points),):
        raise InvalidInputError(
            f"X must be a matrix with one row per label, got {points.shape} and {labels.shape}"
        )
    positive, negative = points[labels == 1], points[labels != 1]
    if not len(positive) or not len(negative):
        return True
    if _separates(_separator(positive, negative), positive, negative):
        return True
    if _share_a_point(positive, negative):
        return False
    raise NumericallyDegenerateError(
        "whether a hyperplane separates the two labels is beyond 64-bit precision"
    )


def _scaled(
    positive: FloatArray, negative: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Both sets with every column mapped to [-1, 1], and the half widths of the columns."""
    both = np.vstack([positive, negative])
    low, high = both.min(axis=0), both.max(axis=0)
    half = np.where(high > low, high / 2 - low / 2, 1.0)
    middle = low / 2 + high / 2
    return (positive - middle) / half, (negative - middle) / half, half


def _separator(positive: FloatArray, negative: FloatArray) -> list[Fraction]:
    """Normal with the largest slack of the scaled problem, in the units of the rows."""
    up, down, half = _scaled(positive, negative)
    n = up.shape[1]
    rows = np.vstack(
        [
            np.column_stack([-up, -np.ones(len(up)), np.ones(len(up))]),
            np.column_stack([down, np.ones(len(down)), np.ones(len(down))]),
        ]
    )
    found = _proposal(  # <w, x> + b >= slack for positives, <= -slack for negatives
        np.append(np.zeros(n + 1), -1.0),
        A_ub=rows,
        b_ub=np.zeros(len(rows)),
        bounds=[(-1, 1)] * n + [(None, None), (None, 1.0)],
    )
    w = np.zeros(n) if found is None else found[:n]
    return [Fraction(a) / Fraction(b) for a, b in zip(w.tolist(), half.tolist())]


def _proposal(cost: FloatArray, **program: Any) -> FloatArray | None:
    """Point of a linear program; None if there is none, or if the solver gives up."""
    try:
        return minimize_linear(cost, solver=PRECISE, allow=("infeasible",), **program).x
    except ConvergenceError:
        return None


def _separates(w: list[Fraction], positive: FloatArray, negative: FloatArray) -> bool:
    def values(rows: FloatArray) -> list[Fraction]:
        exact = ([Fraction(x) for x in row] for row in rows.tolist())
        return [sum((a * x for a, x in zip(w, row)), Fraction(0)) for row in exact]

    return min(values(positive)) > max(values(negative))


def _share_a_point(positive: FloatArray, negative: FloatArray) -> bool:
    """Whether exact convex weights on the rows chosen by a linear program give a common point."""
    up, down, _ = _scaled(positive, negative)
    ones, zeros = np.ones, np.zeros
    found = _proposal(
        zeros(len(up) + len(down)),
        A_eq=np.vstack(
            [
                np.hstack([up.T, -down.T]),
                np.append(ones(len(up)), zeros(len(down))),
                np.append(zeros(len(up)), ones(len(down))),
            ]
        ),
        b_eq=np.append(zeros(up.shape[1]), [1.0, 1.0]),
    )
    if found is None:
        return False
    used = np.flatnonzero(found > 0)
    first, second = used[used < len(up)], used[used >= len(up)] - len(up)
    columns = [[*row, 1.0, 0.0] for row in positive[first].tolist()]
    columns += [[*(-x for x in row), 0.0, 1.0] for row in negative[second].tolist()]
    rows = [[Fraction(column[i]) for column in columns] for i in range(positive.shape[1] + 2)]
    sides = [Fraction(0)] * positive.shape[1] + [Fraction(1)] * 2
    weights = _solve(rows, sides)
    return weights is not None and all(weight >= 0 for weight in weights)


def _solve(rows: list[list[Fraction]], sides: list[Fraction]) -> list[Fraction] | None:
    """The only solution of linear equations, by elimination; None if there is none or several."""
    table = [[*row, side] for row, side in zip(rows, sides)]
    n = len(rows[0])
    for k in range(n):
        pivot = next((i for i in range(k, len(table)) if table[i][k] != 0), None)
        if pivot is None:
            return None
        table[k], table[pivot] = table[pivot], table[k]
        table[k] = [value / table[k][k] for value in table[k]]
        for i in range(len(table)):
            if i != k and table[i][k] != 0:
                factor = table[i][k]
                table[i] = [a - factor * b for a, b in zip(table[i], table[k])]
    if any(row[n] != 0 for row in table[n:]):
        return None
    return [row[n] for row in table[:n]]
