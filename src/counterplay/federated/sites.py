"""The agents' data: one pool of rows, and who holds which of them in every seed.

Sites of different size are padded with rows of weight zero. Minibatches are drawn with replacement
from numbers that depend on (seed, round, agent) only, so that an agent draws the same rows in a
batch of seeds, alone, on a GPU, or in a Flower client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.draws import Keys, fold, uniforms
from counterplay.core.validation import IntArray
from counterplay.errors import InvalidInputError
from counterplay.federated.arrays import Array, Backend

_BATCH = 501


@dataclass(frozen=True, repr=False)
class Sites:
    """Rows, labels (class numbers) and who holds them.

    ``index`` ``(T, M, n)`` holds row numbers, padded with 0; ``sizes`` ``(T, M)`` says how many
    count. ``T`` is the number of different splits: 1 (shared by all seeds) or one per seed.
    """

    X: NDArray[Any]
    y: IntArray
    index: IntArray
    sizes: IntArray

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
        owner = np.atleast_2d(np.asarray(agent_of_row, dtype=np.int64))
        labels = np.asarray(y, dtype=np.int64)
        if owner.shape[1] != len(X) or len(labels) != len(X):
            raise InvalidInputError(
                f"X has {len(X)} rows, y has {len(labels)} and the sites name {owner.shape[1]}"
            )
        agents = int(owner.max()) + 1
        sizes = np.stack([np.bincount(row[row >= 0], minlength=agents) for row in owner])
        if agents == 0 or (sizes == 0).any():
            empty = int(np.argwhere(sizes == 0)[0][1]) if agents else 0
            raise InvalidInputError(f"agent {empty} holds no row; leave it out")
        index = np.zeros((len(owner), agents, int(sizes.max())), dtype=np.int64)
        for t, row in enumerate(owner):
            for m in range(agents):
                held = np.flatnonzero(row == m)
                index[t, m, : len(held)] = held
        return cls(X, labels, index, sizes.astype(np.int64))


def minibatches(keys: Keys, round: int, sizes: IntArray, steps: int, batch_size: int) -> IntArray:
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

    Examples
    --------
    >>> from counterplay.core.draws import run_keys
    >>> minibatches(run_keys(0, 1), 1, np.array([4, 100]), 2, 3)[0, 0].tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    counts = np.atleast_2d(sizes)
    per_round = fold(keys, _BATCH, round)
    per_agent = np.stack([fold(per_round, m) for m in range(counts.shape[1])], axis=1)
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
