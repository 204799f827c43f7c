"""What all learners with two losses have in common: round by round, and as an exact law.

In a game: ``act`` (which expert to play) and ``observe`` (all losses of the round). On recorded
losses: ``plan``, the exact law of the play. ``LossStream`` is the game that uses either.
Source: docs/theory/09-tradeoff.md, "Conventions".
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.online.exponential import first_outside
from counterplay.core.online.state import Stateful
from counterplay.core.online.stored import fresh_twin, require, same_kinds
from counterplay.core.play import Learner
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    check_positive_int,
    check_size,
)
from counterplay.errors import InvalidInputError, ProtocolError
from counterplay.tradeoff.model import (
    MOST_EXPERTS,
    MOST_ROUNDS,
    check_loss_matrix,
    check_losses,
)
from counterplay.tradeoff.oracle import CusumOracle, OracleRun
from counterplay.tradeoff.plan import Plan


@dataclass(frozen=True)
class Losses:
    """What a learner with two losses observes at the end of a round.

    Parameters
    ----------
    primary:
        Primary losses of all experts, a vector of length ``K`` in [0, 1].
    secondary:
        Secondary losses of all experts, likewise.
    active_next:
        Who may be played in the next round, for learners without an oracle of their own.

    Examples
    --------
    >>> from counterplay.tradeoff import EpochLearner
    >>> learner = EpochLearner(horizon=100, K=2, B=10, random_state=0)
    >>> learner.observe(Losses([0.1, 0.9], [0.0, 0.2]))
    >>> learner.rounds
    1
    """

    primary: ArrayLike
    secondary: ArrayLike
    active_next: ArrayLike | None = None


class BicriteriaLearner(Stateful, Learner):
    """Base class of learners that see a primary and a secondary loss of every expert.

    Subclasses know the number of rounds ``horizon`` and of experts ``K`` from their constructor and
    are ready to play at once; ``reset`` starts again.

    Examples
    --------
    >>> from counterplay.tradeoff import EpochLearner
    >>> learner = EpochLearner(horizon=100, K=3, B=10, random_state=0)
    >>> isinstance(learner, BicriteriaLearner), learner.act() in (0, 1, 2)
    (True, True)
    """

    _state: ClassVar[tuple[str, ...]] = ("rounds", "_choice", "_rng")
    _varying: ClassVar[tuple[str, ...]] = ()  # parts whose kind or shape changes in a stream
    uses_secondary: ClassVar[bool] = False
    """Whether the choices depend on the secondary loss."""

    horizon: int
    K: int
    random_state: RandomState
    oracle: CusumOracle | None = None
    rounds: int
    """Rounds seen since the start."""
    _choice: int  # expert of the current round; -1 before it was asked for
    _rng: np.random.Generator

    def _init(self, horizon: int, K: int, random_state: RandomState) -> None:
        self.horizon, self.K = check_positive_int(horizon, "horizon"), check_positive_int(K, "K")
        check_size(self.K, MOST_EXPERTS, "experts")
        check_size(self.horizon, MOST_ROUNDS, "rounds")
        generator(random_state)  # refuses what is no seed
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
        require(0 <= self.rounds <= self.horizon, self, "rounds", f"must be in [0, {self.horizon}]")

    def begin(self, rounds: int) -> None:
        """Refuse a game that is longer than what is left of the horizon."""
        if self.rounds + rounds > self.horizon:
            raise InvalidInputError(
                f"the learner was built for {self.horizon} rounds and has seen {self.rounds}; a "
                f"game of {rounds} rounds is too long, build it with a larger horizon or call reset"
            )

    def act(self, seen: ArrayLike | None = None) -> int:
        """Return the expert to play in this round; asking twice gives the same answer.

        Parameters
        ----------
        seen:
            Who may be played, for learners whose oracle is outside. It must be what was told at
            the end of the last round; in the first round it sets the initial activity.
        """
        self._check_running()
        if seen is not None:
            self._see_activity(np.asarray(seen))
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

    def observe(self, feedback: Losses) -> None:
        """Take in both losses of all experts and end the round."""
        if not isinstance(feedback, Losses):
            raise InvalidInputError(
                f"observe takes Losses(primary, secondary), got {type(feedback).__name__}"
            )
        self.act()
        primary = self._vector(feedback.primary, "primary")
        secondary = self._vector(feedback.secondary, "secondary")
        active_next = feedback.active_next
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
        l1:
            Primary losses of shape ``(n, K)`` with ``n <= horizon``.
        l2:
            Secondary losses, only needed by learners that look at them.
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

    def guarantees(self, activity: OracleRun | None = None) -> dict[str, float]:
        """Return the learner's proven bounds by name, as far as they are determined.

        Parameters
        ----------
        activity:
            Who was active when, for bounds that depend on the number of deactivations.
        """
        return {}

    def _activity(self, l2: FloatArray, active: ArrayLike | None) -> OracleRun | None:
        """Who is active when: from outside, from the oracle, or everybody (None)."""
        if active is None:
            return None
        raise InvalidInputError(
            f"{type(self).__name__} does not know inactive experts; use DeactivationLearner"
        )

    def _history(self, active: BoolArray, before: int) -> OracleRun:
        """What happened to the experts in a play that began after ``before`` rounds."""
        return OracleRun(active, (), (0,))

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
        if losses.shape[1] != self.K or len(losses) > self.horizon:
            raise InvalidInputError(
                f"the learner was built for {self.horizon} rounds and {self.K} experts, "
                f"but the losses have shape {losses.shape}; build it with matching horizon and K"
            )

    def _check_running(self) -> None:
        if self.rounds >= self.horizon:
            raise ProtocolError(f"all {self.horizon} rounds are over; call reset to start again")
