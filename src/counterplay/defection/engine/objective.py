"""What the engine trains: losses and gradients of a whole batch of parameter vectors at once.

Row ``b`` of the parameters meets row ``b`` of the data: agents and seeds are one leading axis, and
no Python loop runs over either. Source: spec 05 sections 2.1 and 3.3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.draws import Keys
from counterplay.defection.engine.arrays import Array, Backend


class Objective(ABC):
    """Losses ``F(w; data) = sum_j weight_j loss_j(w)`` of ``B`` parameter vectors and data sets.

    Subclasses set ``backend``, ``size`` (the number of parameters ``d``) and ``classes``.
    """

    backend: Backend
    size: int
    classes: int

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
