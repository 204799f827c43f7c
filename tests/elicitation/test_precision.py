"""The person's precision."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.elicitation import (
    LinearPreferenceUser,
    PreferenceElicitor,
    answered_by,
    instances,
)
from counterplay.elicitation.lab import (
    estimate_precision,
)
from elicitation.problems import unit


@pytest.mark.claim("08.15")
def test_precision_bracket_contains_eps_over_x_and_ignores_scale() -> None:
    rng = np.random.default_rng(5)
    for _ in range(100):
        value, w = rng.random(3) + 0.1, unit(rng, 3)
        x = float(value @ w)
        eps = x * 10 ** rng.uniform(-4, -0.01)
        found = estimate_precision(value, LinearPreferenceUser(w, eps))
        assert found.low <= eps / x + 1e-12
        assert found.high >= eps / x - 1e-12
        assert found.high - found.low <= 0.5 * found.low + 1e-15
        scaled = estimate_precision(value, LinearPreferenceUser(7 * w, 7 * eps))
        assert (scaled.low, scaled.high, scaled.n_queries) == (
            found.low,
            found.high,
            found.n_queries,
        )


@pytest.mark.claim("08.15")
def test_scaling_weights_and_precision_together_changes_no_output() -> None:
    mdp = instances.random_mdp(2)
    w = unit(np.random.default_rng(8), 4)
    small, large = (
        answered_by(PreferenceElicitor(mdp, precision=True), LinearPreferenceUser(c * w, c * 0.01))
        for c in (1.0, 7.0)
    )
    assert small.n_queries == large.n_queries
    assert small.estimate.w_hat.tolist() == large.estimate.w_hat.tolist()


def test_precision_is_none_if_the_benchmark_is_worth_nothing() -> None:
    assert estimate_precision([0.1, 0.1], LinearPreferenceUser([1.0, 1.0], 5.0)) is None
