"""ERM, augmentation and the look-up against their exact curves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.invariance import bounds, instances
from counterplay.invariance.lab import (
    DA,
    ERM,
    ErmInv,
    FiniteProblem,
    OneInclusionInvariant,
    OneInclusionRelaxed,
    OrbitOnlyOptimal,
)


def within(values, expected, sigmas=4.0) -> None:
    values = np.asarray(values, dtype=float)
    error = values.std(ddof=1) / np.sqrt(values.size)
    assert abs(values.mean() - expected) <= sigmas * error + 1e-12, (values.mean(), expected)


@pytest.mark.claim("11.07")
@pytest.mark.parametrize("m", [6, 24])
def test_augmentation_follows_the_proper_curve(m: int) -> None:
    d, eps, runs = 4, 1 / 64, 250
    errors: dict[str, list[float]] = {"ERM": [], "DA": [], "ERM-INV": []}
    problem = instances.da_lower_bound(d, eps, random_state=0).problem
    for seed in range(runs):
        case = instances.da_lower_bound(d, eps, random_state=seed)
        X, y = case.distribution.sample(m, seed + 10_000)
        kinds = {
            "ERM": ERM(problem, tie="random", random_state=seed + 50_000),
            "DA": DA(problem, tie="random", random_state=seed + 60_000),
            "ERM-INV": ErmInv(ERM(problem, tie="random", random_state=seed + 70_000)),
        }
        for name, learner in kinds.items():
            errors[name].append(case.distribution.error_of(learner.fit(X, y)))
    for values in errors.values():
        within(values, bounds.proper_error(d, eps, m))


@pytest.mark.claim("11.07")
def test_invariant_learner_is_perfect_where_augmentation_is_not() -> None:
    for seed in range(5):
        case = instances.da_lower_bound(4, 1 / 64, random_state=seed)
        learner = OneInclusionInvariant(case.problem)
        for m in (0, 1, 6, 24):
            fitted = learner.fresh().fit(*case.distribution.sample(m, seed))
            assert case.distribution.error_of(fitted) == 0.0
    for d, exact in ((4, 0.1072), (8, 0.1084), (16, 0.1089), (64, 0.1093)):
        m = d  # d / (64 eps) for eps = 1/64
        assert bounds.proper_error(d, 1 / 64, m) > 8 / 64 / 3
        assert bounds.proper_error(d, 1 / 64, m) == pytest.approx(exact, abs=5e-5)
        assert bounds.proper_tail(d, 1 / 64, m) > 1 / 9
    least = [(2, 1 / 32, 0.1406), (8, 1 / 64, 0.1621), (64, 1 / 256, 0.1683)]
    for d, eps, ratio in least:
        assert bounds.proper_least_m(d, eps) * eps / d == pytest.approx(ratio, abs=5e-5)
    for d, eps in ((16, 1 / 64), (16, 1 / 256), (64, 1 / 256)):
        assert abs(bounds.proper_least_m(d, eps) * eps / d - math.log(15) / 16) < 0.01


@pytest.mark.claim("11.07")
def test_how_often_proper_learners_fail() -> None:
    """At m = d / (64 eps): drawn from the definition, and the error given what was seen."""
    d, eps, runs = 4, 1 / 64, 4000
    rng = np.random.default_rng(0)
    means, fails = [], []
    for _ in range(runs):
        # Points 0..d-1 are u*; a draw is one of them with probability 16 eps / d each.
        draws = rng.random(d)  # m = d samples
        seen = np.unique((draws[draws < 16 * eps] * d / (16 * eps)).astype(int))
        guess = rng.choice(np.setdiff1d(np.arange(2 * d), seen), size=d - seen.size, replace=False)
        missed = d - seen.size - (guess < d).sum()
        fails.append(16 * eps * missed / d > eps)
        means.append(16 * eps * (d - seen.size) / (2 * d - seen.size) > eps)
    within(fails, bounds.proper_tail(d, eps, d))
    assert np.mean(means) > 0.9985  # exactly 1 - 4! / 16^4 = 0.9996


@pytest.mark.slow
@pytest.mark.claim("11.07", "11.06")
@pytest.mark.parametrize(("m", "exact"), [(6, 0.1080), (24, 0.0628), (96, 0.0036)])
def test_all_learners_on_the_lower_bound_with_six_points(m: int, exact: float) -> None:
    """d = 6, 400 runs: the proper learners on the curve, the relaxed one below d / (m + 1)."""
    d, eps, runs = 6, 1 / 64, 400
    assert bounds.proper_error(d, eps, m) == pytest.approx(exact, abs=5e-5)
    problem = instances.da_lower_bound(d, eps, random_state=0).problem
    errors: dict[str, list[float]] = {"ERM": [], "DA": [], "ERM-INV": [], "relaxed": []}
    for seed in range(runs):
        case = instances.da_lower_bound(d, eps, random_state=seed)
        X, y = case.distribution.sample(m, seed + 10_000)
        learners = {
            "ERM": ERM(problem, tie="random", random_state=seed + 50_000),
            "DA": DA(problem, tie="random", random_state=seed + 60_000),
            "ERM-INV": ErmInv(ERM(problem, tie="random", random_state=seed + 70_000)),
        }
        if seed < 40:
            learners["relaxed"] = OneInclusionRelaxed(problem)
            fitted = OneInclusionInvariant(problem).fit(X, y)
            assert case.distribution.error_of(fitted) == 0.0
        for name, learner in learners.items():
            errors[name].append(case.distribution.error_of(learner.fit(X, y)))
    for name in ("ERM", "DA", "ERM-INV"):
        within(errors[name], bounds.proper_error(d, eps, m))
    assert np.mean(errors["relaxed"]) <= d / (m + 1)


@pytest.mark.claim("11.08")
def test_knowing_the_group_helps() -> None:
    d, eps, m = 21, 1 / 64, 20
    erm, da = [], []
    for seed in range(400):
        case = instances.da_helps(d, eps, random_state=seed)
        X, y = case.distribution.sample(m, seed + 10_000)
        for kind, out in ((ERM, erm), (DA, da)):
            learner = kind(case.problem, case.group, tie="random", random_state=seed + 50_000)
            out.append(case.distribution.error_of(learner.fit(X, y)))
    assert bounds.blind_error(d, eps, m) == pytest.approx(0.09720, abs=5e-6)
    within(erm, bounds.blind_error(d, eps, m))
    assert np.mean(da) < np.mean(erm) / 5


@pytest.mark.claim("11.08")
@pytest.mark.parametrize("m", [1, 2])
def test_blind_learner_also_guesses_the_heavy_point(m: int) -> None:
    errors = []
    for seed in range(600):
        case = instances.da_helps(21, 1 / 64, random_state=seed)
        X, y = case.distribution.sample(m, seed + 10_000)
        erm = ERM(case.problem, case.group, tie="random", random_state=seed + 50_000)
        errors.append(case.distribution.error_of(erm.fit(X, y)))
    light, heavy = bounds.blind_error(21, 1 / 64, m), bounds.blind_heavy_error(1 / 64, m)
    assert np.mean(errors) - light > heavy / 2
    within(errors, light + heavy)


@pytest.mark.claim("11.11")
def test_augmentation_hurts_the_birds() -> None:
    K = 5
    da, best = [], {n: [] for n in (1, 4, 12)}
    orbit_only = OrbitOnlyOptimal(instances.background_birds(K).problem)  # remembers its programs
    for seed in range(300):
        case = instances.background_birds(K, random_state=seed)
        X, y = case.distribution.sample(20 * K, seed + 10_000)
        learner = DA(case.problem, tie="random", random_state=seed + 50_000).fit(X, y)
        da.append(case.distribution.error_of(learner))
        for n in best:
            fitted = orbit_only.fresh().fit(X[:n], y[:n])
            wrong = fitted.predict_proba(case.distribution.points)[:, 1]
            best[n].append(case.distribution.error(wrong))
        if seed < 15:
            for kind in (ERM(case.problem), ErmInv(ERM(case.problem)),
                         OneInclusionRelaxed(case.problem)):  # fmt: skip
                for n in (1, 2, 7, 100):
                    assert case.distribution.error_of(kind.fit(X[:n], y[:n])) == 0.0
    assert 0.4 <= np.mean(da) <= 0.6
    for n, values in best.items():
        within(values, bounds.birds_error(K, n))


def test_memorising_orbits_beats_the_class_with_small_blocks() -> None:
    gains = []
    for seed in range(60):
        case = instances.agnostic_lower_bound(4, 0.1, 20, random_state=seed)
        X, y = case.distribution.sample(80, seed)
        learner = ErmInv(ERM(case.problem, case.group, tie="first")).fit(X, y)
        share = case.target.reshape(4, 20).mean(axis=1)
        gains.append(np.minimum(share, 1 - share).mean() - case.distribution.error_of(learner))
    assert np.mean(gains) == pytest.approx(0.21, abs=0.05)


@pytest.mark.claim("11.02")
def test_all_baselines_agree_without_symmetry() -> None:
    rng = np.random.default_rng(7)
    for _ in range(40):
        rows = rng.integers(0, 2, size=(8, 5))
        problem = FiniteProblem(rows, np.arange(5))
        X = rng.integers(5, size=4)
        y = problem.H[rng.integers(len(problem.H))][X]
        pool = np.arange(5)
        erm = ERM(problem).fit(X, y).predict(pool)
        np.testing.assert_array_equal(erm, DA(problem).fit(X, y).predict(pool))
        np.testing.assert_array_equal(erm, ErmInv(ERM(problem)).fit(X, y).predict(pool))
