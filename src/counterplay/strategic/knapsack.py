"""The cheapest way to gain enough, and the most gain within a budget: a multiple-choice knapsack.

A person chooses at most one option of every menu, a whole number of steps of every stair and an
amount of every line. Prices and gains add up over them. Partial choices are kept only if no other
is cheaper and gains more, and only if weak duality leaves them a chance to beat the best known
solution. One list of partial choices serves both questions.

Source: "Additive scores", see docs/theory/20-moves.md.
"""

from __future__ import annotations

import numba
import numpy as np

from counterplay.core.validation import FloatArray, IntArray
from counterplay.strategic.knapsack_dual import (
    Problem,
    Solution,
    dual_prices,
    fill,
    fill_up,
    paid_and_got,
    separate_choices,
)
from counterplay.strategic.knapsack_lists import Aim, Record, list_choices

MOST_STATES = 2_000_000


@numba.njit(cache=True, nogil=True)
def least_price(problem: Problem, need: float, cap: float, most: int) -> Solution:
    """Return certified bounds on the least sum of price^power with gain >= need.

    Only prices below ``cap`` are of interest; at most ``most`` partial choices are kept.
    """
    blocks, lines = problem.start.size - 1, problem.line_gain.size
    count = blocks + problem.stair_steps.size
    choice, amount = np.full(count, -1, np.int64), np.zeros(lines)
    choice[blocks:] = 0
    if need <= 0.0:
        return Solution(0.0, 0.0, choice, amount)
    phi, pick = np.zeros(count + 1), np.zeros(count, np.int64)
    # the dual price: the least at which the best choices together reach the need
    low, lam = dual_prices(problem, need, True, phi, pick)
    if np.isinf(lam):
        return Solution(np.inf, np.inf, choice, amount)
    separate_choices(problem, lam, phi, pick)
    dual = max(0.0, lam * need - phi.sum())
    if dual > cap:
        return Solution(np.inf, np.inf, choice, amount)  # nothing within the budget
    limit = cap * (1.0 + 1e-12) + 1e-300
    record = Record(np.array([limit]), np.full(3, -2, np.int64))
    # first solutions: the choices at lam, and those just below it made complete
    _complete(problem, need, pick, record, choice, amount)
    below, ignored = np.zeros(count, np.int64), np.zeros(count + 1)
    separate_choices(problem, low, ignored, below)
    _complete(problem, need, below, record, choice, amount)
    _one_more(problem, need, below, record, choice, amount)
    aim = Aim(True, need, lam)
    done = list_choices(problem, aim, phi, record, most, choice, amount)
    if record.where[0] == -2:
        return Solution(dual if not done else np.inf, np.inf, choice, amount)
    return Solution(record.value[0] if done else dual, record.value[0], choice, amount)


@numba.njit(cache=True, nogil=True)
def most_gain(problem: Problem, budget: float, most: int) -> Solution:
    """Return certified bounds on the largest gain with sum of price^power <= budget."""
    blocks, lines = problem.start.size - 1, problem.line_gain.size
    count = blocks + problem.stair_steps.size
    choice, amount = np.full(count, -1, np.int64), np.zeros(lines)
    choice[blocks:] = 0
    if budget <= 0.0:
        return Solution(0.0, 0.0, choice, amount)
    phi, pick = np.zeros(count + 1), np.zeros(count, np.int64)
    # the dual price: the largest at which the best choices together stay within the budget
    low, high = dual_prices(problem, budget, False, phi, pick)
    if np.isinf(high):  # everything that helps is affordable
        separate_choices(problem, low, phi, pick)
        for j in range(lines):
            amount[j] = problem.line_room[j]
        total = paid_and_got(problem, pick)[1] + (amount * problem.line_gain).sum()
        return Solution(total, total, pick, amount)
    spare = np.zeros(lines)
    separate_choices(problem, low, phi, pick)
    paid, got = paid_and_got(problem, pick)
    got += fill_up(problem, budget - paid, spare)
    choice[:], amount[:] = pick, spare
    record = Record(np.array([got]), np.full(3, -1, np.int64))
    lam = high
    separate_choices(problem, lam, phi, pick)
    dual = (budget + phi.sum()) / lam
    done = list_choices(problem, Aim(False, budget, lam), phi, record, most, choice, amount)
    best = record.value[0]
    return Solution(best, best if done else max(best, dual), choice, amount)


@numba.njit(cache=True, nogil=True)
def _complete(
    problem: Problem,
    need: float,
    pick: IntArray,
    record: Record,
    choice: IntArray,
    amount: FloatArray,
) -> None:
    """Fill chosen options up with lines and keep the result if it is the best so far."""
    spare = np.zeros(problem.line_gain.size)
    paid, got = paid_and_got(problem, pick)
    total = paid + fill(problem, need - got, spare)
    if total < record.value[0]:
        record.value[0], record.where[0] = total, -1
        choice[:], amount[:] = pick, spare


@numba.njit(cache=True, nogil=True)
def _one_more(
    problem: Problem,
    need: float,
    pick: IntArray,
    record: Record,
    choice: IntArray,
    amount: FloatArray,
) -> None:
    """Complete chosen options that fall short by another option, or more steps, of one block."""
    blocks = problem.start.size - 1
    paid, got = paid_and_got(problem, pick)
    for g in range(blocks):
        have = problem.gain[pick[g]] if pick[g] >= 0 else 0.0
        cost = problem.price[pick[g]] if pick[g] >= 0 else 0.0
        for o in range(problem.start[g], problem.start[g + 1]):
            total = paid - cost + problem.price[o]
            if got - have + problem.gain[o] >= need and total < record.value[0]:
                record.value[0], record.where[0] = total, -1
                choice[:], choice[g], amount[:] = pick, o, 0.0
    for k in range(problem.stair_steps.size):
        g, a, b = blocks + k, problem.stair_price[k], problem.stair_gain[k]
        more = np.ceil((need - got) / b)
        if more > problem.stair_steps[k]:
            continue
        m = pick[g] + max(0, int(more))
        while got + (m - pick[g]) * b < need:
            m += 1
        total = paid - (pick[g] * a) ** problem.power + (m * a) ** problem.power
        if m <= problem.stair_steps[k] and total < record.value[0]:
            record.value[0], record.where[0] = total, -1
            choice[:], choice[g], amount[:] = pick, m, 0.0
