"""Cheapest and cheapest envy-free coverage plans."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from counterplay.contribution import (
    CoverageGame,
    TabularGame,
    envy_report,
    instances,
    plan_contributions,
    stability_report,
)
from counterplay.contribution import coverage_optimum as whole
from counterplay.contribution.coverage_optimum import cheaper_envy_free_plan
from counterplay.contribution.lab import (
    coverage_opt_integer,
    coverage_opt_real,
    coverage_opt_relaxation,
    is_feasible,
    optimal_stable_coverage,
)
from counterplay.errors import ConvergenceError, InvalidInputError


@pytest.mark.claim("04.22")
def test_relaxation_rounding_and_branch_and_bound() -> None:
    rng = np.random.default_rng(5)
    for seed in range(12):
        k = 2 + seed % 2
        game = instances.random_coverage_game(k, 5, seed, integral=True, mu=(0.6, 0.8))
        relaxed = coverage_opt_relaxation(game)
        assert is_feasible(game, np.ceil(relaxed.theta - 1e-9))
        best = coverage_opt_integer(game)
        top = int(best.total)
        table = TabularGame.from_game(game, [np.arange(top + 1)] * k)
        exact = table.cheapest(table.feasible)
        assert exact is not None
        assert best.total == exact.sum()
        assert best.certificate["proved"]
        assert best.total >= relaxed.lower_bound - 1e-9
        real = CoverageGame(game.Q, game.mu, game.multiplicity)
        theta = rng.random((200, k)) * 6
        exponent = real.with_extension("exponent")
        assert (exponent.utilities(theta) >= real.utilities(theta) - 1e-14).all()
        whole = np.floor(theta)
        assert exponent.utilities(whole) == pytest.approx(real.utilities(whole), abs=1e-14)


def test_data_that_costs_nothing_is_taken_in_finite_amounts() -> None:
    """Party 1 is free; nothing in the relaxation limits what it brings."""
    game = CoverageGame(
        [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]], [0.8, 0.75], integral=True, cost=[2.0, 0.0]
    )
    plan = plan_contributions(game)
    table = TabularGame.from_game(game, [np.arange(12)] * 2)
    exact = table.cheapest(table.feasible)
    assert exact is not None
    assert plan.optimal.total == game.total(exact)
    assert plan.optimal.theta.max() < 50
    assert is_feasible(game, plan.optimal.theta)
    with pytest.raises(InvalidInputError, match="cost is 0 for everybody"):
        CoverageGame([[0.5, 0.5]], 0.75, cost=0.0)


def test_real_optimum_lies_between_bound_and_whole_numbers() -> None:
    for seed in range(4):
        game = instances.random_coverage_game(3, 6, seed)
        plan = coverage_opt_real(game)
        assert is_feasible(game, plan.theta)
        assert plan.certificate["lower_bound"] <= plan.total + 1e-9
        assert plan.total <= coverage_opt_integer(game).total + 1e-9
        stable = optimal_stable_coverage(game)
        assert stability_report(game, stable.theta).is_feasible
        assert stable.best_response_gap <= 1e-7
        assert stable.total >= plan.certificate["lower_bound"] - 1e-9
        assert stable.certificate["dearest_found"] >= stable.total - 1e-12


def test_caps_in_branch_and_bound() -> None:
    game = instances.random_coverage_game(3, 6, 1, integral=True)
    free = coverage_opt_integer(game)
    busiest = int(np.argmax(free.theta))
    cap = game.standalone() * 3
    cap[busiest] = free.theta[busiest] - 1
    capped = coverage_opt_integer(game.with_upper(cap))
    assert capped.theta[busiest] <= cap[busiest]
    assert capped.total >= free.total


def reaches(game: CoverageGame, i: int, plan: tuple[int, ...]) -> bool:
    """``u_i = 1 - 1/2 sum_x q_ix prod_j (1 - q_jx)^m_j`` against the target."""
    missed = np.prod([(1 - q) ** m for q, m in zip(game.Q, plan)], axis=0)
    return bool(1 - 0.5 * (game.multiplicity * game.Q[i]) @ missed >= game.mu[i] - 1e-12)


def by_hand(game: CoverageGame, top: int) -> tuple[float, float, float, float]:
    """Totals up to level ``top``: cheapest, cheapest and dearest stable, cheapest envy-free."""
    k, caps = game.k, [top] * game.k if game.upper is None else game.upper
    cheapest, stable, fair = [], [], []
    for plan in product(range(top + 1), repeat=k):
        if any(m > c for m, c in zip(plan, caps)):
            continue
        if not all(reaches(game, i, plan) for i in range(k)):
            continue
        total = float(game.cost @ plan)
        cheapest.append(total)
        lower = ((i, (*plan[:i], m, *plan[i + 1 :])) for i in range(k) for m in range(plan[i]))
        if not any(reaches(game, i, other) for i, other in lower):
            stable.append(total)
        envy = False
        for i, j in product(range(k), repeat=2):
            if plan[j] < plan[i] <= caps[j]:
                other = list(plan)
                other[i], other[j] = plan[j], plan[i]
                envy = envy or reaches(game, i, tuple(other))
        if not envy:
            fair.append(total)
    nothing = float("nan")
    ends = min(stable, default=nothing), max(stable, default=nothing)
    return min(cheapest), *ends, min(fair, default=nothing)


TWO_STABLE = CoverageGame([[0, 1], [0.373, 0.627]], mu=[0.639, 0.79], integral=True)


def test_price_of_anarchy_looks_at_the_dearest_stable_plan() -> None:
    cheapest, low, high, _ = by_hand(TWO_STABLE, 6)
    plan = plan_contributions(TWO_STABLE)
    assert high == 2 * low
    assert plan.price_of_anarchy == high / cheapest
    assert plan.price_of_stability == low / cheapest
    assert plan.is_proved("stable")


FIVE_POINTS = CoverageGame(
    [[0.19, 0.25, 0, 0.56, 0], [0.108, 0, 0.274, 0.246, 0.372]], mu=[0.679, 0.7075], integral=True
)


def test_the_envy_free_plan_of_a_small_game_is_the_cheapest() -> None:
    assert (
        by_hand(FIVE_POINTS, 6)[3] == 3.0
    )  # for example nothing from party 0, three samples from party 1
    plan = plan_contributions(FIVE_POINTS)
    assert plan.envy_free is not None
    assert plan.envy_free.total == 3.0
    assert plan.is_proved("envy_free")
    assert "best found" not in plan.summary()


def random_game(seed: int) -> tuple[CoverageGame, int]:
    """A game of two or three parties, and a level that no cheapest plan exceeds."""
    rng = np.random.default_rng(seed)
    k = 2 + seed % 2
    Q = rng.dirichlet(np.full(4, 0.6), size=k) * (rng.random((k, 4)) < 0.8)
    Q[:, 0] += 1e-3
    Q /= Q.sum(axis=1, keepdims=True)
    mu = rng.uniform(0.6, 0.75, k)
    cost = np.ones(k) if seed % 3 else rng.integers(1, 4, k)
    game = CoverageGame(Q, mu, integral=True, cost=cost)
    level = next(t for t in range(50) if all(reaches(game, i, (t,) * k) for i in range(k)))
    top = int(max(level * cost.sum() // cost.min(), game.standalone().max()))
    return game, top


@pytest.mark.parametrize("seed", range(40))
def test_prices_equal_a_search_of_all_plans(seed: int) -> None:
    game, top = random_game(seed)
    cheapest, low, high, fair = by_hand(game, top)
    plan = plan_contributions(game)
    assert plan.optimal.total == cheapest
    assert plan.price_of_stability == pytest.approx(low / cheapest)
    assert plan.price_of_anarchy == pytest.approx(high / cheapest)
    assert plan.price_of_fairness == pytest.approx(fair / cheapest)
    assert plan.is_proved("stable")
    assert plan.is_proved("envy_free")


@pytest.mark.parametrize("caps", [[1, 3], [2, 1], [3, 2]])
def test_caps_limit_the_plans_and_the_swaps(caps: list[int]) -> None:
    game = FIVE_POINTS.with_upper(caps)
    plan, fair = plan_contributions(game), by_hand(game, 3)[3]
    assert plan.price_of_fairness * plan.optimal.total == pytest.approx(fair, nan_ok=True)


F6_REAL = CoverageGame(
    [[0.68, 0.32, 0], [0, 1, 0], [0.043, 0.589, 0.368]], mu=[0.7271, 0.6885, 0.6403]
)


def test_fractions_are_called_best_found() -> None:
    other = (0.6793, 0.2774, 0.0168)
    assert envy_report(F6_REAL, other).is_envy_free
    plan = plan_contributions(F6_REAL)
    assert plan.envy_free is not None
    assert plan.envy_free.total <= sum(other)
    assert not plan.is_proved("envy_free")
    assert not plan.is_proved("optimal")
    said = {line[:11].strip(): line for line in plan.summary().splitlines()}
    assert "best found, nothing below" in said["cheapest pl"]
    assert "infimum, within 1%" in said["envy-free p"]
    assert plan.is_proved("stable")  # boxes enclose every equilibrium
    assert "best found" not in said["stable plan"]


def test_too_many_plans_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "MAX_PLANS", 3)
    with pytest.raises(ConvergenceError, match="more than 3 plans"):
        cheaper_envy_free_plan(FIVE_POINTS, lower=3, known=4)
    plan = plan_contributions(FIVE_POINTS)
    assert not plan.is_proved("envy_free")
    assert "best found" in plan.summary()
    free = CoverageGame(
        FIVE_POINTS.Q, FIVE_POINTS.mu, FIVE_POINTS.multiplicity, True, cost=[1.0, 0.0]
    )
    with pytest.raises(ConvergenceError):  # a price of zero: no end of plans with this total
        cheaper_envy_free_plan(free, lower=0, known=2)
