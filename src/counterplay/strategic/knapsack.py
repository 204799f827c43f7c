"""The cheapest way to gain enough, and the most gain within a budget: a multiple-choice knapsack.

A person chooses at most one option of every menu, a whole number of steps of every stair and an
amount of every line. Prices and gains add up over them. Partial choices are kept only if no other
is cheaper and gains more, and only if weak duality leaves them a chance to beat the best known
solution. One list of partial choices serves both questions.

Source: "Additive scores", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from typing import NamedTuple

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
from counterplay.strategic.knapsack_lists import (
    Aim,
    Record,
    States,
    end_choices,
    list_choices,
    write_choice,
)

MOST_STATES = 2_000_000


def least_price(problem: Problem, need: float, cap: float, most: int) -> Solution:
    """Return certified bounds on the least sum of price^power with gain >= need.

    Only prices below ``cap`` are of interest; at most ``most`` partial choices are kept.
    """
    return _solved(problem, True, need, cap, most)


def most_gain(problem: Problem, budget: float, most: int) -> Solution:
    """Return certified bounds on the largest gain with sum of price^power <= budget."""
    return _solved(problem, False, budget, np.inf, most)


@numba.njit(cache=True, nogil=True)
def _solved(problem: Problem, cheapest: bool, goal: float, cap: float, most: int) -> Solution:
    """Answer either question; the cap is for prices."""
    if problem.start.size == 1 or problem.stair_steps.size == 0:
        return _alone(problem, cheapest, goal, cap, most)
    start, found = _least_start(problem, goal, cap) if cheapest else _most_start(problem, goal)
    if np.isinf(start.lam):
        return found
    record, choice, amount = start.record, found.choice, found.amount
    aim = Aim(cheapest, goal, start.lam)
    states, begin, end = list_choices(problem, aim, start.phi, record, most, problem.start.size - 1)
    _keep_listed(problem, states, record, choice, amount)
    sign = 1.0 if cheapest else -1.0  # below, less is better
    bound = sign * start.dual if end < 0 else np.inf
    rest = _without_menus(problem)
    for s in range(begin, end):
        price, gain = states.price[s], states.gain[s]
        best = record.value[0]
        if cheapest and price >= best:
            continue
        left, have = (goal - gain, price) if cheapest else (goal - price, gain)
        own = _alone(rest, cheapest, left, best - price, most)
        known = have + (own.high if cheapest else own.low)
        if sign * known < sign * best:
            record.value[0] = known
            _keep_ended(problem, states, s, own, record, choice, amount)
        if own.low != own.high:
            bound = min(bound, sign * (have + (own.low if cheapest else own.high)))
            most = max(1000, most // 4)  # the time of one person is bounded, too
    return _found(cheapest, record, sign * bound, choice, amount)


class Start(NamedTuple):
    """Dual price and bound of a problem, and what every block is worth at it.

    The dual price is infinite if the first solution is the answer.
    """

    lam: float
    dual: float
    phi: FloatArray
    record: Record


@numba.njit(cache=True, nogil=True)
def _least_start(problem: Problem, need: float, cap: float) -> tuple[Start, Solution]:
    """Return the dual price of a need, and the answer if there is nothing to search."""
    blocks, lines = problem.start.size - 1, problem.line_gain.size
    count = blocks + problem.stair_steps.size
    choice, amount = np.full(count, -1, np.int64), np.zeros(lines)
    choice[blocks:] = 0
    limit = cap * (1.0 + 1e-12) + 1e-300
    record = Record(np.array([limit]), np.full(3, -2, np.int64))
    phi, pick = np.zeros(count + 1), np.zeros(count, np.int64)
    if need <= 0.0:
        return Start(np.inf, 0.0, phi, record), Solution(0.0, 0.0, choice, amount)
    # the dual price: the least at which the best choices together reach the need
    low, lam = dual_prices(problem, need, True, phi, pick)
    nothing = Solution(np.inf, np.inf, choice, amount)
    if np.isinf(lam):
        return Start(np.inf, np.inf, phi, record), nothing
    separate_choices(problem, lam, phi, pick)
    dual = max(0.0, lam * need - phi.sum())
    if dual > cap:
        return Start(np.inf, np.inf, phi, record), nothing  # nothing within the budget
    # first solutions: the choices at lam, and those just below it made complete
    _complete(problem, need, pick, record, choice, amount)
    below, ignored = np.zeros(count, np.int64), np.zeros(count + 1)
    separate_choices(problem, low, ignored, below)
    _complete(problem, need, below, record, choice, amount)
    _one_more(problem, need, below, record, choice, amount)
    return Start(lam, dual, phi, record), nothing


@numba.njit(cache=True, nogil=True)
def _most_start(problem: Problem, budget: float) -> tuple[Start, Solution]:
    """Return the dual price of a budget, and a first solution; the answer if all is bought."""
    blocks, lines = problem.start.size - 1, problem.line_gain.size
    count = blocks + problem.stair_steps.size
    choice, amount = np.full(count, -1, np.int64), np.zeros(lines)
    choice[blocks:] = 0
    record = Record(np.array([0.0]), np.full(3, -1, np.int64))
    phi, pick = np.zeros(count + 1), np.zeros(count, np.int64)
    if budget <= 0.0:
        return Start(np.inf, 0.0, phi, record), Solution(0.0, 0.0, choice, amount)
    # the dual price: the largest at which the best choices together stay within the budget
    low, high = dual_prices(problem, budget, False, phi, pick)
    separate_choices(problem, low, phi, pick)
    paid, got = paid_and_got(problem, pick)
    choice[:] = pick
    if np.isinf(high):  # everything that helps is affordable
        amount[:] = problem.line_room
        got += (amount * problem.line_gain).sum()
        return Start(np.inf, got, phi, record), Solution(got, got, choice, amount)
    got += fill_up(problem, budget - paid, amount)
    record.value[0] = got
    separate_choices(problem, high, phi, pick)
    dual = (budget + phi.sum()) / high
    return Start(high, dual, phi, record), Solution(got, got, choice, amount)


@numba.njit(cache=True, nogil=True)
def _alone(problem: Problem, cheapest: bool, goal: float, cap: float, most: int) -> Solution:
    """Solve a problem without menus, or without stairs."""
    start, found = _least_start(problem, goal, cap) if cheapest else _most_start(problem, goal)
    if np.isinf(start.lam):
        return found
    aim = Aim(cheapest, goal, start.lam)
    done = _listed(problem, aim, start, most, found.choice, found.amount)
    worst = np.inf if cheapest else -np.inf
    bound = worst if done else start.dual
    return _found(cheapest, start.record, bound, found.choice, found.amount)


@numba.njit(cache=True, nogil=True)
def _found(
    cheapest: bool, record: Record, bound: float, choice: IntArray, amount: FloatArray
) -> Solution:
    """Return the best solution known, if there is one, and a bound on what was left out."""
    best = record.value[0]
    if not cheapest:
        return Solution(best, max(bound, best), choice, amount)
    if record.where[0] == -2:
        return Solution(bound, np.inf, choice, amount)
    return Solution(min(bound, best), best, choice, amount)


@numba.njit(cache=True, nogil=True)
def _listed(
    problem: Problem, aim: Aim, start: Start, most: int, choice: IntArray, amount: FloatArray
) -> bool:
    """Go through all choices of menus or of stairs and write the best; False if too many."""
    blocks, stairs = problem.start.size - 1, problem.stair_steps.size
    record, phi, last = start.record, start.phi, stairs - 1
    if stairs > 1:  # the last stair is not listed: let it be the one with most to list
        last = _finest(problem, aim.lam)
        problem, phi = _swapped(problem, last), phi.copy()
        phi[last], phi[stairs - 1] = phi[stairs - 1], phi[last]
        choice[last], choice[stairs - 1] = choice[stairs - 1], choice[last]
    levels = blocks if stairs == 0 else stairs - 1
    states, begin, end = list_choices(problem, aim, phi, record, most, levels)
    _keep_listed(problem, states, record, choice, amount)
    before = record.value[0]
    end_choices(problem, aim, record, states, (begin, end), amount)
    if record.value[0] != before:
        write_choice(problem, states, record.where, choice)
    if stairs > 1:
        choice[last], choice[stairs - 1] = choice[stairs - 1], choice[last]
    return end >= 0


@numba.njit(cache=True, nogil=True)
def _keep_listed(
    problem: Problem, states: States, record: Record, choice: IntArray, amount: FloatArray
) -> None:
    """Write the best choice if it was found while listing: it needs nothing else."""
    if record.where[0] >= 0:
        amount[:] = 0.0
        write_choice(problem, states, record.where, choice)


@numba.njit(cache=True, nogil=True)
def _keep_ended(
    problem: Problem,
    states: States,
    s: int,
    own: Solution,
    record: Record,
    choice: IntArray,
    amount: FloatArray,
) -> None:
    """Write a choice of menus with the stairs and lines that end it."""
    blocks = problem.start.size - 1
    record.where[0], record.where[1], record.where[2] = s, blocks, -1
    write_choice(problem, states, record.where, choice)
    choice[blocks:], amount[:] = own.choice, own.amount


@numba.njit(cache=True, nogil=True)
def _without_menus(problem: Problem) -> Problem:
    """Return stairs and lines alone.

    They have a dual price of their own: a menu with one large step makes the common one a poor
    guide for steps of one cent.
    """
    none = np.zeros(0)
    return Problem(
        np.zeros(1, np.int64), none, none, problem.stair_price, problem.stair_gain,
        problem.stair_steps, problem.line_gain, problem.line_price, problem.line_room,
        problem.power,
    )  # fmt: skip


@numba.njit(cache=True, nogil=True)
def _finest(problem: Problem, lam: float) -> int:
    """Return the stair of which most steps are about as good at a dual price."""
    best, place = np.inf, 0
    for k in range(problem.stair_steps.size):
        a, b = problem.stair_price[k], problem.stair_gain[k]
        loss = abs(a - lam * b) if problem.power == 1 else a
        if loss < best:
            best, place = loss, k
    return place


@numba.njit(cache=True, nogil=True)
def _swapped(problem: Problem, k: int) -> Problem:
    """Return a problem without menus whose last stair has changed places with another."""
    order = np.arange(problem.stair_steps.size)
    order[k], order[-1] = order[-1], order[k]
    return Problem(
        problem.start, problem.price, problem.gain, problem.stair_price[order],
        problem.stair_gain[order], problem.stair_steps[order], problem.line_gain,
        problem.line_price, problem.line_room, problem.power,
    )  # fmt: skip


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
