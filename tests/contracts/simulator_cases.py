"""Contract cases of the simulator and its engine, a part of ``cases_defection``."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.defection import (
    DefectionSimulator,
    FederatedClassifier,
    heterogeneous_split,
    local_work,
)
from counterplay.defection.lab import HeterogeneousSplit, SimulationResult
from counterplay.federated import LayeredObjective

X, Y = np.tile(np.eye(3), (4, 1)), np.arange(12) % 3
SITE = np.repeat(["a", "b"], 6)


def split() -> HeterogeneousSplit:
    return heterogeneous_split(X, Y, 3, own_fraction=0.5, random_state=0)


def simulator(**options: Any) -> DefectionSimulator:
    return DefectionSimulator("linear", X, Y, SITE, **{"threshold": 0.5} | options)


def result() -> SimulationResult:
    return simulator().compare(["fedavg", "safe_step"], rounds=6, random_state=0)


RETURNED = "returned by a function that has the example"

CASES: dict[str, dict[str, Any]] = {
    "DefectionSimulator": {
        "make": simulator,
        "run": lambda made: made.compare(["fedavg"], rounds=4, random_state=0).to_frame(),
        "bad": {
            "threshold": lambda: simulator(threshold=-1.0),
            "rule": lambda: simulator().compare(["fed"], rounds=1),
            "rounds": lambda: simulator().compare(rounds=0),
        },
    },
    "SimulationResult": {"make": result},
    "FederatedClassifier": {"make": lambda: FederatedClassifier(rounds=60, random_state=0)},
    "HeterogeneousSplit": {"make": split, "no_example": RETURNED},
    "heterogeneous_split": {
        "args": {"X": X, "y": Y, "n_agents": 3, "own_fraction": 0.5, "random_state": 0},
        "bad": {"no share": lambda: heterogeneous_split(X, Y, 3)},
    },
    "LocalReport": {
        "make": lambda: local_work(LayeredObjective([3, 3]), X, Y, np.zeros(12), step_size=1.0),
        "no_example": RETURNED,
    },
    "TrainingRecord": {"make": lambda: result().record("fedavg"), "no_example": RETURNED},
    "local_work": {
        "args": lambda: {
            "model": LayeredObjective([3, 3]), "X": X, "y": Y, "w": np.zeros(12), "step_size": 1.0
        },
        "bad": {
            "w": lambda: local_work(LayeredObjective([3, 3]), X, Y, np.zeros(3), step_size=1.0)
        },
    },
    "agent_batches": {
        "args": {
            "seed": 0, "agent": 1, "round": 2, "rows": 5, "local_steps": 2, "batch_size": 3
        }
    },
}  # fmt: skip
