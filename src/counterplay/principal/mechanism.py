"""What a mechanism is: the learner of a repeated contract.

Per round the Principal discloses an offer (a policy and a recommendation, from a forecast), the
Agent acts, the state is revealed. ``act`` returns the offer, ``observe`` takes the state. No
mechanism reads the Agent's actions, so its side of a game can be replayed against any Agent.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from counterplay.core.play import Learner
from counterplay.core.validation import FloatArray, IntArray
from counterplay.principal.games import PrincipalAgentGame
from counterplay.principal.responses import OracleSpec

Kind: TypeAlias = Literal["stable", "best-response", "other"]


@dataclass(frozen=True)
class Offer:
    """What the Principal discloses in a round, and the forecast behind it (None without one).

    ``benchmark_responses`` are the Agent's best responses to all benchmark policies;
    ``optimistic`` is the optimistic pair (benchmark index, action).
    """

    policy: Any
    policy_index: int
    recommendation: int
    forecast: FloatArray | None = None
    optimistic: tuple[int, int] | None = None
    benchmark_responses: IntArray | None = None


@dataclass(frozen=True)
class NatureView:
    """What an adaptive Nature may use: the past states and the distribution of the offer.

    ``points``, ``weights`` describe the forecast lottery (never the draw); ``gains`` is the mean
    gain vector of an :class:`UnbiasedForecaster`, whose argmin is its worst state; ``offers`` lists
    (probability, policy index, recommendation).
    """

    round: int
    history: IntArray
    points: FloatArray | None
    weights: FloatArray | None
    gains: FloatArray | None
    offers: tuple[tuple[float, int, int], ...]


Nature: TypeAlias = Callable[[NatureView], int]


class Mechanism(Learner):
    """Base class of mechanisms: ``begin``, then ``act`` and ``observe`` in every round.

    Attributes
    ----------
    game:
        The stage game.
    benchmark:
        The benchmark policies P0.
    spec:
        The guarantee of the policy oracle, if any.
    kind:
        Which theorem applies.
    """

    game: PrincipalAgentGame
    benchmark: tuple[Any, ...]
    spec: OracleSpec | None = None
    kind: Kind = "other"

    @property
    @abstractmethod
    def policies(self) -> Sequence[Any]:
        """Policies that can be offered; indices refer to this list."""

    @abstractmethod
    def begin(self, rounds: int) -> None:
        """Forget everything; a new game of ``rounds`` rounds starts."""

    @abstractmethod
    def act(self, seen: Any = None) -> Offer:
        """Return the offer of this round; repeated calls return the same one."""

    @abstractmethod
    def observe(self, feedback: int) -> None:
        """Learn the state and close the round."""

    @abstractmethod
    def view(self, history: IntArray) -> NatureView:
        """Return what Nature may know before it chooses the state of this round."""
