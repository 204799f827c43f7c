"""What all learners with two losses have in common: stream, exact law, complete run.

In a stream: ``act`` (which expert to play) and ``update`` (all losses of the round). On recorded
losses: ``plan`` (the exact law of the play) and ``run`` (the play and its regrets). A run with one
replicate plays the very experts that the stream plays. Source: spec 09, section 3.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.online.chain import Int32Array
from counterplay.core.online.exponential import first_outside
from counterplay.core.online.state import Stateful
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import BoolArray, FloatArray, check_int, check_positive_int
from counterplay.errors import AssumptionWarning, InvalidInputError, ProtocolError
from counterplay.tradeoff.model import (
    AdaptiveSecondary,
    CallableSecondary,
    check_active,
    check_loss_matrix,
    check_losses,
)
from counterplay.tradeoff.oracle import CusumOracle, OracleRun
from counterplay.tradeoff.plan import Plan
from counterplay.tradeoff.result import RunResult
from counterplay.tradeoff.stored import fresh_twin, require, same_kinds

Secondary = ArrayLike | AdaptiveSecondary | Callable[[int, NDArray[np.integer[Any]]], ArrayLike]


class BicriteriaLearner(Stateful, ABC):
    """Base class of learners that see a primary and a secondary loss of every expert.

    Subclasses know the number of rounds ``T`` and of experts ``K`` from their constructor and are
    ready to play at once; ``reset`` starts again.

    Examples
    --------
    >>> from counterplay.tradeoff import EpochLearner
    >>> learner = EpochLearner(T=100, K=3, B=10, random_state=0)
    >>> isinstance(learner, BicriteriaLearner), learner.act() in (0, 1, 2)
    (True, True)
    """

    _state: ClassVar[tuple[str, ...]] = ("rounds", "_choice", "_rng")
    _varying: ClassVar[tuple[str, ...]] = ()  # parts whose kind or shape changes in a stream
    uses_secondary: ClassVar[bool] = False
    """Whether the choices depend on the secondary loss."""

    T: int
    K: int
    random_state: RandomState
    oracle: CusumOracle | None = None
    rounds: int
    """Rounds seen since the start."""
    _choice: int  # expert of the current round; -1 before it was asked for
    _rng: np.random.Generator

    def _init(self, T: int, K: int, random_state: RandomState) -> None:
        self.T, self.K = check_positive_int(T, "T"), check_positive_int(K, "K")
        self.random_state = random_state

    def reset(self, random_state: RandomState = None) -> Self:
        """Start again; uses the constructor's ``random_state`` unless another one is given."""
        self._rng = generator(self.random_state if random_state is None else random_state)
        self.rounds, self._choice = 0, -1
        self._start()
        return self

    @abstractmethod
    def _start(self) -> None:
        """Set up the state of a subclass."""

    def _check_state(self) -> None:
        same_kinds(self, fresh_twin(self), self._varying)
        require(0 <= self.rounds <= self.T, self, "rounds", f"must be in [0, {self.T}]")

    def act(self, active: ArrayLike | None = None) -> int:
        """Return the expert to play in this round; asking twice gives the same answer.

        Parameters
        ----------
        active:
            Who may be played, for learners whose oracle is outside. It must be what the last
            ``update`` was told; in the first round it sets the initial activity.
        """
        self._check_running()
        if active is not None:
            self._see_activity(np.asarray(active))
        if self._choice < 0:
            self._choice = self._choose()
        return self._choice

    @abstractmethod
    def _choose(self) -> int:
        """Return the expert of a new round."""

    @property
    def active(self) -> BoolArray:
        """Who may be played in the coming round."""
        return np.ones(self.K, dtype=bool)

    def _see_activity(self, active: BoolArray) -> None:
        raise InvalidInputError(
            f"{type(self).__name__} does not know inactive experts; use DeactivationLearner"
        )

    def update(self, l1: ArrayLike, l2: ArrayLike, active_next: ArrayLike | None = None) -> None:
        """Reveal both losses of all experts and end the round.

        Parameters
        ----------
        l1, l2:
            Primary and secondary losses, vectors of length ``K`` in [0, 1].
        active_next:
            Who may be played in the next round, when the learner has no oracle of its own.
        """
        self.act()
        primary, secondary = self._vector(l1, "primary"), self._vector(l2, "secondary")
        self._learn(primary, secondary, None if active_next is None else np.asarray(active_next))
        self.rounds += 1
        self._choice = -1

    @abstractmethod
    def _learn(self, l1: FloatArray, l2: FloatArray, active_next: BoolArray | None) -> None:
        """Take in the checked losses of a round."""

    def plan(
        self, l1: ArrayLike, l2: ArrayLike | None = None, *, active: ArrayLike | None = None
    ) -> Plan:
        """Return the exact law of the play on recorded losses.

        Parameters
        ----------
        l1, l2:
            Losses of shape ``(n, K)`` with ``n <= T``; ``l2`` is only needed by learners that look
            at the secondary loss.
        active:
            Activity of every expert, shape ``(n, K)``, for learners whose oracle is outside.
        """
        if l2 is None:
            if self.uses_secondary and active is None:
                raise InvalidInputError(f"{type(self).__name__} needs the secondary losses, too")
            primary = check_loss_matrix(l1, "primary")
            secondary = np.zeros_like(primary) if self.uses_secondary else primary
        else:
            primary, secondary = check_losses(l1, l2)
        self._check_shape(primary)
        return self._plan(primary, secondary, self._activity(secondary, active))

    @abstractmethod
    def _plan(self, l1: FloatArray, l2: FloatArray, activity: OracleRun | None) -> Plan:
        """Return the law of the play, given who was active when."""

    def run(
        self,
        l1: ArrayLike,
        l2: Secondary,
        *,
        c: float | None = None,
        active: ArrayLike | None = None,
        n_rep: int = 1,
        random_state: RandomState = None,
    ) -> RunResult:
        """Play on complete losses and measure all regrets; does not touch a running stream.

        Parameters
        ----------
        l1:
            Primary losses, shape ``(n, K)`` with ``n <= T``.
        l2:
            Secondary losses of the same shape, or an adaptive loss: an ``AdaptiveSecondary`` or a
            function ``l2(t, actions[:t])`` that returns the losses of round ``t``.
        c:
            Tolerated secondary loss per round; by default that of the learner's oracle.
        active:
            Activity of every expert, shape ``(n, K)``, when the oracle is outside.
        n_rep:
            Number of paths to draw; expectations are exact and do not need any (0 is fine),
            except for an adaptive secondary loss.
        random_state:
            Replaces the constructor's ``random_state``.
        """
        n = check_int(n_rep, "n_rep", low=0)
        rng = generator(self.random_state if random_state is None else random_state)
        if isinstance(l2, AdaptiveSecondary) or callable(l2):
            adaptive = l2 if isinstance(l2, AdaptiveSecondary) else CallableSecondary(l2, self.K)
            return self._run_adaptive(l1, adaptive, c, max(1, n), rng)
        primary, secondary = check_losses(l1, l2)
        self._check_shape(primary)
        activity = self._activity(secondary, active)
        plan = self._plan(primary, secondary, activity)
        paths = plan.sample(n, rng) if n else np.empty((0, plan.T), dtype=np.int32)
        return self._result(primary, secondary, c, plan, paths, activity)

    def guarantees(self, activity: OracleRun | None = None) -> dict[str, float]:
        """Return the learner's proven bounds by name, as far as they are determined.

        Parameters
        ----------
        activity:
            Who was active when, for bounds that depend on the number of deactivations.
        """
        return {}

    def _run_adaptive(
        self,
        l1: ArrayLike,
        l2: AdaptiveSecondary,
        c: float | None,
        n_rep: int,
        rng: np.random.Generator,
    ) -> RunResult:
        primary = check_loss_matrix(l1, "primary")
        self._check_shape(primary)
        if l2.K != self.K:
            raise InvalidInputError(f"the secondary loss has {l2.K} experts, expected {self.K}")
        if not self.uses_secondary:
            plan = self._plan(primary, primary, None)
            paths = plan.sample(n_rep, rng)
            return self._result(primary, None, c, plan, paths, None, l2.played(paths))
        if self.oracle is not None:
            warnings.warn(
                "an adaptive secondary loss decides here who is active, so the primary pseudo "
                "losses are adaptive, too, and the guarantees do not apply",
                AssumptionWarning,
                stacklevel=3,
            )
        if n_rep != 1:
            raise InvalidInputError("n_rep must be 1 when the learner reacts to adaptive losses")
        return self._stream(primary, l2, c, rng)

    def _stream(
        self, l1: FloatArray, l2: AdaptiveSecondary, c: float | None, rng: np.random.Generator
    ) -> RunResult:
        """Play round by round against losses that react."""
        learner = self.clone().reset(rng)
        path = np.empty(len(l1), dtype=np.int32)
        secondary = np.empty_like(l1)
        active = np.ones(l1.shape, dtype=bool)
        for t in range(len(l1)):
            active[t] = learner.active
            path[t] = learner.act()
            secondary[t] = l2.losses(t, path[:t])
            learner.update(l1[t], secondary[t])
        played = secondary[np.arange(len(l1)), path]
        activity = OracleRun(active, (), (0,)) if self.oracle is not None else None
        return self._result(l1, secondary, c, None, path[None, :], activity, played[None, :])

    def _result(
        self,
        l1: FloatArray,
        l2: FloatArray | None,
        c: float | None,
        plan: Plan | None,
        paths: Int32Array,
        activity: OracleRun | None,
        suffered: FloatArray | None = None,
    ) -> RunResult:
        rate = c if c is not None or self.oracle is None else self.oracle.c
        budget = None if self.oracle is None else self.oracle.threshold
        return RunResult(
            repr(self), l1, l2, rate, budget, plan, paths, activity, suffered,
            self.guarantees(activity),
        )  # fmt: skip

    def _activity(self, l2: FloatArray, active: ArrayLike | None) -> OracleRun | None:
        """Who is active when: from outside, from the oracle, or everybody (None)."""
        if active is None:
            return None
        raise InvalidInputError(
            f"{type(self).__name__} does not know inactive experts; use DeactivationLearner"
        )

    def _vector(self, loss: ArrayLike, which: str) -> FloatArray:
        vector = np.ascontiguousarray(loss, dtype=np.float64)
        if vector.shape != (self.K,):
            raise InvalidInputError(f"{which} losses must have shape ({self.K},)")
        bad = first_outside(vector, 0.0, 1.0)
        if bad >= 0:
            raise InvalidInputError(
                f"{which} losses must lie in [0,1]; expert {bad} is {vector[bad]:.2f}"
            )
        return vector

    def _check_shape(self, losses: FloatArray) -> None:
        if losses.shape[1] != self.K or len(losses) > self.T:
            raise InvalidInputError(
                f"the learner was built for T={self.T} rounds and K={self.K} experts, "
                f"but the losses have shape {losses.shape}; build it with matching T and K"
            )

    def _check_running(self) -> None:
        if self.rounds >= self.T:
            raise ProtocolError(f"all {self.T} rounds are over; call reset to start again")


def outside_activity(active: ArrayLike, T: int, K: int) -> OracleRun:
    """Wrap an activity mask that comes from outside."""
    return OracleRun(check_active(active, T, K), (), (0,))
