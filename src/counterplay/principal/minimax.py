"""A random forecast that no outcome can exploit: the minimax step of the forecaster.

Given the gain vector g(x) of every forecast x, find a few forecasts and weights with
``sum_s w_s <g(x_s), x_s> - min_j sum_s w_s g_j(x_s) <= tol``. The value of this game is at most 0,
because answering a known mixed outcome by its mean gives 0.

Two outcomes: bisection. More: cutting planes. Among the outcomes that still exploit all forecasts
found so far, the centre of the largest ball gives the weights (the multipliers of its linear
program) and the analytic centre is the next forecast. The linear program is itself a matrix game:
adding a cut adds a column, so it is kept alive and re-optimised by a few pivots. Analytic centres
cut the set of outcomes well in every direction: tolerances a thousand times below the default need
tens of cuts, where centres of balls get stuck in slivers.
Source: the forecaster of Proposition 7.A, see docs/theory/07-principal.md; the analytic centres are
ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numba import njit

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_positive_int,
    check_size,
    shorten,
)
from counterplay.errors import InvalidInputError

Gain: TypeAlias = Callable[[FloatArray], FloatArray]
Method: TypeAlias = Literal["auto", "bisection", "cutting-plane", "hedge"]
METHODS: tuple[Method, ...] = ("auto", "bisection", "cutting-plane", "hedge")

_SHIFT = 2.0  # makes every entry of the centre game positive: they are at least -sqrt(2)
_EPS = 1e-11


@checked(arrays=True)
@dataclass(frozen=True)
class ForecastLottery:
    """A finite distribution over forecasts with its certificate.

    ``gap`` is recomputed from the points; ``evaluations`` counts the forecasts looked at.
    """

    points: FloatArray
    weights: FloatArray
    gap: float
    evaluations: int

    def drawn(self, uniform: float) -> FloatArray:
        """Return the point that a uniform number draws."""
        at = int(np.searchsorted(np.cumsum(self.weights), uniform, side="right"))
        return np.asarray(self.points[min(at, len(self.weights) - 1)])


@checked
def solve_minimax(
    gain: Gain,
    n: int,
    tol: float,
    *,
    seeds: FloatArray | None = None,
    near: bool = False,
    method: Method = "auto",
    max_evaluations: int = 400,
) -> ForecastLottery:
    """Find a distribution over forecasts of ``n`` outcomes whose gap is at most ``tol``.

    Parameters
    ----------
    gain:
        Function of a forecast (probability vector) that returns the vector g in R^n. It need not
        be continuous.
    tol:
        Requested gap. When ``max_evaluations`` is reached first, the best mixture found is
        returned with its true gap.
    seeds:
        Forecasts (rows) tried first. If the first one alone has a small enough gap it is returned;
        the others become the first cuts. The support of the round before is a good choice.
    near:
        Stay as close to the first seed as is easily found, instead of re-using the other seeds.
    method:
        ``"auto"``: bisection for two outcomes, cutting planes otherwise. ``"hedge"``: the textbook
        loop, for cross-checks; it needs of the order of 1/tol^2 evaluations.

    Examples
    --------
    >>> import numpy as np
    >>> def gain(x):                        # jumps at 1/2: no single forecast is good enough
    ...     return np.array([0.0, 1.0]) if x[1] > 0.5 else np.array([0.0, -1.0])
    >>> mixture = solve_minimax(gain, 2, tol=0.01)
    >>> mixture.points[:, 1].round(3), mixture.gap <= 0.01
    (array([0.5  , 0.516]), True)
    """
    check_size(check_positive_int(n, "n") * max_evaluations, 5 * 10**7, "outcomes x evaluations")
    if seeds is not None and (seeds.ndim != 2 or seeds.shape[1] != n):
        raise InvalidInputError(f"seeds must be rows of {n} probabilities, got {seeds.shape}")
    return minimax_step(gain, n, tol, seeds, near, method, max_evaluations)


def minimax_step(
    gain: Gain,
    n: int,
    tol: float,
    seeds: FloatArray | None,
    near: bool,
    method: Method,
    max_evaluations: int,
) -> ForecastLottery:
    """Solve one step; the arguments of :func:`solve_minimax`, checked before."""
    chosen = method if method != "auto" else ("bisection" if n == 2 else "cutting-plane")
    if chosen == "bisection" and n != 2:
        raise InvalidInputError(f"bisection needs two outcomes, got {n}")
    tried = 0
    if seeds is not None and len(seeds):
        tried = 1
        g = _gain(gain, seeds[0])
        gap = float(g @ seeds[0] - g.min())
        if gap <= tol:
            return ForecastLottery(seeds[:1].copy(), np.ones(1), gap, tried)
    if chosen == "bisection":
        return _bisect(gain, tol, tried, seeds[:1] if near and seeds is not None else seeds)
    if chosen == "hedge":
        return _hedge(gain, n, tol, max_evaluations, tried)
    first = seeds if tried and seeds is not None else np.full((1, n), 1.0 / n)
    return _cutting_planes(gain, n, tol, max(max_evaluations, len(first)), first)


def _gain(gain: Gain, point: FloatArray) -> FloatArray:
    """Ask the function; its answer must have one entry per outcome."""
    g = gain(point)
    if np.shape(g) != point.shape:
        raise InvalidInputError(
            f"gain must return {point.size} numbers for {point.size} outcomes, got {shorten(g)}"
        )
    return g


def mixture_gap(points: FloatArray, weights: FloatArray, gains: FloatArray) -> float:
    """Return what the worst outcome gains against the mixture."""
    held = float(weights @ np.einsum("sj,sj->s", gains, points))
    return held - float((weights @ gains).min())


@dataclass(frozen=True)
class _Side:
    """A binary forecast with its gain; ``slope`` is g_1 - g_0."""

    mu: float
    point: FloatArray
    g: FloatArray

    @property
    def slope(self) -> float:
        return float(self.g[1] - self.g[0])


def _bisect(gain: Gain, tol: float, evaluations: int, seeds: FloatArray | None) -> ForecastLottery:
    """Two outcomes: bracket a change of sign of g_1 - g_0 from - to +, then halve the bracket."""
    tried = [0.5] if seeds is None or not len(seeds) else seeds[:, 1].tolist()
    sides = [_side(gain, mu) for mu in tried]
    bracket = _old_bracket(sides)
    if bracket is None:
        low, high, steps = _search(gain, sides[0])
        evaluations += len(sides) - 1 + steps
    else:
        low, high = bracket
        evaluations += len(sides) - 1
    if low is None or high is None:
        end = high if low is None else low
        assert end is not None
        return _near_end(gain, tol, end, evaluations)
    while True:
        weight = high.slope / (high.slope - low.slope)  # on low: makes the mean slope zero
        width, mu = high.mu - low.mu, 0.5 * (low.mu + high.mu)
        if -weight * low.slope * width <= tol or width <= 1e-14 or mu in (low.mu, high.mu):
            break
        middle = _side(gain, mu)
        evaluations += 1
        if middle.slope == 0.0:
            return ForecastLottery(middle.point[None, :], np.ones(1), 0.0, evaluations)
        if middle.slope < 0.0:
            low = middle
        else:
            high = middle
    points, weights = np.array([low.point, high.point]), np.array([weight, 1.0 - weight])
    return ForecastLottery(
        points, weights, mixture_gap(points, weights, np.array([low.g, high.g])), evaluations
    )


def _side(gain: Gain, mu: float) -> _Side:
    point = np.array([1.0 - mu, mu])
    return _Side(mu, point, _gain(gain, point))


def _old_bracket(sides: list[_Side]) -> tuple[_Side, _Side] | None:
    """Neighbouring seeds with a change of sign from - to +."""
    ordered = sorted(sides, key=lambda side: side.mu)
    for low, high in zip(ordered, ordered[1:]):
        if low.slope < 0.0 < high.slope:
            return low, high
    return None


def _search(gain: Gain, start: _Side) -> tuple[_Side | None, _Side | None, int]:
    """Walk from ``start`` with growing steps to a change of sign; None on a side means: not found.

    All visited beliefs are multiples of 1/64 or ends, so that they recur from round to round.
    """
    rising = start.slope < 0.0
    here, step, count = start, 1.0 / 64.0, 0
    while True:
        grid = math.floor(here.mu / step) + 1 if rising else math.ceil(here.mu / step) - 1
        mu = min(max(grid * step, 0.0), 1.0)
        if mu == here.mu:  # already at the end
            return (here, None, count) if rising else (None, here, count)
        there = _side(gain, mu)
        count += 1
        if rising and there.slope > 0.0:
            return here, there, count
        if not rising and there.slope < 0.0:
            return there, here, count
        if mu in (0.0, 1.0) or there.slope == 0.0:
            return (there, None, count) if rising else (None, there, count)
        here, step = there, min(2.0 * step, 0.5)


def _near_end(gain: Gain, tol: float, end: _Side, evaluations: int) -> ForecastLottery:
    """No change of sign up to the end: stay as far from it as the tolerance allows."""
    if end.slope == 0.0 or tol <= 0.0:
        return ForecastLottery(end.point[None, :], np.ones(1), 0.0, evaluations)
    room = min(0.999 * tol / abs(end.slope), 0.5)
    inner = _side(gain, end.mu - room if end.mu > 0.5 else end.mu + room)
    gap = float(inner.g @ inner.point - inner.g.min())
    if gap <= tol:
        return ForecastLottery(inner.point[None, :], np.ones(1), gap, evaluations + 1)
    return ForecastLottery(end.point[None, :], np.ones(1), 0.0, evaluations + 1)


def _hedge(gain: Gain, n: int, tol: float, limit: int, evaluations: int) -> ForecastLottery:
    """Nature plays Hedge over the outcomes on losses g; the forecaster answers with its mean."""
    points, gains = np.empty((limit, n)), np.empty((limit, n))
    total = np.zeros(n)
    scale = 0.0
    best: ForecastLottery | None = None
    for s in range(limit):
        rate = np.sqrt(8 * np.log(n) / (s + 1)) / max(scale, 1e-300)
        log_weights = -rate * (total - total.min())
        points[s] = np.exp(log_weights) / np.exp(log_weights).sum()
        gains[s] = _gain(gain, points[s])
        scale = max(scale, float(np.ptp(gains[s])))
        total += gains[s]
        weights = np.full(s + 1, 1.0 / (s + 1))
        gap = mixture_gap(points[: s + 1], weights, gains[: s + 1])
        if best is None or gap < best.gap:
            best = ForecastLottery(points[: s + 1].copy(), weights, gap, evaluations + s + 1)
        if gap <= tol:
            break
    assert best is not None
    return best


def _cutting_planes(
    gain: Gain, n: int, tol: float, limit: int, seeds: FloatArray
) -> ForecastLottery:
    """More than two outcomes: centres of the set of outcomes that no cut has excluded."""
    points, gains = np.empty((limit, n)), np.empty((limit, n))
    game = _CentreGame(n, limit)
    best: ForecastLottery | None = None
    for count in range(limit):
        point = seeds[count] if count < len(seeds) else game.centre()
        g = _gain(gain, point)
        points[count], gains[count] = point, g
        gap = float(g @ point - g.min())
        if best is None or gap < best.gap:
            best = ForecastLottery(point[None, :].copy(), np.ones(1), gap, count + 1)
        if gap <= tol:
            break
        multipliers = game.add(point, g)
        support = np.flatnonzero(multipliers)
        if count + 1 < len(seeds) or support.size == 0:
            continue
        weights = multipliers[support] / multipliers[support].sum()
        gap = mixture_gap(points[support], weights, gains[support])
        if gap < best.gap:
            best = ForecastLottery(points[support], weights, gap, count + 1)
        if gap <= tol:
            break
    assert best is not None
    return ForecastLottery(best.points, best.weights, best.gap, count + 1)


class _CentreGame:
    """max_y min( <g_s, x_s - y> / |g_s - mean g_s| over the cuts s,  2 y_j over the outcomes j ).

    Its value is the radius of the largest ball (up to constants) in the outcomes not yet excluded,
    y is the centre, and the row player's strategy gives the multipliers of the cuts. The row
    player's linear program ``max sum p, M' p <= 1, p >= 0`` keeps its basis when a cut is added.
    """

    def __init__(self, n: int, limit: int) -> None:
        self.n = n
        self.rows = np.empty((n + limit, n))
        self.rows[:n] = 2.0 * np.eye(n) + _SHIFT
        self.scales = np.ones(n + limit)
        self.size = n
        self.basis = np.arange(n)
        self.inverse = 0.5 * (np.eye(n) - _SHIFT / (2.0 + _SHIFT * n))
        self.levels = np.full(n, 1.0 / (2.0 + _SHIFT * n))

    def add(self, point: FloatArray, g: FloatArray) -> FloatArray:
        """Add a cut, re-optimise, return the unnormalised weights of all cuts."""
        centred = g - g.mean()
        scale = float(np.sqrt(centred @ centred))
        self.rows[self.size] = (float(g @ point) - g) / scale + _SHIFT
        self.scales[self.size] = scale
        self.size += 1
        _pivot(self.rows, self.size, self.basis, self.inverse, self.levels)
        multipliers = np.zeros(self.size)
        game_rows = self.basis >= 0
        multipliers[self.basis[game_rows]] = np.maximum(self.levels[game_rows], 0.0)
        return (multipliers / self.scales[: self.size])[self.n :]

    def centre(self) -> FloatArray:
        """Return the analytic centre of the outcomes that are not excluded."""
        prices = np.maximum(_prices(self.basis, self.inverse), 0.0)
        return _analytic_centre(self.rows, self.size, prices / prices.sum())


@njit(cache=True)
def _analytic_centre(rows: FloatArray, size: int, start: FloatArray) -> FloatArray:
    """Maximise the sum of the logarithms of the slacks of all rows over y in the simplex.

    Damped Newton from ``start``, which must have positive slacks; else it is returned.
    """
    n = start.shape[0]
    y = start.copy()
    slack = np.empty(size)
    step = np.empty(n)
    for _ in range(40):
        hessian = np.zeros((n, n))
        sides = np.zeros((n, 2))
        sides[:, 1] = 1.0
        # Gradient (first column of sides) and negative Hessian of the sum of the log slacks at y.
        for s in range(size):
            slack[s] = 0.0
            for j in range(n):
                slack[s] += (rows[s, j] - _SHIFT) * y[j]
            if slack[s] <= 1e-13:
                return y
            for j in range(n):
                scaled = (rows[s, j] - _SHIFT) / slack[s]
                sides[j, 0] += scaled
                if scaled != 0.0:
                    for k in range(n):
                        hessian[j, k] += scaled * (rows[s, k] - _SHIFT) / slack[s]
        # Newton step with sum zero: the price of the constraint sum(y) = 1 is subtracted.
        solved = np.linalg.solve(hessian, sides)
        price = solved[:, 0].sum() / solved[:, 1].sum()
        decrement = 0.0
        for j in range(n):
            step[j] = solved[j, 0] - price * solved[j, 1]
            decrement += step[j] * sides[j, 0]
        if decrement < 1e-3:
            break
        # Full steps near the centre, damped ones before; never more than 9/10 of the way to a cut.
        length = 1.0 if decrement < 0.25 else 1.0 / (1.0 + math.sqrt(decrement))
        for s in range(size):
            change = 0.0
            for j in range(n):
                change += (rows[s, j] - _SHIFT) * step[j]
            if change < 0.0:
                length = min(length, -0.9 * slack[s] / change)
        for j in range(n):
            y[j] += length * step[j]
    total = y.sum()
    for j in range(n):
        y[j] /= total
    return y


@njit(cache=True)
def _prices(basis: IntArray, inverse: FloatArray) -> FloatArray:
    """Dual variables of the row player's program; slack variables have cost 0."""
    n = basis.shape[0]
    w = np.zeros(n)
    for i in range(n):
        if basis[i] >= 0:
            for j in range(n):
                w[j] += inverse[i, j]
    return w


@njit(cache=True)
def _pivot(
    rows: FloatArray, size: int, basis: IntArray, inverse: FloatArray, levels: FloatArray
) -> None:
    """Revised simplex from a feasible basis; slack variable j has the code -1 - j."""
    n = basis.shape[0]
    for _ in range(40 * n + 200):
        w = _prices(basis, inverse)
        # Entering variable: the largest reduced cost, rows of the game first, then slacks.
        entering = 0
        best = _EPS
        found = False
        for s in range(size):
            reduced = 1.0
            for j in range(n):
                reduced -= w[j] * rows[s, j]
            if reduced > best:
                best, entering, found = reduced, s, True
        for j in range(n):
            if -w[j] > best:
                best, entering, found = -w[j], -1 - j, True
        if not found:
            return
        # Its column in the current basis.
        column = np.zeros(n)
        for i in range(n):
            if entering >= 0:
                for j in range(n):
                    column[i] += inverse[i, j] * rows[entering, j]
            else:
                column[i] = inverse[i, -1 - entering]
        # Ratio test: the basic variable that reaches zero first leaves.
        leaving = -1
        ratio = np.inf
        for i in range(n):
            if column[i] > _EPS:
                level = max(levels[i], 0.0) / column[i]
                if level < ratio:
                    ratio, leaving = level, i
        if leaving < 0:
            return
        _exchange(inverse, levels, column, leaving)
        basis[leaving] = entering


@njit(cache=True)
def _exchange(inverse: FloatArray, levels: FloatArray, column: FloatArray, leaving: int) -> None:
    """Gauss-Jordan step: the column of the entering variable becomes a unit vector."""
    n = levels.shape[0]
    factor = 1.0 / column[leaving]
    for j in range(n):
        inverse[leaving, j] *= factor
    levels[leaving] *= factor
    for i in range(n):
        if i != leaving and column[i] != 0.0:
            for j in range(n):
                inverse[i, j] -= column[i] * inverse[leaving, j]
            levels[i] -= column[i] * levels[leaving]
