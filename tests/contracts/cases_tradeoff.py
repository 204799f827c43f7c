"""Contract cases of counterplay.tradeoff."""

import math
from typing import Any

import numpy as np

from counterplay.tradeoff import (
    AdaNormalHedge,
    BicriteriaLearner,
    CallableSecondary,
    ChampionChallenger,
    CumulativeLossLearner,
    CusumOracle,
    Deactivation,
    DeactivationLearner,
    EpochGrid,
    EpochLearner,
    HarmBudget,
    Instance,
    LazyHedge,
    Phase,
    ReactivationLearner,
    RestartAtReset,
    RestartOnDeactivation,
    RiverExperts,
    ScalarizedLearner,
    SwitchTax,
    burst_check,
    burst_threshold,
    check_bounded_burst,
    check_stint_budget,
    count_switches,
    cusum,
    error_rate,
    frontier,
    impossibility_phases,
    impossibility_report,
    instances,
    minimax,
    missed_positives,
    primary_regret,
    required_budget,
    required_rate,
    secondary_regret,
    sleeping_regret,
    stints,
)

T, K = 120, 3
RNG = np.random.default_rng(0)
L1 = RNG.random((T, K))
L2 = np.full((T, K), 0.1)
L2[20:30, 0] = 1.0
LONG = np.full((T + 1, K), 0.1)
EVEN = np.full((T, K), 1 / K)
PATH = [0, 0, 1, 1, 2]
WATCHDOG = {"c": 0.2, "threshold": 4.0}


def softmin(first: Any, second: Any) -> Any:
    """Weigh the experts by the sum of their cumulative losses."""
    weights = np.exp(-0.1 * (first + second))
    return weights / weights.sum(axis=-1, keepdims=True)


def tax(t: int, actions: Any) -> Any:
    """Charge a round after a switch."""
    return np.full(2, float(len(actions) > 0 and t % 2))


class Always:
    """A model in the style of river that gives one answer."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer

    def predict_one(self, x: Any) -> bool:
        return self.answer

    def learn_one(self, x: Any, y: Any) -> None: ...


def stream(learner: BicriteriaLearner) -> list[int]:
    """Play round by round."""
    path = []
    for t in range(T):
        path.append(int(learner.act()))
        learner.update(L1[t], L2[t])
    return path


def learner_case(make: Any) -> dict[str, Any]:
    """Return the case of a learner: streaming, and what every learner must refuse."""
    return {
        "make": make,
        "run": stream,
        "bad": {
            "NaN loss": lambda: make().update([0.1, math.nan, 0.1], [0.1, 0.1, 0.1]),
            "loss above one": lambda: make().update([0.1, 1.5, 0.1], [0.1, 0.1, 0.1]),
            "wrong number of experts": lambda: make().update([0.1, 0.1], [0.1, 0.1]),
            "longer than the horizon": lambda: make().run(LONG, LONG, c=0.2),
            "different shapes": lambda: make().run(L1, L2[:, :2], c=0.2),
        },
    }


def champion() -> ChampionChallenger:
    """Return a small champion-challenger loop."""
    return ChampionChallenger(
        n_models=K, horizon=T, harm_rate=0.2, burst=5.0, review_every=10, random_state=0
    )


def serve(live: ChampionChallenger) -> list[int]:
    """Run the loop to its horizon."""
    path = []
    for t in range(T):
        path.append(int(live.current))
        live.step(primary=L1[t], secondary=L2[t])
    return path


def report_after_use() -> Any:
    """Return the report of a loop that ran."""
    live = champion()
    serve(live)
    return live.report()


LEARNERS = {
    "EpochLearner": learner_case(lambda: EpochLearner(T, K, B=10, random_state=0)),
    "LazyHedge": learner_case(lambda: LazyHedge(T, K, threshold=4.0, random_state=0)),
    "ScalarizedLearner": learner_case(lambda: ScalarizedLearner(0.5, T, K, random_state=0)),
    "CumulativeLossLearner": {
        **learner_case(lambda: CumulativeLossLearner(softmin, T, K, random_state=0)),
        "no_json": "the rule is a function of the user, which has no JSON form",
    },
    "DeactivationLearner": learner_case(
        lambda: DeactivationLearner(T, K, B=10, oracle=CusumOracle(**WATCHDOG), random_state=0)
    ),
    "ReactivationLearner": learner_case(
        lambda: ReactivationLearner(T, K, B=4, oracle=CusumOracle(**WATCHDOG), random_state=0)
    ),
    "RestartOnDeactivation": learner_case(
        lambda: RestartOnDeactivation(T, K, B=10, oracle=CusumOracle(**WATCHDOG), random_state=0)
    ),
    "RestartAtReset": learner_case(
        lambda: RestartAtReset(T, K, B=10, oracle=CusumOracle(**WATCHDOG), random_state=0)
    ),
    "AdaNormalHedge": learner_case(
        lambda: AdaNormalHedge(T, K, B=10, oracle=CusumOracle(**WATCHDOG), random_state=0)
    ),
    "ChampionChallenger": {
        "make": champion,
        "run": serve,
        "bad": {
            "no models": lambda: ChampionChallenger(n_models=0, horizon=T, harm_rate=0.1, burst=5),
            "rate above one": lambda: ChampionChallenger(
                n_models=2, horizon=T, harm_rate=1.5, burst=5
            ),
            "NaN loss": lambda: champion().step(primary=[0, math.nan, 0], secondary=[0, 0, 0]),
            "wrong number of losses": lambda: champion().step(primary=[0, 0], secondary=[0, 0]),
        },
    },
    "CusumOracle": {
        "make": lambda: CusumOracle(**WATCHDOG),
        "run": lambda oracle: oracle.judge(L2),
        "bad": {
            "rate above one": lambda: CusumOracle(c=1.5, threshold=1.0),
            "negative threshold": lambda: CusumOracle(c=0.5, threshold=-1.0),
            "NaN loss": lambda: CusumOracle(**WATCHDOG).judge(np.full((4, 2), math.nan)),
        },
    },
    "RiverExperts": {
        "make": lambda: RiverExperts([Always(True), Always(False)]),
        "run": lambda experts: experts.replay([({"x": 1}, True), ({"x": 2}, False)]),
        "bad": {
            "no models": lambda: RiverExperts([]),
            "not a model": lambda: RiverExperts([3]),
        },
    },
}

OBJECTS = {
    "Instance": {
        "make": lambda: Instance(L1, L2, c=0.1, delta=0.5, alpha=0.5),
        "bad": {
            "different shapes": lambda: Instance(L1, L2[:, :2], c=0.1, delta=0.5, alpha=0.5),
            "NaN": lambda: Instance(L1 * math.nan, L2, c=0.1, delta=0.5, alpha=0.5),
            "rate above one": lambda: Instance(L1, L2, c=1.5, delta=0.5, alpha=0.5),
        },
    },
    "EpochGrid": {
        "make": lambda: EpochGrid(10, 4),
        "bad": {
            "epoch longer than the horizon": lambda: EpochGrid(10, 11),
            "empty epoch": lambda: EpochGrid(10, 0),
        },
    },
    "HarmBudget": {
        "make": lambda: HarmBudget(rate=0.1, burst=20.0),
        "bad": {
            "negative rate": lambda: HarmBudget(rate=-0.1, burst=20.0),
            "NaN burst": lambda: HarmBudget(rate=0.1, burst=math.nan),
        },
    },
    "SwitchTax": {
        "make": lambda: SwitchTax(K=2, c=0.2, delta=0.5, B=10),
        "bad": {"no experts": lambda: SwitchTax(K=0, c=0.2, delta=0.5, B=10)},
    },
    "CallableSecondary": {
        "make": lambda: CallableSecondary(tax, K=2),
        "run": lambda secondary: secondary.played([0, 0, 1, 1]),
    },
    "Deactivation": {
        "make": lambda: Deactivation(round=8, expert=1, start=2, excess=2.5, off_from=9),
    },
    "OracleRun": {"make": lambda: CusumOracle(**WATCHDOG).judge(L2)},
    "BurstCheck": {"make": lambda: burst_check(L2, c=0.2, threshold=4.0)},
    "ChampionReport": {"make": report_after_use},
    "ImpossibilityReport": {"make": lambda: impossibility_report(L1, L2)},
    "Minimax": {"make": lambda: minimax(impossibility_phases(), c=1 / 16)},
    "Phase": {"make": lambda: Phase("start", 0.5, l1=(0.25, 0.75), l2=(0.0, 0.1))},
    "Plan": {
        "make": lambda: EpochLearner(T, K, B=10).plan(L1),
        "run": lambda plan: plan.expected(L1),
    },
    "ReactivationTrace": {"make": lambda: ReactivationLearner(T, K, B=4).trace(L1, L2)},
    "RunResult": {
        "make": lambda: EpochLearner(T, K, B=10, random_state=0).run(L1, L2, c=0.2),
    },
}

FUNCTIONS = {
    "anytime": {"args": {"kind": "doubling"}},
    "burst_check": {
        "args": {"l2": L2, "c": 0.2, "threshold": 4.0},
        "bad": {"rate above one": lambda: burst_check(L2, 1.2, 4.0)},
    },
    "burst_pair_phases": {"args": {"m": 600}},
    "burst_threshold": {
        "args": {"T": 10_000, "delta": 0.5, "alpha": 0.5},
        "bad": {"alpha above one": lambda: burst_threshold(100, 0.5, 1.5)},
    },
    "check_bounded_burst": {
        "args": {"l2": L2, "c": 0.2, "delta": 0.5, "alpha": 0.5},
        "bad": {"empty": lambda: check_bounded_burst(np.zeros((0, 2)), 0.2, 0.5, 0.5)},
    },
    "check_stint_budget": {
        "args": {"l2_played": [1.0, 0.0, 1.0, 0.0, 1.0], "path": PATH, "c": 0.5, "threshold": 1.0},
        "bad": {"wrong length": lambda: check_stint_budget([1.0], PATH, 0.5, 1.0)},
    },
    "count_switches": {
        "args": {"paths": PATH},
        "bad": {"not experts": lambda: count_switches([0.5, 1.5])},
    },
    "cusum": {
        "args": {"l2": L2, "c": 0.2},
        "bad": {"NaN": lambda: cusum([[math.nan]], 0.2), "rate": lambda: cusum(L2, -0.2)},
    },
    "error_rate": {
        "args": {"y_true": [0, 1], "y_pred": [1, 1]},
        "bad": {"lengths": lambda: error_rate([0], [0, 1]), "empty": lambda: error_rate([], [])},
    },
    "missed_positives": {
        "args": {"y_true": [0, 1], "y_pred": [1, 0]},
        "bad": {"lengths": lambda: missed_positives([0], [0, 1])},
    },
    "frontier": {
        "args": lambda: {"worlds": impossibility_phases(), "c": 1 / 16, "secondary": [0.0]},
        "bad": {"NaN": lambda: frontier(impossibility_phases(), math.nan, [0.0])},
    },
    "impossibility_phases": {"args": {}},
    "impossibility_report": {
        "args": {"l1": L1, "l2": L2},
        "bad": {"different shapes": lambda: impossibility_report(L1, L2[:, :2])},
    },
    "minimax": {
        "args": lambda: {"worlds": impossibility_phases(), "c": 1 / 16},
        "bad": {"NaN": lambda: minimax(impossibility_phases(), c=math.nan)},
    },
    "primary_regret": {
        "args": {"l1": L1, "P": EVEN},
        "bad": {"not a distribution": lambda: primary_regret(L1, EVEN * 2)},
    },
    "secondary_regret": {
        "args": {"l2": L2, "P": EVEN, "c": 0.2},
        "bad": {"rate above one": lambda: secondary_regret(L2, EVEN, 1.2)},
    },
    "sleeping_regret": {
        "args": {"l1": L1, "P": EVEN, "active": np.ones((T, K), dtype=bool)},
        "bad": {"wrong shape": lambda: sleeping_regret(L1, EVEN, np.ones((T, 1), dtype=bool))},
    },
    "replay_losses": {"no_case": "needs fitted models; its doctest and tests/tradeoff use them"},
    "required_budget": {
        "args": {"l2": L2, "c": 0.2},
        "bad": {"NaN": lambda: required_budget([[math.nan]], 0.2)},
    },
    "required_rate": {
        "args": {"l2": L2, "budget": 4.0},
        "bad": {"negative budget": lambda: required_rate(L2, -1.0)},
    },
    "rounds_since_switch": {"args": {"paths": PATH}},
    "stints": {"args": {"path": PATH}, "bad": {"two axes": lambda: stints([[0, 1]])}},
}

INSTANCES = {
    "instances.classification_losses": {"args": {"a": 0.5, "b": 0.25}},
    "instances.impossibility_worlds": {
        "args": {"T": 96},
        "bad": {"no rounds": lambda: instances.impossibility_worlds(0)},
    },
    "instances.burst_pair": {
        "args": {"T": 256, "alpha": 0.5},
        "bad": {"alpha above one": lambda: instances.burst_pair(256, 1.5)},
    },
    "instances.adaptive_switch_tax": {
        "args": {"T": 256, "alpha": 0.5, "K": 3, "c": 0.2, "delta": 0.5, "random_state": 0},
    },
    "instances.cumulative_trap": {
        "args": {"T": 4096, "alpha": 0.8, "c": 0.5, "world": 1, "random_state": 0},
    },
    "instances.deactivation_ladder": {"args": {"T": 4096, "alpha": 0.4, "K": 3}},
    "instances.calm": {"args": {"T": 256, "alpha": 0.5, "K": 3, "random_state": 0}},
    "instances.burst": {"args": {"T": 1024, "alpha": 0.4, "K": 3}},
    "instances.prefix_star": {"args": {"T": 1024, "alpha": 0.4, "K": 4, "T_h": 200}},
    "instances.staggered": {"args": {"T": 1024, "alpha": 0.3, "K": 4}},
    "instances.random_bounded": {
        "args": {"T": 256, "K": 3, "c": 0.2, "threshold": 4.0, "random_state": 0},
    },
}

BOUNDS = {
    f"bounds.{name}": {"args": arguments}
    for name, arguments in {
        "hedge_regret": {"T": 1000, "K": 10},
        "decreasing_hedge_regret": {"m": 1000, "K": 10},
        "dartboard_loss": {"best": 50.0, "K": 10, "eta": 0.1},
        "dartboard_redraws": {"best": 50.0, "K": 10, "eta": 0.1},
        "dartboard_regret": {"E": 100, "K": 10},
        "dartboard_switches": {"E": 100, "K": 10},
        "lazy_leader_loss": {"best": 50.0, "K": 10, "eps": 0.1},
        "lazy_leader_switches": {"loss": 80.0, "eps": 0.125},
        "epoch_primary": {"T": 10_000, "K": 10, "B": 100},
        "epoch_secondary": {"T": 10_000, "K": 10, "B": 100, "threshold": 100.0},
        "balanced_epochs": {"T": 10_000, "K": 10, "threshold": 25.0},
        "lazy_hedge_rate": {"T": 10_000, "K": 10, "threshold": 100.0},
        "lazy_hedge_primary": {"T": 10_000, "K": 10, "threshold": 100.0},
        "lazy_hedge_secondary": {"T": 10_000, "K": 10, "threshold": 100.0},
        "doubling_regret": {"m": 100, "K": 10},
        "doubling_switches": {"m": 100, "K": 10},
        "coupling_secondary": {"threshold": 10.0, "total_variation": 2.5},
        "deactivation_sleeping": {"active_rounds": 10_000, "K": 10, "B": 100},
        "deactivation_secondary": {
            "threshold": 10.0,
            "switches": 4.0,
            "deactivations": 2,
            "c": 0.25,
        },
        "restart_sleeping": {"active_rounds": [5000, 5000], "K": 10, "B": 100},
        "reactivation_epochs": {"K": 10},
        "reactivation_sleeping": {
            "T": 10_000, "K": 10, "B": 100, "active_rounds": 10_000, "late_segments": 1,
        },
        "reactivation_draws": {"E": 100, "K": 10, "deactivations": 3, "resets": 1},
        "reactivation_secondary": {
            "T": 10_000, "K": 10, "B": 100, "threshold": 50.0, "c": 0.1, "deactivations": 3,
            "resets": 1,
        },
        "stint_secondary": {
            "threshold": 10.0, "c": 0.25, "switches": 4, "resets": 1, "deactivations": 2,
        },
        "impossibility_average": {"T": 144_000},
        "impossibility_worst": {"T": 120_000},
        "burst_pair_minimax": {"m": 600.0},
        "binomial_minimum": {"E": 10, "K": 2},
        "minimum_constant": {"E": 1000, "K": 4},
        "switch_tax": {"T": 16_384, "K": 4, "B": 128, "delta": 0.5},
        "cumulative_trap": {"T": 10**6, "alpha": 0.8},
        "ladder_secondary": {"lengths": [10, 90], "excess": [0.5, 0.1], "sleeping": [5.0, 10.0]},
        "ladder_target": {"K": 5, "ratio": 4.0},
    }.items()
}  # fmt: skip

CASES = {**LEARNERS, **OBJECTS, **FUNCTIONS, **INSTANCES, **BOUNDS}
