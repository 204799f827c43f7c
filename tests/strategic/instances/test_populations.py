"""The hard populations: exact losses by enumeration, laws of reports, closed balls."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from counterplay.errors import InvalidInputError
from counterplay.strategic import Applicants, ApplicantStream, StrategicHalving, instances, play
from counterplay.strategic.lab import (
    AllNegative,
    MedianMapPredictor,
    PositiveSet,
    QuantileProbe,
    UnionPredictor,
    UnionSamplingLearner,
)

EPS = 0.01


def exact_loss(population: object, predictor: object) -> float:
    """Loss by listing all agents with their probabilities."""
    weight, agents = population.support()
    assert weight.sum() == pytest.approx(1.0)
    return float(weight @ (predictor.accepted(agents) != (agents.y > 0)))


@pytest.mark.claim("02.17")
@pytest.mark.parametrize("n", [4, 5])
def test_proper_population_by_enumeration(n: int) -> None:
    population = instances.ProperInstance(n, EPS, target=1)
    rules = population.hypotheses
    for size in range(1, n + 1):
        for members in combinations(range(n), size):
            union = UnionPredictor(rules, members)
            expected = 3 * EPS if size == 1 and members != (1,) else 0.0
            assert exact_loss(population, union) == pytest.approx(expected, abs=1e-12)
            assert population.loss(union) == pytest.approx(expected, abs=1e-12)
    pairs = [
        exact_loss(population, UnionPredictor(rules, [i, j])) for i in range(n) for j in range(n)
    ]
    assert np.mean(pairs) == pytest.approx(3 * EPS * (n - 1) / n**2, abs=1e-12)
    assert population.space_loss(n, 2) == pytest.approx(3 * EPS * (n - 1) / n**2, abs=1e-12)
    assert population.space_loss(n, 1) == pytest.approx(3 * EPS * (n - 1) / n, abs=1e-12)
    assert exact_loss(population, AllNegative()) == pytest.approx(3 * n * EPS)


@pytest.mark.claim("02.18")
@pytest.mark.parametrize("n", [3, 4, 8, 16])
def test_halving_never_errs_but_its_last_rule_is_usually_wrong(n: int) -> None:
    population = instances.ProperInstance(n, EPS, target=n - 1)
    learner = StrategicHalving(population.hypotheses)
    game = play(
        learner,
        ApplicantStream(population, "features_first", random_state=n),
        rounds=5000,
        fast=True,
    )
    assert game.mistakes == 0
    assert learner.remaining == n
    assert learner.frozen().loss(population.sample(5000, random_state=1)) == 0.0
    if n <= 5:
        assert exact_loss(population, learner.frozen()) == 0.0
    if n == 16:
        wrong = 0
        for seed in range(300):
            people = population.sample(40, random_state=seed)
            wrong += int(learner.frozen().members_for(people.X)[-1]) != n - 1
        assert wrong > 0.8 * 300


@pytest.mark.claim("02.18")
@pytest.mark.parametrize("n", [4, 5])
def test_median_map_has_loss_zero_by_enumeration(n: int) -> None:
    population = instances.ProperInstance(n, EPS, target=0)
    for median in ("lower", "upper"):
        median_map = MedianMapPredictor(population.hypotheses, np.arange(n), median)
        assert exact_loss(population, median_map) == 0.0


@pytest.mark.claim("02.19")
@pytest.mark.parametrize("kind", ["conservative", "non_ball"])
def test_loss_table_for_all_unions_of_five(kind: str) -> None:
    make = {
        "conservative": instances.ConservativeInstance,
        "non_ball": instances.NonBallInstance,
    }[kind]
    population = make(5, EPS, target=2)
    for size in range(1, 6):
        for members in combinations(range(5), size):
            union = UnionPredictor(population.hypotheses, members)
            k = size
            share = (k - 1) / k if 2 in members else k / (k + 1)
            assert exact_loss(population, union) == pytest.approx(6 * EPS * share, abs=1e-12)
            assert population.loss(union) == pytest.approx(6 * EPS * share, abs=1e-12)


@pytest.mark.claim("02.19")
def test_other_rules_on_the_hard_populations() -> None:
    conservative = instances.ConservativeInstance(5, EPS, target=2)
    somewhere = PositiveSet(conservative.hypotheses.metric, np.array([[4, 3, 2, 1, 0]]))
    assert exact_loss(conservative, somewhere) == pytest.approx(6 * EPS)
    assert conservative.loss(somewhere) == pytest.approx(6 * EPS)
    assert exact_loss(conservative, AllNegative()) == pytest.approx(1 - 6 * EPS)
    non_ball = instances.NonBallInstance(5, EPS, target=2)
    home = PositiveSet(non_ball.hypotheses.metric, np.array([0, 3]), size=6)
    assert exact_loss(non_ball, home) == pytest.approx(6 * EPS)
    assert exact_loss(non_ball, AllNegative(6)) == pytest.approx(1 - 6 * EPS)
    blind = instances.BlindInstance(6, EPS, target=2)
    for size in range(1, 4):
        for members in combinations(range(6), size):
            union = UnionPredictor(blind.hypotheses, members)
            expected = 3 * EPS * (size - (2 in members))
            assert exact_loss(blind, union) == pytest.approx(expected, abs=1e-12)
            assert blind.loss(union) == pytest.approx(expected, abs=1e-12)
    centre = PositiveSet(blind.hypotheses.metric, np.array([0]))
    assert exact_loss(blind, centre) == pytest.approx(15 * EPS)
    assert blind.loss(AllNegative()) == pytest.approx(1 - 15 * EPS)


@pytest.mark.claim("02.20")
@pytest.mark.parametrize("with_target", [True, False])
def test_law_of_reports_on_the_conservative_population(with_target: bool) -> None:
    n, target = 7, 3
    population = instances.ConservativeInstance(n, 1 / 6, target=target)  # negatives only
    members = np.array([1, 3, 5] if with_target else [1, 4, 5])
    agents = population.sample(200_000, random_state=int(with_target))
    assert agents.y.sum() == 0
    union = UnionPredictor(population.hypotheses, members)
    reported, accepted = union.respond(agents)
    went = np.argmin(reported[accepted], axis=1)
    counts = np.array([(went == j).sum() for j in members] + [(~accepted).sum()])
    k = members.size
    law = np.full(k + 1, 1 / k if with_target else 1 / (k + 1))
    if with_target:
        law[members.tolist().index(target)] = 0.0
    keep = law > 0
    assert counts[~keep].sum() == 0
    assert stats.chisquare(counts[keep], law[keep] * counts.sum()).pvalue > 0.001


@pytest.mark.claim("02.20")
@pytest.mark.parametrize("with_target", [True, False])
def test_law_of_reports_with_manipulation_sets(with_target: bool) -> None:
    n, target = 7, 3
    population = instances.NonBallInstance(n, 1 / 6, target=target)
    members = np.array([1, 3, 5] if with_target else [1, 4, 5])
    agents = population.sample(20_000, random_state=int(with_target))
    union = UnionPredictor(population.hypotheses, members)
    reported, accepted = union.respond(agents, tie="random", random_state=0)
    counts = np.array([(reported[accepted] == j + 1).sum() for j in members] + [(~accepted).sum()])
    k = members.size
    law = np.full(k + 1, 1 / k if with_target else 1 / (k + 1))
    if with_target:
        law[members.tolist().index(target)] = 0.0
    keep = law > 0
    assert counts[~keep].sum() == 0
    assert stats.chisquare(counts[keep], law[keep] * counts.sum()).pvalue > 0.001
    if (
        with_target
    ):  # a fixed tie rule is not symmetric and leaks the target (Theorem 2.9 and corollary 2.1)
        fixed, moved = union.respond(agents, tie="first")
        first, last = ((fixed[moved] == j + 1).mean() for j in (1, 5))
        assert first > 2 * last


@pytest.mark.claim("02.20")
def test_positive_agents_report_without_telling_anything() -> None:
    population = instances.NonBallInstance(6, EPS, target=1)
    agents = population.sample(20_000, random_state=0)
    positive = agents.take(np.flatnonzero(agents.y))
    reported, accepted = UnionPredictor(population.hypotheses, [0, 1, 4]).respond(
        positive, tie="random", random_state=1
    )
    assert accepted.all()
    counts = [(reported == j).sum() for j in (1, 2, 5)]
    assert stats.chisquare(counts).pvalue > 0.001


@pytest.mark.claim("02.21")
@pytest.mark.parametrize("n", [4, 7, 16, 64])
def test_radius_on_a_distance_reaches_it(n: int) -> None:
    conservative = instances.ConservativeInstance(n, 1 / 6, target=0)
    agents = conservative.sample(2000, random_state=n)
    c = agents.X
    accepted = agents.accepted(conservative.hypotheses)
    assert np.array_equal(accepted, c > c[:, [0]])  # reaches e_j exactly if c_j > c_target
    proper = instances.ProperInstance(n, 1 / (3 * n), target=0)
    agents = proper.sample(2000, random_state=n)
    accepted = agents.accepted(proper.hypotheses)
    must = (agents.X > 0) | (agents.X[:, [0]] == 0)
    assert np.array_equal(accepted, must)


@pytest.mark.claim("02.21")
def test_euclidean_subtraction_would_miss_the_closed_ball() -> None:
    """Why the closed form matters: with plain Euclidean distances many must-reach cases fail."""
    population = instances.ConservativeInstance(7, 1 / 6, target=0)
    agents = population.sample(4000, random_state=0)
    points = agents.X / population.hypotheses.metric.z
    basis = np.eye(7)
    euclid = np.sqrt(((points[:, None, :] - basis[None]) ** 2).sum(axis=2))
    tight = agents.X[:, [0]] + 1 == agents.X  # exactly on the boundary
    assert (euclid[tight] <= np.repeat(agents.radius, 7).reshape(-1, 7)[tight]).mean() < 0.99
    assert agents.accepted(population.hypotheses)[tight].all()


def test_populations_are_realizable_and_smoothing_breaks_it() -> None:
    for population in (
        instances.ProperInstance(6, EPS, target=2),
        instances.ConservativeInstance(6, EPS, target=2),
        instances.BlindInstance(6, EPS, target=2),
        instances.NonBallInstance(6, EPS, target=2),
        instances.SparseWrong(20, 0.1, 0, target=2),
        instances.SparseWrong(20, 0.1, 1, target=2),
    ):
        agents = population.sample(3000, random_state=0)
        losses = agents.losses(population.hypotheses)
        assert not losses[:, 2].any()
        assert losses[:, 3].any()
    for make in (
        instances.ConservativeInstance,
        instances.BlindInstance,
        instances.NonBallInstance,
    ):
        mixed = make(6, EPS, target=2, smoothing=0.5).sample(3000, random_state=0)
        assert mixed.losses(make(6, EPS, target=2).hypotheses)[:, 2].any()


def test_sparse_wrong_counts_and_losses() -> None:
    for label in (0, 1):
        population = instances.SparseWrong(50, 0.06, label=label, target=7)
        agents = population.sample(20_000, random_state=label)
        losses = agents.losses(population.hypotheses)
        assert (losses.sum(axis=1) == 3).all()
        assert not losses[:, 7].any()
        for members in ([1], [1, 2], [1, 7], [1, 2, 3]):
            union = UnionPredictor(population.hypotheses, members)
            expected = population.loss(union)
            error = np.sqrt(max(expected * (1 - expected), 1e-9) / len(agents))
            assert abs(union.loss(agents) - expected) <= 4 * error + 1e-12


def test_output_loss_is_the_mean_over_epochs() -> None:
    population = instances.ConservativeInstance(12, 0.05, target=4)
    learner = UnionSamplingLearner(population.hypotheses, random_state=0)
    play(
        learner,
        ApplicantStream(population, "features_after", random_state=0),
        rounds=200,
        fast=True,
    )
    total = np.mean([population.loss(learner.output(seed)) for seed in range(3000)])
    assert total == pytest.approx(population.output_loss(learner), rel=0.1)


@pytest.mark.parametrize(
    ("make", "eps"),
    [
        (instances.ProperInstance, 0.05),
        (instances.ConservativeInstance, 0.2),
        (instances.BlindInstance, 0.05),
        (instances.NonBallInstance, 0.2),
    ],
)
def test_infeasible_parameters_are_refused(make: object, eps: float) -> None:
    with pytest.raises(InvalidInputError, match="must be at most 1"):
        make(10, eps, target=0)
    with pytest.raises(InvalidInputError, match="target"):
        make(10, 0.001, target=10)


def test_proper_instance_needs_three_rules_and_supports_are_small() -> None:
    with pytest.raises(InvalidInputError, match="at least 3"):
        instances.ProperInstance(2, 0.01)
    with pytest.raises(InvalidInputError, match="too many to list"):
        instances.ProperInstance(12, 0.01).support()
    population = instances.ProperInstance(4, 0.01)
    median_map = MedianMapPredictor(population.hypotheses, [0, 1])
    with pytest.raises(InvalidInputError, match="no closed form"):
        population.loss(median_map)
    probe = QuantileProbe(population.hypotheses, random_state=0)
    probe.version_space.observe_mask([False, True, True, True])
    probe.version_space.tick()
    with pytest.raises(InvalidInputError, match="lost the perfect rule"):
        population.output_loss(probe)


def test_exact_enumeration_agrees_with_sampling() -> None:
    population = instances.ConservativeInstance(5, 0.1, target=1)
    union = UnionPredictor(population.hypotheses, [0, 3])
    agents = population.sample(40_000, random_state=0)
    expected = exact_loss(population, union)
    error = np.sqrt(expected * (1 - expected) / len(agents))
    assert abs(union.loss(agents) - expected) <= 4 * error
    assert len(Applicants(agents).agents) == 40_000
