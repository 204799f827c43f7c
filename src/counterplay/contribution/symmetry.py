"""Parties that play the same role can share one variable of a convex program.

Colour refinement splits variables, terms and constraints until members of a class see the same sums
of coefficients over every other class. Averaging over such classes keeps a plan feasible and its
cost, so the smaller program has the same value.
Source: Grohe, Kersting, Mladenov, Selman (2014), *Dimension Reduction via Colour Refinement*; for
exponential terms Jensen's inequality gives the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import FloatArray

Labels = NDArray[np.int64]
_DIGITS = 11


@dataclass(frozen=True)
class Classes:
    """Class of every variable, term and constraint."""

    variables: Labels
    terms: Labels
    constraints: Labels

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Number of classes of each kind."""
        return _count(self.variables), _count(self.terms), _count(self.constraints)


def role_classes(
    exponents: FloatArray, weights: FloatArray, facts: FloatArray, budgets: FloatArray
) -> Classes:
    """Return the coarsest classes with equal sums.

    Parameters
    ----------
    exponents:
        ``(variables, terms)``: coefficients of the variables in the terms.
    weights:
        ``(constraints, terms)``: weights of the terms in the constraints.
    facts:
        ``(variables, f)``: cost and bounds of each variable.
    budgets:
        ``(constraints,)``: right-hand sides.

    Examples
    --------
    >>> import numpy as np
    >>> same = np.array([[1.0, 2.0], [2.0, 1.0]])  # two parties, mirror images
    >>> role_classes(same, same, np.ones((2, 1)), np.ones(2)).variables.tolist()
    [0, 0]
    """
    variables = _group(facts)
    constraints = _group(budgets[:, None])
    terms = np.zeros(exponents.shape[1], dtype=np.int64)
    found = (0, 0, 0)
    while True:
        from_variables = _sums(exponents.T, variables)
        from_constraints = _sums(weights.T, constraints)
        terms = _group(np.column_stack([terms, from_variables, from_constraints]))
        variables = _group(np.column_stack([variables, _sums(exponents, terms)]))
        constraints = _group(np.column_stack([constraints, _sums(weights, terms)]))
        classes = Classes(variables, terms, constraints)
        if classes.sizes == found:
            return classes
        found = classes.sizes


def _sums(table: FloatArray, labels: Labels) -> FloatArray:
    """Sum the columns of each class."""
    member = np.zeros((len(labels), _count(labels)))
    member[np.arange(len(labels)), labels] = 1.0
    return np.asarray(table @ member)


def _group(rows: FloatArray) -> Labels:
    """Number equal rows alike (up to rounding errors)."""
    scale = np.maximum(1.0, abs(rows).max(initial=0.0))
    _, labels = np.unique(np.round(rows / scale, _DIGITS) + 0.0, axis=0, return_inverse=True)
    return np.asarray(labels, dtype=np.int64).reshape(-1)


def _count(labels: Labels) -> int:
    return int(labels.max(initial=-1)) + 1
