"""CoverLearner against a free attacker, and its rate."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import AssumptionWarning
from counterplay.poisoning import LabelledSet, bounds
from counterplay.poisoning.lab import (
    CoverLearner,
    LinearTarget,
)
from poisoning.problems import disc


@pytest.mark.claim("10.24")
def test_cover_against_a_free_attacker() -> None:
    gamma, m = 0.5, 2000
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, size=(4 * m, 1))
    train = X[np.abs(X[:, 0]) >= gamma / 2][:m]
    target = LinearTarget([1.0], 0.0)
    spaced = (np.arange(30_000) + 0.5) / 30_000  # the distribution itself, one point per quantile
    test = np.where(spaced < 0.5, -1 + 1.5 * spaced, -0.5 + 1.5 * spaced)[:, None]
    rates = {}
    for mode in ("margin_attacker", "free_attacker"):
        learner = CoverLearner(gamma, mode=mode, origin=-1.1, random_state=0)
        learner.fit(train, target(train))
        assert learner.seen(test).all()
        candidates = np.linspace(-1, 1, 4001)[:, None]  # where a free attacker may plant points
        cell, owner = learner.cells(candidates)[:, 0], learner.cells(test)[:, 0]
        labels = target(candidates)
        both = {c for c in np.unique(cell) if len(np.unique(labels[cell == c])) == 2}
        flipped = np.isin(owner, list(both))
        for x0 in test[flipped][::1000]:  # confirm with a real attack: many copies of one point
            other = candidates[
                (cell == learner.cells(x0[None])[0, 0]) & (labels != target(x0[None]))
            ]
            poison = LabelledSet(np.repeat(other[:1], m, axis=0), np.repeat(target(other[:1]), m))
            S = LabelledSet(train, target(train)) + poison
            assert learner.fit(S.X, S.y).predict(x0[None])[0] != target(x0[None])[0]
        rates[mode] = flipped.mean()
    assert rates["free_attacker"] == 0
    # Exact: the cell [-0.1, 0.4) reaches across 0 and holds [0.25, 0.4) of the mass 1.5.
    assert rates["margin_attacker"] == pytest.approx(0.15 / 1.5, abs=1e-4)
    assert abs(0.103 - rates["margin_attacker"]) <= 4 * np.sqrt(0.1 * 0.9 / 2000)  # 2000 points


@pytest.mark.claim("10.25")
def test_cover_rate_and_sample_size() -> None:
    gamma, eps, delta = 1.0, 0.3, 0.2
    rng = np.random.default_rng(5)
    target = LinearTarget([0.6, 0.8], 0.0)
    X = disc(rng, 60_000)
    X = X[np.abs(target.decision_function(X)) >= gamma / 2]
    learner = CoverLearner(gamma, random_state=0)
    cells = len(np.unique(learner.cells(X), axis=0))
    assert cells <= bounds.grid_cells(2, learner.rho)
    m = bounds.cover_sample_size(cells, eps, delta)
    failures = 0
    for run in range(60):
        S = rng.choice(len(X), size=m)
        learner.random_state = run
        learner.fit(X[S], target(X[S]))
        failures += learner.attack_probability(X).mean() > eps
    assert failures <= delta * 60
    small = CoverLearner(gamma, random_state=0).fit(X[:10], target(X[:10]))
    unseen = ~small.seen(X)
    assert small.attack_probability(X).mean() == pytest.approx(unseen.mean() / 2)
    flips = []
    for coin in range(400):
        again = small.with_coins(coin).fit(X[:10], target(X[:10]))
        flips.append((again.predict(X[unseen][:200]) != target(X[unseen][:200])).mean())
    assert abs(np.mean(flips) - 0.5) <= 4 * np.std(flips) / np.sqrt(400)


@pytest.mark.claim("21.22")
def test_clean_rows_in_one_cell_do_not_stop_the_cover() -> None:
    """Two clean rows on either side of the boundary share a cell; certified rows stay right."""
    rng, target = np.random.default_rng(6), LinearTarget([0.6, 0.8], 0.01)
    X = disc(rng, 3000)
    train = X[np.abs(target.decision_function(X)) >= 0.15][:800]  # less than gamma / 2
    S, learner = LabelledSet(train, target(train)), CoverLearner(0.5, random_state=0)
    learner.fit(S.X, S.y)
    safe = learner.certified(target, S, X)  # also rows that do not obey the margin
    assert 0.5 < safe.mean() < learner.seen(X).mean()
    for _ in range(20):
        place = disc(rng, 1)
        away = target.decision_function(place)[0]
        P = place - np.outer([away + 1e-3, away - 1e-3], target.w)
        P = np.vstack([P, disc(rng, 300)])
        both = S + LabelledSet(P, target(P))
        with pytest.warns(AssumptionWarning, match="both labels and count as unseen"):
            poisoned = learner.with_coins(int(rng.integers(100))).fit(both.X, both.y)
        assert not poisoned.seen(P[:1])[0]
        assert np.array_equal(poisoned.predict(X)[safe], target(X)[safe])
