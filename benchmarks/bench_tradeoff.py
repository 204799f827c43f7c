"""Speed of the tradeoff area against a NumPy loop over rounds and river's EWA, one run."""

from __future__ import annotations

import argparse
import time

import numpy as np

from counterplay.core.online import Hedge, ShrinkingDartboard
from counterplay.tradeoff import CusumOracle, EpochLearner, LazyHedge, ReactivationLearner
from counterplay.tradeoff.lab import Losses


def seconds(job, repeats: int = 1) -> float:
    """CPU seconds, so that other work on the machine does not count; everything is one thread."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        job()
        times.append(time.process_time() - start)
    return min(times)


def line(what: str, value: str, note: str = "") -> None:
    print(f"  {what:<46} {value:>16}   {note}")


def exact_marginals(T: int, K: int) -> None:
    """The same learner (Shrinking Dartboard per round), kernel against a loop over rounds."""
    l1 = np.random.default_rng(0).random((T, K))
    learner = LazyHedge(T, K, threshold=100.0).learner
    ours_out, loop_out = np.zeros((T, K)), np.zeros((T, K))
    learner.marginals(l1[:10], out=ours_out[:10])
    ours = seconds(lambda: learner.marginals(l1, out=ours_out), 3)
    loop = seconds(lambda: _loop_marginals(l1, float(learner.eta), loop_out))
    gap = float(np.abs(ours_out - loop_out).max())
    print(f"exact marginals, T={T:,}, K={K}, one choice per round")
    line("counterplay", f"{ours:.3f} s")
    line("NumPy loop over rounds", f"{loop:.3f} s", f"{loop / ours:.0f}x slower (bar: 30)")
    line("largest difference", f"{gap:.1e}")
    epochs = EpochLearner(T, K, 0.5)
    epochs.plan(l1[:1000])
    plan = seconds(lambda: epochs.plan(l1), 3)
    line(f"A_SL(SD), {epochs.grid.E:,} epochs, whole plan", f"{plan:.3f} s", "(bar: 2 s)")


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
    print(f"adaptive streaming loop, K={K}")
    ours = None
    for learner in (ShrinkingDartboard(), Hedge()):
        rate = rounds / seconds(lambda learner=learner: _play(learner, base), 3)
        ours = rate if ours is None else ours
        line(f"counterplay {learner!r}", f"{rate:,.0f} rounds/s")
    both = EpochLearner(rounds, K, B=1, random_state=0)
    rate = rounds / seconds(lambda: _play_both(both, base), 1)
    line("counterplay EpochLearner(B=1), two losses", f"{rate:,.0f} rounds/s")
    numpy_rate = rounds / seconds(lambda: _numpy_stream(base), 1)
    line("NumPy Hedge loop", f"{numpy_rate:,.0f} rounds/s")
    _river(K, rounds // 10, ours or 0.0)


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


def _river(K: int, rounds: int, ours: float) -> None:
    try:
        from river import base, ensemble
    except ImportError:
        line("river EWARegressor", "skipped", "river is not installed")
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

    rate = rounds / seconds(play)
    line("river EWARegressor", f"{rate:,.0f} rounds/s", f"{ours / rate:.0f}x slower (bar: 20)")


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
    ours = seconds(lambda: learner.plan(l1, l2).sample_choices(n, 0))

    def one_by_one() -> None:
        fresh = learner.reset(0)
        for t in range(T):
            fresh.act()
            fresh.observe(Losses(l1[t], l2[t]))

    one_by_one()
    loop = seconds(one_by_one) * n
    print(f"{n:,} replicates x {epochs} epochs of ReactivationLearner")
    line("counterplay, all at once", f"{ours:.3f} s")
    line("one run at a time (extrapolated)", f"{loop:,.0f} s", f"{loop / ours:,.0f}x slower")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10**6, help="rounds of the batch benchmark")
    arguments = parser.parse_args()
    exact_marginals(arguments.rounds, 100)
    adaptive_stream(100, 50_000)
    replicates(20_000, 300)


if __name__ == "__main__":
    main()
