"""The cheapest way to gain enough: a multiple-choice knapsack with lines, steps and menus.

A person chooses at most one option of every menu, a whole number of steps of every stair and an
amount of every line. Prices and gains add up over them; she wants the least price whose gain
reaches ``need``. Partial choices are kept only if no other is cheaper and gains more, and only if
weak duality leaves them a chance to beat the best known solution.

Source: "Additive scores", see docs/theory/20-moves.md.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from counterplay.core.validation import FloatArray, IntArray

MOST_STATES = 2_000_000


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
        order = np.argsort(price / gain, kind="stable")  # cheapest gain first
        full = room[:, order] * gain[order]
        before = np.zeros_like(full)  # gain of the cheaper lines
        before[:, 1:] = np.cumsum(full, axis=1)[:, :-1]
        used = np.clip(need[:, None] - before, 0.0, full)
        amount = np.empty_like(used)
        amount[:, order] = used / gain[order]
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


@numba.njit(cache=True)
def _fill(
    need: float, gain: FloatArray, price: FloatArray, room: FloatArray, power: int, out: FloatArray
) -> float:
    """Fill lines for one person; returns the sum of price^power, infinite if out of reach."""
    d = gain.size
    out[:] = 0.0
    if need <= 0.0:
        return 0.0
    left, total = need, 0.0
    if power == 1:
        order = np.argsort(price / gain)
        for j in order:
            amount = min(room[j], left / gain[j])
            out[j] = amount
            total += amount * price[j]
            left -= amount * gain[j]
            if amount < room[j]:
                return float(total)
        return float(total) if left <= 1e-15 * need else np.inf
    # square prices: amounts min(room, t c) with one common level t
    c = gain / price**2
    order = np.argsort(room / c)
    slope = 0.0
    for j in range(d):
        slope += gain[j] * c[j]
    for j in order:
        t = left / slope if slope > 0.0 else np.inf
        if t * c[j] <= room[j]:
            for k in range(d):
                amount = min(room[k], t * c[k])
                out[k] = amount
                total += (amount * price[k]) ** 2
            return total
        left -= gain[j] * room[j]
        slope -= gain[j] * c[j]
    return np.inf


@numba.njit(cache=True)
def _stair(a: float, b: float, steps: int, lam: float, power: int) -> int:
    """Return the best number of steps m at the dual price lam: price (m a)^power, gain m b."""
    if power == 1:
        return steps if lam * b > a else 0
    m = int(np.floor(lam * b / (2.0 * a * a) + 0.5))  # a parabola: the nearest whole number
    return max(0, min(steps, m))


@numba.njit(cache=True)
def _at(
    lam: float,
    start: IntArray,
    price: FloatArray,
    gain: FloatArray,
    stair_price: FloatArray,
    stair_gain: FloatArray,
    stair_steps: IntArray,
    line_gain: FloatArray,
    line_price: FloatArray,
    line_room: FloatArray,
    power: int,
    phi: FloatArray,
    pick: IntArray,
) -> float:
    """Write the best choice of every block at dual price lam and its value; return the gain."""
    total = 0.0
    blocks = start.size - 1
    for g in range(blocks):
        best, arg = 0.0, -1
        for o in range(start[g], start[g + 1]):
            value = lam * gain[o] - price[o]
            if value > best:
                best, arg = value, o
        phi[g], pick[g] = best, arg
        if arg >= 0:
            total += gain[arg]
    for k in range(stair_steps.size):
        m = _stair(stair_price[k], stair_gain[k], stair_steps[k], lam, power)
        phi[blocks + k] = lam * m * stair_gain[k] - (m * stair_price[k]) ** power
        pick[blocks + k] = m
        total += m * stair_gain[k]
    lines = 0.0
    for j in range(line_gain.size):
        if power == 1:
            margin = lam * line_gain[j] - line_price[j]
            if margin > 0.0:
                lines += margin * line_room[j]
                total += line_gain[j] * line_room[j]
        else:
            amount = min(line_room[j], lam * line_gain[j] / (2.0 * line_price[j] ** 2))
            lines += lam * line_gain[j] * amount - (line_price[j] * amount) ** 2
            total += line_gain[j] * amount
    phi[blocks + stair_steps.size] = lines
    return total


@numba.njit(cache=True)
def solve(
    need: float,
    start: IntArray,
    price: FloatArray,
    gain: FloatArray,
    stair_price: FloatArray,
    stair_gain: FloatArray,
    stair_steps: IntArray,
    line_gain: FloatArray,
    line_price: FloatArray,
    line_room: FloatArray,
    power: int,
    cap: float,
    most: int,
    choice: IntArray,
    amount: FloatArray,
) -> tuple[float, float]:
    """Return certified (lower, upper) on the least sum of price^power with gain >= need.

    ``choice`` gets the chosen option of every menu (-1: stay) and the steps of every stair,
    ``amount`` the amounts of the lines. Only prices below ``cap`` are of interest.
    """
    blocks, stairs, lines = start.size - 1, stair_steps.size, line_gain.size
    count = blocks + stairs
    choice[:] = -1
    choice[blocks:] = 0
    amount[:] = 0.0
    if need <= 0.0:
        return 0.0, 0.0
    phi, pick = np.zeros(count + 1), np.zeros(count, dtype=np.int64)
    phi_low = np.zeros(count + 1)
    # 1. the dual price lam: the least at which the best choices together reach the need
    high = 2.0**-80
    while True:
        got = _at(
            high,
            start,
            price,
            gain,
            stair_price,
            stair_gain,
            stair_steps,
            line_gain,
            line_price,
            line_room,
            power,
            phi,
            pick,
        )
        if got >= need:
            break
        high *= 4.0
        if high > 2.0**300:
            return np.inf, np.inf
    low = 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        got = _at(
            middle,
            start,
            price,
            gain,
            stair_price,
            stair_gain,
            stair_steps,
            line_gain,
            line_price,
            line_room,
            power,
            phi,
            pick,
        )
        if got >= need:
            high = middle
        else:
            low = middle
    lam = high
    _at(
        lam,
        start,
        price,
        gain,
        stair_price,
        stair_gain,
        stair_steps,
        line_gain,
        line_price,
        line_room,
        power,
        phi,
        pick,
    )
    dual = lam * need
    for g in range(count + 1):
        dual -= phi[g]
    dual = max(0.0, dual)
    if dual > cap:
        return np.inf, np.inf  # nothing within the budget
    # 2. a first solution: the choices at lam, lines filled up with what is missing
    best, got, first = 0.0, 0.0, 0.0
    for g in range(blocks):
        if pick[g] >= 0:
            best += price[pick[g]]
            got += gain[pick[g]]
    for k in range(stairs):
        best += (pick[blocks + k] * stair_price[k]) ** power
        got += pick[blocks + k] * stair_gain[k]
    spare = np.zeros(lines)
    first = _fill(need - got, line_gain, line_price, line_room, power, spare)
    best += first
    limit = cap * (1.0 + 1e-12) + 1e-300
    found = best < limit
    if found:
        choice[:] = pick
        amount[:] = spare
    else:
        best = limit
    # just below lam the need is not met: complete those choices by one block or by the lines
    _at(
        low,
        start,
        price,
        gain,
        stair_price,
        stair_gain,
        stair_steps,
        line_gain,
        line_price,
        line_room,
        power,
        phi_low,
        pick,
    )
    under, got = 0.0, 0.0
    for g in range(blocks):
        if pick[g] >= 0:
            under += price[pick[g]]
            got += gain[pick[g]]
    for k in range(stairs):
        under += (pick[blocks + k] * stair_price[k]) ** power
        got += pick[blocks + k] * stair_gain[k]
    total = under + _fill(need - got, line_gain, line_price, line_room, power, spare)
    if total < best:
        best, found = total, True
        choice[:] = pick
        amount[:] = spare
    for g in range(count):
        if g < blocks:
            have = gain[pick[g]] if pick[g] >= 0 else 0.0
            paid = price[pick[g]] if pick[g] >= 0 else 0.0
            for o in range(start[g], start[g + 1]):
                if got - have + gain[o] >= need and under - paid + price[o] < best:
                    best, found = under - paid + price[o], True
                    choice[:] = pick
                    choice[g] = o
                    amount[:] = 0.0
        else:
            a, b = stair_price[g - blocks], stair_gain[g - blocks]
            m = pick[g] + max(0, int(np.ceil((need - got) / b)))
            while got + (m - pick[g]) * b < need:
                m += 1
            total = under - (pick[g] * a) ** power + (m * a) ** power
            if m <= stair_steps[g - blocks] and total < best:
                best, found = total, True
                choice[:] = pick
                choice[g] = m
                amount[:] = 0.0
    # 3. what the blocks from g on can still add: gain, and value at lam
    rest_phi, rest_gain = np.zeros(count + 1), np.zeros(count + 1)
    rest_phi[count] = phi[count]
    for j in range(lines):
        rest_gain[count] += line_gain[j] * line_room[j]
    for g in range(count - 1, -1, -1):
        top = 0.0
        if g < blocks:
            for o in range(start[g], start[g + 1]):
                top = max(top, gain[o])
        else:
            top = stair_steps[g - blocks] * stair_gain[g - blocks]
        rest_phi[g] = rest_phi[g + 1] + phi[g]
        rest_gain[g] = rest_gain[g + 1] + top
    # 4. Pareto lists of partial choices, block by block
    size = 1024
    state_price, state_gain = np.zeros(size), np.zeros(size)
    parent, option = np.full(size, -1, np.int64), np.zeros(size, np.int64)
    begin, end = 0, 1
    best_state, best_block, best_option = -1, -1, -1
    for g in range(count):
        room = max(1024, 2 * (end - begin))
        new_price, new_gain = np.empty(room), np.empty(room)
        new_parent, new_option = np.empty(room, np.int64), np.empty(room, np.int64)
        new = 0
        stair = g >= blocks
        last = g == count - 1 and lines == 0
        for s in range(begin, end):
            if stair:
                k = g - blocks
                a, b, top = stair_price[k], stair_gain[k], stair_steps[k]
                centre = _stair(a, b, top, lam, power)
                if last:  # only the least number of steps that suffices
                    centre = int(np.ceil((need - state_gain[s]) / b))
                    while centre > 0 and state_gain[s] + (centre - 1) * b >= need:
                        centre -= 1
                    while centre <= top and state_gain[s] + centre * b < need:
                        centre += 1
                    if centre > top:
                        continue
                first_o, last_o, way = centre, centre, 0
            else:
                first_o, last_o, way = start[g] - 1, start[g + 1] - 1, 1
            o = first_o
            while True:
                if stair:
                    p = state_price[s] + (o * stair_price[g - blocks]) ** power
                    v = state_gain[s] + o * stair_gain[g - blocks]
                elif o < start[g]:
                    p, v = state_price[s], state_gain[s]
                else:
                    p, v = state_price[s] + price[o], state_gain[s] + gain[o]
                # weak duality: any completion costs at least p + lam (need - v) - rest
                bound = p + max(0.0, lam * (need - v) - rest_phi[g + 1])
                fine = bound < best
                if fine and v >= need:
                    best, found = p, True
                    best_state, best_block, best_option = s, g, o
                elif fine and v + rest_gain[g + 1] >= need * (1.0 - 1e-14):
                    if new == new_price.size:
                        new_price = np.concatenate((new_price, np.empty(new)))
                        new_gain = np.concatenate((new_gain, np.empty(new)))
                        new_parent = np.concatenate((new_parent, np.empty(new, np.int64)))
                        new_option = np.concatenate((new_option, np.empty(new, np.int64)))
                    new_price[new], new_gain[new] = p, v
                    new_parent[new], new_option[new] = s, o
                    new += 1
                if new > most:
                    return dual, best if found else np.inf
                if not stair:
                    o += 1
                    if o > last_o:
                        break
                elif last:
                    break
                else:  # outward from the best number of steps while the bound allows it
                    reduced = p + lam * (need - v) - rest_phi[g + 1]  # convex in the steps
                    if way == 0:
                        way = 1
                    if way == 1 and (reduced >= best or p >= best or v >= need):
                        way, o = -1, centre
                    elif way == -1 and reduced >= best:
                        break
                    o += way
                    if o > stair_steps[g - blocks]:
                        way, o = -1, centre - 1
                    if o < 0:
                        break
        # drop what another choice beats in price and gain
        order = np.argsort(new_price[:new], kind="mergesort")
        begin = end
        top_gain = -1.0
        for i in order:
            if new_gain[i] <= top_gain or new_price[i] >= best:
                continue
            top_gain = new_gain[i]
            if end == size:
                state_price = np.concatenate((state_price, np.zeros(size)))
                state_gain = np.concatenate((state_gain, np.zeros(size)))
                parent = np.concatenate((parent, np.zeros(size, np.int64)))
                option = np.concatenate((option, np.zeros(size, np.int64)))
                size *= 2
            state_price[end], state_gain[end] = new_price[i], new_gain[i]
            parent[end], option[end] = new_parent[i], new_option[i]
            end += 1
    # 5. the continuous rest
    for s in range(begin, end):
        total = state_price[s] + _fill(
            need - state_gain[s], line_gain, line_price, line_room, power, spare
        )
        if total < best:
            best, found = total, True
            best_state, best_block, best_option = s, count, -1
            amount[:] = spare
    if best_state >= 0:
        if best_block < count:
            amount[:] = 0.0
        choice[:] = -1
        choice[blocks:] = 0
        level, s = best_block, best_state
        if level < count:
            choice[level] = best_option
        while level > 0:
            level -= 1
            choice[level] = option[s]
            s = parent[s]
        for g in range(blocks):
            if choice[g] < start[g]:
                choice[g] = -1
    if not found:
        return np.inf, np.inf
    return best, best


def solve_max(
    need: float,
    start: IntArray,
    price: FloatArray,
    gain: FloatArray,
    line_gain: FloatArray,
    line_price: FloatArray,
    line_room: FloatArray,
) -> tuple[float, IntArray, FloatArray]:
    """Return the least r such that the best options within price r together reach the need.

    Also the chosen option per menu (-1: stay) and the amounts of the lines.
    """
    blocks = start.size - 1
    ends = np.unique(np.concatenate(([0.0], price, line_price * line_room)))
    ends = ends[np.isfinite(ends)]

    def options(r: float) -> IntArray:
        picked = np.full(blocks, -1, dtype=np.int64)
        for g in range(blocks):
            inside = np.flatnonzero(price[start[g] : start[g + 1]] <= r)
            if inside.size:
                picked[g] = start[g] + inside[np.argmax(gain[start[g] : start[g + 1]][inside])]
        return picked

    def total(r: float) -> float:
        picked = options(r)
        lines = float((line_gain * np.minimum(line_room, r / line_price)).sum())
        return float(gain[picked[picked >= 0]].sum()) + lines

    low, high = 0, ends.size  # ends[high] is the first that suffices
    while low < high:
        middle = (low + high) // 2
        if total(float(ends[middle])) >= need:
            high = middle
        else:
            low = middle + 1
    r = math.inf if high == ends.size else float(ends[high])
    if high > 0:  # between two ends only the lines grow
        left = float(ends[high - 1])
        open_lines = line_price * line_room > left
        slope = float((line_gain / line_price)[open_lines].sum())
        if slope > 0:
            r = min(r, left + (need - total(left)) / slope)
            picked = options(left) if high == ends.size or r < ends[high] else options(r)
        else:
            picked = options(r)
    else:
        picked = options(r)
    if math.isinf(r):
        return r, np.full(blocks, -1, dtype=np.int64), np.zeros(line_gain.size)
    amount = np.minimum(line_room, r / line_price)
    return r, _undo(need, picked, gain, amount, line_gain), amount


def _undo(
    need: float, picked: IntArray, gain: FloatArray, amount: FloatArray, line_gain: FloatArray
) -> IntArray:
    """Take back options that are not needed, smallest gains first."""
    chosen = picked.copy()
    have = float(gain[chosen[chosen >= 0]].sum() + (amount * line_gain).sum())
    for g in sorted(np.flatnonzero(chosen >= 0), key=lambda g: gain[chosen[g]]):
        if have - gain[chosen[g]] >= need:
            have -= gain[chosen[g]]
            chosen[g] = -1
    return chosen
