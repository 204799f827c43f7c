"""Partition ensembles against ART's DeepPartitionEnsemble, and the dyadic learner against a sort.

Every line is a ratio from this run. ART (adversarial-robustness-toolbox) and torch are optional:
without them their lines are skipped. One split with fixed settings; ``art_partitions.py`` compares
with settings chosen on validation data, on many splits.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from art_partitions import BLOCKS, EPOCHS, art, ours, prepared
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from counterplay.poisoning import (
    CertifiedAccuracy,
    DyadicDirectionLearner,
    HardMarginSVM,
    PartitionClassifier,
)

BUDGETS = (0, 1, 2, 5, 8, 10, 12, 15, 20)
OUR_SETTING = {"rate": 0.005, "penalty": 0.001, "smoothing": 0.0, "unit": 1}
ART_SETTING = {"rate": 0.01, "penalty": 0.0, "smoothing": 0.2, "unit": 1}


def best(call: Callable[[], Any], runs: int = 5) -> tuple[float, Any]:
    """Return the shortest time of several runs and the result of the last."""
    times, result = [], None
    for _ in range(runs):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return min(times), result


def digits(seed: int = 0) -> tuple[Any, Any, Any, Any]:
    X, y = load_digits(return_X_y=True)
    return tuple(train_test_split(X, y, random_state=seed))


def guarded(base: Any, blocks: int, spread: int, data: Any) -> CertifiedAccuracy:
    X_train, X_test, y_train, y_test = data
    guard = PartitionClassifier(base, blocks, spread=spread)
    return guard.fit(X_train, y_train).certified_accuracy(X_test, y_test)


def empty_under_arts_hash(X: Any) -> int:
    """Blocks that stay empty under ART's default hash, int(sum(x)) modulo the number of blocks."""
    return BLOCKS - np.unique(X.sum(axis=1).astype(int) % BLOCKS).size


def partition_lines(data: tuple[Any, Any, Any, Any]) -> None:
    mlp_time, mlp = best(lambda: ours(data, OUR_SETTING))
    fast_time, fast = best(lambda: guarded(None, BLOCKS, 1, data))
    nn_time, nn = best(lambda: guarded(KNeighborsClassifier(1), BLOCKS, 1, data))
    rows = [("51 batched networks", mlp_time, mlp), ("51 x nearest row (default)", fast_time, fast)]
    rows.append(("51 x KNeighborsClassifier(1)", nn_time, nn))
    art_time = float("nan")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            art_time, curve = best(lambda: art(data, ART_SETTING), 3)
        rows.append(("ART DeepPartitionEnsemble", art_time, curve))
    except ImportError as error:
        print(f"skipped ART: {error}")
    print(f"digits, {BLOCKS} blocks, {EPOCHS} epochs: fit + predict + certify")
    print(f"{'':30}{'time / ours':>12}  certified accuracy at {BUDGETS}")
    for name, seconds, result in rows:
        cells = " ".join(f"{result.at(t):.3f}" for t in BUDGETS)
        print(f"{name:30}{seconds / mlp_time:12.2f}  {cells}")
    print(f"ART / batched networks: {art_time / mlp_time:.1f} (wanted: at least 10)")
    guard = PartitionClassifier(None, BLOCKS).fit(prepared(data[0], 0), data[2])
    empty = empty_under_arts_hash(prepared(data[0], 0))
    print(f"empty blocks: ours {guard.n_empty_}, ART's default hash {empty}")


def aggregation_lines(blocks: int = 25, spread: int = 16, splits: int = 3) -> None:
    """Finite aggregation: gain in certified accuracy over one part per model, decision trees."""
    tree, gains, work = DecisionTreeClassifier(random_state=0), [], []
    for seed in range(splits):
        data = digits(seed)
        plain_time, plain = best(lambda data=data: guarded(tree, blocks, 1, data), 1)
        fine_time, fine = best(lambda data=data: guarded(tree, blocks, spread, data), 1)
        gains.append([fine.at(t) - plain.at(t) for t in range(9)])
        work.append(fine_time / plain_time)
    cells = " ".join(f"{g:+.3f}" for g in np.mean(gains, axis=0))
    print(f"finite aggregation, {blocks} blocks of trees, d = {spread}, mean of {splits} splits:")
    print(f"  gain at t = 0..8 {cells}, for {np.mean(work):.0f} times the work")


def dyadic_line(m: int = 1_000_000) -> None:
    rng = np.random.default_rng(0)
    angle, radius = 2 * np.pi * rng.random(m), np.sqrt(rng.random(m))
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    y = (X @ [np.cos(1.2), np.sin(1.2)] >= 0.1).astype(np.uint8)
    DyadicDirectionLearner().fit(X[:2000], y[:2000])  # compile
    fit, _ = best(lambda: DyadicDirectionLearner().fit(X, y), 3)
    sort, _ = best(lambda: X[np.argsort(X[:, 0], kind="stable")], 3)
    print(f"dyadic learner, m = {m}: {fit / sort:.2f} sorts of the rows (wanted: at most 5)")


def svm_line() -> None:
    rng = np.random.default_rng(1)
    w = rng.normal(size=50)
    X = rng.normal(size=(101, 50))
    y = (X @ w >= 0).astype(int)
    exact, model = best(lambda: HardMarginSVM().fit(X, y))
    rough, other = best(lambda: SVC(kernel="linear", C=1e8, tol=1e-8).fit(X, y))
    loss = 1 - 1 / np.linalg.norm(other.coef_) / model.margin_
    print(f"exact SVM / libsvm at C=1e8: {exact / rough:.2f} of the time, libsvm's margin off by "
          f"{loss:+.1e}, ours by {model.gap_:.0e}")  # fmt: skip


def main() -> None:
    partition_lines(digits())
    aggregation_lines()
    dyadic_line()
    svm_line()


if __name__ == "__main__":
    main()
