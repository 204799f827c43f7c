"""The one door to linear and mixed-integer programs.

Every such program of the library is solved here, by HiGHS, with one policy: a status other than
"optimal" is never used silently. It is an exception that says what it means, unless the caller
asks to be told instead (``allow``).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import tempfile
import threading
from dataclasses import dataclass
from typing import IO, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.validation import FloatArray
from counterplay.errors import ConvergenceError, InfeasibleError, InvalidInputError

Status: TypeAlias = Literal["optimal", "infeasible", "unbounded", "limit"]
FEASIBILITY = 1e-7
"""How far HiGHS lets a solution violate a constraint; smaller differences carry no meaning."""

_STATUS: dict[int, Status] = {0: "optimal", 1: "limit", 2: "infeasible", 3: "unbounded"}


@dataclass(frozen=True)
class Highs:
    """How HiGHS goes about a linear program; the defaults suit small and medium ones.

    Parameters
    ----------
    method:
        ``"highs"`` chooses by itself, ``"highs-ds"`` is dual simplex, ``"highs-ipm"`` the
        interior-point method.
    presolve:
        Whether to simplify the program first.
    primal_tolerance:
        Allowed violation of a constraint; default :data:`FEASIBILITY`.
    dual_tolerance:
        Allowed violation of a reduced cost; default :data:`FEASIBILITY`.

    Examples
    --------
    >>> minimize_linear([1.0], A_ub=[[-1.0]], b_ub=[-2.0], solver=Highs("highs-ipm")).value
    2.0
    """

    method: Literal["highs", "highs-ds", "highs-ipm"] = "highs"
    presolve: bool = True
    primal_tolerance: float | None = None
    dual_tolerance: float | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The same as options of SciPy's ``linprog``."""
        return {
            "presolve": self.presolve,
            "primal_feasibility_tolerance": self.primal_tolerance,
            "dual_feasibility_tolerance": self.dual_tolerance,
        }


PRECISE = Highs(primal_tolerance=1e-10, dual_tolerance=1e-10)
"""The tightest tolerances that HiGHS takes."""

_DEFAULT = Highs()
_OTHER_WAYS = (Highs("highs-ds", presolve=False), Highs("highs-ipm"), Highs("highs-ipm", False))
"""What is tried on badly scaled programs before the solver is said to have failed."""


@dataclass(frozen=True)
class Solution:
    """What a program solver found.

    Parameters
    ----------
    status:
        ``"optimal"``, or what the caller allowed: ``"infeasible"``, ``"unbounded"``, ``"limit"``
        (time limit; ``x`` is the best found so far, or None).
    x:
        Minimiser; None if there is none.
    value:
        Minimum; NaN if there is none.
    upper_duals:
        Derivatives of the minimum by ``b_ub`` (not for mixed-integer programs).
    equal_duals:
        Derivatives of the minimum by ``b_eq`` (linear programs only).
    bound:
        Proven lower bound of the minimum (mixed-integer programs; equals ``value`` if optimal).

    Examples
    --------
    >>> solution = minimize_linear([1.0, 2.0], A_ub=[[-1.0, -1.0]], b_ub=[-1.0])
    >>> solution.x.tolist(), solution.value, solution.upper_duals.tolist()
    ([1.0, 0.0], 1.0, [-1.0])
    """

    status: Status
    x: FloatArray | None
    value: float
    upper_duals: FloatArray | None = None
    equal_duals: FloatArray | None = None
    bound: float | None = None

    @property
    def point(self) -> FloatArray:
        """The minimiser; an error if there is none."""
        if self.x is None:
            raise ConvergenceError(f"the program has no solution to show: {self.status}")
        return self.x


def minimize_linear(
    cost: ArrayLike,
    *,
    A_ub: Any = None,
    b_ub: ArrayLike | None = None,
    A_eq: Any = None,
    b_eq: ArrayLike | None = None,
    bounds: Any = (0, None),
    solver: Highs = _DEFAULT,
    what: str = "the linear program",
    infeasible: str | None = None,
    allow: tuple[Status, ...] = (),
) -> Solution:
    """Minimise ``cost @ x`` subject to ``A_ub x <= b_ub``, ``A_eq x = b_eq`` and bounds.

    Parameters
    ----------
    cost:
        Coefficients of the objective.
    A_ub:
        Rows of the inequalities, dense or sparse.
    b_ub:
        Right-hand sides of the inequalities.
    A_eq:
        Rows of the equations, dense or sparse.
    b_eq:
        Right-hand sides of the equations.
    bounds:
        One (low, high) for all variables, or one per variable; None is no bound.
    solver:
        Method and tolerances.
    what:
        How messages call the program.
    infeasible:
        The sentence for users when no point satisfies the constraints.
    allow:
        Statuses that are returned instead of raised.

    Raises
    ------
    InfeasibleError
        No point satisfies the constraints, or the objective has no minimum.
    ConvergenceError
        The solver stopped without an answer.

    Examples
    --------
    >>> minimize_linear([1.0], A_ub=[[1.0]], b_ub=[-1.0], allow=("infeasible",)).status
    'infeasible'
    """
    from scipy.optimize import linprog

    objective = np.asarray(cost, dtype=np.float64)
    for way in (solver, *_OTHER_WAYS):
        result = linprog(
            objective, A_ub=A_ub, b_ub=b_ub, A_eq=A_eq, b_eq=b_eq, bounds=bounds,
            method=way.method, options=way.options,
        )  # fmt: skip
        if result.status in _STATUS:  # otherwise HiGHS gave up without an answer
            break
    status = _checked(result, what, infeasible, allow)
    if status != "optimal":
        return Solution(status, None, float("nan"))
    return Solution(
        status,
        np.asarray(result.x),
        float(result.fun),
        np.asarray(result.ineqlin.marginals),
        np.asarray(result.eqlin.marginals),
        float(result.fun),
    )


def minimize_integer(
    cost: ArrayLike,
    *,
    rows: Any,
    low: ArrayLike = -np.inf,
    high: ArrayLike = np.inf,
    integers: ArrayLike = 1,
    bounds: tuple[ArrayLike, ArrayLike] = (0.0, 1.0),
    time_limit: float | None = None,
    gap: float | None = None,
    what: str = "the mixed-integer program",
    allow: tuple[Status, ...] = (),
) -> Solution:
    """Minimise ``cost @ x`` subject to ``low <= rows x <= high``, some of ``x`` being integers.

    Parameters
    ----------
    cost:
        Coefficients of the objective.
    rows:
        Constraint matrix, dense or sparse.
    low:
        Lower ends of the constraints.
    high:
        Upper ends of the constraints.
    integers:
        1 for integer variables, 0 for real ones; one number for all, or one per variable.
    bounds:
        Lowest and highest values of the variables; default: between 0 and 1.
    time_limit:
        Seconds; ``allow`` must contain ``"limit"`` to get the best found so far.
    gap:
        Relative gap at which the search may stop; default that of HiGHS, 0 for exact.
    what:
        How messages call the program.
    allow:
        Statuses that are returned instead of raised.

    Examples
    --------
    >>> cover = minimize_integer([1, 1, 1], rows=[[1, 1, 0], [0, 1, 1]], low=1)
    >>> cover.x.tolist(), cover.bound
    ([0.0, 1.0, 0.0], 1.0)
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    objective = np.asarray(cost, dtype=np.float64)
    options = {"time_limit": time_limit, "mip_rel_gap": gap}
    given = {key: value for key, value in options.items() if value is not None}
    limits = (rows, low, high)
    with _SILENCE:
        for more in ({}, {"presolve": False}, {}):
            result = milp(
                objective,
                constraints=LinearConstraint(*limits),
                integrality=np.broadcast_to(np.asarray(integers), objective.shape),
                bounds=Bounds(*bounds),
                options=given | more,
            )
            if result.status in _STATUS:  # otherwise HiGHS gave up without an answer
                break
            if more:  # last, the same constraints in other units
                limits = _balanced(rows, low, high)
    status = _checked(result, what, None, allow)
    x = None if result.x is None else np.asarray(result.x)
    value = float("nan") if result.fun is None else float(result.fun)
    bound = getattr(result, "mip_dual_bound", None)
    return Solution(status, x, value, bound=value if bound is None else float(bound))


def _balanced(rows: Any, low: ArrayLike, high: ArrayLike) -> tuple[Any, FloatArray, FloatArray]:
    """The same constraints, each divided by a power of two near its largest coefficient."""
    from scipy import sparse

    matrix = sparse.csr_array(rows)
    largest = abs(matrix).max(axis=1).toarray().ravel()
    unit = np.exp2(-np.round(np.log2(np.where(largest > 0, largest, 1.0))))
    return sparse.diags(unit) @ matrix, np.asarray(low) * unit, np.asarray(high) * unit


def _checked(result: Any, what: str, infeasible: str | None, allow: tuple[Status, ...]) -> Status:
    """Return the status, or raise what it means for the caller."""
    unknown = set(allow) - set(_STATUS.values())
    if unknown:
        raise InvalidInputError(f"there is no status {sorted(unknown)[0]!r}")
    status = _STATUS.get(result.status)
    if status == "optimal" or (status is not None and status in allow):
        return status
    if status == "infeasible":
        raise InfeasibleError(infeasible or f"{what} has no solution")
    if status == "unbounded":
        raise InfeasibleError(f"{what} is unbounded")
    raise ConvergenceError(f"{what} was not solved: {result.message}")


class _Silence:
    """Keeps lines that HiGHS prints, whatever its options say, from the standard output.

    They go through the C library to file descriptor 1. While programs are solved, in any number of
    threads, that is a temporary file; what others wrote there is passed on afterwards.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._kept: tuple[int, IO[bytes]] | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside > 1:
                return
            _flush()
            try:
                file = tempfile.TemporaryFile()
                shown = os.dup(1)
            except OSError:  # there is no standard output
                return
            os.dup2(file.fileno(), 1)
            self._kept = shown, file

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside or self._kept is None:
                return
            (shown, file), self._kept = self._kept, None
            _flush()
            os.dup2(shown, 1)
            with file, os.fdopen(shown, "wb") as stream:
                file.seek(0)
                stream.writelines(line for line in file if not line.startswith(b"Highs"))


def _flush() -> None:
    """Write out what Python and the C library still hold back for the standard output."""
    with contextlib.suppress(AttributeError, OSError, ValueError):  # closed, or not there
        sys.stdout.flush()
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)


_SILENCE = _Silence()
