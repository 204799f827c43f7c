"""How many blocks? Successive halving over fitted blocks, then exact certificates for two.

A few blocks of each candidate already show the share of votes that the winner will have; the better
half of the candidates gets more blocks, the last two all of them.
Source: docs/theory/21-sources.md, "The number of blocks".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.progress import progress_bar
from counterplay.core.report import Report
from counterplay.core.validation import FloatArray, IntArray, check_int, check_positive_int
from counterplay.errors import InvalidInputError
from counterplay.poisoning.partition_trial import Goal, Trial

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_FACTORS = (1, 1.7, 2.5, 3.5, 5, 7, 10, 15)
_MOST_CANDIDATES, _MOST_BLOCKS = 100, 100_000


@checked
def choose_n_partitions(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    sources: Any = None,
    budget: int = 3,
    metric: str | tuple[str, Any] = "accuracy",
    candidates: Sequence[int] | None = None,
    rungs: Sequence[int] = (8, 24),
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: int | None = None,
) -> PartitionCurve:
    """Find the number of blocks with the best certified accuracy, or other metric, at a budget.

    A quarter of the rows (of the sources, if given), selected by hash, is held out. The rule looks
    at the data: run it on data you trust and fix its answer. It fits a few blocks of every
    candidate and all blocks of two, usually less than half of what trying all of them costs.

    Parameters
    ----------
    estimator:
        The pipeline of a block; None for one nearest neighbour.
    X:
        Rows in any container.
    y:
        Their labels.
    sources:
        Who sent each row; then the budget counts sources.
    budget:
        Rows or sources that an attacker may control.
    metric:
        ``"accuracy"``, or ``"precision"``, ``"recall"``, ``"f1"`` as a mean over the classes; a
        pair such as ``("f1", "spam")`` for one class.
    candidates:
        Numbers of blocks to compare; default: up to eight with at least 20 rows a block.
    rungs:
        Blocks of each candidate that are fitted before the better half is kept.
    n_jobs:
        Workers of joblib.
    progress:
        Show a bar.
    random_state:
        Seed of the held-out quarter; an integer, None means 0.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> curve = choose_n_partitions(None, X[:600], y[:600], budget=2, candidates=(5, 15, 45))
    >>> curve.best in (5, 15, 45)
    True

    References
    ----------
    "The number of blocks", see docs/theory/21-sources.md.
    """
    t = check_int(budget, "budget", low=0, high=10**6)
    trial = Trial.of(estimator, X, y, sources, n_jobs, random_state)
    goal = Goal.of(metric, trial.classes)
    tried = _candidates(candidates, int(trial.train.sum()), t)
    steps = [check_positive_int(rung, "rungs") for rung in rungs]
    estimates: list[tuple[int, int, float]] = []
    left = tried
    with progress_bar(progress) as bar:
        task = bar.add_task("candidates", total=len(tried) * len(steps) + 2)
        for rung in steps:
            if len(left) <= 2:
                break
            values = []
            for count in left:
                values.append(trial.estimate(count, rung, t, goal))
                bar.advance(task)
            estimates += [(count, rung, value) for count, value in zip(left, values)]
            order = np.argsort(-np.array(values), kind="stable")[: max(2, (len(left) + 1) // 2)]
            left = sorted(left[i] for i in order)
        found = []
        for count in left:
            found.append(trial.exact(count, t, goal))
            bar.advance(task)
    return PartitionCurve(
        np.array(left), np.array([own for own, _ in found]), np.array([kept for _, kept in found]),
        t, "rows" if sources is None else "sources", tuple(estimates), goal.name,
        trial.ensembles, len(tried),
    )  # fmt: skip


def _candidates(given: Sequence[int] | None, rows: int, budget: int) -> list[int]:
    if given is not None:
        found = [check_int(count, "candidates", low=1, high=_MOST_BLOCKS) for count in given]
        if not 0 < len(found) <= _MOST_CANDIDATES:
            raise InvalidInputError(f"candidates must be 1 to {_MOST_CANDIDATES} numbers of blocks")
        return sorted(set(found))
    least = 2 * budget + 1
    sizes = {int(least * factor) | 1 for factor in _FACTORS}
    fitting = sorted(size for size in sizes if size <= rows // 20)
    return fitting or [min(least, _MOST_BLOCKS)]


@checked
@dataclass(frozen=True)
class PartitionCurve(Report):
    """Accuracy and certified accuracy for the numbers of blocks that were fitted in full.

    Parameters
    ----------
    n_partitions
        Numbers of blocks with all blocks fitted.
    accuracy
        Accuracy on the held-out rows.
    certified
        Certified accuracy at the budget.
    budget
        Rows or sources.
    unit
        What the budget counts.
    estimated
        Number of blocks, blocks fitted, and estimated certified accuracy of every candidate tried
        in part: estimates, not certificates.
    metric
        What ``certified`` is the certified value of.
    ensembles_fitted
        What was fitted, in ensembles: half of the blocks of a candidate are half an ensemble.
    n_candidates
        Candidates compared, which is what fitting all of them would take.

    Examples
    --------
    >>> PartitionCurve(np.array([5, 25]), np.array([0.9, 0.8]), np.array([0.1, 0.6]), 3).best
    25
    """

    n_partitions: IntArray
    accuracy: FloatArray
    certified: FloatArray
    budget: int
    unit: str = "rows"
    estimated: tuple[tuple[int, int, float], ...] = ()
    metric: str = "accuracy"
    ensembles_fitted: float = 0.0
    n_candidates: int = 0

    def __post_init__(self) -> None:
        sizes = set()
        for name in ("n_partitions", "accuracy", "certified"):
            array = np.array(getattr(self, name))
            if array.ndim != 1 or not array.size or array.dtype.kind not in "iuf":
                raise InvalidInputError(f"{name} must be a list of numbers, one per candidate")
            if not np.isfinite(array).all():
                raise InvalidInputError(f"{name} must be finite")
            sizes.add(array.size)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if len(sizes) > 1:
            raise InvalidInputError("n_partitions, accuracy and certified must have one length")

    @property
    def best(self) -> int:
        """Number of blocks with the best certified metric; ties: accuracy, then fewer."""
        order = np.lexsort((self.n_partitions, -self.accuracy, -self.certified))
        return int(self.n_partitions[order[0]])

    def summary(self) -> str:
        """The choice, and what it rests on."""
        i = int(np.flatnonzero(self.n_partitions == self.best)[0])
        return (
            f"{self.best} blocks: certified {self.metric} {self.certified[i]:.3f} against "
            f"{self.budget} planted {self.unit}, accuracy {self.accuracy[i]:.3f}; chosen on these "
            "rows, fix n_partitions on data you trust"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per number of blocks that was fitted in full."""
        import pandas as pd

        return pd.DataFrame(
            {
                "n_partitions": self.n_partitions,
                "accuracy": self.accuracy,
                "certified": self.certified,
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw both curves, and the estimates as open circles."""
        from counterplay.core.figures import axes_or_new

        axes = axes_or_new(ax)
        axes.plot(self.n_partitions, self.accuracy, marker="o", label="accuracy")
        axes.plot(
            self.n_partitions, self.certified, marker="o",
            label=f"certified {self.metric} against {self.budget} {self.unit}",
        )  # fmt: skip
        if self.estimated:
            counts, _, values = zip(*self.estimated)
            axes.scatter(counts, values, facecolors="none", edgecolors="grey", label="estimated")
        axes.set_xlabel("blocks")
        axes.set_ylabel("share of held-out rows")
        axes.legend()
        return axes
