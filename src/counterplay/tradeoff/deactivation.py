"""Experts that are switched off for good: charge them loss 1 and play a stand-in.

No restart is needed when an expert leaves: its pseudo loss drives its probability down, and until
then a stand-in is played for it.
Source: Algorithm 9.1, Equations 9.1 and 9.2; docs/theory/09-tradeoff.md, "Theorem 9.6: the
deactivation learner".
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.online import ScalarLearner
from counterplay.core.seeds import RandomState
from counterplay.core.validation import BoolArray, FloatArray
from counterplay.errors import InvalidInputError
from counterplay.tradeoff import bounds
from counterplay.tradeoff.epoch_learner import Anytime, anytime, check_learner, epoch_plan
from counterplay.tradeoff.model import EpochRule
from counterplay.tradeoff.oracle import CusumOracle, OracleRun
from counterplay.tradeoff.plan import Plan
from counterplay.tradeoff.watched import Fallback, WatchedLearner


@checked
class DeactivationLearner(WatchedLearner):
    """Compete with every expert for as long as it behaves.

    Use it when some experts may exceed the burst budget and a watchdog then switches them off for
    good. If it switches them on again, use ``ReactivationLearner``.

    Parameters
    ----------
    horizon:
        Number of rounds.
    K:
        Number of experts.
    alpha:
        Gives the epoch length ``T**alpha``; the oracle's threshold is a separate matter.
    B:
        Epoch length: ``"thesis"``, ``"balanced"`` (the oracle's threshold), or a number.
    oracle:
        The watchdog. None: activity comes from outside, through ``Losses(..., active_next)`` or
        ``LossStream(..., active=...)``.
    learner:
        Learner over epochs; ``ShrinkingDartboard`` by default.
    anytime:
        ``"doubling"`` or ``"decreasing"``: make the learner good after every number of epochs,
        which the guarantee needs. None: use ``learner`` as it is, tuned for all epochs.
    fallback:
        Whom to play for an expert that is switched off: the active one with the smallest primary
        loss so far (``"best_primary"``), with the smallest CUSUM (``"min_cusum"``), or
        ``"first"``.
    random_state:
        None, an int or a ``numpy.random.Generator``.

    Notes
    -----
    For every expert, active in ``T_h`` rounds: sleeping regret at most
    ``6.83 sqrt(ln K T_h B) + B``. With ``s`` switches of its own choice and ``D`` rounds
    in which somebody is switched off: secondary regret at most
    ``threshold (s + D + 1) + D (1 - c)``. Both for losses fixed in advance.

    Examples
    --------
    >>> from counterplay.tradeoff import LossStream, play
    >>> from counterplay.tradeoff import CusumOracle
    >>> from counterplay.tradeoff.instances import prefix_star
    >>> game = prefix_star(rounds=4096, alpha=0.4, K=16, T_h=800)
    >>> watchdog = CusumOracle(c=game.c, threshold=game.threshold)
    >>> learner = DeactivationLearner(horizon=4096, K=16, alpha=0.4, oracle=watchdog)
    >>> result = play(learner, LossStream(game.l1, game.l2, replicates=0), fast=True)
    >>> int(result.active[:, 0].sum()), round(float(result.sleeping_regret()[0]))  # bound: 2269
    (800, 447)

    References
    ----------
    A. Blum, H. Shao, Online learning with primary and secondary losses, NeurIPS 2020.
    """

    _state: ClassVar[tuple[str, ...]] = (
        *WatchedLearner._state, "_engine", "_since", "_current", "_sum",
    )  # fmt: skip
    _allows_resets: ClassVar[bool] = False
    _engine: ScalarLearner
    _since: int  # round in which the engine started
    _current: int
    _sum: FloatArray  # pseudo losses of the epoch so far

    def __init__(
        self,
        horizon: int,
        K: int,
        alpha: float | None = None,
        *,
        B: EpochRule = "thesis",
        oracle: CusumOracle | None = None,
        learner: ScalarLearner | None = None,
        anytime: Anytime | None = "doubling",
        fallback: Fallback = "best_primary",
        random_state: RandomState = None,
    ) -> None:
        self._init(horizon, K, random_state)
        self._init_watch(alpha, B, oracle, fallback)
        if oracle is not None and oracle.resets is not None and not self._allows_resets:
            raise InvalidInputError(
                "DeactivationLearner needs an oracle without resets; use ReactivationLearner"
            )
        self.learner = learner
        self.anytime = anytime
        self.reset()

    def _prototype(self) -> ScalarLearner:
        """The learner over epochs, before its first round."""
        if self.anytime is None:
            return check_learner(self.learner)
        return anytime(self.anytime, self.learner)

    def _start(self) -> None:
        super()._start()
        self._begin_block(0)

    def _begin_block(self, t: int) -> None:
        """Start the learner over epochs in round ``t``."""
        self._engine = self._prototype().clone().reset(self.K, self.grid.E, self._rng)
        self._since, self._current, self._sum = t, -1, np.zeros(self.K)

    def _choose(self) -> int:
        if (self.rounds - self._since) % self.grid.B == 0:
            self._current = self._engine.act()
        return int(self._standin[self._current])

    def _learn(self, l1: FloatArray, l2: FloatArray, active_next: BoolArray | None) -> None:
        pseudo = np.where(self._active, l1, 1.0)
        self._move(l1, l2, active_next)
        self._sum += pseudo
        if (self.rounds + 1 - self._since) % self.grid.B == 0:
            self._engine.observe(self._sum / self.grid.B)
            self._sum[:] = 0.0

    def guarantees(self, activity: OracleRun | None = None) -> dict[str, float]:
        """Return the bounds with the doubling dartboard, for an expert that is always active."""
        if self.learner is not None or self.anytime != "doubling":
            return {}
        most = bounds.doubling_switches(self.grid.E, self.K)
        found = {
            "sleeping regret": bounds.deactivation_sleeping(self.horizon, self.K, self.grid.B),
            "expected switches": most,
        }
        if activity is not None and self.oracle is not None:
            found["secondary regret"] = bounds.deactivation_secondary(
                self.oracle.threshold, most, activity.deactivating_rounds, self.oracle.c
            )
        return found

    def _plan(self, l1: FloatArray, l2: FloatArray, activity: OracleRun | None) -> Plan:
        assert activity is not None  # a watched learner always knows who is active
        starts = self.grid.starts
        active = activity.active
        plan = epoch_plan(self._prototype(), l1, starts[starts < len(l1)], self.grid, active)
        return self._with_standins(plan, l1, l2, activity)
