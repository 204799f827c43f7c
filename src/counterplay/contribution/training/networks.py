"""Many small networks at once, in NumPy: every parameter has a leading axis for the run.

``Network`` is what the training loop needs from a model; ``MLP`` is the one-hidden-layer network of
the digits experiment with hand-written gradients, so that it runs without torch. The torch versions
with ``device=`` are in ``torch_networks``.
Source: "The experiment of the chapter", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.draws import Keys, fold, uniforms
from counterplay.core.validation import check_positive_int

Params = list[Any]
_INIT = 101


class Network(ABC):
    """A model with parameters for ``R`` runs: a list of arrays with leading axis R."""

    @abstractmethod
    def init(self, keys: Keys) -> Params:
        """Return fresh parameters, one set per key."""

    @abstractmethod
    def gradients(
        self, params: Params, x: Any, y: Any, weight: Any, keys: Keys
    ) -> tuple[Any, Params]:
        """Return the weighted loss of every run and its gradients, where the network computes.

        ``x`` is ``(R, b, ...)``, ``y`` and ``weight`` are ``(R, b)``; weights of a run sum to 1.
        ``keys`` feed dropout.
        """

    @abstractmethod
    def correct(self, params: Params, x: Any, y: Any) -> Any:
        """Return ``(R, b)``: which points each run classifies correctly; ``fetch`` the answer."""

    @abstractmethod
    def losses(self, params: Params, pool: Any, index: Any, y: Any) -> NDArray[np.float64]:
        """Return ``(R, b)`` cross-entropies of the points ``pool[index]``, without dropout."""

    @abstractmethod
    def put(self, array: NDArray[Any]) -> Any:
        """Move a NumPy array to where the network computes."""

    def share(self, array: NDArray[Any]) -> Any:
        """Move an array that many calls use; where moving is slow, it is done once."""
        return self.put(array)

    @abstractmethod
    def fetch(self, array: Any) -> NDArray[Any]:
        """Bring an array back to NumPy."""

    @abstractmethod
    def repeat(self, array: Any, k: int) -> Any:
        """Return the array with every run's entry repeated ``k`` times."""


class MLP(Network):
    """One hidden layer with ReLU and cross-entropy loss, in float32 NumPy.

    Parameters
    ----------
    inputs:
        Numbers per point.
    hidden:
        Width of the hidden layer.
    classes:
        Number of labels.

    Examples
    --------
    >>> from counterplay.core.draws import run_keys
    >>> [p.shape for p in MLP(64, 64, 10).init(run_keys(0, 3))]
    [(3, 64, 64), (3, 1, 64), (3, 64, 10), (3, 1, 10)]
    """

    def __init__(self, inputs: int = 64, hidden: int = 64, classes: int = 10) -> None:
        self.inputs = check_positive_int(inputs, "inputs")
        self.hidden = check_positive_int(hidden, "hidden")
        self.classes = check_positive_int(classes, "classes")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inputs}, {self.hidden}, {self.classes})"

    def init(self, keys: Keys) -> Params:
        """Return uniform weights within ``1/sqrt(fan-in)``, as torch does."""
        shapes = [
            (self.inputs, self.hidden),
            (1, self.hidden),
            (self.hidden, self.classes),
            (1, self.classes),
        ]
        fans = [self.inputs, self.inputs, self.hidden, self.hidden]
        return [self.put(p) for p in uniform_params(keys, shapes, fans)]

    def gradients(
        self, params: Params, x: Any, y: Any, weight: Any, keys: Keys
    ) -> tuple[NDArray[np.float64], Params]:
        """Backpropagation in closed form."""
        w1, b1, w2, b2 = params
        hidden = np.maximum(x @ w1 + b1, 0.0)
        logits = hidden @ w2 + b2
        logits -= logits.max(axis=-1, keepdims=True)
        probability = np.exp(logits)
        norm = probability.sum(axis=-1, keepdims=True)
        probability /= norm
        picked = np.take_along_axis(logits, y[..., None], axis=-1)
        loss = ((np.log(norm) - picked)[..., 0] * weight).sum(axis=-1, dtype=np.float64)
        delta = probability
        np.put_along_axis(
            delta, y[..., None], np.take_along_axis(delta, y[..., None], axis=-1) - 1.0, axis=-1
        )
        delta *= weight[..., None]
        back = (delta @ w2.swapaxes(1, 2)) * (hidden > 0)
        return loss, [
            x.swapaxes(1, 2) @ back,
            back.sum(axis=1, keepdims=True),
            hidden.swapaxes(1, 2) @ delta,
            delta.sum(axis=1, keepdims=True),
        ]

    def correct(self, params: Params, x: Any, y: Any) -> NDArray[np.bool_]:
        """Compare the largest logit with the label."""
        right = np.empty(y.shape, dtype=bool)
        for r, (w1, b1, w2, b2) in enumerate(zip(*params)):  # one run's activations fit the cache
            hidden = x[r] @ w1
            hidden += b1
            np.maximum(hidden, 0.0, out=hidden)
            right[r] = (hidden @ w2 + b2).argmax(axis=-1) == y[r]
        return right

    def losses(self, params: Params, pool: Any, index: Any, y: Any) -> NDArray[np.float64]:
        """Negative log-probability of the label."""
        w1, b1, w2, b2 = params
        logits = np.maximum(pool[index] @ w1 + b1, 0.0) @ w2 + b2
        top = logits.max(axis=-1)
        norm = np.log(np.exp(logits - top[..., None]).sum(axis=-1)) + top
        picked = np.take_along_axis(logits, y[..., None], axis=-1)[..., 0]
        return np.asarray(norm - picked, dtype=np.float64)

    def put(self, array: NDArray[Any]) -> Any:
        """Return float32 for numbers; integers stay as they are."""
        return array.astype(np.float32, copy=False) if array.dtype.kind == "f" else array

    def fetch(self, array: Any) -> NDArray[Any]:
        """Return the array itself."""
        return np.asarray(array)

    def repeat(self, array: Any, k: int) -> Any:
        """Repeat along the first axis."""
        return np.repeat(array, k, axis=0)


def uniform_params(
    keys: Keys, shapes: Sequence[tuple[int, ...]], fans: Sequence[int]
) -> list[NDArray[np.float64]]:
    """Return parameters drawn uniformly within ``1/sqrt(fan-in)``, the same on every device."""
    params = []
    for layer, (shape, fan) in enumerate(zip(shapes, fans)):
        draw = uniforms(fold(keys, _INIT, layer), int(np.prod(shape)))
        params.append(((2.0 * draw - 1.0) / np.sqrt(fan)).reshape(len(keys), *shape))
    return params


class Adam:
    """Adam for a list of parameters, in the arithmetic of whatever arrays they are.

    ``lr`` is one number, or one per run as an array where the network computes.
    """

    def __init__(self, lr: Any, betas: tuple[float, float] = (0.9, 0.999)) -> None:
        self.lr, self.betas, self.t = lr, betas, 0
        self.first: Params = []
        self.second: Params = []

    def step(self, params: Params, grads: Params) -> Params:
        """Return the updated parameters."""
        if not self.first:
            self.first = [g * 0.0 for g in grads]
            self.second = [g * 0.0 for g in grads]
        self.t += 1
        a, b = self.betas
        rate = self.lr * (1 - b**self.t) ** 0.5 / (1 - a**self.t)
        eps = 1e-8 * (1 - b**self.t) ** 0.5
        updated = []
        for index, (p, g) in enumerate(zip(params, grads)):
            m, v = self.first[index], self.second[index]
            m *= a
            m += (1 - a) * g
            v *= b
            v += (1 - b) * g * g
            step = along(rate, p) if getattr(rate, "ndim", 0) else rate
            updated.append(p - step * m / (v**0.5 + eps))
        return updated


class SGD:
    """Plain gradient steps."""

    def __init__(self, lr: float) -> None:
        self.lr = lr

    def step(self, params: Params, grads: Params) -> Params:
        """Return the updated parameters."""
        return [p - self.lr * g for p, g in zip(params, grads)]


def along(vector: Any, like: Any) -> Any:
    """Reshape a per-run vector so that it multiplies along the first axis."""
    return vector.reshape(-1, *([1] * (like.ndim - 1)))
