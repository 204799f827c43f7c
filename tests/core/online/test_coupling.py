"""Maximal coupling: total variation, exact marginals, fewest switches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from counterplay.core.online import (
    FollowLazyLeader,
    Hedge,
    MaximalCouplingSampler,
    ShrinkingDartboard,
    maximal_coupling,
)
from counterplay.errors import InvalidInputError


@pytest.mark.claim("09.09")
@pytest.mark.parametrize("K", [2, 16])
def test_switch_rate_is_total_variation_and_below_the_dartboards_draws(K: int) -> None:
    E, n = 100, 20_000
    losses = np.random.default_rng(K).integers(0, 2, (E, K)).astype(float)
    dartboard = ShrinkingDartboard()
    chain = maximal_coupling(dartboard.marginals(losses))
    distance = 0.5 * np.abs(np.diff(chain.marginals, axis=0)).sum(axis=1)
    assert np.allclose(chain.switch_probability[1:], distance, rtol=0, atol=1e-12)
    assert (distance <= dartboard.chain(losses).redraw_probability[1:] + 1e-12).all()
    paths = chain.sample(n, random_state=1)
    rate = (paths[:, 1:] != paths[:, :-1]).mean(axis=0)
    assert (np.abs(rate - distance) <= 5 * np.sqrt(distance / n) + 1e-3 / n).all()
    share = np.stack([(paths == h).mean(axis=0) for h in range(K)], axis=1)
    spread = np.sqrt(chain.marginals * (1 - chain.marginals) / n)
    assert (np.abs(share - chain.marginals) <= 5.5 * spread + 1e-12).all()


@settings(max_examples=80, deadline=None)
@given(
    hnp.arrays(
        float, st.tuples(st.integers(2, 8), st.integers(2, 5)), elements=st.floats(0, 1, width=32)
    )
)
def test_coupling_of_arbitrary_marginals_is_exact(raw: np.ndarray) -> None:
    raw = raw + np.eye(raw.shape[1])[np.arange(len(raw)) % raw.shape[1]] * 1e-3
    P = raw / raw.sum(axis=1, keepdims=True)
    chain = maximal_coupling(P)
    for i in range(1, len(P)):
        leave = P[i - 1] * (1 - chain.keep[i])
        reached = P[i - 1] * chain.keep[i] + leave.sum() * chain.redraw[i]
        assert np.allclose(reached, P[i], rtol=0, atol=1e-12)
        distance = 0.5 * np.abs(P[i] - P[i - 1]).sum()
        assert chain.switch_probability[i] == pytest.approx(distance, abs=1e-12)


def test_equal_distributions_never_switch_and_zero_probability_is_never_played() -> None:
    same = np.tile([0.2, 0.8], (50, 1))
    assert maximal_coupling(same).expected_switches == 0.0
    moving = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    paths = maximal_coupling(moving).sample(500, random_state=0)
    assert (paths[:, 0] == 0).all()
    assert (paths[:, 1] > 0).all()
    assert (paths[:, 2] == 2).all()


def test_works_with_decreasing_steps_and_refuses_unknown_probabilities() -> None:
    losses = np.random.default_rng(0).integers(0, 2, (400, 2)).astype(float)
    decreasing = MaximalCouplingSampler(Hedge("decreasing"))
    assert decreasing.expected_switches(losses) < 1.0 * np.sqrt(400 * np.log(2))
    with pytest.raises(InvalidInputError, match="does not know its probabilities"):
        MaximalCouplingSampler(FollowLazyLeader()).reset(2, 10, 0).act()
    with pytest.raises(InvalidInputError, match="base must be a ScalarLearner"):
        MaximalCouplingSampler("hedge")  # type: ignore[arg-type]  # deliberately wrong
    with pytest.raises(InvalidInputError, match="sum to 1"):
        maximal_coupling([[0.5, 0.4]])
