"""A worked example: the problem, where to start, the targets, and what must come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.defection.agents import check_eps
from counterplay.defection.problem import FederatedProblem


@dataclass(frozen=True, eq=False)
class Construction:
    """A problem of the theory with its start, its targets and the exact facts about it.

    Use it as ``play(Server(rule, c.w0, step_size=...), FederationGame(c.problem, c.eps))``.

    Attributes
    ----------
    problem : FederatedProblem
        The losses.
    w0 : array of shape (d,)
        Start.
    eps : array of shape (M,)
        Targets.
    expected : mapping
        Facts that a correct implementation reproduces, by name.

    Examples
    --------
    >>> from counterplay.defection import instances
    >>> instances.bad_init_example().expected["smallest_mean_loss"]
    0.5
    """

    problem: FederatedProblem
    w0: FloatArray
    eps: FloatArray
    expected: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "w0", self.problem.check_point(self.w0, "w0"))
        eps = check_eps(self.eps, self.problem.n_agents)
        eps.setflags(write=False)
        object.__setattr__(self, "eps", eps)

    def __repr__(self) -> str:
        return f"Construction({self.problem.name!r}, w0={np.round(self.w0, 4).tolist()[:6]})"
