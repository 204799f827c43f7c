"""Games given as a table: finitely many levels per party, utilities for every combination.

Everything is answered by exhaustive, vectorised comparison, so the table is also the referee for
the other solvers on small games.
Source: "PAC games", Proposition 4.I, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.contribution.game import CollabGame
from counterplay.core.arguments import checked
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    check_float_array,
    check_size,
    shorten,
)
from counterplay.errors import InvalidInputError

MAX_CELLS = 2_000_000


@checked
class TabularGame(CollabGame):
    """A data-sharing game on a finite grid of contribution levels.

    Use it for measured utilities (one training run per combination), or to check another game
    exhaustively (:meth:`from_game`).

    Parameters
    ----------
    levels:
        One increasing sequence of contribution levels per party.
    U:
        Utilities, shape ``(k, L_1, ..., L_k)``.
    mu:
        Targets.
    cost:
        Price per unit of each party, 1 by default.
    tol:
        Utilities this far below the target still reach it.

    Notes
    -----
    ``stable``, ``envy_free`` and ``feasible`` mark every cell of the grid exactly by definition;
    utilities need not be monotone.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Sec. 2, definitions of the equilibria.

    Examples
    --------
    The cycle without a stable plan, written as a table:

    >>> import numpy as np
    >>> a = np.array(np.meshgrid([0, 1], [0, 1], [0, 1], indexing="ij"))
    >>> U = 0.5 + 0.5 * np.maximum(a, np.roll(a, 1, axis=0))
    >>> game = TabularGame([[0, 1]] * 3, U, mu=1.0)
    >>> int(game.feasible.sum()), int(game.stable.sum())
    (4, 0)
    """

    def __init__(
        self,
        levels: Sequence[ArrayLike],
        U: ArrayLike,
        mu: ArrayLike,
        *,
        cost: ArrayLike | None = None,
        tol: float = 1e-12,
    ) -> None:
        check_size(len(levels), 32, "parties of a table")  # axes of an array
        self.levels = tuple(check_float_array(level, "levels", ndim=1) for level in levels)
        for i, level in enumerate(self.levels):
            if level.size == 0 or (np.diff(level) <= 0).any() or level[0] < 0:
                raise InvalidInputError(f"levels[{i}] must be non-negative and strictly increasing")
        self.U = check_float_array(U, "U")
        shape = (len(self.levels), *(level.size for level in self.levels))
        if self.U.shape != shape:
            raise InvalidInputError(f"U must have shape {shape}, got {self.U.shape}")
        self.tol = tol
        upper = [level[-1] for level in self.levels]
        super().__init__(len(self.levels), mu, upper=upper, cost=cost)

    @classmethod
    def from_game(cls, game: CollabGame, levels: Sequence[ArrayLike] | None = None) -> Self:
        """Tabulate another game, by default (whole numbers) up to the stand-alone levels."""
        if not isinstance(game, CollabGame):
            raise InvalidInputError(f"game must be a game, got {shorten(game, 100)}")
        if levels is None:
            if not game.integral:
                raise InvalidInputError("give levels: the game has no natural grid")
            top = game.box if game.upper is None else game.caps
            levels = [np.arange(int(t) + 1) for t in top]
        axes = [check_float_array(level, "levels", ndim=1) for level in levels]
        if prod(axis.size for axis in axes) > MAX_CELLS:
            raise InvalidInputError(
                f"the grid has more than {MAX_CELLS:,} cells; give fewer levels per party"
            )
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, game.k)
        values = game.utilities(points)
        U = values.T.reshape(game.k, *(axis.size for axis in axes))
        return cls(axes, U, game.mu, cost=game.cost)

    @property
    def points(self) -> FloatArray:
        """All grid points, one per row, in C order of the table."""
        grids = np.meshgrid(*self.levels, indexing="ij")
        return np.stack(grids, axis=-1).reshape(-1, self.k)

    @property
    def feasible(self) -> BoolArray:
        """Cells in which every party reaches its target."""
        return np.asarray(self._reached().all(axis=0))

    @property
    def stable(self) -> BoolArray:
        """Feasible cells from which nobody can move to a lower level and stay satisfied."""
        reached = self._reached()
        stable = reached.all(axis=0)
        for i in range(self.k):
            lower = np.zeros_like(stable)
            head = np.moveaxis(lower, i, 0)
            head[1:] = np.logical_or.accumulate(np.moveaxis(reached[i], i, 0), axis=0)[:-1]
            stable &= ~lower
        return np.asarray(stable)

    @property
    def envy_free(self) -> BoolArray:
        """Feasible cells in which nobody would rather carry a strictly lighter party's load."""
        reached = self._reached()
        free = reached.all(axis=0)
        for i in range(self.k):
            for j in range(self.k):
                if i != j:
                    free &= ~self._envies(reached[i], i, j)
        return np.asarray(free)

    def cheapest(self, where: BoolArray, *, sense: int = 1) -> FloatArray | None:
        """Return the marked grid point with the least total (most for ``sense=-1``), or None."""
        if not where.any():
            return None
        candidates = self.points[where.ravel()]
        return np.asarray(candidates[np.argmin(sense * (candidates @ self.cost))])

    def check_theta(self, theta: ArrayLike) -> FloatArray:
        """Return ``theta`` if every entry is one of the levels."""
        array = super().check_theta(theta)
        for i, level in enumerate(self.levels):
            self._refuse_column(np.isin(array[..., i], level), array, i)
        return array

    def best_response(self, i: int, theta: ArrayLike) -> float:
        """Return the lowest satisfying level of party ``i``, or its highest level if none is."""
        party, vector = self.check_party(i), self._vector(theta)
        index: list[Any] = list(self._index(vector[None, :])[0])
        index[party] = slice(None)
        enough = self.U[(party, *index)] >= self.mu[party] - self.tol
        level = self.levels[party]
        return float(level[np.argmax(enough)] if enough.any() else level[-1])

    def swap_utilities(self, theta: ArrayLike) -> FloatArray:
        """Return ``S[i, j]``; NaN where a party has no level equal to the other's contribution."""
        vector = self._vector(theta)
        swapped = np.full((self.k, self.k), np.nan)
        for i in range(self.k):
            for j in range(self.k):
                other = vector.copy()
                other[[i, j]] = other[[j, i]]
                if all(np.isin(other[a], self.levels[a]) for a in (i, j)):
                    swapped[i, j] = self._utilities(other[None, :])[0, i]
        return swapped

    def _utilities(self, theta: FloatArray) -> FloatArray:
        index = self._index(theta)
        return np.stack([self.U[(slice(None), *row)] for row in index])

    def _best_response(self, i: int, theta: FloatArray) -> float:
        return self.best_response(i, theta)

    def _index(self, theta: FloatArray) -> list[tuple[Any, ...]]:
        columns = [np.searchsorted(level, theta[:, i]) for i, level in enumerate(self.levels)]
        return [tuple(row) for row in np.stack(columns, axis=1)]

    def _reached(self) -> BoolArray:
        mu = self.mu.reshape(-1, *([1] * self.k))
        return np.asarray(mu - self.tol <= self.U)

    def _envies(self, reached: BoolArray, i: int, j: int) -> BoolArray:
        """Cells where i reaches its target with j's strictly lower contribution exchanged."""
        a, b = self.levels[i], self.levels[j]
        pos_in_a = np.searchsorted(a, b).clip(0, a.size - 1)  # j's level as one of i's
        pos_in_b = np.searchsorted(b, a).clip(0, b.size - 1)
        possible = (a[pos_in_a] == b)[None, :] & (b[pos_in_b] == a)[:, None]
        possible &= a[:, None] > b[None, :]
        front = np.moveaxis(reached, (i, j), (0, 1))
        swapped = front[pos_in_a[None, :], pos_in_b[:, None]]
        envy = swapped & possible.reshape(*possible.shape, *([1] * (self.k - 2)))
        return np.moveaxis(envy, (0, 1), (i, j))

    def _refuse_column(self, known: BoolArray, array: FloatArray, i: int) -> None:
        if not known.all():
            bad = float(np.ravel(array[..., i])[np.argmin(np.ravel(known))])
            raise InvalidInputError(
                f"theta[{i}]={bad:g} is not one of the levels of {self.party(i)}"
            )
