"""One policy for every status of a program solver."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.optimize

from counterplay.core.programs import minimize_integer, minimize_linear
from counterplay.errors import ConvergenceError, InfeasibleError, InvalidInputError

IMPOSSIBLE = {"A_ub": [[1.0], [-1.0]], "b_ub": [-1.0, -1.0]}


def test_linear_program_with_duals():
    # min x + 2y, x + y >= 1, x <= 0.25: the corner (0.25, 0.75) with value 1.75
    solution = minimize_linear(
        [1.0, 2.0], A_ub=[[-1.0, -1.0]], b_ub=[-1.0], bounds=[(0, 0.25), (0, None)]
    )
    assert solution.x == pytest.approx([0.25, 0.75])
    assert solution.value == pytest.approx(1.75)
    assert solution.upper_duals == pytest.approx([-2.0])  # one more unit costs two
    assert solution.bound == solution.value


def test_infeasible_is_raised_in_the_callers_words_or_returned():
    with pytest.raises(InfeasibleError, match="raise the caps"):
        minimize_linear([1.0], **IMPOSSIBLE, infeasible="no plan; raise the caps")
    with pytest.raises(InfeasibleError, match="the payment program has no solution"):
        minimize_linear([1.0], **IMPOSSIBLE, what="the payment program")
    solution = minimize_linear([1.0], **IMPOSSIBLE, allow=("infeasible",))
    assert (solution.status, solution.x) == ("infeasible", None)
    assert np.isnan(solution.value)
    with pytest.raises(ConvergenceError, match="infeasible"):
        _ = solution.point


def test_unbounded_is_raised_or_returned():
    with pytest.raises(InfeasibleError, match="is unbounded"):
        minimize_linear([-1.0])
    assert minimize_linear([-1.0], allow=("unbounded",)).status == "unbounded"


def test_a_status_nobody_knows_is_refused():
    with pytest.raises(InvalidInputError, match="no status 'fine'"):
        minimize_linear([1.0], allow=("fine",))


def test_integer_program_against_enumeration():
    rng = np.random.default_rng(0)
    for _ in range(20):
        rows = rng.integers(0, 2, size=(4, 6)) | np.eye(4, 6, dtype=int)
        cost = rng.integers(1, 9, size=6)
        points = np.array(list(np.ndindex(*[2] * 6)))
        feasible = points[(points @ rows.T >= 1).all(axis=1)]
        best = (feasible @ cost).min()
        solution = minimize_integer(cost, rows=rows, low=1, gap=0.0)
        assert solution.value == pytest.approx(best)
        assert solution.bound == pytest.approx(best)
    with pytest.raises(InfeasibleError, match="mixed-integer program has no solution"):
        minimize_integer([1.0], rows=[[1.0]], low=2.0)


def test_an_integer_program_on_which_presolve_fails_is_solved_without(monkeypatch):
    """HiGHS ends some programs with "Solve error" (status 4); without presolve it solves them."""
    solve, tried = scipy.optimize.milp, []

    def stumbling(*args, options, **given):
        tried.append(options.get("presolve", True))
        if tried[-1]:
            return scipy.optimize.OptimizeResult(status=4, x=None, fun=None, message="Solve error")
        return solve(*args, options=options, **given)

    monkeypatch.setattr(scipy.optimize, "milp", stumbling)
    assert minimize_integer([1.0, 1.0], rows=[[1.0, 1.0]], low=1).value == 1.0
    assert tried == [True, False]
    monkeypatch.setattr(scipy.optimize, "milp", lambda *a, **k: stumbling(*a, options={}))
    with pytest.raises(ConvergenceError, match="was not solved: Solve error"):
        minimize_integer([1.0], rows=[[1.0]], low=1)


def test_lines_of_the_solver_stay_off_the_standard_output(monkeypatch, capfd):
    """HiGHS prints some lines past its own switch; what others print is kept, in any thread."""
    solve = scipy.optimize.milp

    def loud(*args, **given):
        os.write(1, b"HighsMipSolverData::transform tmpSolver.run();\nnot of HiGHS\n")
        return solve(*args, **given)

    monkeypatch.setattr(scipy.optimize, "milp", loud)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda k: minimize_integer([k], rows=[[1.0]], low=1), range(8)))
    assert [s.value for s in found] == list(range(8))
    os.write(1, b"after\n")
    shown = capfd.readouterr().out.splitlines()
    assert sorted(shown) == ["after"] + 8 * ["not of HiGHS"]
