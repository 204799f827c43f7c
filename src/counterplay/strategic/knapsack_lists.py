"""Partial choices of a knapsack, block by block: only those that can still be the best are kept.

A partial choice is dropped if another over the same blocks is cheaper and gains more, or if weak
duality leaves it no chance to beat the best known solution.

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
    problem: Problem,
    aim: Aim,
    phi: FloatArray,
    record: Record,
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
            total = states.price[s] + fill(problem, aim.amount - states.gain[s], spare)
            better = total < record.value[0]
        else:
            total = states.gain[s] + fill_up(problem, aim.amount - states.price[s], spare)
            better = total > record.value[0]
        if better:
            record.value[0] = total
            record.where[0], record.where[1], record.where[2] = s, count, -1
            amount[:] = spare
    _write(problem, states, record, choice, amount)
    return done


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
def _pushed(states: States, count: int, p: float, v: float, parent: int, option: int) -> States:
    """Return the list with one more partial choice."""
    if count == states.price.size:
        states = States(
            np.concatenate((states.price, np.empty(count))),
            np.concatenate((states.gain, np.empty(count))),
            np.concatenate((states.parent, np.empty(count, np.int64))),
            np.concatenate((states.option, np.empty(count, np.int64))),
        )
    states.price[count], states.gain[count] = p, v
    states.parent[count], states.option[count] = parent, option
    return states


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
                new = _pushed(new, count, p, v, s, o)
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
                    new = _pushed(new, count, p, v, s, m)
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
def _last_stair(
    problem: Problem, aim: Aim, record: Record, states: States, span: tuple[int, int], g: int
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


@numba.njit(cache=True, nogil=True)
def _write(
    problem: Problem, states: States, record: Record, choice: IntArray, amount: FloatArray
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
