"""Linear oracles: find the option that is best for given weights, for many weights at once.

The elicitation procedures need nothing else of a problem, so a decision process, a catalogue, a
polytope or any external planner can be behind them. Every oracle knows the zero option.
Source: docs/theory/08-elicitation.md, "Setting" (section 8.6 of the thesis).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.programs import minimize_linear
from counterplay.core.validation import FloatArray, check_float_array, check_positive_int
from counterplay.elicitation.mdp import MultiObjectiveMDP, require_do_nothing
from counterplay.elicitation.planner import plan
from counterplay.elicitation.policies import do_nothing_policy
from counterplay.errors import InfeasibleError, InvalidInputError
from counterplay.tables import Table

_TABLE_ENTRIES = 4_000_000  # largest table of scores held in memory at once


@runtime_checkable
class LinearOracle(Protocol):
    """What a procedure needs to know about the set of options."""

    k: int
    """Number of objectives."""
    scale: float
    """Magnitude of value vectors, for tolerances."""
    n_calls: int
    """How many directions were maximised so far."""

    def argmax(self, W: ArrayLike) -> tuple[list[Any], FloatArray]:
        """Return, for each row of W (m, k), a best item and the value vectors (m, k).

        The zero option is always included, so ``<W[i], values[i]> >= 0``.
        """
        ...


@checked
class MDPOracle:
    """Best policies of a decision process, by batched value iteration.

    Examples
    --------
    >>> from counterplay.elicitation import instances
    >>> oracle = MDPOracle(instances.linear_dependence())
    >>> items, values = oracle.argmax(np.eye(3))
    >>> (8 * values).round(3).tolist()
    [[8.0, 4.0, 2.0], [7.083, 4.167, 2.917], [1.0, 2.0, 3.0]]
    """

    def __init__(self, mdp: MultiObjectiveMDP) -> None:
        require_do_nothing(mdp)
        self.mdp = mdp
        self.k = mdp.n_objectives
        self.scale = mdp.scale
        self.n_calls = 0

    def __repr__(self) -> str:
        return f"MDPOracle({self.mdp!r})"

    @property
    def zero_item(self) -> Any:
        """The policy that does nothing."""
        return do_nothing_policy(self.mdp)

    def argmax(self, W: ArrayLike) -> tuple[list[Any], FloatArray]:
        """Return best policies (H, S) and their values, one per direction."""
        best = plan(self.mdp, check_directions(W, self.k))
        self.n_calls += len(best)
        return list(best.policies), best.values


@checked
class PointSetOracle:
    """Best row of a table of value vectors; the zero option has the index -1.

    Parameters
    ----------
    X:
        Table (n, k) of non-negative values: larger is better in every column. A frame gives the
        objectives their names and the options their index.
    names:
        One name per row, for the questions; by default the index of a frame.

    Examples
    --------
    >>> oracle = PointSetOracle([[1, 0], [0, 1], [0.8, 0.8]])
    >>> oracle.argmax([[1, 0.1], [1, 1], [-1, -1]])[0]
    [0, 2, -1]
    """

    zero_item = -1

    def __init__(self, X: ArrayLike, names: Sequence[Any] | None = None) -> None:
        table = value_table(X, "X")
        self.X = table.numbers().copy()
        self.index = table.index
        if (self.X < 0).any():
            row, column = (int(i) for i in np.argwhere(self.X < 0)[0])
            raise InvalidInputError(
                f"X[{row}, {column}] is {self.X[row, column]:g}; values must not be negative "
                "(Catalogue turns costs into benefits)"
            )
        if not self.X.any():
            raise InvalidInputError("all values are 0, so there is nothing to prefer")
        self.X.setflags(write=False)
        if names is not None and len(names) != len(self.X):
            raise InvalidInputError(f"names must have {len(self.X)} entries, got {len(names)}")
        if table.names is not None:
            self.objective_names = table.names
            names = table.index.tolist() if names is None else names
        self.names = None if names is None else [str(name) for name in names]
        self.k = self.X.shape[1]
        self.scale = float(np.sqrt(self.k) * self.X.max())
        self.n_calls = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.X)} options, {self.k} objectives)"

    def argmax(self, W: ArrayLike) -> tuple[list[Any], FloatArray]:
        """Return best row indices and their values; ties go to the lowest index."""
        directions = check_directions(W, self.k)
        self.n_calls += len(directions)
        rows = np.empty(len(directions), dtype=np.int64)
        step = max(1, _TABLE_ENTRIES // len(self.X))
        for start in range(0, len(directions), step):
            part = slice(start, start + step)
            rows[part] = (self.X @ directions[part].T).argmax(axis=0)
        positive = (self.X[rows] * directions).sum(axis=1) >= 0
        values = np.where(positive[:, None], self.X[rows], 0.0)
        return [int(row) if ok else -1 for row, ok in zip(rows, positive)], values


@checked
class PolytopeOracle:
    """Best point of the polytope ``{v >= 0 : A v <= b}``, by linear programming (HiGHS).

    Parameters
    ----------
    A:
        Rows of the inequalities; the set must be bounded.
    b:
        Right-hand sides, not negative, so that the zero option is feasible.

    Examples
    --------
    >>> oracle = PolytopeOracle([[1.0, 1.0]], [1.0])
    >>> oracle.argmax([[2.0, 1.0]])[1].tolist()
    [[1.0, 0.0]]
    """

    def __init__(self, A: ArrayLike, b: ArrayLike) -> None:
        self.A = check_float_array(A, "A", ndim=2)
        self.b = check_float_array(b, "b", ndim=1)
        if len(self.b) != len(self.A):
            raise InvalidInputError(f"A has {len(self.A)} rows but b has {len(self.b)} entries")
        if (self.b < 0).any():
            i = int(np.flatnonzero(self.b < 0)[0])
            raise InfeasibleError(f"b[{i}] is {self.b[i]:g}; the zero option must be feasible")
        self.k = self.A.shape[1]
        self.zero_item = np.zeros(self.k)
        self.n_calls = 0
        largest = max(float(self._solve(row)[j]) for j, row in enumerate(np.eye(self.k)))
        self.scale = float(np.sqrt(self.k) * largest)

    def __repr__(self) -> str:
        return f"PolytopeOracle({len(self.A)} inequalities, {self.k} objectives)"

    def argmax(self, W: ArrayLike) -> tuple[list[Any], FloatArray]:
        """Return best points; the item is the point itself."""
        directions = check_directions(W, self.k)
        self.n_calls += len(directions)
        values = np.stack([self._solve(direction) for direction in directions])
        return list(values), values

    def _solve(self, direction: FloatArray) -> FloatArray:
        best = minimize_linear(-direction, A_ub=self.A, b_ub=self.b, allow=("unbounded",))
        if best.status == "unbounded":
            raise InfeasibleError(
                f"the polytope is unbounded in direction {direction.tolist()}; bound it with A, b"
            )
        return np.asarray(np.maximum(best.point, 0.0))


@checked
class CallableOracle:
    """Any external planner: a function from weights to ``(item, value vector)``.

    Parameters
    ----------
    function:
        Called with one direction (k,); returns the item and its value vector (k,). It must
        maximise exactly for the guarantees to hold.
    k:
        Number of objectives.
    scale:
        Magnitude of the value vectors.

    Examples
    --------
    >>> points = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> def planner(w):
    ...     best = int((points @ w).argmax())
    ...     return best, points[best]
    >>> oracle = CallableOracle(planner, k=2, scale=1.0)
    >>> oracle.argmax([[0.2, 0.9], [-1.0, -1.0]])[0]
    [1, None]

    References
    ----------
    "Setting", see docs/theory/08-elicitation.md.
    """

    zero_item = None

    def __init__(
        self, function: Callable[[FloatArray], tuple[Any, ArrayLike]], k: int, scale: float
    ) -> None:
        self.function = function
        self.k = check_positive_int(k, "k")
        self.scale = float(scale)
        self.n_calls = 0

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"CallableOracle({name}, k={self.k}, scale={self.scale:g})"

    def argmax(self, W: ArrayLike) -> tuple[list[Any], FloatArray]:
        """Return best items; where the planner does worse than nothing, nothing is taken."""
        directions = check_directions(W, self.k)
        self.n_calls += len(directions)
        items: list[Any] = []
        values = np.zeros_like(directions)
        for i, direction in enumerate(directions):
            item, value = self.function(direction)
            vector = check_float_array(value, "the planner's value", ndim=1)
            if vector.shape != (self.k,):
                raise InvalidInputError(
                    f"the planner returned {vector.size} values instead of {self.k}"
                )
            worth_it = float(vector @ direction) >= 0
            items.append(item if worth_it else self.zero_item)
            values[i] = vector if worth_it else 0.0
        return items, values


def as_oracle(source: Any) -> LinearOracle:
    """Return the oracle of a process, a catalogue, a table of values, or an oracle itself."""
    if isinstance(source, MultiObjectiveMDP):
        return MDPOracle(source)
    if hasattr(source, "oracle") and callable(source.oracle):
        oracle = source.oracle()
        if isinstance(oracle, LinearOracle):
            return oracle
    if isinstance(source, LinearOracle):
        return source
    if hasattr(source, "columns"):
        raise InvalidInputError(
            "a data frame does not say of which columns more is better and of which less; give "
            "Catalogue(frame, benefits=[...], costs=[...])"
        )
    if isinstance(source, np.ndarray | list | tuple):
        return PointSetOracle(source)
    raise InvalidInputError(
        "expected a MultiObjectiveMDP, a Catalogue, a table of values or a LinearOracle, "
        f"got {type(source).__name__}"
    )


def value_table(values: Any, what: str) -> Table:
    """Return a user's table of values, one option per row; ``numbers()`` of it are finite."""
    table = Table.of(values, what=what)
    if table.container == "arrays":
        raise InvalidInputError(f"{what} must have 2 axes, got shape {table.rows.shape}")
    return table


def check_directions(W: ArrayLike, k: int) -> FloatArray:
    """Return directions as a finite array (m, k)."""
    directions = np.atleast_2d(check_float_array(W, "W"))
    if directions.ndim != 2 or directions.shape[1] != k:
        raise InvalidInputError(f"W must have {k} columns, got shape {directions.shape}")
    return directions
