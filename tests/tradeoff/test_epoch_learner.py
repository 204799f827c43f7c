"""Limited switching over epochs: shape of the play, bounds, invisible laziness."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.core.online import FollowLazyLeader, Hedge, ShrinkingDartboard
from counterplay.core.online.shrinking_dartboard import dartboard_rate
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.tradeoff import EpochLearner, LazyHedge, LossStream, bounds, instances, play
from counterplay.tradeoff.lab import EpochGrid, anytime


@pytest.mark.claim("09.10")
@pytest.mark.parametrize(
    ("T", "arguments", "B"),
    [
        (1000, {"alpha": 0.5}, 32),  # neither T**alpha is an integer nor T a multiple of B
        (1000, {"alpha": 0.0}, 1),
        (1000, {"B": 1}, 1),
        (1000, {"B": 1000}, 1000),
        (999, {"B": 1000 // 7}, 142),
        (1000, {"B": "balanced", "threshold": 40.4}, 40),
        (1000, {"B": "balanced", "threshold": 0.2}, 1),
    ],
)
def test_constant_within_epochs_and_regret_bounded(
    T: int, arguments: dict[str, object], B: int
) -> None:
    l1 = np.random.default_rng(0).random((T, 4))
    learner = EpochLearner(T, 4, random_state=3, **arguments)  # type: ignore[arg-type]  # mixed
    assert learner.grid == EpochGrid(T, B)
    assert math.ceil(T / B) == learner.grid.E
    run = play(learner, LossStream(l1, l1, c=0.5, replicates=20), fast=True)
    for start in learner.grid.starts:
        assert (run.paths[:, start : start + B] == run.paths[:, [start]]).all()
    assert run.primary_regret(clip=False) <= bounds.epoch_primary(T, 4, B)
    assert run.expected_switches <= bounds.dartboard_switches(learner.grid.E, 4)


@pytest.mark.claim("09.10")
def test_epoch_losses_are_divided_by_the_full_length() -> None:
    """The last, short epoch weighs what it is: the scalar regret times B is the true regret."""
    rng = np.random.default_rng(1)
    T, B, K = 103, 10, 3
    l1 = rng.random((T, K))
    learner = EpochLearner(T, K, B=B)
    run = play(learner, LossStream(l1, l1, c=0.5), fast=True)
    averages = np.add.reduceat(l1, np.arange(0, T, B), axis=0) / B
    P = ShrinkingDartboard().marginals(averages)
    assert run.primary.sum() == pytest.approx(B * (P * averages).sum())
    assert np.allclose(run.P, np.repeat(P, B, axis=0)[:T], atol=1e-15)


def test_worked_example() -> None:
    learner = EpochLearner(10_000, 10, 0.5, threshold=100.0)
    assert (learner.grid.B, learner.grid.E) == (100, 100)
    assert dartboard_rate(10, 100) == pytest.approx(0.15174, abs=5e-6)
    promised = learner.guarantees()
    assert promised["primary regret"] == pytest.approx(3034.9, abs=0.05)
    assert promised["secondary regret"] == pytest.approx(3134.9, abs=0.05)


def test_balanced_epochs_beat_the_thesis_by_sqrt_delta() -> None:
    T, K, alpha, delta = 2**16, 10, 0.5, 0.04
    budget = delta * T**alpha
    balanced = bounds.balanced_epochs(T, K, budget)
    thesis = bounds.epoch_primary(T, K, round(T**alpha))
    assert balanced / thesis == pytest.approx(math.sqrt(delta), rel=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_secondary_bound_holds_on_random_bounded_losses(seed: int) -> None:
    game = instances.random_bounded(2000, 5, c=0.3, threshold=12.0, random_state=seed)
    for learner in (
        EpochLearner(2000, 5, B="balanced", threshold=12.0),
        EpochLearner(2000, 5, B=45, threshold=12.0),
        LazyHedge(2000, 5, threshold=12.0),
    ):
        run = play(learner, LossStream(game.l1, game.l2, c=game.c, replicates=0), fast=True)
        promised = learner.guarantees()
        assert run.primary_regret(clip=False) <= promised["primary regret"]
        assert run.secondary_regret(clip=False) <= promised["secondary regret"]
        stints = 12.0 * (run.expected_switches + 1)
        assert run.secondary_regret(clip=False) <= stints + 1e-9


def test_lazy_hedge_is_the_dartboard_on_single_rounds() -> None:
    l1 = np.random.default_rng(0).random((500, 4))
    learner = LazyHedge(500, 4, threshold=9.0)
    rate = math.sqrt(math.log(4) / (9.0 * 500))
    assert learner.learner.eta == pytest.approx(rate)
    expected = ShrinkingDartboard(rate).marginals(l1)
    assert np.allclose(learner.plan(l1).marginals, expected, atol=1e-15)
    assert learner.guarantees()["primary regret"] == pytest.approx(
        bounds.lazy_hedge_primary(500, 4, 9.0)
    )
    assert learner.guarantees()["secondary regret"] == pytest.approx(
        bounds.lazy_hedge_secondary(500, 4, 9.0)
    )
    assert LazyHedge(500, 4, eta=0.1).learner.eta == 0.1


@pytest.mark.claim("09.15")
def test_laziness_is_invisible_to_fixed_losses() -> None:
    game = instances.random_bounded(2048, 6, c=0.4, threshold=20.0, random_state=0)
    E = EpochGrid.from_rule(2048, "thesis", alpha=0.5).E
    step = -math.log1p(-dartboard_rate(6, E))
    lazy = play(
        EpochLearner(2048, 6, 0.5), LossStream(game.l1, game.l2, c=game.c, replicates=0), fast=True
    )
    restless = play(
        EpochLearner(2048, 6, 0.5, learner=Hedge(step)),
        LossStream(game.l1, game.l2, c=game.c, replicates=0),
        fast=True,
    )
    assert abs(lazy.primary_regret(clip=False) - restless.primary_regret(clip=False)) < 1e-10
    assert abs(lazy.secondary_regret(clip=False) - restless.secondary_regret(clip=False)) < 1e-10
    assert restless.expected_switches > 5 * lazy.expected_switches


def test_shorter_streams_than_planned_are_prefixes() -> None:
    l1 = np.random.default_rng(0).random((300, 3))
    learner = EpochLearner(1000, 3, B=10, random_state=0)
    long = np.vstack([l1, np.zeros((700, 3))])
    assert np.array_equal(
        play(learner, LossStream(l1, l1, c=0.5), fast=True).P,
        play(learner, LossStream(long, long, c=0.5), fast=True).P[:300],
    )


def test_anytime_learners() -> None:
    assert repr(anytime("doubling", FollowLazyLeader())) == "Doubling(base=FollowLazyLeader())"
    with pytest.raises(InvalidInputError, match="leave base out"):
        anytime("decreasing", ShrinkingDartboard())
    with pytest.raises(InvalidInputError, match="kind"):
        anytime("never")  # type: ignore[arg-type]  # deliberately wrong


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="needs alpha"):
        EpochLearner(100, 3)
    with pytest.raises(InvalidInputError, match="needs threshold"):
        EpochLearner(100, 3, B="balanced")
    with pytest.raises(InvalidInputError, match="between 1 and 100 rounds"):
        EpochLearner(100, 3, B=101)
    with pytest.raises(InvalidInputError, match="between 1 and 100 rounds"):
        EpochLearner(100, 3, B=0)
    with pytest.raises(InvalidInputError, match="threshold"):
        LazyHedge(100, 3)
    with pytest.raises(InvalidInputError, match="learner must be a ScalarLearner"):
        EpochLearner(100, 3, B=1, learner="sd")  # type: ignore[arg-type]  # deliberately wrong
    with pytest.raises(InvalidInputError, match="does not know inactive experts"):
        EpochLearner(100, 3, B=1).act([True, False, True])
    with pytest.warns(AssumptionWarning, match="alpha = 1"):
        EpochLearner(100, 3, alpha=1.0)
