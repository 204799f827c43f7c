"""Limited switching: choose an expert per epoch with a lazy learner, play it for the whole epoch.

If no expert's secondary loss exceeds its rate by more than a budget on any interval, then every
stint on one expert costs at most that budget, and few switches mean little harm.
Source: Theorem 9.4; docs/theory/09-tradeoff.md, "Epoch learner, A_SL".
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.online import (
    Doubling,
    Hedge,
    MaximalCouplingSampler,
    ScalarLearner,
    ShrinkingDartboard,
)
from counterplay.core.seeds import RandomState
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_choice, check_real
from counterplay.errors import InvalidInputError
from counterplay.tradeoff import bounds
from counterplay.tradeoff.learner import BicriteriaLearner
from counterplay.tradeoff.model import EpochGrid, EpochRule
from counterplay.tradeoff.oracle import OracleRun
from counterplay.tradeoff.plan import LearnerSampler, Plan, epoch_averages, plain_plan


@checked
class EpochLearner(BicriteriaLearner):
    """Play a lazy learner's expert for whole epochs: good on one loss, gentle on the other.

    Use it when all experts keep the burst budget (check with ``burst_check``), or when the
    harm depends on how often the expert changes. For experts that misbehave use
    ``DeactivationLearner`` or ``ReactivationLearner``.

    Parameters
    ----------
    horizon:
        Number of rounds.
    K:
        Number of experts.
    alpha:
        Exponent of the burst budget ``delta * T**alpha``; gives the epoch length ``T**alpha``.
    B:
        Epoch length: ``"thesis"`` (``T**alpha``), ``"balanced"`` (the threshold itself, which
        makes both bounds equal), or a number. 1 means a choice per round.
    threshold:
        Burst budget ``delta * T**alpha``, for ``B="balanced"`` and for the guarantees.
    learner:
        Any learner over experts; ``ShrinkingDartboard`` by default.
    random_state:
        None, an int or a ``numpy.random.Generator``.

    Notes
    -----
    With ``ShrinkingDartboard``, E epochs and ``E >= 4 ln K`` (Theorem 9.4): primary regret at
    most ``2 sqrt(ln K T B)``, secondary at most ``threshold (2 sqrt(ln K E) + 1)``.

    Examples
    --------
    >>> from counterplay.tradeoff import LossStream, play
    >>> from counterplay.tradeoff.instances import adaptive_switch_tax
    >>> game = adaptive_switch_tax(rounds=4096, alpha=0.5, K=4, c=0.2, delta=0.5, random_state=0)
    >>> lazy = EpochLearner(horizon=4096, K=4, alpha=0.5, random_state=0)
    >>> stream = LossStream(game.l1, game.l2, c=game.c, replicates=200)
    >>> round(play(lazy, stream, fast=True).secondary_regret())
    153
    >>> from counterplay.core.online import Hedge
    >>> restless = EpochLearner(horizon=4096, K=4, alpha=0.5, learner=Hedge(), random_state=0)
    >>> round(play(restless, stream, fast=True).secondary_regret())
    1289

    References
    ----------
    A. Blum, H. Shao, Online learning with primary and secondary losses, NeurIPS 2020.
    """

    _state: ClassVar[tuple[str, ...]] = (
        *BicriteriaLearner._state, "_engine", "_current", "_sum",
    )  # fmt: skip
    _engine: ScalarLearner  # the learner over epochs that is running
    _current: int
    _sum: FloatArray  # losses of the epoch so far

    def __init__(
        self,
        horizon: int,
        K: int,
        alpha: float | None = None,
        *,
        B: EpochRule = "thesis",
        threshold: float | None = None,
        learner: ScalarLearner | None = None,
        random_state: RandomState = None,
    ) -> None:
        self._init(horizon, K, random_state)
        self.alpha = alpha
        self.B = B
        self.threshold = threshold
        self.learner = check_learner(learner)
        self.grid = EpochGrid.from_rule(horizon, B, alpha=alpha, threshold=threshold)
        self.reset()

    def _start(self) -> None:
        self._engine = self.learner.clone().reset(self.K, self.grid.E, self._rng)
        self._current, self._sum = -1, np.zeros(self.K)

    def _choose(self) -> int:
        if self.rounds % self.grid.B == 0:
            self._current = self._engine.act()
        return self._current

    def _learn(self, l1: FloatArray, l2: FloatArray, active_next: BoolArray | None) -> None:
        if active_next is not None:
            self._see_activity(active_next)
        self._sum += self._combine(l1, l2)
        if (self.rounds + 1) % self.grid.B == 0:
            self._engine.observe(self._sum / self.grid.B)
            self._sum[:] = 0.0

    def _combine(self, l1: FloatArray, l2: FloatArray) -> FloatArray:
        """The scalar loss the learner over epochs sees."""
        return l1

    def _plan(self, l1: FloatArray, l2: FloatArray, activity: OracleRun | None) -> Plan:
        losses, starts = self._combine(l1, l2), self.grid.starts
        return epoch_plan(self.learner, losses, starts[starts < len(l1)], self.grid)

    def guarantees(self, activity: OracleRun | None = None) -> dict[str, float]:
        """Return the bounds of Theorem 9.4 for ``ShrinkingDartboard`` with its default rate."""
        grid, learner = self.grid, self.learner
        if not isinstance(learner, ShrinkingDartboard) or learner.eta is not None:
            return {}
        found = {
            "primary regret": bounds.epoch_primary(self.horizon, self.K, grid.B),
            "expected switches": bounds.dartboard_switches(grid.E, self.K),
        }
        if self.threshold is not None:
            found["secondary regret"] = bounds.epoch_secondary(
                self.horizon, self.K, grid.B, self.threshold
            )
        return found


def epoch_plan(
    learner: ScalarLearner,
    losses: FloatArray,
    starts: IntArray,
    grid: EpochGrid,
    active: BoolArray | None = None,
) -> Plan:
    """Return the law of a scalar learner's choices over epochs of the given losses."""
    averages = epoch_averages(losses, starts, grid.B, active)
    marginals = learner.marginals(averages, horizon=grid.E)
    sampler = LearnerSampler(learner, averages, grid.E)
    return plain_plan(len(losses), starts, marginals, sampler)


@checked
class LazyHedge(EpochLearner):
    """Shrinking Dartboard on every single round, with a step made for the burst budget.

    Use it in place of ``EpochLearner`` when rounding ``T**alpha`` to an integer, or a fixed rhythm
    of decisions, is unwanted: same rates, no epochs.

    Parameters
    ----------
    horizon:
        Number of rounds.
    K:
        Number of experts.
    threshold:
        Burst budget ``delta * T**alpha``.
    eta:
        Shrinking rate; None: ``min(1/2, sqrt(ln K / (max(threshold, 1) T)))``.
    random_state:
        None, an int or a ``numpy.random.Generator``.

    Notes
    -----
    Primary regret at most ``eta T + ln K / eta``, expected switches at most
    ``ln K + T (eta + eta**2)``.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.tradeoff import LossStream, play
    >>> l1 = np.random.default_rng(0).random((2000, 5))
    >>> learner = LazyHedge(horizon=2000, K=5, threshold=20.0)
    >>> stream = LossStream(l1, l1, c=0.5, replicates=0)
    >>> round(play(learner, stream, fast=True).expected_switches, 1)
    5.1

    References
    ----------
    docs/theory/09-tradeoff.md, "Proposition 9.G: balanced epochs and LazyHedge".
    """

    def __init__(
        self,
        horizon: int,
        K: int,
        *,
        threshold: float | None = None,
        eta: float | None = None,
        random_state: RandomState = None,
    ) -> None:
        if eta is None:
            if threshold is None:
                raise InvalidInputError("LazyHedge needs threshold (the burst budget) or eta")
            check_real(threshold, "threshold", low=0.0)
        self.eta = eta
        rate = bounds.lazy_hedge_rate(horizon, K, threshold or 0.0) if eta is None else eta
        super().__init__(
            horizon, K, B=1, threshold=threshold, learner=ShrinkingDartboard(rate),
            random_state=random_state,
        )  # fmt: skip

    def guarantees(self, activity: OracleRun | None = None) -> dict[str, float]:
        """Return the bounds that hold for the rate in use."""
        rate = self.learner.eta if isinstance(self.learner, ShrinkingDartboard) else None
        if not rate or rate > 0.5:  # the bounds use ln(1/(1-eta)) <= eta + eta**2
            return {}
        most = math.log(self.K) + self.horizon * (rate + rate**2)
        found = {
            "primary regret": rate * self.horizon + math.log(self.K) / rate,
            "expected switches": most,
        }
        if self.threshold is not None:
            found["secondary regret"] = self.threshold * (most + 1)
        return found


def check_learner(learner: ScalarLearner | None) -> ScalarLearner:
    """Return the learner, or the default one."""
    if learner is None:
        return ShrinkingDartboard()
    if not isinstance(learner, ScalarLearner):
        raise InvalidInputError(
            f"learner must be a learner over experts such as ShrinkingDartboard(), got {learner!r}"
        )
    return learner


Anytime = Literal["doubling", "decreasing"]


@checked
def anytime(kind: Anytime = "doubling", base: ScalarLearner | None = None) -> ScalarLearner:
    """Return a lazy learner whose regret is small after every number of rounds.

    Parameters
    ----------
    kind:
        ``"doubling"``: restart ``base`` on blocks of 1, 2, 4, ... rounds. ``"decreasing"``: Hedge
        with decreasing steps, sampled by maximal coupling, without restarts.
    base:
        Learner to restart; ``ShrinkingDartboard`` by default. Not used by ``"decreasing"``.

    Examples
    --------
    >>> anytime("decreasing")
    MaximalCouplingSampler(base=Hedge(step_size='decreasing'))
    """
    check_choice(kind, "kind", ("doubling", "decreasing"))
    if kind == "doubling":
        return Doubling(check_learner(base))
    if base is not None:
        raise InvalidInputError("anytime('decreasing') brings its own learner; leave base out")
    return MaximalCouplingSampler(Hedge("decreasing"))
