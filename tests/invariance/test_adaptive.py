"""Boosted confidence and unknown invariance: sizes, promises, levels, cells."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.invariance import bounds, instances
from counterplay.invariance.lab import (
    AdaptiveAgnostic,
    AdaptiveRelaxed,
    ConfidenceBooster,
    FiniteDistribution,
    FiniteProblem,
    KnownEta,
    OneInclusionInvariant,
    SampleTooSmallError,
)


@pytest.mark.claim("11.12")
def test_sample_sizes_of_the_booster_and_of_known_eta() -> None:
    totals = [bounds.m_oig(d, eps, 0.05) for d, eps in ((1, 0.1), (5, 0.1), (5, 0.01))]
    assert totals == [2044, 3004, 30032]
    sizes = [bounds.known_eta_sizes(m, 0.1) for m in (500, 1000, 5000)]
    assert sizes == [(10, 5, 422), (22, 5, 881), (114, 5, 4405)]
    assert bounds.known_eta_sizes(20_000, 0.1)[0] == 461
    assert bounds.known_eta_sizes(39, 0.1)[0] == 0
    with pytest.raises(SampleTooSmallError) as caught:
        bounds.known_eta_sizes(38, 0.1)
    assert caught.value.needed == 39


def boosting_failures(n: int, eps: float, delta: float) -> int:
    """Thresholds on |x| with the sign flip, n orbits, VCo = 1: how many of 200 runs fail?"""
    cuts = np.arange(n + 1)
    rows = (np.tile(np.arange(n), 2)[None, :] >= cuts[:, None]).astype(int)
    problem = FiniteProblem(rows, np.tile(np.arange(n), 2))
    D = FiniteDistribution(np.arange(n), rows[2 * n // 5][:n], np.full(n, 1 / n))
    booster = ConfidenceBooster(OneInclusionInvariant(problem), d=1, eps=eps, delta=delta)
    assert booster.n_needed == bounds.m_oig(1, eps, delta)
    return sum(
        D.error_of(booster.fresh().fit(*D.sample(booster.n_needed, seed))) > eps
        for seed in range(200)
    )


@pytest.mark.claim("11.12")
def test_boosted_learner_keeps_its_promise() -> None:
    eps, delta = 0.25, 0.2
    assert boosting_failures(10, eps, delta) / 200 <= delta
    case = instances.da_lower_bound(3, 1 / 64, random_state=0)
    base = OneInclusionInvariant(case.problem)
    booster = ConfidenceBooster(base, d=1, eps=eps, delta=delta)
    with pytest.raises(SampleTooSmallError):
        booster.fit(*case.distribution.sample(10, 0))
    practical = ConfidenceBooster(base, 1, eps, delta, practical=True, random_state=0)
    assert not practical.fit(*case.distribution.sample(60, 0)).guaranteed_


@pytest.mark.slow
@pytest.mark.claim("11.12")
def test_boosted_learner_keeps_its_promise_at_the_listed_size() -> None:
    """eps = 0.1 and delta = 0.05 need 2,044 samples."""
    assert bounds.m_oig(1, 0.1, 0.05) == 2044
    assert boosting_failures(40, 0.1, 0.05) / 200 <= 0.05


def adaptive_errors(d: int, eta: float | None, m: int, runs: int) -> list[float]:
    """Errors of the adaptive learner; eta None is the fully invariant construction."""
    errors = []
    for seed in range(runs):
        if eta is None:
            case = instances.da_lower_bound(d, 1 / 64, random_state=seed)
        else:
            case = instances.eta_family(d, eta, random_state=seed)
        learner = AdaptiveRelaxed(case.problem, practical=True, random_state=seed)
        learner.fit(*case.distribution.sample(m, seed + 10_000))
        if eta is None:
            assert learner.chosen_ == 0
        errors.append(case.distribution.error_of(learner))
    return errors


@pytest.mark.claim("11.16")
def test_adaptive_learner_finds_the_level() -> None:
    assert max(adaptive_errors(4, None, 40, 16)) == 0.0
    assert np.mean(adaptive_errors(4, 0.4, 80, 24)) < 0.01
    case = instances.da_lower_bound(3, 1 / 64, random_state=0)
    full = AdaptiveRelaxed(case.problem, delta=0.2, random_state=0)
    full.fit(*case.distribution.sample(400, 0))
    assert full.chosen_ == 0
    known = KnownEta(case.problem, eta=0.0, delta=0.1).fit(*case.distribution.sample(1000, 0))
    assert known.n_ == 22


@pytest.mark.slow
@pytest.mark.claim("11.16")
def test_adaptive_learner_in_eighty_runs() -> None:
    """d = 5 as in the source: no error for any m in the invariant case, 0.001 at eta = 0.4."""
    for m in (20, 40, 80):
        assert max(adaptive_errors(5, None, m, 80)) == 0.0
    assert np.mean(adaptive_errors(5, 0.4, 80, 80)) < 0.005


@pytest.mark.claim("11.17")
def test_cells_partition_the_class() -> None:
    rng = np.random.default_rng(0)
    for slack in (0.05, 0.1, 0.25, 0.5, 1.0):
        case = instances.eta_family(3, 0.3, random_state=0)
        learner = AdaptiveAgnostic(case.problem, slack=slack, inner="erm-inv", random_state=0)
        U = rng.integers(case.problem.n_points, size=40)
        cells = learner.cells(U)
        share = case.problem.iota[:, U].mean(axis=1)
        K = math.ceil(1 / (2 * slack))
        for cell, eta in zip(cells, share):
            hits = [int(eta == 0)]
            hits += [int(2 * (i - 1) * slack + 1e-12 < eta <= 2 * i * slack + 1e-12)
                     for i in range(1, K + 1)]  # fmt: skip
            assert sum(hits) == 1
            assert hits[cell] == 1
        fitted = learner.fit(*case.distribution.sample(100, 0), unlabeled=U)
        assert set(fitted.candidates_) == set(cells.tolist())
    constant = FiniteProblem([[0, 0], [1, 1], [0, 1]], [0, 0])
    learner = AdaptiveAgnostic(constant, slack=0.25)
    assert learner.cells([0, 1]).tolist() == [0, 0, 2]
    small = AdaptiveAgnostic(case.problem, slack=0.25, random_state=0)
    small.fit(*case.distribution.sample(60, 0))
    assert case.distribution.error_of(small) <= 0.3
