"""MWMR: the bound, the exact worst case, and the adversary that reaches it."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.strategic import MWMR, Agents, Applicants, LinearClass, bounds, instances, play
from counterplay.strategic.lab import mwmr_worst_mistakes
from counterplay.strategic.mwmr import worst_case_table


@pytest.mark.claim("02.11")
@pytest.mark.parametrize("n", [2, 4, 16, 64])
def test_worst_case_is_below_the_refined_bound(n: int) -> None:
    T = 2 * n**2
    V = mwmr_worst_mistakes(n, T)
    refined = [bounds.mwmr_mistakes(n, t, "refined") for t in range(T + 1)]
    assert (np.asarray(refined) - V >= -1e-9).all()
    assert (np.diff(V) >= -1e-12).all()


@pytest.mark.claim("02.11")
def test_worst_case_values() -> None:
    V = mwmr_worst_mistakes(64, 4096)
    assert V[64] == pytest.approx(16.96, abs=0.01)
    assert V[1024] == pytest.approx(50.38, abs=0.01)
    assert V[2048] == pytest.approx(60.70, abs=0.01)
    assert V[4096] == pytest.approx(63.0, abs=0.01)
    small = mwmr_worst_mistakes(16, 128)
    assert [small[16], small[64], small[128]] == pytest.approx([6.30, 11.19, 13.81], abs=0.01)


@pytest.mark.claim("02.11")
def test_recursion_by_hand() -> None:
    """The same dynamic programme written as its formula."""
    n, T = 6, 9
    V = np.zeros((T + 1, n + 1))
    for t in range(1, T + 1):
        for m in range(2, n + 1):
            options = [V[t - 1, m]]
            for k in range(1, m):
                rest = sum(V[t - 1, m - j] for j in range(1, k + 1))
                options.append((k + rest) / m + (1 - k / m) * V[t - 1, m])
            V[t, m] = max(options)
    assert np.allclose(worst_case_table(n, T)[0], V)


@pytest.mark.claim("02.11")
def test_optimal_adversary_reaches_the_worst_case() -> None:
    worst = instances.mwmr_worst_case(16, 64)
    runs = []
    for seed in range(400):
        learner = MWMR(worst.hypotheses, random_state=seed)
        runs.append(play(learner, worst.adversary()).mistakes)
    error = np.std(runs, ddof=1) / np.sqrt(len(runs))
    assert abs(np.mean(runs) - mwmr_worst_mistakes(16, 64)[-1]) <= 4 * error


@pytest.mark.claim("02.38")
def test_blockwise_simulation_has_the_same_law() -> None:
    rng = np.random.default_rng(0)
    rules = LinearClass(rng.normal(size=(40, 3)), rng.normal(size=40))
    agents = Agents.from_target(rules, rng.normal(size=(120, 3)), radius=0.4, target=5)
    slow = [
        play(MWMR(rules, random_state=s), Applicants(agents, "features_after")).mistakes
        for s in range(150)
    ]
    fast = [
        play(MWMR(rules, random_state=s), Applicants(agents, "features_after"), fast=True).mistakes
        for s in range(1000, 1600)
    ]
    error = np.sqrt(np.var(slow, ddof=1) / len(slow) + np.var(fast, ddof=1) / len(fast))
    assert abs(np.mean(slow) - np.mean(fast)) <= 4 * error


def test_thesis_bound_in_expectation_on_linear_rules() -> None:
    rng = np.random.default_rng(1)
    rules = LinearClass(rng.normal(size=(128, 4)), rng.normal(size=128))
    agents = Agents.from_target(rules, rng.normal(size=(400, 4)), radius=0.5, target=9)
    runs = [
        play(MWMR(rules, random_state=s), Applicants(agents, "features_after"), fast=True).mistakes
        for s in range(40)
    ]
    assert np.mean(runs) <= bounds.mwmr_mistakes(128, 400, "refined")
    assert max(runs) <= 127
