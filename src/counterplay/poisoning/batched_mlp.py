"""BatchedMLPClassifier: small neural networks, all blocks of a partition trained at once.

Hundreds of tiny networks waste their time in Python. Blocks of similar size are padded to a common
length and trained by batched matrix products. Each network depends on its own rows only, bit for
bit: the padded sizes are functions of the block's own rows and classes, and products of a batch are
independent. A label that appears elsewhere, even for the first time, changes nothing here.

A block has few rows, so the start matters more than the path: every hidden unit starts as a row of
the block, answers only near it and votes for its class. Gradient steps then improve this soft
nearest neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from counterplay.core.arguments import check_parameters
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.errors import InvalidInputError

Weights = list[NDArray[np.float32]]
_PAD, _PAD_CLASSES = 16, 4
_MOST_STEPS, _MOST_WEIGHTS = 100_000, 1 << 26
_NEVER = -1e30  # bias of the padded outputs: their softmax is zero and stays so
_THRESHOLD = 0.35  # a unit answers where the cosine to its row exceeds about this


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
        Step size of Adam; about 0.01 for one network on many rows.
    alpha:
        L2 penalty; 0 certifies more at large budgets and a little less at small ones. The defaults
        of step size, penalty and smoothing were chosen on MNIST reduced to 8 by 8 pixels, by the
        certified accuracy of 51 blocks of 26 rows against three planted rows.
    init:
        ``"rows"``: hidden units start as rows of the block; ``"random"``: normal weights (use a
        larger step size, about 0.05, and a penalty of about 0.01).
    label_smoothing:
        Share of the target mass that is spread evenly over the classes of the block.
    random_state:
        Seed of the initial weights.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> net = BatchedMLPClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> bool(net.score(X[1000:], y[1000:]) > 0.85)
    True

    References
    ----------
    "Votes with certificates", see docs/theory/10-poisoning.md.
    """

    def __init__(
        self,
        hidden: int = 32,
        n_steps: int = 40,
        learning_rate: float = 0.002,
        *,
        alpha: float = 1e-3,
        init: Literal["rows", "random"] = "rows",
        label_smoothing: float = 0.0,
        random_state: RandomState = None,
    ) -> None:
        self.hidden = hidden
        self.n_steps = n_steps
        self.learning_rate = learning_rate
        self.alpha = alpha
        self.init = init
        self.label_smoothing = label_smoothing
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train one network."""
        check_parameters(self)
        points, labels = _one_sentence(lambda: validate_data(self, X, y, dtype=np.float64))
        _one_sentence(lambda: check_classification_targets(labels))
        seed = int(generator(self.random_state).integers(2**31))
        (model,) = self.fit_blocks(points, labels, [np.arange(len(labels))], [seed])
        self.classes_ = model.classes_
        self.network_ = model
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class with the largest score."""
        check_is_fitted(self)
        points = _one_sentence(lambda: validate_data(self, X, reset=False, dtype=np.float64))
        labels: NDArray[Any] = self.network_.predict(points)
        return labels

    def fit_blocks(
        self, X: NDArray[Any], y: NDArray[Any], blocks: Sequence[IntArray], seeds: Sequence[int]
    ) -> list[Any]:
        """Train one network per block; None for empty blocks."""
        steps = check_positive_int(self.n_steps, "n_steps")
        units = check_positive_int(self.hidden, "hidden")
        check_size(steps, _MOST_STEPS, "gradient steps")
        check_size(units * X.shape[1] * max(1, len(blocks)), _MOST_WEIGHTS, "weights")
        rate = check_real(self.learning_rate, "learning_rate", low=0, open_low=True)
        smooth = check_real(self.label_smoothing, "label_smoothing", low=0, high=1, open_high=True)
        from_rows = check_choice(self.init, "init", ("rows", "random")) == "rows"
        alpha = check_real(self.alpha, "alpha", low=0)
        models: list[Any] = [None] * len(blocks)
        known = [np.unique(y[rows]) for rows in blocks]
        shapes = [
            (_PAD * -(-len(rows) // _PAD), _PAD_CLASSES * -(-len(own) // _PAD_CLASSES))
            for rows, own in zip(blocks, known)
        ]
        for shape in sorted(set(shapes) - {(0, 0)}):
            chosen = [i for i, own in enumerate(shapes) if own == shape]
            batch = _Batch.build(
                X, y, [blocks[i] for i in chosen], [known[i] for i in chosen], shape
            )
            start = [
                _initial(np.random.default_rng(seeds[i]), batch, place, units, from_rows)
                for place, i in enumerate(chosen)
            ]
            weights = _Weights(np.stack(start), X.shape[1], units, shape[1])
            batch.smooth(smooth)
            _train(weights, batch, steps, rate, alpha)
            for place, i in enumerate(chosen):
                part = [w[place] for w in weights.parts()]
                models[i] = _Network(part, batch.mean[place], batch.std[place], known[i])
        return models


def _one_sentence(call: Callable[[], Any]) -> Any:
    """Return what scikit-learn's check returns; its complaint becomes ours."""
    try:
        return call()
    except (TypeError, ValueError) as error:
        raise InvalidInputError(" ".join(str(error).split())[:290]) from error


class _Network:
    """One trained network with its scaling; knows the classes of its block only."""

    def __init__(
        self, weights: Weights, mean: FloatArray, std: FloatArray, classes: NDArray[Any]
    ) -> None:
        w1, b1, w2, b2 = weights
        self.weights = [w1, b1, w2[:, : classes.size], b2[:, : classes.size]]
        self.mean, self.std, self.classes_ = mean, std, classes

    def class_scores(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """Scores of the classes of the block, one column each."""
        w1, b1, w2, b2 = self.weights
        z = ((X - self.mean) / self.std).astype(np.float32)
        scores: NDArray[np.float32] = np.maximum(z @ w1 + b1, 0) @ w2 + b2
        return scores

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the best class of the block for each row."""
        labels: NDArray[Any] = self.classes_[self.class_scores(X).argmax(axis=1)]
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
        blocks: list[IntArray],
        known: list[NDArray[Any]],
        shape: tuple[int, int],
    ) -> _Batch:
        n, p, (length, width) = len(blocks), X.shape[1], shape
        z = np.zeros((n, length, p), dtype=np.float32)
        onehot = np.zeros((n, length, width), dtype=np.float32)
        weight = np.zeros((n, length, 1), dtype=np.float32)
        mean, std = np.zeros((n, p)), np.ones((n, p))
        for i, (rows, classes) in enumerate(zip(blocks, known)):
            part = X[rows]
            mean[i] = part.mean(axis=0)
            spread = float(np.sqrt(part.var(axis=0).mean()))  # one scale per block: it has few rows
            std[i] = spread if spread > 0 else 1.0
            z[i, : len(rows)] = (part - mean[i]) / std[i]
            onehot[i, np.arange(len(rows)), np.searchsorted(classes, y[rows])] = 1
            weight[i, : len(rows)] = 1 / len(rows)
        return cls(z, onehot, weight, mean, std, onehot.any(axis=1))

    def smooth(self, share: float) -> None:
        """Move a share of every target to the classes of its block, evenly."""
        even = self.present / self.present.sum(axis=1, keepdims=True)
        self.onehot = ((1 - share) * self.onehot + share * even[:, None, :]).astype(np.float32)
        self.onehot *= self.weight > 0


class _Weights:
    """All weights of a batch of networks in one matrix, one row per network."""

    def __init__(self, flat: Any, p: int, units: int, k: int) -> None:
        self.flat: NDArray[np.float32] = np.ascontiguousarray(flat, dtype=np.float32)
        self.shapes = ((p, units), (1, units), (units, k), (1, k))

    def parts(self, flat: NDArray[np.float32] | None = None) -> Weights:
        """Views of the matrix: first layer, its bias, second layer, its bias."""
        table = self.flat if flat is None else flat
        ends = np.cumsum([0] + [a * b for a, b in self.shapes])
        return [
            table[:, start:stop].reshape(-1, *shape)
            for start, stop, shape in zip(ends[:-1], ends[1:], self.shapes)
        ]


def _initial(
    rng: np.random.Generator, batch: _Batch, place: int, units: int, from_rows: bool
) -> FloatArray:
    """Flat initial weights of one network; a function of its block and seed only."""
    z, present = batch.z[place], batch.present[place]
    p, k = z.shape[1], int(present.sum())
    first = rng.normal(size=(p, units), scale=np.sqrt(2 / p))
    second = rng.normal(size=(units, k), scale=np.sqrt(1 / units))
    bias = np.zeros(units)
    if from_rows:
        count = int((batch.weight[place] > 0).sum())
        chosen = np.concatenate([rng.permutation(count) for _ in range(-(-units // count))])[:units]
        rows = z[chosen].astype(np.float64)
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        # A little of the random start keeps units apart that begin at the same row.
        first = (rows / np.where(length > 0, length, 1.0)).T + 0.05 * first
        second = batch.onehot[place][chosen, :k] + 0.05 * second
        bias -= _THRESHOLD * length.mean()
    padding = present.size - k
    second = np.pad(second, ((0, 0), (0, padding)))
    return np.concatenate([first.ravel(), bias, second.ravel(), np.where(present, 0.0, _NEVER)])


def _train(weights: _Weights, batch: _Batch, steps: int, rate: float, alpha: float) -> None:
    """Full-batch Adam on the cross-entropy of every network, in place."""
    parts = weights.parts()
    gradient = np.empty_like(weights.flat)
    targets = weights.parts(gradient)
    first, second = np.zeros_like(weights.flat), np.zeros_like(weights.flat)
    for step in range(1, steps + 1):
        _gradients(parts, batch, alpha, targets)
        scale = rate * np.sqrt(1 - 0.99**step) / (1 - 0.9**step)
        _adam(weights.flat.reshape(-1), gradient.reshape(-1), first.reshape(-1),
              second.reshape(-1), np.float32(scale))  # fmt: skip


@njit(cache=True, error_model="numpy")
def _adam(w, g, m, v, scale):  # type: ignore[no-untyped-def]  # compiled by numba
    for i in range(w.size):
        # Moving averages of the gradient and its square; ``scale`` carries their start-up bias.
        m[i] += np.float32(0.1) * (g[i] - m[i])
        v[i] += np.float32(0.01) * (g[i] * g[i] - v[i])
        # A step against the mean gradient, in units of its usual size.
        w[i] -= scale * m[i] / (np.sqrt(v[i]) + np.float32(1e-8))


def _gradients(weights: Weights, batch: _Batch, alpha: float, out: Weights) -> None:
    w1, b1, w2, b2 = weights
    hidden = batch.z @ w1
    hidden += b1
    np.maximum(hidden, 0, out=hidden)
    scores = hidden @ w2
    scores += b2
    scores -= scores.max(axis=2, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=2, keepdims=True)
    scores -= batch.onehot
    scores *= batch.weight
    back = scores @ w2.transpose(0, 2, 1)
    back *= hidden > 0
    penalty = np.float32(alpha)
    out[0][...] = batch.z.transpose(0, 2, 1) @ back + penalty * w1
    out[1][...] = back.sum(axis=1, keepdims=True)
    out[2][...] = hidden.transpose(0, 2, 1) @ scores + penalty * w2
    out[3][...] = scores.sum(axis=1, keepdims=True)
