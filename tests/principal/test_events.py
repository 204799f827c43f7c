from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.principal import Decision, LinearContractOracle, StableMechanism
from counterplay.principal.instances import random_contract_game
from counterplay.principal.lab import (
    Always,
    BestResponseMechanism,
    Bins,
    Context,
    EventFamilies,
    MostLikely,
    NetPoint,
    best_response,
    optimistic_pair,
    principal_best_response,
)


def test_families_are_partitions_with_the_promised_sizes():
    rng = np.random.default_rng(0)
    families = [Always(), MostLikely(), Bins(2, 5), NetPoint(0.5), Decision(rng.random((4, 3)))]
    events = EventFamilies(families, 3)
    assert events.n_events == 1 + 3 + 5 + 6 + 4
    seen = set()
    for x in rng.dirichlet(np.ones(3), size=2000):
        active = events.active(x)
        assert len(active) == len(set(active)) == 5
        assert [events.family(event) for event in active] == [f.name for f in families]
        assert events.active(x) == active
        seen.update(active)
    assert len(seen) <= events.n_events


def test_functions_and_contexts_are_families():
    def coarse(forecast, context):
        return bool(forecast[0] > 0.5), context

    events = EventFamilies([coarse, Context(3, of=len, name="length")], 2)
    assert events.n_events is None
    assert not events.context_free
    active = events.active(np.array([0.7, 0.3]), "ab")
    assert [events.label(event) for event in active] == ["coarse: (True, 'ab')", "length: 2"]


def test_bin_edges_and_labels():
    bins = Bins(0, 4)
    assert [bins.key(np.array([p, 1 - p]), None) for p in (0.0, 0.25, 0.999, 1.0)] == [0, 1, 3, 3]
    assert bins.describe(3) == "[0.75,1)"
    with pytest.raises(InvalidInputError, match="outcome"):
        EventFamilies([Bins(3)], 3)
    with pytest.raises(InvalidInputError, match="1/eta"):
        NetPoint(0.3)
    with pytest.raises(InvalidInputError, match="names"):
        Decision([[0, 1], [1, 0]], actions=["a"])


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
