"""A weighted sample, and what to do when several hypotheses are equally good on it.

Source: docs/theory/11-invariance.md, "Baselines".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import BoolArray, FloatArray
from counterplay.errors import InvalidInputError

Tie = Literal["first", "random", "adversarial"]


@dataclass(frozen=True)
class WeightedSample:
    """Labelled points with weights.

    Examples
    --------
    >>> sample = WeightedSample(np.array([3, 3]), np.array([0, 1]), np.array([0.5, 2.0]))
    >>> sample.errors(np.array([[False, False], [True, True]]))
    array([2. , 0.5])
    """

    points: NDArray[Any]
    labels: NDArray[Any]
    weights: FloatArray

    def errors(self, rows: BoolArray) -> FloatArray:
        """Weight of the points that each row (labels of the points) gets wrong."""
        return np.asarray((rows != self.labels.astype(np.bool_)) @ self.weights)

    def signed_mass(self, n_cells: int, cell_size: int = 1) -> FloatArray:
        """Weight of the ones less weight of the zeros, per cell of ``cell_size`` pool points."""
        mass = np.zeros(n_cells)
        np.add.at(mass, self.points // cell_size, self.weights * (2.0 * self.labels - 1.0))
        return mass


@dataclass(frozen=True)
class TieRule:
    """Which of several best hypotheses to take.

    "first", "random", or "adversarial": the one with the largest error under ``truth``.

    Examples
    --------
    >>> rule = TieRule("first", np.random.default_rng(0))
    >>> rule.pick(np.array([2.0, 1.0, 1.0]), lambda points: np.zeros((3, 0), dtype=bool))
    1
    """

    name: Tie
    rng: np.random.Generator
    truth: WeightedSample | None = None

    def pick(self, errors: FloatArray, rows: Callable[[NDArray[Any]], BoolArray]) -> int:
        """Number of the hypothesis; ``rows`` labels points by every hypothesis."""
        best = np.flatnonzero(errors <= errors.min() + 1e-12)
        if self.name == "random":
            return int(self.rng.choice(best))
        if self.name == "adversarial":
            truth = self.known_truth()
            return int(best[np.argmax(truth.errors(rows(truth.points)[best]))])
        return int(best[0])

    def majority(
        self, sample: WeightedSample, n_cells: int, cell_size: int = 1
    ) -> NDArray[np.int8]:
        """Weighted majority label of every cell of ``cell_size`` pool points.

        A cell without majority gets 0, a coin toss, or the label with the larger true error.
        """
        balance = sample.signed_mass(n_cells, cell_size)
        free = np.abs(balance) <= 1e-12
        row = ((balance > 0) & ~free).astype(np.int8)
        if self.name == "random":
            row[free] = self.rng.integers(2, size=int(free.sum()))
        elif self.name == "adversarial":
            row[free] = self.known_truth().signed_mass(n_cells, cell_size)[free] < 0
        return row

    def known_truth(self) -> WeightedSample:
        """The data distribution, or InvalidInputError."""
        if self.truth is None:
            raise InvalidInputError('tie="adversarial" needs truth, the data distribution')
        return self.truth
