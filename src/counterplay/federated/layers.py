"""Linear models and plain networks with stacked parameters: one batched product per layer.

All agents of all seeds go through a layer in one product of three-dimensional arrays, and the
backward pass writes straight into the array of gradients. The same code runs in NumPy and torch.
Parameters are laid out as torch does: weights ``(out, in)`` row by row, then the bias, per layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.draws import Keys, check_keys, uniforms
from counterplay.core.validation import check_choice, check_positive_int, check_real, check_size
from counterplay.errors import InvalidInputError
from counterplay.federated.arrays import Array, Backend, NumpyArrays
from counterplay.federated.losses import row_loss
from counterplay.federated.objective import Objective

ACTIVATIONS = ("relu", "tanh", "sigmoid", "identity")
MOST_PARAMETERS = 1 << 26  # half a GiB
ONE_SCORE = "the model returns one score, cross_entropy needs one per class; use loss='log_loss'"


@checked
class LayeredObjective(Objective):
    """A stack of affine maps with one activation between them.

    Parameters
    ----------
    sizes:
        Widths from input to output; two numbers are a linear model.
    activation:
        ``"relu"``, ``"tanh"``, ``"sigmoid"`` or ``"identity"``, or one per hidden layer.
    bias:
        Whether each affine map has a bias (one flag per map, or one for all).
    loss:
        ``"cross_entropy"`` or a margin loss (``"log_loss"``, ``"hinge"``, ...).
    penalty:
        Adds ``penalty / 2 * |weights|^2`` (biases are free) to every agent's loss.
    backend:
        :class:`NumpyArrays` (default) or :class:`TorchArrays`.

    Examples
    --------
    >>> import numpy as np
    >>> model = LayeredObjective([2, 3])
    >>> x, y, weight = np.ones((1, 4, 2)), np.zeros((1, 4), int), np.full((1, 4), 0.25)
    >>> loss, accuracy, gradient = model.gradients(np.zeros((1, model.size)), x, y, weight)
    >>> round(float(loss[0]), 4), gradient.shape
    (1.0986, (1, 9))

    References
    ----------
    "Torch modules", see docs/theory/23-training.md.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        activation: str | Sequence[str] = "relu",
        *,
        bias: bool | Sequence[bool] = True,
        loss: str = "cross_entropy",
        penalty: float = 0.0,
        backend: Backend | None = None,
    ) -> None:
        self.sizes = tuple(check_positive_int(n, "layer size") for n in sizes)
        maps = len(self.sizes) - 1
        if maps < 1:
            raise InvalidInputError("sizes must give at least input and output width")
        names = [activation] * (maps - 1) if isinstance(activation, str) else list(activation)
        self.activations = [check_choice(a, "activation", ACTIVATIONS) for a in names]
        self.bias = [bias] * maps if isinstance(bias, bool) else [bool(b) for b in bias]
        if len(self.activations) != maps - 1 or len(self.bias) != maps:
            raise InvalidInputError(
                f"{maps} maps need {maps - 1} activations and {maps} flags for biases"
            )
        self.loss_name, self.loss = loss, row_loss(loss)
        if self.sizes[-1] == 1 and loss == "cross_entropy":
            raise InvalidInputError(ONE_SCORE)
        self.penalty = check_real(penalty, "penalty", low=0.0)
        self.backend = NumpyArrays() if backend is None else backend
        self.classes = max(2, self.sizes[-1])
        self.convex = maps == 1  # every loss here is convex in the outputs
        self.slices = self._slices()
        self.size = self.slices[-1][1].stop if self.bias[-1] else self.slices[-1][0].stop
        check_size(self.size, MOST_PARAMETERS, "parameters")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.sizes)}, loss={self.loss_name!r})"

    def _slices(self) -> list[tuple[slice, slice]]:
        """Return where the weights and the bias of each map lie in the parameter vector."""
        found, at = [], 0
        for fan_in, fan_out, bias in zip(self.sizes, self.sizes[1:], self.bias):
            weights = slice(at, at + fan_in * fan_out)
            at = weights.stop + (fan_out if bias else 0)
            found.append((weights, slice(weights.stop, at)))
        return found

    def start(self, keys: Keys) -> NDArray[np.float64]:
        """Draw uniformly within ``1/sqrt(fan-in)``, as torch does; a linear model starts at 0."""
        runs = check_keys(keys)
        check_size(len(runs) * self.size, MOST_PARAMETERS, "parameters of all runs")
        if len(self.sizes) == 2:
            return np.zeros((len(runs), self.size))
        drawn = 2.0 * uniforms(runs, self.size) - 1.0
        for (weights, bias), fan_in in zip(self.slices, self.sizes):
            drawn[:, weights.start : bias.stop] /= np.sqrt(fan_in)
        return drawn

    def rows(self, X: NDArray[Any]) -> NDArray[Any]:
        """Flatten every row to a vector and check its length."""
        flat = X.reshape(len(X), -1)
        if flat.shape[1] != self.sizes[0]:
            raise InvalidInputError(
                f"the model takes {self.sizes[0]} numbers per row, X has {flat.shape[1]}"
            )
        return flat

    def _weights(self, w: Array, layer: int) -> Array:
        shape = (w.shape[0], self.sizes[layer + 1], self.sizes[layer])
        return w[:, self.slices[layer][0]].reshape(shape)

    def _forward(self, w: Array, x: Array) -> list[Array]:
        """Return the input of every map, and last the outputs."""
        values = [x]
        for layer in range(len(self.sizes) - 1):
            bias = w[:, None, self.slices[layer][1]] if self.bias[layer] else None
            out = self.backend.affine(values[-1], self._weights(w, layer), bias)
            if layer < len(self.activations):
                out = self._activate(out, self.activations[layer])
            values.append(out)
        return values

    def _activate(self, out: Array, name: str) -> Array:
        xp = self.backend.xp
        if name == "relu":
            return np.maximum(out, 0.0, out=out) if xp is np else out.relu_()
        if name == "tanh":
            return xp.tanh(out)
        return 1.0 / (1.0 + xp.exp(-out)) if name == "sigmoid" else out

    def outputs(self, w: Array, x: Array) -> Array:
        """Return the scores of every row."""
        return self._forward(w, x)[-1]

    def evaluate(self, w: Array, x: Array, y: Array, weight: Array) -> tuple[Array, Array]:
        """Return loss and accuracy."""
        out = self.outputs(w, x)
        loss = (self.loss(self.backend, out, y)[0] * weight).sum(-1)
        return loss + self._penalty(w), self.accuracy(out, y, weight)

    def gradients(self, w: Array, x: Array, y: Array, weight: Array) -> tuple[Array, Array, Array]:
        """Return loss, accuracy and gradients by one forward and one backward pass."""
        values = self._forward(w, x)
        loss, slope = self.loss(self.backend, values[-1], y)
        accuracy = self.accuracy(values[-1], y, weight)
        gradient = self._backward(w, values, slope * weight[..., None])
        return (loss * weight).sum(-1) + self._penalty(w), accuracy, gradient

    def gradient(self, w: Array, x: Array, y: Array, weight: Array) -> Array:
        """Return the gradients alone."""
        values = self._forward(w, x)
        slope = self.loss(self.backend, values[-1], y)[1]
        slope *= weight[..., None]
        return self._backward(w, values, slope)

    def _backward(self, w: Array, values: list[Array], slope: Array) -> Array:
        """Carry the slopes of the outputs back through the layers."""
        gradient = self.backend.empty((w.shape[0], self.size))
        for layer in reversed(range(len(self.sizes) - 1)):
            target = self._weights(gradient, layer)  # a view: written in place
            self.backend.xp.matmul(slope.swapaxes(1, 2), values[layer], out=target)
            if self.bias[layer]:
                gradient[:, self.slices[layer][1]] = slope.sum(1)
            if layer:
                slope = slope @ self._weights(w, layer)
                slope = self._chain(slope, values[layer], self.activations[layer - 1])
        if self.penalty:
            for weights, _ in self.slices:
                gradient[:, weights] += self.penalty * w[:, weights]
        return gradient

    def _chain(self, slope: Array, value: Array, name: str) -> Array:
        """Multiply by the derivative of the activation, given its value."""
        if name == "relu":
            slope *= value > 0
            return slope
        if name == "tanh":
            return slope * (1.0 - value * value)
        return slope * value * (1.0 - value) if name == "sigmoid" else slope

    def _penalty(self, w: Array) -> Array:
        if not self.penalty:
            return 0.0
        return 0.5 * self.penalty * sum((w[:, weights] ** 2).sum(-1) for weights, _ in self.slices)
