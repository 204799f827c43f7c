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
    forgetting = difficulty_scores(
        NET,
        X[:1200],
        wrong,
        method="forgetting",
        trials=Trials(count=6, batch_size=32, max_steps=150),
    )
    assert np.isin(hard_and_easy(forgetting.scores)[0], bad).mean() > 0.5  # 0.1 by chance
    assert forgetting.scores.min() >= 0
    options = Trials(count=30, subset_size=150, max_steps=150, target=0.5, chunk=30)
    holdout = (X[1200:1500], y[1200:1500])
    for method in ("trials", "ridge"):
        timed = difficulty_scores(NET, X[:1200], wrong, holdout, method=method, trials=options)  # type: ignore[arg-type]
        assert timed.censored < 0.5
        assert 5 <= timed.counts.min() <= timed.counts.max() <= 150
        member = np.zeros((30, 1200))
        np.put_along_axis(member, _subsets(run_keys(0, 30), 1200, 150), 1.0, axis=1)
        seen = member.sum(axis=0) > 0
        if method == "trials":
            expected = timed.counts @ member[:, seen] / member[:, seen].sum(axis=0)
        else:
            centred, counts = member - 150 / 1200, timed.counts - timed.counts.mean()
            system = centred.T @ centred + 150 * np.eye(1200)
            expected = timed.counts.mean() + np.linalg.solve(system, centred.T @ counts)[seen]
        assert timed.scores[seen] == pytest.approx(expected, abs=1e-3)
    with pytest.raises(InvalidInputError, match="holdout"):
        difficulty_scores(NET, X[:1200], wrong)
