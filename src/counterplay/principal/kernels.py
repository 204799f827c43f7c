"""Compiled arithmetic of responses: plain loops in a fixed order, so results never depend on
batch size, and one tolerance rule for every comparison.

Near-best responses and separated actions are exact complements: an action is *separated* when
U <= U* - margin + tol and *near* otherwise (Theorem 7.3, repaired).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from counterplay.core.validation import FloatArray, IntArray

TOL = 1e-12


@njit(cache=True)
def expectation(table: FloatArray, forecasts: FloatArray) -> FloatArray:
    """Return sum_y table[p, a, y] forecasts[b, y] as an array (b, p, a)."""
    n_policies, n_actions, n_states = table.shape
    batch = forecasts.shape[0]
    out = np.empty((batch, n_policies, n_actions))
    for b in range(batch):
        for p in range(n_policies):
            for a in range(n_actions):
                total = 0.0
                for y in range(n_states):
                    total += table[p, a, y] * forecasts[b, y]
                out[b, p, a] = total
    return out


@njit(cache=True)
def respond(U: FloatArray, V: FloatArray, n: int, tol: float) -> int:
    """Best response: largest U, ties to the larger V, remaining ties to the lowest index."""
    top = U[0]
    for a in range(1, n):
        top = max(top, U[a])
    # Among the Agent's best actions, the most the Principal can get, and the first that gives it.
    best = -np.inf
    for a in range(n):
        if U[a] >= top - tol:
            best = max(best, V[a])
    for a in range(n):
        if U[a] >= top - tol and V[a] >= best - tol:
            return a
    return 0


@njit(cache=True)
def optimistic(U: FloatArray, V: FloatArray, n: int, eps: float, tol: float) -> int:
    """Action with the largest V in the open eps-ball (exact best responses always belong to it)."""
    top = U[0]
    for a in range(1, n):
        top = max(top, U[a])
    # As in ``respond``, but over the open ball; its second half keeps exact ties in when eps = 0.
    best = -np.inf
    for a in range(n):
        if U[a] > top - eps + tol or U[a] >= top - tol:
            best = max(best, V[a])
    for a in range(n):
        if (U[a] > top - eps + tol or U[a] >= top - tol) and V[a] >= best - tol:
            return a
    return 0


@njit(cache=True)
def stable(
    U: FloatArray, V: FloatArray, n: int, beta: float, gamma: float, two_sided: bool, tol: float
) -> bool:
    """Whether every other action is separated by beta, or worth the same up to gamma.

    Two-sided: an action that is near must have a V within gamma on both sides. One-sided is the
    definition of the thesis, which lets it be better.
    """
    star = respond(U, V, n, tol)
    top = U[0]
    for a in range(1, n):
        top = max(top, U[a])
    for a in range(n):
        # Separated by beta: he would pay for it. Only near actions can hurt.
        if a == star or U[a] <= top - beta + tol:
            continue
        if V[a] < V[star] - gamma - tol:
            return False
        if two_sided and V[a] > V[star] + gamma + tol:
            return False
    return True


@njit(cache=True)
def first_maximum(values: FloatArray, tol: float) -> int:
    """Lowest index whose value is within tol of the largest."""
    best = values[0]
    for i in range(1, values.shape[0]):
        best = max(best, values[i])
    for i in range(values.shape[0]):
        if values[i] >= best - tol:
            return i
    return 0


@njit(cache=True)
def benchmark_responses(
    U: FloatArray, V: FloatArray, sizes: IntArray, forecast: FloatArray, eps: float, tol: float
) -> tuple[int, int, int, IntArray]:
    """Decisions that depend on the benchmark set only.

    Returns the index of p*(pi), the optimistic pair (p_init, r_init) and the best responses
    a*(p0, pi) of all benchmark policies.
    """
    n_policies = U.shape[0]
    u = expectation(U, forecast.reshape(1, -1))[0]
    v = expectation(V, forecast.reshape(1, -1))[0]
    responses = np.empty(n_policies, dtype=np.int64)
    hopeful = np.empty(n_policies, dtype=np.int64)
    values = np.empty(n_policies)
    hopeful_values = np.empty(n_policies)
    for p in range(n_policies):
        n = sizes[p]  # the tables are padded: only the first n actions exist under p
        responses[p] = respond(u[p], v[p], n, tol)
        values[p] = v[p, responses[p]]
        hopeful[p] = optimistic(u[p], v[p], n, eps, tol)
        hopeful_values[p] = v[p, hopeful[p]]
    star = first_maximum(values, tol)
    init = first_maximum(hopeful_values, tol)
    return star, init, hopeful[init], responses


@njit(cache=True)
def linear_oracle(
    f: FloatArray,
    costs: FloatArray,
    optimist: float,
    grid: FloatArray,
    margin: float,
    two_sided: bool,
    tol: float,
) -> tuple[int, int]:
    """Index and best response of the smallest stable contract of the grid from ``optimist`` up.

    The last contract of the grid is 1, which is always accepted.
    """
    n = costs.shape[0]
    U = np.empty(n)
    V = np.empty(n)
    last = grid.shape[0] - 1
    for i in range(last + 1):
        p = grid[i]
        if p < optimist - tol:
            continue
        # Expected utilities at share p, from the expected values f of the actions.
        for a in range(n):
            U[a] = p * f[a] - costs[a]
            V[a] = (1.0 - p) * f[a]
        if i == last or stable(U, V, n, margin, 0.0, two_sided, tol):
            return i, respond(U, V, n, tol)
    return last, respond(U, V, n, tol)


@njit(cache=True)
def finite_oracle(
    U: FloatArray,
    V: FloatArray,
    sizes: IntArray,
    forecast: FloatArray,
    beta: float,
    gamma: float,
    tol: float,
) -> tuple[int, int]:
    """Index and best response of the stable policy with the largest V; index -1 if none."""
    n_policies = U.shape[0]
    u = expectation(U, forecast.reshape(1, -1))[0]
    v = expectation(V, forecast.reshape(1, -1))[0]
    chosen = -1
    response = 0
    best = -np.inf
    for p in range(n_policies):
        n = sizes[p]
        if not stable(u[p], v[p], n, beta, gamma, False, tol):
            continue
        # He will answer with his best response: that is what the stable policy is worth.
        star = respond(u[p], v[p], n, tol)
        if v[p, star] > best + tol:
            chosen, response, best = p, star, v[p, star]
    return chosen, response
