"""Baselines that start from scratch whenever the set of active experts changes.

Simple, and worse: what was learned about the experts that stay is thrown away.
Source: sections "The first oracle" and "The second oracle"; spec 09, sections 3.8 and 3.9.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from counterplay.core.online import ScalarLearner
from counterplay.core.seeds import RandomState
from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.tradeoff.deactivation import DeactivationLearner
from counterplay.tradeoff.epoch_learner import Anytime, anytime, check_learner, epoch_plan
from counterplay.tradeoff.model import EpochGrid, EpochRule
from counterplay.tradeoff.oracle import CusumOracle, OracleRun
from counterplay.tradeoff.plan import Plan, join_plans
from counterplay.tradeoff.stored import require, same_kinds
from counterplay.tradeoff.watched import WatchedLearner


class RestartOnDeactivation(WatchedLearner):
    """Start a fresh learner on the active experts whenever somebody is switched off (or on).

    Use it as a baseline for ``DeactivationLearner``: its sleeping regret grows with the number of
    deactivations, linearly for a learner tuned for ``T``, like a square root for an anytime one.

    Parameters
    ----------
    T, K, alpha, B, oracle, learner, random_state:
        As for ``DeactivationLearner``.
    anytime:
        ``"doubling"`` or ``"decreasing"``; None: the learner stays tuned for all ``T`` rounds.

    Examples
    --------
    >>> from counterplay.tradeoff import CusumOracle, DeactivationLearner
    >>> from counterplay.tradeoff.instances import staggered
    >>> game = staggered(T=4096, alpha=0.3, K=8)
    >>> watchdog = CusumOracle(game.c, game.threshold)
    >>> learners = [kind(T=4096, K=8, alpha=0.3, oracle=watchdog, anytime=None)
    ...             for kind in (DeactivationLearner, RestartOnDeactivation)]
    >>> [round(float(a.run(game.l1, game.l2, n_rep=0).sleep[-1])) for a in learners]
    [308, 1633]

    References
    ----------
    A. Blum, H. Shao, Online learning with primary and secondary losses, NeurIPS 2020.
    """

    _state: ClassVar[tuple[str, ...]] = (
        *WatchedLearner._state, "_engine", "_experts", "_since", "_current", "_sum",
    )  # fmt: skip
    _varying: ClassVar[tuple[str, ...]] = ("_engine", "_experts", "_sum")
    _engine: ScalarLearner
    _experts: IntArray  # active experts, in the engine's order
    _since: int  # first round of the current block
    _current: int
    _sum: FloatArray

    def __init__(
        self,
        T: int,
        K: int,
        alpha: float | None = None,
        *,
        B: EpochRule = "thesis",
        oracle: CusumOracle | None = None,
        learner: ScalarLearner | None = None,
        anytime: Anytime | None = None,
        random_state: RandomState = None,
    ) -> None:
        self._init(T, K, random_state)
        self._init_watch(oracle, "first")
        self.alpha = alpha
        self.B = B
        threshold = None if oracle is None else oracle.threshold
        self.grid = EpochGrid.from_rule(T, B, alpha=alpha, threshold=threshold)
        self.learner = learner
        self.anytime = anytime
        self.reset()

    def _check_state(self) -> None:
        super()._check_state()
        experts = np.flatnonzero(self._active)
        same = np.array_equal(self._experts, experts)
        require(same, self, "_experts", "must be the active experts")
        self._experts = experts
        engine = self._prototype().clone().reset(experts.size, self.grid.E, 0)
        kind = type(self._engine) is type(engine)
        require(kind, self, "_engine", f"must be a {type(engine).__name__}")
        same_kinds(self._engine, engine)
        total = np.asarray(self._sum)
        shape = total.dtype == np.float64 and total.shape == experts.shape
        require(shape, self, "_sum", "must have a number for every active expert")

    def _prototype(self) -> ScalarLearner:
        if self.anytime is None:
            return check_learner(self.learner)
        return anytime(self.anytime, self.learner)

    def _start(self) -> None:
        super()._start()
        self._begin_block(0)

    def _begin_block(self, t: int) -> None:
        self._experts, self._since = np.flatnonzero(self._active), t
        K = self._experts.size
        self._engine = self._prototype().clone().reset(K, self.grid.E, self._rng)
        self._current, self._sum = -1, np.zeros(K)

    def _see_activity(self, active: BoolArray) -> None:
        before = self._active
        super()._see_activity(active)
        if self._active is not before:
            self._begin_block(0)

    def _choose(self) -> int:
        if (self.rounds - self._since) % self.grid.B == 0:
            self._current = int(self._experts[self._engine.act()])
        return self._current

    def _learn(self, l1: FloatArray, l2: FloatArray, active_next: BoolArray | None) -> None:
        before = self._active
        self._move(l1, l2, active_next)
        self._sum += l1[self._experts]
        if not np.array_equal(self._active, before):
            self._begin_block(self.rounds + 1)
        elif (self.rounds + 1 - self._since) % self.grid.B == 0:
            self._engine.update(self._sum / self.grid.B)
            self._sum[:] = 0.0

    def _plan(self, l1: FloatArray, l2: FloatArray, activity: OracleRun | None) -> Plan:
        assert activity is not None  # a watched learner always knows who is active
        active = activity.active
        changes = np.flatnonzero((active[1:] != active[:-1]).any(axis=1)) + 1
        edges = [0, *changes.tolist(), len(l1)]
        plans, experts = [], []
        for start, end in zip(edges, edges[1:]):
            ids = np.flatnonzero(active[start])
            block = np.ascontiguousarray(l1[start:end, ids])
            starts = np.arange(0, end - start, self.grid.B)
            plans.append(epoch_plan(self._prototype(), block, starts, self.grid))
            experts.append(ids)
        return join_plans(plans, experts, self.K)


class RestartAtReset(DeactivationLearner):
    """Start a fresh ``DeactivationLearner`` at every reset of the watchdog.

    Use it as a baseline for ``ReactivationLearner``.

    Parameters
    ----------
    T, K, alpha, B, oracle, learner, anytime, fallback, random_state:
        As for ``DeactivationLearner``; the oracle has reset times.

    Notes
    -----
    Sleeping regret at most the sum of the bounds of ``DeactivationLearner`` over the segments.

    Examples
    --------
    >>> from counterplay.tradeoff import CusumOracle
    >>> from counterplay.tradeoff.instances import burst
    >>> game = burst(T=8192, alpha=0.4, K=4, N=3)
    >>> watchdog = CusumOracle(game.c, game.threshold, resets=game.meta["resets"])
    >>> learner = RestartAtReset(T=8192, K=4, alpha=0.4, oracle=watchdog)
    >>> round(float(learner.run(game.l1, game.l2, n_rep=0).sleep.max()))
    1492

    References
    ----------
    A. Blum, H. Shao, Online learning with primary and secondary losses, NeurIPS 2020.
    """

    _allows_resets: ClassVar[bool] = True

    def guarantees(self, activity: OracleRun | None = None) -> dict[str, float]:
        """Return nothing in advance; see ``bounds.restart_sleeping`` for given segments."""
        return {}

    def _learn(self, l1: FloatArray, l2: FloatArray, active_next: BoolArray | None) -> None:
        super()._learn(l1, l2, active_next)
        if self._watchdog is not None and self._watchdog.is_reset(self.rounds + 1):
            self._begin_block(self.rounds + 1)

    def _plan(self, l1: FloatArray, l2: FloatArray, activity: OracleRun | None) -> Plan:
        assert activity is not None  # a watched learner always knows who is active
        everybody = np.arange(self.K)
        edges = [*activity.resets, len(l1)]
        plans = [
            epoch_plan(
                self._prototype(),
                np.ascontiguousarray(l1[start:end]),
                np.arange(0, end - start, self.grid.B),
                self.grid,
                activity.active[start:end],
            )
            for start, end in zip(edges, edges[1:])
        ]
        plan = join_plans(plans, [everybody] * len(plans), self.K)
        return self._with_standins(plan, l1, l2, activity)
