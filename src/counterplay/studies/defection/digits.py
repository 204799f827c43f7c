"""The federation of the network studies: scikit-learn's digits among ten agents.

Each agent holds mostly its own digit; a network with one hidden layer of 32 units is trained until
agents with a small enough loss leave. All runs are seeded by the replicate, so that rules are
compared on the same splits and initial networks.
Source: docs/theory/05-defection.md, "Measured: digits".
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.draws import run_keys
from counterplay.defection import ADAGD, FedAvg, MWFed, SafeStep, heterogeneous_split
from counterplay.federated import (
    Federation,
    LayeredObjective,
    LocalWork,
    NumpyArrays,
    Sites,
    TrainingRecord,
)
from counterplay.federated.reports import Rule
from counterplay.studies.study import Params, Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METHODS = {
    "fedavg": "FedAvg",
    "mw_fed": "MW-FED",
    "ada_gd": "ADA-GD",
    "safe_step": "SafeStep",
}
STEP = {"fedavg": 0.5, "mw_fed": 0.5, "ada_gd": 0.1, "safe_step": 0.5}
LOCAL = {"fedavg": 5, "mw_fed": 5, "ada_gd": 5, "safe_step": 1}
SEED = 509


@cache
def _data() -> tuple[Any, Any, Any, Any]:
    """Return training and test rows with labels."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(y))
    test, rest = order[:360], order[360:]
    return X[rest] / 16.0, y[rest], X[test] / 16.0, y[test]


def cells(replicates: int, **axes: Iterable[Any]) -> list[Params]:
    """Return the cells of a grid: every combination of the axes, on the same replicates.

    ``method``, ``own``, ``eps``, ``step_size``, ``local_steps`` and ``rounds`` are axes; step size
    and local steps default to those that suit the method.
    """
    names = {"own": [0.9], "eps": [0.2], **axes}
    found: list[Params] = []
    for values in product(*names.values(), range(replicates)):
        cell = dict(zip([*names, "replicate"], values))
        suits = {"step_size": STEP[cell["method"]], "local_steps": LOCAL[cell["method"]]}
        found.append(suits | cell)
    return found


def four_panels(width: float = 7.6, height: float = 6.0) -> tuple[Figure, list[Axes]]:
    """Return a figure with two rows of two axes that share their scales."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(2, 2, sharex=True, sharey=True).ravel())


def rule_of(method: str, eps: float) -> Rule:
    """Return the rule with the margin ``delta = eps / 10``."""
    delta = 0.1 * eps if eps > 0 else 0.01
    rules: dict[str, Rule] = {
        "fedavg": FedAvg(),
        "mw_fed": MWFed(gap=delta),
        "ada_gd_naive": ADAGD(delta, "naive"),
        "ada_gd": ADAGD(delta, "anchored"),
        "safe_step": SafeStep(delta, cap="step_size"),
    }
    return rules[method]


def digits_run(params: Params) -> TrainingRecord:
    """Train one replicate; keys: method, own, eps, step_size, local_steps, rounds, replicate."""
    X, y, X_test, y_test = _data()
    number = {k: float(params[k] or 0.0) for k in ("own", "eps", "step_size")}
    steps, rounds = int(params["local_steps"] or 1), int(params["rounds"] or 1)
    replicate = int(params["replicate"] or 0)
    split = heterogeneous_split(X, y, 10, number["own"], random_state=SEED + replicate)
    federation = Federation(
        LayeredObjective([64, 32, 10], backend=NumpyArrays("float32")),
        Sites.from_agents(X, y, split.agent_of_row),
        eps=number["eps"],
        test=(X_test, y_test),
        evaluate_every=10,
    )
    return federation.train(
        rule_of(str(params["method"]), number["eps"]),
        run_keys(SEED, 1, first=replicate),
        step_size=number["step_size"],
        rounds=rounds,
        work=LocalWork(steps, None if steps == 1 else 32),
    )


def cell(params: Params, seed: int) -> Record:
    """Train one replicate to the end."""
    return outcome(digits_run(params))


def outcome(record: TrainingRecord) -> dict[str, float | int | str]:
    """The numbers of a finished run that the studies share."""
    average = record.accuracy[0].mean(axis=1)
    final = record.accuracy[0, -1]
    return {
        "defections": int(record.defections[0]),
        "average": float(final.mean()),
        "worst": float(final.min()),
        "best": float(final.max()),
        "population": float(record.population[0, -1]),
        "peak": float(average.max()),
        "worst_loss": float(record.loss[0, -1].max()),
        "used": int(record.rounds[0]),
        "status": record.status[0],
    }
