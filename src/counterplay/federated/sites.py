"""The agents' data: one pool of rows, and who holds which of them in every seed.

Sites of different size are padded with rows of weight zero. Minibatches are drawn with replacement
from numbers that depend on (seed, round, agent) only, so that an agent draws the same rows in a
batch of seeds, alone, on a GPU, or in a Flower client.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.draws import Keys, fold, uniforms
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    array_fault,
    check_float_array,
    check_size,
    shorten,
)
from counterplay.errors import InvalidInputError
from counterplay.federated.arrays import Array, Backend
from counterplay.federated.objective import Objective

if TYPE_CHECKING:
    from counterplay.tables import Table

_BATCH = 501
LARGEST = 1e100  # squares of sums of such numbers are still finite
MOST_PADDED = 1 << 27  # one GiB of row numbers


@checked(arrays=True)
@dataclass(frozen=True, repr=False)
class Sites:
    """Rows, labels (class numbers) and who holds them.

    ``index`` ``(T, M, n)`` holds row numbers, padded with 0; ``sizes`` ``(T, M)`` says how many
    count. ``T`` is the number of different splits: 1 (shared by all seeds) or one per seed.

    What a federation in memory trains on; usually made by :meth:`from_agents`.

    Parameters
    ----------
    X:
        Rows of all parties.
    y:
        Their class numbers.
    index:
        Row numbers of each party, ``(T, M, n)``, padded with 0.
    sizes:
        How many of them count, ``(T, M)``.

    Examples
    --------
    >>> sites = Sites.from_agents(np.zeros((5, 1)), [0, 1, 0, 1, 0], [0, 0, 1, 0, -1])
    >>> sites.sizes.tolist()  # one split, two parties; nobody holds the last row
    [[3, 1]]

    References
    ----------
    "Torch modules", see docs/theory/23-training.md.
    """

    X: NDArray[Any]
    y: IntArray
    index: IntArray
    sizes: IntArray

    def __post_init__(self) -> None:
        if self.X.ndim < 2 or self.y.shape != (len(self.X),) or self.y.dtype.kind not in "biu":
            raise InvalidInputError(
                f"X must have rows and y one class number for each, got shapes {self.X.shape} "
                f"and {self.y.shape}"
            )
        if self.index.ndim != 3 or self.sizes.shape != self.index.shape[:2] or not self.index.size:
            raise InvalidInputError(
                f"index must be (splits, agents, rows) and sizes (splits, agents), got shapes "
                f"{self.index.shape} and {self.sizes.shape}"
            )
        if self.index.min() < 0 or self.index.max() >= len(self.X):
            raise InvalidInputError(f"index must name rows between 0 and {len(self.X) - 1}")
        if self.sizes.min() < 1 or self.sizes.max() > self.index.shape[2]:
            raise InvalidInputError(f"sizes must be between 1 and {self.index.shape[2]}")

    def __repr__(self) -> str:
        return f"Sites({self.agents} agents, {len(self.y)} rows, {self.splits} splits)"

    @property
    def agents(self) -> int:
        """Number of agents."""
        return int(self.index.shape[1])

    @property
    def splits(self) -> int:
        """Number of different splits."""
        return int(self.index.shape[0])

    @classmethod
    def from_agents(cls, X: NDArray[Any], y: ArrayLike, agent_of_row: ArrayLike) -> Sites:
        """Build from the agent number of every row, ``(N,)`` or ``(T, N)``; -1 is nobody.

        Examples
        --------
        >>> sites = Sites.from_agents(np.zeros((5, 1)), [0, 1, 0, 1, 0], [0, 0, 1, 0, -1])
        >>> sites.sizes.tolist()
        [[3, 1]]
        """
        X = X if isinstance(X, np.ndarray) else check_float_array(X, "X")
        if not X.ndim:
            raise InvalidInputError("X must have rows and columns")
        labels = class_numbers(y, len(X))
        if fault := array_fault(agent_of_row, kinds="iu"):
            raise InvalidInputError(f"agent_of_row must be the agent number of every row: {fault}")
        owner = np.atleast_2d(np.asarray(agent_of_row, dtype=np.int64))
        if owner.ndim > 2 or owner.shape[1] != len(X) or len(labels) != len(X):
            raise InvalidInputError(
                f"X has {len(X)} rows, y has {len(labels)} and the sites name {owner.shape[1]}"
            )
        agents = int(owner.max()) + 1
        check_size(agents, len(X), "agents for these rows")
        sizes = np.stack([np.bincount(row[row >= 0], minlength=agents) for row in owner])
        if agents == 0 or (sizes == 0).any():
            empty = int(np.argwhere(sizes == 0)[0][1]) if agents else 0
            raise InvalidInputError(f"agent {empty} holds no row; leave it out")
        check_size(len(owner) * agents * int(sizes.max()), MOST_PADDED, "padded rows")
        index = np.zeros((len(owner), agents, int(sizes.max())), dtype=np.int64)
        for t, row in enumerate(owner):
            for m in range(agents):
                held = np.flatnonzero(row == m)
                index[t, m, : len(held)] = held
        return cls(X, labels, index, sizes.astype(np.int64))


def party_rows(
    objective: Objective,
    X: Any,
    y: Any,
    what: str = "X",
    columns: tuple[str, ...] | None = None,
) -> tuple[FloatArray, IntArray]:
    """Return one party's rows in the shape the model wants, and their class numbers.

    Rows are a frame of numbers, an array, images or a torch tensor; ``columns`` are the names and
    the order that the columns of a frame must have.

    Examples
    --------
    >>> from counterplay.federated import LayeredObjective
    >>> party_rows(LayeredObjective([1, 2]), [[1.0]], [2])
    Traceback (most recent call last):
        ...
    counterplay.errors.InvalidInputError: y must hold class numbers from 0 to 1, got 2
    """
    from counterplay.tables import Table

    rows = believable_rows(Table.of(without_torch(X), columns=columns, what=what))
    return objective.rows(rows), class_numbers(y, len(rows), objective.classes)


def believable_rows(table: Table) -> FloatArray:
    """Return the numbers of a table; refuse those that no training step can square."""
    rows = table.numbers()
    if np.abs(rows).max() > LARGEST:
        raise InvalidInputError(
            f"{table.what} has numbers beyond {LARGEST:g}; scale the columns first"
        )
    return rows


def class_numbers(y: Any, rows: int, classes: int = 0) -> IntArray:
    """Return labels as class numbers ``0, 1, ...``, below ``classes`` where that is known."""
    values = without_torch(y)
    if hasattr(values, "dtype") and values.dtype.kind == "O":  # categories, nullable types
        values = np.asarray(values, dtype=object)
    if fault := array_fault(values, kinds="biuf"):
        raise InvalidInputError(
            f"y must hold class numbers 0, 1, ...: {fault}; use sklearn's LabelEncoder"
        )
    numbers = np.asarray(values)
    numbers = numbers.astype(np.float64) if numbers.dtype.kind == "O" else numbers
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    if numbers.shape != (rows,):
        raise InvalidInputError(
            f"y must have one class number for each of {rows} rows, got shape {numbers.shape}"
        )
    with np.errstate(invalid="ignore"):
        whole = numbers.astype(np.int64)
    if (whole != numbers).any() or (whole < 0).any():
        odd = numbers[(whole != numbers) | (whole < 0)][0]
        raise InvalidInputError(f"y must hold class numbers 0, 1, ..., got {shorten(odd.item())}")
    if classes and whole.size and whole.max() >= classes:
        raise InvalidInputError(
            f"y must hold class numbers from 0 to {classes - 1}, got {whole.max()}"
        )
    return whole


def without_torch(values: Any) -> Any:
    """Return a torch tensor as an array, everything else as it is."""
    return np.asarray(values.detach().cpu()) if hasattr(values, "detach") else values


def minibatches(
    keys: Keys, round: int, sizes: IntArray, steps: int, batch_size: int, first: int = 0
) -> IntArray:
    """Draw positions within each agent's rows: ``(S, M, steps, batch_size)``.

    Parameters
    ----------
    keys:
        One key per seed, ``(S,)``.
    round:
        Number of the round, from 1.
    sizes:
        Rows per agent, ``(M,)``, ``(1, M)`` or ``(S, M)``.
    steps:
        Local steps.
    batch_size:
        Rows per step, drawn with replacement.
    first:
        Number of the agent that ``sizes`` begins with.

    Examples
    --------
    >>> from counterplay.core.draws import run_keys
    >>> minibatches(run_keys(0, 1), 1, np.array([4, 100]), 2, 3)[0, 0].tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    counts = np.atleast_2d(sizes)
    per_round = fold(keys, _BATCH, round)
    per_agent = np.stack([fold(per_round, first + m) for m in range(counts.shape[1])], axis=1)
    drawn = uniforms(per_agent, steps * batch_size)
    drawn = drawn.reshape(*per_agent.shape, steps, batch_size)
    return (drawn * counts[..., None, None]).astype(np.int64)


class SiteArrays:
    """The data of some seeds on the device: every agent's rows side by side."""

    def __init__(self, sites: Sites, backend: Backend, runs: IntArray) -> None:
        self.sites, self.backend, self.runs = sites, backend, runs
        self.pool, self.labels = backend.put(sites.X), backend.put(sites.y)
        self.agents = sites.agents
        self.choose(runs)

    def choose(self, runs: IntArray) -> None:
        """Keep these seeds only."""
        self.runs = runs
        split = runs if self.sites.splits > 1 else np.zeros(len(runs), dtype=np.int64)
        self.index, self.sizes = self.sites.index[split], self.sites.sizes[split]
        flat = self.index.reshape(-1, self.index.shape[-1])
        rows = self.backend.put(flat)
        self.x, self.y = self.pool[rows], self.labels[rows]
        counts = self.sizes.reshape(-1, 1)
        counted = np.arange(flat.shape[1]) < counts
        self.weight = self.backend.put(counted / counts)

    def batch(self, positions: IntArray) -> tuple[Array, Array, Array]:
        """Return rows, labels and weights of one minibatch per agent, ``(S * M, b, ...)``."""
        rows = np.take_along_axis(self.index, positions, axis=2).reshape(-1, positions.shape[2])
        where = self.backend.put(rows)
        weight = self.backend.full(rows.shape, 1.0 / rows.shape[1])
        return self.pool[where], self.labels[where], weight

    def only(self, agents: IntArray) -> SiteArrays:
        """The same data with some of the agents, for one seed."""
        part = copy.copy(self)
        where = self.backend.put(agents)
        part.index, part.sizes = self.index[:, agents], self.sizes[:, agents]
        part.x, part.y, part.weight = self.x[where], self.y[where], self.weight[where]
        part.agents = len(agents)
        return part
