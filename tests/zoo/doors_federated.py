"""Doors of counterplay.federated."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.core.draws import run_keys
from counterplay.federated import (
    FedAvg,
    Federation,
    LayeredObjective,
    LocalParties,
    Sites,
    local_work,
    train,
)

from .animals import frame, labels

NET = LayeredObjective([3, 2])
HALF = np.arange(24) % 2


def _train(X: Any, y: Any) -> Any:
    """The second party brings the animal; the first one has named columns."""
    parties = LocalParties(NET, {"north": (frame(), labels()), "south": (X, y)}, threshold=0.1)
    history = train(parties, FedAvg(), step_size=0.1, rounds=3)
    return history.w, history.final_losses


def _work(X: Any, y: Any) -> Any:
    done = local_work(NET, (X, y), np.zeros(8), step_size=0.1)
    return done.loss, done.accuracy, done.gradient


def _tested(X: Any, y: Any) -> Any:
    sites = Sites.from_agents(np.asarray(frame()), labels(), HALF)
    federation = Federation(NET, sites, eps=0.1, test=(X, y))
    return federation.train(FedAvg(), run_keys(0, 1), step_size=0.1, rounds=2).population


DOORS = {
    "LocalParties": _train,
    "local_work": _work,
    "Federation.test": _tested,
}
NOT_TABLES = {"Sites": "rows as the engine wants them: an array of numbers that was checked"}
