from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import AssumptionWarning, InfeasibleError, InvalidInputError
from counterplay.principal import design_contract, design_disclosure
from counterplay.principal.lab import SpitefulAgent, best_response, is_stable


def test_todays_contract_follows_the_market():
    values, costs = [[0, 0], [0, 1]], [0, 0.25]
    rng = np.random.default_rng(0)
    good = design_contract(values, costs, (rng.random(500) < 0.8).astype(int))
    fair = design_contract(values, costs, (rng.random(500) < 0.5).astype(int))
    for design, chance in ((good, 0.8), (fair, 0.5)):
        assert design.stable
        assert design.forecast[1] == pytest.approx(chance, abs=0.15)
        assert design.recommendation == best_response(design.game, design.policy, design.forecast)
        frame = design.to_frame()
        assert len(frame) == 21
        assert frame["regret"].max() == pytest.approx(design.transcript.policy_regret)
        assert design.transcript.policy_regret < 0.08
    assert good.policy <= fair.policy  # a better market needs a smaller share
    assert "today: offer" in good.summary()
    assert good.plot().get_ylabel() == "regret per round so far"


def test_the_modelled_agent_can_be_chosen():
    history = np.random.default_rng(1).integers(0, 2, 300)
    design = design_contract(
        [[0, 0], [0, 1]],
        [0, 0.25],
        history,
        benchmark=[0.4, 0.5, 0.7],
        agent=SpitefulAgent(),
        replicates=1,
    )
    assert len(design.to_frame()) == 3
    assert design.transcript.meta["agent"] == "SpitefulAgent(B=0.5)"


def test_disclosure_in_two_and_three_states():
    rng = np.random.default_rng(0)
    two = design_disclosure([[1, 0], [0, 1]], [0, 1], (rng.random(400) < 0.3).astype(int))
    assert two.stable
    assert 0.3 < two.policy.signal_probabilities(two.forecast)[1] < 0.75
    u, v = [[1, 0, 0], [0, 1, 0], [0.2, 0.2, 1]], [0.0, 0.3, 1.0]
    states = rng.choice(3, size=300, p=[0.5, 0.3, 0.2])
    three = design_disclosure(u, v, states)
    assert three.stable
    assert is_stable(three.game, three.policy, three.forecast, 0.1 * 0.4, 0.1)
    assert three.transcript.policy_regret <= three.transcript.regret_bound
    dependent = design_disclosure(u, np.tile(np.array(v)[:, None], (1, 3)), states[:60])
    assert dependent.game.n_states == 3


def test_bad_histories_are_refused():
    with pytest.raises(InvalidInputError, match="codes"):
        design_contract([[0, 0], [0, 1]], [0, 0.25], [0, 1, 2])
    with pytest.raises(InvalidInputError, match="non-empty"):
        design_disclosure([[1, 0], [0, 1]], [0, 1], np.array([], dtype=int))


@pytest.mark.claim("25.20")
def test_strategies_that_are_never_best_can_be_pruned_as_the_message_says():
    u, v, history = [[1, 0], [0.4, 0.4], [0, 1]], [0, 1, 1], np.arange(60) % 2
    with pytest.raises(InvalidInputError, match="prune=True"):
        design_disclosure(u, v, history)
    with pytest.warns(AssumptionWarning, match="never strictly best"):
        design = design_disclosure(u, v, history, prune=True)
    assert design.stable


@pytest.mark.claim("25.20")
def test_two_strategies_that_are_never_best():
    u, v, history = [[1, 0], [0.5, 0.5], [0.4, 0.4], [0, 1]], [0, 0.5, 0.7, 1], np.arange(60) % 2
    with pytest.raises(InvalidInputError, match="prune=True"):
        design_disclosure(u, v, history)
    with pytest.warns(AssumptionWarning, match=r"1.*2"):
        assert design_disclosure(u, v, history, prune=True).stable


@pytest.mark.claim("25.20")
def test_a_tie_in_some_state_is_named():
    u, v = [[1, 0, 0], [0, 1, 1], [0.2, 0.2, 1]], [0.0, 0.3, 1.0]
    with pytest.raises(
        InfeasibleError, match="strategies '1' and '2' are equally good for the Agent in state 2"
    ):
        design_disclosure(u, v, np.arange(60) % 3)
