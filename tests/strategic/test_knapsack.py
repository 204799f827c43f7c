"""The knapsack of one person against a generic solver and against enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from counterplay.strategic.knapsack import MOST_STATES, least_price, most_gain
from counterplay.strategic.knapsack_dual import Problem
from counterplay.strategic.knapsack_max import least_price_max, most_gain_max
from counterplay.strategic.line_filling import fill_budget, fill_lines

Menu = list[tuple[float, float]]


def problem_of(menus: list[Menu], stairs: list[Any], lines: list[Any], power: int) -> Problem:
    price = np.array([p for m in menus for p, _ in m])
    a, b, top = (np.array([s[k] for s in stairs]) for k in range(3))

    def last(line: Any) -> float:  # the rate, or the level at which a line is full
        gain, unit, room = line
        return float(unit / gain if power == 1 else room * unit**2 / gain)

    lines = sorted(lines, key=last)
    sigma, unit, room = (np.array([s[k] for s in lines]) for k in range(3))
    return Problem(
        np.cumsum([0, *map(len, menus)]).astype(np.int64),
        price**power,
        np.array([g for m in menus for _, g in m]),
        a,
        b,
        top.astype(np.int64),
        sigma,
        unit,
        room,
        power,
    )


def value_of(problem: Problem, choice: Any, amount: Any) -> tuple[float, float]:
    """Return the sum of price^power and the gain of a choice, added up again."""
    menus = problem.start.size - 1
    picked, count = choice[:menus], choice[menus:]
    picked = picked[picked >= 0]
    paid = problem.price[picked].sum() + ((problem.stair_price * count) ** problem.power).sum()
    paid += ((problem.line_price * amount) ** problem.power).sum()
    got = problem.gain[picked].sum() + (problem.stair_gain * count).sum()
    return float(paid), float(got + (problem.line_gain * amount).sum())


def solved(
    need: float, menus: list[Menu], stairs: list[Any], lines: list[Any], power: int
) -> tuple[float, float, float]:
    """Return the price, and price and gain of the returned choice."""
    problem = problem_of(menus, stairs, lines, power)
    low, high, choice, amount = least_price(problem, need, np.inf, MOST_STATES)
    assert low == high
    paid, got = value_of(problem, choice, amount)
    return high ** (1 / power), paid ** (1 / power), got


def random_instance(rng: np.random.Generator, most: int) -> tuple[float, list[Menu], Any, Any]:
    menus = [
        [(rng.uniform(0.1, 2), rng.uniform(0.05, 1)) for _ in range(rng.integers(1, 7))]
        for _ in range(rng.integers(1, most + 1))
    ]
    lines = [tuple(rng.uniform(0.1, [1, 2, 1])) for _ in range(rng.integers(0, 6))]
    stairs = [
        (rng.uniform(0.02, 0.3), rng.uniform(0.02, 0.3), int(rng.integers(1, 12)))
        for _ in range(rng.integers(0, 3))
    ]
    total = sum(max(g for _, g in m) for m in menus) + sum(g * r for g, _, r in lines)
    total += sum(b * m for _, b, m in stairs)
    return float(rng.uniform(0.05, 1.05) * total), menus, stairs, lines


def by_milp(need: float, menus: list[Menu], stairs: Any, lines: Any) -> float:
    price = [p for m in menus for p, _ in m] + [s[0] for s in stairs] + [s[1] for s in lines]
    gain = [g for m in menus for _, g in m] + [s[1] for s in stairs] + [s[0] for s in lines]
    options = sum(map(len, menus))
    rows: list[Any] = [gain]
    low, high = [need], [np.inf]
    at = 0
    for menu in menus:
        row = np.zeros(len(price))
        row[at : at + len(menu)] = 1
        at += len(menu)
        rows, low, high = [*rows, row], [*low, -np.inf], [*high, 1.0]
    top = [1] * options + [s[2] for s in stairs] + [s[2] for s in lines]
    found = milp(
        price,
        constraints=LinearConstraint(np.array(rows), low, high),
        integrality=[1] * (options + len(stairs)) + [0] * len(lines),
        bounds=Bounds(0, top),
        options={"mip_rel_gap": 0},
    )
    return float(found.fun) if found.status == 0 else np.inf


@pytest.mark.claim("20.01")
def test_hand_example() -> None:
    menus, lines = [[(1.0, 1.0)]], [(0.8, 1.0, 0.5)]
    assert solved(1.3, menus, [], lines, 1)[0] == pytest.approx(1.375, abs=1e-12)
    assert solved(1.3, menus, [], lines, 2)[0] == pytest.approx(np.sqrt(1.140625), abs=1e-12)
    r, _, choice, amount = least_price_max(problem_of(menus, [], lines, 1), 1.3)
    assert (r, choice.tolist(), amount.tolist()) == (1.0, [0], [0.5])


@pytest.mark.claim("20.03")
def test_equal_to_integer_programming() -> None:
    rng = np.random.default_rng(0)
    for _ in range(400):
        need, menus, stairs, lines = random_instance(rng, 8)
        price, paid, got = solved(need, menus, stairs, lines, 1)
        assert price == pytest.approx(by_milp(need, menus, stairs, lines), rel=1e-6)
        if np.isfinite(price):
            assert paid == pytest.approx(price, abs=1e-9)
            assert got >= need - 1e-9


@pytest.mark.claim("20.03")
@pytest.mark.parametrize("power", [2.0, np.inf])
def test_equal_to_enumeration_for_other_combinations(power: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(150):
        need, menus, _, lines = random_instance(rng, 4)
        sigma, unit, room = (np.array([s[k] for s in lines]) for k in range(3))
        best = np.inf
        for combo in itertools.product(*([(0.0, 0.0), *menu] for menu in menus)):
            got = sum(g for _, g in combo)
            paid = np.array([p for p, _ in combo])
            if got >= need:
                rest = 0.0
            else:
                rest = float(
                    fill_lines(np.array([need - got]), sigma, unit, room[None], power)[0][0]
                )
            both = np.sqrt((paid**2).sum() + rest**2) if power == 2 else max(paid.max(), rest)
            best = min(best, float(both))
        if power == 2:
            assert solved(need, menus, [], lines, 2)[0] == pytest.approx(best, rel=1e-9)
        else:
            r = least_price_max(problem_of(menus, [], lines, 1), need).high
            assert r == pytest.approx(best, rel=1e-9)


def test_lines_without_bounds_are_the_norm_ball() -> None:
    rng = np.random.default_rng(2)
    w, u = rng.uniform(0.1, 2, 5), rng.uniform(0.1, 2, 5)
    need, room = np.array([0.7, 3.0]), np.full((2, 5), np.inf)
    for power, dual in ((1, (w / u).max()), (2, np.linalg.norm(w / u)), (np.inf, (w / u).sum())):
        price, amount = fill_lines(need, w, u, room, power)
        assert price == pytest.approx(need / dual)
        assert amount @ w == pytest.approx(need)


def test_long_stairs_are_solved_exactly() -> None:
    # 20,000 steps of two columns and one option: checked by scanning one of them
    a, b, c, d, need = 0.0011, 0.0013, 0.0017, 0.0019, 7.77
    price, _, got = solved(need, [[(0.5, 0.4)]], [(a, b, 20_000), (c, d, 20_000)], [], 1)
    best = np.inf
    for extra, paid in ((0.0, 0.0), (0.4, 0.5)):
        m = np.arange(20_001)
        k = np.maximum(0, np.ceil((need - extra - m * d) / b))
        best = min(best, float((paid + m * c + k * a)[k <= 20_000].min()))
    assert price == pytest.approx(best, abs=1e-12)
    assert got >= need


@pytest.mark.claim("20.19")
@pytest.mark.parametrize("power", [1, 2, np.inf])
def test_the_most_gain_equals_enumeration(power: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(150):
        _, menus, stairs, lines = random_instance(rng, 4)
        stairs = [] if np.isinf(power) else [(a, b, m % 4) for a, b, m in stairs]
        budget = float(rng.uniform(0.1, 4))
        problem = problem_of(menus, stairs, lines, 1 if np.isinf(power) else int(power))
        rooms = [[(0.0, 0.0), *menu] for menu in menus]
        rooms += [[(a * m, b * m) for m in range(top + 1)] for a, b, top in stairs]
        best = 0.0
        for combo in itertools.product(*rooms):
            paid = np.array([p for p, _ in combo])
            total = paid.max() if np.isinf(power) else (paid**power).sum()
            if total > (budget if np.isinf(power) else budget**power):
                continue
            rest = budget if np.isinf(power) else (budget**power - total) ** (1 / power)
            amount = fill_budget(
                rest, problem.line_gain, problem.line_price, problem.line_room[None], power
            )
            best = max(best, sum(g for _, g in combo) + float(amount[0] @ problem.line_gain))
        if np.isinf(power):
            found = most_gain_max(problem, budget)
        else:
            found = most_gain(problem, budget**power, MOST_STATES)
        assert found.low == found.high == pytest.approx(best, rel=1e-9)
        paid_, got = value_of(problem, found.choice, found.amount)
        assert got == pytest.approx(best, rel=1e-9)
        assert np.isinf(power) or paid_ <= budget**power * (1 + 1e-9)


@pytest.mark.parametrize("power", [1, 2])
def test_lines_bought_with_a_budget_cost_it(power: int) -> None:
    rng = np.random.default_rng(4)
    gain, price = rng.uniform(0.1, 2, 4), rng.uniform(0.1, 2, 4)
    room = rng.uniform(0.1, 1, (20, 4))
    amount = fill_budget(0.8, gain, price, room, power)
    got = amount @ gain
    back, _ = fill_lines(got, gain, price, room, power)
    spent = ((amount * price) ** power).sum(axis=1) ** (1 / power)
    assert back == pytest.approx(spent)  # nothing cheaper gains as much
    assert (np.isclose(spent, 0.8) | np.isclose(amount, room).all(axis=1)).all()
