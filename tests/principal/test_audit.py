from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from counterplay.errors import InvalidInputError
from counterplay.principal import (
    ContextualSwapAgent,
    FollowRecommendation,
    LinearContractGame,
    LinearContractOracle,
    StableMechanism,
    audit,
)
from counterplay.principal.instances import near_tie_contract, secret_information_instance
from counterplay.principal.lab import ConstantMechanism, SecretInfoAgent, SpitefulAgent
from principal.games import played


@pytest.fixture(scope="module")
def instance():
    return near_tie_contract(1500, random_state=0)


def test_obedient_agent_supports_everything(instance):
    oracle = LinearContractOracle(instance.game, [0.3, 0.6], horizon=1500)
    log = played(StableMechanism(oracle, random_state=0), FollowRecommendation(), instance.states)
    report = audit(log)
    assert report.deviation_rate == 0.0
    assert report.secret_p_value == 1.0
    assert len(report.guarantees()) == 2
    assert "stable mechanism" in report.summary()
    assert report.bias.sum() == pytest.approx(log.alpha["choice"])


def test_secret_information_is_found_and_nothing_else():
    secret = secret_information_instance(1500, "M", random_state=0)
    mechanism = ConstantMechanism(secret.game, 0.5, recommendation=1, random_state=0)
    report = audit(played(mechanism, SecretInfoAgent(random_state=0), secret.states))
    assert report.rational
    assert report.no_negative_regret
    assert not report.no_secret_information
    assert report.secret_p_value <= 0.01
    assert "stable mechanism (thm:stable)" not in report.guarantees()
    frame = report.to_frame().set_index("assumption")
    assert not frame.loc["no secret information", "supported"]


def test_irrational_agent_is_found(instance):
    mechanism = ConstantMechanism(instance.game, 0.9, random_state=0)
    log = played(mechanism, SpitefulAgent(B=100.0), instance.states)
    report = audit(log)
    assert not report.rational
    assert report.guarantees() == ()


def test_permutation_test_keeps_its_level():
    game = LinearContractGame([[0, 0], [0, 1]], [0, 0.25])
    rejected = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        log = {
            "policy": [0.5] * 200,
            "recommendation": [1] * 200,
            "action": rng.integers(0, 2, 200),
            "state": rng.integers(0, 2, 200),
        }
        rejected += not audit(log, game, permutations=99).no_secret_information
    assert rejected <= 9  # 3 expected; more than 9 has probability below 0.002


def test_plain_logs_are_read(instance):
    mechanism = ConstantMechanism(instance.game, 0.6, random_state=0)
    log = played(mechanism, ContextualSwapAgent(random_state=0), instance.states)
    frame = pd.DataFrame(
        {
            "policy": [log.policies[p] for p in log["p_idx"]],
            "recommendation": log["r"],
            "action": log["a"],
            "state": log["y"],
            "forecast": list(log["pi"]),
        }
    )
    one, two = audit(frame, instance.game), audit(log)
    assert one.behaviour.swap_regret == two.behaviour.swap_regret
    assert one.secret_p_value == two.secret_p_value
    assert one.bias == pytest.approx(two.bias)
    assert audit(frame.drop(columns="forecast"), instance.game).bias is None
    assert one.plot().get_ylabel()
    with pytest.raises(InvalidInputError, match=r"lacks the column\(s\) action"):
        audit(frame.drop(columns="action"), instance.game)
    with pytest.raises(InvalidInputError, match="give the game"):
        audit(frame)
