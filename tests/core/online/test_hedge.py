"""Hedge: exact marginals by the fast kernels, regret bounds, step rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import softmax

from counterplay.core.online import Hedge
from counterplay.errors import InvalidInputError
from counterplay.tradeoff import bounds


def direct(losses: np.ndarray, steps: np.ndarray) -> np.ndarray:
    before = np.vstack([np.zeros(losses.shape[1]), np.cumsum(losses, axis=0)[:-1]])
    return softmax(-steps[:, None] * (before - before.min(axis=1, keepdims=True)), axis=1)


@pytest.mark.parametrize("eta", [0.0, 1e-4, 0.04, 0.05, 0.3, 0.8, 0.81, 3.0, 50.0])
def test_kernel_equals_softmax_of_cumulative_losses(eta: float) -> None:
    losses = np.random.default_rng(1).random((2000, 7))
    expected = direct(losses, np.full(2000, eta))
    assert np.allclose(Hedge(eta).marginals(losses), expected, rtol=0, atol=2e-13)


def test_decreasing_and_callable_steps() -> None:
    losses = np.random.default_rng(2).random((500, 5))
    rounds = np.arange(1, 501)
    rule = np.sqrt(2 * np.log(5) / rounds)
    assert np.allclose(Hedge("decreasing").marginals(losses), direct(losses, rule), atol=1e-13)
    mine = Hedge(lambda i: 0.3 / i).marginals(losses)
    assert np.allclose(mine, direct(losses, 0.3 / rounds), atol=1e-13)


def test_nothing_drifts_or_underflows_in_long_runs() -> None:
    losses = np.zeros((50_000, 3))
    losses[:, 1] = 1.0  # hopeless at first ...
    losses[25_000:, 0] = 1.0  # ... and level with the leader in the end
    losses[25_000:, 1] = 0.0
    losses[:, 2] = 1.0
    P = Hedge(0.5).marginals(losses)
    assert P[25_000, 0] == 1.0
    assert abs(P[-1, 0] - np.exp(0.0) / (1 + np.exp(-0.5))) < 1e-9
    assert np.isfinite(P).all()


@pytest.mark.parametrize("K", [2, 10, 100])
@pytest.mark.parametrize("E", [50, 400])
def test_regret_keeps_its_bounds_at_every_prefix(E: int, K: int) -> None:
    rng = np.random.default_rng(E * K)
    for losses in (rng.random((E, K)), rng.integers(0, 2, (E, K)).astype(float)):
        fixed = (Hedge().marginals(losses) * losses).sum() - losses.sum(axis=0).min()
        assert fixed <= bounds.hedge_regret(E, K)
        cumulative = np.cumsum(losses, axis=0).min(axis=1)
        played = np.cumsum((Hedge("decreasing").marginals(losses) * losses).sum(axis=1))
        limit = [bounds.decreasing_hedge_regret(m, K) for m in range(1, E + 1)]
        assert (played - cumulative <= np.array(limit)).all()


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(float, st.tuples(st.integers(1, 40), st.integers(2, 5)), elements=st.floats(0, 1)),
    st.floats(0, 4),
)
def test_marginals_are_probabilities_ordered_by_cumulative_loss(
    losses: np.ndarray, eta: float
) -> None:
    P = Hedge(eta).marginals(losses)
    assert np.allclose(P.sum(axis=1), 1.0, atol=1e-12)
    before = np.vstack([np.zeros(losses.shape[1]), np.cumsum(losses, axis=0)[:-1]])
    best = P[np.arange(len(P)), before.argmin(axis=1)]
    assert (best >= P.max(axis=1) - 1e-12).all()


def test_other_loss_ranges() -> None:
    rng = np.random.default_rng(0)
    gains = rng.uniform(-2, 3, (300, 4))
    scaled = (gains + 2) / 5
    wide = Hedge(loss_range=(-2.0, 3.0))
    assert np.allclose(wide.marginals(gains), Hedge().marginals(scaled), atol=1e-11)
    with pytest.raises(InvalidInputError, match=r"row 0 expert 1 is 9\.00"):
        wide.marginals([[0.0, 9.0]])


@pytest.mark.parametrize("bad", ["fast", -0.1, float("nan"), True])
def test_bad_steps_are_refused(bad: object) -> None:
    with pytest.raises(InvalidInputError, match="step_size"):
        Hedge(bad)  # type: ignore[arg-type]  # deliberately wrong


def test_bad_range_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="loss_range"):
        Hedge(loss_range=(1.0, 0.0))
