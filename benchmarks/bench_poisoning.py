"""Partition ensembles against ART's DeepPartitionEnsemble, and the dyadic learner against a sort.

Every line is a ratio from this run. ART (adversarial-robustness-toolbox) and torch are optional:
without them their lines are skipped.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from counterplay.core.votes import hash_blocks, plurality
from counterplay.poisoning import (
    BatchedMLPClassifier,
    CertifiedAccuracy,
    DyadicDirectionLearner,
    HardMarginSVM,
    PartitionClassifier,
)
from counterplay.poisoning.certificates import partition_radius

BLOCKS, EPOCHS, HIDDEN = 51, 40, 32
BUDGETS = (0, 1, 2, 5, 8, 10, 12, 15, 20)


def best(call: Callable[[], Any], runs: int = 5) -> tuple[float, Any]:
    """Return the shortest time of several runs and the result of the last."""
    times, result = [], None
    for _ in range(runs):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return min(times), result


def digits() -> tuple[Any, Any, Any, Any]:
    X, y = load_digits(return_X_y=True)
    return tuple(train_test_split(X / 16, y, random_state=0))


def ours(base: Any, spread: int, data: tuple[Any, Any, Any, Any]) -> CertifiedAccuracy:
    X_train, X_test, y_train, y_test = data
    guard = PartitionClassifier(base, BLOCKS, spread=spread).fit(X_train, y_train)
    return guard.certified_accuracy(X_test, y_test)


def art_ensemble(data: tuple[Any, Any, Any, Any]) -> CertifiedAccuracy:
    """Fit, predict and (with our certificate) certify ART's ensemble of the same networks."""
    import torch
    from art.estimators.classification import PyTorchClassifier
    from art.estimators.classification.deep_partition_ensemble import DeepPartitionEnsemble

    X_train, X_test, y_train, y_test = data
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 10)
    )
    model = PyTorchClassifier(
        model=net,
        loss=torch.nn.CrossEntropyLoss(),
        optimizer=torch.optim.Adam(net.parameters(), lr=0.03),
        input_shape=(64,),
        nb_classes=10,
    )
    block = hash_blocks(X_train, BLOCKS).block  # ART's own hash leaves most blocks empty and fails
    place = {row.tobytes(): int(b) for row, b in zip(X_train.astype(np.float32), block)}
    ensemble = DeepPartitionEnsemble(
        model,
        hash_function=lambda x: place[x.astype(np.float32).tobytes()],
        ensemble_size=BLOCKS,
        channels_first=True,
    )
    onehot = np.eye(10, dtype=np.float32)[y_train]
    ensemble.fit(X_train.astype(np.float32), onehot, batch_size=32, nb_epochs=EPOCHS)
    raw = ensemble.predict(X_test.astype(np.float32), raw=True)
    votes = np.asarray(raw).argmax(axis=2)
    vote = plurality(votes, np.arange(10))
    return CertifiedAccuracy(partition_radius(vote), vote.labels == y_test)


def own_hash_of_art(X: Any) -> int:
    """Blocks that stay empty under ART's default hash, int(sum(x)) modulo the number of blocks."""
    return BLOCKS - np.unique(X.sum(axis=1).astype(int) % BLOCKS).size


def partition_lines(data: tuple[Any, Any, Any, Any]) -> None:
    net = BatchedMLPClassifier(hidden=HIDDEN, n_steps=EPOCHS)
    mlp_time, mlp = best(lambda: ours(net, 1, data))
    nn_time, nn = best(lambda: ours(KNeighborsClassifier(1), 1, data))
    fine_time, fine = best(lambda: ours(KNeighborsClassifier(1), 4, data), 2)
    rows = [("51 batched networks", mlp_time, mlp), ("51 x 1-NN", nn_time, nn)]
    rows.append(("1-NN, finite aggregation d=4", fine_time, fine))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            art_time, art = best(lambda: art_ensemble(data), 3)
    except ImportError as error:
        print(f"skipped ART: {error}")
        art_time = float("nan")
    else:
        rows.append(("ART DeepPartitionEnsemble", art_time, art))
    print(f"digits, {BLOCKS} blocks, {EPOCHS} epochs: fit + predict + certify")
    print(f"{'':30}{'time / ours':>12}  certified accuracy at {BUDGETS}")
    for name, seconds, curve in rows:
        cells = " ".join(f"{curve.at(t):.3f}" for t in BUDGETS)
        print(f"{name:30}{seconds / mlp_time:12.2f}  {cells}")
    print(f"ART / batched networks: {art_time / mlp_time:.1f} (wanted: at least 10)")
    guard = PartitionClassifier(net, BLOCKS).fit(data[0], data[2])
    print(f"empty blocks: ours {guard.n_empty_}, ART's default hash {own_hash_of_art(data[0])}")


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
    dyadic_line()
    svm_line()


if __name__ == "__main__":
    main()
