"""Separability in exact arithmetic, and what the support vector machine says about it."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.core.halfspaces import halfspaces_2d
from counterplay.errors import ConvergenceError, NotRealizableError
from counterplay.poisoning.lab import HardMarginSVM, NumericallyDegenerateError, separable

THIN = np.array([[0, 0], [1e6, 0], [0, 1e-9], [1e6, 1e-9]])


@pytest.mark.claim("21.30")
def test_thin_rows_are_separable_and_the_svm_does_not_deny_it() -> None:
    assert separable(THIN, [0, 0, 1, 1])  # by the line at height 5e-10
    assert not separable(THIN, [0, 1, 1, 0])  # the diagonals cross
    with pytest.raises(ConvergenceError, match="beyond 64-bit precision"):
        HardMarginSVM().fit(THIN, [0, 0, 1, 1])
    with pytest.raises(NotRealizableError, match="no hyperplane"):
        HardMarginSVM().fit(THIN, [0, 1, 1, 0])
    with pytest.raises(NotRealizableError, match="no hyperplane"):  # collinear, interleaved
        HardMarginSVM().fit([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], [0, 1, 0])


@pytest.mark.claim("21.30")
@pytest.mark.parametrize("grid", [True, False])
def test_verdicts_equal_the_exact_enumeration_of_half_planes(grid: bool) -> None:
    rng, seen = np.random.default_rng(int(grid)), set()
    for _ in range(40):
        points = rng.integers(-2, 3, size=(6, 2)) if grid else rng.normal(size=(6, 2))
        X = points * 10.0 ** rng.uniform(-9, 6, size=2)
        rows = {tuple(row) for row in halfspaces_2d(X).astype(int).tolist()}
        for y in rng.integers(2, size=(4, 6)).tolist():
            assert separable(X, y) == (tuple(y) in rows)
            seen.add(tuple(y) in rows)
    assert seen == {True, False}


def test_never_a_wrong_verdict_where_margins_vanish() -> None:
    """Rows on a slanted line, pushed off it by a few last bits: exact answer, or none."""
    rng, open_ends = np.random.default_rng(2), 0
    for _ in range(60):
        x = rng.random(6)
        X = np.column_stack([x, x / 3 + rng.integers(-2, 3, size=6) * 2.0**-54])
        y = rng.integers(2, size=6)
        truth = y.tolist() in halfspaces_2d(X).astype(int).tolist()
        try:
            assert separable(X, y) == truth
        except NumericallyDegenerateError:
            open_ends += 1
    assert open_ends < 60
