"""Follow the Lazy Leader: exact laws by quadrature, bounds, heavy tail."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

from counterplay.core.online import FollowLazyLeader, FollowPerturbedLeader
from counterplay.core.online.follow_lazy_leader import lazy_leader_scale
from counterplay.core.online.leader_laws import (
    exponential_leader_law,
    exponential_leader_switches,
    grid_leader_law,
)
from counterplay.errors import InvalidInputError
from counterplay.tradeoff import bounds


def alternating(E: int) -> np.ndarray:
    return np.tile([[0.0, 1.0], [1.0, 0.0]], (E // 2, 1))


@pytest.mark.claim("09.08")
@pytest.mark.parametrize("kind", ["coins", "alternating", "uniform"])
def test_switches_and_loss_keep_their_bounds(kind: str) -> None:
    rng = np.random.default_rng(4)
    losses = {
        "coins": lambda: rng.integers(0, 2, (200, 5)).astype(float),
        "alternating": lambda: alternating(200),
        "uniform": lambda: rng.random((200, 8)),
    }[kind]()
    E, K = losses.shape
    eps = lazy_leader_scale(K, E)
    learner = FollowLazyLeader()
    paths = learner.sample(losses, 8000, random_state=9)
    played = losses[np.arange(E), paths].sum(axis=1)
    switches = (paths[:, 1:] != paths[:, :-1]).sum(axis=1)
    slack = 4 * np.sqrt((switches.var() + eps**2 * played.var()) / len(paths))
    assert switches.mean() <= bounds.lazy_leader_switches(played.mean(), eps) + slack
    exact_loss = float((learner.marginals(losses) * losses).sum())
    assert learner.expected_switches(losses) <= eps * exact_loss + 1e-9
    assert exact_loss <= bounds.lazy_leader_loss(losses.sum(axis=0).min(), K, eps)


@pytest.mark.claim("09.30")
@pytest.mark.parametrize("K", [2, 3, 7, 30])
def test_law_equals_adaptive_quadrature(K: int) -> None:
    rng = np.random.default_rng(K)
    L, eps = rng.random(K) * 12, 0.4
    law = exponential_leader_law(L[None, :], eps)[0]
    for h in range(K):
        others = np.delete(L, h)

        def density(x: float, h: int = h, others: np.ndarray = others) -> float:
            ahead = np.maximum(x + others - L[h], 0.0)
            return float(eps * np.exp(-eps * x) * np.prod(1 - np.exp(-eps * ahead)))

        start = max(0.0, L[h] - others.min())
        value, error = integrate.quad(density, start, start + 120, limit=400, epsabs=1e-12)
        assert abs(value - law[h]) <= error + 1e-10


@pytest.mark.claim("09.30")
def test_grid_law_and_switches_equal_brute_force() -> None:
    rng = np.random.default_rng(0)
    before = np.array([[0.0, 0.7, 2.5, 0.1], [1.0, 0.7, 3.0, 0.1]])
    eps, n = 0.5, 400_000
    noise = rng.random((n, 4)) / eps
    grid = noise + np.ceil((before[0] - noise) * eps) / eps
    share = np.bincount(grid.argmin(axis=1), minlength=4) / n
    assert np.abs(share - grid_leader_law(before, eps)[0]).max() < 5 * 0.5 / np.sqrt(n)
    head = rng.exponential(1 / eps, (n, 4))
    moved = ((before[0] - head).argmin(axis=1) != (before[1] - head).argmin(axis=1)).mean()
    exact = exponential_leader_switches(before, eps)
    assert abs(moved - exact[1]) < 5 * np.sqrt(exact[1] / n)
    assert exact[0] == 0.0


def test_number_of_switches_is_heavy_tailed() -> None:
    losses = alternating(1600)
    learner = FollowLazyLeader()
    paths = learner.sample(losses, 20_000, random_state=0)
    switches = (paths[:, 1:] != paths[:, :-1]).sum(axis=1)
    assert learner.expected_switches(losses) < 16.8
    assert switches.max() == 1599
    assert (switches == 0).mean() > 0.98
    assert 90 < switches.std() < 250


def test_perturbed_leader_has_the_same_marginals() -> None:
    losses = np.random.default_rng(0).random((60, 5))
    assert np.array_equal(
        FollowLazyLeader().marginals(losses), FollowPerturbedLeader().marginals(losses)
    )


def test_lower_loss_means_higher_probability_even_when_far_apart() -> None:
    law = exponential_leader_law(np.array([[0.0, 1.0, 2000.0]]), 1.0)[0]
    assert law[0] > law[1] > law[2] == 0.0
    assert law.sum() == pytest.approx(1.0, abs=1e-15)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="eps"):
        FollowLazyLeader(0.0)
    with pytest.raises(InvalidInputError, match="variant"):
        FollowLazyLeader(variant="cube")  # type: ignore[arg-type]  # deliberately wrong
    with pytest.raises(InvalidInputError, match="no round-by-round law"):
        FollowLazyLeader().chain(np.zeros((3, 2)))
