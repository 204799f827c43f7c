"""What a move costs: norms with a price per feature, and finite tables of distances.

A metric answers two questions: how far apart are two points, and, for norms, which is the cheapest
move across a hyperplane. Features that cannot be moved have an infinite price.

Source: "Distances that are exact", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, array_fault, check_choice, shorten
from counterplay.errors import InvalidInputError

Points = NDArray[Any]
DUAL: dict[float, float] = {1: math.inf, 2: 2, math.inf: 1}
"""The norms of a move, and the norm that is dual to each."""


class Metric(ABC):
    """Distances between points; the cost of moving from one to the other."""

    @abstractmethod
    def pairwise(self, points: Points, others: Points) -> FloatArray:
        """Return the distances between every point and every other point."""


@checked
class NormMetric(Metric):
    """A norm of the move, each feature weighted by its price.

    Use it to say what effort means: ``norm=1`` adds the efforts of all features, ``norm=2`` is the
    usual Euclidean length, ``norm=inf`` counts only the largest one.

    Parameters
    ----------
    norm:
        1, 2 or ``numpy.inf``.
    costs:
        Price of one unit of each feature, positive; ``numpy.inf`` for a feature that cannot be
        moved. Default: every feature costs 1.

    Notes
    -----
    The cheapest way across the hyperplane ``w . x = b`` costs the gap divided by the dual norm of
    ``w / costs`` (2 is dual to 2, 1 to infinity), which is exact for all three norms.

    Examples
    --------
    Feature 1 is three times as expensive to move as feature 0, feature 2 cannot be moved.

    >>> import numpy as np
    >>> metric = NormMetric(norm=1, costs=[1.0, 3.0, np.inf])
    >>> metric.length([[1.0, 1.0, 0.0], [0.0, 0.0, 0.1]])
    array([ 4., inf])
    >>> metric.dual([[2.0, 3.0, 5.0]])
    array([2.])
    """

    def __init__(self, norm: float = 2, costs: ArrayLike | None = None) -> None:
        self.norm = check_choice(norm, "norm", tuple(DUAL))
        self.costs = None if costs is None else _check_costs(costs)

    def __repr__(self) -> str:
        costs = "" if self.costs is None else f", costs={self.costs.tolist()}"
        return f"NormMetric(norm={self.norm:g}{costs})"

    def pairwise(self, points: Points, others: Points) -> FloatArray:
        """Return the cost of moving from every point to every other point."""
        a, b = np.atleast_2d(points), np.atleast_2d(others)
        self.check_width(a.shape[1])
        out = np.empty((a.shape[0], b.shape[0]))
        for j in range(b.shape[0]):
            out[:, j] = self.length(b[j] - a)
        return out

    def check_width(self, width: int) -> None:
        """Raise if there is not one price for each of ``width`` features."""
        if self.costs is not None and self.costs.size != width:
            raise InvalidInputError(
                f"there are {width} features but {self.costs.size} costs; give one price each"
            )

    def length(self, moves: ArrayLike) -> FloatArray:
        """Return the cost of each row of ``moves``."""
        if fault := array_fault(moves, kinds="biuf"):
            raise InvalidInputError(f"moves must be rows of numbers: {fault}")
        size = np.abs(np.atleast_2d(np.asarray(moves, dtype=np.float64)))
        self.check_width(size.shape[-1])
        if self.costs is not None:
            with np.errstate(invalid="ignore"):
                size = np.where(size == 0, 0.0, size * self.costs)
        return _norm(size, self.norm)

    def dual(self, weights: ArrayLike) -> FloatArray:
        """Return the dual norm of each row: the gain in ``w . x`` that one unit of effort buys."""
        w = np.abs(np.atleast_2d(np.asarray(weights, dtype=np.float64)))
        return _norm(w if self.costs is None else w / self.costs, DUAL[self.norm])

    def move(self, weights: ArrayLike) -> FloatArray:
        """Return, per row ``w``, the cheapest move with ``w . move = 1``; NaN where none exists."""
        w = np.atleast_2d(np.asarray(weights, dtype=np.float64))
        prices = np.ones(w.shape[1]) if self.costs is None else self.costs
        value = np.abs(w) / prices
        if self.norm == 2:
            raw = w / prices**2
        elif self.norm == 1:
            raw = np.zeros_like(w)
            rows = np.arange(w.shape[0])
            best = np.argmax(value, axis=1)
            raw[rows, best] = np.sign(w[rows, best]) * (value[rows, best] > 0)
        else:
            raw = np.sign(w) / prices
        with np.errstate(invalid="ignore", divide="ignore"):
            gain = np.where(np.isinf(prices), 0.0, w * raw).sum(axis=1, keepdims=True)
            return np.where(gain > 0, raw / gain, np.nan)


def _norm(size: FloatArray, norm: float) -> FloatArray:
    if size.shape[1] == 0:
        return np.zeros(size.shape[0])
    return np.asarray(np.linalg.norm(size, norm, axis=1))


def _check_costs(costs: ArrayLike) -> FloatArray:
    if fault := array_fault(costs, kinds="biuf"):
        raise InvalidInputError(f"costs must be one number per feature: {fault}")
    array = np.ascontiguousarray(costs, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise InvalidInputError(f"costs must be one number per feature, got shape {array.shape}")
    if np.isnan(array).any() or (array <= 0).any():
        raise InvalidInputError(
            "costs must be positive (numpy.inf for a feature that cannot be moved), "
            f"got {array.tolist()}"
        )
    array.setflags(write=False)
    return array


@checked
class TableMetric(Metric):
    """Distances between the points 0..N-1 of a finite space, given as a table.

    Parameters
    ----------
    table:
        Symmetric ``(N, N)`` array with zero diagonal that satisfies the triangle inequality;
        ``numpy.inf`` means out of reach.
    check_metric:
        Check the triangle inequality: completely for at most 300 points, else on a fixed sample of
        triples. Pass False to skip it.

    Examples
    --------
    >>> TableMetric([[0, 1, 2], [1, 0, 1], [2, 1, 0]]).pairwise([0], [1, 2])
    array([[1., 2.]])
    """

    def __init__(self, table: ArrayLike, *, check_metric: bool = True) -> None:
        self.table = _check_table(table, check_metric)
        self.size = self.table.shape[0]

    def __repr__(self) -> str:
        return f"TableMetric({self.size} points)"

    def pairwise(self, points: Points, others: Points) -> FloatArray:
        """Return the table entries for the given point numbers."""
        return self.table[np.ix_(self._numbers(points), self._numbers(others))]

    def _numbers(self, points: Points) -> NDArray[np.int64]:
        if fault := array_fault(points, kinds="iu"):
            raise InvalidInputError(f"points are numbers below {self.size}: {fault}")
        index = np.atleast_1d(np.asarray(points))
        if index.ndim != 1 or (index.size and not 0 <= index.min() <= index.max() < self.size):
            raise InvalidInputError(f"points are a list of numbers from 0 to {self.size - 1}")
        return index.astype(np.int64)


def _check_table(table: ArrayLike, check_metric: bool) -> FloatArray:
    if fault := array_fault(table, kinds="biuf"):
        raise InvalidInputError(f"dist must be a square table of numbers: {fault}")
    try:
        d = np.array(table, dtype=np.float64)
    except (TypeError, ValueError) as error:
        why = shorten(str(error), 120)
        raise InvalidInputError(f"dist must be a square table of numbers: {why}") from None
    if d.ndim != 2 or d.shape[0] != d.shape[1] or d.shape[0] == 0:
        raise InvalidInputError(f"dist must be a square table, got shape {d.shape}")
    if np.isnan(d).any() or (d < 0).any():
        where = tuple(int(i) for i in np.argwhere(np.isnan(d) | (d < 0))[0])
        raise InvalidInputError(f"dist must not be NaN or negative; entry {where} is {d[where]}")
    if (np.diagonal(d) != 0).any():
        i = int(np.flatnonzero(np.diagonal(d))[0])
        raise InvalidInputError(f"dist must be zero on the diagonal; entry ({i}, {i}) is {d[i, i]}")
    if not np.array_equal(d, d.T):
        i, j = (int(v) for v in np.argwhere(d != d.T)[0])
        raise InvalidInputError(
            f"dist must be symmetric; entries ({i}, {j}) and ({j}, {i}) are {d[i, j]} and {d[j, i]}"
        )
    if check_metric:
        _check_triangle(d)
    d.setflags(write=False)
    return d


def _check_triangle(d: FloatArray, full_size: int = 300, sample: int = 200_000) -> None:
    n = d.shape[0]
    slack = 1e-9 * max(1.0, float(d[np.isfinite(d)].max(initial=0.0)))
    if n <= full_size:
        for k in range(n):
            bad = d > d[:, k, None] + d[None, k, :] + slack
            if bad.any():
                i, j = (int(v) for v in np.argwhere(bad)[0])
                raise _triangle_error(d, i, j, k)
        return
    i, j, k = np.random.default_rng(0).integers(n, size=(3, sample))
    bad = d[i, j] > d[i, k] + d[k, j] + slack
    if bad.any():
        t = int(np.flatnonzero(bad)[0])
        raise _triangle_error(d, int(i[t]), int(j[t]), int(k[t]))


def _triangle_error(d: FloatArray, i: int, j: int, k: int) -> InvalidInputError:
    return InvalidInputError(
        f"dist violates the triangle inequality: d({i},{j}) = {d[i, j]:g} is more than "
        f"d({i},{k}) + d({k},{j}) = {d[i, k] + d[k, j]:g}; pass check_metric=False to accept it"
    )
