"""Doors of counterplay.principal."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import SGDClassifier

from counterplay.principal import (
    Decision,
    FollowRecommendation,
    LinearContractGame,
    RepeatedContract,
    UnbiasedForecaster,
    audit,
    compare_forecasters,
    design_contract,
    design_disclosure,
    lab,
    play,
)

from .animals import N, labels

VALUES, COSTS = [[0, 0], [0, 1]], [0, 0.25]
GAME = LinearContractGame(VALUES, COSTS)
UMBRELLA = Decision([[0.0, -1.0], [-0.3, -0.3]])


def _log(X: Any, **columns: Any) -> Any:
    """A log with these columns beside those of the table, or alone."""
    given = {"policy": [0.5] * N, "recommendation": [1] * N, "action": labels(), "state": labels()}
    given |= columns
    if not hasattr(X, "assign"):
        return given
    try:
        return X.assign(**{name: np.asarray(values) for name, values in given.items()})
    except ValueError:  # a table with another number of rows takes no such column
        return X


def _chances(X: Any) -> Any:
    """Columns of numbers become two probabilities; everything else stays what it is."""
    if getattr(X, "shape", None) != (N, 3) or (isinstance(X, np.ndarray) and X.dtype.kind != "f"):
        return X
    return np.repeat([[0.25, 0.75]], N, axis=0)


def _played(states: Any) -> Any:
    mechanism = lab.ConstantMechanism(GAME, 0.6, random_state=0)
    transcript = play(mechanism, RepeatedContract(GAME, FollowRecommendation(), states))
    return transcript.regrets, transcript.summary()


def _compared(y: Any, contexts: Any, forecaster: Any) -> Any:
    found = compare_forecasters(y, {"it": forecaster}, [UMBRELLA], n_outcomes=2, contexts=contexts)
    return found.totals().to_numpy(), found.summary()


def _disclosed(y: Any) -> Any:
    return design_disclosure([[1, 0], [0, 1]], [0, 1], y, replicates=1).forecast


DOORS = {
    "audit": lambda X, y: audit(_log(X), GAME, permutations=9),
    "audit:states": lambda X, y: audit(_log(None, state=y), GAME, permutations=9),
    "audit:actions": lambda X, y: audit(_log(None, action=y), GAME, permutations=9),
    "audit:forecasts": lambda X, y: audit(_log(None, forecast=_chances(X)), GAME, permutations=9),
    "design_contract": lambda X, y: design_contract(VALUES, COSTS, y, replicates=1).forecast,
    "design_disclosure": lambda X, y: _disclosed(y),
    "RepeatedContract": lambda X, y: _played(y),
    "compare_forecasters": lambda X, y: _compared(y, None, UnbiasedForecaster(random_state=0)),
    "ClassifierForecaster": lambda X, y: _compared(
        y, X, lab.ClassifierForecaster(classifier=SGDClassifier(loss="log_loss", random_state=0))
    ),
}
NOT_TABLES: dict[str, str] = {}
