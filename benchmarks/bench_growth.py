"""How our own cost grows with size: one curve for every area, in CPU seconds of one process.

    python benchmarks/bench_growth.py [AREA ...]

The page of speed draws the curves and says how the cost grows: n^1 is twice the cost for twice the
size. Everything is compiled before it is measured. All of it takes about three minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from ledger import growth, timed
from sklearn.linear_model import LogisticRegression

import counterplay
from counterplay import (
    contribution,
    elicitation,
    federated,
    invariance,
    labeling,
    poisoning,
    principal,
    strategic,
    tables,
    tradeoff,
)
from counterplay.core.draws import run_keys
from counterplay.core.finite_class import FiniteClass
from counterplay.elicitation.users import LinearPreferenceUser

Prepare = Callable[[int], Callable[[], Any]]
"""Gives the work of one size as a call; what it prepares is not measured."""


def frame(rows: int) -> pd.DataFrame:
    """Return ten columns with an outcome that depends on them."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(rows, 10))).add_prefix("column ")
    return X.assign(y=(X.sum(axis=1) + rng.normal(size=rows) > 0).astype(int))


def fitted(rows: int) -> tuple[LogisticRegression, pd.DataFrame, pd.Series[int]]:
    table = frame(rows)
    X, y = table.drop(columns="y"), table["y"]
    return LogisticRegression().fit(X, y), X, y


def fingerprints(rows: int) -> Callable[[], Any]:
    table = frame(rows)
    return lambda: tables.fingerprint(table)


def gaming(rows: int) -> Callable[[], Any]:
    model, X, y = fitted(rows)
    moves = strategic.Moves({c: strategic.Change("up") for c in X.columns[:5]}, reference=X)
    return lambda: strategic.gaming_report(model, X, y, moves, budget=[0, 0.5, 1])


def halving(rules: int) -> Callable[[], Any]:
    line = strategic.instances.threshold_line(rules).hypotheses
    adversary = strategic.instances.HalvingAdversary
    return lambda: strategic.play(strategic.StrategicHalving(line), adversary(line))


def stable(parties: int) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    shared = np.triu(rng.random((parties, parties)) / parties, 1)
    game = contribution.LinearGame(shared + shared.T + np.eye(parties), mu=1.0)
    return lambda: contribution.lab.optimal_stable_linear(game)


def rounds_of_training(parties: int) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    X, y = rng.random((40 * parties, 64)), rng.integers(10, size=40 * parties)
    sites = federated.Sites.from_agents(X, y, np.arange(len(y)) % parties)
    model = federated.LayeredObjective([64, 32, 10])
    federation = federated.Federation(model, sites, eps=0.0)
    rule = federated.SafeStep(delta=0.02, cap=0.2)
    return lambda: federation.train(rule, run_keys(0, 1), rounds=20, step_size=0.1)


def questions(items: int) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(items, 8))
    y, owner = (X[:, 0] > 0).astype(int), rng.integers(3, size=items)

    def hundred() -> None:
        campaign = labeling.Campaign(
            X, owners=owner, classes=[0, 1], learner=LogisticRegression(), scope="union",
            random_state=0,
        )  # fmt: skip
        for _ in range(10):
            for question in campaign.ask(10):
                campaign.tell(question, int(y[question.item]))

    return hundred


def halfspace_search(items: int) -> Callable[[], Any]:
    X = np.random.default_rng(0).normal(size=(items, 2))
    pools = [np.arange(i, items, 4) for i in range(4)]
    problem = labeling.PoolProblem.from_class(FiniteClass.halfspaces_2d(X), pools)
    return lambda: labeling.GBS().cost_matrix(problem)


def offers(states: int) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    u, v = rng.random((20, states)), rng.random((20, states))
    prior = rng.dirichlet(np.ones(states))
    return lambda: principal.lab.obedience_lp(u, v, prior)


def questionnaire(items: int) -> Callable[[], Any]:
    values = np.random.default_rng(0).random((items, 4))
    person = LinearPreferenceUser([1.0, 0.75, 0.5, 0.25], 0.0)

    def asked() -> Any:
        elicitor = elicitation.PolytopeElicitor(values, target_regret=0.01, random_state=0)
        return elicitation.answered_by(elicitor, person)

    return asked


def marginals(rounds: int) -> Callable[[], Any]:
    losses = np.random.default_rng(0).random((rounds, 20))
    learner = tradeoff.LazyHedge(rounds, 20, threshold=100.0).learner
    out = np.zeros_like(losses)
    return lambda: learner.marginals(losses, out=out)


def partitions(rows: int) -> Callable[[], Any]:
    table = frame(rows)
    X, y = table.drop(columns="y"), table["y"]
    model = poisoning.PartitionClassifier(LogisticRegression(), n_partitions=50)
    return lambda: model.fit(X, y).predict(X)


def orbits(rows: int) -> Callable[[], Any]:
    group = invariance.groups.d4((8, 8))
    X = np.random.default_rng(0).integers(0, 17, size=(rows, 64)).astype(float)
    return lambda: group.orbit_key(X)


def audited(rows: int) -> Callable[[], Any]:
    model, X, y = fitted(2 * rows)
    config = {
        "movable": {"column 0": {"direction": "up", "step": 0.5, "cost": 0.5, "per": "step"}},
        "effort": {"budgets": [0.5, 1, 2], "unit": "days"},
    }
    held = X.assign(y=y).iloc[rows:]
    return lambda: counterplay.audit(
        model, held, label="y", positive=1, sections=["gaming"], config=config, random_state=0,
        time_budget=600,
    )  # fmt: skip


CURVES: dict[str, list[tuple[str, str, Prepare, tuple[int, ...]]]] = {
    "strategic": [
        ("gaming report of a linear model, 10 columns", "rows", gaming, (1000, 10_000, 100_000)),
        ("StrategicHalving against its adversary", "rules", halving, (64, 256, 1024, 4096)),
    ],
    "contribution": [
        ("cheapest stable plan of a symmetric game", "parties", stable, (100, 200, 400, 800)),
    ],
    "defection": [
        ("20 rounds of SafeStep, network 64-32-10, 40 rows each", "parties", rounds_of_training,
         (10, 20, 40, 80)),
    ],
    "labeling": [
        ("100 questions of a campaign of three parties", "items", questions, (1000, 4000, 16_000)),
        ("exact costs of binary search over halfspaces", "items", halfspace_search,
         (25, 50, 100, 200)),
    ],
    "principal": [("persuasion program with 20 strategies", "states", offers, (50, 100, 200, 400))],
    "elicitation": [
        ("questions until the certificate, 4 objectives", "items", questionnaire,
         (100, 400, 1600)),
    ],
    "tradeoff": [
        ("exact marginals of LazyHedge, 20 models", "rounds", marginals,
         (1000, 10_000, 100_000, 1_000_000)),
    ],
    "poisoning": [
        ("50 partitions fitted and every row certified", "rows", partitions,
         (1000, 10_000, 100_000)),
    ],
    "invariance": [("keys of orbits of 8 x 8 pictures", "pictures", orbits,
                    (1000, 10_000, 100_000))],
    "audit": [("section on gaming of an audit", "rows", audited, (250, 500, 1000, 2000))],
    "tables": [("fingerprint of a table of 11 columns", "rows", fingerprints,
                (1000, 10_000, 100_000))],
}  # fmt: skip


def main(wanted: list[str]) -> None:
    """Measure every curve, or those of the named areas."""
    for area in wanted or CURVES:
        for what, size, prepare, sizes in CURVES[area]:
            prepare(sizes[0])()  # compile
            growth(area, what, {n: timed(prepare(n), 2, cpu=True) for n in sizes}, size=size)


if __name__ == "__main__":
    main(sys.argv[1:])
