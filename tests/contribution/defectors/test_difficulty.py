"""Difficulty scores."""

from __future__ import annotations

import numpy as np
import pytest

from contribution.digits import NET
from counterplay.contribution.defectors.difficulty import _subsets
from counterplay.contribution.lab import Trials, difficulty_scores, hard_and_easy
from counterplay.core.draws import run_keys
from counterplay.errors import InvalidInputError


def test_difficulty_finds_corrupted_points() -> None:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X, y = X / 16.0, y.astype(np.int64)
    rng = np.random.default_rng(0)
    bad = rng.choice(1200, 120, replace=False)
    wrong = y[:1200].copy()
    wrong[bad] = (wrong[bad] + rng.integers(1, 10, 120)) % 10
    margin = difficulty_scores(
        NET, X[:1200], wrong, method="margin", trials=Trials(count=10, batch_size=32, max_steps=200)
    )
    hard, _ = hard_and_easy(margin.scores)
    assert np.isin(hard, bad).mean() > 0.8
    options = Trials(count=30, subset_size=150, max_steps=150, target=0.5, chunk=30)
    holdout = (X[1200:1500], y[1200:1500])
    timed = difficulty_scores(NET, X[:1200], wrong, holdout, trials=options)
    assert timed.censored < 0.5
    assert 5 <= timed.counts.min() <= timed.counts.max() <= 150
    member = np.zeros((30, 1200))
    np.put_along_axis(member, _subsets(run_keys(0, 30), 1200, 150), 1.0, axis=1)
    seen = member.sum(axis=0) > 0
    expected = timed.counts @ member[:, seen] / member[:, seen].sum(axis=0)
    assert timed.scores[seen] == pytest.approx(expected, abs=1e-3)
    with pytest.raises(InvalidInputError, match="holdout"):
        difficulty_scores(NET, X[:1200], wrong)


def test_a_share_of_a_half_splits_the_points() -> None:
    hard, easy = hard_and_easy(np.array([3.0, 1.0, 2.0, 0.0]), share=0.5)
    assert (sorted(hard.tolist()), sorted(easy.tolist())) == ([0, 2], [1, 3])
    with pytest.raises(InvalidInputError, match="no point"):
        hard_and_easy(np.arange(4.0), share=0.1)
