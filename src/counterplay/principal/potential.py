"""The second-order potential behind the forecaster: who has been wronged, and how much.

Every event keeps, per outcome, the signed sum R of its residuals and the sum Q of their squares.
``Phi = sum_events weight * sum_{j,sign,k} exp(sign eta_k R_j - eta_k^2 Q_j) / G`` over a grid of
learning rates ``eta_k = 2^-k``. Because ``exp(z - z^2) <= 1 + z`` for z >= -1/2, a forecast with a
small minimax gap keeps the expected potential small, and a small potential bounds every |R|.
Source: Proposition 7.A, see docs/theory/07-principal.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numba import njit

from counterplay.core.validation import FloatArray, IntArray

_LARGEST_EXPONENT = 700.0


class Potential:
    """Residual sums of all visited events; rows appear when an event is first active.

    Parameters
    ----------
    n_outcomes:
        Number of outcomes.
    n_events:
        Number of possible events; None gives the i-th visited event (i = 0, 1, ...) the weight
        ``1 / ((i + 1)(i + 2))``, which needs no number: the weights sum to one whatever happens.
    n_rates:
        Number G of learning rates.
    dense:
        Allocate all rows at the start (only for known ``n_events``).
    batch:
        Most outcomes that become known together; the learning rates are divided by it.
    """

    def __init__(
        self,
        n_outcomes: int,
        n_events: int | None,
        n_rates: int,
        *,
        dense: bool = False,
        batch: int = 1,
    ) -> None:
        self.n_outcomes = n_outcomes
        self.rates = np.power(0.5, np.arange(1, n_rates + 1), dtype=np.float64) / batch
        self.uniform = n_events is not None
        self.total_weight = float(n_events) if n_events is not None else 1.0
        self.start = 2.0 * n_outcomes * self.total_weight
        self.events: list[int] = []
        self.overflow = False
        self._row: dict[int, int] = {}
        self._allocate(n_events if dense and n_events is not None else 16)
        if dense and n_events is not None:
            for event in range(n_events):
                self._new_row(event)

    def _allocate(self, capacity: int) -> None:
        n = self.n_outcomes
        square, line = ("R", "Q", "W", "phi"), ("n", "weight")
        for name in square + line:
            shape = (capacity, n) if name in square else (capacity,)
            array = np.zeros(shape)
            if hasattr(self, name):
                old = getattr(self, name)
                array[: len(old)] = old
            setattr(self, name, array)

    R: FloatArray
    Q: FloatArray
    W: FloatArray
    phi: FloatArray
    n: FloatArray
    weight: FloatArray

    def _new_row(self, event: int) -> int:
        row = len(self.events)
        if row == len(self.n):
            self._allocate(2 * row)
        self.events.append(event)
        self._row[event] = row
        self.weight[row] = 1.0 if self.uniform else 1.0 / ((row + 1) * (row + 2))
        self.phi[row] = 2.0 * self.weight[row]
        return row

    def rows(self, events: Sequence[int]) -> IntArray:
        """Return the rows of the events that were visited before."""
        found = [self._row[event] for event in events if event in self._row]
        return np.array(found, dtype=np.int64)

    def gain(self, rows: IntArray) -> FloatArray:
        """Return g: the sum of the weight vectors of the active events' rows."""
        g: FloatArray = _sum_rows(self.W, rows)
        return g

    def update(self, events: Sequence[int], residual: FloatArray, count: int = 1) -> None:
        """Add the residual (forecasts minus outcomes, of ``count`` rows) to the active events."""
        rows = [
            self._row[event] if event in self._row else self._new_row(event) for event in events
        ]
        self.overflow |= _update(
            np.array(rows, dtype=np.int64),
            residual,
            self.R,
            self.Q,
            self.n,
            self.W,
            self.phi,
            self.weight,
            self.rates,
            float(count),
        )

    def changes(self, events: Sequence[int], sums: FloatArray, rows: int) -> FloatArray:
        """Change of the potential per event, outcome and number of times it happens.

        ``sums[e]`` is the sum of the forecasts of ``rows`` rounds; entry ``[e, j, c]`` is what
        outcome j adds to event e if it happens c times. Events not visited yet get the rows they
        would get.
        """
        R, Q = np.zeros((2, len(events), self.n_outcomes))
        weight, before = np.empty(len(events)), np.empty((len(events), self.n_outcomes))
        place = self.size
        for e, event in enumerate(events):
            row = self._row.get(event)
            if row is None:
                weight[e] = 1.0 if self.uniform else 1.0 / ((place + 1) * (place + 2))
                before[e] = 2.0 * weight[e]
                place += 1
            else:
                R[e], Q[e], weight[e] = self.R[row], self.Q[row], self.weight[row]
                before[e] = self.phi[row]
        after: FloatArray = _hypothetical(R, Q, weight, self.rates, sums, rows)
        return np.asarray(after - before[:, :, None])

    @property
    def size(self) -> int:
        """Number of rows in use."""
        return len(self.events)

    def value(self) -> float:
        """Return Phi, events never visited included."""
        rows = self.size
        visited = 2.0 * self.n_outcomes * float(self.weight[:rows].sum())
        return self.start - visited + float(self.phi[:rows].sum())

    def bound(self, budget: float, delta: float) -> FloatArray:
        """Bounds on |R| that hold for all rows at once with probability 1 - delta.

        ``budget`` is a bound on the expected potential. Returns an array (rows, outcomes).
        """
        rows = self.size
        levels = np.log(budget * self.rates.size / (delta * self.weight[:rows]))
        rates = self.rates[:, None, None]
        return np.asarray((rates * self.Q[:rows] + levels[:, None] / rates).min(axis=0))


def n_rates_for(horizon: int | None) -> int:
    """Number of learning rates: the smallest is at most 1 / (2 sqrt(T)); 20 if T is unknown."""
    return 20 if horizon is None else math.ceil(math.log2(math.sqrt(horizon))) + 1


@njit(cache=True)
def _sum_rows(W: FloatArray, rows: IntArray) -> FloatArray:
    """Sum of the given rows, always in their order; rows are indices below ``len(W)``."""
    g = np.zeros(W.shape[1])
    for row in rows:
        for j in range(W.shape[1]):
            g[j] += W[row, j]
    return g


@njit(cache=True)
def _hypothetical(
    R: FloatArray,
    Q: FloatArray,
    weight: FloatArray,
    rates: FloatArray,
    sums: FloatArray,
    most: int,
) -> FloatArray:
    """The potential of (event, outcome) if the outcome happens 0, 1, ..., ``most`` times."""
    found = np.empty((R.shape[0], R.shape[1], most + 1))
    for e in range(R.shape[0]):
        scale = weight[e] / rates.shape[0]
        for j in range(R.shape[1]):
            for c in range(most + 1):
                # the summed residual of the round moves R once and Q by its square
                residual = sums[e, j] - c
                r = R[e, j] + residual
                q = Q[e, j] + residual * residual
                size = 0.0
                for eta in rates:
                    damping = eta * eta * q
                    size += math.exp(min(eta * r - damping, _LARGEST_EXPONENT))
                    size += math.exp(min(-eta * r - damping, _LARGEST_EXPONENT))
                found[e, j, c] = scale * size
    return found


@njit(cache=True)
def _update(
    rows: IntArray,
    residual: FloatArray,
    R: FloatArray,
    Q: FloatArray,
    n: FloatArray,
    W: FloatArray,
    phi: FloatArray,
    weight: FloatArray,
    rates: FloatArray,
    count: float,
) -> bool:
    """Add a residual to the rows, then recompute their weights W and their share of Phi.

    Rows are indices below ``len(R)``; returns whether an exponent had to be cut.
    """
    overflow = False
    for row in rows:
        n[row] += count
        scale = weight[row] / rates.shape[0]
        for j in range(residual.shape[0]):
            R[row, j] += residual[j]
            Q[row, j] += residual[j] * residual[j]
            # exp(+-eta R - eta^2 Q) over all rates: their sum is the potential of (event, outcome),
            # the rate-weighted difference of the signs its pull on the next forecast.
            pull = 0.0
            size = 0.0
            for eta in rates:
                damping = eta * eta * Q[row, j]
                if eta * abs(R[row, j]) - damping > _LARGEST_EXPONENT:
                    overflow = True
                up = math.exp(min(eta * R[row, j] - damping, _LARGEST_EXPONENT))
                down = math.exp(min(-eta * R[row, j] - damping, _LARGEST_EXPONENT))
                pull += eta * (up - down)
                size += up + down
            W[row, j] = scale * pull
            phi[row, j] = scale * size
    return overflow
