"""Speed of the tradeoff area against a NumPy loop over rounds and river's EWA, one run."""

from __future__ import annotations

import argparse

import numpy as np
from ledger import Times, compare, growth, skipped, timed

from counterplay.core.online import Hedge, ShrinkingDartboard
from counterplay.tradeoff import CusumOracle, EpochLearner, LazyHedge, ReactivationLearner
from counterplay.tradeoff.lab import Losses


def exact_marginals(T: int, K: int) -> None:
    """The same learner (Shrinking Dartboard per round), kernel against a loop over rounds."""
    l1 = np.random.default_rng(0).random((T, K))
    learner = LazyHedge(T, K, threshold=100.0).learner
    ours_out, loop_out = np.zeros((T, K)), np.zeros((T, K))
    learner.marginals(l1[:10], out=ours_out[:10])
    ours = timed(lambda: learner.marginals(l1, out=ours_out), 3, cpu=True)
    loop = timed(lambda: _loop_marginals(l1, float(learner.eta), loop_out), cpu=True)
    gap = float(np.abs(ours_out - loop_out).max())
    compare("tradeoff", f"exact marginals, {T:,} rounds, {K} models", ours, loop,
            against="a NumPy loop over rounds", package="numpy", bar=30,
            note=f"largest difference {gap:.1e}")  # fmt: skip
    epochs = EpochLearner(T, K, 0.5)
    epochs.plan(l1[:1000])
    plan = timed(lambda: epochs.plan(l1), 3, cpu=True)
    growth("tradeoff", f"whole plan of the epoch learner, {K} models", {T: plan}, size="rounds",
           bar=2.0, note=f"{epochs.grid.E:,} epochs")  # fmt: skip


def _loop_marginals(l1: np.ndarray, eta: float, out: np.ndarray) -> None:
    step, total = np.log1p(-eta), np.zeros(l1.shape[1])
    for t in range(len(l1)):
        weights = step * total
        weights -= weights.max()
        np.exp(weights, out=weights)
        weights /= weights.sum()
        out[t] = weights
        total += l1[t]


def adaptive_stream(K: int, rounds: int) -> None:
    """Act, see losses that depend on the action, update; one round at a time."""
    rng = np.random.default_rng(1)
    base = rng.random((rounds, K))
    loop = timed(lambda: _numpy_stream(base), cpu=True).each(rounds)
    both = EpochLearner(rounds, K, B=1, random_state=0)
    ways = {
        repr(learner): timed(lambda learner=learner: _play(learner, base), 3, cpu=True)
        for learner in (ShrinkingDartboard(), Hedge())
    }
    ways["EpochLearner(B=1), two losses"] = timed(lambda: _play_both(both, base), cpu=True)
    for name, spent in ways.items():
        compare("tradeoff", f"an adaptive round, {K} models, {name}", spent.each(rounds), loop,
                against="NumPy Hedge loop", package="numpy")  # fmt: skip
    _river(K, rounds // 10, next(iter(ways.values())).each(rounds))


def _play(learner, base: np.ndarray) -> None:
    learner.reset(base.shape[1], len(base), 0)
    for row in base:
        choice = learner.act()
        row[choice] = 1.0 - row[choice]
        learner.observe(row)
        row[choice] = 1.0 - row[choice]


def _play_both(learner: EpochLearner, base: np.ndarray) -> None:
    learner.reset(0)
    for row in base:
        learner.act()
        learner.observe(Losses(row, row))


def _numpy_stream(base: np.ndarray) -> None:
    rng, K = np.random.default_rng(0), base.shape[1]
    eta, total = np.sqrt(8 * np.log(K) / len(base)), np.zeros(K)
    for row in base:
        weights = np.exp(-eta * (total - total.min()))
        weights /= weights.sum()
        choice = int(np.searchsorted(np.cumsum(weights), rng.random()))
        total += row
        total[min(choice, K - 1)] += 1e-9


def _river(K: int, rounds: int, ours: Times) -> None:
    what = f"an adaptive round, {K} models, {ShrinkingDartboard()!r}"
    try:
        from river import base, ensemble
    except ImportError:
        skipped("tradeoff", what, "river is not installed")
        return

    class Reader(base.Regressor):
        """An expert whose prediction is one number of the example; it learns nothing."""

        def __init__(self, position: int) -> None:
            self.position = position

        def predict_one(self, x):
            return x[self.position]

        def learn_one(self, x, y):
            pass

    rows = np.random.default_rng(2).random((rounds, K)).tolist()
    model = ensemble.EWARegressor([Reader(i) for i in range(K)], learning_rate=0.01)

    def play() -> None:
        for row in rows:
            model.predict_one(row)
            model.learn_one(row, 0.0)

    theirs = timed(play, cpu=True).each(rounds)
    compare("tradeoff", what, ours, theirs, against="EWARegressor", package="river", bar=20)


def replicates(n: int, epochs: int) -> None:
    """Many runs of the reactivation learner: one shared weight path against one run at a time."""
    B, K = 10, 8
    T = B * epochs
    rng = np.random.default_rng(3)
    l1, l2 = rng.random((T, K)), np.clip(rng.normal(0.2, 0.1, (T, K)), 0, 1)
    l2[:, 0] = np.minimum(l2[:, 0], 0.2)
    oracle = CusumOracle(0.2, 15.0, resets=T // 4 // B * B)
    learner = ReactivationLearner(T, K, B=B, oracle=oracle, random_state=0)
    learner.plan(l1, l2).sample_choices(2, 0)
    ours = timed(lambda: learner.plan(l1, l2).sample_choices(n, 0), cpu=True)

    def one_by_one() -> None:
        fresh = learner.reset(0)
        for t in range(T):
            fresh.act()
            fresh.observe(Losses(l1[t], l2[t]))

    one_by_one()
    loop = timed(one_by_one, cpu=True).each(1 / n)
    compare(
        "tradeoff",
        f"{n:,} runs of the reactivation learner at once, {epochs} epochs",
        ours,
        loop,
        against="one run after the other",
        package="counterplay",
        note="theirs extrapolated from one run",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10**6, help="rounds of the batch benchmark")
    arguments = parser.parse_args()
    exact_marginals(arguments.rounds, 100)
    adaptive_stream(100, 50_000)
    replicates(20_000, 300)


if __name__ == "__main__":
    main()
