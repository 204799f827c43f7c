"""Partial choices of a knapsack, block by block: only those that can still be the best are kept.

A partial choice is dropped if another over the same blocks is cheaper and gains more, or if weak
duality leaves it no chance to beat the best known solution. The last stair is not listed: what
follows a choice of all other blocks is convex in its number of steps.

Source: "Additive scores", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from counterplay.core.validation import FloatArray, IntArray
from counterplay.strategic.knapsack_dual import Problem, best_steps, fill, fill_up


class Aim(NamedTuple):
    """What is asked: the least price for a need, or the most gain for a budget."""

    cheapest: bool
    amount: float  # the need, or the budget to the power
    lam: float  # dual price: what one unit of gain is worth


class States(NamedTuple):
    """Partial choices: price, gain, the choice they extend, and the option taken."""

    price: FloatArray
    gain: FloatArray
    parent: IntArray
    option: IntArray


class Record(NamedTuple):
    """The best complete choice so far: its value, and (state, block, option) behind it."""

    value: FloatArray
    where: IntArray  # state -1: a first solution, which is written down elsewhere


@numba.njit(cache=True, nogil=True)
def list_choices(
    problem: Problem, aim: Aim, phi: FloatArray, record: Record, most: int, levels: int
) -> tuple[States, int, int]:
    """Go through all partial choices of the first blocks, as many as there are levels.

    Returns the choices and the span of those on the last level; its end is -1 if there were too
    many of them: then the record is only the best one found.
    """
    blocks = problem.start.size - 1
    rest_phi, rest_gain = _rest(problem, phi)
    states = _empty(1)  # nothing is chosen
    end = states.price.size  # a literal 1 would have numba compile the steps once more
    begin = end - 1
    for g in range(levels):
        step = (rest_phi[g + 1], rest_gain[g + 1])
        if g < blocks:
            new, many = _menu_step(problem, aim, record, states, (begin, end), g, step, most)
        else:
            new, many = _stair_step(problem, aim, record, states, (begin, end), g, step, most)
        if many < 0:
            return states, end, -1
        # drop what another choice beats in price and gain
        order = np.argsort(new.price[:many], kind="mergesort")
        begin, top_gain = end, -1.0
        for i in order:
            if new.gain[i] <= top_gain or (aim.cheapest and new.price[i] >= record.value[0]):
                continue
            top_gain = new.gain[i]
            if end == states.price.size:
                states = _longer(states)
            states.price[end], states.gain[end] = new.price[i], new.gain[i]
            states.parent[end], states.option[end] = new.parent[i], new.option[i]
            end += 1
    return states, begin, end


@numba.njit(cache=True, nogil=True)
def end_choices(
    problem: Problem,
    aim: Aim,
    record: Record,
    states: States,
    span: tuple[int, int],
    amount: FloatArray,
) -> None:
    """End every choice of all blocks but the last stair: by its steps, and by the lines."""
    stairs = problem.stair_steps.size
    spare = np.zeros(problem.line_gain.size)
    for s in range(span[0], span[1]):
        m = _last_steps(problem, aim, states.price[s], states.gain[s], spare) if stairs else 0
        if m < 0:
            continue
        total = _ended(problem, aim, states.price[s], states.gain[s], m, spare)
        if (total < record.value[0]) if aim.cheapest else (total > record.value[0]):
            record.value[0] = total
            level = problem.start.size - 1 + max(stairs - 1, 0)
            record.where[0], record.where[1], record.where[2] = s, level, m if stairs else -1
            amount[:] = spare


@numba.njit(cache=True, nogil=True)
def _ended(
    problem: Problem, aim: Aim, price: float, gain: float, m: int, spare: FloatArray
) -> float:
    """Return the value of a choice with m steps of the last stair and the lines it needs."""
    if problem.stair_steps.size:
        price += (m * problem.stair_price[-1]) ** problem.power
        gain += m * problem.stair_gain[-1]
    if aim.cheapest:
        return price + fill(problem, aim.amount - gain, spare)
    if price > aim.amount:
        return -np.inf
    return gain + fill_up(problem, aim.amount - price, spare)


@numba.njit(cache=True, nogil=True)
def _last_steps(problem: Problem, aim: Aim, price: float, gain: float, spare: FloatArray) -> int:
    """Return the best number of steps of the last stair; -1 if no number will do.

    The value is convex (concave for gains) in the number: the first rise is the place.
    """
    a, b, top = problem.stair_price[-1], problem.stair_gain[-1], problem.stair_steps[-1]
    low, high = 0.0, top + 0.0
    if aim.cheapest:  # from the least that suffices together with all lines
        lines = 0.0
        for j in range(problem.line_gain.size):
            lines += problem.line_gain[j] * problem.line_room[j]
        low = min(top + 1.0, max(0.0, np.ceil((aim.amount - gain - lines) / b)))
        while low > 0 and np.isfinite(_ended(problem, aim, price, gain, int(low) - 1, spare)):
            low -= 1
        while low <= top and np.isinf(_ended(problem, aim, price, gain, int(low), spare)):
            low += 1
        if low > top:
            return -1
    else:  # up to the most that is affordable
        rest = max(0.0, aim.amount - price)
        high = min(high, np.floor((rest if problem.power == 1 else np.sqrt(rest)) / a))
        while high < top and price + ((high + 1) * a) ** problem.power <= aim.amount:
            high += 1
        while high > 0 and price + (high * a) ** problem.power > aim.amount:
            high -= 1
    first, last = int(low), int(high)
    if problem.line_gain.size == 0:
        return first if aim.cheapest else last
    while first < last:
        middle = (first + last) // 2
        here = _ended(problem, aim, price, gain, middle, spare)
        there = _ended(problem, aim, price, gain, middle + 1, spare)
        if (there < here) if aim.cheapest else (there > here):
            first = middle + 1
        else:
            last = middle
    return first


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def _alive(
    aim: Aim, record: Record, price: float, gain: float, rest_phi: float, rest_gain: float
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


@numba.njit(cache=True, nogil=True)
def _ends(aim: Aim, record: Record, price: float, gain: float) -> bool:
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


@numba.njit(cache=True, nogil=True)
def _longer(states: States) -> States:
    """Return the list with twice the room."""
    count = states.price.size
    new = _empty(2 * count)
    for s in range(count):
        new.price[s], new.gain[s] = states.price[s], states.gain[s]
        new.parent[s], new.option[s] = states.parent[s], states.option[s]
    return new


@numba.njit(cache=True, nogil=True)
def _empty(size: int) -> States:
    return States(
        np.zeros(size), np.zeros(size), np.full(size, -1, np.int64), np.zeros(size, np.int64)
    )


@numba.njit(cache=True, nogil=True)
def _menu_step(
    problem: Problem,
    aim: Aim,
    record: Record,
    states: States,
    span: tuple[int, int],
    g: int,
    rest: tuple[float, float],
    most: int,
) -> tuple[States, int]:
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
                if count == new.price.size:
                    new = _longer(new)
                new.price[count], new.gain[count] = p, v
                new.parent[count], new.option[count] = s, o
                count += 1
                if count > most:
                    return new, -1
    return new, count


@numba.njit(cache=True, nogil=True)
def _stair_step(
    problem: Problem,
    aim: Aim,
    record: Record,
    states: States,
    span: tuple[int, int],
    g: int,
    rest: tuple[float, float],
    most: int,
) -> tuple[States, int]:
    """Extend all partial choices by every number of steps that the bound allows.

    Price minus lam times gain is convex in the number of steps, so these are neighbours of the
    best number: walk outward from it, first up, then down.
    """
    k = g - (problem.start.size - 1)
    a, b, top = problem.stair_price[k], problem.stair_gain[k], problem.stair_steps[k]
    centre = best_steps(a, b, top, aim.lam, problem.power)
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
                    if count == new.price.size:
                        new = _longer(new)
                    new.price[count], new.gain[count] = p, v
                    new.parent[count], new.option[count] = s, m
                    count += 1
                    if count > most:
                        return new, -1
                # outward the bound only gets worse; upward so do price and surplus
                if _hopeless(aim, record, p, v, rest[0]) or (way == 1 and (enough or not inside)):
                    break
                m += way
    return new, count


@numba.njit(cache=True, nogil=True)
def _hopeless(aim: Aim, record: Record, p: float, v: float, rest_phi: float) -> bool:
    """Whether weak duality alone excludes a partial choice (convex in the steps of a stair)."""
    if aim.cheapest:
        return bool(p + aim.lam * (aim.amount - v) - rest_phi >= record.value[0])
    return bool(v + (aim.amount - p + rest_phi) / aim.lam <= record.value[0])


@numba.njit(cache=True, nogil=True)
def write_choice(problem: Problem, states: States, where: IntArray, choice: IntArray) -> None:
    """Follow the parents of a choice (state, block, option) back to the first block.

    An option below 0 says that nothing is taken from the block.
    """
    s, level = where[0], where[1]
    blocks = problem.start.size - 1
    choice[:blocks], choice[blocks:] = -1, 0
    if where[2] >= 0:
        choice[level] = where[2]
    while level > 0:
        level -= 1
        choice[level] = states.option[s]
        s = states.parent[s]
    for g in range(blocks):
        if choice[g] < problem.start[g]:
            choice[g] = -1
