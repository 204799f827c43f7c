from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.principal import (
    LinearContractOracle,
    StableMechanism,
)
from counterplay.principal.instances import (
    random_contract_game,
)
from counterplay.principal.lab import (
    BestResponseMechanism,
    BestResponseRule,
    FiniteGame,
    FiniteStableOracle,
    OptimisticRule,
    best_response,
    optimistic_pair,
    principal_best_response,
)


def test_decision_events_are_those_of_the_theorems():
    game = random_contract_game(3, 4, random_state=0)
    P0 = (0.2, 0.5, 0.8)
    oracle = LinearContractOracle(game, P0, beta=0.1, delta=0.2)
    stable, general = StableMechanism(oracle).events(), BestResponseMechanism(game, P0).events()
    assert stable.n_families == len(P0) + 2
    assert stable.n_events == (6 + 2 * 3) * 3
    assert general.n_families == len(P0) + 1
    rng = np.random.default_rng(0)
    for x in rng.dirichlet(np.ones(4), size=100):
        names = [stable.label(event) for event in stable.active(x)]
        policy, action = oracle.recommend(x)
        index, hoped = optimistic_pair(game, P0, x, oracle.margin)
        expected = [f"E3: ({p}, {best_response(game, p, x)})" for p in P0]
        expected.append(f"E2: ({P0[index]}, {hoped})")
        expected.append(f"E1: ({policy:.4g}, {action})")
        assert names == expected
        star = P0[principal_best_response(game, P0, x)]
        last = general.label(general.active(x)[-1])
        assert last == f"E4: ({star}, {best_response(game, star, x)})"
        assert stable.family(stable.active(x)[0]) == "E3[0.2]"


def test_optimistic_rule_sits_where_the_agent_shirks(coin):
    rule = OptimisticRule(coin, [0.4, 0.5, 0.6], eps=0.06)
    assert rule([0.5, 0.5]) == 0.4
    assert best_response(coin, 0.4, [0.5, 0.5]) == 0


def test_forecasts_of_the_wrong_length_never_reach_compiled_code():
    """A forecaster of one's own may return anything; the rule refuses it in one sentence."""
    game = FiniteGame(*np.zeros((2, 3, 2, 2)))
    for rule in (
        BestResponseRule(game, [0, 1]),
        FiniteStableOracle(game, eps=0.1, beta=0.1, gamma=1.0),
    ):
        for forecast in (np.ones(1), np.full(3, 1 / 3), np.full((1, 2), 0.5)):
            with pytest.raises(InvalidInputError, match="forecast must have 2 probabilities"):
                rule.decide(forecast)
            with pytest.raises(InvalidInputError, match="forecast must have 2 probabilities"):
                rule.benchmark_decisions(forecast)
