"""BatchedMLPClassifier: small neural networks, all blocks of a partition trained at once.

Hundreds of tiny networks waste their time in Python. Blocks of similar size are padded to a common
length and trained by batched matrix products. Each network depends on its own rows only: the padded
length is a function of the block's size, and products of a batch are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, IntArray, check_positive_int, check_real

Weights = list[NDArray[np.float32]]
_PAD = 16


class BatchedMLPClassifier(ClassifierMixin, BaseEstimator):
    """One hidden layer, full-batch Adam; trains all blocks of a partition in one go.

    Use it as base of :class:`PartitionClassifier` when the base should be a neural network.

    Parameters
    ----------
    hidden:
        Units of the hidden layer.
    n_steps:
        Full-batch gradient steps.
    learning_rate:
        Step size of Adam.
    alpha:
        L2 penalty.
    random_state:
        Seed of the initial weights.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> net = BatchedMLPClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> bool(net.score(X[1000:], y[1000:]) > 0.85)
    True
    """

    def __init__(
        self,
        hidden: int = 32,
        n_steps: int = 40,
        learning_rate: float = 0.1,
        *,
        alpha: float = 1e-2,
        random_state: RandomState = None,
    ) -> None:
        self.hidden = hidden
        self.n_steps = n_steps
        self.learning_rate = learning_rate
        self.alpha = alpha
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train one network."""
        points, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        seed = int(generator(self.random_state).integers(2**31))
        (model,) = self.fit_blocks(points, labels, [np.arange(len(labels))], [seed])
        self.classes_ = model.classes
        self.network_ = model
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class with the largest score."""
        check_is_fitted(self)
        points = validate_data(self, X, reset=False, dtype=np.float64)
        labels: NDArray[Any] = self.network_.predict(points)
        return labels

    def fit_blocks(
        self, X: NDArray[Any], y: NDArray[Any], blocks: Sequence[IntArray], seeds: Sequence[int]
    ) -> list[Any]:
        """Train one network per block; None for empty blocks."""
        steps = check_positive_int(self.n_steps, "n_steps")
        units = check_positive_int(self.hidden, "hidden")
        check_real(self.learning_rate, "learning_rate", low=0, open_low=True)
        classes = np.unique(y)
        models: list[Any] = [None] * len(blocks)
        padded = [_PAD * -(-len(rows) // _PAD) for rows in blocks]
        for length in sorted(set(padded) - {0}):
            chosen = [i for i, size in enumerate(padded) if size == length]
            batch = _Batch.build(X, y, classes, [blocks[i] for i in chosen], length)
            weights = _initial([seeds[i] for i in chosen], X.shape[1], units, classes.size)
            weights = _train(weights, batch, steps, float(self.learning_rate), float(self.alpha))
            for place, i in enumerate(chosen):
                present = batch.present[place]
                part = [w[place] for w in weights]
                models[i] = _Network(part, batch.mean[place], batch.std[place], classes, present)
        return models


class _Network:
    """One trained network with its scaling; votes only for classes of its block."""

    def __init__(
        self,
        weights: Weights,
        mean: FloatArray,
        std: FloatArray,
        classes: NDArray[Any],
        present: NDArray[np.bool_],
    ) -> None:
        self.weights, self.mean, self.std = weights, mean, std
        self.classes, self.present = classes, present

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the best class of the block for each row."""
        w1, b1, w2, b2 = self.weights
        z = ((X - self.mean) / self.std).astype(np.float32)
        scores = np.maximum(z @ w1 + b1, 0) @ w2 + b2
        scores[:, ~self.present] = -np.inf
        labels: NDArray[Any] = self.classes[scores.argmax(axis=1)]
        return labels


class _Batch:
    """Padded, standardised blocks of one length."""

    def __init__(self, z: Any, onehot: Any, weight: Any, mean: Any, std: Any, present: Any) -> None:
        self.z, self.onehot, self.weight = z, onehot, weight
        self.mean, self.std, self.present = mean, std, present

    @classmethod
    def build(
        cls,
        X: NDArray[Any],
        y: NDArray[Any],
        classes: NDArray[Any],
        blocks: list[IntArray],
        length: int,
    ) -> _Batch:
        n, p = len(blocks), X.shape[1]
        z = np.zeros((n, length, p), dtype=np.float32)
        onehot = np.zeros((n, length, classes.size), dtype=np.float32)
        weight = np.zeros((n, length, 1), dtype=np.float32)
        mean, std = np.zeros((n, p)), np.ones((n, p))
        codes = np.searchsorted(classes, y)
        for i, rows in enumerate(blocks):
            part = X[rows]
            mean[i] = part.mean(axis=0)
            spread = float(part.std(axis=0).max())  # one scale per block: few rows, many features
            std[i] = spread if spread > 0 else 1.0
            z[i, : len(rows)] = (part - mean[i]) / std[i]
            onehot[i, np.arange(len(rows)), codes[rows]] = 1
            weight[i, : len(rows)] = 1 / len(rows)
        return cls(z, onehot, weight, mean, std, onehot.any(axis=1))


def _initial(seeds: Sequence[int], p: int, units: int, k: int) -> Weights:
    first, second = [], []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        first.append(rng.normal(size=(p, units), scale=np.sqrt(2 / p)))
        second.append(rng.normal(size=(units, k), scale=np.sqrt(1 / units)))
    n = len(seeds)
    arrays = [np.stack(first), np.zeros((n, 1, units)), np.stack(second), np.zeros((n, 1, k))]
    return [a.astype(np.float32) for a in arrays]


def _train(weights: Weights, batch: _Batch, steps: int, rate: float, alpha: float) -> Weights:
    """Full-batch Adam on the cross-entropy of every network."""
    first = [np.zeros_like(w) for w in weights]
    second = [np.zeros_like(w) for w in weights]
    for step in range(1, steps + 1):
        for w, g, m, v in zip(weights, _gradients(weights, batch, alpha), first, second):
            m += 0.1 * (g - m)
            v += 0.01 * (g * g - v)
            scale = rate * np.sqrt(1 - 0.99**step) / (1 - 0.9**step)
            w -= (scale * m / (np.sqrt(v) + 1e-8)).astype(np.float32)
    return weights


def _gradients(weights: Weights, batch: _Batch, alpha: float) -> Weights:
    w1, b1, w2, b2 = weights
    hidden = np.maximum(batch.z @ w1 + b1, 0)
    scores = hidden @ w2 + b2
    scores -= scores.max(axis=2, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=2, keepdims=True)
    delta = (scores - batch.onehot) * batch.weight
    back = (delta @ w2.transpose(0, 2, 1)) * (hidden > 0)
    return [
        batch.z.transpose(0, 2, 1) @ back + alpha * w1,
        back.sum(axis=1, keepdims=True),
        hidden.transpose(0, 2, 1) @ delta + alpha * w2,
        delta.sum(axis=1, keepdims=True),
    ]
