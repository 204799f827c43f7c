from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.principal import (
    ContractGame,
    DisclosureGame,
    LinearContractGame,
    LinearContractOracle,
    PersuasionGame,
    PersuasionOracle,
)
from counterplay.principal.instances import prosecutor_game
from counterplay.principal.lab import (
    FiniteGame,
    PersuasionGeometry,
    Scheme,
    StabilizedPersuasion,
    best_response,
)
from principal.games import played

BAD = {
    "equal costs": (
        lambda: LinearContractGame([[0, 1], [1, 0]], [0.2, 0.2]),
        "two actions have the same cost",
    ),
    "value above one": (
        lambda: LinearContractGame([[0, 2]], [0.0]),
        "rescale both utilities by the same factor",
    ),
    "utility below minus one": (
        lambda: FiniteGame([[[-2.0]]], [[[0.0]]]),
        "rescale both utilities by the same factor",
    ),
    "shapes differ": (lambda: FiniteGame([[[0.0]]], [[[0.0, 0.1]]]), "same shape"),
    "NaN utility": (lambda: FiniteGame([[[np.nan]]], [[[0.0]]]), "must be finite"),
    "rows and costs differ": (
        lambda: LinearContractGame([[0, 1]], [0.0, 0.5]),
        "one row per cost",
    ),
    "three states in persuasion": (
        lambda: PersuasionGame(np.eye(3), [0, 0.5, 1]),
        "needs two states, got 3",
    ),
    "dominated strategy": (
        lambda: PersuasionGeometry(PersuasionGame([[1, 0], [0, 1], [0.4, 0.4]], [0, 1, 0.5])),
        "never strictly best for the Agent: 2",
    ),
    "beta too large": (
        lambda: StabilizedPersuasion(prosecutor_game(), 0.125),
        "below C/4 = 0.125",
    ),
    "forecast not a distribution": (
        lambda: best_response(prosecutor_game(), np.eye(2), [0.5, 0.6]),
        "must sum to 1, got 1.1",
    ),
    "negative forecast": (
        lambda: best_response(prosecutor_game(), np.eye(2), [1.5, -0.5]),
        "negative",
    ),
    "forecast too long": (
        lambda: best_response(prosecutor_game(), np.eye(2), [0.5, 0.25, 0.25]),
        "2 probabilities",
    ),
    "empty P0": (
        lambda: LinearContractOracle(
            LinearContractGame([[0], [1]], [0, 0.5]), [], beta=0.1, delta=0.1
        ),
        "P0 must contain at least one policy",
    ),
    "contract outside [0, 1]": (
        lambda: LinearContractOracle(
            LinearContractGame([[0], [1]], [0, 0.5]), [1.5], beta=0.1, delta=0.1
        ),
        "contract must be in",
    ),
    "benchmark twice": (
        lambda: LinearContractOracle(
            LinearContractGame([[0], [1]], [0, 0.5]), [0.5, 0.5], beta=0.1, delta=0.1
        ),
        "twice",
    ),
    "neither parameters nor horizon": (
        lambda: LinearContractOracle(LinearContractGame([[0], [1]], [0, 0.5]), [0.5]),
        "give beta and delta, or horizon",
    ),
    "scheme columns": (lambda: Scheme([[0.5, 0.5], [0.4, 0.5]]), "sum to 1"),
    "scheme shape": (
        lambda: prosecutor_game().check_policy(np.full((3, 2), 1 / 3)),
        "shape",
    ),
    "delta not one over an integer": (
        lambda: PersuasionOracle(prosecutor_game(), beta=0.1, delta=0.3),
        "one over an integer",
    ),
    "too many response maps": (
        lambda: DisclosureGame(np.eye(6), np.zeros(6)).agent_utility(
            DisclosureGame(np.eye(6), np.zeros(6)).full_disclosure()
        ),
        "46656 response maps",
    ),
    "outcome codes": (lambda: ContractGame([[0, 3]], [0.0, 1.0], [0.0]), "codes 0..1"),
    "index out of range": (
        lambda: FiniteGame([[[0.0]]], [[[0.0]]], p0_idx=[1]),
        "policy must be at most 0",
    ),
}


@pytest.mark.claim("07.26")
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    call, message = BAD[name]
    with pytest.raises(InvalidInputError, match=message):
        call()
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.claim("07.26")
def test_states_out_of_range_are_refused(coin):
    from counterplay.principal import FollowRecommendation
    from counterplay.principal.lab import BestResponseMechanism

    mechanism = BestResponseMechanism(coin, [0.5], random_state=0)
    with pytest.raises(InvalidInputError, match=r"codes 0\.\.1"):
        played(mechanism, FollowRecommendation(), [0, 1, 2])
    with pytest.raises(InvalidInputError, match=r"state of row 1 is 0\.5"):
        played(mechanism, FollowRecommendation(), [0.0, 0.5])
    floats = played(mechanism, FollowRecommendation(), [0.0, 1.0])  # a column that had gaps once
    assert floats["y"].tolist() == [0, 1]


@pytest.mark.claim("07.26")
def test_small_deviations_of_a_forecast_are_repaired(coin):
    exact = coin.UV([0.6], [0.5, 0.5])[0]
    near = coin.UV([0.6], [0.5 + 2e-10, 0.5 + 2e-10])[0]
    assert near == pytest.approx(exact, abs=1e-15)
    untouched = np.array([0.1, 0.2, 0.3, 0.4]) @ np.ones(4)
    assert abs(untouched - 1) < 1e-15


def test_nearly_equal_costs_warn():
    with pytest.warns(AssumptionWarning, match="differ by only"):
        LinearContractGame([[0.0], [1.0]], [0.0, 1e-8])


def test_long_form_of_contracts_is_reduced():
    short = LinearContractGame.from_outcomes([[0, 1], [1, 2]], [0.0, 0.25, 1.0], [0.0, 0.3])
    assert short.values.tolist() == [[0.0, 0.25], [0.25, 1.0]]
    assert short.cost_gap == pytest.approx(0.3)
    long = ContractGame([[0, 1], [1, 2]], [0.0, 0.25, 1.0], [0.0, 0.3])
    for share in (0.0, 0.4, 1.0):
        assert long.agent_utility(long.linear(share)) == pytest.approx(short.agent_utility(share))
        assert long.principal_utility(long.linear(share)) == pytest.approx(
            short.principal_utility(share)
        )
