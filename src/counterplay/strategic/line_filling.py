"""Continuous columns on which a score is affine: lines with a gain, a price and some room.

The cheapest way to gain enough from lines only, and the most that a budget buys, have closed
forms: the best rates first if prices add up, one common level if squares do or the largest counts.

Source: "Additive scores", see docs/theory/20-moves.md.
"""

from __future__ import annotations

import numba
import numpy as np

from counterplay.core.validation import FloatArray, IntArray


def fill_lines(
    need: FloatArray, gain: FloatArray, price: FloatArray, room: FloatArray, power: float
) -> tuple[FloatArray, FloatArray]:
    """Return the least price, and the amounts, for many people who have lines only.

    Parameters
    ----------
    need
        ``(n,)`` gains that are needed, above 0.
    gain
        ``(d,)`` gain of one unit of each line.
    price
        ``(d,)`` price of one unit.
    room
        ``(n, d)`` largest amount of each line.
    power
        1, 2 or infinity: how prices combine.

    Examples
    --------
    >>> fill_lines(np.array([5.0]), np.array([3.0, 4.0]), np.ones(2), np.full((1, 2), np.inf), 2)
    (array([1.]), array([[0.6, 0.8]]))
    """
    n = need.size
    if gain.size == 0:
        return np.full(n, np.inf), np.zeros((n, 0))
    if power == 1:
        amount = _by_rate(need, gain, price, room, gain)
        cost = (amount * price).sum(axis=1)
    else:
        # the amounts are min(room, t c): c = gain / price^2 (water filling), 1 / price for max
        c = gain / price**2 if power == 2 else 1.0 / price
        level = _level(need, gain, c, room)
        amount = np.minimum(room, level[:, None] * c)
        amount = np.where(np.isfinite(amount), amount, 0.0)
        cost = np.sqrt(((amount * price) ** 2).sum(axis=1)) if power == 2 else level
    short = (room * gain).sum(axis=1) < need
    return np.where(short, np.inf, cost), amount


def fill_budget(
    budget: float, gain: FloatArray, price: FloatArray, room: FloatArray, power: float
) -> FloatArray:
    """Return the amounts of lines that gain most within a budget, per person.

    Examples
    --------
    >>> fill_budget(1.0, np.array([3.0, 4.0]), np.ones(2), np.full((1, 2), np.inf), 2)
    array([[0.6, 0.8]])
    """
    n = room.shape[0]
    if gain.size == 0 or budget == 0:
        return np.zeros((n, gain.size))
    if np.isinf(power):
        return np.minimum(room, budget / price)
    if power == 1:
        return _by_rate(np.full(n, budget), gain, price, room, price)
    # amounts min(room, t c): the level at which the squared prices reach the squared budget
    c = gain / price**2
    order = np.argsort(room / c, axis=1)
    ends = np.take_along_axis(room / c, order, axis=1)
    unit = ((price * c) ** 2)[order]  # squared price of one level
    with np.errstate(invalid="ignore"):
        full = np.where(np.isfinite(ends), unit * ends**2, 0.0)
    spent = np.zeros_like(full)
    spent[:, 1:] = np.cumsum(full, axis=1)[:, :-1]
    rest = np.cumsum(unit[:, ::-1], axis=1)[:, ::-1]
    with np.errstate(invalid="ignore"):
        level = np.sqrt(np.maximum(budget**2 - spent, 0.0) / rest)
    fits = level <= ends
    first = np.argmax(fits, axis=1)
    chosen = np.take_along_axis(level, first[:, None], axis=1)[:, 0]
    chosen = np.where(fits.any(axis=1), chosen, np.inf)
    return np.minimum(room, chosen[:, None] * c)


def _by_rate(
    limit: FloatArray, gain: FloatArray, price: FloatArray, room: FloatArray, counted: FloatArray
) -> FloatArray:
    """Return amounts filled by falling rate gain / price until what is counted reaches a limit."""
    order = np.argsort(price / gain, kind="stable")  # cheapest gain first
    full = room[:, order] * counted[order]
    before = np.zeros_like(full)  # what the cheaper lines take
    before[:, 1:] = np.cumsum(full, axis=1)[:, :-1]
    used = np.clip(limit[:, None] - before, 0.0, full)
    amount = np.empty_like(used)
    amount[:, order] = used / counted[order]
    return amount


def _level(need: FloatArray, gain: FloatArray, c: FloatArray, room: FloatArray) -> FloatArray:
    """Return the least t with sum_j gain_j min(room_j, t c_j) >= need, per person."""
    ends = room / c
    order = np.argsort(ends, axis=1)
    ends = np.take_along_axis(ends, order, axis=1)
    full = np.take_along_axis(room * gain, order, axis=1)
    slope = (gain * c)[order]
    done = np.zeros_like(full)  # gain of the lines that are full before this end
    done[:, 1:] = np.cumsum(full, axis=1)[:, :-1]
    rest = np.cumsum(slope[:, ::-1], axis=1)[:, ::-1]  # slope of this line and all later ones
    t = (need[:, None] - done) / rest
    fits = t <= ends
    first = np.argmax(fits, axis=1)
    level = np.take_along_axis(t, first[:, None], axis=1)[:, 0]
    return np.where(fits.any(axis=1), level, np.inf)


def filling_order(gain: FloatArray, price: FloatArray, room: FloatArray, power: float) -> IntArray:
    """Return the order in which the lines of one person are full, as their level or budget rises.

    Examples
    --------
    >>> filling_order(np.array([1.0, 4.0]), np.array([1.0, 2.0]), np.array([9.0, 9.0]), 1)
    array([1, 0])
    """
    # by the price of gain; or by the level at which min(room, t gain / price^2) is all the room
    last = price / gain if power == 1 else room * price**2 / gain
    return np.argsort(last, kind="stable")


@numba.njit(cache=True, nogil=True)
def fill_need(
    need: float, gain: FloatArray, price: FloatArray, room: FloatArray, power: int, out: FloatArray
) -> float:
    """Fill one person's lines, given in filling order.

    Returns the sum of price^power, infinite if the need is out of reach.
    """
    out[:] = 0.0
    if need <= 0.0:
        return 0.0
    left, total = need, 0.0
    if power == 1:
        for j in range(gain.size):
            amount = min(room[j], left / gain[j])
            out[j] = amount
            total += amount * price[j]
            left -= amount * gain[j]
            if amount < room[j]:
                return float(total)
        return total if left <= 1e-15 * need else np.inf
    # square prices: amounts min(room, t c) with one common level t and c = gain / price^2
    slope = 0.0
    for j in range(gain.size):
        slope += gain[j] * (gain[j] / price[j] ** 2)
    for j in range(gain.size):
        t = left / slope if slope > 0.0 else np.inf
        c = gain[j] / price[j] ** 2
        if t * c <= room[j]:
            for k in range(gain.size):
                out[k] = min(room[k], t * (gain[k] / price[k] ** 2))
                total += (out[k] * price[k]) ** 2
            return total
        left -= gain[j] * room[j]
        slope -= gain[j] * c
    return np.inf


@numba.njit(cache=True, nogil=True)
def fill_rest(
    rest: float, gain: FloatArray, price: FloatArray, room: FloatArray, power: int, out: FloatArray
) -> float:
    """Spend what is left of sum price^power on one person's lines, given in filling order.

    Returns the gain.
    """
    out[:] = 0.0
    if rest <= 0.0 or gain.size == 0:
        return 0.0
    left, total = rest, 0.0
    if power == 1:
        for j in range(gain.size):
            out[j] = min(room[j], left / price[j])
            total += out[j] * gain[j]
            left -= out[j] * price[j]
            if left <= 0.0:
                break
        return total
    # one common level t: lines that are full first leave the budget to the others
    unit = 0.0  # squared price of one level
    for j in range(gain.size):
        unit += (gain[j] / price[j]) ** 2
    level = np.inf
    for j in range(gain.size):
        t = np.sqrt(max(left, 0.0) / unit) if unit > 0.0 else np.inf
        if t * (gain[j] / price[j] ** 2) <= room[j]:
            level = t
            break
        left -= (price[j] * room[j]) ** 2
        unit -= (gain[j] / price[j]) ** 2
    for j in range(gain.size):
        out[j] = min(room[j], level * (gain[j] / price[j] ** 2))
        total += out[j] * gain[j]
    return total
