"""Compiled sweeps of best responses: the loops that cannot be vectorised.

Indices come from scipy.sparse matrices and permutations that the callers have built themselves.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@njit(cache=True)
def linear_sweeps(
    columns: Floats, diag: Floats, mu: Floats, theta: Floats, u: Floats, tol: float, limit: int
) -> tuple[int, float]:
    """Cycle exact coordinate minimisation on a dense game; returns sweeps and the last change."""
    k = theta.size
    change = math.inf
    for sweep in range(1, limit + 1):
        change = 0.0
        for i in range(k):
            # the own contribution at which u_i equals mu_i, but not below zero
            new = theta[i] + (mu[i] - u[i]) / diag[i]
            if new < 0.0:
                new = 0.0
            delta = new - theta[i]
            if delta != 0.0:
                theta[i] = new
                # everybody's utility moves by its column
                for j in range(k):
                    u[j] += columns[i, j] * delta
                change = max(change, abs(delta))
        if change < tol:
            return sweep, change
    return limit, change


@njit(cache=True)
def sparse_linear_sweeps(
    indptr: Ints,
    rows: Ints,
    values: Floats,
    diag: Floats,
    mu: Floats,
    theta: Floats,
    u: Floats,
    tol: float,
    limit: int,
) -> tuple[int, float]:
    """Same as ``linear_sweeps`` for a column-compressed matrix."""
    change = math.inf
    for sweep in range(1, limit + 1):
        change = 0.0
        for i in range(theta.size):
            # the same step; only the rows that see party i move
            new = theta[i] + (mu[i] - u[i]) / diag[i]
            if new < 0.0:
                new = 0.0
            delta = new - theta[i]
            if delta != 0.0:
                theta[i] = new
                for s in range(indptr[i], indptr[i + 1]):
                    u[rows[s]] += values[s] * delta
                change = max(change, abs(delta))
        if change < tol:
            return sweep, change
    return limit, change


@njit(cache=True)
def log_factor(q: float, theta: float) -> float:
    """Log of the miss probability ``(1-q)^t (1-rq)``; ``-inf`` when it is zero."""
    # whole samples miss with (1-q) each, one more is drawn with probability r
    whole = math.floor(theta)
    rest = (theta - whole) * q
    # a point mass is never missed by a whole sample
    if q >= 1.0 and whole >= 1.0:
        return -math.inf
    log = 0.0 if whole == 0.0 else whole * math.log1p(-q)
    return log + (math.log1p(-rest) if rest < 1.0 else -math.inf)


@njit(cache=True)
def covered_value(remaining: Floats, log_keep: Floats, t: float) -> float:
    """Own utility after ``t`` own samples: ``1 - 1/2 sum R (1-q)^t``."""
    total = 0.0
    for x in range(remaining.size):
        total += remaining[x] * (1.0 if t == 0.0 else math.exp(t * log_keep[x]))
    return 1.0 - 0.5 * total


@njit(cache=True)
def coverage_response(
    remaining: Floats, log_keep: Floats, mu: float, integral: bool, start: float
) -> float:
    """Exact best response of one party: bracket, integer bisection, linear interpolation."""
    # nothing is needed if the others cover enough; ties count as reached
    slack = 1e-12 if integral else 1e-15
    if covered_value(remaining, log_keep, 0.0) >= mu - slack:
        return 0.0
    target = mu - (1e-12 if integral else 0.0)
    # double the upper end, from the present contribution on, until it is enough
    low, high = 0.0, max(1.0, math.floor(start))
    while covered_value(remaining, log_keep, high) < target:
        low, high = high, 2.0 * high
        if high > 9.0e15:
            return math.inf
    # bisect over whole numbers: low is too little, high is enough
    while high - low > 1.0:
        middle = math.floor((low + high) / 2.0)
        if covered_value(remaining, log_keep, middle) >= target:
            high = middle
        else:
            low = middle
    if integral:
        return high
    # between whole numbers utility is linear (random rounding)
    below = covered_value(remaining, log_keep, low)
    above = covered_value(remaining, log_keep, high)
    return low + (mu - below) / (above - below)


@njit(cache=True)
def coverage_sweep(
    indptr: Ints,
    types: Ints,
    q: Floats,
    log_keep: Floats,
    counts: Floats,
    mu: Floats,
    upper: Floats,
    order: Ints,
    integral: bool,
    theta: Floats,
    log_missed: Floats,
    zeros: Ints,
) -> float:
    """One sweep of sequential best responses; updates its arguments, returns the largest move.

    ``log_missed[x]`` is the log of the product of the non-zero factors of type ``x`` and
    ``zeros[x]`` the number of zero factors (a point mass that was sampled at least once).
    """
    change = 0.0
    for i in order:
        start, stop = indptr[i], indptr[i + 1]
        # what the others leave of each type that i sees: divide i's own factor out, in logs
        remaining = np.empty(stop - start)
        for s in range(start, stop):
            x = types[s]
            own = log_factor(q[s], theta[i])
            others = zeros[x] - (1 if own == -math.inf else 0)
            rest = log_missed[x] - (0.0 if own == -math.inf else own)
            remaining[s - start] = 0.0 if others > 0 else counts[x] * q[s] * math.exp(rest)
        new = coverage_response(remaining, log_keep[start:stop], mu[i], integral, theta[i])
        new = min(new, upper[i])
        if new == theta[i]:
            continue
        # put i's new factor in the place of the old one
        for s in range(start, stop):
            x = types[s]
            before, after = log_factor(q[s], theta[i]), log_factor(q[s], new)
            if before == -math.inf:
                zeros[x] -= 1
            else:
                log_missed[x] -= before
            if after == -math.inf:
                zeros[x] += 1
            else:
                log_missed[x] += after
        change = max(change, abs(new - theta[i]))
        theta[i] = new
    return change


@njit(cache=True)
def bayes_errors(codes: Ints, prior: Floats, n: int) -> Floats:
    """Return ``e[S, x]``: error at point x of the Bayes rule that knows the labels on S."""
    errors = np.zeros((1 << n, n))
    mass = np.zeros(1 << n)
    ones = np.zeros((1 << n, n))
    for seen in range(1 << n):
        # labelings that agree on the seen points share a pattern: its mass, and that of label 1
        for h in range(codes.size):
            pattern = codes[h] & seen
            mass[pattern] += prior[h]
            for x in range(n):
                if (codes[h] >> x) & 1:
                    ones[pattern, x] += prior[h]
        # the Bayes rule errs on the lighter label; clear each pattern after its first visit
        for h in range(codes.size):
            pattern = codes[h] & seen
            if mass[pattern] > 0.0:
                for x in range(n):
                    if not (seen >> x) & 1:
                        less = min(ones[pattern, x], mass[pattern] - ones[pattern, x])
                        errors[seen, x] += max(0.0, less)
                    ones[pattern, x] = 0.0
                mass[pattern] = 0.0
    return errors
