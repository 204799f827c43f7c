"""CoverLearner: half-spaces with a margin in any dimension, one label per cell of a grid.

The printed learner uses balls of diameter gamma. Such a ball can hold a margin point and reach
across the boundary, so an attacker who ignores the margin can plant the other label in it. Cells of
diameter gamma/2 cannot, and the attack is gone. Source: docs/theory/10-poisoning.md, "Theorem 10.3
and Proposition 10.G: the cover learner, repaired".
"""

from __future__ import annotations

import warnings
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_float_array,
    check_real,
)
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.poisoning import bounds
from counterplay.poisoning.model import BatchLearner, LabelledSet, Labels, LinearTarget, Target

Mode = Literal["free_attacker", "margin_attacker"]


@checked
class CoverLearner(BatchLearner):
    """Remember one label per grid cell; unseen cells get a coin.

    Parameters
    ----------
    gamma:
        The margin: ``(2y-1)(<w, x> + b) >= gamma ||w|| / 2`` on the data, in (0, 2].
    mode:
        ``"free_attacker"`` (default): cells of diameter gamma/2, safe against poison anywhere;
        cells with both labels, which rows that obey the margin cannot cause, count as unseen.
        ``"margin_attacker"``: cells of diameter gamma, safe only if poison obeys the margin, too;
        cells with both labels then take the majority.
    unseen:
        Label of unseen cells: ``"coin"`` (attack probability 1/2 there), 0 or 1.
    origin:
        Corner of the grid, a number or one per axis; fix it before you see data.
    random_state:
        Seed of the coins.

    Notes
    -----
    Guaranteed: attackable rate at most eps with probability 1 - delta after
    ``V ln(V/delta)/eps`` rows, V the number of cells that meet the unit ball.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 41)[:, None]
    >>> X = X[np.abs(X[:, 0]) >= 0.25]
    >>> learner = CoverLearner(gamma=0.5, random_state=0).fit(X, X[:, 0] >= 0)
    >>> learner.n_cells_, learner.sample_size(n=1, eps=0.1, delta=0.05)
    (8, 468)
    """

    def __init__(
        self,
        gamma: float,
        *,
        mode: Mode = "free_attacker",
        unseen: Literal["coin", 0, 1] = "coin",
        origin: float | ArrayLike = 0.0,
        random_state: RandomState = 0,
    ) -> None:
        self.gamma = check_real(gamma, "gamma", low=0, high=2, open_low=True)
        self.mode = check_choice(mode, "mode", ("free_attacker", "margin_attacker"))
        if unseen not in ("coin", 0, 1):
            raise InvalidInputError(f"unseen must be 'coin', 0 or 1, got {unseen!r}")
        self.unseen = unseen
        self.origin = origin
        self.random_state = random_state
        self.randomised = unseen == "coin"

    @property
    def rho(self) -> float:
        """Diameter of a cell."""
        return self.gamma / 2 if self.mode == "free_attacker" else self.gamma

    def sample_size(self, n: int, eps: float, delta: float) -> int:
        """Rows that suffice in dimension n, with the grid's own number of cells."""
        return bounds.cover_sample_size(bounds.grid_cells(n, self.rho), eps, delta)

    def cells(self, X: ArrayLike) -> IntArray:
        """Grid coordinates of each row: half-open cubes of side rho / sqrt(n)."""
        x = check_float_array(np.asarray(X, dtype=np.float64), "X")
        x = x[:, None] if x.ndim == 1 else x
        side = self.rho / np.sqrt(x.shape[1])
        cells: IntArray = np.floor((x - np.asarray(self.origin)) / side).astype(np.int64)
        return cells

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Store the label of each occupied cell."""
        S = LabelledSet(np.asarray(X, dtype=np.float64), np.asarray(y))
        self.coin_ = int(generator(self.random_state).integers(2**63))
        keys, where = np.unique(_keys(self.cells(S.X)), return_inverse=True)
        ones = np.bincount(where.reshape(-1), weights=S.y, minlength=keys.size)
        counts = np.bincount(where.reshape(-1), minlength=keys.size)
        keep = (ones == 0) | (ones == counts) | (self.mode == "margin_attacker")
        if not keep.all():
            warnings.warn(
                f"{int((~keep).sum())} of {keep.size} cells have both labels and count as unseen: "
                f"gamma={self.gamma:g} is too large, or the labels are not linear",
                AssumptionWarning,
                stacklevel=2,
            )
        keys, ones, counts = keys[keep], ones[keep], counts[keep]
        self.keys_ = keys
        self.votes_: FloatArray = np.asarray(2 * ones - counts, dtype=np.float64)
        self.n_cells_ = int(keys.size)
        return self

    def seen(self, X: ArrayLike) -> BoolArray:
        """Whether the cell of each row has a label."""
        return self._lookup(self.cells(X))[0]

    def predict(self, X: ArrayLike) -> Labels:
        """Label of the cell; unseen and tied cells get the coin or the fixed label."""
        cells = self.cells(X)
        known, vote = self._lookup(cells)
        rest = _coins(cells, self.coin_) if self.unseen == "coin" else int(self.unseen)
        return np.where(known & (vote != 0), vote > 0, rest).astype(np.uint8)

    def attack_probability(self, X: ArrayLike) -> FloatArray:
        """Exact probability that an attacker flips each row of the support: 1/2 if unseen."""
        return np.where(self.seen(X), 0.0, 0.5 if self.unseen == "coin" else 1.0)

    def certified(
        self, h_star: Target, S: LabelledSet, X: ArrayLike, budget: int | None = None
    ) -> BoolArray:
        """Rows whose cell has their label for good, in the safe mode.

        A clean row of the other label makes a cell unseen again. For a :class:`LinearTarget` the
        cells that such a row can reach are left out; other targets must obey the margin.
        """
        cells = self.cells(X)
        if self.mode != "free_attacker":
            return np.zeros(len(cells), dtype=np.bool_)
        truth = np.asarray(h_star(np.asarray(X, dtype=np.float64).reshape(cells.shape)))
        known, vote = self._lookup(cells)
        safe: BoolArray = known & ((vote > 0) == (truth == 1))
        if isinstance(h_star, LinearTarget):
            safe &= self._one_sided(h_star, cells)
        return safe

    def _one_sided(self, h_star: LinearTarget, cells: IntArray) -> BoolArray:
        """Cells on one side of the target, with room for rounding."""
        side = self.rho / np.sqrt(cells.shape[1])
        middle = (cells + 0.5) * side + np.asarray(self.origin)
        room = np.abs(h_star.w).sum() * (side / 2 + 1e-9 * (side + np.abs(middle).max(axis=1)))
        clear: BoolArray = np.abs(h_star.decision_function(middle) + h_star.tolerance) > room
        return clear

    def _lookup(self, cells: IntArray) -> tuple[BoolArray, FloatArray]:
        keys = _keys(cells)
        if self.keys_.size == 0:
            return np.zeros(keys.size, dtype=np.bool_), np.zeros(keys.size)
        place = np.minimum(np.searchsorted(self.keys_, keys), self.keys_.size - 1)
        known: BoolArray = self.keys_[place] == keys
        return known, np.where(known, self.votes_[place], 0.0)


def _keys(cells: IntArray) -> NDArray[np.void]:
    """Return each row as one comparable item."""
    rows = np.ascontiguousarray(cells)
    if rows.size == 0:
        return np.zeros(len(rows), dtype=np.dtype((np.void, 8)))
    return rows.view(np.dtype((np.void, 8 * rows.shape[1]))).reshape(-1)


def _coins(cells: IntArray, seed: int) -> IntArray:
    """One fair coin per cell, the same at every call (splitmix64 of the coordinates)."""
    state = np.full(len(cells), np.uint64(seed))
    with np.errstate(over="ignore"):
        for axis in range(cells.shape[1]):
            state = (state ^ cells[:, axis].view(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    return (state >> np.uint64(63)).astype(np.int64)
