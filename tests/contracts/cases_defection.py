"""Contract cases of counterplay.defection."""

from __future__ import annotations

from typing import Any

import numpy as np

from contracts.simulator_cases import CASES as SIMULATOR
from counterplay.defection import (
    FedAvg,
    FederationGame,
    FunctionProblem,
    LinearModelProblem,
    LocalWork,
    RationalAgent,
    Server,
    check_assumptions,
    classify_defections,
    estimate_smoothness,
    instances,
    land,
    minimal_heterogeneity_linear,
    play,
)
from counterplay.defection.lab import (
    AgentPool,
    AgentView,
    BetaUser,
    GroupPredictor,
    IrrationalAgent,
    Landing,
    MisreportingAgent,
    ReportNoise,
    ThresholdAgent,
    UnderconfidentAgent,
    UtilityAgent,
    adversarial_alpha,
    bad_region_linear,
    heterogeneity_margin,
    population_loss,
    psi_tau,
    underconfidence_threshold,
)

C7 = instances.random_overparameterised(M=3, n=2, d=8, random_state=0)
KINKS = instances.uniform_fails_family(0.0, 0.05)


def uniform_run() -> Any:
    return play(
        Server(FedAvg(), KINKS.w0, step_size=0.05),
        FederationGame(KINKS.problem, KINKS.eps),
        rounds=60,
    )


def broadcast() -> Any:
    server = Server(FedAvg(), C7.w0, step_size=0.5)
    server.begin(1)
    return server.act()


def game() -> FederationGame:
    return FederationGame(C7.problem, C7.eps, local_work=LocalWork(2, 1))


def decide(behaviour: ThresholdAgent) -> Any:
    view = AgentView(np.array([0.05, 0.2]), np.full(2, 0.1), 3, np.ones(2), np.full(2, 9.0))
    return behaviour.decide(view)


def quadratic(w: Any) -> Any:
    return np.array([0.5 * w @ w]), w[None, :]


RETURNED = "a plain record, returned by a function that has the example"

CASES: dict[str, dict[str, Any]] = {
    "Server": {
        "make": lambda: Server(FedAvg(), C7.w0, step_size=0.5),
        "run": lambda server: play(server, game(), rounds=20, random_state=0).w,
        "bad": {
            "step": lambda: Server(FedAvg(), C7.w0, step_size=-1.0),
            "w0": lambda: play(Server(FedAvg(), [1.0], step_size=1.0), game()),
        },
        "mutable": "it learns",
        "no_json": "a server is a rule and a model",
    },
    "FederationGame": {
        "make": lambda: game(),
        "run": lambda made: (
            play(Server(FedAvg(), C7.w0, step_size=0.5), made, rounds=20, random_state=0).losses
        ),
        "bad": {"eps": lambda: FederationGame(C7.problem, np.inf)},
        "mutable": "it is being played",
        "no_json": "a game holds a problem",
    },
    "FederationTranscript": {"make": uniform_run},
    "Broadcast": {
        "make": broadcast,
        "no_example": "what a server sends",
    },
    "check_span": {"no_case": "raises or returns nothing; its example plays a game"},
    "FunctionProblem": {
        "make": lambda: FunctionProblem(quadratic, 1, 2, H=1.0),
        "run": lambda problem: problem.losses(np.ones(2)),
        "bad": {
            "shape": lambda: FunctionProblem(quadratic, 2, 2).losses(np.ones(2)),
            "agents": lambda: FunctionProblem(quadratic, 0, 2),
        },
    },
    "LinearModelProblem": {
        "make": lambda: LinearModelProblem([[[1.0, 0.0]], [[0.0, 1.0]]], w_star=[0.0, 0.0]),
        "run": lambda problem: problem.oracle(np.ones(2)),
        "bad": {
            "nothing": lambda: LinearModelProblem([]),
            "targets": lambda: LinearModelProblem([[[1.0]]]),
        },
    },
    "AgentPool": {
        "make": lambda: AgentPool.of([0.1, 0.3], 2),
        "run": lambda pool: pool.decide(np.array([0.2, 0.2]), 1),
        "bad": {"eps": lambda: AgentPool.of([-0.1, 0.3], 2)},
    },
    "AgentView": {
        "make": lambda: AgentView(np.ones(1), np.ones(1), 1, np.ones(1), np.ones(1)),
        "no_example": "shown by the behaviours",
    },
    "ThresholdAgent": {"make": ThresholdAgent, "run": decide},
    "IrrationalAgent": {"make": IrrationalAgent, "run": decide},
    "UnderconfidentAgent": {
        "make": lambda: UnderconfidentAgent(0.1),
        "run": decide,
        "bad": {"c": lambda: UnderconfidentAgent(-1.0)},
    },
    "MisreportingAgent": {
        "make": lambda: MisreportingAgent(0.1),
        "run": decide,
        "bad": {"eps": lambda: MisreportingAgent(-0.1)},
    },
    "BetaUser": {
        "make": lambda: BetaUser(2),
        "run": decide,
        "bad": {"every": lambda: BetaUser(0)},
    },
    "UtilityAgent": {
        "make": lambda: UtilityAgent(1.0, 0.1, gives_up=True),
        "run": decide,
        "bad": {"C": lambda: UtilityAgent(1.0, 2.0)},
    },
    "RationalAgent": {
        "make": lambda: RationalAgent(0.1, n_samples=40),
        "bad": {
            "eps": lambda: RationalAgent(-0.1),
            "samples": lambda: RationalAgent(0.1, n_samples=0),
        },
    },
    "GroupPredictor": {
        "make": lambda: GroupPredictor(["a", "b", None]),
        "run": lambda p: p.leaving(np.arange(3), np.array([2, -1, -1])),
        "bad": {"empty": lambda: GroupPredictor([])},
    },
    "ReportNoise": {
        "make": lambda: ReportNoise(0.1, 0.1),
        "bad": {"loss": lambda: ReportNoise(-1.0)},
    },
    "Landing": {
        "make": lambda: Landing(False, np.zeros(1), np.ones(1), np.zeros(1), "no root"),
        "no_plot": "one step",
    },
    "Assumption": {
        "make": lambda: check_assumptions(C7.problem, np.eye(8), 0).assumptions[0],
        "no_example": RETURNED,
    },
    "AssumptionReport": {
        "make": lambda: check_assumptions(C7.problem, np.eye(8), 0),
        "no_plot": "a list of sentences",
    },
    "Defection": {
        "make": lambda: classify_defections(uniform_run()).defections[0],
        "no_example": RETURNED,
    },
    "DefectionReport": {
        "make": lambda: classify_defections(uniform_run()),
        "no_plot": "a list of sentences",
    },
    "HeterogeneityMargin": {
        "make": lambda: heterogeneity_margin(C7.problem, C7.w0),
        "no_example": RETURNED,
    },
    "LinearHeterogeneity": {
        "make": lambda: minimal_heterogeneity_linear([np.eye(2), [[1.0, 0.0]]]),
        "no_example": RETURNED,
    },
    "local_updates": {
        "args": lambda: {
            "problem": C7.problem,
            "w": C7.w0,
            "ids": np.arange(3),
            "step_size": 0.5,
            "work": LocalWork(2),
        }
    },
    "adversarial_alpha": {
        "args": {"etas": [1.0] * 5, "eps": 0.1},
        "bad": {"eta": lambda: adversarial_alpha([0.0], 0.1)},
    },
    "repair_against": {"args": lambda: {"rule": FedAvg("polyak"), "eps": 0.05}},
    "bad_region_linear": {
        "args": {"w": [[1.0, 1.0]], "eps": 0.1},
        "bad": {"shape": lambda: bad_region_linear([1.0], 0.1)},
    },
    "check_assumptions": {
        "args": lambda: {"problem": C7.problem, "points": np.eye(8), "random_state": 0},
        "bad": {"points": lambda: check_assumptions(C7.problem, np.eye(3))},
    },
    "heterogeneity_margin": {
        "args": lambda: {"problem": C7.problem, "points": np.eye(8)},
        "bad": {"points": lambda: heterogeneity_margin(C7.problem, np.eye(3))},
    },
    "search_dependence": {
        "args": lambda: {
            "problem": C7.problem,
            "points": C7.w0,
            "iterations": 10,
            "random_state": 0,
        }
    },
    "minimal_heterogeneity_linear": {
        "args": lambda: {"A_list": [np.eye(2), [[1.0, 0.0]]]},
        "bad": {"empty": lambda: minimal_heterogeneity_linear([])},
    },
    "bounded_agent": {"args": lambda: {"A_list": [np.eye(2), [[1.0, 0.0]]]}},
    "classify_defections": {"args": lambda: {"transcript": uniform_run()}},
    "in_target": {"args": {"F": [0.1, 0.2], "eps": 0.1, "slack": 0.1}},
    "land": {
        "args": lambda: {"problem": C7.problem, "w": C7.w0, "eps": C7.eps},
        "bad": {"H": lambda: land(KINKS.problem, KINKS.w0, KINKS.eps)},
    },
    "estimate_smoothness": {
        "args": lambda: {"problem": C7.problem, "points": C7.w0, "random_state": 0},
        "bad": {"points": lambda: estimate_smoothness(C7.problem, np.eye(3))},
    },
    "population_loss": {
        "args": lambda: {"problem": C7.problem, "w": C7.w0},
        "bad": {"sample": lambda: population_loss(C7.problem, C7.w0, [1])},
    },
    "psi_tau": {"args": {"x": [0.5], "tau": 1.0}, "bad": {"tau": lambda: psi_tau([1.0], 0.0)}},
    "psi_tau_slope": {"args": {"x": [0.5], "tau": 1.0}},
    "huber_tau": {"args": {"x": [0.5], "tau": 1.0}},
    "huber_tau_slope": {"args": {"x": [0.5], "tau": 1.0}},
    "stopping_utilities": {"args": {"loss": [1.0, 0.1], "eps": 0.2, "V": 1.0, "C": 0.1}},
    "underconfidence_threshold": {
        "args": {"eps": 0.2, "c": 1.0, "n_samples": 100.0},
        "bad": {"n": lambda: underconfidence_threshold(0.2, 1.0, 0.0)},
    },
    "bounds.adagd_step_size": {"args": {"M": 2, "H": 1.0, "L": 1.0, "delta": 0.1}},
    "bounds.l_free_step_size": {"args": {"M": 2, "H": 1.0, "max_eps": 0.1, "delta": 0.1}},
    "bounds.effective_lipschitz": {"args": {"M": 2, "H": 1.0, "initial_loss": 1.0}},
    "bounds.adagd_rounds": {"args": {"M": 2, "initial_loss": 1.0, "eta": 0.1, "sigma": 0.5}},
    "bounds.safe_step_rounds": {
        "args": {"M": 2, "initial_loss": 1.0, "H": 1.0, "L": 1.0, "delta": 0.1, "sigma": 0.5}
    },
    "bounds.landing_margin": {"args": {"M": 2, "H": 1.0, "sigma": 0.5}},
    "instances.Construction": {"make": instances.benign_example},
    "instances.TwoSilos": {"make": instances.two_silo_cartoon},
    "instances.benign_example": {"args": {}},
    "instances.bad_init_example": {"args": {}},
    "instances.identical_agents": {"args": {}},
    "instances.non_heterogeneous_example": {"args": {}},
    "instances.nonterminating_example": {"args": {}},
    "instances.two_silo_cartoon": {"args": {}},
    "instances.uniform_fails_family": {
        "args": {"alpha": 1.0, "eps": 0.1, "tau": 0.25},
        "bad": {"alpha": lambda: instances.uniform_fails_family(-1.0)},
    },
    "instances.uniform_fails_repaired": {
        "args": {"z_k": 0.9, "z_0": -0.5, "eps": 0.1},
        "bad": {"z_k": lambda: instances.uniform_fails_repaired(0.05, 0.0, 0.1)},
    },
    "instances.random_overparameterised": {
        "args": {"M": 2, "n": 2, "d": 5, "random_state": 0},
        "bad": {"d": lambda: instances.random_overparameterised(2, 2, 3)},
    },
}
CASES |= SIMULATOR
