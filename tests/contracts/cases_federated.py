"""Contract cases of counterplay.federated."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.core.draws import run_keys
from counterplay.federated import (
    ADAGD,
    CallableObjective,
    FedAvg,
    Federation,
    FederationHistory,
    LayeredObjective,
    LocalParties,
    LocalWork,
    MWFed,
    NumpyArrays,
    ParameterSpace,
    Reports,
    RuleState,
    SafeStep,
    Sites,
    TorchArrays,
    Trust,
    local_work,
    train,
)
from counterplay.federated.stack import NumpyStack

X, Y = np.tile(np.eye(3), (4, 1)), np.arange(12) % 3
MODEL = LayeredObjective([3, 3])
DATA = {"north": (X[:6], Y[:6]), "south": (X[6:], Y[6:])}
RETURNED = "returned by a function that has the example"
HOLDS = "it holds arrays and functions, not plain values"


def reports() -> Reports:
    return Reports(np.array([1.0, 0.2]), NumpyStack([[0.0, 1.0], [1.0, -1.0]]), np.full(2, 0.1))


def steps(rule: Any) -> list[Any]:
    state = RuleState()
    return [rule.decide(reports(), 0.25, state) for _ in range(3)]


def federation() -> Federation:
    return Federation(MODEL, Sites.from_agents(X, Y, np.arange(12) % 2), eps=0.3)


def record() -> Any:
    return federation().train(FedAvg(), run_keys(0, 2), step_size=0.5, rounds=4)


def parties() -> LocalParties:
    return LocalParties(MODEL, DATA, threshold=0.3)


def history() -> FederationHistory:
    return train(parties(), FedAvg(), step_size=0.5, rounds=4, random_state=0)


def square(w: Any, rows: Any, labels: Any, weights: Any) -> tuple[float, Any]:
    return float(w @ w), 2 * w


CASES: dict[str, dict[str, Any]] = {
    "ADAGD": {
        "make": lambda: ADAGD(0.1),
        "run": steps,
        "bad": {"delta": lambda: ADAGD(-1.0), "variant": lambda: ADAGD(0.1, "other")},  # type: ignore[arg-type]
    },
    "SafeStep": {
        "make": lambda: SafeStep(0.05, cap="step_size"),
        "run": steps,
        "bad": {"delta": lambda: SafeStep(0.0), "cap": lambda: SafeStep(0.1, cap="x")},  # type: ignore[arg-type]
    },
    "FedAvg": {
        "make": lambda: FedAvg("polyak"),
        "run": steps,
        "bad": {"nu": lambda: FedAvg(0.0), "name": lambda: FedAvg("x")},  # type: ignore[arg-type]
    },
    "MWFed": {
        "make": lambda: MWFed(gap=0.1, growth=1.5, work=2),
        "run": steps,
        "bad": {
            "growth": lambda: MWFed(growth=0.5),
            "gap": lambda: MWFed(gap=-1.0),
            "work": lambda: MWFed(work=0),
        },
    },
    "Reports": {
        "make": reports,
        "no_example": "shown by every rule",
        "bad": {
            "rows": lambda: Reports(np.ones(2), NumpyStack([[1.0]]), np.ones(2)),
            "nobody": lambda: Reports(np.ones(0), NumpyStack(np.ones((0, 1))), np.ones(0)),
        },
    },
    "Decision": {"make": lambda: steps(ADAGD(0.1))[0], "no_example": "shown by every rule"},
    "RuleState": {"make": RuleState, "mutable": "it is the memory of a run"},
    "LayeredObjective": {
        "make": lambda: LayeredObjective([3, 4, 3], penalty=0.1),
        "run": lambda model: model.start(run_keys(0, 2)),
        "bad": {
            "sizes": lambda: LayeredObjective([3]),
            "activation": lambda: LayeredObjective([3, 4, 3], "steps"),
            "loss": lambda: LayeredObjective([3, 3], loss="zero"),
        },
    },
    "CallableObjective": {
        "make": lambda: CallableObjective(3, square),
        "bad": {"size": lambda: CallableObjective(0, square)},
    },
    "NumpyArrays": {
        "make": NumpyArrays,
        "no_example": "where arrays live",
        "bad": {"dtype": lambda: NumpyArrays("float16")},  # type: ignore[arg-type]
    },
    "TorchArrays": {"make": TorchArrays, "no_example": "where tensors live", "no_pickle": "torch"},
    "ParameterSpace": {
        "make": lambda: ParameterSpace({"a": (2,)}),
        "run": lambda space: space.flatten({"a": np.ones(2)}),
        "bad": {"shape": lambda: ParameterSpace({"a": (2,)}).flatten({"a": np.ones(3)})},
    },
    "Sites": {
        "make": lambda: Sites.from_agents(X, Y, np.arange(12) % 2),
        "no_example": "shown by from_agents",
        "bad": {"empty": lambda: Sites.from_agents(X, Y, np.full(12, 2))},
    },
    "LocalWork": {
        "make": lambda: LocalWork(3, 2),
        "bad": {"steps": lambda: LocalWork(0), "batch": lambda: LocalWork(1, 0)},
    },
    "Trust": {
        "make": Trust,
        "bad": {
            "range": lambda: Trust(loss_range=(1.0, 0.0)),
            "clip": lambda: Trust(clip=0.5),
            "veto": lambda: Trust(veto=0),
        },
    },
    "Federation": {
        "make": federation,
        "run": lambda made: made.train(FedAvg(), run_keys(0, 1), step_size=0.5, rounds=3).loss,
        "bad": {
            "eps": lambda: Federation(MODEL, federation().sites, eps=-1.0),
            "step": lambda: federation().train(FedAvg(), run_keys(0, 1), step_size=0.0, rounds=1),
        },
    },
    "TrainingRecord": {"make": record, "no_example": RETURNED},
    "LocalParties": {
        "make": parties,
        "bad": {
            "threshold": lambda: LocalParties(MODEL, DATA, threshold=-1.0),
            "nobody": lambda: LocalParties(MODEL, {}, threshold=0.1),
            "name": lambda: parties().replace("west", answer=dict),
        },
    },
    "FederationHistory": {"make": history},
    "LocalReport": {
        "make": lambda: local_work(MODEL, (X, Y), np.zeros(12), step_size=1.0),
        "no_example": RETURNED,
    },
    "local_work": {
        "args": lambda: {
            "objective": MODEL, "rows": (X, Y), "w": np.zeros(12), "step_size": 1.0
        },
        "bad": {
            "w": lambda: local_work(MODEL, (X, Y), np.zeros(3), step_size=1.0),
            "X": lambda: local_work(MODEL, (X + np.inf, Y), np.zeros(12), step_size=1.0),
        },
    },
    "party_batches": {
        "args": {"seed": 0, "party": 1, "round": 2, "rows": 5, "work": LocalWork(2, 3)}
    },
    "train": {
        "args": lambda: {
            "parties": parties(),
            "rule": SafeStep(0.05),
            "step_size": 0.5,
            "rounds": 5,
            "fraction": 0.5,
            "random_state": 0,
        },
        "bad": {
            "rounds": lambda: train(parties(), FedAvg(), step_size=0.5, rounds=0),
            "fraction": lambda: train(parties(), FedAvg(), step_size=0.5, fraction=0.0),
        },
    },
}  # fmt: skip
