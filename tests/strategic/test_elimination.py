"""Elimination learners: from reports only, and blind."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError, NotRealizableError
from counterplay.strategic import (
    Agents,
    Applicants,
    ApplicantStream,
    LinearClass,
    instances,
    play,
)
from counterplay.strategic.lab import (
    DeltaOnlyElimination,
    FiniteMetricClass,
    SequentialElimination,
    TabulatedClass,
    ThresholdClass,
)


@pytest.mark.claim("02.23")
@pytest.mark.parametrize("choice", ["next", "random", "union"])
@pytest.mark.parametrize("runner", ["play", "simulate"])
def test_reports_only_never_lose_the_target(choice: str, runner: str) -> None:
    for seed in range(8):
        population = instances.ConservativeInstance(12, 0.1, target=seed)
        learner = DeltaOnlyElimination(population.hypotheses, choice=choice, random_state=seed)
        stream = ApplicantStream(population, "report_only", random_state=seed)
        if runner == "play":
            play(learner, stream, rounds=150)
        else:
            play(learner, stream, rounds=1500, fast=True)
        assert seed in learner.version_space


@pytest.mark.claim("02.23")
@pytest.mark.parametrize("choice", ["next", "random", "union"])
@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_reports_only_on_random_linear_rules(choice: str, norm: float) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rules = LinearClass(rng.normal(size=(40, 3)), rng.normal(size=40), norm=norm)
        radius = rng.exponential(0.5, size=400)
        agents = Agents.from_target(rules, rng.normal(size=(400, 3)), radius=radius, target=7)
        learner = DeltaOnlyElimination(rules, choice=choice, random_state=seed)
        game = play(learner, Applicants(agents, "report_only"), fast=True)
        sizes = np.concatenate([[40], game.version_space_sizes])
        assert 7 in learner.version_space
        assert (np.diff(sizes)[game["mistake"]] < 0).all()  # every mistake removes a rule
        assert game.mistakes <= 39


@pytest.mark.claim("02.23")
def test_reports_only_on_random_tables_and_sets() -> None:
    rng = np.random.default_rng(1)
    for _ in range(40):
        size, n = 7, 6
        points = rng.normal(size=(size, 2))
        dist = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
        dist = (dist + dist.T) / 2
        rules = np.unique(rng.random((n, size)) < 0.4, axis=0)
        catalogue = FiniteMetricClass(dist, rules)
        target = int(rng.integers(catalogue.n))
        x = rng.integers(size, size=120)
        ball = Agents.from_target(catalogue, x, radius=rng.random(120) * 2, target=target)
        learner = DeltaOnlyElimination(catalogue, random_state=0)
        play(learner, Applicants(ball, "report_only"))
        assert target in learner.version_space
        sets = rng.random((120, size)) < 0.3
        free = Agents.from_target(catalogue, x, sets=sets, target=target)
        learner = DeltaOnlyElimination(catalogue, manipulation="any", random_state=0)
        play(learner, Applicants(free, "report_only", tie="random", random_state=0))
        assert target in learner.version_space


def test_tabulated_catalogue_plays_the_same_game() -> None:
    rng = np.random.default_rng(2)
    rules = LinearClass(rng.normal(size=(25, 3)), rng.normal(size=25))
    X, radius = rng.normal(size=(300, 3)), rng.exponential(0.5, size=300)
    agents = Agents.from_target(rules, X, radius=radius, target=4)
    table = TabulatedClass(rules, X)
    rows = Agents(X=np.arange(300), y=agents.y, radius=radius)
    for make in (DeltaOnlyElimination, SequentialElimination):
        one = play(make(rules, random_state=0), Applicants(agents, "report_only"))
        two = play(make(table, random_state=0), Applicants(rows, "report_only"))
        assert one.to_frame().equals(two.to_frame())


@pytest.mark.parametrize("order", ["index", "random", [3, 1, 0, 2]])
def test_sequential_order_and_bound(order: object) -> None:
    rules = ThresholdClass([1.0, 2.0, 3.0, 4.0])
    x = np.linspace(0, 5, 200)[:, None]
    agents = Agents.from_target(rules, x, radius=0.0, target=2)
    learner = SequentialElimination(rules, order=order, random_state=0)
    position = learner._order.tolist().index(2)
    game = play(learner, Applicants(agents, "blind"))
    assert game.mistakes <= position
    assert learner.current == 2 or game.mistakes < position
    fast = SequentialElimination(rules, order=order, random_state=0)
    assert play(fast, Applicants(agents, "blind"), fast=True).to_frame().equals(game.to_frame())


def test_sequential_restart_and_stop() -> None:
    rules = ThresholdClass([1.0, 2.0])
    noisy = Agents(X=[[0.0]] * 6, y=[1] * 6, radius=0.0)  # nobody accepts 0, all labels say yes
    with pytest.raises(NotRealizableError, match="round 2"):
        play(SequentialElimination(rules), Applicants(noisy, "blind"))
    again = SequentialElimination(rules, on_empty="restart")
    assert play(again, Applicants(noisy, "blind")).mistakes == 6
    assert again.restarts == 3
    for runner in (play, lambda a, b: play(a, b, fast=True)):
        stop = SequentialElimination(rules, on_empty="stop")
        game = runner(stop, Applicants(noisy, "blind"))
        assert stop.stopped
        assert stop.remaining == 1
        assert game.mistakes == stop.mistakes == 6


def test_bad_orders_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="permutation"):
        SequentialElimination(ThresholdClass([1.0, 2.0]), order=[0, 0])
    with pytest.raises(InvalidInputError, match="order"):
        SequentialElimination(ThresholdClass([1.0, 2.0]), order="sorted")


def test_blind_population_takes_the_predicted_number_of_mistakes() -> None:
    population = instances.BlindInstance(20, 1 / 120, target=13)
    learner = SequentialElimination(population.hypotheses)
    play(learner, ApplicantStream(population, "blind", random_state=0), rounds=8000, fast=True)
    assert learner.mistakes == 13
    assert learner.current == 13
