"""The bounded-burst assumption as something you can check and calibrate on your own data.

An expert's secondary loss may exceed the rate ``c`` by at most a budget on every interval. The
largest excess of an interval that ends in round ``t`` is Page's CUSUM statistic, so everything here
costs one pass over the data.
Source: Assumptions 9.2 and 9.2'; docs/theory/09-tradeoff.md, "Proposition 9.A: bursts in one pass".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_float_array,
    check_fraction,
    check_real,
)
from counterplay.errors import InvalidInputError
from counterplay.tradeoff.metrics import stints
from counterplay.tradeoff.model import (
    check_loss_matrix,
    check_path,
    exceeds,
    expert_names,
    limit_of,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@checked
def cusum(l2: ArrayLike, c: float) -> FloatArray:
    """Return the largest excess over the rate ``c`` of any interval ending in each round.

    Parameters
    ----------
    l2:
        Secondary losses, shape ``(T, K)``.
    c:
        Tolerated secondary loss per round.

    Examples
    --------
    >>> cusum([[0.0], [1.0], [1.0], [0.0]], c=0.5).ravel().tolist()
    [-0.5, 0.5, 1.0, 0.5]

    References
    ----------
    E. Page, Continuous inspection schemes, 1954.
    """
    losses = check_loss_matrix(l2, "secondary")
    sums = np.zeros((len(losses) + 1, losses.shape[1]))
    np.cumsum(losses - check_fraction(c, "c"), axis=0, out=sums[1:])
    result: FloatArray = sums[1:] - np.minimum.accumulate(sums, axis=0)[:-1]
    return result


@checked(arrays=True)
@dataclass(frozen=True)
class BurstCheck(Report):
    """Whether each expert keeps the burst budget, with its worst interval.

    Examples
    --------
    >>> import numpy as np
    >>> l2 = np.zeros((100, 2))
    >>> l2[40:60, 1] = 1.0
    >>> print(burst_check(l2, c=0.5, threshold=5.0).summary())
    1 of 2 experts exceed the budget of 5 above rate 0.5
    expert 1: 10 above the rate in rounds 40..59; a budget of 10 would have been enough
    """

    c: float
    threshold: float
    ok: BoolArray = field(repr=False)
    """Per expert: does every interval keep the budget?"""
    excess: FloatArray = field(repr=False)
    """Per expert: the largest excess over the rate of any interval."""
    start: IntArray = field(repr=False)
    """First round of the worst interval."""
    end: IntArray = field(repr=False)
    """Last round of the worst interval."""
    names: tuple[str, ...] | None = None
    """Names of the experts, if the losses came in a frame."""

    def __bool__(self) -> bool:
        return bool(self.ok.all())

    def summary(self) -> str:
        """Return one line per violating expert, and what budget would have been enough."""
        bad = np.flatnonzero(~self.ok)
        lines = [
            f"{bad.size} of {self.ok.size} experts exceed the budget of {self.threshold:.4g} "
            f"above rate {self.c:.4g}"
        ]
        lines += [
            f"expert {h if self.names is None else self.names[h]}: {self.excess[h]:.4g} above the "
            f"rate in rounds {self.start[h]}..{self.end[h]}; a budget of {self.excess[h]:.4g} "
            f"would have been enough"
            for h in bad
        ]
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per expert."""
        import pandas as pd

        columns = {"ok": self.ok, "excess": self.excess, "start": self.start, "end": self.end}
        return pd.DataFrame(columns, index=self.names).rename_axis("expert")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw every expert's largest excess with the budget; returns the axes."""
        from counterplay.core.figures import PALETTE, THEORY, axes_or_new, figure_style

        with figure_style():
            ax = axes_or_new(ax)
            colours = [PALETTE[0] if ok else PALETTE[1] for ok in self.ok]
            ax.bar(np.arange(self.ok.size), np.maximum(self.excess, 0), color=colours)
            ax.axhline(self.threshold, label="burst budget", **THEORY)
            ax.set_xlabel("expert")
            ax.set_ylabel(f"largest excess over rate {self.c:.3g} (loss units)")
            ax.legend()
        return ax


@checked
def burst_check(l2: ArrayLike, c: float, threshold: float) -> BurstCheck:
    """Check that no interval exceeds the rate ``c`` by more than a budget.

    Parameters
    ----------
    l2:
        Secondary losses, shape ``(T, K)``; the columns of a frame name the experts.
    c:
        Tolerated secondary loss per round.
    threshold:
        The burst budget, for example ``burst_threshold(rounds, delta, alpha)``.

    Examples
    --------
    >>> import numpy as np
    >>> burst_check(np.ones((10, 1)), c=0.5, threshold=4.0).excess.tolist()
    [5.0]

    References
    ----------
    "CUSUM and the watchdog", Proposition 9.A, see docs/theory/09-tradeoff.md.
    """
    losses = check_loss_matrix(l2, "secondary")
    rate, budget = check_fraction(c, "c"), check_real(threshold, "threshold", low=0.0)
    excess, start, end = worst_intervals(losses, rate)
    within = ~exceeds(excess, budget)
    return BurstCheck(rate, budget, within, excess, start, end, expert_names(l2))


@checked
def required_budget(l2: ArrayLike, c: float) -> pd.Series:
    """Return, per expert, the smallest burst budget it would have kept.

    Nobody knows the budget in advance: run this on history, and pass for example the
    0.8-quantile over the experts as the threshold of a ``CusumOracle``.

    Parameters
    ----------
    l2:
        Secondary losses, shape ``(T, K)``.
    c:
        Tolerated secondary loss per round.

    Returns
    -------
    pandas.Series
        One budget per expert; negative when the expert is always below the rate.

    Examples
    --------
    >>> import numpy as np
    >>> l2 = np.zeros((100, 2))
    >>> l2[40:60, 1] = 1.0
    >>> required_budget(l2, c=0.5).tolist()
    [-0.5, 10.0]

    References
    ----------
    "CUSUM and the watchdog", Proposition 9.A, see docs/theory/09-tradeoff.md.
    """
    import pandas as pd

    excess, _, _ = worst_intervals(check_loss_matrix(l2, "secondary"), check_fraction(c, "c"))
    return pd.Series(excess, expert_names(l2), name="budget").rename_axis("expert")


@checked
def required_rate(l2: ArrayLike, budget: float) -> pd.Series:
    """Return, per expert, the smallest rate ``c`` at which it would have kept the budget.

    The largest excess is a maximum of linear functions of ``c``, so Newton's method from the left
    reaches the exact root in a few passes.

    Parameters
    ----------
    l2:
        Secondary losses, shape ``(T, K)``.
    budget:
        Burst budget.

    Examples
    --------
    >>> import numpy as np
    >>> l2 = np.zeros((100, 2))
    >>> l2[40:60, 1] = 1.0
    >>> required_rate(l2, budget=5.0).tolist()
    [0.0, 0.75]

    References
    ----------
    "CUSUM and the watchdog", Proposition 9.A, see docs/theory/09-tradeoff.md.
    """
    import pandas as pd

    losses = check_loss_matrix(l2, "secondary")
    allowed = check_real(budget, "budget", low=0.0)
    rate = np.zeros(losses.shape[1])
    open_ = np.arange(losses.shape[1])
    while open_.size:
        columns = np.ascontiguousarray(losses[:, open_])
        excess, start, end = _worst_intervals(columns, rate[open_])
        length = end - start + 1
        better = rate[open_] + (excess - allowed) / length
        moved = (excess > limit_of(allowed)) & (better > rate[open_])
        rate[open_[moved]] = better[moved]
        open_ = open_[moved]
    rates = np.minimum(rate, 1.0)
    return pd.Series(rates, expert_names(l2), name="rate").rename_axis("expert")


@checked
def check_stint_budget(l2_played: ArrayLike, path: ArrayLike, c: float, threshold: float) -> bool:
    """Check the relaxed assumption: every stint on one expert keeps the budget.

    Parameters
    ----------
    l2_played:
        Secondary loss of the played expert in every round, shape ``(T,)``.
    path:
        Expert played in every round, shape ``(T,)``.
    c:
        Tolerated secondary loss per round.
    threshold:
        Burst budget of one stint.

    Examples
    --------
    >>> check_stint_budget([1.0, 1.0, 1.0, 1.0], [0, 0, 1, 1], c=0.5, threshold=1.0)
    True
    >>> check_stint_budget([1.0, 1.0, 1.0, 1.0], [0, 0, 0, 1], c=0.5, threshold=1.0)
    False
    """
    suffered = check_float_array(l2_played, "l2_played", ndim=1)
    actions = check_path(path)
    if actions.shape != suffered.shape:
        raise InvalidInputError(
            f"l2_played and path must have the same length, got {suffered.size} and {actions.size}"
        )
    starts, _ = stints(actions)
    excess = np.add.reduceat(suffered - check_fraction(c, "c"), starts)
    return not bool(exceeds(excess, check_real(threshold, "threshold", low=0.0)).any())


def worst_intervals(l2: FloatArray, c: float) -> tuple[FloatArray, IntArray, IntArray]:
    """Return excess, first and last round of each expert's worst interval."""
    excess, start, end = _worst_intervals(l2, np.full(l2.shape[1], c))
    return excess, start, end


@njit(cache=True)
def _worst_intervals(l2: FloatArray, c: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
    rounds, K = l2.shape
    level, since = np.zeros(K), np.zeros(K, dtype=np.int64)
    worst = np.full(K, -np.inf)
    start, end = np.zeros(K, dtype=np.int64), np.zeros(K, dtype=np.int64)
    for t in range(rounds):
        for h in range(K):
            if level[h] <= 0.0:  # the best interval that ends here starts here
                level[h] = 0.0
                since[h] = t
            level[h] += l2[t, h] - c[h]
            if level[h] > worst[h]:  # the first interval with the largest excess
                worst[h], start[h], end[h] = level[h], since[h], t
    return worst, start, end
