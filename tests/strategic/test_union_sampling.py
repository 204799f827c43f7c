"""Union sampling: levels, draws, expected loss, the constants, and the fast path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from counterplay.errors import InformationError, ProtocolError
from counterplay.strategic import (
    Agents,
    Applicants,
    ApplicantStream,
    LinearClass,
    StrategicHalving,
    bounds,
    instances,
    play,
)
from counterplay.strategic.lab import ProperUnionSampling, UnionPredictor, UnionSamplingLearner
from counterplay.strategic.union_sampling import draw_ranks, pair_loss, union_levels


def linear_population(n: int, d: int, m: int, seed: int) -> tuple[LinearClass, Agents]:
    rng = np.random.default_rng(seed)
    rules = LinearClass(rng.normal(size=(n, d)), rng.normal(size=n))
    radius = rng.exponential(0.5, size=m)
    return rules, Agents.from_target(rules, rng.normal(size=(m, d)), radius=radius, target=n // 3)


@pytest.mark.claim("02.12")
def test_level_sets() -> None:
    expected = {1: [1], 2: [1], 3: [1], 4: [1, 2], 7: [1, 2], 8: [1, 2, 4]}
    for m, levels in expected.items():
        assert union_levels(m).tolist() == levels
    assert union_levels(1023).tolist() == [2**j for j in range(9)]
    assert all(union_levels(m).size == max(1, int(np.log2(m))) for m in range(1, 3000))


@pytest.mark.claim("02.12")
@pytest.mark.parametrize("m", [1, 3, 8, 100])
def test_levels_are_drawn_uniformly(m: int) -> None:
    rules = LinearClass(np.arange(1.0, m + 1)[:, None], np.zeros(m))
    learner = UnionSamplingLearner(rules, random_state=m)
    sizes = np.array([learner.act().members.size for _ in range(6000)])
    levels = union_levels(m)
    assert set(sizes) <= set(levels.tolist())
    counts = np.array([(sizes == k).sum() for k in levels])
    assert levels.size == 1 or stats.chisquare(counts).pvalue > 0.001


@pytest.mark.claim("02.13")
def test_members_are_drawn_with_replacement() -> None:
    rules = LinearClass(np.ones((4, 1)), np.arange(4.0))
    learner = UnionSamplingLearner(rules, random_state=0)
    pairs = [p for p in (learner.act().members for _ in range(12000)) if p.size == 2]
    equal = sum(int(a == b) for a, b in pairs)
    assert stats.binomtest(equal, len(pairs), 0.25).pvalue > 0.001


@pytest.mark.claim("02.13")
@pytest.mark.parametrize("m", [2, 5, 8, 37])
def test_rank_shortcut_has_the_law_of_explicit_draws(m: int) -> None:
    """P(rank >= j) averaged over levels is the mean of (1 - j/m)^k."""
    rng = np.random.default_rng(m)
    ranks = draw_ranks(m, 40_000, rng)
    above = np.mean((1 - np.arange(m + 1)[:, None] / m) ** union_levels(m)[None, :], axis=1)
    law = above[:-1] - above[1:]
    counts = np.bincount(ranks, minlength=m)
    assert counts.sum() == 40_000
    enough = law * 40_000 > 5
    observed = np.append(counts[enough], counts[~enough].sum())
    expected = np.append(law[enough], law[~enough].sum()) * 40_000
    keep = expected > 0
    assert stats.chisquare(observed[keep], expected[keep]).pvalue > 0.001
    levels = 2 ** rng.integers(max(1, m.bit_length() - 1), size=40_000)
    explicit = np.array([rng.integers(m, size=k).min() for k in levels])
    table = np.vstack([counts, np.bincount(explicit, minlength=m)])
    table = table[:, table.sum(axis=0) > 10]
    assert stats.chi2_contingency(table).pvalue > 0.001


@pytest.mark.claim("02.14")
def test_expected_error_is_below_the_thesis_bound_everywhere() -> None:
    T = 3000
    populations = [
        instances.ProperInstance(16, 0.01, target=4),
        instances.ConservativeInstance(16, 0.01, target=4),
        instances.SparseWrong(64, 0.05, label=0, target=4),
    ]
    for population in populations:
        losses = []
        for seed in range(5):
            learner = UnionSamplingLearner(population.hypotheses, random_state=seed)
            play(
                learner,
                ApplicantStream(population, "features_after", random_state=seed),
                rounds=T,
                fast=True,
            )
            losses.append(population.output_loss(learner))
        n = population.n
        assert np.mean(losses) <= bounds.union_sampling_error(n, T)
        assert np.mean(losses) <= bounds.union_sampling_error(n, T, "refined")
    rules, agents = linear_population(64, 4, 4000, seed=1)
    learner = UnionSamplingLearner(rules, random_state=0)
    play(learner, ApplicantStream(agents, "features_after", random_state=0), rounds=T, fast=True)
    assert learner.expected_loss(agents) <= bounds.union_sampling_error(64, T, "refined")


@pytest.mark.claim("02.14")
@pytest.mark.parametrize(("share", "label"), [(0.01, 0), (0.05, 0), (0.01, 1)])
def test_refined_bound_on_sparse_wrong(share: float, label: int) -> None:
    n, T, runs = 256, 4000, 20
    population = instances.SparseWrong(n, share, label=label, target=3)
    losses = []
    for seed in range(runs):
        learner = UnionSamplingLearner(population.hypotheses, random_state=seed)
        play(
            learner,
            ApplicantStream(population, "features_after", random_state=100 + seed),
            rounds=T,
            fast=True,
        )
        losses.append(population.output_loss(learner))
    assert np.mean(losses) <= bounds.union_sampling_error(n, T, "refined")


@pytest.mark.claim("02.14")
def test_single_rules_break_the_refined_bound_and_pairs_are_needed() -> None:
    n, T = 1024, 20_000
    bound = bounds.union_sampling_error(n, T, "refined")
    negative = instances.SparseWrong(n, 0.01, label=0, target=3)
    results = {}
    for levels in ("one", "powers"):
        learner = UnionSamplingLearner(negative.hypotheses, levels=levels, random_state=0)
        play(
            learner,
            ApplicantStream(negative, "features_after", random_state=1),
            rounds=T,
            fast=True,
        )
        results[levels] = negative.output_loss(learner)
    assert results["one"] > bound >= results["powers"]
    positive = instances.SparseWrong(n, 0.01, label=1, target=3)
    learner = UnionSamplingLearner(positive.hypotheses, random_state=0)
    play(
        learner, ApplicantStream(positive, "features_after", random_state=1), rounds=2000, fast=True
    )
    pair = positive.output_loss(learner)
    epochs = learner.output_epochs()
    total = sum(r for r, _ in epochs)
    single = sum(r * positive.space_loss(m.size, 1) for r, m in epochs) / total
    assert single > 50 * pair


@pytest.mark.claim("02.14")
def test_refined_constant_is_5_for_every_version_space_size() -> None:
    sizes = [*range(2, 701), 1023, 1024, 2047, 4095]
    factors = {m: bounds.union_sampling_factor(m) for m in sizes}
    assert max(factors.values()) == pytest.approx(5.0)
    assert factors[3] == pytest.approx(5.0)


@pytest.mark.claim("02.14")
def test_factor_by_direct_enumeration() -> None:
    """m = 5: enumerate all draws of one and two members and all numbers of wrong rules."""
    m, levels = 5, [1, 2]
    worst = 0.0
    for wrong in range(1, m):
        for label in (0, 1):
            progress = 0.0
            for k in levels:
                draws = np.stack(np.meshgrid(*[np.arange(m)] * k), -1).reshape(-1, k)
                rank = draws.min(axis=1)
                if label == 0:
                    removed = np.where(rank < wrong, rank + 1, 0)
                else:
                    removed = np.where(rank >= m - wrong, m - rank, 0)
                progress += removed.mean() / m / len(levels)
            loss = 1 - (1 - wrong / m) ** 2 if label == 0 else (wrong / m) ** 2
            worst = max(worst, loss / progress / len(levels))
    assert bounds.union_sampling_factor(5) == pytest.approx(worst)


@pytest.mark.claim("02.15")
@pytest.mark.parametrize("runner", ["play", "simulate"])
def test_elimination_times_reconstruct_every_version_space(runner: str) -> None:
    rules, agents = linear_population(30, 3, 250, seed=2)
    learner = UnionSamplingLearner(rules, random_state=1)
    environment = Applicants(agents, "features_after")
    snapshots = [learner.alive]
    if runner == "play":
        observe = learner.observe

        def recording(feedback: object) -> None:
            observe(feedback)
            snapshots.append(learner.alive)

        learner.observe = recording
        play(learner, environment)
    else:
        game = play(learner, environment, fast=True)
        assert game.version_space_sizes[-1] == learner.remaining
        sizes = [30, *game.version_space_sizes.tolist()]
        times = learner.version_space.elim_time
        assert [(times > tau).sum() for tau in range(1, len(agents) + 1)] == sizes[:-1]
        return
    times = learner.version_space.elim_time
    assert np.array_equal(snapshots[0], np.arange(30))
    for tau in range(1, len(agents) + 1):
        assert np.array_equal(np.flatnonzero(times > tau), snapshots[tau - 1])
        assert np.array_equal(learner.version_space.at_round(tau - 1), snapshots[tau - 1])


@pytest.mark.claim("02.15")
def test_output_can_come_from_the_very_beginning() -> None:
    rules, agents = linear_population(16, 3, 40, seed=3)
    learner = UnionSamplingLearner(rules, random_state=0)
    with pytest.raises(ProtocolError, match="at least one round"):
        learner.output()
    play(learner, Applicants(agents, "features_after"), fast=True)
    gone = np.setdiff1d(np.arange(16), learner.alive)
    drawn = {int(h) for seed in range(300) for h in learner.output(seed).members}
    assert drawn & set(gone.tolist())  # rules that are not in the last version space
    last = UnionSamplingLearner(rules, output="last", random_state=0)
    play(last, Applicants(agents, "features_after"), fast=True)
    drawn = {int(h) for seed in range(100) for h in last.output(seed).members}
    assert drawn <= set(last.alive.tolist())


@pytest.mark.claim("02.16")
def test_pair_loss_formula_agrees_with_simulation() -> None:
    rules, agents = linear_population(24, 3, 60, seed=4)
    losses = agents.losses(rules)
    formula = pair_loss(losses.sum(axis=1), 24, agents.y).mean()
    rng = np.random.default_rng(0)
    pairs = rng.integers(24, size=(100_000, 2))
    accepted = agents.accepted(rules)
    wrong = (accepted[:, pairs[:, 0]] | accepted[:, pairs[:, 1]]) != (agents.y[:, None] > 0)
    per_pair = wrong.mean(axis=0)
    error = per_pair.std(ddof=1) / np.sqrt(per_pair.size)
    assert abs(per_pair.mean() - formula) <= 4 * error


@pytest.mark.claim("02.16")
def test_expected_loss_of_the_output_agrees_with_its_draws() -> None:
    rules, agents = linear_population(24, 3, 120, seed=5)
    learner = UnionSamplingLearner(rules, random_state=0)
    play(learner, Applicants(agents, "features_after"), fast=True)
    draws = np.array([learner.output(seed).loss(agents) for seed in range(1500)])
    error = draws.std(ddof=1) / np.sqrt(draws.size)
    assert abs(draws.mean() - learner.expected_loss(agents)) <= 4 * error
    proper = ProperUnionSampling(rules, random_state=0)
    play(proper, Applicants(agents, "features_after"), fast=True)
    single = np.array([proper.output(seed).loss(agents) for seed in range(1500)])
    error = single.std(ddof=1) / np.sqrt(single.size)
    assert abs(single.mean() - proper.expected_loss(agents)) <= 4 * error


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many distances each call of ``LinearClass.distances`` computed."""
    sizes: list[int] = []
    measure = LinearClass.distances

    def counted(rules: LinearClass, *args: Any) -> Any:
        found = measure(rules, *args)
        sizes.append(found.size)
        return found

    monkeypatch.setattr(LinearClass, "distances", counted)
    return sizes


@pytest.mark.claim("02.33")
@pytest.mark.parametrize("seed", range(3))
def test_fast_path_asks_for_distances_a_thousand_times_less_often(
    seed: int, asked: list[int]
) -> None:
    rules, agents = linear_population(512, 5, 100_000, seed=6)
    learner = UnionSamplingLearner(rules, random_state=seed)
    game = play(learner, Applicants(agents, "features_after"), fast=True)
    assert len(game) == 100_000
    assert 0 < len(asked) <= 100  # a loop over rounds asks once in each


@pytest.mark.claim("02.33")
def test_halving_round_computes_every_distance_once(asked: list[int]) -> None:
    rng = np.random.default_rng(7)
    n, d = 100_000, 10
    learner = StrategicHalving(LinearClass(rng.normal(size=(n, d)), rng.normal(size=n)))
    for x in rng.normal(size=(20, d)):
        published = learner.act(x)
        assert published.members.size == 1
    assert asked == [n] * 20


@pytest.mark.claim("02.38")
@pytest.mark.parametrize("rule", ["mistake", "safe"])
def test_blockwise_simulation_has_the_same_law(rule: str) -> None:
    rules, agents = linear_population(32, 3, 40, seed=8)
    environment = Applicants(agents, "features_after")
    slow, fast = [], []
    for seed in range(150):
        learner = UnionSamplingLearner(rules, filter=rule, random_state=seed)
        play(learner, environment)
        slow.append((learner.mistakes, learner.remaining))
    for seed in range(1000, 1400):
        learner = UnionSamplingLearner(rules, filter=rule, random_state=seed)
        game = play(learner, environment, fast=True)
        assert game.mistakes == learner.mistakes
        fast.append((learner.mistakes, learner.remaining))
    a, b = np.array(slow, dtype=float), np.array(fast, dtype=float)
    error = np.sqrt(a.var(axis=0, ddof=1) / len(a) + b.var(axis=0, ddof=1) / len(b))
    assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) <= 4 * error + 1e-12).all()


def test_is_legal_with_x_first_and_refused_without_x() -> None:
    rules, agents = linear_population(8, 2, 30, seed=9)
    play(UnionSamplingLearner(rules, random_state=0), Applicants(agents, "features_first"))
    with pytest.raises(InformationError):
        play(UnionSamplingLearner(rules), Applicants(agents, "report_only"))


def test_output_is_one_fixed_union() -> None:
    rules, agents = linear_population(8, 2, 30, seed=10)
    learner = UnionSamplingLearner(rules, random_state=0)
    play(learner, Applicants(agents, "features_after"), fast=True)
    output = learner.output(3)
    assert isinstance(output, UnionPredictor)
    assert output.members.size == 2
    assert np.array_equal(output.members, learner.output(3).members)
