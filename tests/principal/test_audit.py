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
from counterplay.principal.lab import (
    BestResponseMechanism,
    ConstantMechanism,
    SecretInfoAgent,
    SpitefulAgent,
)
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
    assert report.aligned
    assert report.guarantees() == ("stable mechanism (Theorem 7.2)",)
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
    assert "stable mechanism (Theorem 7.2)" not in report.guarantees()
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
    assert one.swap_regret == two.swap_regret
    assert one.secret_p_value == two.secret_p_value
    assert one.bias == pytest.approx(two.bias)
    assert audit(frame.drop(columns="forecast"), instance.game).bias is None
    assert one.plot().get_ylabel()
    with pytest.raises(InvalidInputError, match=r"lacks the column\(s\) action"):
        audit(frame.drop(columns="action"), instance.game)
    with pytest.raises(InvalidInputError, match="give the game"):
        audit(frame)


def test_p4_a_frame_may_have_more_columns_and_its_own_index():
    game = LinearContractGame([[0, 0], [0, 1]], [0, 0.25])
    log = pd.DataFrame(bare_log([0, 1] * 20, [0, 1, 1, 0] * 10, policy=0.5))
    told = audit(log, game).summary()
    dressed = log.assign(region="north", note=[["a"]] * 40).set_axis(range(100, 140))
    assert audit(dressed[sorted(dressed)], game).summary() == told
    with pytest.raises(InvalidInputError, match="columns with names: policy, recommendation"):
        audit(log.to_numpy(), game)
    with pytest.raises(InvalidInputError, match="39 forecasts for 40 rounds"):
        audit({**bare_log([0] * 40, [0, 1] * 20), "forecast": [[0.5, 0.5]] * 39}, game)
    with pytest.raises(InvalidInputError, match="one list of probabilities per round"):
        audit(log.assign(forecast=[[0.5, 0.5], [1.0]] * 20), game)


def bare_log(actions, states, policy=0.1, recommendation=0):
    n = len(states)
    return {
        "policy": [policy] * n,
        "recommendation": [recommendation] * n,
        "action": actions,
        "state": states,
    }


def test_limits_are_shares_of_the_stakes():
    """Working at a commission of 0.1 earns 0.002 or 0.01 and costs 0.04: always the worst action.

    Per round he loses all that was at stake, 0.04 minus the mean payment, although that is little
    in utilities between -1 and 1. Scaling the whole game must not change any verdict.
    """
    states = np.random.default_rng(0).integers(0, 2, 2000)
    lost = 0.04 - 0.1 * np.where(states == 1, 0.1, 0.02).mean()
    for scale in (1.0, 0.1, 10.0):
        game = LinearContractGame(scale * np.array([[0, 0], [0.02, 0.1]]), [0, 0.04 * scale])
        works = audit(bare_log([1] * 2000, states), game)
        assert works.swap_regret == pytest.approx(scale * lost)
        assert works.stakes == pytest.approx(scale * lost)
        assert not works.rational
        assert "100% of the stakes" in works.summary()
        rests = audit(bare_log([0] * 2000, states), game)
        assert rests.rational
        assert rests.swap_regret == 0.0


def test_alignment_is_judged_by_the_stakes_too():
    """The Principal loses all she could lose, a utility of 0.0045 per round."""
    game = LinearContractGame([[0, 0], [0.009, 0.009]], [0, 0.0045])
    report = audit(bare_log([0] * 500, [0, 1] * 250, policy=0.5, recommendation=1), game)
    assert report.principal_stakes == pytest.approx(0.0045)
    assert report.alignment_M2 == pytest.approx(0.0045)
    assert not report.aligned


def test_nothing_at_stake_is_said():
    game = LinearContractGame([[0, 0], [0.5, 0.5]], [0, 0.25])
    report = audit(bare_log([0, 1] * 100, [0, 1] * 100, policy=0.5), game)
    assert report.stakes == 0.0
    assert "nothing was at stake" in report.summary()


def test_theorems_are_named_only_for_their_mechanisms(instance):
    obedient, states = FollowRecommendation(), instance.states[:400]
    oracle = LinearContractOracle(instance.game, [0.3, 0.6], horizon=400)
    stable = played(StableMechanism(oracle, random_state=0), obedient, states)
    assert audit(stable).guarantees() == ("stable mechanism (Theorem 7.2)",)
    general = BestResponseMechanism(instance.game, [0.3, 0.6], random_state=0)
    assert audit(played(general, obedient, states)).guarantees() == (
        "best-response mechanism (Theorem 7.5)",
    )
    constant = ConstantMechanism(instance.game, 0.6, random_state=0)
    report = audit(played(constant, obedient, states))
    assert report.rational
    assert report.guarantees() == ()
    assert "no theorem applies" in report.summary()
    frame = {
        "policy": [stable.policies[p] for p in stable["p_idx"]],
        "recommendation": stable["r"],
        "action": stable["a"],
        "state": stable["y"],
    }
    bare = audit(frame, instance.game)
    assert bare.rational
    assert bare.guarantees() == ()
    assert "the log does not say which mechanism made the offers" in bare.summary()


@pytest.mark.parametrize("column", ["state", "action", "recommendation"])
@pytest.mark.parametrize("bad", [0.5, 1.5, np.nan, np.inf, None, -1.0, 1e300, pd.NA])
def test_p4_codes_are_never_truncated(column, bad):
    game = LinearContractGame([[0, 0], [0, 1]], [0, 0.25])
    log = bare_log([0, 1, 0, 1], [0, 1, 1, 0])
    log[column] = [0, 1, bad, 0]
    for table in (log, pd.DataFrame(log)):
        with pytest.raises(InvalidInputError, match=f"{column} of row 2 is"):
            audit(table, game)


def test_p4_names_of_the_game_are_understood():
    game = LinearContractGame(
        [[0, 0], [0, 1]], [0, 0.25], action_names=["rest", "work"], state_names=["dry", "wet"]
    )
    rng = np.random.default_rng(1)
    actions, states = rng.integers(0, 2, 50), rng.integers(0, 2, 50)
    codes = pd.DataFrame(bare_log(actions, states, policy=0.5, recommendation=1))
    names = codes.assign(
        recommendation="work",
        action=pd.Categorical(np.array(["rest", "work"])[actions]),
        state=np.array(["dry", "wet"])[states],
    )
    assert audit(names, game).summary() == audit(codes, game).summary()
    floats = codes.astype({"action": float, "state": float})
    assert audit(floats, game).summary() == audit(codes, game).summary()
    with pytest.raises(InvalidInputError, match=r"state of row 3 is 'rain'.*known: dry, wet"):
        audit(names.assign(state=["dry"] * 3 + ["rain"] * 47), game)


def test_p4_all_replicates_count(instance):
    """Replicate 0 follows the recommendation, replicate 1 does the opposite."""
    states = instance.states[:300]
    mechanism = ConstantMechanism(instance.game, 0.9, recommendation=1, random_state=0)
    log = played(mechanism, FollowRecommendation(), states)
    both = np.stack([log["a"], 1 - log["a"]], axis=1)
    single = [audit(bare_log(a, states, 0.9, 1), instance.game) for a in both.T]
    report = audit(bare_log(both, states, 0.9, 1), instance.game)
    regrets = [one.swap_regret for one in single]
    assert [b.swap_regret for b in report.behaviours] == regrets
    assert report.swap_regret == pytest.approx(np.mean(regrets))
    assert report.deviation_rate == 0.5
    assert [one.rational for one in single] == [True, False]
    assert not report.rational  # one of his two selves is not
    assert "2 replicate(s)" in report.summary()
    many = played(mechanism, ContextualSwapAgent(random_state=0), states, replicates=5)
    assert len(audit(many, permutations=9).behaviours) == many.actions.shape[1] == 5


def test_p4_replicates_that_repeat_each_other_do_not_look_informed():
    """The same actions five times are no more evidence than once."""
    game = LinearContractGame([[0, 0], [0, 1]], [0, 0.25])
    rng = np.random.default_rng(2)
    actions, states = rng.integers(0, 2, 100), rng.integers(0, 2, 100)
    once = audit(bare_log(actions, states, 0.5), game)
    five = audit(bare_log(np.repeat(actions[:, None], 5, axis=1), states, 0.5), game)
    assert five.secret_p_value == once.secret_p_value
