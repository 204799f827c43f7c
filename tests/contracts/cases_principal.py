"""Contract cases of counterplay.principal."""

from typing import Any

import numpy as np

from counterplay.principal import (
    ContextualSwapAgent,
    ContractGame,
    ContractLPOracle,
    Decision,
    DisclosureGame,
    FollowRecommendation,
    LinearContractGame,
    LinearContractOracle,
    PersuasionGame,
    PersuasionOracle,
    RecentAverage,
    RepeatedContract,
    StableMechanism,
    UnbiasedForecaster,
    behaviour_audit,
    bounds,
    compare_forecasters,
    decision_audit,
    design_contract,
    design_disclosure,
    fit_game,
    play,
)
from counterplay.principal.instances import (
    near_tie_contract,
    no_stable_policy_instance,
    oracle_bug_instances,
    prosecutor_game,
    random_contract_game,
    random_persuasion_game,
    secret_information_instance,
)
from counterplay.principal.lab import (
    Always,
    BehaviourReport,
    BestResponseMechanism,
    BestResponseRule,
    Bins,
    BlumMansour,
    ClassifierForecaster,
    CommonPriorAgent,
    ConstantForecaster,
    ConstantMechanism,
    Context,
    ContractTranscript,
    DecisionReport,
    Design,
    EmpiricalMeanForecaster,
    EventFamilies,
    EWMAForecaster,
    FiniteGame,
    FiniteStableOracle,
    ForecastBestResponseAgent,
    ForecastMechanism,
    KGRule,
    Mechanism,
    MostLikely,
    NatureView,
    NetCalibratedForecaster,
    NetPoint,
    ObedienceOracle,
    OfferFit,
    OfferMarket,
    OptimisticRule,
    OracleSpec,
    PersuasionGeometry,
    Scheme,
    ScriptedMechanism,
    SecretInfoAgent,
    Seller,
    SpitefulAgent,
    StabilizedPersuasion,
    Stage,
    Terms,
    behaviour,
    best_response,
    betting_limits,
    cost_ranges,
    eps_ball,
    insured,
    is_stable,
    obedience_lp,
    optimal_payments,
    random_offer_market,
    response_band,
    smallest_regret,
    solve_minimax,
    tie_points,
    worst_regrets,
)

STATES = np.random.default_rng(0).integers(0, 2, 30)
COIN = LinearContractGame([[0, 0], [0, 1]], [0, 0.25])
FAIR = [0.5, 0.5]
GAINS = np.random.default_rng(0).random((12, 3))
JUDGE = prosecutor_game()
THREE = DisclosureGame([[1, 0, 0], [0, 1, 0], [0.2, 0.2, 1]], [0.0, 0.3, 1.0])
PAY = ContractGame([[0, 0], [0, 1]], [0.0, 1.0], [0.0, 0.25])


def oracle() -> LinearContractOracle:
    return LinearContractOracle(COIN, [0.3, 0.6], beta=0.2, delta=0.1)


def stable() -> StableMechanism:
    return StableMechanism(oracle(), random_state=0)


def played(mechanism: Mechanism) -> ContractTranscript:
    fixed = 1 if isinstance(mechanism, ScriptedMechanism) else None
    agent = ContextualSwapAgent(random_state=0)
    game = RepeatedContract(mechanism.game, agent, STATES, fixed_recommendation=fixed)
    return play(mechanism, game)


def started() -> StableMechanism:
    mechanism = stable()
    mechanism.begin(30)
    return mechanism


def transcript() -> ContractTranscript:
    return played(stable())


def stage() -> Stage:
    return Stage(COIN, (0.3, 0.6), np.arange(30) % 2, np.ones(30, int), STATES)


def report() -> BehaviourReport:
    return behaviour_audit(transcript())


def decisions() -> DecisionReport:
    risk = np.linspace(0, 1, 60)
    done, event = np.where(risk > 0.4, "act", "wait"), (np.arange(60) * 7 % 60 < 60 * risk) * 1
    log = {"risk": risk, "done": done, "event": event}
    return decision_audit(log, decision="done", outcome="event", forecast="risk")


def design() -> Design:
    return design_contract([[0, 0], [0, 1]], [0, 0.25], STATES, replicates=2)


def decide(rule: Any, states: int = 2) -> list[Any]:
    grid = np.random.default_rng(0).dirichlet(np.ones(states), size=5)
    return [rule.decide(forecast) for forecast in grid]


def stream(forecaster: Any) -> list[Any]:
    made = []
    for y in STATES[:12]:
        made.append(forecaster.predict_one())
        forecaster.learn_one(int(y))
    return made


def replay(agent: Any) -> Any:
    return agent.replay(stage(), np.random.default_rng(0).random((30, 2)))


def react(past: Any) -> tuple[int, int]:
    return past.size % 2, 1


def worst(view: NatureView) -> int:
    return view.round % 2


def jump(x: Any) -> Any:
    return np.array([0.0, 1.0]) if x[1] > 0.5 else np.array([0.0, -1.0])


BY_AGENT = "shown by ContextualSwapAgent"
BY_PLAY = "shown by RepeatedContract"
RESPONSE = {"game": COIN, "policy": 0.6, "forecast": FAIR}
UNEVEN = lambda: best_response(COIN, 0.5, [0.5, 0.6])  # noqa: E731  a bad call, like the others

FORECASTERS = {
    "UnbiasedForecaster": {
        "make": lambda: UnbiasedForecaster(2, horizon=30, random_state=0),
        "run": lambda f: [stream(f), f.bias_report(), f.certificate()],
        "bad": {
            "no outcomes": lambda: UnbiasedForecaster(0).predict_one(),
            "unknown outcome": lambda: UnbiasedForecaster(2).learn_one(2),
        },
    },
    "ForecastCertificate": {
        "make": lambda: UnbiasedForecaster(2, random_state=0).learn_one(0).certificate(),
        "no_example": "shown by UnbiasedForecaster",
        "no_frame": "a handful of numbers",
    },
    "NetCalibratedForecaster": {
        "make": lambda: NetCalibratedForecaster(2, eta=0.25, horizon=30, random_state=0),
        "run": stream,
        "bad": {"too many points": lambda: NetCalibratedForecaster(30, eta=0.1).predict_one()},
    },
    "EmpiricalMeanForecaster": {"make": lambda: EmpiricalMeanForecaster(2), "run": stream},
    "EWMAForecaster": {
        "make": lambda: EWMAForecaster(2),
        "run": stream,
        "bad": {"decay 2": lambda: EWMAForecaster(2, decay=2.0).predict_one()},
    },
    "RecentAverage": {
        "make": lambda: RecentAverage(2),
        "run": stream,
        "bad": {"no rates": lambda: RecentAverage(2, decays=()).predict_one()},
    },
    "ConstantForecaster": {
        "make": lambda: ConstantForecaster(2),
        "run": stream,
        "bad": {
            "not probabilities": lambda: ConstantForecaster(2, probabilities=[1, 1]).predict_one()
        },
    },
    "ClassifierForecaster": {
        "make": lambda: ClassifierForecaster(2, classifier=_bayes(), memory=2),
        "run": stream,
        "bad": {"no classifier": lambda: ClassifierForecaster(2).predict_one()},
    },
    "compare_forecasters": {
        "args": {
            "outcomes": STATES,
            "forecasters": {"mean": EmpiricalMeanForecaster(), "ours": UnbiasedForecaster()},
            "events": [MostLikely()],
            "random_state": 0,
        },
        "bad": {
            "no outcomes": lambda: compare_forecasters(
                np.array([], int), {}, [Always()], n_outcomes=2
            )
        },
    },
    "BiasComparison": {
        "make": lambda: compare_forecasters(
            STATES, {"mean": EmpiricalMeanForecaster()}, [Always()]
        ),
        "no_example": "shown by compare_forecasters",
    },
    "solve_minimax": {"args": {"gain": jump, "n": 2, "tol": 0.01}},
    "ForecastLottery": {
        "make": lambda: solve_minimax(jump, 2, 0.01),
        "no_example": "shown by solve_minimax",
    },
}


def _bayes() -> Any:
    from sklearn.naive_bayes import BernoulliNB

    return BernoulliNB()


EVENTS = {
    "Always": {"make": Always, "no_example": "one event", "run": lambda f: f.n_events(3)},
    "MostLikely": {
        "make": MostLikely,
        "no_example": "shown by EventFamilies",
        "run": lambda f: f.key(np.array([0.2, 0.8]), None),
    },
    "Decision": {
        "make": lambda: Decision([[0, 1], [1, 0]], "bet"),
        "run": lambda f: f.key(np.array([0.2, 0.8]), None),
        "bad": {"one axis": lambda: Decision([0.0, 1.0])},
    },
    "Bins": {
        "make": lambda: Bins(0, 4),
        "no_example": "shown by EventFamilies",
        "run": lambda f: f.describe(2),
        "bad": {"no bins": lambda: Bins(0, 0)},
    },
    "NetPoint": {
        "make": lambda: NetPoint(0.5),
        "no_example": "shown by NetCalibratedForecaster",
        "run": lambda f: f.key(np.array([0.2, 0.8]), None),
        "bad": {"eta 0.3": lambda: NetPoint(0.3)},
    },
    "Context": {
        "make": lambda: Context(3),
        "no_example": "the context itself",
        "run": lambda f: f.key(np.array([0.2, 0.8]), 1),
    },
    "EventFamilies": {
        "make": lambda: EventFamilies([Always(), Bins(0, 4)], 2),
        "run": lambda e: e.active(np.array([0.2, 0.8])),
        "bad": {"no family": lambda: EventFamilies([], 2)},
    },
}

GAMES = {
    "FiniteGame": {
        "make": lambda: FiniteGame([[[0.0, 0.1]]], [[[0.2, 0.3]]]),
        "run": lambda g: g.UV([0], FAIR),
        "bad": {"utility 2": lambda: FiniteGame([[[2.0]]], [[[0.0]]])},
    },
    "LinearContractGame": {
        "make": lambda: LinearContractGame([[0, 0], [0, 1]], [0, 0.25]),
        "run": lambda g: g.UV([0.3, 0.6], FAIR),
        "bad": {"equal costs": lambda: LinearContractGame([[0], [1]], [0.1, 0.1])},
    },
    "ContractGame": {
        "make": lambda: ContractGame([[0, 0], [0, 1]], [0.0, 1.0], [0.0, 0.25]),
        "run": lambda g: g.UV([g.linear(0.5)], FAIR),
        "bad": {"outcome 2": lambda: ContractGame([[0, 2]], [0.0, 1.0], [0.0])},
    },
    "DisclosureGame": {
        "make": lambda: DisclosureGame(np.eye(3), [0, 0.5, 1]),
        "run": lambda g: g.UV([g.no_disclosure()], [0.2, 0.3, 0.5]),
        "bad": {"value 2": lambda: DisclosureGame(np.eye(2), [0, 2])},
    },
    "PersuasionGame": {
        "make": prosecutor_game,
        "run": lambda g: g.UV([g.full_disclosure()], FAIR),
        "bad": {"three states": lambda: PersuasionGame(np.eye(3), [0, 0, 1])},
    },
    "Scheme": {
        "make": lambda: Scheme([[0.5, 0], [0.5, 1]]),
        "run": lambda s: s.posteriors(FAIR),
        "bad": {"column": lambda: Scheme([[0.5, 0], [0.4, 1]])},
    },
    "PersuasionGeometry": {
        "make": lambda: PersuasionGeometry(prosecutor_game()),
        "run": lambda g: [g.v_star(0.3), g.s_star(0.5), g.optimal_scheme(0.3).matrix],
        "bad": {"mu = 2": lambda: PersuasionGeometry(JUDGE).v_star(2.0)},
    },
    "StabilizedPersuasion": {
        "make": lambda: StabilizedPersuasion(prosecutor_game(), 0.02),
        "run": lambda s: [s.value(0.3), s.scheme(0.3).matrix, s.posterior_split(0.3)],
        "bad": {"beta C/4": lambda: StabilizedPersuasion(JUDGE, 0.125)},
    },
}

RULES = {
    "BestResponseRule": {
        "make": lambda: BestResponseRule(COIN, [0.3, 0.6]),
        "run": decide,
        "no_example": "shown by BestResponseMechanism",
        "bad": {"empty P0": lambda: BestResponseRule(COIN, [])},
    },
    "OptimisticRule": {"make": lambda: OptimisticRule(COIN, [0.3, 0.6], eps=0.1), "run": decide},
    "LinearContractOracle": {
        "make": oracle,
        "run": decide,
        "bad": {"beta 0": lambda: LinearContractOracle(COIN, [0.5], 0.0, 0.1)},
    },
    "PersuasionOracle": {
        "make": lambda: PersuasionOracle(JUDGE, beta=0.05),
        "run": decide,
        "bad": {"no beta": lambda: PersuasionOracle(JUDGE)},
    },
    "KGRule": {"make": lambda: KGRule(JUDGE), "run": decide},
    "FiniteStableOracle": {
        "make": lambda: FiniteStableOracle(
            no_stable_policy_instance(), eps=0.0, beta=0.1, gamma=0.0
        ),
        "run": lambda rule: decide(rule, 1),
        "bad": {
            "nothing stable": lambda: FiniteStableOracle(
                no_stable_policy_instance(), eps=0.0, beta=0.2, gamma=0.0
            )([1.0])
        },
    },
    "ObedienceOracle": {
        "make": lambda: ObedienceOracle(THREE, margin=0.2),
        "run": lambda rule: decide(rule, 3),
        "bad": {"margin 2": lambda: ObedienceOracle(THREE, margin=2.0)},
    },
    "ContractLPOracle": {
        "make": lambda: ContractLPOracle(PAY, [PAY.linear(0.5)], margin=0.1, parts=20),
        "run": decide,
        "bad": {"margin 1": lambda: ContractLPOracle(PAY, [PAY.linear(0.5)], margin=1.0)},
    },
    "OracleSpec": {
        "make": lambda: OracleSpec(0.1, 0.01, 0.01, 0.0, 12),
        "no_example": "carried by every oracle",
    },
}

MECHANISMS = {
    "StableMechanism": {"make": stable, "run": lambda m: played(m).columns},
    "BestResponseMechanism": {
        "make": lambda: BestResponseMechanism(COIN, [0.3, 0.6], random_state=0),
        "run": lambda m: played(m).columns,
    },
    "ForecastMechanism": {
        "make": lambda: ForecastMechanism(KGRule(JUDGE), random_state=0),
        "run": lambda m: played(m).columns,
        "no_example": "shown by StableMechanism",
    },
    "ConstantMechanism": {
        "make": lambda: ConstantMechanism(COIN, 0.6, random_state=0),
        "run": lambda m: played(m).columns,
        "no_example": "shown by behaviour_audit",
    },
    "ScriptedMechanism": {
        "make": lambda: ScriptedMechanism(COIN, [0.3, 0.6], [0.5], react),
        "run": lambda m: played(m).columns,
        "no_example": "shown by instances.reactive_mechanism",
    },
    "Offer": {"make": lambda: started().act(), "no_example": "returned by a mechanism"},
    "NatureView": {
        "make": lambda: started().view(np.empty(0, int)),
        "no_example": "shown to a Nature",
    },
    "RepeatedContract": {
        "make": lambda: RepeatedContract(COIN, SpitefulAgent(), STATES),
        "run": lambda game: play(stable(), game).columns,
        "bad": {"unknown state": lambda: RepeatedContract(COIN, SpitefulAgent(), [0, 7])},
    },
    "gap_adversary": {
        "args": {"random_state": 0},
        "no_example": "a Nature, shown in the studies",
    },
    "ContractTranscript": {"make": transcript, "no_example": BY_PLAY},
    "Stage": {"make": stage, "no_example": "shown by behaviour"},
    "behaviour": {
        "args": lambda: {"stage": stage(), "actions": STATES},
        "bad": {"too short": lambda: behaviour(stage(), [0])},
    },
    "Behaviour": {"make": lambda: behaviour(stage(), STATES), "no_example": "shown by behaviour"},
    "conditional_bias": {
        "args": {"forecasts": np.full((30, 2), 0.5), "states": STATES, "ids": STATES}
    },
    "behaviour_audit": {
        "args": lambda: {"log": transcript(), "random_state": 0},
        "bad": {"no outcomes": lambda: behaviour_audit({"offer": [0.5]})},
    },
    "BehaviourReport": {"make": report, "no_example": "shown by behaviour_audit"},
    "Replicated": {"make": lambda: report().game, "no_example": "shown by behaviour_audit"},
    "insured": {
        "args": lambda: {
            "mechanism": stable(),
            "advice": 0.6,
            "agent": ContextualSwapAgent(random_state=0),
            "states": STATES,
            "random_state": 0,
        },
        "bad": {"share 2": lambda: insured(stable(), 2.0, ContextualSwapAgent(), STATES)},
    },
    "InsuredRun": {
        "make": lambda: insured(stable(), 0.6, ContextualSwapAgent(random_state=0), STATES),
        "no_example": "shown by insured",
    },
    "running_mean_limits": {"args": {"values": np.linspace(0, 1, 30), "low": 0.0, "high": 1.0}},
    "betting_limits": {
        "args": {"values": np.linspace(0, 1, 30), "low": 0.0, "high": 1.0},
        "bad": {"level 2": lambda: betting_limits(np.zeros(3), 0.0, 1.0, level=2.0)},
    },
    "decision_audit": {
        "args": {
            "log": {"done": ["a", "b"] * 20, "event": [0, 1, 1, 0] * 10},
            "decision": "done",
            "outcome": "event",
        },
        "bad": {
            "outcome 2": lambda: decision_audit(
                {"done": ["a", "b"], "event": [0, 2]}, decision="done", outcome="event"
            )
        },
    },
    "DecisionReport": {"make": decisions, "no_example": "shown by decision_audit"},
    "Proposal": {
        "make": lambda: decisions().propose({"act": 1.0, "wait": 0.0}),
        "no_example": "made by DecisionReport.propose",
    },
    "design_contract": {
        "args": {
            "values": [[0, 0], [0, 1]],
            "costs": [0, 0.25],
            "history": STATES,
            "random_state": 0,
        },
        "bad": {"state 5": lambda: design_contract([[0, 0], [0, 1]], [0, 0.25], [5])},
    },
    "design_disclosure": {
        "args": {"u": np.eye(2), "v": [0, 1], "history": STATES, "random_state": 0},
        "bad": {"value 2": lambda: design_disclosure(np.eye(2), [0, 2], STATES)},
    },
    "Design": {"make": design, "no_example": "shown by design_contract"},
}

AGENTS = {
    "BlumMansour": {
        "make": lambda: BlumMansour(3, random_state=0),
        "run": lambda learner: (
            [(learner.act(), learner.observe(gain)) for gain in GAINS] + [learner.probs()]
        ),
        "bad": {
            "no actions": lambda: BlumMansour(0),
            "wrong number of gains": lambda: BlumMansour(3).observe([0.1, 0.2]),
            "NaN gain": lambda: BlumMansour(2).observe([0.1, np.nan]),
        },
    },
    "FollowRecommendation": {"make": FollowRecommendation, "run": replay},
    "CommonPriorAgent": {
        "make": lambda: CommonPriorAgent([0.3, 0.7]),
        "run": replay,
        "no_example": BY_AGENT,
    },
    "ContextualSwapAgent": {"make": lambda: ContextualSwapAgent(random_state=0), "run": replay},
    "SpitefulAgent": {
        "make": SpitefulAgent,
        "run": replay,
        "no_example": "shown by StableMechanism",
        "bad": {"B = -1": lambda: SpitefulAgent(-1.0)},
    },
    "ForecastBestResponseAgent": {
        "make": lambda: ForecastBestResponseAgent(random_state=0),
        "run": replay,
        "no_example": BY_AGENT,
    },
    "SecretInfoAgent": {
        "make": lambda: SecretInfoAgent(random_state=0),
        "run": replay,
        "no_example": "shown by behaviour_audit",
        "bad": {"step": lambda: SecretInfoAgent().act(0, 0, 0.5)},
    },
}

FUNCTIONS = {
    "best_response": {"args": RESPONSE, "bad": {"sums to 1.1": UNEVEN}},
    "best_responses": {"args": {"U": [[0.0, 0.0, -1.0]], "V": [[0.1, 0.5, 1.0]]}},
    "eps_ball": {
        "args": {**RESPONSE, "eps": 0.1},
        "bad": {"eps -1": lambda: eps_ball(COIN, 0.5, FAIR, -1.0)},
    },
    "optimistic_response": {"args": {**RESPONSE, "eps": 0.1}},
    "principal_best_response": {"args": {"game": COIN, "P0": [0.3, 0.6], "forecast": FAIR}},
    "optimistic_pair": {"args": {"game": COIN, "P0": [0.3, 0.6], "forecast": FAIR, "eps": 0.1}},
    "is_stable": {
        "args": {**RESPONSE, "beta": 0.1, "gamma": 0.0},
        "bad": {"contract 2": lambda: is_stable(COIN, 2.0, FAIR, 0.1, 0.0)},
    },
    "optimality_loss": {"args": {**RESPONSE, "P0": [0.5], "eps": 0.0}},
    "contract_grid": {"args": {"delta": 0.3}},
    "tie_points": {
        "args": {"game": COIN, "forecast": FAIR},
        "bad": {"three states": lambda: tie_points(COIN, [0.2, 0.3, 0.5])},
    },
    "benchmark_schemes": {"args": {"geometry": PersuasionGeometry(JUDGE)}},
    "obedience_lp": {
        "args": {"u": np.eye(2), "v": [[0, 0], [1, 1]], "prior": [0.7, 0.3]},
        "bad": {"margin 3": lambda: obedience_lp(np.eye(2), np.eye(2), FAIR, margin=3.0)},
    },
    "ObedienceSolution": {
        "make": lambda: obedience_lp(np.eye(2), [[0, 0], [1, 1]], [0.7, 0.3]),
        "no_example": "shown by obedience_lp",
        "no_frame": "a scheme, not a table",
    },
    "disclosure_library": {"args": {"game": THREE, "margin": 0.2, "parts": 2}},
    "largest_margin": {"args": {"game": THREE}},
    "optimal_payments": {
        "args": {"game": PAY, "forecast": FAIR},
        "bad": {"margin -1": lambda: optimal_payments(PAY, FAIR, margin=-1.0)},
    },
}

INSTANCES = {
    "instances.no_stable_policy_instance": {
        "args": {"scale": 0.5},
        "bad": {"scale 1": lambda: no_stable_policy_instance(1.0)},
    },
    "instances.secret_information_instance": {
        "args": {"rounds": 20, "first_state": "H", "random_state": 0},
        "bad": {"first state X": lambda: secret_information_instance(5, "X")},
    },
    "instances.reactive_mechanism": {"args": lambda: {"game": secret_information_instance(2).game}},
    "instances.near_tie_contract": {
        "args": {"rounds": 20, "random_state": 0},
        "bad": {"no rounds": lambda: near_tie_contract(0)},
    },
    "instances.oracle_bug_instances": {"args": {}},
    "instances.prosecutor_game": {"args": {}},
    "instances.random_contract_game": {
        "args": {"n_actions": 3, "n_states": 2, "random_state": 0},
        "bad": {"no actions": lambda: random_contract_game(0, 2)},
    },
    "instances.random_persuasion_game": {
        "args": {"n": 3, "random_state": 0},
        "bad": {"n = 0": lambda: random_persuasion_game(0)},
    },
    "instances.ContractInstance": {
        "make": lambda: near_tie_contract(20, random_state=0),
        "no_example": "shown by near_tie_contract",
    },
    "instances.OracleBug": {
        "make": lambda: oracle_bug_instances()[0],
        "no_example": "shown by oracle_bug_instances",
    },
}

BOUNDS = {
    "bounds.blum_mansour_bound": {
        "args": {"n_actions": 3, "rounds": 100},
        "bad": {"no rounds": lambda: bounds.blum_mansour_bound(3, 0)},
    },
    "bounds.contextual_swap_regret": {"args": {"n_contexts": 4, "n_actions": 3, "rounds": 100}},
    "bounds.linear_contract_tuning": {"args": {"horizon": 100}},
    "bounds.linear_contract_loss": {"args": {"n_actions": 2, "beta": 0.1, "delta": 0.02}},
    "bounds.linear_contract_rate": {"args": {}},
    "bounds.bias_bound": {"args": {"Q": 100.0, "level": 9.0, "n_rates": 5}},
    "bounds.bias_level": {"args": {"start": 50.0, "n_rates": 5, "delta": 0.05}},
    "bounds.bias_bound_simple": {"args": {"n_active": 100.0, "level": 5.0}},
    "bounds.decision_events": {"args": {"n_output": 11, "n_benchmark": 5, "n_actions": 3}},
    "bounds.net_events": {"args": {"n_outcomes": 3, "eta": 0.1}},
    "bounds.stable_regret_rate": {
        "args": {
            "c": 0.1,
            "eps": 0.1,
            "beta": 0.1,
            "gamma": 0.1,
            "n_policies": 5,
            "n_benchmark": 5,
            "n_actions": 2,
            "n_states": 2,
            "horizon": 100,
            "swap_regret": 0.1,
        }
    },
    "bounds.general_regret_bound": {
        "args": {
            "alpha_realised": 0.1,
            "alpha_benchmark": 0.1,
            "swap_regret": 0.1,
            "negative_regret": 0.1,
            "M1": 1.0,
            "M2": 0.1,
        },
        "may_be_negative": ("negative_regret",),
    },
    "bounds.secret_information_regret": {"args": {"first_state": "M"}},
    "bounds.balance_threshold": {"args": {"horizon": 100}},
    "bounds.persuasion_tuning": {"args": {"horizon": 100, "discretization": "logit"}},
    "bounds.staircase_policies": {"args": {"n": 3, "parts": 100}},
    "bounds.log_odds_policies": {"args": {"beta": 0.02, "C": 0.5}},
    "bounds.stabilised_loss": {"args": {"beta": 0.02, "C": 0.5}},
    "bounds.rounded_loss": {"args": {"beta": 0.02, "C": 0.5, "delta": 1e-4}},
    "bounds.log_odds_loss": {"args": {"beta": 0.02, "C": 0.5}},
    "bounds.optimistic_excess": {"args": {"eps": 0.1, "c1": 1.0, "C": 0.5}},
}

SHARES = np.repeat([0.1, 0.3, 0.5], 20)
TWO = {"power": np.array([0.1, 0.3]), "lower": np.array([1.0, 2.0]), "upper": np.array([3.0, 4.0])}


def sellers() -> OfferFit:
    log = random_offer_market(0).log(SHARES, random_state=0)
    return fit_game(log, offer="commission", outcome="revenue", currency="EUR")


def planned(plan: Any) -> list[Any]:
    offers = []
    for _ in range(5):
        offers.append(plan.act())
        plan.observe(offers[-1], 100.0)
    return offers


OFFERS = {
    "fit_game": {
        "args": lambda: {
            "log": random_offer_market(0).log(SHARES, random_state=0),
            "offer": "commission",
            "outcome": "revenue",
            "random_state": 0,
        },
        "bad": {"no rows": lambda: fit_game({"offer": [], "outcome": []})},
    },
    "OfferFit": {"make": sellers, "no_example": "shown by fit_game"},
    "NextOffer": {"make": lambda: sellers().next_offer(), "no_example": "shown by fit_game"},
    "OfferPlanner": {
        "make": lambda: sellers().planner(9, random_state=0),
        "run": planned,
        "bad": {
            "no rounds": lambda: sellers().planner(0),
            "not a share": lambda: sellers().planner(5).observe(1.7, 3.0),
        },
    },
    "PlanReport": {
        "make": lambda: sellers().planner(9).report(),
        "no_example": "shown by OfferPlanner",
    },
    "Terms": {
        "make": lambda: Terms("price", unit_cost=1.0),
        "run": lambda terms: terms.margin([2.0, 3.0]),
        "bad": {"no list price": lambda: Terms("discount")},
    },
    "OfferMarket": {
        "make": lambda: OfferMarket([100.0, 400.0], [0.0, 60.0]),
        "run": lambda market: market.best_value(),
        "bad": {"one cost too few": lambda: OfferMarket([100.0, 400.0], [0.0])},
    },
    "Seller": {
        "make": lambda: Seller(random_offer_market(0), "hedge", random_state=0),
        "run": lambda seller: [seller.answer(0.3) for _ in range(5)],
        "mutable": "he learns",
        "bad": {"unknown kind": lambda: Seller(random_offer_market(0), "kind")},
    },
    "random_offer_market": {"args": {"random_state": 0}},
    "response_band": {
        "args": {"power": SHARES, "outcome": np.linspace(1, 2, 60), "random_state": 0},
        "bad": {"level 2": lambda: response_band(SHARES, SHARES, level=2.0)},
    },
    "ResponseBand": {"make": lambda: sellers().band, "no_example": "shown by response_band"},
    "cost_ranges": {
        "args": TWO,
        "bad": {"slack -1": lambda: cost_ranges(*TWO.values(), slack=-1.0)},
    },
    "smallest_regret": {
        "args": {"power": np.array([0.1, 0.3]), "means": np.array([2.0, 1.0])},
        "bad": {"lengths": lambda: smallest_regret(np.array([0.1]), np.array([2.0, 1.0]))},
    },
    "worst_regrets": {
        "args": {**TWO, "margin": np.array([0.9, 0.7])},
        "bad": {"lengths": lambda: worst_regrets(*TWO.values(), np.array([1.0]))},
    },
}

CASES = (
    OFFERS
    | FORECASTERS
    | EVENTS
    | GAMES
    | RULES
    | MECHANISMS
    | AGENTS
    | FUNCTIONS
    | INSTANCES
    | BOUNDS
)
