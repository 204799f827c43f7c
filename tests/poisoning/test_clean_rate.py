"""Certified rates of the randomised wrappers, and their intervals over draws and points."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import rel_entr

from counterplay.core.stats import Interval, clopper_pearson
from counterplay.poisoning import BlockMajorityClassifier, LabelledSet, bounds
from counterplay.poisoning.clean_rate import chernoff_interval, crossed_interval
from counterplay.poisoning.lab import (
    BatchLearner,
    IntervalProjector,
    MaxOpenInterval,
    ProjectedMajority,
    SubsampleERM,
    TooFewSamplesError,
    open_interval_rate,
)


@pytest.mark.claim("10.29")
def test_certified_rate_of_blocks_beats_the_plain_learner() -> None:
    rng = np.random.default_rng(2)
    X = rng.random(1000)
    S = LabelledSet(X, np.zeros(1000))
    test = np.linspace(0, 1, 1001)
    for t, draws in ((1, 320), (5, 120)):
        rate = BlockMajorityClassifier(MaxOpenInterval(), t, random_state=0).certified_upper_rate(
            S.X, S.y, test, np.zeros(1001), n_permutations=draws
        )
        assert rate.high < open_interval_rate(X, t)
        assert rate.estimate <= 0.0005


@pytest.mark.claim("10.31", "10.32")
def test_certified_rates_of_the_other_wrappers() -> None:
    rng = np.random.default_rng(9)
    S = LabelledSet(rng.random(1240), np.zeros(1240))
    test = np.linspace(0, 1, 201)
    projector = IntervalProjector(test)
    projected = ProjectedMajority(MaxOpenInterval(), 1, 3, projector, random_state=0)
    rate = projected.certified_upper_rate(S.X, S.y, test, np.zeros(201))
    assert rate.high < 0.02
    subsample = SubsampleERM(MaxOpenInterval(), 2, 0.3, random_state=0)
    span = subsample.certified_upper_rate(S.X, S.y, test, np.zeros(201))
    drawn = 1 - (1240 / 1242) ** bounds.subsample_size(1242, 2, 0.3)
    assert drawn <= 0.1
    assert drawn < span.low < span.estimate < span.high
    expected = bounds.largest_gap_error(bounds.subsample_size(1242, 2, 0.3))
    assert expected in Interval(expected, *_base_error(span, drawn))
    with pytest.raises(TooFewSamplesError):
        SubsampleERM(MaxOpenInterval(), 90, 0.3).certified_upper_rate(
            [0.1], [0], test, np.zeros(201)
        )


def _base_error(span: Interval, drawn: float) -> tuple[float, float]:
    """Undo drawn + (1 - drawn) * error."""
    return (span.low - drawn) / (1 - drawn), (span.high - drawn) / (1 - drawn)


class LuckyDraw(BatchLearner):
    """Wrong on a quarter of the points, at all of them at once or not at all: one row decides."""

    def fit(self, X, y):
        self.bad_ = bool((np.asarray(X)[:, 0] == 0).any())
        return self

    def predict(self, X):
        return (self.bad_ & (np.asarray(X)[:, 0] < 0.25)).astype(np.uint8)


@pytest.mark.claim("10.45")
def test_interval_of_a_rate_covers_although_points_share_the_draw() -> None:
    m, t, eps, n, draws = 40, 1, 0.5, 50, 40
    rows = np.concatenate([[0.0], np.linspace(0.3, 1, m - 1)])
    S = LabelledSet(rows, np.zeros(m))
    size = bounds.subsample_size(m + t, t, eps)
    drawn = 1 - (m / (m + t)) ** size
    truth = drawn + (1 - drawn) * (1 - (1 - 1 / m) ** size) * 0.25  # exact
    covered, naive = 0, 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        test = rng.random((n, 1))
        span = SubsampleERM(LuckyDraw(), t, eps, random_state=rng).certified_upper_rate(
            S.X, S.y, test, np.zeros(n), n_permutations=draws
        )
        covered += truth in span
        base = (span.estimate - drawn) / (1 - drawn)
        pairs = clopper_pearson(round(base * n * draws), n * draws)
        naive += (truth - drawn) / (1 - drawn) in pairs
    assert covered >= 0.95 * 300
    assert naive < 0.85 * 300  # pairs are not independent trials


@pytest.mark.claim("10.45")
@pytest.mark.parametrize(("draws", "points"), [(12, 300), (300, 12), (25, 25)])
def test_crossed_interval_covers_in_both_directions(draws: int, points: int) -> None:
    rng, covered = np.random.default_rng(draws), 0
    for _ in range(400):
        row, column = rng.random(draws) < 0.2, rng.random(points) < 0.3
        covered += 0.2 + 0.8 * 0.3 in crossed_interval(row[:, None] | column[None, :])
    assert covered >= 0.95 * 400


@pytest.mark.claim("10.45")
def test_chernoff_interval_is_the_inverse_of_its_bound() -> None:
    for mean in (0.0, 0.03, 0.5, 1.0):
        for n in (1, 20, 500):
            span = chernoff_interval(mean, n)
            for end in (span.low, span.high):
                if 1e-9 < end < 1:
                    kl = rel_entr(mean, end) + rel_entr(1 - mean, 1 - end)
                    assert n * kl == pytest.approx(np.log(40))
            exact = clopper_pearson(round(mean * n), n)
            if (mean * n).is_integer():
                assert span.low <= exact.low + 1e-9
                assert exact.high <= span.high + 1e-9
