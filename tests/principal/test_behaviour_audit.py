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
    behaviour_audit,
)
from counterplay.principal.behaviour_audit import swap_limits
from counterplay.principal.instances import near_tie_contract, secret_information_instance
from counterplay.principal.lab import (
    BestResponseMechanism,
    ConstantMechanism,
    SecretInfoAgent,
    SpitefulAgent,
    Stage,
    betting_limits,
)
from principal.games import played


@pytest.fixture(scope="module")
def instance():
    return near_tie_contract(1500, random_state=0)


def test_obedient_agent_supports_everything(instance):
    oracle = LinearContractOracle(instance.game, [0.3, 0.6], horizon=1500)
    log = played(StableMechanism(oracle, random_state=0), FollowRecommendation(), instance.states)
    report = behaviour_audit(log)
    assert report.game.deviation_rate == 0.0
    assert report.game.secret_p_value == 1.0
    assert report.game.aligned
    assert report.guarantees() == ("stable mechanism (Theorem 7.2)",)
    assert "stable mechanism" in report.summary()
    assert report.game.bias.sum() == pytest.approx(log.alpha["choice"])


def test_secret_information_is_found_and_nothing_else():
    secret = secret_information_instance(1500, "M", random_state=0)
    mechanism = ConstantMechanism(secret.game, 0.5, recommendation=1, random_state=0)
    report = behaviour_audit(played(mechanism, SecretInfoAgent(random_state=0), secret.states))
    assert report.rational
    assert not report.no_secret_information
    assert report.game.secret_p_value <= 0.01
    assert report.guarantees() == ()
    frame = report.to_frame().set_index("finding")
    assert frame.loc["secret information (p-value)", "verdict"] == "found"


def test_irrational_agent_is_found(instance):
    mechanism = ConstantMechanism(instance.game, 0.9, random_state=0)
    log = played(mechanism, SpitefulAgent(B=100.0), instance.states)
    report = behaviour_audit(log)
    assert not report.rational
    assert report.guarantees() == ()


def test_permutation_test_keeps_its_level():
    game = LinearContractGame([[0, 0], [0, 1]], [0, 0.25])
    rejected = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        log = {
            "offer": [0.5] * 200,
            "recommendation": [1] * 200,
            "action": rng.integers(0, 2, 200),
            "state": rng.integers(0, 2, 200),
        }
        rejected += not behaviour_audit(log, game).no_secret_information
    assert rejected <= 5  # 1 expected; more than 5 has probability below 0.001


def test_plain_logs_are_read(instance):
    mechanism = ConstantMechanism(instance.game, 0.6, random_state=0)
    log = played(mechanism, ContextualSwapAgent(random_state=0), instance.states)
    frame = pd.DataFrame(
        {
            "offer": [log.policies[p] for p in log["p_idx"]],
            "recommendation": log["r"],
            "action": log["a"],
            "state": log["y"],
        }
    )
    one, two = behaviour_audit(frame, instance.game), behaviour_audit(log)
    assert one.regret == two.regret
    assert one.relative_limits == two.relative_limits
    assert one.game.secret_p_value == two.game.secret_p_value
    assert one.game.bias is None
    assert one.plot().get_xlabel()
    with pytest.raises(InvalidInputError, match="no column 'action'"):
        behaviour_audit(frame.drop(columns="action"), instance.game)
    with pytest.raises(InvalidInputError, match="give the game"):
        behaviour_audit(frame, state="state")


def test_a_frame_may_have_more_columns_and_its_own_index():
    game = LinearContractGame([[0, 0], [0, 1]], [0, 0.25])
    log = pd.DataFrame(bare_log([0, 1] * 20, [0, 1, 1, 0] * 10, policy=0.5))
    told = behaviour_audit(log, game).summary()
    dressed = log.assign(region="north", note=[["a"]] * 40).set_axis(range(100, 140))
    assert behaviour_audit(dressed[sorted(dressed)], game).summary() == told
    with pytest.raises(InvalidInputError, match="columns with names: 'offer', 'action'"):
        behaviour_audit(log.to_numpy(), game)
    with pytest.raises(InvalidInputError, match="lacks the column"):
        behaviour_audit({"offer": [0.5]}, game)


def bare_log(actions, states, policy=0.1, recommendation=0):
    n = len(states)
    return {
        "offer": [policy] * n,
        "recommendation": [recommendation] * n,
        "action": actions,
        "state": states,
    }


@pytest.mark.claim("25.15")
def test_regret_is_judged_by_the_stakes():
    """Working at a commission of 0.1 earns 0.002 or 0.01 and costs 0.04: always the worst action.

    Per round he loses all that was at stake, 0.04 minus the mean payment, although that is little
    in utilities between -1 and 1. Scaling the whole game must not change any verdict.
    """
    states = np.random.default_rng(0).integers(0, 2, 2000)
    lost = 0.04 - 0.1 * np.where(states == 1, 0.1, 0.02).mean()
    assert lost == pytest.approx(0.0338, abs=5e-5)
    for scale in (1.0, 0.1, 10.0):
        game = LinearContractGame(scale * np.array([[0, 0], [0.02, 0.1]]), [0, 0.04 * scale])
        works = behaviour_audit(bare_log([1] * 2000, states), game)
        assert works.regret == pytest.approx(scale * lost)
        assert works.stakes == pytest.approx(scale * lost)
        assert works.relative == pytest.approx(1.0)
        low, high = works.relative_limits
        assert 0.98 <= low <= high == 1.0
        assert works.verdict == "large"
        assert not works.rational
        assert works.guarantees() == ()
        assert "Theorem" not in works.summary()
        rests = behaviour_audit(bare_log([0] * 2000, states), game)
        assert rests.verdict == "small"
        assert rests.relative == 0.0


@pytest.mark.claim("25.16")
@pytest.mark.parametrize("rare", [0.3, 0.02])
def test_limits_cover_the_regret_of_the_habit(rare):
    """A slice of 30 runs; the study has 300."""
    game = LinearContractGame([[0, 0], [0.3, 0.5], [0.4, 1]], [0, 0.08, 0.25])
    hits, T = 0, 400
    for seed in range(30):
        rng = np.random.default_rng([seed, int(rare * 100)])
        y = (rng.random(T) < rare).astype(int)
        actions, policy = rng.integers(0, 3, T), np.where(rng.random(T) < 0.5, 0.3, 0.6)
        p_idx, zeros = (policy > 0.5).astype(int), np.zeros(T, int)
        low, high = swap_limits(Stage(game, (0.3, 0.6), p_idx, zeros, y), actions, 0.95)
        true = 0.0
        for p in (0.3, 0.6):
            expected = game.agent_utility(p) @ np.array([1 - rare, rare])
            for a in range(3):
                share = np.mean((policy == p) & (actions == a))
                true += share * (expected.max() - expected[a])
        hits += low - 1e-12 <= true <= high + 1e-12
    assert hits >= 28


def test_alignment_is_judged_by_the_stakes_too():
    """The Principal loses all she could lose, a utility of 0.0045 per round."""
    game = LinearContractGame([[0, 0], [0.009, 0.009]], [0, 0.0045])
    report = behaviour_audit(bare_log([0] * 500, [0, 1] * 250, policy=0.5, recommendation=1), game)
    assert report.game.principal_stakes == pytest.approx(0.0045)
    assert report.game.alignment_M2 == pytest.approx(0.0045)
    assert not report.game.aligned


def test_nothing_at_stake_is_said():
    game = LinearContractGame([[0, 0], [0.5, 0.5]], [0, 0.25])
    report = behaviour_audit(bare_log([0, 1] * 100, [0, 1] * 100, policy=0.5), game)
    assert report.stakes == 0.0
    assert report.verdict == "nothing was at stake"
    assert "nothing was at stake" in report.summary()


def test_theorems_are_named_only_for_their_mechanisms(instance):
    obedient, states = FollowRecommendation(), instance.states[:400]
    oracle = LinearContractOracle(instance.game, [0.3, 0.6], horizon=400)
    stable = played(StableMechanism(oracle, random_state=0), obedient, states)
    assert behaviour_audit(stable).guarantees() == ("stable mechanism (Theorem 7.2)",)
    general = BestResponseMechanism(instance.game, [0.3, 0.6], random_state=0)
    assert behaviour_audit(played(general, obedient, states)).guarantees() == (
        "best-response mechanism (Theorem 7.5)",
    )
    constant = ConstantMechanism(instance.game, 0.6, random_state=0)
    report = behaviour_audit(played(constant, obedient, states))
    assert report.rational
    assert report.guarantees() == ()
    assert "none" in report.summary()
    frame = {
        "offer": [stable.policies[p] for p in stable["p_idx"]],
        "recommendation": stable["r"],
        "action": stable["a"],
        "state": stable["y"],
    }
    bare = behaviour_audit(frame, instance.game)
    assert bare.rational
    assert bare.guarantees() == ()
    assert "guarantees" not in bare.summary()


@pytest.mark.claim("25.17")
@pytest.mark.parametrize("column", ["state", "action", "recommendation"])
@pytest.mark.parametrize("bad", [0.5, 1.5, np.nan, np.inf, None, -1.0, 1e300, pd.NA])
def test_codes_are_never_truncated(column, bad):
    game = LinearContractGame([[0, 0], [0, 1]], [0, 0.25])
    log = bare_log([0, 1, 0, 1], [0, 1, 1, 0])
    log[column] = [0, 1, bad, 0]
    for table in (log, pd.DataFrame(log)):
        with pytest.raises(InvalidInputError, match=f"{column} of row 2 is"):
            behaviour_audit(table, game)


@pytest.mark.claim("25.17")
def test_names_of_the_game_are_understood():
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
    assert behaviour_audit(names, game).summary() == behaviour_audit(codes, game).summary()
    floats = codes.astype({"action": float, "state": float})
    assert behaviour_audit(floats, game).summary() == behaviour_audit(codes, game).summary()
    with pytest.raises(InvalidInputError, match=r"state of row 3 is 'rain'.*known: dry, wet"):
        behaviour_audit(names.assign(state=["dry"] * 3 + ["rain"] * 47), game)


@pytest.mark.claim("25.17")
def test_all_replicates_count(instance):
    """Replicate 0 follows the recommendation, replicate 1 does the opposite."""
    states = instance.states[:300]
    mechanism = ConstantMechanism(instance.game, 0.9, recommendation=1, random_state=0)
    log = played(mechanism, FollowRecommendation(), states)
    both = np.stack([log["a"], 1 - log["a"]], axis=1)
    single = [behaviour_audit(bare_log(a, states, 0.9, 1), instance.game) for a in both.T]
    report = behaviour_audit(bare_log(both, states, 0.9, 1), instance.game)
    regrets = [one.regret for one in single]
    assert report.game.each("swap_regret").tolist() == regrets
    assert report.regret == pytest.approx(np.mean(regrets))
    assert report.game.deviation_rate == 0.5
    assert [one.rational for one in single] == [True, False]
    assert not report.rational  # one of his two selves is not
    assert "2 replicate(s)" in report.summary()
    many = played(mechanism, ContextualSwapAgent(random_state=0), states, replicates=5)
    assert len(behaviour_audit(many).game.behaviours) == many.actions.shape[1] == 5


def test_replicates_that_repeat_each_other_do_not_look_informed():
    """The same actions five times are no more evidence than once."""
    game = LinearContractGame([[0, 0], [0, 1]], [0, 0.25])
    rng = np.random.default_rng(2)
    actions, states = rng.integers(0, 2, 100), rng.integers(0, 2, 100)
    once = behaviour_audit(bare_log(actions, states, 0.5), game)
    five = behaviour_audit(bare_log(np.repeat(actions[:, None], 5, axis=1), states, 0.5), game)
    assert five.game.secret_p_value == once.game.secret_p_value


def test_a_log_without_recommendations_says_what_it_lacks():
    game = LinearContractGame([[0, 0], [0, 1]], [0, 0.25])
    log = bare_log([0, 1] * 50, [0, 1, 1, 0] * 25, policy=0.5)
    del log["recommendation"]
    report = behaviour_audit(log, game)
    assert np.isnan(report.game.deviation_rate)
    assert "nothing about deviations" in report.summary()
    with pytest.raises(InvalidInputError, match="lacks the column"):
        behaviour_audit(log, game, recommendation="advice")


def test_offers_and_outcomes_alone_show_a_least_regret():
    rng = np.random.default_rng(0)
    share = np.repeat([0.2, 0.4], 500)
    noise = rng.lognormal(-0.08, 0.4, 1000)
    falls = behaviour_audit({"offer": share, "outcome": np.where(share < 0.3, 500, 300) * noise})
    assert falls.evidence == "offers"
    assert 5 < falls.low <= falls.regret <= 25
    assert falls.verdict == "not decided by this log"
    assert "not visible" in falls.summary()
    rises = behaviour_audit({"offer": share, "outcome": np.where(share < 0.3, 300, 500) * noise})
    assert rises.low == 0.0
    assert rises.to_frame().iloc[0]["verdict"] == "consistent"
    for terms in ("price", "discount", "bonus", "fee"):
        assert behaviour_audit({"offer": share, "outcome": noise}, terms=terms).evidence == "offers"


def test_actions_with_costs_bound_the_regret_per_offer():
    """Work brings 400 for a cost of 60: at a share of .3 resting loses (.3 * 300 - 60) = 30."""
    rng = np.random.default_rng(1)
    share = np.repeat([0.1, 0.3], 200)
    works = rng.random(400) < np.where(share < 0.2, 0.3, 0.6)
    outcome = np.where(works, 400.0, 100.0) * rng.lognormal(-0.005, 0.1, 400)
    log = {"offer": share, "outcome": outcome, "did": np.where(works, "work", "rest")}
    report = behaviour_audit(log, action="did", costs={"work": 60.0, "rest": 0.0})
    # at .1 working loses 30, at .3 resting loses 30
    wrong = (works & (share < 0.2)) | (~works & (share > 0.2))
    assert report.evidence == "actions"
    assert report.regret == pytest.approx(30 * wrong.mean(), abs=2.0)
    assert report.low <= 30 * wrong.mean() <= report.high
    assert report.stakes == pytest.approx(30.0, abs=2.0)
    assert report.verdict == "large"
    with pytest.raises(InvalidInputError, match="no entry for the action 'rest'"):
        behaviour_audit(log, action="did", costs={"work": 60.0})
    with pytest.raises(InvalidInputError, match="name their column"):
        behaviour_audit(log, costs={"work": 60.0})


def test_betting_limits_hold_for_rare_gains():
    """A gain of chance .02: normal limits miss it in every fourth log, betting limits do not."""
    misses = 0
    for seed in range(200):
        x = (np.random.default_rng(seed).random(60) < 0.02).astype(float)
        low, high = betting_limits(x, 0.0, 1.0)
        misses += not low <= 0.02 <= high
    assert misses <= 10
    assert betting_limits(np.array([]), 0.0, 2.0) == (0.0, 2.0)
    assert betting_limits(np.ones(5), 1.0, 1.0) == (1.0, 1.0)
    with pytest.raises(InvalidInputError, match="values must be in"):
        betting_limits(np.array([3.0]), 0.0, 1.0)
