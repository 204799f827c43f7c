"""Doors of counterplay.defection."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.defection import DefectionSimulator, FederatedClassifier, heterogeneous_split

from .animals import frame, labels

MODEL = FederatedClassifier(rounds=20, random_state=0).fit(frame(), labels())


def _halves(X: Any) -> list[str]:
    rows = X.shape[0] if hasattr(X, "shape") else len(X or ())
    return ["north" if i % 2 else "south" for i in range(rows)]


def _simulated(X: Any, y: Any) -> Any:
    simulator = DefectionSimulator("linear", X, y, _halves(X), threshold=0.5, test=0.0)
    result = simulator.compare(["fedavg", "safe_step"], rounds=10, random_state=0)
    return result.record("fedavg").loss, result.record("safe_step").w, result.summary()


def _tested(X: Any, y: Any) -> Any:
    simulator = DefectionSimulator(
        "linear", frame(), labels(), _halves(frame()), threshold=0.5, test=(X, y)
    )
    return (
        simulator.compare(["fedavg"], rounds=3, random_state=0).record("fedavg").population[:, -1]
    )


def _site(X: Any, y: Any) -> Any:
    """Labels as names of sites."""
    simulator = DefectionSimulator("mlp", frame(), labels(), y, threshold=0.5, test=0.0)
    return simulator.eps, simulator.sites.tolist()


def _fitted(X: Any, y: Any) -> Any:
    model = FederatedClassifier(rounds=20, random_state=0).fit(X, y)
    return model.record_.loss, model.decision_function(X)


def _split(X: Any, y: Any) -> Any:
    split = heterogeneous_split(X, y, 2, own_fraction=0.5, random_state=0)
    return split.class_counts, split.agent_of_row, np.array(split.to_frame())


DOORS = {
    "DefectionSimulator": _simulated,
    "DefectionSimulator.test": _tested,
    "DefectionSimulator.site": _site,
    "FederatedClassifier.fit": _fitted,
    "FederatedClassifier.predict": lambda X, y: MODEL.decision_function(X),
    "heterogeneous_split": _split,
}
NOT_TABLES: dict[str, str] = {}
