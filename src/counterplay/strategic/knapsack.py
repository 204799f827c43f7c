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
from counterplay.strategic.line_filling import fill_need, fill_rest

MOST_STATES = 2_000_000


class Problem(NamedTuple):
    """One person's menus, stairs and lines; prices of options are raised to ``power`` already."""

    start: IntArray  # menu g holds the options start[g] .. start[g + 1]
    price: FloatArray
    gain: FloatArray
    stair_price: FloatArray  # m steps cost (m stair_price)^power
    stair_gain: FloatArray
    stair_steps: IntArray
    line_gain: FloatArray
    line_price: FloatArray
    line_room: FloatArray
    power: int


class Solution(NamedTuple):
    """Certified bounds on the best value, and the choice behind the better-known one."""

    low: float
    high: float
    choice: IntArray  # option of every menu (-1: stay), then steps of every stair
    amount: FloatArray  # of every line


class _Aim(NamedTuple):
    """What is asked: the least price for a need, or the most gain for a budget."""

    cheapest: bool
    amount: float  # the need, or the budget to the power
    lam: float  # dual price: what one unit of gain is worth


class _States(NamedTuple):
    """Partial choices: price, gain, the choice they extend, and the option taken."""

    price: FloatArray
    gain: FloatArray
    parent: IntArray
    option: IntArray


class _Record(NamedTuple):
    """The best complete choice so far: its value, and (state, block, option) behind it."""

    value: FloatArray
    where: IntArray  # state -1: a first solution, which is written down elsewhere


@numba.njit(cache=True)
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
    low, lam = _crossing(problem, need, True, phi, pick)
    if np.isinf(lam):
        return Solution(np.inf, np.inf, choice, amount)
    _at(problem, lam, phi, pick)
    dual = max(0.0, lam * need - phi.sum())
    if dual > cap:
        return Solution(np.inf, np.inf, choice, amount)  # nothing within the budget
    limit = cap * (1.0 + 1e-12) + 1e-300
    record = _Record(np.array([limit]), np.full(3, -2, np.int64))
    # first solutions: the choices at lam, and those just below it made complete
    _complete(problem, need, pick, record, choice, amount)
    below, ignored = np.zeros(count, np.int64), np.zeros(count + 1)
    _at(problem, low, ignored, below)
    _complete(problem, need, below, record, choice, amount)
    _one_more(problem, need, below, record, choice, amount)
    aim = _Aim(True, need, lam)
    done = _lists(problem, aim, phi, record, most, choice, amount)
    if record.where[0] == -2:
        return Solution(dual if not done else np.inf, np.inf, choice, amount)
    return Solution(record.value[0] if done else dual, record.value[0], choice, amount)


@numba.njit(cache=True)
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
    low, high = _crossing(problem, budget, False, phi, pick)
    if np.isinf(high):  # everything that helps is affordable
        _at(problem, low, phi, pick)
        for j in range(lines):
            amount[j] = problem.line_room[j]
        total = _paid_and_got(problem, pick)[1] + (amount * problem.line_gain).sum()
        return Solution(total, total, pick, amount)
    spare = np.zeros(lines)
    _at(problem, low, phi, pick)
    paid, got = _paid_and_got(problem, pick)
    got += _fill_up(problem, budget - paid, spare)
    choice[:], amount[:] = pick, spare
    record = _Record(np.array([got]), np.full(3, -1, np.int64))
    lam = high
    _at(problem, lam, phi, pick)
    dual = (budget + phi.sum()) / lam
    done = _lists(problem, _Aim(False, budget, lam), phi, record, most, choice, amount)
    best = record.value[0]
    return Solution(best, best if done else max(best, dual), choice, amount)


@numba.njit(cache=True)
def _stair(a: float, b: float, steps: int, lam: float, power: int) -> int:
    """Return the best number of steps m at the dual price lam: price (m a)^power, gain m b."""
    if power == 1:
        return steps if lam * b > a else 0
    m = lam * b / (2.0 * a * a) + 0.5  # a parabola: the nearest whole number
    return steps if m >= steps else max(0, int(np.floor(m)))


@numba.njit(cache=True)
def _at(problem: Problem, lam: float, phi: FloatArray, pick: IntArray) -> tuple[float, float]:
    """Write the best choice of every block at dual price lam and its value.

    Returns the gain and the price of all of them; the lines' value comes last in ``phi``.
    """
    got, paid = 0.0, 0.0
    blocks, power = problem.start.size - 1, problem.power
    for g in range(blocks):
        best, arg = 0.0, -1
        for o in range(problem.start[g], problem.start[g + 1]):
            value = lam * problem.gain[o] - problem.price[o]
            if value > best:
                best, arg = value, o
        phi[g], pick[g] = best, arg
        if arg >= 0:
            got += problem.gain[arg]
            paid += problem.price[arg]
    for k in range(problem.stair_steps.size):
        a, b = problem.stair_price[k], problem.stair_gain[k]
        m = _stair(a, b, problem.stair_steps[k], lam, power)
        phi[blocks + k] = lam * m * b - (m * a) ** power
        pick[blocks + k] = m
        got += m * b
        paid += (m * a) ** power
    lines = 0.0
    for j in range(problem.line_gain.size):
        sigma, unit, room = problem.line_gain[j], problem.line_price[j], problem.line_room[j]
        if power == 1:
            amount = room if lam * sigma > unit else 0.0
        else:
            amount = min(room, lam * sigma / (2.0 * unit**2))
        if amount > 0.0:
            lines += lam * sigma * amount - (unit * amount) ** power
            got += sigma * amount
            paid += (unit * amount) ** power
    phi[blocks + problem.stair_steps.size] = lines
    return got, paid


@numba.njit(cache=True)
def _crossing(
    problem: Problem, goal: float, by_gain: bool, phi: FloatArray, pick: IntArray
) -> tuple[float, float]:
    """Return the dual prices around which the gain reaches, or the price exceeds, a goal.

    The second is infinite if no dual price does it.
    """
    high = 2.0**-80
    while True:
        got, paid = _at(problem, high, phi, pick)
        if (got >= goal) if by_gain else (paid > goal):
            break
        high *= 4.0
        if high > 2.0**300:
            return high, np.inf
    low = 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        got, paid = _at(problem, middle, phi, pick)
        if (got >= goal) if by_gain else (paid > goal):
            high = middle
        else:
            low = middle
    return low, high


@numba.njit(cache=True)
def _paid_and_got(problem: Problem, pick: IntArray) -> tuple[float, float]:
    """Return price and gain of chosen options and steps."""
    paid, got = 0.0, 0.0
    blocks = problem.start.size - 1
    for g in range(blocks):
        if pick[g] >= 0:
            paid += problem.price[pick[g]]
            got += problem.gain[pick[g]]
    for k in range(problem.stair_steps.size):
        paid += (pick[blocks + k] * problem.stair_price[k]) ** problem.power
        got += pick[blocks + k] * problem.stair_gain[k]
    return paid, got


@numba.njit(cache=True)
def _fill(problem: Problem, need: float, spare: FloatArray) -> float:
    return fill_need(
        need, problem.line_gain, problem.line_price, problem.line_room, problem.power, spare
    )


@numba.njit(cache=True)
def _fill_up(problem: Problem, rest: float, spare: FloatArray) -> float:
    return fill_rest(
        rest, problem.line_gain, problem.line_price, problem.line_room, problem.power, spare
    )


@numba.njit(cache=True)
def _complete(
    problem: Problem,
    need: float,
    pick: IntArray,
    record: _Record,
    choice: IntArray,
    amount: FloatArray,
) -> None:
    """Fill chosen options up with lines and keep the result if it is the best so far."""
    spare = np.zeros(problem.line_gain.size)
    paid, got = _paid_and_got(problem, pick)
    total = paid + _fill(problem, need - got, spare)
    if total < record.value[0]:
        record.value[0], record.where[0] = total, -1
        choice[:], amount[:] = pick, spare


@numba.njit(cache=True)
def _one_more(
    problem: Problem,
    need: float,
    pick: IntArray,
    record: _Record,
    choice: IntArray,
    amount: FloatArray,
) -> None:
    """Complete chosen options that fall short by another option, or more steps, of one block."""
    blocks = problem.start.size - 1
    paid, got = _paid_and_got(problem, pick)
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


@numba.njit(cache=True)
def _rest(problem: Problem, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return what the blocks from g on can still add: value at the dual price, and gain."""
    blocks, count = problem.start.size - 1, phi.size - 1
    rest_phi, rest_gain = np.zeros(count + 1), np.zeros(count + 1)
    rest_phi[count] = phi[count]
    for j in range(problem.line_gain.size):
        rest_gain[count] += problem.line_gain[j] * problem.line_room[j]
    for g in range(count - 1, -1, -1):
        top = 0.0
        if g < blocks:
            for o in range(problem.start[g], problem.start[g + 1]):
                top = max(top, problem.gain[o])
        else:
            top = problem.stair_steps[g - blocks] * problem.stair_gain[g - blocks]
        rest_phi[g] = rest_phi[g + 1] + phi[g]
        rest_gain[g] = rest_gain[g + 1] + top
    return rest_phi, rest_gain


@numba.njit(cache=True)
def _alive(
    aim: _Aim, record: _Record, price: float, gain: float, rest_phi: float, rest_gain: float
) -> bool:
    """Whether a partial choice may still beat the best one known (weak duality)."""
    best, lam = record.value[0], aim.lam
    if aim.cheapest:
        # any completion costs at least price + lam (need - gain) - rest
        bound = price + max(0.0, lam * (aim.amount - gain) - rest_phi)
        return bool(bound < best and gain + rest_gain >= aim.amount * (1.0 - 1e-14))
    # any completion gains at most gain + (budget - price + rest) / lam
    floor = best + 1e-13 * (abs(best) + abs(gain))
    bound = gain + (aim.amount - price + rest_phi) / lam
    return bool(bound > floor and gain + rest_gain > floor)


@numba.njit(cache=True)
def _ends(aim: _Aim, record: _Record, price: float, gain: float) -> bool:
    """Keep a choice that is complete and the best so far; whether it needs no extension."""
    if aim.cheapest:
        if gain >= aim.amount and price < record.value[0]:
            record.value[0] = price
            return True
        return False
    if price <= aim.amount and gain > record.value[0]:
        record.value[0] = gain
        return True
    return False


@numba.njit(cache=True)
def _pushed(states: _States, count: int, p: float, v: float, parent: int, option: int) -> _States:
    """Return the list with one more partial choice."""
    if count == states.price.size:
        states = _States(
            np.concatenate((states.price, np.empty(count))),
            np.concatenate((states.gain, np.empty(count))),
            np.concatenate((states.parent, np.empty(count, np.int64))),
            np.concatenate((states.option, np.empty(count, np.int64))),
        )
    states.price[count], states.gain[count] = p, v
    states.parent[count], states.option[count] = parent, option
    return states


@numba.njit(cache=True)
def _empty(size: int) -> _States:
    return _States(
        np.zeros(size), np.zeros(size), np.full(size, -1, np.int64), np.zeros(size, np.int64)
    )


@numba.njit(cache=True)
def _menu_step(
    problem: Problem,
    aim: _Aim,
    record: _Record,
    states: _States,
    span: tuple[int, int],
    g: int,
    rest: tuple[float, float],
    most: int,
) -> tuple[_States, int]:
    """Extend all partial choices by every option of a menu, or by staying."""
    new, count = _empty(max(1024, 2 * (span[1] - span[0]))), 0
    for s in range(span[0], span[1]):
        for o in range(problem.start[g] - 1, problem.start[g + 1]):
            p, v = states.price[s], states.gain[s]
            if o >= problem.start[g]:
                p, v = p + problem.price[o], v + problem.gain[o]
            if not aim.cheapest and p > aim.amount:
                continue
            if _ends(aim, record, p, v):
                record.where[0], record.where[1], record.where[2] = s, g, o
                if aim.cheapest:
                    continue
            if _alive(aim, record, p, v, rest[0], rest[1]):
                new = _pushed(new, count, p, v, s, o)
                count += 1
                if count > most:
                    return new, -1
    return new, count


@numba.njit(cache=True)
def _stair_step(
    problem: Problem,
    aim: _Aim,
    record: _Record,
    states: _States,
    span: tuple[int, int],
    g: int,
    rest: tuple[float, float],
    most: int,
) -> tuple[_States, int]:
    """Extend all partial choices by every number of steps that the bound allows.

    Price minus lam times gain is convex in the number of steps, so these are neighbours of the
    best number: walk outward from it, first up, then down.
    """
    k = g - (problem.start.size - 1)
    a, b, top = problem.stair_price[k], problem.stair_gain[k], problem.stair_steps[k]
    centre = _stair(a, b, top, aim.lam, problem.power)
    new, count = _empty(max(1024, 2 * (span[1] - span[0]))), 0
    for s in range(span[0], span[1]):
        for way in (1, -1):
            m = centre if way == 1 else centre - 1
            while 0 <= m <= top:
                p = states.price[s] + (m * a) ** problem.power
                v = states.gain[s] + m * b
                inside = p < record.value[0] if aim.cheapest else p <= aim.amount
                ended = inside and _ends(aim, record, p, v)
                if ended:
                    record.where[0], record.where[1], record.where[2] = s, g, m
                enough = aim.cheapest and v >= aim.amount
                if inside and not enough and _alive(aim, record, p, v, rest[0], rest[1]):
                    new = _pushed(new, count, p, v, s, m)
                    count += 1
                    if count > most:
                        return new, -1
                # outward the bound only gets worse; upward so do price and surplus
                if _hopeless(aim, record, p, v, rest[0]) or (way == 1 and (enough or not inside)):
                    break
                m += way
    return new, count


@numba.njit(cache=True)
def _hopeless(aim: _Aim, record: _Record, p: float, v: float, rest_phi: float) -> bool:
    """Whether weak duality alone excludes a partial choice (convex in the steps of a stair)."""
    if aim.cheapest:
        return bool(p + aim.lam * (aim.amount - v) - rest_phi >= record.value[0])
    return bool(v + (aim.amount - p + rest_phi) / aim.lam <= record.value[0])


@numba.njit(cache=True)
def _last_stair(
    problem: Problem, aim: _Aim, record: _Record, states: _States, span: tuple[int, int], g: int
) -> None:
    """End every partial choice with the one number of steps that can be best: no lines follow."""
    k = g - (problem.start.size - 1)
    a, b, top = problem.stair_price[k], problem.stair_gain[k], problem.stair_steps[k]
    power = problem.power
    for s in range(span[0], span[1]):
        p0, v0 = states.price[s], states.gain[s]
        if aim.cheapest:  # the least that suffices
            m = min(top + 1.0, max(0.0, np.ceil((aim.amount - v0) / b)))
            while m > 0 and v0 + (m - 1) * b >= aim.amount:
                m -= 1
            while m <= top and v0 + m * b < aim.amount:
                m += 1
        else:  # the most that is affordable
            rest = max(0.0, aim.amount - p0)
            m = min(top + 0.0, np.floor((rest if power == 1 else np.sqrt(rest)) / a))
            while m < top and p0 + ((m + 1) * a) ** power <= aim.amount:
                m += 1
            while m > 0 and p0 + (m * a) ** power > aim.amount:
                m -= 1
        if m <= top and _ends(aim, record, p0 + (m * a) ** power, v0 + m * b):
            record.where[0], record.where[1], record.where[2] = s, g, int(m)


@numba.njit(cache=True)
def _lists(
    problem: Problem,
    aim: _Aim,
    phi: FloatArray,
    record: _Record,
    most: int,
    choice: IntArray,
    amount: FloatArray,
) -> bool:
    """Go through all partial choices block by block; write the best choice.

    Returns False if there were too many of them: then the record is only the best one found.
    """
    blocks, count, lines = problem.start.size - 1, phi.size - 1, problem.line_gain.size
    rest_phi, rest_gain = _rest(problem, phi)
    states, begin, end = _empty(1024), 0, 1
    done = True
    for g in range(count):
        if g >= blocks and g == count - 1 and lines == 0:
            _last_stair(problem, aim, record, states, (begin, end), g)
            begin = end
            break
        step = (rest_phi[g + 1], rest_gain[g + 1])
        if g < blocks:
            new, many = _menu_step(problem, aim, record, states, (begin, end), g, step, most)
        else:
            new, many = _stair_step(problem, aim, record, states, (begin, end), g, step, most)
        if many < 0:
            done = False
            begin = end
            break
        # drop what another choice beats in price and gain
        order = np.argsort(new.price[:many], kind="mergesort")
        begin, top_gain = end, -1.0
        for i in order:
            if new.gain[i] <= top_gain or (aim.cheapest and new.price[i] >= record.value[0]):
                continue
            top_gain = new.gain[i]
            states = _pushed(states, end, new.price[i], new.gain[i], new.parent[i], new.option[i])
            end += 1
    # the continuous rest
    spare = np.zeros(lines)
    for s in range(begin, end if lines > 0 else begin):
        if aim.cheapest:
            total = states.price[s] + _fill(problem, aim.amount - states.gain[s], spare)
            better = total < record.value[0]
        else:
            total = states.gain[s] + _fill_up(problem, aim.amount - states.price[s], spare)
            better = total > record.value[0]
        if better:
            record.value[0] = total
            record.where[0], record.where[1], record.where[2] = s, count, -1
            amount[:] = spare
    _write(problem, states, record, choice, amount)
    return done


@numba.njit(cache=True)
def _write(
    problem: Problem, states: _States, record: _Record, choice: IntArray, amount: FloatArray
) -> None:
    """Follow the parents of the best choice back to the first block."""
    s, level = record.where[0], record.where[1]
    if s < 0:
        return  # a first solution, written when it was found
    blocks, count = problem.start.size - 1, choice.size
    choice[:blocks], choice[blocks:] = -1, 0
    if level < count:
        choice[level] = record.where[2]
        amount[:] = 0.0
    while level > 0:
        level -= 1
        choice[level] = states.option[s]
        s = states.parent[s]
    for g in range(blocks):
        if choice[g] < problem.start[g]:
            choice[g] = -1
