from __future__ import annotations

import numpy as np
import pytest

from counterplay.contribution import (
    CoverageGame,
    LinearGame,
    audit_margins,
    predicted_margins,
    stability_report,
)
from counterplay.contribution.lab import (
    DigitsNetwork,
    PooledTraining,
    defection_curve,
    noisy_digits,
    optimal_stable_linear,
    socially_optimal_linear,
)
from counterplay.core.draws import run_keys
from counterplay.errors import InvalidInputError
from counterplay.federated import FedAvg, MWFed


def random_game(rng: np.random.Generator) -> LinearGame:
    B = rng.random((5, 5))
    W = B @ B.T
    return LinearGame(W / np.sqrt(np.outer(np.diag(W), np.diag(W))), 1.0)


def test_margins_are_one_exactly_at_stable_plans() -> None:
    rng = np.random.default_rng(0)
    loose = 0
    for _ in range(30):
        game = random_game(rng)
        stable = optimal_stable_linear(game).theta
        active = stable > 1e-9
        assert np.allclose(predicted_margins(game, stable)[active], 1.0, atol=1e-6)
        doubled = predicted_margins(game, 2 * stable)
        assert (doubled[active] <= 0.5 + 1e-6).all()
        cheapest = socially_optimal_linear(game).theta
        margins = predicted_margins(game, cheapest)
        is_stable = stability_report(game, cheapest).is_stable
        assert is_stable == bool((margins[cheapest > 1e-9] >= 1 - 1e-6).all())
        loose += not is_stable
    assert loose > 0


def test_margin_of_somebody_who_brings_nothing() -> None:
    game = LinearGame(np.eye(2), 1.0)
    assert predicted_margins(game, [0.0, 1.0]).tolist() == [np.inf, 1.0]
    helped = LinearGame([[1.0, 1.0], [0.0, 1.0]], 1.0)
    assert predicted_margins(helped, [0.0, 1.0]).tolist() == [0.0, 1.0]


def test_margins_of_a_coverage_game_by_direct_search() -> None:
    game = CoverageGame([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75], [0.3, 0.3, 0.4]], 0.8)
    theta = np.array([6.0, 5.0, 4.0])
    for i, margin in enumerate(predicted_margins(game, theta)):
        for factor, reached in ((1.0 + 1e-6, True), (1.0 - 1e-6, False)):
            other = theta.copy()
            other[i] *= margin * factor
            if margin > 0:
                assert (game.utilities(other)[i] >= game.mu[i] - 1e-12) == reached


def test_audit_puts_prediction_beside_training() -> None:
    cohort = noisy_digits(run_keys(0, 24), size=400, train=300)
    network, shares = DigitsNetwork(), (1.0, 0.25, 0.05)
    start = network.start(cohort.keys)
    curves = [
        defection_curve(
            PooledTraining(rule, rounds=40, threshold=0.6), network, cohort, start, fractions=shares
        )
        for rule in (FedAvg(), MWFed(growth=4.0))
    ]
    game = LinearGame(np.full((4, 4), 0.5) + 0.5 * np.eye(4), 1.0)
    audit = audit_margins(game, np.full(4, 0.8), curves, level=0.8)
    # with 0.8 each, 0.5 * 3 * 0.8 = 1.2 comes from the others: nobody needs to bring anything
    assert audit.predicted.tolist() == [0, 0, 0, 0]
    for curve in curves:
        for i in range(4):
            runs = curve.at[:, curve.defector == i, -1]
            if runs.shape[1]:
                enough = [f for f, r in zip(curve.fractions, runs.mean(axis=1)) if r >= 0.8]
                assert audit.measured[curve.algorithm][i] == min(enough, default=1.0)
    frame = audit.to_frame()
    assert len(frame) == 8
    assert "party 1 needs" in audit.summary()
    assert len(audit.plot().get_lines()) == 3
    with pytest.raises(InvalidInputError, match="only 2 parties"):
        audit_margins(LinearGame(np.eye(2), 1.0), [1.0, 1.0], curves)
