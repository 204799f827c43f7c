"""Your own loss in NumPy as an objective: a function of parameters, rows and labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from counterplay.core.draws import Keys
from counterplay.core.validation import FloatArray, check_positive_int
from counterplay.defection.engine.arrays import Array, NumpyArrays
from counterplay.defection.engine.objective import Objective
from counterplay.errors import InvalidInputError

LossAndGradient = Callable[[FloatArray, Array, Array, FloatArray], tuple[float, FloatArray]]
"""``(w, rows, labels, weights) -> (loss, gradient)``; weights sum to one, 0 marks padding."""
Scores = Callable[[FloatArray, Array], FloatArray]
"""``(w, rows) -> scores (n, C)``."""


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
