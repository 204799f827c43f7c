"""How the defaults of ``BatchedMLPClassifier`` were chosen: on MNIST, not on digits.

MNIST is reduced to 8 by 8 pixels and samples of 1797 rows are split as the digits are in
``art_partitions.py``, so that the comparison there tests on data that no choice has seen. The rule:
the largest certified accuracy against three planted rows, the default budget of
``PartitionClassifier``. Prints one line per setting; five minutes.
"""

from __future__ import annotations

import itertools

import numpy as np
from art_partitions import BLOCKS, EPOCHS, HIDDEN, prepared
from sklearn.model_selection import train_test_split

from counterplay import datasets
from counterplay.poisoning import BatchedMLPClassifier, PartitionClassifier

BUDGETS = (0, 1, 2, 3, 5, 8, 10, 15, 20)
SPLITS = range(200, 220)


def small_mnist() -> tuple[np.ndarray, np.ndarray]:
    """The first 20,000 training pictures without their rim, means of 3 by 3 pixels, 0 to 16."""
    X, y = datasets.fetch("mnist", return_X_y=True)
    middle = np.asarray(X[:20_000], dtype=np.float64).reshape(-1, 28, 28)[:, 2:26, 2:26]
    means = middle.reshape(-1, 8, 3, 8, 3).mean(axis=(2, 4)).reshape(-1, 64)
    return means / means.max() * 16, np.asarray(y[:20_000])


def main() -> None:
    X, y = small_mnist()
    X = prepared(X, unit=1)
    curves: dict[tuple[float, float, float], list[list[float]]] = {}
    for split in SPLITS:
        rows = np.random.default_rng(split).choice(len(X), 1797, replace=False)
        X_train, X_test, y_train, y_test = train_test_split(X[rows], y[rows], random_state=split)
        for setting in itertools.product((0.002, 0.005, 0.01), (0.0, 1e-3, 1e-2), (0.0, 0.1)):
            rate, penalty, smoothing = setting
            net = BatchedMLPClassifier(
                HIDDEN, EPOCHS, rate, alpha=penalty, label_smoothing=smoothing
            )
            guard = PartitionClassifier(net, BLOCKS).fit(X_train, y_train)
            result = guard.certified_accuracy(X_test, y_test)
            curves.setdefault(setting, []).append([result.at(t) for t in BUDGETS])
    means = {setting: np.mean(found, axis=0) for setting, found in curves.items()}
    print(f"step size, penalty, smoothing: certified accuracy at {BUDGETS}, best at 3 first")
    for setting, mean in sorted(means.items(), key=lambda item: -item[1][BUDGETS.index(3)]):
        print(setting, " ".join(f"{value:.4f}" for value in mean))


if __name__ == "__main__":
    main()
