"""How much harm is tolerated, stated or calibrated on history with confidence.

The recipe "largest CUSUM seen in history" is exceeded in most futures that are statistically
identical to the history. Calibration bootstraps the history in blocks, moves it to the worst
plausible mean, and takes a quantile of the largest CUSUM over the horizon to come.
Source: docs/theory/26-people.md, "Budget from history".
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, THEORY, axes_or_new, figure_style
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    check_float_array,
    check_fraction,
    check_positive_int,
    check_real,
)
from counterplay.errors import AssumptionWarning, InvalidInputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SHORTEST = 30
_PATHS = 500
_DRAWN = 60  # paths that are kept for the picture


@checked
@dataclass(frozen=True)
class HarmBudget:
    """How much harm is tolerated: a rate per round, and bursts above it.

    Parameters
    ----------
    rate:
        Tolerated harm per round, in [0, 1].
    burst:
        On any interval a model may exceed the rate by this much in total before it is taken down.

    Examples
    --------
    >>> HarmBudget(rate=0.1, burst=20.0)
    HarmBudget(rate=0.1, burst=20.0)

    References
    ----------
    "Budget from history", Theorem 26.5, see docs/theory/26-people.md.
    """

    rate: float
    burst: float

    def __post_init__(self) -> None:
        check_fraction(self.rate, "rate")
        check_real(self.burst, "burst", low=0.0)

    @classmethod
    def calibrate(
        cls,
        history: ArrayLike,
        horizon: int,
        confidence: float = 0.95,
        rate: float | None = None,
        random_state: RandomState = None,
    ) -> CalibratedBudget:
        """Return the budget that an innocent model keeps with the confidence.

        Parameters
        ----------
        history:
            Harm per round in the past, in [0, 1]: (rounds,) or (rounds, models).
        horizon:
            Rounds to come.
        confidence:
            Probability with which a model whose future is like its history keeps the budget.
        rate:
            Tolerated rate; by default the largest plausible mean of a model.
        random_state:
            Seed of the bootstrap.

        Examples
        --------
        >>> history = np.random.default_rng(0).binomial(20, 0.05, size=200) / 20
        >>> budget = HarmBudget.calibrate(history, horizon=1000, random_state=0)
        >>> 0.05 < budget.rate < 0.08, budget.burst > 1
        (True, True)
        """
        harm = np.atleast_2d(check_float_array(history, "history").T).T
        if harm.ndim != 2 or ((harm < 0) | (harm > 1)).any():
            raise InvalidInputError("history must be harm per round in [0, 1], one column a model")
        if len(harm) < SHORTEST:
            raise InvalidInputError(
                f"{SHORTEST} rounds of history are the least for a calibration, got {len(harm)}"
            )
        if (np.ptp(harm, axis=0) < 1e-12).all():
            raise InvalidInputError(
                f"all {len(harm)} rounds of the history have harm {harm[0, 0]:g}: what never "
                "varied tells nothing about bursts; choose HarmBudget(rate, burst), or a longer "
                "history"
            )
        level = check_real(confidence, "confidence", low=0.0, high=1.0, open_low=True)
        if level >= 1.0:
            raise InvalidInputError("confidence must lie strictly between 0 and 1")
        rounds = check_positive_int(horizon, "horizon")
        return _calibrated(harm, rounds, level, rate, generator(random_state))


@checked(arrays=True)
@dataclass(frozen=True)
class CalibratedBudget(HarmBudget, Report):
    """A budget from history, with what it rests on.

    Examples
    --------
    >>> history = np.random.default_rng(0).binomial(20, 0.05, size=200) / 20
    >>> budget = HarmBudget.calibrate(history, horizon=1000, random_state=0)
    >>> bool(history.mean() < budget.rate < 2 * history.mean()), budget.burst > 0
    (True, True)
    """

    mean_up: float = 0.0
    """Largest plausible mean of a model."""
    block: float = 1.0
    """Mean length of the bootstrap's blocks."""
    n: int = 0
    """Rounds of history."""
    horizon: int = 0
    confidence: float = 0.95
    paths: FloatArray = field(default_factory=lambda: np.zeros((0, 0)), repr=False, compare=False)
    """Some bootstrap paths of the CUSUM."""

    def summary(self) -> str:
        """Return the budget and what it assumes."""
        return (
            f"rate {self.rate:.4g}, burst {self.burst:.4g} for {self.horizon} rounds; an innocent "
            f"model keeps it with about {100 * self.confidence:.4g} % if the future is like the "
            f"{self.n} rounds of history (largest plausible mean {self.mean_up:.4g}, blocks of "
            f"{self.block:.3g}); a take-down therefore says that it is not"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers as a table of one row."""
        import pandas as pd

        names = ("rate", "burst", "mean_up", "block", "n", "horizon", "confidence")
        return pd.DataFrame([{name: getattr(self, name) for name in names}])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw bootstrap paths of the CUSUM and the burst."""
        with figure_style():
            axes = axes_or_new(ax)
            for path in self.paths:
                axes.plot(path, color=PALETTE[0], alpha=0.15, lw=0.8)
            axes.axhline(self.burst, label=f"burst {self.burst:.3g}", **THEORY)
            axes.set_xlabel("round")
            axes.set_ylabel(f"harm above the rate {self.rate:.3g}")
            axes.legend()
        return axes


def _calibrated(
    harm: FloatArray, horizon: int, confidence: float, rate: float | None, rng: np.random.Generator
) -> CalibratedBudget:
    n, K = harm.shape
    alpha = 1.0 - confidence
    block = min(2.5 * n ** (1 / 3), n / 4)
    inflate = np.sqrt(n / (n - 2 * block))
    mean = harm.mean(axis=0)
    # all models share the blocks, so that what happens to all of them at once stays together
    means = np.stack([harm[_blocks(n, n, block, rng)].mean(axis=0) for _ in range(_PATHS)])
    mean_up = mean + inflate * (np.quantile(means, 1 - alpha / 2, axis=0) - mean)
    mean_up = np.clip(mean_up, 0.0, 1.0)
    allowed = float(mean_up.max()) if rate is None else check_fraction(rate, "rate")
    own = mean_up if rate is None else np.full(K, allowed)
    worst, kept = np.empty((_PATHS, K)), []
    for path in range(_PATHS):
        drawn = harm[_blocks(n, horizon, block, rng)]
        # moved to the worst plausible mean: centring at the estimated one fails too often
        excess = inflate * (drawn - mean) + mean_up - own
        sums = np.vstack([np.zeros(K), np.cumsum(excess, axis=0)])
        levels = sums - np.minimum.accumulate(sums, axis=0)
        worst[path] = levels.max(axis=0)
        if path < _DRAWN:
            kept.append(levels[:, int(mean_up.argmax())])
    burst = float(np.quantile(worst, 1 - alpha / 2, axis=0).max())
    if allowed < mean_up.max() - 1e-12:
        warnings.warn(
            f"the rate {allowed:.4g} is below what history allows for ({mean_up.max():.4g}); the "
            f"burst for {horizon} rounds becomes {burst:.4g}",
            AssumptionWarning,
            stacklevel=4,
        )
    return CalibratedBudget(
        rate=allowed, burst=burst, mean_up=float(mean_up.max()), block=float(block), n=n,
        horizon=horizon, confidence=confidence, paths=np.array(kept),
    )  # fmt: skip


def _blocks(n: int, length: int, mean: float, rng: np.random.Generator) -> FloatArray:
    """Rows of a stationary bootstrap: blocks of geometric length, wrapped around."""
    fresh = rng.random(length) < 1.0 / mean
    fresh[0] = True
    starts = rng.integers(n, size=length)
    at = np.maximum.accumulate(np.where(fresh, np.arange(length), 0))
    return np.asarray((starts[at] + np.arange(length) - at) % n)
