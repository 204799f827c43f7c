"""What a game of two losses gives: the experts played, all regrets, what a person reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.online.chain import Int32Array
from counterplay.core.transcript import Transcript
from counterplay.core.validation import BoolArray, FloatArray
from counterplay.errors import InvalidInputError
from counterplay.tradeoff.metrics import count_switches, sleeping_sums
from counterplay.tradeoff.oracle import OracleRun
from counterplay.tradeoff.plan import Plan

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from counterplay.core.stats import Interval


@checked(arrays=True)
@dataclass(frozen=True, kw_only=True, repr=False)
class LossTranscript(Transcript):
    """A complete play and its regrets; the rows are those of the first replicate.

    Expectations are exact whenever the secondary losses are fixed in advance (``exact``);
    otherwise they are averages over the drawn paths. Regrets are clipped at 1 as in the definition;
    ``clip=False`` is for plots and fits.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.tradeoff import LossStream, play
    >>> from counterplay.tradeoff import EpochLearner
    >>> l1, l2 = np.random.default_rng(0).random((400, 3)), np.full((400, 3), 0.1)
    >>> learner = EpochLearner(horizon=400, K=3, alpha=0.5, random_state=0)
    >>> result = play(learner, LossStream(l1, l2, c=0.1), fast=True)
    >>> result.exact, result.secondary_regret(), int(result.switches) <= 19
    (True, 1.0, True)
    """

    l1: FloatArray
    l2: FloatArray | None
    """Secondary losses of all experts; None when they react to the play."""
    paths: Int32Array
    """Experts played, shape ``(replicates, T)``."""
    plan: Plan | None = None
    """The exact law of the play; None when it was played round by round."""
    activity: OracleRun | None = None
    suffered: FloatArray | None = None
    """Secondary loss along every path, when it was not computed from the law."""
    c: float | None = None
    threshold: float | None = None
    guarantees: Mapping[str, float] = field(default_factory=dict)
    """Proven bounds by name."""

    def __repr__(self) -> str:
        T, K = self.l1.shape
        return f"LossTranscript({self.meta.get('learner', 'a learner')}, {T} rounds, {K} experts)"

    @property
    def exact(self) -> bool:
        """Whether the regrets are exact expectations."""
        return self.plan is not None and self.suffered is None

    @property
    def path(self) -> NDArray[np.int32]:
        """The experts played: shape ``(T,)`` for one replicate, else ``(replicates, T)``."""
        return self.paths[0] if len(self.paths) == 1 else self.paths

    @cached_property
    def P(self) -> FloatArray:
        """Probability of every expert in every round, stand-ins included, shape ``(T, K)``."""
        if self.plan is None:
            raise InvalidInputError("a run against reacting losses has no marginals, only a path")
        return self.plan.round_marginals()

    @property
    def active(self) -> BoolArray:
        """Which experts were active in every round, shape ``(T, K)``."""
        return np.ones(self.l1.shape, dtype=bool) if self.activity is None else self.activity.active

    @property
    def f_history(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Stand-in maps with the round from which each is valid."""
        if self.plan is None:
            return ()
        rows = zip(self.plan.map_starts.tolist(), self.plan.maps.tolist())
        return tuple((start, tuple(standins)) for start, standins in rows)

    @property
    def switches(self) -> NDArray[np.int64] | int:
        """Number of changes of the played expert: a number, or one per replicate."""
        counts: NDArray[np.int64] | int = count_switches(self.path)
        return counts

    @property
    def expected_switches(self) -> float | None:
        """Exact expected number of changes of the learner's own choice, where known."""
        return None if self.plan is None else self.plan.expected_switches

    @cached_property
    def primary(self) -> FloatArray:
        """Primary loss per round: expected, or averaged over the paths."""
        if self.plan is not None:
            return self.plan.expected(self.l1)
        return _mean_path(self._realised(self.l1))

    @cached_property
    def secondary(self) -> FloatArray:
        """Secondary loss per round: expected, or averaged over the paths."""
        if self.suffered is not None:
            return _mean_path(self.suffered)
        assert self.plan is not None and self.l2 is not None  # noqa: PT018  exact runs have both
        return self.plan.expected(self.l2)

    def _realised(self, losses: FloatArray) -> FloatArray:
        realised: FloatArray = losses[np.arange(len(losses)), self.paths]
        return realised

    def primary_regret(self, *, clip: bool = True) -> float:
        """Return the regret to the best single expert."""
        regret = float(self.primary.sum() - self.l1.sum(axis=0).min())
        return max(1.0, regret) if clip else regret

    def secondary_regret(self, *, clip: bool = True) -> float:
        """Return how far the secondary loss is above ``c * T``."""
        regret = float(self.secondary.sum() - self._rate * len(self.l1))
        return max(1.0, regret) if clip else regret

    def sleeping_regret(self, *, clip: bool = True) -> FloatArray:
        """Return the regret to every expert over the rounds in which it was active."""
        return sleeping_sums(self.l1, self.primary, self.active, clip=clip)

    def secondary_interval(self, confidence: float = 0.95) -> Interval:
        """Return the unclipped secondary regret with its interval over the drawn paths."""
        from counterplay.core.stats import mean_interval  # brings in scipy.stats

        if self.suffered is None and self.l2 is None:
            raise InvalidInputError("there are no secondary losses")
        suffered = self._realised(self.l2) if self.suffered is None else self.suffered  # type: ignore[arg-type]  # checked above
        return mean_interval(suffered.sum(axis=1) - self._rate * len(self.l1), confidence)

    @property
    def _rate(self) -> float:
        if self.c is None:
            raise InvalidInputError("pass c (tolerated secondary loss per round) to LossStream")
        return self.c

    def summary(self) -> str:
        """Return the main numbers in a few lines."""
        kind = "exact expectation" if self.exact else f"mean of {len(self.paths)} paths"
        T, K = self.l1.shape
        lines = [
            f"{self.meta.get('learner', 'a learner')}: {T} rounds, {K} experts ({kind})",
            f"primary regret {self.primary_regret(clip=False):.4g}",
        ]
        if self.c is not None:
            lines.append(f"secondary loss above rate {self.c:g}: {self._excess():.4g}")
        if self.expected_switches is not None:
            lines.append(f"expected switches {self.expected_switches:.4g}")
        lines += [f"guaranteed: {name} at most {x:.4g}" for name, x in self.guarantees.items()]
        return "\n".join(lines)

    def _excess(self) -> float:
        return self.secondary_regret(clip=False)

    def details(self) -> str:
        """Return the summary, every deactivation with its reason, and the regret per expert."""
        lines = [self.summary()]
        if self.activity is not None:
            lines.append(self.activity.summary())
        lines.append(self.experts().to_string(float_format=lambda x: f"{x:.4g}"))
        return "\n".join(lines)

    def experts(self) -> pd.DataFrame:
        """Return one row per expert: losses, share of play, active rounds, sleeping regret."""
        import pandas as pd

        share = self.P.mean(axis=0) if self.plan is not None else self._shares()
        columns = {
            "primary": self.l1.mean(axis=0),
            "secondary": np.nan if self.l2 is None else self.l2.mean(axis=0),
            "played": share,
            "active": self.active.sum(axis=0),
            "sleeping_regret": self.sleeping_regret(clip=False),
        }
        return pd.DataFrame(columns, index=pd.RangeIndex(self.l1.shape[1], name="expert"))

    def _shares(self) -> FloatArray:
        counts = np.bincount(self.paths.ravel(), minlength=self.l1.shape[1])
        shares: FloatArray = counts / self.paths.size
        return shares

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how the secondary loss above the rate accumulates; returns the axes."""
        from counterplay.tradeoff.pictures import burn_down

        return burn_down(self, ax)

    def dashboard(self) -> Figure:
        """Draw who was played, the watchdog's CUSUMs and the burn-down, one above the other."""
        from counterplay.tradeoff.pictures import dashboard

        return dashboard(self)


def rows_of(
    l1: FloatArray,
    l2: FloatArray | None,
    paths: Int32Array,
    activity: OracleRun | None,
    suffered: FloatArray | None,
) -> dict[str, NDArray[Any]]:
    """Return the columns of a transcript: the first path, if there is one, and who was active."""
    columns: dict[str, NDArray[Any]] = {}
    if len(paths):
        path, rounds = paths[0], np.arange(len(l1))
        columns = {"played": path, "l1": l1[rounds, path]}
        if suffered is not None:
            columns["l2"] = suffered[0]
        elif l2 is not None:
            columns["l2"] = l2[rounds, path]
    columns["active"] = np.ones(l1.shape, dtype=bool) if activity is None else activity.active
    return columns


def _mean_path(values: FloatArray) -> FloatArray:
    mean: FloatArray = values.mean(axis=0)
    return mean
