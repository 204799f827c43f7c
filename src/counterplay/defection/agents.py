"""Agents who decide for themselves when to leave.

The thesis' agent leaves for good the first time the broadcast model satisfies it. The others model
what real parties do: never leave, doubt their own estimate, lie about their target, look only at
published models, or weigh the value of the model against the cost of the rounds.
Source: Appendix D.3; docs/theory/05-defection.md, "Other behaviours".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_float_array,
    check_int,
    check_positive_int,
    check_real,
    shorten,
)
from counterplay.errors import InvalidInputError

MOST_AGENTS = 1_000_000


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class AgentView:
    """What a group of agents knows when it decides; arrays have one entry per agent."""

    loss: FloatArray
    """Loss of the model just received."""
    eps: FloatArray
    """True targets."""
    round: int
    """Number of the round, from 1: the model received is ``w_{round-1}``."""
    public_loss: FloatArray
    """Loss of the last published model."""
    n_samples: FloatArray
    """Local sample sizes (infinite if unknown)."""


@checked
@dataclass(frozen=True)
class ThresholdAgent:
    """Leaves for good once its loss is at most its target; with target 0 it never leaves.

    Use it as the default: the rational agent of the theory.

    Guarantees
    ----------
    The comparison is inclusive, ``F <= eps``. Leaving at the first satisfying model is optimal
    while the cost of the rounds so far is below the value of a good model.

    Examples
    --------
    >>> view = AgentView(np.array([0.1, 0.2]), np.array([0.1, 0.1]), 1, np.ones(2), np.ones(2))
    >>> ThresholdAgent().decide(view).tolist()
    [True, False]
    """

    @checked
    def decide(self, view: AgentView) -> BoolArray:
        """Return who leaves."""
        return (view.loss <= view.eps) & (view.eps > 0.0)

    def reported(self, eps: float) -> float:
        """Return the target that the agent tells the server."""
        return eps


@checked
@dataclass(frozen=True)
class IrrationalAgent(ThresholdAgent):
    """Never leaves; a rule is convergent if it works when all agents are like this.

    Use it to see what training would achieve without any defection.

    Examples
    --------
    >>> view = AgentView(np.zeros(1), np.ones(1), 1, np.zeros(1), np.ones(1))
    >>> IrrationalAgent().decide(view).tolist()
    [False]

    References
    ----------
    Appendix D.3; docs/theory/05-defection.md, "Other behaviours".
    """

    @checked
    def decide(self, view: AgentView) -> BoolArray:
        """Return False for everybody."""
        return np.zeros(len(view.loss), dtype=bool)


@checked
@dataclass(frozen=True)
class UnderconfidentAgent(ThresholdAgent):
    """Leaves only when its estimated loss plus ``c / sqrt(N)`` is at most its target.

    Use it for parties with few samples who allow for their own estimation error.

    Parameters
    ----------
    c : float
        Width of the confidence margin.

    Examples
    --------
    >>> view = AgentView(np.full(2, 0.1), np.full(2, 0.2), 1, np.ones(2), np.array([4.0, 400.0]))
    >>> UnderconfidentAgent(1.0).decide(view).tolist()
    [False, True]

    References
    ----------
    Appendix D.3; docs/theory/05-defection.md, "Other behaviours".
    """

    c: float = 1.0

    def __post_init__(self) -> None:
        check_real(self.c, "c", low=0.0)

    @checked
    def decide(self, view: AgentView) -> BoolArray:
        """Return who is satisfied with confidence."""
        return (view.loss + self.c / np.sqrt(view.n_samples) <= view.eps) & (view.eps > 0.0)


@checked
@dataclass(frozen=True)
class MisreportingAgent(ThresholdAgent):
    """Tells the server a smaller target than it has, and leaves at the true one.

    Use it to see what a lie gains the liar and costs the others.

    Parameters
    ----------
    eps_reported : float
        What the server is told.

    Examples
    --------
    >>> RationalAgent(0.5, behaviour=MisreportingAgent(0.1)).reported
    0.1

    References
    ----------
    Appendix D.3; docs/theory/05-defection.md, "Other behaviours".
    """

    eps_reported: float = 0.0

    def __post_init__(self) -> None:
        check_real(self.eps_reported, "eps_reported", low=0.0)

    def reported(self, eps: float) -> float:
        """Return the lie."""
        return self.eps_reported


@checked
@dataclass(frozen=True)
class BetaUser(ThresholdAgent):
    """Leaves when the last published model satisfies it; models are published now and then.

    Use it for parties that only test releases.

    Parameters
    ----------
    publish_every : int
        The models ``w_0, w_k, w_2k, ...`` are published.

    Examples
    --------
    >>> view = AgentView(np.zeros(1), np.full(1, 0.1), 3, np.full(1, 0.7), np.ones(1))
    >>> BetaUser(publish_every=2).decide(view).tolist()
    [False]

    References
    ----------
    Appendix D.3; docs/theory/05-defection.md, "Other behaviours".
    """

    publish_every: int = 1

    def __post_init__(self) -> None:
        check_positive_int(self.publish_every, "publish_every")

    @checked
    def decide(self, view: AgentView) -> BoolArray:
        """Return who is satisfied by the published model."""
        return (view.public_loss <= view.eps) & (view.eps > 0.0)


@checked
@dataclass(frozen=True)
class UtilityAgent(ThresholdAgent):
    """Values a good model at ``V`` and pays ``C`` per round.

    Use it to see when staying stops to pay: after ``V / C`` rounds a model is not worth its cost.

    Parameters
    ----------
    V : float
        Value of a good model.
    C : float
        Cost per round, ``0 < C < V``.
    gives_up : bool
        Also leave, unsatisfied, once the cost of the rounds exceeds ``V``.

    Examples
    --------
    >>> view = AgentView(np.ones(1), np.full(1, 0.1), 12, np.ones(1), np.ones(1))
    >>> UtilityAgent(1.0, 0.1, gives_up=True).decide(view).tolist()
    [True]

    References
    ----------
    Proposition 5.J; docs/theory/05-defection.md.
    """

    V: float = 1.0
    C: float = 0.001
    gives_up: bool = False

    def __post_init__(self) -> None:
        check_real(self.V, "V", low=0.0, open_low=True)
        check_real(self.C, "C", low=0.0, high=self.V, open_low=True, open_high=True)

    @checked
    def decide(self, view: AgentView) -> BoolArray:
        """Return who is satisfied or has had enough."""
        satisfied = super().decide(view)
        if self.gives_up and self.C * (view.round - 1) > self.V:
            return np.ones_like(satisfied)
        return satisfied


@checked
@dataclass(frozen=True)
class RationalAgent:
    """One party: its true target, how it decides, and what it reports.

    Use a list of these in place of plain targets when parties differ in more than the target.

    Parameters
    ----------
    eps_true : float
        Loss with which the party is satisfied; 0 for "never".
    n_samples : float
        Local sample size, for :class:`UnderconfidentAgent`.
    behaviour : ThresholdAgent or one of its relatives
        The decision rule.

    Examples
    --------
    >>> RationalAgent(0.2).reported
    0.2

    References
    ----------
    "Other behaviours", see docs/theory/05-defection.md.
    """

    eps_true: float
    n_samples: float = math.inf
    behaviour: ThresholdAgent = field(default_factory=ThresholdAgent)

    def __post_init__(self) -> None:
        check_real(self.eps_true, "eps_true", low=0.0)
        if not self.n_samples > 0:
            raise InvalidInputError(f"n_samples must be positive, got {self.n_samples}")

    @property
    def reported(self) -> float:
        """The target that the server is told: normally the truth."""
        return self.behaviour.reported(self.eps_true)


Agents = float | ArrayLike | RationalAgent | Sequence[RationalAgent]


@checked
class AgentPool:
    """All agents of a run; agents with the same behaviour decide together.

    Examples
    --------
    >>> pool = AgentPool.of([0.1, 0.3], 2)
    >>> pool.decide(np.array([0.2, 0.2]), 1).tolist()
    [False, True]
    """

    def __init__(self, agents: Sequence[RationalAgent]) -> None:
        self.agents = tuple(agents)
        self.eps = np.array([a.eps_true for a in agents])
        self.reported = np.array([a.reported for a in agents])
        self.n_samples = np.array([a.n_samples for a in agents])
        behaviours = list(dict.fromkeys(a.behaviour for a in agents))
        self._groups: list[tuple[ThresholdAgent, IntArray]] = [
            (b, np.flatnonzero([a.behaviour == b for a in agents])) for b in behaviours
        ]
        self._published: dict[ThresholdAgent, FloatArray] = {}
        self._plain = len(behaviours) == 1 and type(behaviours[0]) is ThresholdAgent
        self._satisfiable = self.eps > 0.0

    @classmethod
    def of(cls, agents: Agents, n_agents: int) -> AgentPool:
        """Build the pool from targets (one number or one per agent) or from agents."""
        check_int(n_agents, "n_agents", low=1, high=MOST_AGENTS)
        if isinstance(agents, RationalAgent):
            return cls([agents] * n_agents)
        if isinstance(agents, Sequence) and any(isinstance(a, RationalAgent) for a in agents):
            if len(agents) != n_agents or not all(isinstance(a, RationalAgent) for a in agents):
                raise InvalidInputError(f"give one RationalAgent for each of {n_agents} agents")
            return cls([a for a in agents if isinstance(a, RationalAgent)])
        return cls([RationalAgent(float(e)) for e in check_eps(agents, n_agents)])  # type: ignore[arg-type]  # numbers are left

    def __repr__(self) -> str:
        return f"AgentPool({len(self.agents)} agents)"

    def decide(self, loss: FloatArray, round: int) -> BoolArray:
        """Return who leaves on receiving the model with these losses, gone or not."""
        if not isinstance(loss, np.ndarray) or loss.shape != self.eps.shape:
            raise InvalidInputError(
                f"loss must be an array of one number per agent, got {shorten(loss, 100)}"
            )
        if self._plain:
            return (loss <= self.eps) & self._satisfiable
        leave = np.zeros(len(self.eps), dtype=bool)
        for behaviour, ids in self._groups:
            every = behaviour.publish_every if isinstance(behaviour, BetaUser) else 1
            if (round - 1) % every == 0:
                self._published[behaviour] = loss[ids]
            public = self._published[behaviour]
            view = AgentView(loss[ids], self.eps[ids], round, public, self.n_samples[ids])
            leave[ids] = behaviour.decide(view)
        return leave


def check_eps(eps: ArrayLike, n_agents: int) -> FloatArray:
    """Return targets as an array of shape (M,): finite and not negative."""
    values = check_float_array(eps, "eps")
    if values.ndim > 1 or (values.ndim == 1 and len(values) != n_agents):
        raise InvalidInputError(
            f"eps must be one number or one per agent, shape ({n_agents},), got {values.shape}"
        )
    if (values < 0.0).any():
        worst = int(np.argmin(values))
        raise InvalidInputError(f"eps must not be negative; agent {worst} has {values.min():g}")
    return np.broadcast_to(values, (n_agents,)).copy()


@checked
def underconfidence_threshold(eps: ArrayLike, c: float, n_samples: ArrayLike) -> FloatArray:
    """Return the server's target on the estimated loss for agents that allow for their error.

    An agent that leaves when ``F_hat + c / sqrt(N) <= eps`` is satisfied exactly when ``F_hat`` is
    at most ``eps - c / sqrt(N)``; larger targets protect as well, but end with a worse model.

    Examples
    --------
    >>> underconfidence_threshold(0.25, 1.0, [16, 100]).round(12).tolist()
    [0.0, 0.15]
    """
    width = check_real(c, "c", low=0.0)
    sizes = check_float_array(n_samples, "n_samples")
    if (sizes <= 0).any():
        raise InvalidInputError("n_samples must be positive")
    return np.asarray(np.maximum(check_float_array(eps, "eps") - width / np.sqrt(sizes), 0.0))


@checked
def stopping_utilities(loss: ArrayLike, eps: float, V: float, C: float) -> FloatArray:
    """Return the payoff of leaving with each model of a trajectory: ``V 1[F <= eps] - C r``.

    Examples
    --------
    >>> stopping_utilities([0.5, 0.1, 0.3], eps=0.2, V=1.0, C=0.25).tolist()
    [0.0, 0.75, -0.5]

    References
    ----------
    Proposition 5.J; docs/theory/05-defection.md, "Other behaviours".
    """
    values = check_float_array(loss, "loss", ndim=1)
    V = check_real(V, "V", low=0.0, open_low=True)
    C = check_real(C, "C", low=0.0, open_low=True)
    satisfied = values <= check_real(eps, "eps", low=0.0)
    return V * satisfied - C * np.arange(len(values))


@checked
@dataclass(frozen=True)
class GroupPredictor:
    """Predict that the other members of a leaver's group leave next, without their losses.

    Use it when agents of one kind (same region, same device) have similar data and targets.

    Parameters
    ----------
    group : sequence of hashable, one per agent
        Group of every agent; None for agents without one.

    Guarantees
    ----------
    The server moves orthogonally to the gradients of everybody it predicts to leave, so a group
    that has lost one member keeps the others, as far as gradients allow.

    Examples
    --------
    Agent 0 has left, so agent 2 of the same group counts as leaving.

    >>> predictor = GroupPredictor(("north", "south", "north"))
    >>> predictor.leaving(np.array([1, 2]), defect_round=np.array([3, -1, -1])).tolist()
    [False, True]

    References
    ----------
    Appendix D.3; docs/theory/05-defection.md, "From the protocol to a running federation".
    """

    group: tuple[str | None, ...]

    def __init__(self, group: Sequence[str | None]) -> None:
        object.__setattr__(self, "group", tuple(group))
        if not self.group:
            raise InvalidInputError("group needs one entry per agent")

    @checked
    def leaving(self, ids: IntArray, defect_round: IntArray) -> BoolArray:
        """Return which of the agents ``ids`` share a group with somebody who has left."""
        agents = len(self.group)
        if np.shape(defect_round) != (agents,):
            raise InvalidInputError(
                f"group has {agents} entries, defect_round has shape {np.shape(defect_round)}"
            )
        if np.ndim(ids) != 1 or not all(0 <= i < agents for i in ids):
            raise InvalidInputError(f"ids must be agents between 0 and {agents - 1}")
        gone = {g for g, r in zip(self.group, defect_round) if r >= 0 and g is not None}
        return np.array([self.group[int(i)] in gone for i in ids], dtype=bool)
