"""What the agents send in a round, what the server decides, and what a rule remembers.

All engines (NumPy, torch, Flower) fill :class:`Reports`, call ``rule.decide(reports, eta, state)``
and add ``decision.step`` to the model.
Source: Alg. alg:icfo, spec 05 sections 2.5 and 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Sized
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.defection.stack import Stack, Vector
from counterplay.errors import InvalidInputError

RuleStatus = Literal["running", "converged", "stalled"]


@dataclass(frozen=True, eq=False)
class Reports:
    """What the agents that still take part sent in one round, at the model ``w``.

    Parameters
    ----------
    loss : array of shape (M,)
        Full local loss ``F_m(w)``.
    gradients : Stack of M rows
        Full-batch gradients ``G_m(w)``.
    eps : array of shape (M,)
        Reported targets: agent ``m`` is expected to leave once its loss is at most ``eps_m``.
    ids : array of shape (M,), optional
        Names of the agents (integers), default ``0..M-1``; keys of the rule's memory.
    updates : Stack of M rows, optional
        Mean gradients along the local steps, ``U_m = (w - w_m) / eta``; None for one full step.
    loss_se : array of shape (M,), optional
        Standard error of each reported loss, for rules with a stochastic margin.
    leaving : bool array of shape (M,), optional
        Agents predicted to leave whatever they report (see ``GroupPredictor``).
    """

    loss: FloatArray
    gradients: Stack
    eps: FloatArray
    ids: IntArray = field(default=None)  # type: ignore[arg-type]  # filled below
    updates: Stack | None = None
    loss_se: FloatArray | None = None
    leaving: BoolArray | None = None

    def __post_init__(self) -> None:
        M = len(self.loss)
        if M == 0:
            raise InvalidInputError("a round needs the report of at least one agent")
        if self.ids is None:
            object.__setattr__(self, "ids", np.arange(M))
        parts: dict[str, Sized | None] = {
            "gradients": self.gradients,
            "eps": self.eps,
            "ids": self.ids,
            "updates": self.updates,
            "loss_se": self.loss_se,
            "leaving": self.leaving,
        }
        for name, value in parts.items():
            if value is not None and len(value) != M:
                raise InvalidInputError(f"{name} has {len(value)} rows but {M} agents sent a loss")

    @property
    def moves(self) -> Stack:
        """The vectors to aggregate: local updates where sent, gradients otherwise."""
        return self.gradients if self.updates is None else self.updates


@dataclass(frozen=True, eq=False)
class Decision:
    """The server's move of one round.

    Attributes
    ----------
    step : vector
        What to add to the model, the step size included; zero when the rule has stopped.
    status : {"running", "converged", "stalled"}
        ``converged``: the rule's own stopping condition holds, keep the model.
        ``stalled``: no progress is possible without losing somebody, keep the model.
    case : int
        Which branch was taken (ADA-GD: 1, 2, 3 as in the algorithm; 0 for rules without cases).
    predicted : bool array of shape (M,)
        The agents predicted to leave, ``D``.
    gram : array of shape (M, M), optional
        Inner products of the gradients, where the rule needed them.
    """

    step: Vector
    status: RuleStatus
    case: int
    predicted: BoolArray
    gram: FloatArray | None = None

    @cached_property
    def sigma_min(self) -> float:
        """Smallest singular value of the gradients; nan when the rule did not look at them."""
        if self.gram is None:
            return math.nan
        return math.sqrt(max(float(np.linalg.eigvalsh(self.gram)[0]), 0.0))


@dataclass
class RuleState:
    """What a rule remembers between rounds, one number per agent: plain data, safe to store.

    ``per_agent`` holds the weights of ``MWFed`` and the first losses ``F_m(w_0)`` of ``SafeStep``.

    Examples
    --------
    >>> state = RuleState()
    >>> state.recall(np.array([4, 7]), np.array([0.5, 0.25])).tolist()
    [0.5, 0.25]
    >>> state.recall(np.array([7]), np.array([9.0])).tolist()
    [0.25]
    """

    round: int = 0
    per_agent: dict[int, float] = field(default_factory=dict)

    def recall(self, ids: IntArray, default: FloatArray) -> FloatArray:
        """Return the remembered numbers of ``ids``; agents seen first get their default."""
        return np.array([self.per_agent.setdefault(int(i), float(x)) for i, x in zip(ids, default)])

    def store(self, ids: IntArray, values: FloatArray) -> None:
        """Remember one number per agent."""
        self.per_agent.update((int(i), float(x)) for i, x in zip(ids, values))


@runtime_checkable
class Aggregator(Protocol):
    """A server rule. Stateless itself: the memory of a run is the :class:`RuleState`."""

    def decide(self, reports: Reports, eta: float, state: RuleState) -> Decision:
        """Return the step for these reports and update ``state``."""
