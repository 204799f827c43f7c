"""The knapsack of one person against a generic solver and against enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from counterplay.strategic.knapsack import MOST_STATES, fill_lines, solve, solve_max

Menu = list[tuple[float, float]]


def solved(
    need: float, menus: list[Menu], stairs: list[Any], lines: list[Any], power: int
) -> tuple[float, float, float]:
    """Return the price, and price and gain of the returned choice."""
    start = np.cumsum([0, *map(len, menus)]).astype(np.int64)
    price = np.array([p for m in menus for p, _ in m])
    gain = np.array([g for m in menus for _, g in m])
    a, b, top = (np.array([s[k] for s in stairs]) for k in range(3))
    sigma, unit, room = (np.array([s[k] for s in lines]) for k in range(3))
    choice = np.zeros(len(menus) + len(stairs), dtype=np.int64)
    amount = np.zeros(len(lines))
    low, high = solve(
        need, start, price**power, gain, a, b, top.astype(np.int64), sigma, unit, room, power,
        np.inf, MOST_STATES, choice, amount,
    )  # fmt: skip
    assert low == high
    picked = choice[: len(menus)]
    picked = picked[picked >= 0]
    count = choice[len(menus) :]
    paid = (price[picked] ** power).sum() + ((a * count) ** power).sum()
    paid += ((unit * amount) ** power).sum()
    got = gain[picked].sum() + (b * count).sum() + (sigma * amount).sum()
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
    rows, low, high = [gain], [need], [np.inf]
    at = 0
    for menu in menus:
        row = np.zeros(len(price))
        row[at : at + len(menu)] = 1
        at += len(menu)
        rows, low, high = [*rows, row], [*low, -np.inf], [*high, 1]  # type: ignore[list-item]
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
    one = np.ones(1)
    r, choice, amount = solve_max(1.3, np.array([0, 1]), one, one, 0.8 * one, one, 0.5 * one)
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
            start = np.cumsum([0, *map(len, menus)]).astype(np.int64)
            flat = np.array([pair for menu in menus for pair in menu])
            r, _, _ = solve_max(need, start, flat[:, 0], flat[:, 1], sigma, unit, room)
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
