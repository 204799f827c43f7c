"""Contract cases of the simulator, a part of ``cases_defection``."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.defection import DefectionSimulator, FederatedClassifier, heterogeneous_split
from counterplay.defection.lab import HeterogeneousSplit, SimulationResult

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
    "FederatedClassifier": {
        "make": lambda: FederatedClassifier(rounds=60, random_state=0),
        "check_estimator": {
            "check_dtype_object": "a cell that is no number gets a sentence of ours, no TypeError"
        },
    },
    "HeterogeneousSplit": {"make": split, "no_example": RETURNED},
    "heterogeneous_split": {
        "args": {"X": X, "y": Y, "n_agents": 3, "own_fraction": 0.5, "random_state": 0},
        "bad": {"no share": lambda: heterogeneous_split(X, Y, 3)},
    },
}
