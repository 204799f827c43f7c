"""Contract cases of counterplay.tradeoff."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay import tradeoff as to
from counterplay.core.online import Hedge
from counterplay.tradeoff import instances, lab

T, K, C = 120, 3, 0.2
RNG = np.random.default_rng(0)
L1, L2 = RNG.random((T, K)), np.clip(RNG.normal(C, 0.2, (T, K)), 0, 1)
L2[:, 0] = np.minimum(L2[:, 0], C)
PATH = np.repeat([0, 2, 1, 0], T // 4)
ACTIVE = np.ones((T, K), dtype=bool)


def oracle(**extra: Any) -> to.CusumOracle:
    return to.CusumOracle(C, 4.0, **extra)


def bicriteria(learner: Any) -> Any:
    """Play a few rounds, and a complete run."""
    paths = to.play(learner, to.LossStream(L1, L2, c=C), fast=True).paths
    return paths, to.play(learner, to.LossStream(L1, L2, c=C), rounds=25).path


def rule(L1: Any, L2: Any) -> Any:
    return np.full(K, 1 / K)


def unseen(**settings: Any) -> Any:
    return lab.LiveChampion(
        n_models=K, horizon=T, budget=to.HarmBudget(C, 2.0), random_state=0, **settings
    )


def run_unseen(guard: Any) -> list[int]:
    models = []
    for t in range(30):
        decision = guard.act()
        model = decision.model
        guard.observe(decision.id, primary=float(L1[t, model]), secondary=float(L2[t, model]))
        models.append(model)
    return models


def accepted(acceptance: float = 0.5, **settings: Any) -> Any:
    return lab.SelectiveChampion(
        n_models=K, horizon=T, budget=to.HarmBudget(C, 2.0), acceptance=acceptance,
        random_state=0, **settings,
    )  # fmt: skip


def run_accepted(guard: Any) -> list[int]:
    models = []
    for t in range(30):
        decision = guard.act()
        guard.observe(decision.id, primary=L1[t], secondary=L2[t], probability=0.9)
        models.append(decision.model)
    return models


def live() -> to.ChampionChallenger:
    return to.ChampionChallenger(
        n_models=K, horizon=T, budget=to.HarmBudget(C, 2.0), review_every=40, random_state=0
    )


def steps(champion: to.ChampionChallenger) -> Any:
    return [champion.step(a, b) for a, b in zip(L1[:60], L2[:60])]


def used() -> to.ChampionChallenger:
    champion = live()
    steps(champion)
    return champion


class Constant:
    """A model that always says the same."""

    def __init__(self, answer: int) -> None:
        self.answer = answer

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.answer)

    def predict_one(self, x: Any) -> int:
        return self.answer

    def learn_one(self, x: Any, y: Any) -> None: ...

    def __repr__(self) -> str:
        return f"Constant({self.answer})"


def tax(t: int, actions: Any) -> Any:
    return np.full(K, 0.5 if t % 2 else 0.1)


BATCHES = [(np.zeros((4, 1)), np.array([0, 1, 1, 0]))]
BAD_LOSS = {
    "loss above one": lambda: to.play(
        to.EpochLearner(T, K, B=5), to.LossStream(L1 + 1, L2, c=C), fast=True
    )
}

LEARNERS: dict[str, dict[str, Any]] = {
    "AdaNormalHedge": {
        "make": lambda: lab.AdaNormalHedge(T, K, B=5, oracle=oracle(resets=60), random_state=0)
    },
    "CumulativeLossLearner": {
        "make": lambda: lab.CumulativeLossLearner(rule, T, K, random_state=0),
        "restore": lambda text: lab.CumulativeLossLearner.from_json(text, rule),
        "bad": {"uses time": lambda: lab.CumulativeLossLearner(lambda a, b, t: a, T, K)},  # type: ignore[arg-type,misc]  # deliberately wrong
    },
    "DeactivationLearner": {
        "make": lambda: to.DeactivationLearner(T, K, B=5, oracle=oracle(), random_state=0),
        "bad": {
            "resets": lambda: to.DeactivationLearner(T, K, B=5, oracle=oracle(resets=10)),
            "no epoch length": lambda: to.DeactivationLearner(T, K),
        },
    },
    "EpochLearner": {
        "make": lambda: to.EpochLearner(T, K, B=5, random_state=0),
        "bad": {**BAD_LOSS, "epoch too long": lambda: to.EpochLearner(T, K, B=T + 1)},
    },
    "LazyHedge": {
        "make": lambda: to.LazyHedge(T, K, threshold=4.0, random_state=0),
        "bad": {"no budget": lambda: to.LazyHedge(T, K)},
    },
    "ReactivationLearner": {
        "make": lambda: to.ReactivationLearner(T, K, B=3, oracle=oracle(resets=60), random_state=0),
        "bad": {"too short": lambda: to.ReactivationLearner(T, K, B=50)},
    },
    "RestartAtReset": {
        "make": lambda: lab.RestartAtReset(T, K, B=5, oracle=oracle(resets=50), random_state=0)
    },
    "RestartOnDeactivation": {
        "make": lambda: lab.RestartOnDeactivation(T, K, B=5, oracle=oracle(), random_state=0)
    },
    "ScalarizedLearner": {
        "make": lambda: lab.ScalarizedLearner(T, K, 0.5, random_state=0),
        "bad": {"negative price": lambda: lab.ScalarizedLearner(T, K, -1.0)},
    },
}
for case in LEARNERS.values():
    case["run"] = bicriteria

BOUNDS: dict[str, dict[str, Any]] = {
    "adanormalhedge_sleeping": {
        "rounds": 1000, "K": 4, "B": 5, "active_rounds": 500, "late_segments": 2,
    },
    "balanced_epochs": {"rounds": 1000, "K": 5, "threshold": 10.0},
    "binomial_minimum": {"E": 10, "K": 3},
    "burst_pair_minimax": {"m": 60},
    "coupling_secondary": {"threshold": 4.0, "total_variation": 2.5},
    "cumulative_trap": {"rounds": 10**6, "alpha": 0.8},
    "dartboard_loss": {"best": 20.0, "K": 4, "eta": 0.1},
    "dartboard_redraws": {"best": 20.0, "K": 4, "eta": 0.1},
    "dartboard_regret": {"E": 100, "K": 4},
    "dartboard_switches": {"E": 100, "K": 4},
    "deactivation_secondary": {"threshold": 4.0, "switches": 3.0, "deactivations": 2, "c": 0.2},
    "deactivation_sleeping": {"active_rounds": 100, "K": 4, "B": 5},
    "decreasing_hedge_regret": {"m": 100, "K": 4},
    "doubling_regret": {"m": 100, "K": 4},
    "doubling_switches": {"m": 100, "K": 4},
    "epoch_primary": {"rounds": 1000, "K": 4, "B": 10},
    "epoch_secondary": {"rounds": 1000, "K": 4, "B": 10, "threshold": 5.0},
    "hedge_regret": {"rounds": 1000, "K": 4},
    "impossibility_average": {"rounds": 1000},
    "impossibility_leader": {"rounds": 1000},
    "impossibility_worst": {"rounds": 1000},
    "ladder_secondary": {
        "lengths": [10.0, 90.0], "excess": [0.5, 0.1], "sleeping": [5.0, -10.0]
    },
    "ladder_target": {"K": 4, "ratio": 5.0},
    "lazy_hedge_primary": {"rounds": 1000, "K": 4, "threshold": 5.0},
    "lazy_hedge_rate": {"rounds": 1000, "K": 4, "threshold": 5.0},
    "lazy_hedge_secondary": {"rounds": 1000, "K": 4, "threshold": 5.0},
    "lazy_leader_loss": {"best": 20.0, "K": 4, "eps": 0.1},
    "lazy_leader_switches": {"loss": 30.0, "eps": 0.1},
    "minimum_constant": {"E": 100, "K": 4},
    "reactivation_draws": {"E": 100, "K": 4, "deactivations": 2, "resets": 1},
    "reactivation_epochs": {"K": 10},
    "reactivation_secondary": {
        "rounds": 1000, "K": 4, "B": 5, "threshold": 4.0, "c": 0.2, "deactivations": 2, "resets": 1,
    },
    "reactivation_sleeping": {
        "rounds": 1000, "K": 4, "B": 5, "active_rounds": 500, "late_segments": 2,
    },
    "restart_sleeping": {"active_rounds": [100, 200], "K": 4, "B": 5},
    "live_harm": {"K": 4, "returns": 2, "burst": 5.0, "rate": 0.1, "delay": 3},
    "live_regret": {"rounds": 1000, "K": 4, "B": 10},
    "purse_harm": {"purse": 8.0, "rate": 0.1, "delay": 3, "safe_burst": 1.0},
    "selective_regret": {"rounds": 1000, "K": 4, "acceptance": 0.5, "B": 10},
    "stint_secondary": {
        "threshold": 4.0, "c": 0.2, "switches": 3, "resets": 1, "deactivations": 2,
    },
    "switch_tax": {"rounds": 1000, "K": 4, "B": 10, "delta": 0.5},
}  # fmt: skip
INSTANCES: dict[str, dict[str, Any]] = {
    "adaptive_switch_tax": {
        "rounds": 100, "alpha": 0.5, "K": 3, "c": 0.2, "delta": 0.5, "random_state": 0,
    },
    "burst": {"rounds": 4096, "alpha": 0.4, "K": 4, "N": 1},
    "burst_pair": {"rounds": 400, "alpha": 0.5},
    "calm": {"rounds": 400, "alpha": 0.5, "K": 3, "random_state": 0},
    "classification_losses": {"a": 0.5, "b": 0.25},
    "cumulative_trap": {"rounds": 2000, "alpha": 0.5, "c": 0.5, "world": 2, "random_state": 0},
    "deactivation_ladder": {"rounds": 4096, "alpha": 0.3, "K": 3},
    "impossibility_worlds": {"rounds": 100},
    "prefix_star": {"rounds": 1000, "alpha": 0.4, "K": 3, "T_h": 200},
    "random_bounded": {"rounds": 60, "K": 3, "c": 0.3, "threshold": 2.0, "random_state": 0},
    "staggered": {"rounds": 1000, "alpha": 0.3, "K": 4},
}  # fmt: skip

CASES: dict[str, dict[str, Any]] = {
    **LEARNERS,
    **{f"bounds.{name}": {"args": arguments} for name, arguments in BOUNDS.items()},
    **{f"instances.{name}": {"args": arguments} for name, arguments in INSTANCES.items()},
    "AdaptiveSecondary": {},
    "BicriteriaLearner": {},
    "BurstCheck": {"make": lambda: to.burst_check(L2, C, 2.0)},
    "CallableSecondary": {
        "make": lambda: lab.CallableSecondary(tax, K),
        "run": lambda secondary: secondary.played(PATH),
        "bad": {"not a function": lambda: lab.CallableSecondary(3, K)},  # type: ignore[arg-type]  # deliberately wrong
    },
    "ChampionChallenger": {
        "make": live,
        "run": steps,
        "bad": {
            "unknown policy": lambda: to.ChampionChallenger(
                n_models=2,
                horizon=99,
                budget=to.HarmBudget(0.1, 1.0),
                policy="bold",  # type: ignore[arg-type]  # deliberately wrong
            ),
            "no models": lambda: to.ChampionChallenger(horizon=9, budget=to.HarmBudget(0.1, 1.0)),
            "loss above one": lambda: live().step([0.0, 0.0, 2.0], [0.0, 0.0, 0.0]),
        },
    },
    "Alarm": {"make": lambda: lab.Alarm(3, 1, "change", 25.0, "model 1: change")},
    "CalibratedBudget": {
        "make": lambda: to.HarmBudget.calibrate(L2[:, 0], horizon=200, random_state=0),
        "bad": {"short": lambda: to.HarmBudget.calibrate(L2[:9, 0], horizon=200)},
    },
    "Decision": {"make": lambda: unseen().act()},
    "LiveChampion": {
        "make": unseen,
        "run": run_unseen,
        "restore": lambda text: lab.LiveChampion.from_json(text),
        "bad": {
            "no models": lambda: lab.LiveChampion(horizon=90, budget=to.HarmBudget(0.1, 2.0)),
            "purse without safe": lambda: unseen(purse=3.0),
            "foreign state": lambda: lab.LiveChampion.from_json("{}"),
        },
    },
    "SelectiveChampion": {
        "make": accepted,
        "run": run_accepted,
        "restore": lambda text: lab.SelectiveChampion.from_json(text),
        "bad": {
            "no acceptance": lambda: accepted(acceptance=0.0),
            "purse without safe": lambda: accepted(purse=3.0),
            "foreign state": lambda: lab.SelectiveChampion.from_json("{}"),
        },
    },
    "LiveReport": {"make": lambda: unseen().report()},
    "Money": {
        "make": lambda: to.Money(500, 20),
        "bad": {"no cost": lambda: to.Money(0, 0), "negative": lambda: to.Money(-1, 2)},
    },
    "ChampionReport": {"make": lambda: used().report()},
    "CusumOracle": {
        "make": lambda: oracle(resets=50).start(K, T),
        "run": lambda watchdog: [watchdog.observe(row) for row in L2[:40]],
        "bad": {
            "unsorted resets": lambda: oracle(resets=[0, 9, 3]),
            "rate above one": lambda: to.CusumOracle(1.5, 1.0),
        },
    },
    "Deactivation": {"make": lambda: lab.Deactivation(8, 1, 3, 4.5, 9)},
    "EpochGrid": {
        "make": lambda: lab.EpochGrid(100, 7),
        "bad": {"epoch too long": lambda: lab.EpochGrid(10, 11)},
    },
    "HarmBudget": {
        "make": lambda: to.HarmBudget(0.1, 5.0),
        "bad": {"negative burst": lambda: to.HarmBudget(0.1, -1.0)},
    },
    "ImpossibilityReport": {"make": lambda: to.impossibility_report(L1, L2, C)},
    "Instance": {
        "make": lambda: lab.Instance(L1, L2, C, 0.5, 0.5, {"name": "small"}),
        "bad": {"different shapes": lambda: lab.Instance(L1, L2[:5], C, 0.5, 0.5)},
    },
    "LossStream": {
        "make": lambda: to.LossStream(L1, L2, c=C),
        "run": lambda stream: to.play(to.EpochLearner(T, K, B=5, random_state=0), stream).path,
        "bad": {
            "different shapes": lambda: to.LossStream(L1, L2[:5]),
            "learner of one loss": lambda: to.play(Hedge().reset(K, T), to.LossStream(L1, L2)),
        },
    },
    "Losses": {"make": lambda: lab.Losses([0.1, 0.2], [0.0, 0.0])},
    "Minimax": {"make": lambda: lab.minimax(lab.impossibility_phases(), 1 / 16)},
    "OracleRun": {"make": lambda: oracle().judge(L2)},
    "Phase": {"make": lambda: lab.Phase("start", 1.0, (0.0, 1.0), (0.1, 0.2))},
    "Plan": {
        "make": lambda: to.EpochLearner(T, K, B=5).plan(L1),
        "run": lambda plan: (plan.expected(L1), plan.sample(2, random_state=0)),
    },
    "ReactivationTrace": {
        "make": lambda: to.ReactivationLearner(T, K, B=3, oracle=oracle()).trace(L1, L2)
    },
    "RiverExperts": {
        "make": lambda: to.RiverExperts([Constant(0), Constant(1)]),
        "run": lambda experts: experts.replay([({"x": 1}, 1), ({"x": 2}, 0)]),
        "bad": {"no model": lambda: to.RiverExperts([])},
    },
    "LossTranscript": {
        "make": lambda: to.play(
            to.EpochLearner(T, K, B=5, random_state=0), to.LossStream(L1, L2, c=C), fast=True
        ),
        "run": lambda result: (
            result.primary_regret(),
            result.secondary_regret(),
            result.sleeping_regret(),
            result.details(),
        ),
    },
    "instances.SwitchTax": {
        "make": lambda: instances.SwitchTax(K, C, 0.5, 10),
        "run": lambda secondary: (secondary.played(PATH), secondary.realise(PATH)),
        "bad": {"too large": lambda: instances.SwitchTax(K, 0.7, 0.5, 10)},
    },
    "anytime": {"args": {"kind": "doubling"}, "bad": {"unknown": lambda: lab.anytime("x")}},  # type: ignore[arg-type]  # deliberately wrong
    "burst_check": {
        "args": {"l2": L2, "c": C, "threshold": 2.0},
        "bad": {"NaN": lambda: to.burst_check([[np.nan]], C, 5.0)},
    },
    "burst_pair_phases": {"args": {"m": 60.0}},
    "burst_threshold": {
        "args": {"rounds": 100, "delta": 0.5, "alpha": 0.5},
        "bad": {"delta above one": lambda: lab.burst_threshold(100, 2.0, 0.5)},
    },
    "check_stint_budget": {
        "args": {"l2_played": L2[:, 0], "path": PATH, "c": C, "threshold": 3.0},
        "bad": {"lengths differ": lambda: lab.check_stint_budget([0.1], PATH, C, 3.0)},
    },
    "count_switches": {
        "args": {"paths": PATH},
        "bad": {"negative expert": lambda: lab.count_switches([-1, 0])},
    },
    "cusum": {"args": {"l2": L2, "c": C}, "bad": {"rate": lambda: lab.cusum(L2, 2.0)}},
    "error_rate": {
        "args": {"y_true": [0, 1], "y_pred": [1, 1]},
        "bad": {"lengths differ": lambda: to.error_rate([0], [0, 1])},
    },
    "frontier": {
        "args": lambda: {"worlds": lab.impossibility_phases(), "c": 1 / 16, "secondary": [0.01]}
    },
    "impossibility_phases": {"args": {}},
    "impossibility_report": {
        "args": {"l1": L1, "l2": L2, "c": C},
        "bad": {"different shapes": lambda: to.impossibility_report(L1, L2[:5])},
    },
    "minimax": {
        "args": lambda: {"worlds": lab.impossibility_phases(), "c": 1 / 16},
        "bad": {"no worlds": lambda: lab.minimax([], 0.1)},
    },
    "missed_positives": {"args": {"y_true": [0, 1], "y_pred": [0, 0]}},
    "primary_regret": {
        "args": {"l1": L1, "P": PATH},
        "bad": {"unknown expert": lambda: lab.primary_regret(L1, np.full(T, 9))},
    },
    "replay_losses": {
        "args": {"models": [Constant(0), Constant(1)], "batches": BATCHES},
        "bad": {"no model": lambda: to.replay_losses([], BATCHES)},
    },
    "required_budget": {
        "args": {"l2": L2, "c": C},
        "bad": {"one axis": lambda: to.required_budget(L2[0], C)},
    },
    "required_rate": {
        "args": {"l2": L2, "budget": 2.0},
        "bad": {"negative": lambda: to.required_rate(L2, -1.0)},
    },
    "rounds_since_switch": {"args": {"paths": PATH}},
    "secondary_regret": {"args": {"l2": L2, "P": PATH, "c": C}},
    "sleeping_regret": {
        "args": {"l1": L1, "P": PATH, "active": ACTIVE},
        "bad": {"nobody": lambda: lab.sleeping_regret(L1, PATH, ~ACTIVE)},
    },
    "stints": {"args": {"path": PATH}, "bad": {"empty": lambda: lab.stints([])}},
}
