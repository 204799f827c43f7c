"""Does a sampled run fall as fast as a full one? Compared at every full round, else undone.

Source: Theorem 23.B in docs/theory/23-training.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.federated.cuts import Cut, Cuts


@dataclass(eq=False)
class Anchor:
    """The last full round: the model, the full step there, the mean loss and all cuts.

    ``void`` is set when a vector was shortened since: the direction was then no mean gradient.
    """

    w: FloatArray
    step: FloatArray
    mean_loss: float
    cuts: dict[int, Cut]
    void: bool = False
    rounds: int = 0

    @classmethod
    def of(cls, w: FloatArray, step: FloatArray, cuts: Cuts) -> Anchor:
        """Anchor a run at a model at which everybody has answered."""
        return cls(w, step, mean_loss(cuts), cuts.copy())

    def holds(self, cuts: Cuts, step_size: float) -> bool:
        """Whether the mean loss has fallen by what the full step at the anchor promised.

        Where the parties are not the same any more, or the period was one step, there is nothing to
        compare.
        """
        if self.void or self.rounds <= 1 or set(cuts.nodes) != set(self.cuts):
            return True
        promised = float(self.step @ self.step) / (2.0 * step_size)
        return mean_loss(cuts) <= self.mean_loss - promised

    def back(self, cuts: Cuts) -> FloatArray:
        """Return the model after the full step at the anchor, and go back to its cuts.

        Newer cuts are true as well, but may forbid standing still there.
        """
        cuts.restore(self.cuts)
        return self.w + self.step


def mean_loss(cuts: Cuts) -> float:
    """Mean of the latest losses."""
    return float(np.mean([cuts[node].answer.loss for node in cuts.nodes]))
