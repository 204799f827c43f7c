"""Multiplicative weights."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.contribution import envy_report, equal_allocation, instances, stability_report
from counterplay.contribution.lab import (
    is_feasible,
    multiplicative_weights_lp,
    mw_game_allocation,
    optimal_stable_linear,
    socially_optimal_linear,
)
from counterplay.core.stats import mean_interval


@pytest.mark.claim("04.33")
def test_multiplicative_weights_leave_less_to_withdraw() -> None:
    shares = []
    for seed in range(20):
        game = instances.random_linear_game(20, 30, 0.3, seed)
        plans = [mw_game_allocation(game, c, 0.001) for c in (1.0, 1.1, 4.0)]
        for plan in plans:
            assert is_feasible(game, plan.theta)
        assert plans[0].total == pytest.approx(equal_allocation(game).total, abs=0.021)
        shares.append([stability_report(game, p.theta).withdrawable_share for p in plans])
    equal, mild, strong = np.array(shares).T
    assert mean_interval(equal - mild).low > 0
    assert mean_interval(mild - strong).low > 0


@pytest.mark.claim("04.33")
def test_flower_under_multiplicative_weights() -> None:
    game = instances.flower(10).linear()
    equal = equal_allocation(game)
    plan = mw_game_allocation(game, 4.0, 0.001)
    assert equal.total == pytest.approx(50.5)
    assert equal.best_response_gap == pytest.approx(0.5)
    assert plan.total == pytest.approx(52.3, abs=0.5)
    assert plan.best_response_gap < 0.15
    assert envy_report(game, equal.theta).is_envy_free


@pytest.mark.claim("04.39")
@pytest.mark.parametrize("eps", [0.3, 0.1, 0.05])
def test_multiplicative_weights_solve_the_covering_program(eps: float) -> None:
    for seed in range(4):
        game = instances.random_linear_game(8, 12, 0.4, seed)
        opt = socially_optimal_linear(game).total
        plan = multiplicative_weights_lp(game, eps=eps)
        assert is_feasible(game, plan.theta)
        assert opt - 1e-9 <= plan.total <= (1 + eps) * opt
        assert plan.certificate["lower_bound"] <= opt + 1e-9
        assert plan.total <= (1 + eps) * plan.certificate["lower_bound"] * (1 + eps)
    assert optimal_stable_linear(game).total >= opt - 1e-9
