"""Learning curves of every party on every party's data, and the linear game they imply.

Train on growing samples of party j, score on party i: two numbers follow. How many own rows does i
need for its target, and how many own rows is one row of j worth? That is a linear game in
effective rows.
Source: "PAC games", "Planning for a consortium", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.contribution.empirical import EmpiricalGame
from counterplay.core.figures import PALETTE, axes_or_new
from counterplay.core.seeds import RandomState
from counterplay.core.validation import FloatArray, check_float_array
from counterplay.errors import InfeasibleError, InvalidInputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class LearningCurves:
    """Measured accuracies: ``accuracy[i, j, l]`` on party i after ``sizes[l]`` rows of party j."""

    sizes: FloatArray
    accuracy: FloatArray
    standard_error: FloatArray

    def monotone(self) -> FloatArray:
        """Return the curves with noise removed by isotonic regression: more rows never hurt."""
        from sklearn.isotonic import IsotonicRegression

        flat = self.accuracy.reshape(-1, self.sizes.size)
        fitted = [IsotonicRegression().fit_transform(self.sizes, row) for row in flat]
        return np.array(fitted).reshape(self.accuracy.shape)

    def rows_needed(self, mu: ArrayLike) -> FloatArray:
        """Return ``(k, k)``: rows of j that bring i to its target; infinite if no size does."""
        k = self.accuracy.shape[0]
        targets = np.broadcast_to(check_float_array(mu, "mu"), (k,))
        smooth, log_size = self.monotone(), np.log(self.sizes)
        needed = np.full((k, k), np.inf)
        for i in range(k):
            for j in range(k):
                curve = smooth[i, j]
                if curve[-1] < targets[i]:
                    continue
                first = int(np.argmax(curve >= targets[i]))
                if first == 0:
                    needed[i, j] = self.sizes[0]
                    continue
                rise = (targets[i] - curve[first - 1]) / (curve[first] - curve[first - 1])
                step = log_size[first] - log_size[first - 1]
                needed[i, j] = np.exp(log_size[first - 1] + rise * step)
        return needed

    def exchange_rates(self, mu: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return ``(W, needed)``: own rows one row of j is worth to i, and own rows i needs."""
        needed = self.rows_needed(mu)
        own = np.diagonal(needed).copy()
        for i in np.flatnonzero(~np.isfinite(own)):
            raise InfeasibleError(
                f"party {i} cannot reach its target alone: its own curve ends at "
                f"{self.monotone()[i, i, -1]:.3g} with {int(self.sizes[-1])} rows; lower the target"
            )
        return own[:, None] / needed, own

    def to_frame(self) -> pd.DataFrame:
        """Return one row per (party scored, party trained on, size)."""
        import pandas as pd

        k = self.accuracy.shape[0]
        scored, trained, size = np.meshgrid(range(k), range(k), self.sizes, indexing="ij")
        return pd.DataFrame(
            {
                "party": scored.ravel(),
                "trained_on": trained.ravel(),
                "rows": size.ravel().astype(int),
                "accuracy": self.accuracy.ravel(),
                "standard_error": self.standard_error.ravel(),
            }
        )

    def plot(self, ax: Axes | None = None, party: int = 0) -> Axes:
        """Draw how one party learns from everybody's data."""
        axes = axes_or_new(ax)
        for j in range(self.accuracy.shape[1]):
            mean, error = self.accuracy[party, j], 1.96 * self.standard_error[party, j]
            label = "own data" if j == party else f"data of party {j}"
            axes.plot(self.sizes, mean, marker=".", color=PALETTE[j % 7], label=label)
            axes.fill_between(
                self.sizes, mean - error, mean + error, color=PALETTE[j % 7], alpha=0.15
            )
        axes.set(xscale="log", xlabel="training rows", ylabel=f"accuracy of party {party}")
        axes.legend()
        return axes


def measure_learning_curves(
    datasets: Sequence[tuple[ArrayLike, ArrayLike]],
    estimator: Any,
    *,
    sizes: Sequence[int] | None = None,
    n_repeats: int = 8,
    test_size: float = 0.3,
    random_state: RandomState = 0,
) -> LearningCurves:
    """Measure how well each party is served by growing samples of each party's data.

    Parameters
    ----------
    datasets:
        One ``(X, y)`` per party.
    estimator:
        Any scikit-learn classifier.
    sizes:
        Training sizes; by default eight from 5 rows to the smallest party's training rows.
    n_repeats, test_size, random_state:
        See :class:`EmpiricalGame`.

    Notes
    -----
    ``k`` times ``len(sizes)`` times ``n_repeats`` fits; each fit is scored on every party.

    References
    ----------
    The exchange rate is the marginal rate of substitution at the target.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_digits(return_X_y=True)
    >>> parts = [(X[i::3], y[i::3]) for i in range(3)]
    >>> curves = measure_learning_curves(parts, GaussianNB(), sizes=[50, 200, 400], n_repeats=2)
    >>> bool((curves.rows_needed(0.6) < 400).all())
    True
    """
    game = EmpiricalGame(
        datasets,
        estimator,
        0.0,
        n_repeats=n_repeats,
        test_size=test_size,
        random_state=random_state,
    )
    rows = int(game.cap.min())
    if sizes is None:
        grid = np.unique(np.geomspace(min(5, rows), rows, 8).round())
    else:
        grid = np.unique(check_float_array(sizes, "sizes", ndim=1).round())
    if grid[0] < 1 or grid[-1] > rows:
        raise InvalidInputError(f"sizes must be between 1 and {rows}, the smallest training part")
    scores = np.empty((game.k, game.k, grid.size))
    errors = np.empty_like(scores)
    for j in range(game.k):
        for level, size in enumerate(grid):
            theta = np.zeros(game.k)
            theta[j] = size
            sample = game.scores(theta)
            scores[:, j, level] = sample.mean(axis=0)
            errors[:, j, level] = sample.std(axis=0, ddof=1 if n_repeats > 1 else 0)
    return LearningCurves(grid, scores, errors / np.sqrt(n_repeats))
