"""What a round reveals: divergences, smoothing, and the bandit view."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from counterplay.errors import InvalidInputError
from counterplay.strategic import bounds, instances
from counterplay.strategic.lab import UnionPredictor


def total_variation(p: np.ndarray, q: np.ndarray) -> float:
    return float(np.abs(p - q).sum() / 2)


@pytest.mark.claim("02.31")
@pytest.mark.parametrize("p", [0.001, 0.05, 0.3])
def test_smoothing_changes_a_transcript_by_at_most_pT(p: float) -> None:
    """Three kinds of agents, T = 3 rounds, a learner that reacts to what it has seen."""
    base, other = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])
    mixed = (1 - p) * base + p * other
    T = 3

    def transcript_law(law: np.ndarray) -> np.ndarray:
        """Law of the sequences of (published rule, answer); the rule depends on the past."""
        out: dict[tuple[int, ...], float] = {}
        for agents in product(range(3), repeat=T):
            history: list[int] = []
            for agent in agents:
                rule = sum(history) % 2
                history.append(2 * rule + int(agent <= rule))
            key = tuple(history)
            out[key] = out.get(key, 0.0) + float(np.prod(law[list(agents)]))
        keys = list(product(range(4), repeat=T))
        return np.array([out.get(k, 0.0) for k in keys])

    distance = total_variation(transcript_law(base), transcript_law(mixed))
    assert distance <= 1 - (1 - p) ** T <= p * T
    finest = total_variation(
        np.array([np.prod(base[list(a)]) for a in product(range(3), repeat=T)]),
        np.array([np.prod(mixed[list(a)]) for a in product(range(3), repeat=T)]),
    )
    assert distance <= finest <= p * T


@pytest.mark.claim("02.32")
@pytest.mark.parametrize("case", ["conservative", "non_ball"])
@pytest.mark.parametrize("n", [3, 5, 10, 40])
@pytest.mark.parametrize("eps", [0.001, 0.05])
def test_laws_and_divergences(case: str, n: int, eps: float) -> None:
    p = eps / (16 * n**2)
    worst = 0.0
    for k in range(1, n + 1):
        table = instances.kl_table(n, k, p, case)
        for name, row in table.iterrows():
            total = (k - 1) * row["other"] + row["target"] + row["stay"]
            assert total == pytest.approx(1.0, abs=1e-12), name
            assert row["kl"] <= row["bound"] + 1e-15
        mean = table.loc["benchmark"]
        p_law = [mean["other"]] * (k - 1) + [mean["target"], mean["stay"]]
        for name in table.index[1:]:
            row = table.loc[name]
            q_law = [row["other"]] * (k - 1) + [row["target"], row["stay"]]
            assert row["kl"] == pytest.approx(instances.kl_divergence(p_law, q_law), abs=1e-12)
        if k < n:  # the benchmark is the average over all targets
            mixed = (k - 1) * table.loc["inside", "other"] + table.loc["inside", "target"]
            mixed = (mixed + (n - k) * table.loc["outside", "other"]) / n
            assert mean["other"] == pytest.approx(mixed, rel=1e-9)
        outside = table.loc["outside", "kl"] if k < n else 0.0
        total = k * table.loc["inside", "kl"] + (n - k) * outside
        worst = max(worst, total / (np.log(1 / p) + 2))
    assert worst <= 1.0  # what the lower bound uses per round


@pytest.mark.claim("02.32")
@pytest.mark.parametrize("n", [3, 5, 10, 40])
@pytest.mark.parametrize("eps", [0.001, 0.05])
def test_blind_divergences(n: int, eps: float) -> None:
    p = eps / (16 * n**2)
    for k in range(1, n):
        table = instances.kl_table(n, k, p, "blind")
        total = table.loc["weighted sum"]
        assert total["kl"] <= total["bound"] == pytest.approx(2 / n * np.log(1 / p))
        average = (k * table.loc["inside", "other"] + (n - k) * table.loc["outside", "other"]) / n
        assert table.loc["benchmark", "other"] == pytest.approx(average, rel=1e-9)


@pytest.mark.claim("02.32")
def test_rounds_without_feedback_are_the_bandit() -> None:
    """All arms of five rules: minus the reward has the law of the decision on a negative agent."""
    n, target, p = 5, 2, 0.01
    population = instances.BlindInstance(n, 0.02, target=target, smoothing=p)
    weight, agents = population.support()
    negative = agents.y == 0
    bandit = instances.LinearBanditEnv(n, target, p)
    rng = np.random.default_rng(0)
    for code in range(1, 2**n):
        arm = np.array([(code >> i) & 1 for i in range(n)])
        union = UnionPredictor(population.hypotheses, np.flatnonzero(arm))
        yes = union.accepted(agents)
        share = weight[negative & yes].sum() / weight[negative].sum()
        assert bandit.mean(arm) == pytest.approx(share, abs=1e-12)
        rewards = bandit.pull(arm, 500, rng)
        assert set(rewards.tolist()) <= {-1, 0}
        hits = int(-rewards.sum())
        assert stats.binomtest(hits, 500, min(1.0, share)).pvalue > 1e-5


def test_explicit_lower_bounds() -> None:
    assert bounds.information_lower_bound(256, 0.01) == pytest.approx(6.5, abs=0.05)
    assert bounds.information_lower_bound(256, 0.01, "blind") > bounds.information_lower_bound(
        256, 0.01, "non_ball"
    )
    assert bounds.proper_lower_bound(256, 0.01) == pytest.approx(2116.67, abs=0.01)


def test_bad_arms_and_tables_are_refused() -> None:
    bandit = instances.LinearBanditEnv(3, 0, 0.1)
    for arm in ([0, 0, 0], [1, 0], [2, 0, 1]):
        with pytest.raises(InvalidInputError, match="not all zero"):
            bandit.mean(arm)
    with pytest.raises(InvalidInputError, match="k"):
        instances.kl_table(5, 6, 0.01)
    with pytest.raises(InvalidInputError, match="k"):
        instances.kl_table(5, 5, 0.01, "blind")
    with pytest.raises(InvalidInputError, match="same length"):
        instances.kl_divergence([1.0], [0.5, 0.5])
    assert instances.kl_divergence([1.0, 0.0], [0.0, 1.0]) == np.inf
