"""Answers that may be wrong: adjudication and reliability of labelers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from counterplay.errors import InvalidInputError
from counterplay.labeling.bounds import adjudication_error
from counterplay.labeling.reliability import labeler_reliability


def adjudicated_wrong(noise: float, first_to: int, classes: int, draws: int) -> float:
    """Share of adjudications that end with a wrong label."""
    rng = np.random.default_rng(first_to)
    most = classes * (first_to - 1) + 1
    wrong = rng.random((draws, most)) < noise
    labels = np.where(wrong, rng.integers(1, classes, (draws, most)), 0)  # 0 is the true one
    reached = np.stack([np.cumsum(labels == c, axis=1) >= first_to for c in range(classes)])
    first = np.where(reached.any(axis=2), reached.argmax(axis=2), most)
    return float((first.argmin(axis=0) != 0).mean())


@pytest.mark.claim("24.24")
@pytest.mark.parametrize("noise", [0.05, 0.15, 0.3])
@pytest.mark.parametrize("first_to", [1, 2, 3, 4, 5])
def test_error_of_adjudication(noise: float, first_to: int) -> None:
    expected = adjudication_error(noise, first_to)
    error = (expected * (1 - expected) / 1e5) ** 0.5
    two = adjudicated_wrong(noise, first_to, 2, 100_000)
    assert abs(two - expected) <= 4 * error
    several = adjudicated_wrong(noise, first_to, 4, 100_000)
    assert several <= expected + 4 * error


@pytest.mark.claim("24.26")
def test_reliability_ranks_labelers_and_covers() -> None:
    noise = np.array([0.02, 0.05, 0.1, 0.2, 0.4])
    ranks, covered = [], []
    for seed in range(60):  # 20 would leave the coverage to chance: 0.89 on average, s.e. 0.03
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, 2, 60)
        told = [
            (x, f"w{w}", int(truth[x] ^ (rng.random() < noise[w])))
            for x in range(60)
            for w in range(5)
        ]
        frame = labeler_reliability(told).to_frame()
        ranks.append(stats.spearmanr(frame["wrong_share"], noise).statistic)
        covered += ((frame["low"] <= noise) & (noise <= frame["high"])).tolist()
    assert np.mean(ranks) >= 0.9
    assert np.mean(covered) >= 0.85


def test_few_repeated_items_are_prior_only() -> None:
    report = labeler_reliability([(0, "ann", 0), (0, "bob", 1), (1, "ann", 1)])
    assert "fewer than 10 repeated items: prior only" in report.summary()
    assert labeler_reliability([]).summary() == "no labeler is named in the answers"
    with pytest.raises(InvalidInputError, match="codes from 0 to 1"):
        labeler_reliability([(0, "ann", 5)])
