"""The benchmark."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.elicitation import (
    LinearPreferenceUser,
    bounds,
    instances,
    plan,
)
from counterplay.elicitation.comparisons import Answer, Option
from counterplay.elicitation.lab import (
    MDPOracle,
    PointSetOracle,
    find_benchmark,
)
from elicitation.problems import unit


class CountingUser(LinearPreferenceUser):
    def __init__(self, w: np.ndarray, eps: float) -> None:
        super().__init__(w, eps)
        self.count = 0

    def compare(self, first: Option, second: Option) -> Answer:
        self.count += 1
        return super().compare(first, second)


@pytest.mark.claim("08.03")
@pytest.mark.parametrize("k", [1, 2, 4, 6])
def test_benchmark_uses_k_minus_1_questions_and_loses_at_most_eps(k: int) -> None:
    rng = np.random.default_rng(k)
    for _ in range(60):
        oracle = PointSetOracle(rng.random((30, k)))
        w = unit(rng, k)
        eps = 10 ** rng.uniform(-4, 1)
        user = CountingUser(w, eps)
        found = find_benchmark(oracle, user)
        assert user.count == found.n_queries == k - 1 == bounds.benchmark_questions(k)
        _, single = oracle.argmax(np.eye(k))
        assert found.value @ w >= (single @ w).max() - eps - 1e-12


@pytest.mark.claim("08.04")
def test_benchmark_has_a_fair_share_of_the_best_value() -> None:
    rng = np.random.default_rng(0)
    checked = 0
    for seed in range(60):
        k = int(rng.integers(2, 6))
        mdp = instances.random_mdp(seed, k=k, n_states=6, horizon=4)
        w = unit(rng, k)
        best = float(plan(mdp, w).scalar_values[0])
        eps = best / (2 * k) * rng.uniform(0.01, 1.0)
        x = find_benchmark(MDPOracle(mdp), LinearPreferenceUser(w, eps)).value @ w
        assert x >= bounds.benchmark_share(k) * best - 1e-12
        checked += 1
    assert checked == 60
