"""What the parties send in a round, what the server decides, and what a rule remembers.

Every engine (NumPy problems, many seeds at once, parties in this process, Flower) fills
:class:`Reports`, calls ``rule.decide(reports, step_size, state)`` and adds ``decision.step`` to the
model. Source: Algorithm 5.1, see docs/theory/05-defection.md.
"""

from __future__ import annotations

import math
from collections.abc import Sized
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.federated.stack import Stack, Vector

RuleStatus = Literal["running", "converged", "stalled"]


@dataclass(frozen=True, eq=False)
class Caution:
    """How far the bounds of a round can be trusted, one entry per party.

    Parameters
    ----------
    distance :
        ``|w - v_m|`` from the model of the latest answer.
    curvature :
        ``H_m`` or its estimate; 0 for convex losses.
    noise :
        Limit of the error of the gradient; 0 for exact gradients.
    drift :
        What the bounds of ordinary clients lack per unit of distance, learned from their answers.
    free :
        Parties that are not protected any more.
    """

    distance: FloatArray
    curvature: FloatArray
    noise: FloatArray
    drift: FloatArray
    free: BoolArray

    def slack(self, rho: float) -> FloatArray:
        """What to subtract from the bounds so that they hold after a step of length ``rho``."""
        far = self.distance + rho
        return np.asarray(
            (0.5 * self.curvature * far + self.noise) * far + self.drift * self.distance
        )

    @cached_property
    def certain(self) -> bool:
        """Whether the bounds hold as they are."""
        return not (self.curvature.any() or self.noise.any() or self.drift.any())


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class Reports:
    """What the server knows of the parties that still take part, at the model ``w``.

    Use it to call a rule of your own outside of a run.

    Parameters
    ----------
    loss : array of shape (M,)
        Full local loss ``F_m(w)``; for a party that was not asked the bound of its latest answer.
    gradients : Stack of M rows
        Full-batch gradients ``G_m(w)``; for a party that was not asked its latest one.
    eps : array of shape (M,)
        Reported targets: party ``m`` is expected to leave once its loss is at most ``eps_m``; nan
        where a party has none.
    ids : array of shape (M,), optional
        Numbers of the parties, default ``0..M-1``; keys of the rule's memory.
    updates : Stack of M rows, optional
        Mean gradients along the local steps, ``U_m = (w - w_m) / step_size``; None for one full
        step.
    loss_se : array of shape (M,), optional
        Standard error of each reported loss, for rules with a stochastic margin.
    leaving : bool array of shape (M,), optional
        Parties predicted to leave whatever they report (see ``GroupPredictor``).
    steps : array of shape (M,), optional
        Local steps behind each update, where the rule shared them out (``MWFed``).
    influence : array of shape (M,), optional
        Factor in (0, 1] of each party in means and sums; shortens vectors that are far too long.
    caution : Caution, optional
        How far ``loss`` can be trusted as a bound; None where everybody was asked.

    Examples
    --------
    >>> from counterplay.federated.stack import NumpyStack
    >>> reports = Reports(np.array([1.0, 3.0]), NumpyStack([[1.0], [2.0]]), np.zeros(2))
    >>> reports.ids.tolist()
    [0, 1]

    References
    ----------
    "The protocol with rational agents (Algorithm 5.1)", see docs/theory/05-defection.md.
    """

    loss: FloatArray
    gradients: Stack
    eps: FloatArray
    ids: IntArray = field(default=None)  # type: ignore[arg-type]  # filled below
    updates: Stack | None = None
    loss_se: FloatArray | None = None
    leaving: BoolArray | None = None
    steps: IntArray | None = None
    influence: FloatArray | None = None
    caution: Caution | None = None

    def __post_init__(self) -> None:
        M = len(self.loss) if self.loss.ndim == 1 else 0
        if M == 0:
            raise InvalidInputError("a round needs the report of at least one party")
        if self.ids is None:
            object.__setattr__(self, "ids", np.arange(M))
        names = "gradients eps ids updates loss_se leaving steps influence"
        for name in names.split():
            value: Sized | None = getattr(self, name)
            if getattr(value, "ndim", 1) != 1:
                raise InvalidInputError(f"{name} must be one row per party")
            if value is not None and len(value) != M:
                raise InvalidInputError(f"{name} has {len(value)} rows but {M} parties sent a loss")

    @property
    def protected(self) -> BoolArray:
        """The parties that a step must not lose."""
        if self.caution is None:
            return np.ones(len(self.loss), dtype=bool)
        return ~self.caution.free

    @property
    def certain(self) -> bool:
        """Whether ``loss`` bounds the loss of everybody after any step, to first order."""
        return self.caution is None or self.caution.certain

    def slack(self, rho: float) -> FloatArray | float:
        """What the bounds need beyond first order for a step of at most this length."""
        return 0.0 if self.caution is None else self.caution.slack(rho)

    @property
    def moves(self) -> Stack:
        """The vectors to aggregate: local updates where sent, gradients otherwise."""
        return self.gradients if self.updates is None else self.updates

    def bounded(self, weights: FloatArray) -> FloatArray:
        """Return weights of the parties in a mean or sum, times their influence."""
        return weights if self.influence is None else weights * self.influence


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class Decision:
    """The server's move of one round.

    What :meth:`Rule.decide` returns.

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
        The parties predicted to leave, ``D``.
    gram : array of shape (M, M), optional
        Inner products of the gradients, where the rule needed them.
    urgent : bool array of shape (M,), optional
        Parties whose bound is too weak for a full step: ask them next.

    Examples
    --------
    >>> from counterplay.federated import FedAvg
    >>> from counterplay.federated.stack import NumpyStack
    >>> reports = Reports(np.array([1.0, 3.0]), NumpyStack([[1.0], [2.0]]), np.zeros(2))
    >>> decision = FedAvg().decide(reports, 1.0, RuleState())
    >>> decision.step.tolist(), decision.status
    ([-1.5], 'running')

    References
    ----------
    "The protocol with rational agents (Algorithm 5.1)", see docs/theory/05-defection.md.
    """

    step: Vector
    status: RuleStatus
    case: int
    predicted: BoolArray
    gram: FloatArray | None = None
    urgent: BoolArray | None = None

    @cached_property
    def sigma_min(self) -> float:
        """Smallest singular value of the gradients; nan when the rule did not look at them."""
        if self.gram is None:
            return math.nan
        return math.sqrt(max(float(np.linalg.eigvalsh(self.gram)[0]), 0.0))


@checked
@dataclass
class RuleState:
    """What a rule remembers between rounds, one number per party: plain data, safe to store.

    ``per_party`` holds the logarithms of the weights of ``MWFed`` and the first losses
    ``F_m(w_0)`` of ``SafeStep``.

    Parameters
    ----------
    round:
        Number of the last round.
    per_party:
        The number remembered for each party.

    Examples
    --------
    >>> state = RuleState()
    >>> state.recall(np.array([4, 7]), np.array([0.5, 0.25])).tolist()
    [0.5, 0.25]
    >>> state.recall(np.array([7]), np.array([9.0])).tolist()
    [0.25]

    References
    ----------
    "The protocol with rational agents (Algorithm 5.1)", see docs/theory/05-defection.md.
    """

    round: int = 0
    per_party: dict[int, float] = field(default_factory=dict)

    def recall(self, ids: IntArray, default: FloatArray) -> FloatArray:
        """Return the remembered numbers of ``ids``; parties seen first get their default."""
        return np.array([self.per_party.setdefault(int(i), float(x)) for i, x in zip(ids, default)])

    def store(self, ids: IntArray, values: FloatArray) -> None:
        """Remember one number per party."""
        self.per_party.update((int(i), float(x)) for i, x in zip(ids, values))


@runtime_checkable
class Rule(Protocol):
    """A server rule. Stateless itself: the memory of a run is the :class:`RuleState`.

    A rule with ``protects = True`` decides from the latest answer of every party that remains, one
    without from those who answered in this round.

    Examples
    --------
    >>> from counterplay.federated import FedAvg
    >>> isinstance(FedAvg(), Rule)
    True

    References
    ----------
    "The protocol with rational agents (Algorithm 5.1)", see docs/theory/05-defection.md.
    """

    def decide(self, reports: Reports, step_size: float, state: RuleState) -> Decision:
        """Return the step for these reports and update ``state``."""
