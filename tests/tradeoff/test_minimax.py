"""The impossibility instance and the burst pair: exact minimax, and what learners do on them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from counterplay.core.online import FollowTheLeader, Hedge
from counterplay.errors import InvalidInputError
from counterplay.tradeoff import (
    CusumOracle,
    EpochLearner,
    LossStream,
    bounds,
    instances,
    play,
    required_budget,
)
from counterplay.tradeoff.lab import (
    Phase,
    ScalarizedLearner,
    burst_pair_phases,
    frontier,
    impossibility_phases,
    minimax,
)
from counterplay.tradeoff.learner import BicriteriaLearner


def worst_of_both(learner: BicriteriaLearner, T: int) -> float:
    """Average over both worlds of the larger of the two expected regrets."""
    values = []
    for world in instances.impossibility_worlds(T):
        run = play(learner, LossStream(world.l1, world.l2, c=world.c, replicates=0), fast=True)
        values.append(max(run.primary_regret(clip=False), run.secondary_regret(clip=False)))
    return float(np.mean(values))


@pytest.mark.claim("09.01")
def test_table_and_totals_are_exact() -> None:
    F = Fraction
    table = {
        ("first", 0): (F(7, 12), F(1, 16)),
        ("first", 1): (F(5, 8), F(0)),
        ("I", 0): (F(3, 4), F(0)),
        ("I", 1): (F(1, 2), F(1, 8)),
        ("II", 0): (F(7, 12), F(1, 16)),
        ("II", 1): (F(5, 8), F(0)),
    }
    rates = {
        ("first", 0): (F(5, 8), F(1, 6)), ("first", 1): (F(5, 8), F(0)),
        ("I", 0): (F(3, 4), F(0)), ("I", 1): (F(3, 4), F(1, 2)),
        ("II", 0): (F(5, 8), F(1, 6)), ("II", 1): (F(5, 8), F(0)),
    }  # fmt: skip
    T = 960
    worlds = dict(zip(("I", "II"), instances.impossibility_worlds(T)))
    for (phase, expert), expected in table.items():
        assert instances.classification_losses(*rates[phase, expert]) == expected
        for name, world in worlds.items():
            if phase in ("first", name):
                row = 0 if phase == "first" else T - 1
                found = (world.l1[row, expert], world.l2[row, expert])
                assert found == pytest.approx(tuple(map(float, expected)), abs=1e-15)
    totals = {
        "I": ([F(2, 3), F(9, 16)], [F(1, 32), F(1, 16)]),
        "II": ([F(7, 12), F(5, 8)], [F(1, 16), F(0)]),
    }
    for name, world in worlds.items():
        for losses, expected in zip((world.l1, world.l2), totals[name]):
            assert np.allclose(losses.sum(axis=0), [float(x * T) for x in expected], atol=1e-9)
        assert world.l2.mean(axis=0).max() == pytest.approx(world.c, abs=1e-12) == 1 / 16


@pytest.mark.claim("09.02")
def test_minimax_is_one_144th_and_one_120th() -> None:
    average = minimax(impossibility_phases(), 1 / 16)
    worst = minimax(impossibility_phases(), 1 / 16, "worst")
    assert average.value == pytest.approx(1 / 144, abs=1e-9)
    assert worst.value == pytest.approx(1 / 120, abs=1e-9)
    assert bounds.impossibility_average(144) == 1.0
    assert bounds.impossibility_worst(120) == 1.0
    for x, y, z, value in ((1 / 2, 5 / 36, 1 / 2, 1 / 144), (3 / 10, 1 / 12, 1 / 2, 1 / 120)):
        one = max(y / 4 - x / 24, (x - 2 * y) / 16)
        two = max((1 - x - z) / 24, (x + z - 1) / 16)
        assert (one + two) / 2 <= 1 / 120 + 1e-12
        assert value <= max(one, two) + 1e-12


@pytest.mark.claim("09.02")
def test_no_shipped_learner_is_below_the_minimax(
    learners: Callable[..., dict[str, BicriteriaLearner]], learner_name: str
) -> None:
    T = 9600
    learner = learners(T, 2, 96, CusumOracle(1 / 16, 100.0))[learner_name]
    assert worst_of_both(learner, T) >= T / 144 - 1e-6


@pytest.mark.claim("09.03")
def test_follow_the_leader_and_hedge() -> None:
    T = 10**5
    leader = worst_of_both(EpochLearner(T, 2, B=1, learner=FollowTheLeader()), T) / T
    assert leader == pytest.approx(1 / 96, rel=2e-3, abs=2 / T)
    hedge = worst_of_both(EpochLearner(T, 2, B=1, learner=Hedge()), T) / T
    assert 0.0095 <= hedge <= 0.0105


def test_fixed_experts_and_scalarised_leader_have_the_stated_values() -> None:
    T = 9600
    for expert, value in ((0, 5 / 96), (1, 1 / 48)):
        worst = []
        for world in instances.impossibility_worlds(T):
            regret = world.l1[:, expert].sum() - world.l1.sum(axis=0).min()
            harm = world.l2[:, expert].sum() - world.c * T
            worst.append(max(regret, harm))
        assert np.mean(worst) / T == pytest.approx(value, abs=1e-9)
    mixed = ScalarizedLearner(T, 2, 1.0, learner=FollowTheLeader())
    assert worst_of_both(mixed, T) / T == pytest.approx(1 / 48, rel=1e-2)


def test_frontier_falls_and_is_reached_by_the_worst_case_optimum() -> None:
    levels = np.linspace(0, 1 / 32, 9)
    curve = frontier(impossibility_phases(), 1 / 16, levels)
    assert (np.diff(curve) <= 1e-12).all()
    at_optimum = frontier(impossibility_phases(), 1 / 16, [1 / 120])[0]
    assert at_optimum == pytest.approx(1 / 120, abs=1e-9)


def test_odd_horizon_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="even"):
        instances.impossibility_worlds(99)


@pytest.mark.claim("09.04")
def test_brute_force_linear_program_and_budget_agree() -> None:
    game = instances.burst_pair(10_000, 0.5)
    m = game.meta["m"]
    assert m == 100
    loud = np.arange(2 * m + 1)  # rounds spent on the bursting expert
    l1 = 0.75 * game.rounds - loud / 2
    regret = np.maximum(l1 - game.l1.sum(axis=0).min(), loud / 4)
    assert regret.min() == pytest.approx(m / 6, abs=1 / 4)
    assert regret[round(2 * m / 3)] == regret.min()
    assert minimax(burst_pair_phases(m), 0.0).value == pytest.approx(m / 6, abs=1e-9)
    assert bounds.burst_pair_minimax(m) == m / 6
    assert required_budget(game.l2, 0.0).tolist() == [m / 4, m / 4]
    assert game.threshold == m / 4


@pytest.mark.claim("09.04")
def test_every_learner_pays(
    learners: Callable[..., dict[str, BicriteriaLearner]], learner_name: str
) -> None:
    game = instances.burst_pair(2000, 0.6, delta=0.25)
    budget = game.meta["m"] / 4  # m is rounded, so this may exceed delta * T**alpha a little
    learner = learners(game.rounds, 2, 10, CusumOracle(0.0, budget))[learner_name]
    run = play(learner, LossStream(game.l1, game.l2, c=game.c, replicates=0), fast=True)
    worst = max(run.primary_regret(clip=False), run.secondary_regret(clip=False))
    assert worst >= bounds.burst_pair_minimax(game.meta["m"]) - 1


def test_bursts_must_fit() -> None:
    with pytest.raises(InvalidInputError, match="m="):
        instances.burst_pair(100, 1.0)


def test_minimax_tables() -> None:
    result = minimax(impossibility_phases(), 1 / 16)
    assert result.to_frame().shape == (3, 2)
    assert "least max(R1, R2): 0.00694" in result.summary()
    with pytest.raises(InvalidInputError, match="same K experts"):
        minimax([(Phase("a", 1.0, (0.1, 0.2), (0.1,)),)], 0.1)
    with pytest.raises(InvalidInputError, match="objective"):
        minimax(impossibility_phases(), 0.1, "best")  # type: ignore[arg-type]  # wrong


def test_minimax_is_never_above_what_a_learner_reaches() -> None:
    T = 4800
    value = minimax(impossibility_phases(), 1 / 16).value * T
    for learner in (
        EpochLearner(T, 2, B=1, learner=FollowTheLeader()),
        ScalarizedLearner(T, 2, 0.3),
    ):
        reached = np.mean(
            [
                max(r.primary_regret(clip=False), r.secondary_regret(clip=False))
                for r in (
                    play(learner, LossStream(w.l1, w.l2, c=w.c, replicates=0), fast=True)
                    for w in instances.impossibility_worlds(T)
                )
            ]
        )
        assert reached >= value - 1e-6
