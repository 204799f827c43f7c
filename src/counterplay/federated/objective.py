"""What is trained: losses and gradients of a whole batch of parameter vectors at once.

Row ``b`` of the parameters meets row ``b`` of the data: parties and seeds are one leading axis, and
no Python loop runs over either. :class:`LayeredObjective` (linear models and plain networks),
``modules.TorchModule`` (any torch module) and :class:`CallableObjective` (your own loss in NumPy)
are the three kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.draws import Keys
from counterplay.core.validation import FloatArray, check_positive_int
from counterplay.errors import InvalidInputError
from counterplay.federated.arrays import Array, Backend, NumpyArrays

LossAndGradient = Callable[[FloatArray, Array, Array, FloatArray], tuple[float, FloatArray]]
"""``(w, rows, labels, weights) -> (loss, gradient)``; weights sum to one, 0 marks padding."""
Scores = Callable[[FloatArray, Array], FloatArray]
"""``(w, rows) -> scores (n, C)``."""


class Objective(ABC):
    """Losses ``F(w; data) = sum_j weight_j loss_j(w)`` of ``B`` parameter vectors and data sets.

    Subclasses set ``backend``, ``size`` (the number of parameters ``d``) and ``classes``.

    Examples
    --------
    >>> from counterplay.federated import LayeredObjective
    >>> objective = LayeredObjective([4, 3])  # a linear model: 4 features, 3 classes
    >>> isinstance(objective, Objective), objective.size, objective.convex
    (True, 15, True)

    References
    ----------
    "Torch modules", see docs/theory/23-training.md.
    """

    backend: Backend
    size: int
    classes: int
    stateful: bool = False
    """Whether a training step differs from an evaluation: running statistics, or dropout."""
    convex: bool = False
    """Whether the loss is known to be convex in the parameters."""

    @abstractmethod
    def start(self, keys: Keys) -> NDArray[np.float64]:
        """Return one initial parameter vector per key, ``(S, d)``."""

    @abstractmethod
    def outputs(self, w: Array, x: Array) -> Array:
        """Return the scores ``(B, n, C)`` of the parameters ``(B, d)`` on rows ``(B, n, ...)``."""

    @abstractmethod
    def evaluate(self, w: Array, x: Array, y: Array, weight: Array) -> tuple[Array, Array]:
        """Return loss and accuracy, ``(B,)`` each."""

    @abstractmethod
    def gradients(self, w: Array, x: Array, y: Array, weight: Array) -> tuple[Array, Array, Array]:
        """Return loss ``(B,)``, accuracy ``(B,)`` and gradients ``(B, d)``."""

    def gradient(self, w: Array, x: Array, y: Array, weight: Array) -> Array:
        """Return the gradients ``(B, d)`` alone."""
        return self.gradients(w, x, y, weight)[2]

    def step_gradient(self, w: Array, x: Array, y: Array, weight: Array, keys: Keys) -> Array:
        """Return the gradients of a training step, one key per run: a model with dropout draws it
        from them, all others ignore them."""
        return self.gradient(w, x, y, weight)

    def train_steps(
        self, w: Array, x: Array, y: Array, step_size: float, work: Any, batches: Any
    ) -> tuple[Array, dict[str, NDArray[Any]]]:
        """Return the update of one party in training mode, and its buffers afterwards."""
        raise NotImplementedError(f"{type(self).__name__} has no state")

    def buffers(self) -> dict[str, NDArray[Any]]:
        """Return the running statistics of the model."""
        return {}

    def load_buffers(self, buffers: Mapping[str, NDArray[Any]]) -> None:
        """Replace the running statistics."""
        return None

    def predict(self, out: Array) -> Array:
        """Return class numbers from scores."""
        if out.shape[-1] == 1:
            return (out[..., 0] > 0) * 1
        return out.argmax(-1)

    def accuracy(self, out: Array, y: Array, weight: Array) -> Array:
        """Return the weighted share of right predictions, ``(B,)``."""
        return ((self.predict(out) == y) * weight).sum(-1)

    def rows(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the rows in the shape the model wants."""
        return X


@checked
class CallableObjective(Objective):
    """A loss given as a NumPy function that returns value and gradient.

    Use it for models that are neither torch modules nor plain layers. Agents are computed one
    after the other, so plain networks are faster as :class:`LayeredObjective`.

    Parameters
    ----------
    size:
        Number of parameters.
    loss_and_gradient:
        ``(w, rows, labels, weights) -> (loss, gradient)``.
    scores:
        ``(w, rows) -> (n, C)``, for accuracies; without it accuracies are 0.
    start:
        Initial parameters, zeros by default.

    Examples
    --------
    >>> def mean_square(w, rows, labels, weights):
    ...     gap = rows @ w - labels
    ...     return float(weights @ gap**2) / 2, rows.T @ (weights * gap)
    >>> model = CallableObjective(1, mean_square)
    >>> x, y, weight = np.ones((1, 2, 1)), np.array([[0, 1]]), np.full((1, 2), 0.5)
    >>> [part.tolist() for part in model.gradients(np.zeros((1, 1)), x, y, weight)]
    [[0.25], [0.0], [[-0.5]]]

    References
    ----------
    "Torch modules", see docs/theory/23-training.md.
    """

    def __init__(
        self,
        size: int,
        loss_and_gradient: LossAndGradient,
        scores: Scores | None = None,
        start: NDArray[np.float64] | None = None,
    ) -> None:
        self.size, self.classes = check_positive_int(size, "size"), 0
        self.function, self.scores = loss_and_gradient, scores
        self.backend = NumpyArrays()
        self.initial = np.zeros(size) if start is None else np.asarray(start, dtype=np.float64)

    def __repr__(self) -> str:
        return f"CallableObjective({self.size} parameters)"

    def start(self, keys: Keys) -> NDArray[np.float64]:
        """Repeat the initial parameters."""
        return np.tile(self.initial, (len(keys), 1))

    def outputs(self, w: Array, x: Array) -> Array:
        """Return the scores of every row."""
        if self.scores is None:
            raise InvalidInputError("give scores= to CallableObjective for predictions")
        return np.stack([self.scores(own, rows) for own, rows in zip(w, x)])

    def evaluate(self, w: Array, x: Array, y: Array, weight: Array) -> tuple[Array, Array]:
        """Return loss and accuracy."""
        loss, accuracy, _ = self.gradients(w, x, y, weight)
        return loss, accuracy

    def gradients(self, w: Array, x: Array, y: Array, weight: Array) -> tuple[Array, Array, Array]:
        """Call the function for every agent."""
        found = [self.function(*own) for own in zip(w, x, y, weight)]
        accuracy = np.zeros(len(w))
        if self.scores is not None:
            accuracy = self.accuracy(self.outputs(w, x), y, weight)
        return np.array([f for f, _ in found]), accuracy, np.stack([g for _, g in found])
