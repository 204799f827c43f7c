"""People who move if that turns a no into a yes: their positions, abilities and true labels.

An agent is at ``x``, can reach every point within her own radius ``r`` (or in her own set ``u``),
and has a true label that does not change when she moves. She moves if and only if she is rejected
where she stands and accepted somewhere in her reach.

Source: "Setting", "Distances that are exact", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    array_fault,
    check_float_array,
    check_real,
)
from counterplay.errors import InvalidInputError
from counterplay.strategic.classes import HypothesisClass
from counterplay.strategic.features import Names, numbers, read_labels
from counterplay.strategic.metrics import Points
from counterplay.tables import Table
from counterplay.tables.cells import listed

if TYPE_CHECKING:
    import pandas as pd


@checked
class Agents:
    """Agents as arrays: positions, true labels and abilities.

    Use :meth:`from_target` for a population in which one rule of the catalogue is perfect.

    Parameters
    ----------
    X:
        ``(m, d)`` features, or ``(m,)`` point numbers for classes over a finite space. The names of
        a frame are kept, and compared with those of a catalogue.
    y:
        ``(m,)`` true labels.
    radius:
        ``(m,)`` non-negative radii (a number means the same for all). The learner never sees them.
    sets:
        Instead of a radius: sparse boolean ``(m, N)`` matrix of the points each agent can report,
        for classes over a finite space. Her own point always counts as included.
    atol:
        Tolerance added to each radius; default none: the ball is closed and exact.
    positive:
        The label agents want; may be left out when labels are 0 and 1 or True and False.

    Examples
    --------
    >>> from counterplay.strategic import LinearClass
    >>> agents = Agents(X=[[0.0], [0.4]], y=[0, 1], radius=[0.3, 0.7])
    >>> rule = LinearClass([[1.0]], [1.0])
    >>> agents.accepted(rule)[:, 0]  # 0.4 + 0.7 reaches the threshold 1
    array([False,  True])

    References
    ----------
    "Setting", see docs/theory/02-strategic-finite.md.
    """

    X: Points
    y: NDArray[np.int8]
    radius: FloatArray | None
    sets: Any
    atol: float
    names: Names = None

    def __init__(
        self,
        X: Any,
        y: Any,
        radius: ArrayLike | None = None,
        sets: Any = None,
        atol: float = 0.0,
        *,
        positive: Any = None,
    ) -> None:
        self.X, self.names = _read_points(X)
        m = self.X.shape[0]
        self.y = read_labels(y, m, positive).astype(np.int8) if m else np.zeros(0, np.int8)
        if (radius is None) == (sets is None):
            raise InvalidInputError("pass either radius or sets, exactly one of them")
        self.atol = check_real(atol, "atol", low=0.0)
        self.radius = None if radius is None else check_radius(radius, m)
        self.sets = None if sets is None else _check_sets(sets, self.X)
        self.X.setflags(write=False)
        self.y.setflags(write=False)

    @classmethod
    @checked
    def from_target(
        cls,
        hypotheses: HypothesisClass,
        X: Any,
        *,
        target: int,
        radius: ArrayLike | None = None,
        sets: Any = None,
    ) -> Agents:
        """Return agents whose true label is what rule ``target`` decides after their move.

        With these labels the rule ``target`` is perfect against the manipulating population, which
        is what "realizable" means; labels are in general not a function of the features ("Setting"
        in docs/theory/02-strategic-finite.md).
        """
        points = hypotheses.check_points(X)
        draft = cls(X=points, y=np.zeros(len(points), np.int8), radius=radius, sets=sets)
        return cls(X=points, y=draft.accepted(hypotheses, [target])[:, 0], radius=radius, sets=sets)

    def __len__(self) -> int:
        return int(self.y.size)

    def __repr__(self) -> str:
        how = "radius" if self.radius is not None else "sets"
        return f"Agents({len(self)} agents with {how}, {int(self.y.sum())} positive)"

    @property
    def reach(self) -> FloatArray:
        """Radius plus tolerance, for ball agents."""
        if self.radius is None:
            raise InvalidInputError("these agents have manipulation sets, not radii")
        return self.radius + self.atol if self.atol else self.radius

    def match(self, hypotheses: HypothesisClass) -> None:
        """Raise if the columns have other names, or another order, than those of a catalogue."""
        if self.names is None or hypotheses.names is None or self.names == hypotheses.names:
            return
        raise InvalidInputError(
            f"the agents' columns are {listed(self.names)}, those of the rules "
            f"{listed(hypotheses.names)}; make the agents from the columns of the rules, in order"
        )

    def take(self, index: ArrayLike) -> Agents:
        """Return the agents with the given numbers, in that order."""
        i = np.asarray(index)
        other = object.__new__(Agents)  # the parts of checked arrays need no second check
        other.names = self.names
        for name in ("X", "y", "radius", "sets"):
            value = getattr(self, name)
            if value is not None:
                value = value[i]
                if isinstance(value, np.ndarray):
                    value.setflags(write=False)
            setattr(other, name, value)
        other.atol = self.atol
        return other

    def blocks(self, size: int) -> Iterator[Agents]:
        """Yield the agents in consecutive blocks of at most ``size``."""
        for start in range(0, len(self), size):
            yield self.take(np.arange(start, min(start + size, len(self))))

    @checked
    def accepted(self, hypotheses: HypothesisClass, members: ArrayLike | None = None) -> BoolArray:
        """Return which agents are accepted, after their move, by which members."""
        self.match(hypotheses)
        if self.radius is not None:
            return hypotheses.reaches(self.X, self.reach, members)
        positive = hypotheses.positive_sets()
        if members is not None:
            positive = positive[hypotheses.check_members(members)]
        touched: BoolArray = np.asarray(self.sets @ positive.T.astype(np.int64)) > 0
        return touched

    @checked
    def losses(self, hypotheses: HypothesisClass, members: ArrayLike | None = None) -> BoolArray:
        """Return the strategic loss table: does member j err on agent i after her move?"""
        self.match(hypotheses)
        if self.radius is not None:
            return hypotheses.losses(self.X, self.reach, self.y.astype(np.bool_), members)
        return np.not_equal(self.accepted(hypotheses, members), self.y[:, None] > 0)

    def to_frame(self) -> pd.DataFrame:
        """Return positions, labels and radii as a data frame."""
        import pandas as pd

        X = self.X if self.X.ndim == 2 else self.X[:, None]
        names = list(self.names or (f"x{j}" for j in range(X.shape[1])))
        names = names if self.X.ndim == 2 else ["point"]
        frame = pd.DataFrame(X, columns=names)
        frame["y"] = self.y
        frame["reach"] = self.radius if self.radius is not None else self.sets.sum(axis=1)
        return frame


def _read_points(X: Any) -> tuple[Points, Names]:
    """Return features with their names, or point numbers; the catalogue checks the rest."""
    if not isinstance(X, np.ndarray | list | tuple) or array_fault(X, kinds="biuf"):
        table = Table.of(X)
        return np.array(numbers(table)), table.names
    points = np.array(X)
    if points.dtype == object:
        points = points.astype(np.float64)
    if points.ndim not in (1, 2):
        raise InvalidInputError(f"X must have one or two axes, got shape {points.shape}")
    if points.ndim == 1 and not np.issubdtype(points.dtype, np.integer):
        raise InvalidInputError(
            "X with one axis means point numbers and must contain integers; "
            "for one feature pass a column, X[:, None]"
        )
    if np.isnan(points).any():
        i = int(np.argwhere(np.isnan(points))[0][0])
        raise InvalidInputError(f"row {i} of X has a missing value; impute or drop it")
    return points, None


def check_radius(radius: ArrayLike, m: int, name: str = "radius") -> FloatArray:
    """Return one finite radius of at least 0 per person; one number means the same for all."""
    given = check_float_array(radius, name)
    if given.shape not in ((), (m,)):
        raise InvalidInputError(
            f"{name} must be one number or one per agent ({m}), got shape {given.shape}"
        )
    r = np.array(np.broadcast_to(given, (m,)))
    if (r < 0).any():
        i = int(np.flatnonzero(r < 0)[0])
        raise InvalidInputError(f"{name} must be finite and not negative; agent {i} has {r[i]}")
    r.setflags(write=False)
    return r


def _check_sets(sets: Any, X: Points) -> sp.csr_array:
    if not sp.issparse(sets) and (fault := array_fault(sets, kinds="biuf")):
        raise InvalidInputError(f"sets must be a table of 0 and 1: {fault}")
    u = sp.csr_array(np.atleast_2d(sets) if not sp.issparse(sets) else sets).astype(np.int64)
    if X.ndim != 1:
        raise InvalidInputError("manipulation sets need point numbers, X with one axis")
    if u.shape[0] != X.size:
        raise InvalidInputError(f"there are {X.size} agents but {u.shape[0]} manipulation sets")
    if X.size and (X.min() < 0 or X.max() >= u.shape[1]):
        raise InvalidInputError(f"points must be between 0 and {u.shape[1] - 1}")
    own = sp.csr_array((np.ones(X.size, np.int64), (np.arange(X.size), X)), shape=u.shape)
    both = sp.csr_array((u + own) > 0).astype(np.int64)
    both.sort_indices()
    return both
