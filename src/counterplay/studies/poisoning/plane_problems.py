"""Cells of the plane study: random half-planes on the disc, and the chain."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.core.seeds import derive_seed
from counterplay.core.stats import clopper_pearson
from counterplay.errors import ConvergenceError, NotRealizableError
from counterplay.poisoning import LabelledSet, attackable_rate, bounds
from counterplay.poisoning.instances import convex_chain
from counterplay.poisoning.lab import (
    DyadicDirectionLearner,
    DyadicPathAttacker,
    HardMarginSVM,
    LinearTarget,
    SqueezePairAttacker,
)
from counterplay.studies.study import Params, Record


def disc_problem(
    m: int, gamma: float, n_test: int, rng: np.random.Generator
) -> tuple[LinearTarget, LabelledSet, Any]:
    """A random half-plane with margin gamma on the unit disc: target, rows, test points."""
    beta = 2 * np.pi * rng.random()
    target = LinearTarget([np.cos(beta), np.sin(beta)], rng.uniform(-0.6, 0.6))
    X = np.zeros((0, 2))
    while len(X) < m + n_test:
        more = rng.uniform(-1, 1, size=(4 * (m + n_test), 2))
        more = more[np.hypot(*more.T) <= 1]
        X = np.vstack([X, more[np.abs(target.decision_function(more)) >= gamma / 2]])
    return target, LabelledSet(X[:m], target(X[:m])), X[m : m + n_test]


def disc_cell(params: Params) -> Record:
    """Rates on the disc; both learners see the same problems.

    Masses are taken on 4000 points. Attacks are tried on some of the points that no proof excludes,
    and (for the dyadic learner) on some that its certificate does exclude.
    """
    m, gamma, tests = (float(params[name] or 0) for name in ("m", "gamma", "tests"))
    rng = np.random.default_rng(derive_seed("plane", int(m), gamma))
    rows = []
    for _ in range(int(params["runs"] or 1)):
        target, S, test = disc_problem(int(m), gamma, 4000, rng)
        fan = DyadicDirectionLearner().fit(S.X, S.y)
        worst, contested = fan.consistent_errors(target, test)
        learner: Any = HardMarginSVM(tol=1e-3)
        attacker: Any = SqueezePairAttacker()
        upper, bound = 1.0, 1.0
        if params["learner"] == "dyadic":
            learner, attacker = DyadicDirectionLearner(), DyadicPathAttacker()
            contested = fan.upper_region(target, test)
            upper = float(contested.mean())
            bound = bounds.dyadic_rate(worst, 0.0, gamma / 2)
        points = test[contested][: int(tests)]
        share, broken = 0.0, 0
        if len(points):
            share = attackable_rate(learner, target, S, points, [attacker]).atk_lower
        if params["learner"] == "dyadic":
            safe = attackable_rate(learner, target, S, test[~contested][: int(tests)], [attacker])
            broken = int((safe.attacked > 0).sum())
        error = float((learner.fit(S.X, S.y).predict(test) != target(test)).mean())
        lower = max(error, share * float(contested.mean()))
        rows.append((error, lower, upper, bound, broken))
    table = np.array(rows)
    mean = table.mean(axis=0)
    return {
        "error": mean[0], "lower": mean[1], "upper": mean[2], "bound": mean[3],
        "broken": int(table[:, 4].sum()), "over": int((table[:, 2] > table[:, 3] + 1e-12).sum()),
        "low": 0.0, "high": 0.0, "refused": 0,
    }  # fmt: skip


def chain_cell(params: Params, seed: int) -> Record:
    """Rates on the chain distribution: a random chain point, attacked by reflection if unseen."""
    m, runs = int(params["m"] or 0), int(params["runs"] or 0)
    rng = np.random.default_rng(seed)
    wrong = clean = open_points = refused = 0
    for _ in range(runs):
        game = convex_chain(m, random_state=rng)
        chain = game.details["chain"]
        x0 = chain.X[int(rng.integers(2 * m))]
        model: Any = HardMarginSVM(tol=1e-3)
        if params["learner"] == "dyadic":
            model = DyadicDirectionLearner().fit(game.S.X, game.S.y)
            open_points += int(model.upper_region(game.target, x0[None])[0])
            clean += int(model.predict(x0[None])[0] != chain.s)
        poison = game.attacker.attack(game.target, game.S, x0)
        if len(poison) == 0:
            continue
        both = game.S + poison
        order = rng.permutation(len(both))
        try:
            model.fit(both.X[order], both.y[order])
        except (ConvergenceError, NotRealizableError):  # thinner than 64-bit numbers
            refused += 1
            continue
        value = float(model.decision_function(x0[None])[0])
        answer = int(rng.integers(2)) if abs(value) < 1e-6 else int(value >= 0)
        wrong += int(answer != chain.s)
    span = clopper_pearson(wrong, max(1, runs - refused), 0.9999)
    return {
        "error": clean / runs, "lower": span.estimate, "upper": open_points / runs,
        "bound": bounds.chain_rate(m), "broken": 0, "over": 0, "low": span.low, "high": span.high,
        "refused": refused,
    }  # fmt: skip
