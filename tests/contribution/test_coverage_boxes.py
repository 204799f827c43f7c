"""Small coverage games: what is enumerated or enclosed instead of best found."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.contribution import (
    CoverageGame,
    TabularGame,
    best_response_dynamics,
    envy_report,
    plan_contributions,
)
from counterplay.contribution.lab import envy_free_infimum, equilibrium_boxes
from counterplay.errors import InvalidInputError

WORKED = [[0.68, 0.32, 0], [0, 1, 0], [0.043, 0.589, 0.368]]
WORKED_MU = [0.7271, 0.6885, 0.6403]


def real_game(seed: int, k: int) -> CoverageGame:
    rng = np.random.default_rng(seed)
    return CoverageGame(rng.dirichlet(np.full(4, 0.6), k), rng.uniform(0.6, 0.8, k))


@pytest.mark.claim("23.12")
def test_anarchy_is_the_dearest_stable_plan() -> None:
    game = CoverageGame([[0, 1], [0.373, 0.627]], mu=[0.639, 0.79], integral=True)
    plan = plan_contributions(game)
    assert plan.price_of_anarchy == 2.0
    assert plan.price_of_stability == 1.0
    assert plan.is_proved("stable")


@pytest.mark.claim("23.13")
def test_whole_numbers_are_enumerated() -> None:
    game = CoverageGame(
        [[0.19, 0.25, 0, 0.56, 0], [0.108, 0, 0.274, 0.246, 0.372]],
        mu=[0.679, 0.7075],
        integral=True,
    )
    plan = plan_contributions(game)
    assert plan.envy_free is not None
    assert plan.envy_free.theta.tolist() == [0, 3]
    assert plan.is_proved("envy_free")


@pytest.mark.claim("23.13")
@pytest.mark.parametrize("seed", range(7))
def test_plans_of_889_games_are_those_of_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(127):
        k, n = int(rng.integers(2, 4)), int(rng.integers(2, 5))
        Q, mu = rng.dirichlet(np.full(n, 0.6), k), rng.uniform(0.55, 0.72, k)
        game = CoverageGame(Q, mu, integral=True)
        plan = plan_contributions(game)
        top = plan.equal.total if plan.equal is not None else 20
        table = TabularGame.from_game(game, [np.arange(int(top) + 1)] * k)
        for name, cells in (("envy_free", table.envy_free), ("optimal", table.feasible)):
            best = table.cheapest(cells)
            assert getattr(plan, name).total == game.total(best)
        dearest = table.cheapest(table.stable, sense=-1)
        assert plan.price_of_anarchy == pytest.approx(game.total(dearest) / plan.optimal.total)


@pytest.mark.claim("23.14")
def test_the_infimum_of_the_worked_game() -> None:
    game = CoverageGame(WORKED, mu=WORKED_MU)
    found = envy_free_infimum(game, gap=0.01)
    assert found.closed
    assert 0.958 <= found.lower <= found.best <= 0.969
    assert envy_report(game, found.theta).is_envy_free
    assert "infimum, within 1%" in plan_contributions(game).summary()


@pytest.mark.claim("23.15")
@pytest.mark.parametrize(("seed", "k"), [(seed, k) for k in (2, 3, 4) for seed in range(3)])
def test_random_real_games_close(seed: int, k: int) -> None:
    game = real_game(seed, k)
    found = envy_free_infimum(game, gap=0.02, most_nodes=600, seconds=60.0)
    assert found.closed
    assert envy_report(game, found.theta).is_envy_free
    rng = np.random.default_rng(seed)
    tried = rng.random((400, k)) * (found.best / k) * 2
    cheap = tried[tried.sum(axis=1) < found.lower]
    assert not any(envy_report(game, theta).is_envy_free for theta in cheap)


@pytest.mark.claim("23.33")
@pytest.mark.parametrize("seed", range(8))
def test_every_equilibrium_lies_in_a_box(seed: int) -> None:
    rng = np.random.default_rng(seed)
    game = real_game(seed, int(rng.integers(2, 5)))
    boxes = equilibrium_boxes(game, seconds=60.0)
    assert boxes.closed
    for _ in range(50):
        start = rng.random(game.k) * game.box
        found = best_response_dynamics(game, theta0=start, fallback=True)
        assert boxes.contains(np.asarray(found.theta), slack=1e-5)


def test_boxes_say_what_they_cannot_do() -> None:
    whole = CoverageGame(WORKED, mu=WORKED_MU, integral=True)
    for function in (envy_free_infimum, equilibrium_boxes):
        with pytest.raises(InvalidInputError, match="real contributions"):
            function(whole)
    hard = envy_free_infimum(real_game(3, 4), gap=0.001, most_nodes=5)
    assert not hard.closed
    assert 0 < hard.lower < hard.best


@pytest.mark.parametrize(
    ("Q", "mu", "caps", "cost"),
    [
        ([[0.244, 0.134, 0.622], [0.209, 0.028, 0.763]], [0.636, 0.794], [2.656, 1.405], [1, 2]),
        ([[0.154, 0.712, 0.134], [0.271, 0.593, 0.136]], [0.645, 0.647], [1.515, 0.646], [1, 1]),
    ],
)
def test_a_load_above_the_cap_of_another_cannot_be_exchanged_with_it(
    Q: list[list[float]], mu: list[float], caps: list[float], cost: list[float]
) -> None:
    """A fine grid of plans, judged by the definition, holds none much cheaper than the infimum."""
    game = CoverageGame(Q, mu, upper=caps, cost=cost)
    found = envy_free_infimum(game)
    axes = [np.append(np.arange(0.0, cap, 0.02), cap) for cap in caps]
    plans = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    served = game._utilities(plans) >= game.mu
    swapped = game._utilities(plans[:, ::-1]) >= game.mu
    possible = (plans[:, ::-1] <= game.caps).all(axis=1)
    heavier = np.stack([plans[:, 0] > plans[:, 1], plans[:, 1] > plans[:, 0]], axis=1)
    envy = (heavier & swapped).any(axis=1) & possible
    best = float((plans @ game.cost)[served.all(axis=1) & ~envy].min())
    assert found.closed
    assert found.lower <= best + 1e-9
    assert envy_report(game, found.theta).is_envy_free


@pytest.mark.parametrize(
    ("Q", "mu", "caps"),
    [
        # below these caps nobody can be served by whole numbers of samples
        ([[0.119, 0.517, 0.296, 0.068], [0.011, 0.104, 0.133, 0.752]], [0.71, 0.72], [1.525, 0.51]),
        ([[0.338, 0.483, 0.179], [0.495, 0.149, 0.356]], [0.782, 0.615], [1.158, 2.847]),
        ([[0.23, 0.34, 0.43], [0.018, 0.812, 0.17]], [0.558, 0.751], [2.607, 0.644]),
    ],
)
def test_caps_that_are_no_whole_numbers_leave_the_plans_they_allow(
    Q: list[list[float]], mu: list[float], caps: list[float]
) -> None:
    game = CoverageGame(Q, mu, upper=caps)
    plan = plan_contributions(game)
    axes = [np.append(np.arange(0.0, cap, 0.01), cap) for cap in caps]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    served = (game._utilities(grid) >= game.mu).all(axis=1)
    assert served.any()
    assert plan.bounds["optimal_lower"] - 1e-9 <= plan.optimal.total
    assert plan.optimal.total <= grid[served].sum(axis=1).min() + 1e-6
    for found in plan.plans.values():
        assert (found.theta <= game.caps + 1e-9).all()
        assert (game.utilities(found.theta) >= game.mu - 1e-8).all()
