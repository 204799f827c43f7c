"""What holds for every learner over experts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplay.core.online import LazyChain, ScalarLearner
from counterplay.errors import InvalidInputError, ProtocolError


def stream(learner: ScalarLearner, losses: np.ndarray) -> np.ndarray:
    path = []
    for row in losses:
        path.append(learner.act())
        learner.observe(row)
    return np.array(path)


@pytest.mark.claim("09.27")
def test_streaming_plays_the_batch_path(make_learner: Any, losses: np.ndarray) -> None:
    streamed = stream(make_learner().reset(losses.shape[1], len(losses), 11), losses)
    batch = make_learner().sample(losses, 1, random_state=11)[0]
    assert np.array_equal(streamed, batch)
    assert np.array_equal(batch, make_learner().sample(losses, 1, random_state=11)[0])


def test_streaming_probabilities_are_the_batch_marginals(
    make_learner: Any, losses: np.ndarray
) -> None:
    learner = make_learner().reset(losses.shape[1], len(losses), 0)
    marginals = make_learner().marginals(losses)
    assert np.allclose(marginals.sum(axis=1), 1.0, atol=1e-12)
    for i, row in enumerate(losses):
        probs = learner.probs()
        if probs is not None:
            assert np.allclose(probs, marginals[i], rtol=0, atol=1e-12)
        learner.observe(row)


def test_paths_follow_the_marginals(make_learner: Any, losses: np.ndarray) -> None:
    learner = make_learner()
    n = 4000
    paths = learner.sample(losses[:40], n, horizon=300, random_state=3)
    marginals = learner.marginals(losses[:40], horizon=300)
    for i in (0, 7, 39):
        share = np.bincount(paths[:, i], minlength=losses.shape[1]) / n
        spread = np.sqrt(marginals[i] * (1 - marginals[i]) / n)
        assert (np.abs(share - marginals[i]) <= 5 * spread + 1e-12).all()


def test_expected_switches_match_sampled_ones(make_learner: Any) -> None:
    losses = np.random.default_rng(5).integers(0, 2, (60, 4)).astype(float)
    learner = make_learner()
    if "grid" in repr(learner):
        with pytest.raises(InvalidInputError, match="variant='exponential'"):
            learner.expected_switches(losses)
        return
    paths = learner.sample(losses, 6000, random_state=1)
    counts = (paths[:, 1:] != paths[:, :-1]).sum(axis=1)
    error = counts.std(ddof=1) / np.sqrt(len(counts))
    assert abs(counts.mean() - learner.expected_switches(losses)) <= 5 * error + 1e-9


def test_marginals_can_be_written_in_place(make_learner: Any, losses: np.ndarray) -> None:
    out = np.empty_like(losses)
    assert make_learner().marginals(losses, out=out) is out
    assert np.array_equal(out, make_learner().marginals(losses))


def test_acting_twice_gives_the_same_answer(make_learner: Any) -> None:
    learner = make_learner().reset(5, 50, 2)
    assert len({learner.act() for _ in range(5)}) == 1


def test_one_expert_is_trivial(make_learner: Any) -> None:
    losses = np.random.default_rng(0).random((20, 1))
    learner = make_learner()
    assert np.array_equal(learner.marginals(losses), np.ones((20, 1)))
    assert not learner.sample(losses, 3, random_state=0).any()


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ([0.0, 1.0], r"shape \(3,\)"),
        ([0.0, 0.5, 1.3], r"expert 2 is 1.30"),
        ([0.0, np.nan, 1.0], r"expert 1 is nan"),
        ([-0.2, 0.5, 1.0], r"expert 0 is -0.20"),
    ],
)
def test_bad_losses_are_refused_and_change_nothing(
    make_learner: Any, loss: list[float], message: str
) -> None:
    learner = make_learner().reset(3, 10, 0)
    learner.observe([0.1, 0.2, 0.3])
    before = learner.to_json() if "lambda" not in repr(learner) else None
    with pytest.raises(InvalidInputError, match=message):
        learner.observe(loss)
    if before is not None:
        assert learner.to_json() == before


def test_use_before_reset_is_refused(make_learner: Any) -> None:
    with pytest.raises(ProtocolError, match="call reset"):
        make_learner().act()


def test_bad_matrices_are_refused(make_learner: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"row 1 expert 2 is 1\.50"):
        make_learner().marginals([[0.0, 0.0, 0.0], [0.0, 1.0, 1.5]])
    with pytest.raises(InvalidInputError, match="must not be empty"):
        make_learner().marginals(np.zeros((0, 3)))


def test_missing_horizon_is_named() -> None:
    from counterplay.core.online import (
        ExploreThenCommit,
        FollowLazyLeader,
        FollowPerturbedLeader,
        Hedge,
        ShrinkingDartboard,
    )

    learners = [
        Hedge(),
        ShrinkingDartboard(),
        FollowLazyLeader(),
        FollowPerturbedLeader(),
        ExploreThenCommit(gap=0.1),
    ]
    for learner in learners:
        with pytest.raises(InvalidInputError, match="horizon"):
            learner.reset(3)


def test_chain_law_is_consistent(make_learner: Any, losses: np.ndarray) -> None:
    """Pushing the first distribution through the chain gives every later marginal."""
    learner = make_learner()
    if "FollowLazyLeader" in repr(learner):
        with pytest.raises(InvalidInputError, match="no round-by-round law"):
            learner.chain(losses)
        return
    chain: LazyChain = learner.chain(losses)
    current = chain.marginals[0]
    for i in range(1, len(losses)):
        leave = current * (1 - chain.keep[i])
        current = current * chain.keep[i] + leave.sum() * chain.redraw[i]
        assert np.allclose(current, chain.marginals[i], rtol=0, atol=1e-10)
