"""The curve behind the automatic choice of the number of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.report import Report
from counterplay.core.validation import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class PartitionCurve(Report):
    """Accuracy and certified accuracy for several numbers of blocks.

    Examples
    --------
    >>> PartitionCurve(np.array([5, 25]), np.array([0.9, 0.8]), np.array([0.1, 0.6]), 3).best
    25
    """

    n_partitions: IntArray
    accuracy: FloatArray
    certified: FloatArray
    budget: int

    def __post_init__(self) -> None:
        for name in ("n_partitions", "accuracy", "certified"):
            array = np.array(getattr(self, name))
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def best(self) -> int:
        """Number of blocks with the best certified accuracy; ties: accuracy, then fewer."""
        order = np.lexsort((self.n_partitions, -self.accuracy, -self.certified))
        return int(self.n_partitions[order[0]])

    def summary(self) -> str:
        """One sentence with the choice."""
        i = int(np.flatnonzero(self.n_partitions == self.best)[0])
        return (
            f"{self.best} blocks: certified accuracy {self.certified[i]:.3f} against "
            f"{self.budget} planted rows, accuracy {self.accuracy[i]:.3f}"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per number of blocks."""
        import pandas as pd

        return pd.DataFrame(
            {
                "n_partitions": self.n_partitions,
                "accuracy": self.accuracy,
                "certified": self.certified,
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw both curves over the number of blocks."""
        from counterplay.core.figures import axes_or_new

        axes = axes_or_new(ax)
        axes.plot(self.n_partitions, self.accuracy, "o-", label="accuracy")
        name = f"certified against {self.budget} rows"
        axes.plot(self.n_partitions, self.certified, "s-", label=name)
        axes.set_xlabel("number of blocks")
        axes.set_ylabel("fraction of held-out rows")
        axes.legend()
        return axes
