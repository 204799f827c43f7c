"""Losses of a population, and local steps on them."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.defection import (
    FedAvg,
    FederationGame,
    LinearModelProblem,
    LocalWork,
    Server,
    play,
)
from counterplay.defection.lab import population_loss
from defection.problems import setting


@pytest.mark.claim("05.17")
def test_local_steps_follow_each_agent_on_its_own_path() -> None:
    c, _ = setting(3)
    work = LocalWork(steps=(1, 3, 2, 5, 4)[: c.problem.n_agents])
    run = play(
        Server(FedAvg(), c.w0, step_size=0.4),
        FederationGame(c.problem, 0.0, local_work=work),
        rounds=1,
        random_state=0,
    )
    ends = []
    for m, K in enumerate(work.counts(np.arange(c.problem.n_agents))):
        w = np.array(c.w0)
        for _ in range(K):
            w = w - 0.4 / K * c.problem.gradients(w, np.array([m]))[0]
        ends.append(w)
    assert run.w == pytest.approx(np.mean(ends, axis=0), abs=1e-12)


@pytest.mark.claim("05.25")
def test_population_gap_shrinks_with_the_square_root() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3, 6))
    population = LinearModelProblem(rows, w_star=np.zeros(6), tau=1.0)
    w = rng.normal(size=6)
    truth, _ = population_loss(population, w)
    losses = population.losses(w)
    sd = float(losses.std())
    for M in (4, 16, 64, 256):
        draws = losses[rng.integers(200, size=(4000, M))].mean(axis=1)
        rms = float(np.sqrt(((draws - truth) ** 2).mean()))
        # the relative error of a root mean square of 4000 draws is about 1/sqrt(8000) = 1.1 %
        assert rms * np.sqrt(M) == pytest.approx(sd, rel=0.06)
        covered = 0
        for _ in range(400):
            mean, error = population_loss(population, w, rng.integers(200, size=M))
            covered += abs(mean - truth) <= 3 * error
        assert covered >= (330 if M == 4 else 385)
