from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.principal.blum_mansour import BlumMansour, contextual_probabilities, stationary
from counterplay.principal.bounds import blum_mansour_bound


def swap_regret(mixed, gains):
    """Regret of the mixed actions against the best swap of every action."""
    S = mixed.T @ gains  # S[a, b]: gain of b weighted by the probability of playing a
    return float((S.max(axis=1) - np.diag(S)).sum())


def play(learner, gains):
    mixed = []
    for row in gains:
        mixed.append(learner.probs())
        learner.observe(row)
    return np.array(mixed)


@pytest.mark.claim("07.28")
@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_swap_regret_stays_below_the_bound_at_every_time(n):
    rng = np.random.default_rng(n)
    T = 1200
    sequences = {
        "random": rng.uniform(-1, 1, size=(T, n)),
        "blocks": np.eye(n)[(np.arange(T) // 37) % n] * 2 - 1,
        "switch": np.where(
            np.arange(T)[:, None] < T // 2, np.linspace(1, -1, n), np.linspace(-1, 1, n)
        ),
    }
    for gains in sequences.values():
        mixed = play(BlumMansour(n), gains)
        for t in (10, 100, 500, T):
            assert swap_regret(mixed[:t], gains[:t]) <= blum_mansour_bound(n, t)


@pytest.mark.claim("07.28")
@pytest.mark.parametrize("n", [2, 3, 5])
def test_adaptive_adversary(n):
    """The likeliest action always gets the lowest gain."""
    learner, T = BlumMansour(n), 1000
    mixed, gains = [], []
    for _ in range(T):
        q = learner.probs()
        row = np.ones(n)
        row[q.argmax()] = -1.0
        learner.observe(row)
        mixed.append(q)
        gains.append(row)
    assert swap_regret(np.array(mixed), np.array(gains)) <= blum_mansour_bound(n, T)


def test_mixed_action_is_a_fixed_point_of_the_rows():
    learner = BlumMansour(4)
    for row in np.random.default_rng(0).uniform(-1, 1, size=(50, 4)):
        learner.observe(row)
    rate = 2 * np.sqrt(4 * np.log(4) / 51) / 2
    rows = np.exp(rate * learner._gains)
    rows /= rows.sum(axis=1, keepdims=True)
    q = learner.probs()
    assert q @ rows == pytest.approx(q, abs=1e-9)


def test_stationary_distribution_of_nearly_reducible_chains():
    tiny = 1e-13
    rows = np.array([[1 - tiny, tiny, 0], [3 * tiny, 1 - 4 * tiny, tiny], [0, tiny, 1 - tiny]])
    rows = np.maximum(rows, 1e-30)
    # detailed balance: q0 tiny = q1 3 tiny, q1 tiny = q2 tiny
    assert stationary(rows) == pytest.approx([0.6, 0.2, 0.2], rel=1e-6)


def test_contexts_are_separate_learners():
    rng = np.random.default_rng(0)
    T, contexts = 200, rng.integers(0, 3, 200)
    gains = rng.uniform(-1, 1, size=(T, 3))
    mixed = contextual_probabilities(contexts, np.array([3, 2, 3]), gains, 2.0)
    for k, n in enumerate((3, 2, 3)):
        rounds = contexts == k
        alone = play(BlumMansour(n), gains[rounds, :n])
        assert mixed[rounds, :n] == pytest.approx(alone)
        assert (mixed[rounds, n:] == 0).all()


def test_actions_follow_the_probabilities():
    learner = BlumMansour(3, random_state=0)
    for _ in range(30):
        learner.observe([1.0, 0.0, -1.0])
    q = learner.probs()
    counts = np.zeros(3)
    for _ in range(4000):
        learner._choice = -1
        counts[learner.act()] += 1
    assert counts / 4000 == pytest.approx(q, abs=0.03)
    assert learner.act() == learner.act()


def test_single_action_and_bad_gains():
    learner = BlumMansour(1)
    learner.observe([0.3])
    assert learner.probs().tolist() == [1.0]
    with pytest.raises(InvalidInputError, match="one entry per action"):
        BlumMansour(2).observe([0.1])
    with pytest.raises(InvalidInputError, match="finite"):
        BlumMansour(2).observe([0.1, np.nan])
    with pytest.raises(InvalidInputError, match="width"):
        BlumMansour(2, width=0.0)
