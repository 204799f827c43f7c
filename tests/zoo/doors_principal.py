"""Doors of counterplay.principal."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import SGDClassifier

from counterplay.principal import (
    Decision,
    FollowRecommendation,
    LinearContractGame,
    LinearContractOracle,
    RepeatedContract,
    StableMechanism,
    UnbiasedForecaster,
    behaviour_audit,
    compare_forecasters,
    decision_audit,
    design_contract,
    design_disclosure,
    fit_game,
    lab,
    play,
)

from .animals import N, labels

VALUES, COSTS = [[0, 0], [0, 1]], [0, 0.25]
GAME = LinearContractGame(VALUES, COSTS)
SHARES = np.tile([0.2, 0.4], 2 * N)
MONEY = np.random.default_rng(0).lognormal(3, 0.4, 4 * N)
UMBRELLA = Decision([[0.0, -1.0], [-0.3, -0.3]])


def _log(X: Any, **columns: Any) -> Any:
    """A log with these columns beside those of the table, or alone."""
    given = {"offer": [0.5] * N, "recommendation": [1] * N, "action": labels(), "state": labels()}
    given |= columns
    if not hasattr(X, "assign"):
        return given
    try:
        return X.assign(**{name: np.asarray(values) for name, values in given.items()})
    except ValueError:  # a table with another number of rows takes no such column
        return X


def _offers(X: Any) -> Any:
    """Offers and outcomes beside the columns of the table, or the table alone."""
    if not hasattr(X, "assign") or len(X) != N:
        return X if hasattr(X, "columns") else {"offered": SHARES, "earned": MONEY}
    return pd.concat([X] * 4).assign(offered=SHARES, earned=MONEY)


def _twice(y: Any) -> Any:
    """Logs have at least thirty rows; the zoo has fewer."""
    try:
        return list(y) * 4
    except TypeError:
        return y


def _arms(y: Any) -> Any:
    return fit_game({"offer": y, "outcome": MONEY}, terms="arms")


def _played(states: Any) -> Any:
    mechanism = lab.ConstantMechanism(GAME, 0.6, random_state=0)
    transcript = play(mechanism, RepeatedContract(GAME, FollowRecommendation(), states))
    return transcript.regrets, transcript.summary()


def _compared(y: Any, contexts: Any, forecaster: Any) -> Any:
    found = compare_forecasters(y, {"it": forecaster}, [UMBRELLA], n_outcomes=2, contexts=contexts)
    return found.totals().to_numpy(), found.summary()


def _by_weeks(batches: Any) -> Any:
    with contextlib.suppress(TypeError, ValueError):
        batches = sorted(batches)  # rows of one batch stand together
    found = compare_forecasters(
        labels(), {"it": lab.EWMAForecaster()}, [UMBRELLA], n_outcomes=2, batches=batches
    )
    return found.totals().to_numpy()


def _beside(column: Any, **options: Any) -> Any:
    """A fit whose rows carry one more column."""
    log = {"offer": SHARES, "outcome": MONEY, "more": _twice(column)}
    return fit_game(log, **options).to_frame().to_numpy()


def _planned(outcomes: Any) -> Any:
    plan = fit_game({"offer": SHARES, "outcome": MONEY}).planner(N, random_state=0)
    for outcome in outcomes:
        plan.observe(plan.act(), outcome)
    return plan.report().to_frame().to_numpy()


def _insured(states: Any) -> Any:
    oracle = LinearContractOracle(GAME, [0.3, 0.6], horizon=N)
    mechanism = StableMechanism(oracle, random_state=0)
    return lab.insured(mechanism, 0.6, FollowRecommendation(), states).values


def _disclosed(y: Any) -> Any:
    return design_disclosure([[1, 0], [0, 1]], [0, 1], y, replicates=1).forecast


DOORS = {
    "behaviour_audit": lambda X, y: behaviour_audit(_log(X), GAME),
    "behaviour_audit:states": lambda X, y: behaviour_audit(_log(None, state=y), GAME),
    "behaviour_audit:actions": lambda X, y: behaviour_audit(_log(None, action=y), GAME),
    "fit_game": lambda X, y: fit_game(_offers(X), offer="offered", outcome="earned"),
    "fit_game:outcomes": lambda X, y: fit_game({"offer": SHARES, "outcome": _twice(y)}),
    "fit_game:arms": lambda X, y: _arms(_twice(y)),
    "fit_game:agent": lambda X, y: _beside(y, agent="more"),
    "fit_game:within": lambda X, y: _beside(y, within="more"),
    "fit_game:time": lambda X, y: _beside(y, time="more"),
    "fit_game:action": lambda X, y: _beside(y, action="more"),
    "OfferPlanner": lambda X, y: _planned(y),
    "insured": lambda X, y: _insured(y),
    "decision_audit": lambda X, y: decision_audit(
        {"done": y, "event": labels()}, decision="done", outcome="event"
    ),
    "design_contract": lambda X, y: design_contract(VALUES, COSTS, y, replicates=1).forecast,
    "design_disclosure": lambda X, y: _disclosed(y),
    "RepeatedContract": lambda X, y: _played(y),
    "compare_forecasters": lambda X, y: _compared(y, None, UnbiasedForecaster(random_state=0)),
    "compare_forecasters:batches": lambda X, y: _by_weeks(y),
    "EWMAForecaster": lambda X, y: lab.EWMAForecaster(2).forecast_sequence(y),
    "ClassifierForecaster": lambda X, y: _compared(
        y, X, lab.ClassifierForecaster(classifier=SGDClassifier(loss="log_loss", random_state=0))
    ),
}
NOT_TABLES: dict[str, str] = {}
