"""Plans of capped linear games: exact, for effects of either sign."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.contribution import LinearGame, capped, envy_report, plan_contributions
from counterplay.contribution.capped import Capped
from counterplay.contribution.sites.fitting import curve, needed
from counterplay.errors import InfeasibleError, InvalidInputError


def random_game(seed: int) -> Capped:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 6))
    W = rng.uniform(-0.3, 1.2, (k, k))
    np.fill_diagonal(W, 1.0)
    cap = rng.uniform(20, 300, k).round()
    need = rng.uniform(0.2, 1.1, k) * (np.maximum(W, 0) @ cap) * rng.uniform(0.3, 0.9)
    return Capped(W, need, cap, np.ones(k))


@pytest.mark.claim("23.01")
def test_a_curve_is_low_enough_exactly_where_effective_rows_suffice() -> None:
    rng = np.random.default_rng(0)
    wrong_with_zero = 0
    for _ in range(1000):
        k = int(rng.integers(1, 6))
        theta = np.array([rng.uniform(0, 0.4), rng.uniform(0, 0.4), np.log(rng.uniform(3, 500)),
                          rng.uniform(0.15, 2)])  # fmt: skip
        w = rng.uniform(-1, 2, k)
        cap = rng.uniform(10, 500, k)
        n = rng.uniform(0, 1, k) * cap
        E = rng.uniform(0, 1.1) * (theta[0] + theta[1])
        E = theta[0] + theta[1] + 0.01 if rng.random() < 0.2 else E
        error = float(curve(theta, np.array([w @ n]))[0])
        N = float(needed(theta, np.array(E)))
        least = float(np.minimum(w, 0) @ cap)
        N = least if np.isneginf(N) else N
        if abs(error - E) > 1e-9:
            assert (error <= E) == (w @ n >= N - 1e-9)
        wrong_with_zero += theta[0] + theta[1] <= E and (w @ n < 0)
    assert wrong_with_zero > 10  # "at least 0" would have been one constraint too many


@pytest.mark.claim("23.02")
@pytest.mark.parametrize("first", range(0, 300, 25))
def test_stable_exists_exactly_if_nothing_is_asked_against_interest(first: int) -> None:
    feasible = stable = 0
    for seed in range(first, first + 25):
        game = random_game(seed)
        try:
            best = capped.cheapest(game)
        except InfeasibleError:
            continue
        feasible += 1
        plan, least = capped.stable(game), capped.compensated(game)
        assert (plan is not None) == (game.against_interest(least).sum() < 1e-4)
        assert game.slack(least).min() >= -1e-6
        if plan is not None:
            stable += 1
            assert game.against_interest(plan).max() < 1e-6
            assert game.slack(plan).min() >= -1e-6
            dearest = capped.stable(game, -1)
            assert dearest is not None
            assert best.sum() - 1e-6 <= plan.sum() <= dearest.sum() + 1e-6
        n, residual = capped.left_alone(game)
        assert residual < 1e-4
        late = game.slack(n) < -1e-3
        assert (n[late] >= game.cap[late] - 1e-3).all()  # short only who brings all it has
        if game.k == 2:
            axes = [np.linspace(0, c, 40) for c in game.cap]
            grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
            served = (grid @ game.W.T >= game.need).all(axis=1)
            assert best.sum() <= grid[served].sum(axis=1).min(initial=np.inf) + 1e-6
    assert feasible > 12
    assert 0 < stable < feasible


@pytest.mark.claim("23.02")
def test_the_compensated_plan_needs_two_solves() -> None:
    two = Capped(np.array([[1, 3], [0.5, 1.0]]), np.array([3000.3, 1000]),
                 np.array([4000.0, 2000]), np.ones(2))  # fmt: skip
    n = capped.compensated(two)
    assert n == pytest.approx([3000.3, 0], abs=1e-4)
    assert two.against_interest(n) == pytest.approx([0, 0], abs=1e-4)


@pytest.mark.claim("23.03")
def test_no_stable_plan_although_there_is_plenty() -> None:
    game = Capped(np.array([[1, 0.5], [0.5, 1.0]]), np.array([10.0, 30]), np.array([40.0, 20]),
                  np.ones(2))  # fmt: skip
    assert capped.stable(game) is None
    n = capped.compensated(game)
    assert n == pytest.approx([20, 20])
    assert game.against_interest(n) == pytest.approx([20, 0])
    alone, residual = capped.left_alone(game)
    assert residual == pytest.approx(0)
    assert alone == pytest.approx([0, 20])
    assert game.slack(alone)[1] == pytest.approx(-10)
    plan = plan_contributions(LinearGame(game.W, game.need, upper=game.cap))
    assert plan.stable is None
    assert any("at least 20 units" in flag for flag in plan.flags)


@pytest.mark.claim("23.04")
def test_a_swap_that_a_cap_forbids_is_no_envy() -> None:
    W = 0.5 + 0.5 * np.eye(3)
    cap = np.array([140.0, 140, 14])
    found = capped.envy_free(Capped(W, np.full(3, 120.0), cap, np.ones(3)))
    assert found is not None
    assert found.proved
    assert found.n == pytest.approx([106, 106, 14])
    game = LinearGame(W, 120.0, upper=cap)
    plan = plan_contributions(game)
    assert plan.envy_free is not None
    assert plan.envy_free.total == pytest.approx(226, abs=0.1)
    assert envy_report(game, plan.envy_free.theta).is_envy_free


def test_contract_asks_nobody_for_more_than_alone() -> None:
    game = Capped(np.array([[1, 0.5], [0.5, 1.0]]), np.array([10.0, 12]), np.array([40.0, 40]),
                  np.ones(2))  # fmt: skip
    n = capped.contract(game)
    assert n is not None
    assert (n <= game.need + 1e-9).all()
    assert game.slack(n).min() >= -1e-9
    poor = Capped(game.W, np.array([10.0, 30]), np.array([40.0, 20]), np.ones(2))
    assert capped.contract(poor) is None


def test_effects_may_hurt_only_with_caps() -> None:
    W = [[1.0, -0.4], [0.2, 1.0]]
    with pytest.raises(InvalidInputError, match="without caps"):
        LinearGame(W, 5.0, check_scale=False)
    game = LinearGame(W, 5.0, upper=[20.0, 20.0])
    plan = plan_contributions(game)
    assert (game.utilities(plan.optimal.theta) >= 5.0 - 1e-6).all()
    assert plan.stable is not None
    with pytest.raises(InfeasibleError, match="no plan within the caps"):
        plan_contributions(LinearGame([[1.0, -0.9], [-0.9, 1.0]], 5.0, upper=[20.0, 20.0]))


@pytest.mark.claim("23.02")
def test_a_measured_game_that_the_solver_gives_up_on_is_solved_in_other_units() -> None:
    """HiGHS ends with "Solve error" on the first two tries; the constraints are sound."""
    W = np.array(
        [
            [1.0, 0.6530614315463085, -8.026430156733481e-11, 0.2663735401234393,
             0.7843441874726862],
            [0.9087713993841107, 1.0, 0.5157575816542342, 1.1455144141807585, 0.595969037775949],
            [0.6484517336765199, 0.41694961473051467, 1.0, 0.6661277582313585, 0.6045791222032723],
            [0.5726072558499297, 0.6895708544760167, 0.5706594627879834, 1.0, 0.49780627870221367],
            [0.6523476871900094, 1.3365111913435546, 0.8184283880036594, 1.0172208115729822, 1.0],
        ]
    )  # fmt: skip
    need = np.array([85.12713253636245, 61.953276157157184, 14.959803695260314,
                     42.93010642546384, 42.75502912102264])  # fmt: skip
    game = Capped(W, need, np.array([60.0, 700.0, 120.0, 400.0, 250.0]), np.ones(5))
    n = capped.compensated(game)
    assert n == pytest.approx([60.0, 0.0, 0.0, 0.0, 32.03584974260738], abs=1e-5)
    assert game.against_interest(n) == pytest.approx([0, 0, 0, 0, 28.42168184], abs=1e-5)
    assert (game.slack(n) >= -1e-6).all()
