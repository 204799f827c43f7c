from __future__ import annotations

import numpy as np
import pytest

from counterplay.principal import bounds


def test_bias_bound_has_the_simple_form():
    """At most max(4 L, 2.13 sqrt(Q L)) whenever the grid reaches the optimal rate."""
    for Q in (0.0, 1.0, 50.0, 1e3, 1e5):
        for start in (10.0, 1e3, 1e6):
            rates = 12
            L = bounds.bias_level(start, rates, 0.05)
            if Q == 0 or 2.0**-rates <= np.sqrt(L / Q):
                bound = bounds.bias_bound(Q, L, rates)
                assert bound <= bounds.bias_bound_simple(Q, L) + 1e-9


def test_tunings_balance_the_terms():
    for tuning, slope in (("balanced", -1 / 5), ("thesis", -1 / 8)):
        T = [10**40, 10**48]
        values = []
        for horizon in T:
            beta, delta = bounds.linear_contract_tuning(horizon, tuning)
            margin = 0.25 * beta / 2
            values.append(
                bounds.stable_regret_rate(
                    c=2 * (beta + delta),
                    eps=margin,
                    beta=margin,
                    gamma=0.0,
                    n_policies=round(1 / delta) + 2,
                    n_benchmark=21,
                    n_actions=2,
                    n_states=2,
                    horizon=horizon,
                )
            )
        measured = np.log10(values[1] / values[0]) / 8
        assert measured == pytest.approx(slope, abs=0.03)
        assert bounds.linear_contract_rate(tuning) == slope


def test_events_grow_polynomially_and_net_points_do_not():
    decisions = [bounds.decision_events(11, 5, 3)] * 4
    nets = [bounds.net_events(n, 0.1) for n in (2, 5, 10, 20)]
    assert decisions == [63] * 4
    assert nets == sorted(nets)
    assert nets[-1] > 10**7


def test_persuasion_tunings():
    for kind, tuning, rate in (
        ("rounding", "thesis", -1 / 10),
        ("rounding", "balanced", -1 / 8),
        ("logit", "balanced", -1 / 7),
    ):
        beta, x, eps = bounds.persuasion_tuning(10**8, kind, tuning)
        assert beta == pytest.approx(10 ** (8 * rate))
        assert x == beta
        assert eps <= beta
