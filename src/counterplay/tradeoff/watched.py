"""Common part of all learners under a watchdog: activity, stand-ins, pseudo losses.

An expert that is switched off is charged the pseudo loss 1 and is replaced by a stand-in when the
learner chooses it nevertheless. The map ``f`` of stand-ins sends every expert to an active one and
leaves active experts alone; it changes only when somebody is switched off or on.
Source: Algorithms 9.1 and 9.2, see docs/theory/09-tradeoff.md, "Reactivation learner (Algorithm
9.2, repaired)".
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from counterplay.core.online.chain import Int32Array, pick
from counterplay.core.online.coupling import coupled_draw
from counterplay.core.online.stored import inside, require, same_params
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_choice
from counterplay.errors import InvalidInputError
from counterplay.tradeoff.learner import BicriteriaLearner
from counterplay.tradeoff.model import EpochGrid, EpochRule, check_active, empty_message
from counterplay.tradeoff.oracle import CusumOracle, Deactivation, Granularity, OracleRun
from counterplay.tradeoff.plan import Plan, epoch_averages

Fallback = Literal["best_primary", "min_cusum", "first"]
FALLBACKS: tuple[Fallback, ...] = ("best_primary", "min_cusum", "first")


class WatchedLearner(BicriteriaLearner):
    """Base class of learners whose experts can be switched off (and on again)."""

    _state: ClassVar[tuple[str, ...]] = (
        *BicriteriaLearner._state, "_watchdog", "_active", "_standin", "_primary",
    )  # fmt: skip
    uses_secondary: ClassVar[bool] = True

    fallback: Fallback = "best_primary"
    _watchdog: CusumOracle | None  # the oracle that is running
    _active: BoolArray
    _standin: Int32Array
    _primary: FloatArray  # cumulative primary losses

    alpha: float | None
    B: EpochRule
    grid: EpochGrid

    def _init_watch(
        self, alpha: float | None, B: EpochRule, oracle: CusumOracle | None, fallback: Fallback
    ) -> None:
        """Take the watchdog and cut the rounds into epochs.

        A balanced epoch is as long as the oracle's threshold.
        """
        if oracle is not None and not isinstance(oracle, CusumOracle):
            raise InvalidInputError(f"oracle must be a CusumOracle or None, got {oracle!r}")
        self.oracle = oracle
        self.fallback = check_choice(fallback, "fallback", FALLBACKS)
        if fallback == "min_cusum" and oracle is None:
            raise InvalidInputError("fallback='min_cusum' needs an oracle")
        self.alpha, self.B = alpha, B
        threshold = None if oracle is None else oracle.threshold
        self.grid = EpochGrid.from_rule(self.horizon, B, alpha=alpha, threshold=threshold)

    @property
    def active(self) -> BoolArray:
        """Who may be played in the coming round."""
        return self._active

    @property
    def standin(self) -> Int32Array:
        """Which expert is played for each one: the map ``f``."""
        return self._standin

    def _granularity(self) -> tuple[int, Granularity]:
        """Epoch length and default granularity the oracle works with."""
        return 1, "round"

    def _start(self) -> None:
        B, granularity = self._granularity()
        self._watchdog = None
        if self.oracle is not None:
            self._watchdog = self.oracle.clone().start(
                self.K, self.horizon, B=B, granularity=granularity
            )
        self._active = np.ones(self.K, dtype=bool)
        self._standin = np.arange(self.K, dtype=np.int32)
        self._primary = np.zeros(self.K)

    def _check_state(self) -> None:
        super()._check_state()
        watchdog, K = self._watchdog, self.K
        if watchdog is not None and self.oracle is not None:
            same_params(self, "_watchdog", watchdog, self.oracle)
            B, granularity = self._granularity()
            by_epoch = (self.oracle.granularity or granularity) == "epoch"
            found = (watchdog.K, watchdog.horizon, watchdog.B, watchdog._by_epoch, watchdog.round)
            expected = (K, self.horizon, B, by_epoch, self.rounds)
            require(found == expected, self, "_watchdog", "belongs to another stream")
            same = np.array_equal(self._active, watchdog.active)
            require(same, self, "_active", "differs from the watchdog's")
        inside(self, "_standin", self._standin, 0, K - 1, 0.0)
        inside(self, "_primary", self._primary, 0.0, self.rounds, 1e-9 * (1 + self.rounds))
        if self.rounds < self.horizon:  # after the last round nobody needs to be left
            require(self._active.any(), self, "_active", "must leave somebody")
            require(self._active[self._standin].all(), self, "_standin", "must be active experts")
            own = np.flatnonzero(self._active)
            plays = not self._restores() or np.array_equal(self._standin[own], own)
            require(plays, self, "_standin", "must let active experts play for themselves")

    def _see_activity(self, active: BoolArray) -> None:
        """Check the activity passed to ``act``; in the first round it is taken over."""
        mask = self._mask(active)
        if self.rounds == 0 and self._watchdog is None and self._choice < 0:
            self._active = mask
            self._standin = next_map(np.arange(self.K, dtype=np.int32), mask, np.zeros(self.K))
        elif not np.array_equal(mask, self._active):
            raise InvalidInputError(
                f"round {self.rounds}: active differs from what was observed before; "
                f"pass it as Losses(..., active_next)"
            )

    def _next_activity(self, l2: FloatArray, active_next: BoolArray | None) -> BoolArray:
        """Return who is active in the next round, from the watchdog or from outside."""
        if self._watchdog is not None:
            if active_next is not None:
                raise InvalidInputError("pass active_next only to a learner without an oracle")
            self._watchdog.observe(l2)
            return self._watchdog.active.copy()
        return self._active if active_next is None else self._mask(active_next)

    def _mask(self, active: BoolArray) -> BoolArray:
        if active.dtype != np.bool_ or active.shape != (self.K,):
            raise InvalidInputError(f"active must be a boolean vector of length {self.K}")
        if not active.any():
            raise InvalidInputError(empty_message(self.rounds + 1))
        return active

    def _move(self, l1: FloatArray, l2: FloatArray, active_next: BoolArray | None) -> None:
        """Take in the losses and update activity and stand-ins for the next round."""
        following = self._next_activity(l2, active_next)  # raises before anything has changed
        self._primary += l1
        if not np.array_equal(following, self._active):
            self._standin = next_map(
                self._standin, following, self._scores(), restore=self._restores()
            )
        self._active = following

    def _restores(self) -> bool:
        """Whether an expert that comes back plays for itself again."""
        return True

    def _scores(self) -> FloatArray:
        if self.fallback == "best_primary":
            return self._primary
        if self.fallback == "min_cusum" and self._watchdog is not None:
            return self._watchdog.level
        return np.zeros(self.K)

    def _activity(self, l2: FloatArray, active: ArrayLike | None) -> OracleRun:
        B, granularity = self._granularity()
        if active is not None:
            if self.oracle is not None:
                raise InvalidInputError("pass active only to a learner without an oracle")
            return OracleRun(check_active(active, *l2.shape), (), (0,))
        if self.oracle is None:
            return OracleRun(np.ones(l2.shape, dtype=bool), (), (0,))
        return self.oracle.judge(l2, B=B, granularity=granularity)

    def _history(self, active: BoolArray, before: int) -> OracleRun:
        if self._watchdog is None:
            return OracleRun(active, (), (0,))
        resets = self._watchdog._resets - before
        return OracleRun(
            active,
            tuple(
                Deactivation(seen - before, expert, start - before, excess, off_from - before)
                for seen, expert, start, excess, off_from in self._watchdog.events
                if off_from > before
            ),
            (0, *resets[(resets > 0) & (resets < len(active))].tolist()),
        )

    def _with_standins(
        self, plan: Plan, l1: FloatArray, l2: FloatArray, activity: OracleRun
    ) -> Plan:
        """Return the plan with the stand-in maps that the activity leads to."""
        starts, maps = map_history(
            activity.active, l1, l2, self.fallback,
            c=0.0 if self.oracle is None else self.oracle.c,
            resets=activity.resets, restore=self._restores(),
        )  # fmt: skip
        return Plan(plan.rounds, plan.starts, plan.marginals, plan.sampler, starts, maps)


class EpochWeights(WatchedLearner):
    """Base class of watched learners with weights of their own, charged once per epoch."""

    _state: ClassVar[tuple[str, ...]] = (
        *WatchedLearner._state, "_current", "_sum", "_epoch_active", "_probs",
    )  # fmt: skip
    _current: int  # choice of the current epoch
    _sum: FloatArray  # pseudo losses of the epoch so far
    _epoch_active: BoolArray  # activity at the start of the epoch
    _probs: FloatArray  # distribution of the choice

    def _granularity(self) -> tuple[int, Granularity]:
        return self.grid.B, "epoch"

    def _start(self) -> None:
        super()._start()
        self._sum, self._probs = np.zeros(self.K), np.full(self.K, 1 / self.K)
        self._current, self._epoch_active = -1, np.ones(self.K, dtype=bool)

    def _check_epoch(self) -> bool:
        """Check what is known about the current epoch.

        Returns whether the probabilities are those of the epoch that is running.
        """
        B, current, probs = self.grid.B, self._current, self._probs
        inside(self, "_sum", self._sum, 0.0, self.rounds % B, 1e-9 * B)
        inside(self, "_probs", probs, 0.0, 1.0, 1e-9)
        require(abs(probs.sum() - 1) < 1e-6, self, "_probs", "must sum to 1")
        opened = current >= 0 or (self.rounds == 0 and self._choice < 0)
        require(opened, self, "_current", "must be an expert")
        if self._choice >= 0:
            same = self._choice == int(self._standin[current])
            require(same, self, "_choice", "must be the stand-in of the current expert")
        running = self._choice >= 0 or self.rounds % B > 0
        if self._watchdog is not None and current >= 0:
            start = (self.rounds - (not running)) // B * B
            same = np.array_equal(self._epoch_active, self._watchdog._active_in(start))
            require(same, self, "_epoch_active", "must follow from the take-downs")
        return running

    def _choose(self) -> int:
        if self.rounds % self.grid.B == 0:
            self._open_epoch()
        return int(self._standin[self._current])

    def _open_epoch(self) -> None:
        """Compute the distribution of the epoch and draw or keep the choice."""
        previous, last = self._probs.copy(), self._current
        kept = self._weigh()
        keep, draw = self._rng.random(2)
        if kept is None and last >= 0:
            self._current = coupled_draw(previous, self._probs, last, keep, draw)
        elif kept is None or keep >= kept:
            self._current = pick(self._probs, draw)

    @abstractmethod
    def _weigh(self) -> float | None:
        """Fill in the distribution of the epoch; return the chance to keep the last choice.

        None: as large as the two distributions allow (maximal coupling).
        """

    def _learn(self, l1: FloatArray, l2: FloatArray, active_next: BoolArray | None) -> None:
        pseudo = np.where(self._active, l1, 1.0)
        self._move(l1, l2, active_next)
        self._sum += pseudo
        if (self.rounds + 1) % self.grid.B == 0:
            self._charge(self._sum / self.grid.B)
            self._sum[:] = 0.0

    @abstractmethod
    def _charge(self, pseudo: FloatArray) -> None:
        """Take in the average pseudo losses of the epoch that ends."""

    def _epochs(self, l1: FloatArray, active: BoolArray) -> tuple[IntArray, FloatArray, BoolArray]:
        """First rounds, pseudo losses and active experts of the epochs of recorded losses."""
        starts = self.grid.starts[: -(-len(l1) // self.grid.B)]
        pseudo = epoch_averages(l1, starts, self.grid.B, active)
        return starts, pseudo, np.ascontiguousarray(active[starts])

    def _late_segments(self) -> int:
        """Segments in which an expert may be switched off inside an epoch."""
        if self.oracle is None or self.oracle.granularity != "round":
            return 0
        return self.oracle.segments(self.horizon, self.grid.B)


def next_map(
    standin: Int32Array,
    active: BoolArray,
    scores: FloatArray,
    *,
    restore: bool = True,
) -> Int32Array:
    """Return the map after a change of activity.

    Everybody whose stand-in is gone gets the active expert with the smallest score (ties go to the
    lowest index). ``restore=False`` leaves experts that came back with their old stand-in, which
    is what the source does and what breaks its proof.
    """
    new = standin.copy()
    if restore:
        new[active] = np.flatnonzero(active)
    lost = ~active[new]
    if lost.any():
        new[lost] = np.where(active, scores, np.inf).argmin()
    return new


def map_history(
    active: BoolArray,
    l1: FloatArray,
    l2: FloatArray,
    fallback: Fallback,
    *,
    c: float = 0.0,
    resets: tuple[int, ...] = (0,),
    restore: bool = True,
) -> tuple[IntArray, Int32Array]:
    """Return all maps of a complete run and the rounds from which they are valid."""
    K = active.shape[1]
    changes = np.flatnonzero((active[1:] != active[:-1]).any(axis=1)) + 1
    scores = np.zeros((changes.size, K))  # what the fallback minimises, before each change
    if fallback == "best_primary":
        _sums_before(l1, changes, scores)
    elif fallback == "min_cusum":
        _levels_before(l2, c, np.array(resets), changes, scores)
    standin = np.arange(K, dtype=np.int32)
    starts, maps = [0], [next_map(standin, active[0], np.zeros(K))]
    for t, score in zip(changes, scores):
        new = next_map(maps[-1], active[t], score, restore=restore)
        if not np.array_equal(new, maps[-1]):
            starts.append(int(t))
            maps.append(new)
    return np.array(starts), np.array(maps)


@njit(cache=True)
def _sums_before(losses: FloatArray, rounds: IntArray, out: FloatArray) -> None:
    total, j = np.zeros(losses.shape[1]), 0  # losses before round t, next round asked for
    for t in range(losses.shape[0]):
        while j < rounds.size and rounds[j] == t:
            out[j] = total
            j += 1
        if j == rounds.size:
            return
        for h in range(losses.shape[1]):
            total[h] += losses[t, h]


@njit(cache=True)
def _levels_before(
    l2: FloatArray, c: float, resets: IntArray, rounds: IntArray, out: FloatArray
) -> None:
    level, j, n = np.zeros(l2.shape[1]), 0, 0  # CUSUM before round t, next round, next reset
    for t in range(l2.shape[0]):
        while n < resets.size and resets[n] <= t:
            if resets[n] == t:
                level[:] = 0.0
            n += 1
        while j < rounds.size and rounds[j] == t:
            out[j] = level
            j += 1
        if j == rounds.size:
            return
        for h in range(l2.shape[1]):
            level[h] = max(level[h], 0.0) + l2[t, h] - c
