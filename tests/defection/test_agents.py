"""Agents leave when their behaviour says so, and it pays."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.defection import (
    ADAGD,
    FedAvg,
    FederationGame,
    RationalAgent,
    SafeStep,
    Server,
    play,
)
from counterplay.defection.lab import (
    BetaUser,
    GroupPredictor,
    IrrationalAgent,
    MisreportingAgent,
    UnderconfidentAgent,
    UtilityAgent,
    stopping_utilities,
)
from defection.problems import linear_losses, setting


@pytest.mark.claim("05.26")
def test_leaving_when_first_satisfied_is_optimal_while_it_pays() -> None:
    V, C, checked = 1.0, 0.001, 0
    for seed in range(12):
        c, _ = setting(seed)
        stay = [RationalAgent(float(e), behaviour=IrrationalAgent()) for e in c.eps]
        run = play(
            Server(FedAvg(), c.w0, step_size=0.3), FederationGame(c.problem, stay), rounds=999
        )
        for m, eps in enumerate(c.eps):
            payoff = stopping_utilities(run.losses[:, m], float(eps), V, C)
            satisfied = np.flatnonzero(run.losses[:, m] <= eps)
            if not len(satisfied):
                continue
            first = int(satisfied[0])
            assert C * first < V
            assert payoff[first] >= payoff.max()
            assert payoff[first] > np.delete(payoff, first).max()
            checked += 1
    assert checked >= 25


@pytest.mark.claim("05.26")
def test_beyond_value_over_cost_leaving_at_once_is_better() -> None:
    payoff = stopping_utilities(np.array([1.0] * 12 + [0.0]), 0.1, V=1.0, C=0.1)
    assert payoff[12] < payoff[0]
    problem = linear_losses()
    agents = [RationalAgent(1.0, behaviour=UtilityAgent(1.0, 0.1, gives_up=True))] * 3
    run = play(
        Server(FedAvg(), np.ones(4), step_size=1e-6), FederationGame(problem, agents), rounds=50
    )
    assert run.defect_round.tolist() == [12, 12, 12]


def test_behaviours_leave_when_they_say() -> None:
    c, _ = setting(4)
    M = c.problem.n_agents
    base = play(
        Server(FedAvg(), c.w0, step_size=0.2), FederationGame(c.problem, 0.0), rounds=600
    ).losses

    def first_departure(agent: RationalAgent) -> int:
        others = [RationalAgent(0.0)] * (M - 1)
        run = play(
            Server(FedAvg(), c.w0, step_size=0.2),
            FederationGame(c.problem, [agent, *others]),
            rounds=600,
        )
        return int(run.defect_round[0])

    loss = base[:, 0]
    assert first_departure(RationalAgent(0.1)) == int(np.argmax(loss <= 0.1)) + 1
    doubtful = RationalAgent(0.1, n_samples=400, behaviour=UnderconfidentAgent(1.0))
    assert first_departure(doubtful) == int(np.argmax(loss + 0.05 <= 0.1)) + 1
    tester = RationalAgent(0.1, behaviour=BetaUser(7))
    published = np.arange(0, 601, 7)
    assert first_departure(tester) == int(published[np.argmax(loss[published] <= 0.1)]) + 1
    assert first_departure(RationalAgent(0.1, behaviour=IrrationalAgent())) == -1
    assert first_departure(
        RationalAgent(0.1, behaviour=MisreportingAgent(0.01))
    ) == first_departure(RationalAgent(0.1))


def test_a_lie_makes_the_liar_leave_and_the_truth_keeps_it() -> None:
    c, delta = setting(0)
    liars = [RationalAgent(float(e)) for e in c.eps]
    liars[0] = RationalAgent(1.5 * float(c.eps[0]) + 2 * delta, behaviour=MisreportingAgent(0.01))
    for rule in (ADAGD(delta), SafeStep(delta)):
        lied = play(
            Server(rule, c.w0, step_size=delta), FederationGame(c.problem, liars), rounds=5000
        )
        assert lied.defect_round[0] > 0
        honest = [RationalAgent(liars[0].eps_true), *liars[1:]]
        kept = play(
            Server(rule, c.w0, step_size=delta), FederationGame(c.problem, honest), rounds=5000
        )
        assert kept.n_defections == 0


def test_group_predictor_protects_the_rest_of_a_group() -> None:
    c, delta = setting(5)
    M = c.problem.n_agents
    eps = np.array(c.eps)
    eps[0] = float(c.problem.losses(c.w0)[0])  # leaves at once
    groups = GroupPredictor(["a", "a"] + ["b"] * (M - 2))
    seen = []
    play(
        Server(ADAGD(delta), c.w0, step_size=delta, watch=[lambda event: seen.append(event)]),
        FederationGame(c.problem, eps, groups=groups),
        rounds=5,
    )
    for event in seen:
        position = event.reports.ids.tolist().index(1)
        assert event.decision.predicted[position]
        gradient = event.reports.gradients.array[position]
        assert abs(gradient @ event.decision.step) <= 1e-12
