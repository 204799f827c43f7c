from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.errors import AssumptionWarning
from counterplay.principal import (
    UnbiasedForecaster,
)
from counterplay.principal.bounds import bias_bound, bias_level
from counterplay.principal.lab import (
    Always,
    EventFamilies,
)
from principal.games import contract_events, outcome, run


@pytest.mark.claim("07.12")
def test_potential_is_the_sum_it_claims_to_be():
    forecaster = run("iid", 3, 150, 1)
    potential = forecaster.potential_
    rows = potential.size
    total = 2.0 * 3 * (63 - rows)  # events never visited
    for i in range(rows):
        for j in range(3):
            for sign in (1, -1):
                terms = [
                    math.exp(sign * eta * potential.R[i, j] - eta**2 * potential.Q[i, j])
                    for eta in potential.rates
                ]
                total += float(np.mean(terms))
    assert potential.value() == pytest.approx(total)
    i, j = 0, 1
    pull = [
        eta
        * (
            math.exp(eta * potential.R[i, j] - eta**2 * potential.Q[i, j])
            - math.exp(-eta * potential.R[i, j] - eta**2 * potential.Q[i, j])
        )
        for eta in potential.rates
    ]
    assert potential.W[i, j] == pytest.approx(np.mean(pull))


@pytest.mark.claim("07.15")
@pytest.mark.parametrize("n", [2, 3])
def test_lazy_rows_give_the_same_numbers(n):
    outcomes = np.random.default_rng(0).integers(0, n, 300)
    made = []
    for allocation in ("lazy", "dense"):
        forecaster = UnbiasedForecaster(
            n, events=contract_events(n), horizon=300, allocation=allocation, random_state=4
        )
        made.append(forecaster.forecast_sequence(outcomes))
        visited = (forecaster.potential_.n[: forecaster.potential_.size] > 0).sum()
        assert (visited < forecaster.potential_.size) == (allocation == "dense")
    assert np.array_equal(made[0], made[1])


@pytest.mark.claim("07.33")
@pytest.mark.parametrize("kind", ["iid", "periodic"])
def test_bounds_without_a_number_of_events(kind):
    def leading(forecast, context):
        return tuple(np.round(forecast * 4).astype(int).tolist())

    T = 800
    forecaster = UnbiasedForecaster(3, events=[leading], horizon=T, random_state=0)
    rng = np.random.default_rng(0)
    for t in range(T):
        y = outcome(kind, t, 3, rng, forecaster)
        forecaster.predict_one()
        forecaster.learn_one(y)
    potential = forecaster.potential_
    assert forecaster.events_.n_events is None
    assert potential.start == 2 * 3
    weights = potential.weight[: potential.size]
    assert weights == pytest.approx([1 / ((i + 1) * (i + 2)) for i in range(potential.size)])
    assert weights.sum() <= 1.0
    G = potential.rates.size
    for i in range(potential.size):
        options = {"start": potential.start, "n_rates": G, "delta": 0.05, "tolerance": 0.1}
        L = bias_level(**options, weight=weights[i])
        assert L - bias_level(**options) == pytest.approx(math.log((i + 1) * (i + 2)))
        assert math.log((i + 1) * (i + 2)) <= 2 * math.log(i + 2)
        limits = potential.bound(forecaster.budget_, 0.05)[i]
        for j in range(3):
            assert abs(potential.R[i, j]) <= bias_bound(potential.Q[i, j], L, G)
            assert limits[j] == pytest.approx(bias_bound(potential.Q[i, j], L, G))
    assert forecaster.certificate().holds


def test_far_beyond_the_horizon_a_clipped_potential_warns():
    forecaster = UnbiasedForecaster(
        2, events=EventFamilies([Always()], 2), horizon=4, random_state=0, max_evaluations=1
    )
    forecaster._prepare()
    forecaster.potential_.update([0], np.array([0.5, -0.5]))
    forecaster.potential_.R[0] = 3000.0
    with pytest.warns(AssumptionWarning, match="clipped at 700"):
        forecaster.learn_one(0)
