"""SubsampleERM rarely sees poison."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.poisoning import (
    bounds,
)
from counterplay.poisoning.lab import (
    MaxOpenInterval,
    SubsampleERM,
    TooFewSamplesError,
)


@pytest.mark.claim("10.32")
def test_subsample_rarely_sees_poison() -> None:
    m, t, eps = 300, 2, 0.3
    rng = np.random.default_rng(6)
    X = np.concatenate([rng.random(m - t), np.full(t, 0.5)])[:, None]
    y = np.zeros(m, int)
    clean = 0
    for seed in range(1500):
        learner = SubsampleERM(MaxOpenInterval(), t, eps, random_state=seed).fit(X, y)
        clean += bool((learner.rows_ < m - t).all())
    assert learner.m0_ == 15 == bounds.subsample_size(m, t, eps)
    exact = (1 - t / m) ** 15
    assert exact >= 1 - eps / 3
    assert abs(clean / 1500 - exact) <= 4 * np.sqrt(exact * (1 - exact) / 1500)
    assert bounds.subsample_size(99, 1, 0.1) == 3
    assert isinstance(learner.model_, MaxOpenInterval)  # proper: the base's own hypothesis
    with pytest.raises(TooFewSamplesError):
        SubsampleERM(MaxOpenInterval(), 5, 0.01).fit(X, y)
