"""The attackable region of a rule on the line, drawn over the range of the feature.

For learners with an exact certificate (intervals, thresholds, unions of intervals) nothing is
simulated: every point of a fine grid is either provably safe or can be flipped. Source:
docs/theory/10-poisoning.md, "Intervals"; Propositions 10.C and 10.D.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.validation import BoolArray, FloatArray, check_int, check_real
from counterplay.errors import InvalidInputError
from counterplay.poisoning.model import LabelledSet, Labels, Target, column, fresh

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@checked(arrays=True)
@dataclass(frozen=True)
class LineRegion(Report):
    """Where a learner on the line is right, and where clean rows could flip it.

    Attributes
    ----------
    points:
        The grid.
    truth:
        The target's labels.
    predicted:
        The learner's labels.
    attackable:
        Whether the certificate leaves the point open (exact for the interval learners).
    rows:
        The training points.
    labels:
        Their labels.
    """

    points: FloatArray
    truth: Labels
    predicted: Labels
    attackable: BoolArray
    rows: FloatArray
    labels: Labels

    @property
    def rate(self) -> float:
        """Share of the range that can be flipped."""
        return float(self.attackable.mean())

    def pieces(self) -> list[tuple[float, float]]:
        """The attackable stretches of the range, from left to right."""
        change = np.diff(np.concatenate([[0], self.attackable.astype(np.int8), [0]]))
        starts, stops = np.flatnonzero(change == 1), np.flatnonzero(change == -1) - 1
        return [(float(self.points[a]), float(self.points[b])) for a, b in zip(starts, stops)]

    def summary(self) -> str:
        """One sentence with the share and the stretches."""
        parts = ", ".join(f"{a:.3g} to {b:.3g}" for a, b in self.pieces()[:8]) or "nowhere"
        error = float((self.truth != self.predicted).mean())
        return f"error {error:.3f}, attackable {self.rate:.3f} of the range: {parts}"

    def to_frame(self) -> pd.DataFrame:
        """One row per grid point."""
        import pandas as pd

        return pd.DataFrame(
            {
                "x": self.points,
                "truth": self.truth,
                "predicted": self.predicted,
                "attackable": self.attackable,
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw target, answer, training points and the attackable stretches."""
        from counterplay.core.figures import PALETTE, axes_or_new

        axes = axes_or_new(ax)
        for i, (low, high) in enumerate(self.pieces()):
            label = "attackable" if i == 0 else None
            axes.axvspan(low, high, color=PALETTE[5], alpha=0.4, linewidth=0, label=label)
        axes.plot(self.points, self.truth, color="black", label="target")
        axes.plot(self.points, 0.04 + self.predicted, "--", color=PALETTE[0], label="learned")
        axes.plot(self.rows, self.labels, "o", color=PALETTE[1], label="training rows")
        axes.set(xlabel="feature", ylabel="label", ylim=(-0.3, 1.6), yticks=[0, 1])
        axes.legend(fontsize=8, ncols=2, loc="upper left")
        return axes


@checked
def line_region(
    learner: Any,
    h_star: Target,
    S: LabelledSet,
    *,
    low: float = 0.0,
    high: float = 1.0,
    n_points: int = 2001,
) -> LineRegion:
    """Compute where a learner on the line can be flipped by clean rows, without simulation.

    Parameters
    ----------
    learner:
        A learner with a ``certified`` method, such as :class:`MinClosedInterval`,
        :class:`MaxOpenInterval`, :class:`UnionOfIntervals` or ``ClosureLearner("intervals")``.
    h_star:
        The target.
    S:
        Training rows.
    low:
        First point of the grid.
    high:
        Last point of the grid.
    n_points:
        Size of the grid.

    Examples
    --------
    >>> from counterplay.poisoning import IntervalTarget, UnionOfIntervals
    >>> target = IntervalTarget([0.1, 0.3, 0.6, 0.9], closed=False)
    >>> S = LabelledSet([0.15, 0.25, 0.65, 0.8], [1, 1, 1, 1])
    >>> print(line_region(UnionOfIntervals(), target, S).summary())
    error 0.449, attackable 0.548 of the range: 0.101 to 0.149, 0.251 to 0.649, 0.8 to 0.899

    References
    ----------
    Theorem 10.12, Proposition 10.D, see docs/theory/10-poisoning.md.
    """
    left = check_real(low, "low")
    right = check_real(high, "high", low=left, open_low=True)
    grid = np.linspace(left, right, check_int(n_points, "n_points", low=1, high=1_000_000))
    fitted = fresh(learner).fit(S.X, S.y)
    if not hasattr(fitted, "certified"):
        raise InvalidInputError(f"{type(fitted).__name__} has no certificate; see attackable_rate")
    points = grid[:, None]
    return LineRegion(
        points=grid,
        truth=np.asarray(h_star(points)).astype(np.uint8),
        predicted=np.asarray(fitted.predict(points)).astype(np.uint8),
        attackable=~np.asarray(fitted.certified(h_star, S, points), dtype=np.bool_),
        rows=column(S.X),
        labels=np.asarray(S.y),
    )
