"""Constants of the rate theorem and explicit sample sizes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.errors import InvalidInputError
from counterplay.poisoning import (
    bounds,
)
from counterplay.poisoning.bounds import optimal_pac_constant
from counterplay.poisoning.lab import (
    ClosureLearner,
    TreeOrderLearner,
)


@pytest.mark.claim("10.17")
@pytest.mark.parametrize(
    ("rate", "value"),
    [
        (lambda m: 1 / m, 33.6),
        (lambda m: min(1.0, 10 / m), 132.6),
        (lambda m: min(1.0, 10 * np.log(m + 1) / m), 763.8),
        (lambda m: m**-0.5, 109.7),
    ],
)
def test_constant_of_the_rate_theorem(rate, value: float) -> None:
    assert optimal_pac_constant(rate) == pytest.approx(value, rel=0.01)


@pytest.mark.claim("10.17")
@pytest.mark.parametrize("m", [40, 200])
def test_robust_learners_obey_the_tail_of_the_rate_theorem(m: int) -> None:
    # 5000 fits of each learner for each m: ten thousand runs of TreeOrder and of Closure.
    rng, runs, k = np.random.default_rng(m), 5000, 400
    tree = TreeOrderLearner(FiniteClass.thresholds(range(k)), np.zeros(k, dtype=int))
    closure = ClosureLearner("intervals")
    flipped, missed = np.empty(runs), np.empty(runs)
    for run in range(runs):
        seen = rng.integers(k, size=m)
        cut = int(rng.integers(k // 2))  # the target is positive from here on
        top = tree.fit(seen, seen >= cut).predict(np.arange(k))
        flipped[run] = (top != (np.arange(k) >= cut)).mean()  # atk = err (check 1)
        x = rng.random((m, 1))
        closure.fit(x, np.ones(m))  # the target is the whole line: atk = err (check 5)
        missed[run] = 1 - float(closure.high_[0] - closure.low_[0])
    for rates, factor in ((flipped, 1.0), (missed, 2.0)):  # medians ln 2 / m and 1.68 / m
        assert np.median(rates) <= factor / m
        c = optimal_pac_constant(lambda n, factor=factor: min(1.0, factor / n))
        for delta in (0.5, 0.1, 0.01, 1e-4):
            assert not (rates > c / m * np.log2(2 / delta)).any()


@pytest.mark.claim("10.33")
def test_explicit_sample_sizes() -> None:
    assert bounds.block_majority_sample_size(1, 1, 0.1, 0.05) == 1_186_999
    assert bounds.projected_majority_sample_size(1, 1, 3, 0.1, 0.05) == 11_961_862
    assert bounds.subsample_sample_size(1, 1, 0.1, 0.05) == 3_242_357
    for t, d, eps, delta in itertools.product((1, 5, 50), (1, 5), (0.3, 0.1, 0.01), (0.2, 1e-4)):
        for size in (bounds.block_majority_sample_size, bounds.subsample_sample_size):
            base = size(t, d, eps, delta)
            assert size(t + 1, d, eps, delta) > base
            assert size(t, d + 1, eps, delta) > base
            assert size(t, d, eps / 2, delta) > base
            assert size(t, d, eps, delta / 2) >= base
        projected = bounds.projected_majority_sample_size
        base = projected(t, d, 2, eps, delta)
        assert projected(t, d, 5, eps, delta) > base
        assert projected(t + 1, d, 2, eps, delta) > base
        assert projected(t, d + 1, 2, eps, delta) > base
        assert projected(t, d, 2, eps / 2, delta) > base
        assert projected(t, d, 2, eps, delta / 2) >= base
    with pytest.raises(InvalidInputError):
        bounds.block_majority_sample_size(0, 1, 0.1, 0.1)
