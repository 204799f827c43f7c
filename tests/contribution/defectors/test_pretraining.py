"""Pre-training and random search."""

from __future__ import annotations

import numpy as np
import pytest

from contribution.digits import COHORT, KEYS, NET
from counterplay.contribution.defectors.pretraining import accuracy_on
from counterplay.contribution.lab import pretrain, random_search
from counterplay.core.draws import run_keys
from counterplay.errors import InvalidInputError


@pytest.mark.claim("04.43")
def test_search_trains_every_setting_as_if_alone() -> None:
    X, y = COHORT.X[:900], COHORT.y[:900]
    held = (COHORT.X[900:1200], COHORT.y[900:1200])
    found = random_search(NET, X, y, held, draws=12, steps=40, seed=5)
    assert (found.lr >= 1e-6).all()
    assert (found.lr <= 1e-2).all()
    assert set(found.batch_size.tolist()) <= {4, 8, 64, 128, 256, 512}
    keys = run_keys(5, 12)
    for draw in range(12):
        alone = pretrain(
            NET,
            X,
            y,
            keys[[draw]],
            steps=40,
            step_size=float(found.lr[draw]),
            batch_size=int(found.batch_size[draw]),
        )
        assert accuracy_on(NET, alone, *held)[0] == pytest.approx(found.accuracy[draw], abs=0.01)
    assert found.to_frame()["accuracy"].is_monotonic_decreasing
    assert found.best[0] == found.to_frame()["lr"].iloc[0]
    assert "best of 12 draws" in found.summary()
    assert found.plot() is not None
    many = random_search(NET, X, y, held, draws=400, steps=1, batches=(4, 8), seed=6)
    logs = np.log10(many.lr)
    assert logs.mean() == pytest.approx(-4, abs=0.3)  # log-uniform between 1e-6 and 1e-2
    assert (many.batch_size == 4).mean() == pytest.approx(0.5, abs=0.12)
    with pytest.raises(InvalidInputError, match="low <= high"):
        random_search(NET, X, y, held, step_size=(1e-2, 1e-6))


def test_pretraining_stops_at_its_target() -> None:
    X, y = COHORT.X[:1200], COHORT.y[:1200]
    holdout = (COHORT.X[1200:1600], COHORT.y[1200:1600])
    early = pretrain(NET, X, y, KEYS, steps=300, target=0.4, holdout=holdout)
    late = pretrain(NET, X, y, KEYS, steps=300)
    scores = [accuracy_on(NET, w, *holdout) for w in (early, late)]
    assert (scores[0] >= 0.4).all()
    assert (scores[0] < scores[1]).all()
