"""The protocol between Principal, Agent and Nature: offers, sessions, plays.

Per round: forecast, policy, recommendation, disclosure, action, state. A mechanism describes how to
offer; ``start`` opens a session that is played round by round and ``run`` plays a whole state
sequence. No mechanism reads the Agent's actions, so a play can be replayed against any Agent.
Source: prot:interaction; spec 07, section A1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.errors import InvalidInputError
from counterplay.core.validation import FloatArray, IntArray, check_int
from counterplay.principal.forecaster import Forecaster
from counterplay.principal.games import PrincipalAgentGame, check_states
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


@dataclass(frozen=True)
class Play:
    """The Principal's side of a finished game: offers and states, before any Agent.

    ``columns`` holds ``y``, ``p_idx``, ``r`` and, if there were forecasts, ``pi``, ``init_idx``,
    ``init_a`` and ``r0`` (best responses to the benchmark policies).
    """

    mechanism: Mechanism
    policies: tuple[Any, ...]
    columns: dict[str, Any] = field(repr=False)
    forecaster: Forecaster | None

    def __len__(self) -> int:
        return len(self.columns["y"])


class Session(ABC):
    """One game in progress: ``offer``, then ``observe`` the state, and again."""

    @abstractmethod
    def view(self, history: IntArray) -> NatureView:
        """Return what Nature may know before it chooses the state of this round."""

    @abstractmethod
    def offer(self) -> Offer:
        """Return the offer of this round; repeated calls return the same one."""

    @abstractmethod
    def observe(self, y: int) -> None:
        """Learn the state and close the round."""


class Mechanism(ABC):
    """Base class of mechanisms.

    Attributes
    ----------
    game, policies, benchmark:
        The stage game, the policies that can be offered and the benchmark policies P0.
    spec, kind:
        The guarantee of the policy oracle, if any, and which theorem applies.
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
    def start(self, horizon: int) -> Session:
        """Open a new game of ``horizon`` rounds."""

    def run(self, states: ArrayLike | Nature, rounds: int | None = None) -> Play:
        """Play against a state sequence, or against a Nature for ``rounds`` rounds."""
        T = _rounds(states, rounds)
        return played(self, self.start(T), states, rounds)


def played(
    mechanism: Mechanism, session: Session, states: ArrayLike | Nature, rounds: int | None = None
) -> Play:
    """Play the rounds of a state sequence or a Nature in an open session."""
    top = mechanism.game.n_states - 1
    y = np.empty(_rounds(states, rounds), dtype=np.int64)
    if not callable(states):
        y[:] = check_states(states, top + 1)
    offers: list[Offer] = []
    for t in range(y.size):
        if callable(states):
            y[t] = check_int(states(session.view(y[:t])), "state chosen by nature", low=0, high=top)
        offers.append(session.offer())
        session.observe(int(y[t]))
    forecaster = getattr(session, "forecaster", None)
    return Play(mechanism, tuple(mechanism.policies), _columns(offers, y), forecaster)


def _rounds(states: ArrayLike | Nature, rounds: int | None) -> int:
    if callable(states):
        if rounds is None:
            raise InvalidInputError("give rounds when the states are chosen by a Nature")
        return check_int(rounds, "rounds", low=1)
    if rounds is not None and rounds != np.size(states):
        raise InvalidInputError(f"rounds is {rounds} but there are {np.size(states)} states")
    return int(np.size(states))


def _columns(offers: Sequence[Offer], y: IntArray) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "y": y,
        "p_idx": np.array([offer.policy_index for offer in offers], dtype=np.int64),
        "r": np.array([offer.recommendation for offer in offers], dtype=np.int64),
    }
    if offers[0].forecast is not None:
        columns["pi"] = np.array([offer.forecast for offer in offers])
        pairs = np.array([offer.optimistic for offer in offers], dtype=np.int64)
        columns["init_idx"], columns["init_a"] = pairs[:, 0], pairs[:, 1]
        columns["r0"] = np.array([offer.benchmark_responses for offer in offers], dtype=np.int64)
    return columns
