"""MW-FED shares out the work of a round by weight."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.core.draws import fold, run_keys
from counterplay.errors import InvalidInputError
from counterplay.federated.rules.mw_fed import ideal_loads, rounded_loads


@pytest.mark.claim("04.29")
def test_equal_weights_give_equal_loads() -> None:
    naive = []
    for k in range(1, 301):
        for B in (1, 3):
            ideal = ideal_loads(np.zeros(k), float(B * k))
            for rounding in ("floor", "nearest", "largest_remainder"):
                assert (rounded_loads(ideal, rounding) == B).all()  # type: ignore[arg-type]
        weights = np.full(k, 1 / k)
        naive.append(bool((np.floor(k * weights / weights.sum()) == 1).all()))
    failing = [k for k, good in enumerate(naive, start=1) if not good]
    assert {20, 21, 45} <= set(failing)  # what the printed formula does


@pytest.mark.claim("04.29")
def test_largest_remainder_keeps_the_total() -> None:
    rng = np.random.default_rng(0)
    log_weights = rng.normal(0, 5, size=(500, 7))
    ideal = ideal_loads(log_weights, 21.0)
    assert ideal.sum(axis=1) == pytest.approx(21.0)
    kept = rounded_loads(ideal, "largest_remainder")
    assert (kept.sum(axis=1) == 21).all()
    assert (abs(kept - ideal) < 1).all()
    assert (rounded_loads(ideal, "floor").sum(axis=1) < 21).any()
    keys = run_keys(0, 500)
    sigma = np.stack([rounded_loads(ideal, "sigma", fold(keys, t)) for t in range(400)])
    error = 0.5 / np.sqrt(400)
    assert (abs(sigma.mean(axis=0) - ideal) <= 5 * error).all()
    with pytest.raises(InvalidInputError, match="keys"):
        rounded_loads(ideal, "sigma")


@pytest.mark.claim("04.30")
def test_weights_over_many_rounds() -> None:
    log_weights = np.zeros((1, 3))
    for t in range(5000):
        loads = ideal_loads(log_weights, 192.0)
        assert np.isfinite(loads).all()
        assert loads.sum() == pytest.approx(192.0)
        log_weights = log_weights + np.log(4.0) * np.array([1.0, 0.0, 0.0])
        ratio = log_weights[0, 0] - log_weights[0, 1]
        assert ratio == pytest.approx((t + 1) * np.log(4.0), rel=1e-9)
    assert ideal_loads(log_weights, 192.0)[0] == pytest.approx([192.0, 0.0, 0.0], abs=1e-300)
    floored = ideal_loads(log_weights, 192.0, min_share=0.1)[0]
    assert floored == pytest.approx([0.9 * 192 + 6.4, 6.4, 6.4])
