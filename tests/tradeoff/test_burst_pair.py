"""The burst pair: exact minimax, needed budget, every learner pays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.tradeoff import CusumOracle, LossStream, bounds, instances, play, required_budget
from counterplay.tradeoff.lab import burst_pair_phases, minimax
from counterplay.tradeoff.learner import BicriteriaLearner


@pytest.mark.claim("09.04")
def test_brute_force_linear_program_and_budget_agree() -> None:
    game = instances.burst_pair(10_000, 0.5)
    m = game.meta["m"]
    assert m == 100
    loud = np.arange(2 * m + 1)  # rounds spent on the bursting expert
    l1 = 0.75 * game.T - loud / 2
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
    learner = learners(game.T, 2, 10, CusumOracle(0.0, budget))[learner_name]
    run = play(learner, LossStream(game.l1, game.l2, c=game.c, replicates=0), fast=True)
    worst = max(run.primary_regret(clip=False), run.secondary_regret(clip=False))
    assert worst >= bounds.burst_pair_minimax(game.meta["m"]) - 1


def test_bursts_must_fit() -> None:
    with pytest.raises(InvalidInputError, match="m="):
        instances.burst_pair(100, 1.0)
