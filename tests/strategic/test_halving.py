"""Strategic Halving: the bound, its tightness, ties, and what does not change it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplay.errors import InformationError, NotRealizableError
from counterplay.strategic import Agents, Applicants, StrategicHalving, bounds, instances, play
from counterplay.strategic.lab import (
    DistanceTableClass,
    MajorityHalving,
    SequentialElimination,
    ThresholdClass,
)


@pytest.mark.claim("02.01")
@pytest.mark.parametrize("median", ["lower", "upper"])
def test_worst_case_is_met_exactly_for_every_n(median: str) -> None:
    for n in [*range(1, 70), *range(70, 2001, 97), 255, 256, 257, 511, 512, 1023, 1024, 2000]:
        line = instances.threshold_line(n)
        game = play(StrategicHalving(line.hypotheses, median=median), line.adversary())
        assert game.mistakes == bounds.halving_mistakes(n) == int(np.floor(np.log2(n)))


@pytest.mark.slow
@pytest.mark.claim("02.01")
@pytest.mark.parametrize("median", ["lower", "upper"])
def test_worst_case_is_met_exactly_up_to_2000(median: str) -> None:
    for n in range(1, 2001):
        line = instances.threshold_line(n)
        game = play(StrategicHalving(line.hypotheses, median=median), line.adversary())
        assert game.mistakes == bounds.halving_mistakes(n)


def random_game(rng: np.random.Generator, rounds: int = 300) -> tuple[Agents, int, int]:
    """Integer distances with heavy ties, labels of a random perfect rule."""
    n = int(rng.integers(1, 41))
    target = int(rng.integers(n))
    rows = rng.integers(0, 6, size=(rounds, n)).astype(float)
    radius = rng.integers(0, 6, size=rounds).astype(float)
    table = DistanceTableClass(n)
    return Agents.from_target(table, rows, radius=radius, target=target), n, target


@pytest.mark.claim("02.02")
@pytest.mark.parametrize("rule", ["mistake", "safe"])
def test_heavy_ties_respect_the_bound_and_halve(rule: str) -> None:
    rng = np.random.default_rng(2)
    for _ in range(300):
        agents, n, target = random_game(rng)
        learner = StrategicHalving(DistanceTableClass(n), filter=rule)
        game = play(learner, Applicants(agents), fast=True)
        sizes = np.concatenate([[n], game.version_space_sizes])
        assert game.mistakes <= bounds.halving_mistakes(n)
        assert target in learner.version_space
        for t in game.mistake_rounds:
            assert sizes[t + 1] <= sizes[t] // 2
        if rule == "mistake":
            correct = ~game["mistake"]
            assert np.array_equal(sizes[1:][correct], sizes[:-1][correct])


@pytest.mark.claim("02.03")
@pytest.mark.parametrize(("median", "y"), [("lower", 0), ("upper", 1)])
def test_two_rules_and_one_mistake_leave_exactly_one(median: str, y: int) -> None:
    row = np.array([1.0, 3.0])
    learner = StrategicHalving(DistanceTableClass(2), median=median)
    rho = float(learner.act(row).distance(row[None])[0])
    assert rho in row  # np.median would give 2
    radius = rho if y == 0 else rho - 0.5
    game = play(learner, Applicants(Agents(X=row[None], y=[y], radius=radius)))
    assert game.mistakes == 1
    assert learner.remaining == 1


@pytest.mark.claim("02.03")
def test_even_number_of_rules_keeps_distances_in_the_row() -> None:
    rng = np.random.default_rng(3)
    for n in (2, 4, 10, 64):
        learner = StrategicHalving(DistanceTableClass(n))
        row = rng.permutation(n) * 1.37 + 0.1
        published = learner.act(row)
        assert float(published.distance(row[None])[0]) in row.tolist()
        assert published.members.size == 1
        assert int(published.members[0]) in learner.alive


@pytest.mark.claim("02.04")
def test_flipped_label_on_a_tight_sequence_names_the_round() -> None:
    line = instances.threshold_line(8)
    learner = StrategicHalving(line.hypotheses)
    play(learner, line.adversary())
    assert learner.remaining == 1
    last = float(learner.hypotheses.distances([[0.0]], learner.alive)[0, 0])
    honest = Agents(X=[[0.0]], y=[1], radius=last)
    play(learner, Applicants(honest))  # the surviving rule is right
    flipped = Agents(X=[[0.0]], y=[0], radius=last)
    with pytest.raises(NotRealizableError, match="round 5") as caught:
        play(learner, Applicants(flipped))
    assert caught.value.round == 5


@pytest.mark.claim("02.04")
def test_realizable_runs_never_empty_the_version_space() -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        agents, n, target = random_game(rng, rounds=30)
        for rule in ("mistake", "safe"):
            learner = StrategicHalving(DistanceTableClass(n), filter=rule)
            play(learner, Applicants(agents))  # would raise
            assert target in learner.version_space


def test_on_empty_stop_and_restart_are_reported() -> None:
    contradictory = Agents(X=[[1.0, 2.0]] * 4, y=[0, 1, 0, 1], radius=[2.0, 0.5, 2.0, 0.5])
    stopped = StrategicHalving(DistanceTableClass(2), on_empty="stop")
    game = play(stopped, Applicants(contradictory))
    assert stopped.stopped
    assert game.version_space_sizes[-1] >= 1
    again = StrategicHalving(DistanceTableClass(2), on_empty="restart")
    play(again, Applicants(contradictory))
    assert again.restarts >= 1
    assert again.version_space.round == 4


@pytest.mark.claim("02.05")
def test_star_separates_the_learners() -> None:
    star = instances.star_instance(10)
    sequential = play(SequentialElimination(star.hypotheses), star.adversary(), rounds=200)
    assert sequential.mistakes == 9
    assert sequential.mistake_rounds.tolist() == list(range(9))
    assert play(MajorityHalving(star.hypotheses), star.adversary(), rounds=200).mistakes == 200
    rng = np.random.default_rng(5)
    for target in range(10):
        points = rng.integers(0, 11, size=500)
        radius = rng.choice([0.0, 1.0, 2.0], size=500)
        agents = Agents.from_target(star.hypotheses, points, radius=radius, target=target)
        assert play(StrategicHalving(star.hypotheses), Applicants(agents)).mistakes <= 1


@pytest.mark.claim("02.30")
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_monotone_maps_and_renumbering_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    agents, n, _ = random_game(rng, rounds=80)
    order = rng.permutation(n)

    def run(rows: np.ndarray, radius: np.ndarray) -> tuple[list[int], list[int]]:
        learner = StrategicHalving(DistanceTableClass(n))
        game = play(learner, Applicants(Agents(X=rows, y=agents.y, radius=radius)))
        return game.mistake_rounds.tolist(), learner.alive.tolist()

    rounds, alive = run(agents.X, agents.radius)
    assert run(3.7 * agents.X, 3.7 * agents.radius) == (rounds, alive)
    assert run(np.expm1(agents.X), np.expm1(agents.radius)) == (rounds, alive)
    permuted = run(agents.X[:, order], agents.radius)
    assert permuted[0] == rounds
    assert sorted(order[permuted[1]].tolist()) == alive


@pytest.mark.claim("02.38")
@pytest.mark.parametrize("rule", ["mistake", "safe"])
@pytest.mark.parametrize("median", ["lower", "upper"])
def test_blockwise_simulation_is_identical(rule: str, median: str) -> None:
    rng = np.random.default_rng(6)
    for _ in range(8):
        agents, n, _ = random_game(rng, rounds=700)
        slow = StrategicHalving(DistanceTableClass(n), filter=rule, median=median)
        fast = StrategicHalving(DistanceTableClass(n), filter=rule, median=median)
        one = play(slow, Applicants(agents))
        two = play(fast, Applicants(agents), fast=True)
        assert one.to_frame().equals(two.to_frame())
        assert np.array_equal(slow.version_space.elim_time, fast.version_space.elim_time)
        assert slow.mistakes == fast.mistakes


def test_needs_the_features_first() -> None:
    with pytest.raises(InformationError, match="needs the setting 'features_first'"):
        play(
            StrategicHalving(ThresholdClass([1.0, 2.0])),
            Applicants(Agents(X=[[0.0]], y=[0], radius=0.0), "features_after"),
        )
