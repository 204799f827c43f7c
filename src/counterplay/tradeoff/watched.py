"""Common part of all learners under a watchdog: activity, stand-ins, pseudo losses.

An expert that is switched off is charged the pseudo loss 1 and is replaced by a stand-in when the
learner chooses it nevertheless. Source: Alg. alg:orc1; spec 09, section 3.7.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.online.chain import Int32Array
from counterplay.core.validation import BoolArray, FloatArray, check_choice
from counterplay.errors import InvalidInputError
from counterplay.tradeoff.learner import BicriteriaLearner, outside_activity
from counterplay.tradeoff.model import empty_message
from counterplay.tradeoff.oracle import CusumOracle, Granularity, OracleRun
from counterplay.tradeoff.plan import Plan
from counterplay.tradeoff.standins import FALLBACKS, Fallback, map_history, next_map


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

    def _init_watch(self, oracle: CusumOracle | None, fallback: Fallback) -> None:
        if oracle is not None and not isinstance(oracle, CusumOracle):
            raise InvalidInputError(f"oracle must be a CusumOracle or None, got {oracle!r}")
        self.oracle = oracle
        self.fallback = check_choice(fallback, "fallback", FALLBACKS)
        if fallback == "min_cusum" and oracle is None:
            raise InvalidInputError("fallback='min_cusum' needs an oracle")

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
            self._watchdog = self.oracle.clone().start(self.K, self.T, B=B, granularity=granularity)
        self._active = np.ones(self.K, dtype=bool)
        self._standin = np.arange(self.K, dtype=np.int32)
        self._primary = np.zeros(self.K)

    def _see_activity(self, active: BoolArray) -> None:
        """Check the activity passed to ``act``; in the first round it is taken over."""
        mask = self._mask(active)
        if self.rounds == 0 and self._watchdog is None and self._choice < 0:
            self._active = mask
            self._standin = next_map(np.arange(self.K, dtype=np.int32), mask, np.zeros(self.K))
        elif not np.array_equal(mask, self._active):
            raise InvalidInputError(
                f"round {self.rounds}: active differs from what the last update was told; "
                f"pass it to update as active_next"
            )

    def _next_activity(self, l2: FloatArray, active_next: BoolArray | None) -> BoolArray:
        """Return who is active in the next round, from the watchdog or from outside."""
        if self._watchdog is not None:
            if active_next is not None:
                raise InvalidInputError("pass active_next only to a learner without an oracle")
            self._watchdog.update(l2)
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
            return outside_activity(active, *l2.shape)
        if self.oracle is None:
            return OracleRun(np.ones(l2.shape, dtype=bool), (), (0,))
        return self.oracle.judge(l2, B=B, granularity=granularity)

    def _with_standins(
        self, plan: Plan, l1: FloatArray, l2: FloatArray, activity: OracleRun
    ) -> Plan:
        """Return the plan with the stand-in maps that the activity leads to."""
        starts, maps = map_history(
            activity.active, l1, l2, self.fallback,
            c=0.0 if self.oracle is None else self.oracle.c,
            resets=activity.resets, restore=self._restores(),
        )  # fmt: skip
        return Plan(plan.T, plan.starts, plan.marginals, plan.sampler, starts, maps)
