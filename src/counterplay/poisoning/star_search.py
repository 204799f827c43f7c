"""Compiled searches for largest stars and largest minimal unrealizable sets.

Both keep, for every row, at how many chosen elements it errs, and the exclusive-or of these
elements, which names the element when there is only one; and for every chosen element how many
rows err at it alone. Adding or removing an element touches only the rows that err at it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from counterplay.core.dimensions.shatter_search import popcount_word


@njit(cache=True)
def _change(column, wrong_label, element, hits, owner, alone, sign):  # type: ignore[no-untyped-def]  # compiled by numba
    """Add (sign 1) or remove (sign -1) an element; rows whose label is ``wrong_label`` err."""
    for row in range(column.size):
        if column[row] != wrong_label:
            continue
        # The row erred at one element alone: that element loses it (or gets it back below).
        if hits[row] == 1:
            alone[owner[row]] -= 1
        hits[row] += sign
        owner[row] ^= element
        if hits[row] == 1:
            alone[owner[row]] += 1


@njit(cache=True)
def _fits(column, wrong_label, hits, owner, alone, lost, touched):  # type: ignore[no-untyped-def]  # compiled by numba
    """Whether the element can be added: each chosen one keeps a row that errs there alone."""
    fresh = False
    count = 0
    fine = True
    for row in range(column.size):
        if column[row] != wrong_label:
            continue
        if hits[row] == 0:
            fresh = True
        elif hits[row] == 1:
            name = owner[row]
            if lost[name] == 0:
                touched[count] = name
                count += 1
            lost[name] += 1
            if lost[name] == alone[name]:
                fine = False
                break
    # Leave the counters as they were for the next question.
    for index in range(count):
        lost[touched[index]] = 0
    return fresh and fine


@njit(cache=True)
def _extends_star(differ, agree, sets, k):  # type: ignore[no-untyped-def]  # compiled by numba
    """Whether a point extends a star; ``sets``: rows hit nowhere, only at point 1, ..., k."""
    fresh = False
    for w in range(differ.size):
        if sets[0, w] & differ[w]:
            fresh = True
            break
    if not fresh:
        return False
    for i in range(1, k + 1):
        kept = False
        for w in range(differ.size):
            if sets[i, w] & agree[w]:
                kept = True
                break
        if not kept:
            return False
    return True


@njit(cache=True)
def search_star_bitsets(ones, zeros, columns, limit, budget):  # type: ignore[no-untyped-def]  # compiled by numba
    """Like :func:`search_star`, for stars of at most ``limit`` points, with rows as bit sets."""
    n_points, width = ones.shape
    n_rows = columns.shape[1]
    sets = np.zeros(((limit + 1) * (limit + 2) // 2, width), dtype=np.uint64)
    differ = np.zeros((n_points, width), dtype=np.uint64)
    agree = np.zeros((n_points, width), dtype=np.uint64)
    cand = np.zeros((limit + 1, n_points), dtype=np.int64)
    count = np.zeros(limit + 1, dtype=np.int64)
    pointer = np.zeros(limit + 1, dtype=np.int64)
    chosen = np.zeros(limit, dtype=np.int64)
    sizes = np.zeros(n_points, dtype=np.int64)
    best = np.zeros(0, dtype=np.int64)
    best_center = 0
    steps = 0
    for center in range(n_rows):
        if best.size >= limit:
            break
        # Errors are counted from this center: where rows differ from it.
        for x in range(n_points):
            differ[x] = zeros[x] if columns[x, center] else ones[x]
            agree[x] = ones[x] if columns[x, center] else zeros[x]
            sizes[x] = 0
            for w in range(width):
                sizes[x] += popcount_word(differ[x, w])
        sets[0] = ~np.uint64(0)
        count[0] = 0
        for x in np.argsort(sizes):
            if sizes[x] > 0:
                cand[0, count[0]] = x
                count[0] += 1
        pointer[0] = 0
        k = 0
        while k >= 0 and best.size < limit:
            if k + count[k] - pointer[k] <= best.size:
                k -= 1
                continue
            if budget > 0 and steps >= budget:
                return best_center, best, False
            steps += 1
            x = cand[k, pointer[k]]
            pointer[k] += 1
            chosen[k] = x
            if k + 1 > best.size:
                best = chosen[: k + 1].copy()
                best_center = center
            # Rows hit nowhere, or only at point i, stay so if they agree at x; rows hit nowhere
            # that differ at x are the witnesses of x.
            old = sets[k * (k + 1) // 2 :]
            new = sets[(k + 1) * (k + 2) // 2 :]
            for w in range(width):
                for i in range(k + 1):
                    new[i, w] = old[i, w] & agree[x, w]
                new[k + 1, w] = old[0, w] & differ[x, w]
            found = 0
            for index in range(pointer[k], count[k]):
                if k + 1 + found + count[k] - index <= best.size:
                    found = 0
                    break
                y = cand[k, index]
                if _extends_star(differ[y], agree[y], new, k + 1):
                    cand[k + 1, found] = y
                    found += 1
            count[k + 1] = found
            pointer[k + 1] = 0
            k += 1
    return best_center, best, True


@njit(cache=True)
def search_star(columns, budget):  # type: ignore[no-untyped-def]  # compiled by numba
    """Return (center row, points, finished) of a largest star; ``columns`` is (points, rows)."""
    n_points, n_rows = columns.shape
    limit = min(n_points, n_rows - 1)
    best = np.zeros(0, dtype=np.int64)
    best_center = 0
    steps = 0
    hits = np.zeros(n_rows, dtype=np.int64)
    owner = np.zeros(n_rows, dtype=np.int64)
    alone = np.zeros(n_points, dtype=np.int64)
    lost = np.zeros(n_points, dtype=np.int64)
    touched = np.zeros(n_points + 1, dtype=np.int64)
    sizes = np.zeros(n_points, dtype=np.int64)
    chosen = np.zeros(limit + 1, dtype=np.int64)
    begin = np.zeros(limit + 2, dtype=np.int64)
    end = np.zeros(limit + 2, dtype=np.int64)
    stack = np.zeros(4 * n_points + 16, dtype=np.int64)
    for center in range(n_rows):
        if best.size >= limit:
            break
        for x in range(n_points):
            sizes[x] = np.sum(columns[x] != columns[x, center])
        order = np.argsort(sizes)
        top = 0
        for x in order:
            if sizes[x] > 0:
                stack[top] = x
                top += 1
        begin[0] = 0
        end[0] = top
        k = 0
        while True:
            if k + end[k] - begin[k] <= best.size or best.size >= limit:
                if k == 0:
                    break
                k -= 1
                x = chosen[k]
                _change(columns[x], not columns[x, center], x, hits, owner, alone, -1)
                continue
            if budget > 0 and steps >= budget:
                return best_center, best, False
            steps += 1
            x = stack[begin[k]]
            begin[k] += 1
            chosen[k] = x
            _change(columns[x], not columns[x, center], x, hits, owner, alone, 1)
            if k + 1 > best.size:
                best = chosen[: k + 1].copy()
                best_center = center
            start = end[k]
            if start + end[k] - begin[k] > stack.size:
                larger = np.zeros(2 * stack.size + n_points, dtype=np.int64)
                larger[: stack.size] = stack
                stack = larger
            fill = start
            # Later candidates that still fit are put on the stack for the next level.
            for index in range(begin[k], end[k]):
                if k + 1 + fill - start + end[k] - index <= best.size:
                    fill = start
                    break
                y = stack[index]
                if _fits(columns[y], not columns[y, center], hits, owner, alone, lost, touched):
                    stack[fill] = y
                    fill += 1
            begin[k + 1] = start
            end[k + 1] = fill
            k += 1
    return best_center, best, True


@njit(cache=True)
def _branch_row(columns, hits, used, banned):  # type: ignore[no-untyped-def]  # compiled by numba
    """The row consistent with all chosen labels that has the fewest ways to become wrong."""
    n_points, n_rows = columns.shape
    best_row = -1
    best_count = n_points + 1
    for row in range(n_rows):
        if hits[row] > 0:
            continue
        count = 0
        for x in range(n_points):
            if not used[x] and not banned[2 * x + (1 - columns[x, row])]:
                count += 1
                if count >= best_count:
                    break
        if count < best_count:
            best_row = row
            best_count = count
    return best_row, best_count


@njit(cache=True)
def search_hollow(columns, budget):  # type: ignore[no-untyped-def]  # compiled by numba
    """Return (elements, finished) of a largest minimal unrealizable set; element 2x+y = (x, y).

    A set is unrealizable when every row errs somewhere: a cover of the rows, and minimal when every
    element has a row that errs there alone. Minimal covers are listed by branching on a row that
    is not covered yet; an element tried before is banned in the later branches.
    """
    n_points, n_rows = columns.shape
    columns = columns.astype(np.int64)
    hits = np.zeros(n_rows, dtype=np.int64)
    owner = np.zeros(n_rows, dtype=np.int64)
    alone = np.zeros(2 * n_points, dtype=np.int64)
    lost = np.zeros(2 * n_points, dtype=np.int64)
    touched = np.zeros(2 * n_points + 1, dtype=np.int64)
    used = np.zeros(n_points, dtype=np.bool_)
    banned = np.zeros(2 * n_points, dtype=np.bool_)
    ones = np.zeros(n_points, dtype=np.int64)
    for x in range(n_points):
        ones[x] = columns[x].sum()
    depth = n_points + 1
    cand = np.zeros((depth, n_points), dtype=np.int64)
    count = np.zeros(depth, dtype=np.int64)
    pointer = np.zeros(depth, dtype=np.int64)
    chosen = np.zeros(depth, dtype=np.int64)
    best = np.zeros(0, dtype=np.int64)
    limit = min(n_points, n_rows)
    steps = 0
    k = 0
    fresh_node = True
    while best.size < limit:
        if fresh_node:
            fresh_node = False
            count[k] = 0
            pointer[k] = 0
            # All rows err somewhere: the set is unrealizable. Otherwise branch on the hardest row.
            uncovered = np.sum(hits == 0)
            if uncovered == 0:
                if k > best.size:
                    best = chosen[:k].copy()
            elif k + min(uncovered, n_points - np.sum(used)) > best.size:
                row, _ = _branch_row(columns, hits, used, banned)
                errors = np.zeros(n_points, dtype=np.int64)
                for x in range(n_points):
                    element = 2 * x + (1 - columns[x, row])
                    if not used[x] and not banned[element]:
                        cand[k, count[k]] = element
                        errors[count[k]] = ones[x] if element % 2 == 0 else n_rows - ones[x]
                        count[k] += 1
                order = np.argsort(errors[: count[k]])
                cand[k, : count[k]] = cand[k, : count[k]][order]
        # All branches of this node are done: lift its bans, go back, ban what led here.
        if pointer[k] >= count[k]:
            for index in range(count[k]):
                banned[cand[k, index]] = False
            if k == 0:
                break
            k -= 1
            element = chosen[k]
            x = element // 2
            used[x] = False
            _change(columns[x], 1 - element % 2, element, hits, owner, alone, -1)
            banned[element] = True
            continue
        element = cand[k, pointer[k]]
        pointer[k] += 1
        if budget > 0 and steps >= budget:
            return best, False
        steps += 1
        x = element // 2
        if not _fits(columns[x], 1 - element % 2, hits, owner, alone, lost, touched):
            banned[element] = True
            continue
        chosen[k] = element
        used[x] = True
        _change(columns[x], 1 - element % 2, element, hits, owner, alone, 1)
        k += 1
        fresh_node = True
    return best, True
