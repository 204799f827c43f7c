"""Batched networks: each depends on its own block only."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from counterplay.poisoning import (
    BatchedMLPClassifier,
    PartitionClassifier,
)


@pytest.mark.filterwarnings("ignore::counterplay.poisoning.BlockFailureWarning")
@pytest.mark.claim("10.34")
@pytest.mark.parametrize("aggregation", ["plurality", "runoff"])
def test_a_new_label_reaches_one_network_only(aggregation: str) -> None:
    X, y = load_digits(return_X_y=True)
    guard = PartitionClassifier(BatchedMLPClassifier(8, 10), 21, aggregation=aggregation)
    guard.fit(X[:400], y[:400])
    for label in (-1, 10, 0.5, "odd", True):
        again = clone(guard).fit(np.vstack([X[:400], X[900]]), [*y[:400].tolist(), label])
        same = [
            hasattr(two, "weights")
            and all(np.array_equal(a, b) for a, b in zip(one.weights, two.weights))
            for one, two in zip(guard.models_, again.models_)
        ]
        assert sum(same) == 20


@pytest.mark.claim("10.40")
def test_batched_networks_depend_on_their_own_block_only() -> None:
    X, y = load_digits(return_X_y=True)
    blocks = [np.arange(0, 30), np.arange(30, 75), np.arange(75, 101)]
    net = BatchedMLPClassifier(random_state=0)
    together = net.fit_blocks(X, y, blocks, [1, 2, 3])
    for i, rows in enumerate(blocks):
        (alone,) = net.fit_blocks(X, y, [rows], [i + 1])
        assert all(np.array_equal(a, b) for a, b in zip(alone.weights, together[i].weights))
    guard = PartitionClassifier(BatchedMLPClassifier(), 51).fit(X[:1347], y[:1347])
    assert guard.certified_accuracy(X[1347:], y[1347:]).at(1) > 0.8


@pytest.mark.claim("10.43")
def test_networks_that_start_from_rows_certify_more() -> None:
    X, y = load_digits(return_X_y=True)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    gains = []
    for split in range(4):
        X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=split)

        def mean(net, X=X_train, y=y_train, test=(X_test, y_test)) -> float:
            curve = PartitionClassifier(net, 51).fit(X, y).certified_accuracy(*test)
            return float(np.mean([curve.at(t) for t in range(26)]))

        random = (
            BatchedMLPClassifier(learning_rate=rate, alpha=0.01, init="random")
            for rate in (0.03, 0.1)
        )
        gains.append(mean(BatchedMLPClassifier()) - max(map(mean, random)))
    assert min(gains) > 0
