"""Speed of the principal area, as ratios from one run.

1. Forecaster: time per round for 3 actions, 5 benchmark policies and 2 to 50 states (63 events),
   against the events that full calibration would need.
2. Minimax step: cutting planes with a persistent program against the textbook Hedge loop.
3. Obedience program, 200 states x 20 strategies: sparse build against the same program built by
   loops and solved by SciPy's default.
4. Persuasion oracle: time per forecast against the number of strategies.
"""

from __future__ import annotations

import numpy as np
from ledger import compare, growth, timed
from scipy.optimize import linprog

from counterplay.errors import InvalidInputError
from counterplay.principal import (
    FollowRecommendation,
    LinearContractOracle,
    PersuasionGame,
    PersuasionOracle,
    RepeatedContract,
    StableMechanism,
    play,
)
from counterplay.principal.bounds import net_events
from counterplay.principal.instances import random_contract_game
from counterplay.principal.lab import NetCalibratedForecaster, obedience_lp, solve_minimax

ROUNDS = 1500


def forecaster() -> None:
    curve, told = {}, []
    for n in (2, 5, 10, 20, 35, 50):
        game = random_contract_game(3, n, random_state=0)
        oracle = LinearContractOracle(game, np.linspace(0.1, 0.9, 5), beta=0.1, delta=0.1)
        mechanism = StableMechanism(oracle, random_state=0)
        rng = np.random.default_rng(0)
        states = rng.choice(n, size=ROUNDS, p=rng.dirichlet(np.ones(n)))
        agent = FollowRecommendation()
        play(mechanism, RepeatedContract(game, agent, states[:30]))
        whole = RepeatedContract(game, agent, states)
        curve[n] = timed(lambda m=mechanism, g=whole: play(m, g), cpu=True).each(ROUNDS)
        try:
            NetCalibratedForecaster(n, eta=0.1).predict_one()
        except InvalidInputError:
            told.append(f"{n}: {net_events(n, 0.1):.2g}")
    growth(
        "principal",
        "a round of the forecaster, 3 actions, 5 policies, 63 events",
        curve,
        size="states",
        note=f"full calibration is refused, events it needs by states: {', '.join(told)}",
    )


def minimax() -> None:
    for n in (3, 5, 10):
        rng = np.random.default_rng(n)
        planes, centre = rng.normal(size=(12, n)), rng.dirichlet(np.ones(n))
        jumps = rng.normal(size=(12, n))

        def gain(x: np.ndarray, p=planes, c=centre, j=jumps) -> np.ndarray:
            return j[(p @ (x - c)) > 0].sum(axis=0)

        solve_minimax(gain, n, 0.05)
        ours = timed(lambda g=gain, k=n: solve_minimax(g, k, 0.05), 3, cpu=True)
        hedge = timed(
            lambda g=gain, k=n: solve_minimax(g, k, 0.05, method="hedge", max_evaluations=4000),
            cpu=True,
        )
        compare("principal", f"minimax step by cutting planes, {n} states, gap 0.05", ours, hedge,
                against="the textbook Hedge loop", package="counterplay")  # fmt: skip


def loop_built(u: np.ndarray, v: np.ndarray, prior: np.ndarray) -> float:
    n, m = u.shape
    obedience, balance = [], []
    for s in range(n):
        for other in range(n):
            if s != other:
                row = [0.0] * (n * m)
                for y in range(m):
                    row[s * m + y] = u[other, y] - u[s, y]
                obedience.append(row)
    for y in range(m):
        row = [0.0] * (n * m)
        for s in range(n):
            row[s * m + y] = 1.0
        balance.append(row)
    zeros = [0.0] * len(obedience)
    solved = linprog(-v.ravel(), A_ub=obedience, b_ub=zeros, A_eq=balance, b_eq=prior)
    return -float(solved.fun)


def obedience() -> None:
    for m, n in ((50, 20), (200, 20)):
        rng = np.random.default_rng(0)
        u, v, prior = rng.random((n, m)), rng.random((n, m)), rng.dirichlet(np.ones(m))
        ours = timed(lambda a=u, b=v, c=prior: obedience_lp(a, b, c), 3, cpu=True)
        theirs = timed(lambda a=u, b=v, c=prior: loop_built(a, b, c), cpu=True)
        same = abs(theirs.result - ours.result.value) < 1e-7
        compare("principal", f"obedience program, {m} states x {n} strategies", ours, theirs,
                against="built by loops, SciPy's default solver", package="scipy",
                note="same value" if same else "ANOTHER value")  # fmt: skip


def oracle() -> None:
    curve = {}
    for n in (4, 16, 60):
        slopes = np.linspace(-1, 1, n)
        edges = np.linspace(0, 1, n + 1)[1:-1]
        heights = np.concatenate([[0.0], -np.cumsum(np.diff(slopes) * edges)])
        u = np.stack([heights, heights + slopes], axis=1)
        u = (u - u.min()) / np.ptp(u)
        game = PersuasionGame(u, np.random.default_rng(0).random(n))
        rule = PersuasionOracle(game, [game.no_disclosure()], beta=0.2 / n, discretization="logit")
        priors = np.random.default_rng(0).random(4000).tolist()
        for mu in priors:
            rule._locate(mu)
        spent = timed(lambda r=rule, p=priors: [r._locate(mu) for mu in p], 3, cpu=True)
        curve[n] = spent.each(len(priors))
    growth("principal", "persuasion oracle, one forecast", curve, size="strategies")


def main() -> None:
    forecaster()
    minimax()
    obedience()
    oracle()


if __name__ == "__main__":
    main()
