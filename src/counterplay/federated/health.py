"""The health of a federation in one look: who is close to leaving, and can the server still move?

Source: Propositions 5.C, 5.D and Lemmas D.6, D.7 in docs/theory/05-defection.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.report import Report
from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.federated.reports import Decision, Reports

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class RoundEvent:
    """What a watcher sees after the server has decided in a round."""

    round: int
    w: FloatArray
    reports: Reports
    decision: Decision


@dataclass(frozen=True, eq=False)
class Health(Report):
    """State of a federation in one round.

    Attributes
    ----------
    ids : array of shape (M,)
        Active agents.
    excess : array of shape (M,)
        ``F_m - eps_m``; an agent leaves at 0.
    predicted : bool array of shape (M,)
        Agents the server treats as about to leave.
    sigma_min : float
        Smallest singular value of the gradients; near 0 the server cannot move freely.
    parallel : tuple (agent, agent, angle in degrees)
        The two agents with the most parallel gradients.
    status : str
        Of the rule: running, converged or stalled.

    Examples
    --------
    >>> from counterplay.defection import (
    ...     ADAGD,
    ...     FederationGame,
    ...     HealthGauge,
    ...     Server,
    ...     instances,
    ...     play,
    ... )
    >>> c, gauge = instances.identical_agents(), HealthGauge()
    >>> server = Server(ADAGD(0.05), c.w0, step_size=0.01, watch=[gauge])
    >>> run = play(server, FederationGame(c.problem, c.eps))
    >>> print(gauge.last.summary())
    stalled: agents 0 and 1 have parallel gradients (0.0 degrees); sigma_min 0
    agent 0: 0.05125 above its target, about to leave
    agent 1: 0.4513 above its target
    """

    round: int
    ids: IntArray
    excess: FloatArray
    predicted: BoolArray
    sigma_min: float
    parallel: tuple[int, int, float] | None
    status: str

    @classmethod
    def of(cls, reports: Reports, decision: Decision, round: int = 0) -> Health:
        """Read the gauge from one round; works with every kind of stack."""
        gram = decision.gram if decision.gram is not None else reports.gradients.gram()
        sigma = math.sqrt(max(float(np.linalg.eigvalsh(gram)[0]), 0.0))
        if sigma <= 1e-7 * math.sqrt(max(float(np.diagonal(gram).max()), 0.0)):
            sigma = 0.0  # below what inner products in float64 resolve
        return cls(
            round,
            reports.ids,
            reports.loss - reports.eps,
            decision.predicted,
            sigma,
            most_parallel(gram, reports.ids),
            decision.status,
        )

    def summary(self) -> str:
        """Return one line for the federation and one per agent."""
        head = f"{self.status}: sigma_min {self.sigma_min:.3g}"
        if self.parallel is not None and self.status == "stalled":
            i, j, angle = self.parallel
            head = (
                f"{self.status}: agents {i} and {j} have parallel gradients "
                f"({angle:.1f} degrees); sigma_min {self.sigma_min:.3g}"
            )
        lines = [
            f"agent {i}: {x:.4g} above its target" + (", about to leave" if p else "")
            for i, x, p in zip(self.ids.tolist(), self.excess.tolist(), self.predicted.tolist())
        ]
        return "\n".join([head, *lines])

    def to_frame(self) -> pd.DataFrame:
        """Return one row per active agent."""
        import pandas as pd

        return pd.DataFrame(
            {
                "round": self.round,
                "agent": self.ids,
                "excess": self.excess,
                "predicted": self.predicted,
                "sigma_min": self.sigma_min,
            }
        )


def most_parallel(gram: FloatArray, ids: IntArray) -> tuple[int, int, float] | None:
    """Return the two agents whose gradients lie closest to one line, and the angle in degrees.

    Examples
    --------
    >>> most_parallel(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [2.0, 0.0, 4.0]]), np.arange(3))
    (0, 2, 0.0)
    """
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    if (norms > 0.0).sum() < 2:
        return None
    safe = np.where(norms > 0.0, norms, np.inf)
    cosines = np.triu(np.abs(gram) / np.outer(safe, safe), k=1)
    i, j = np.unravel_index(int(cosines.argmax()), cosines.shape)
    angle = math.degrees(math.acos(min(float(cosines[i, j]), 1.0)))
    return int(ids[i]), int(ids[j]), angle


class HealthGauge(Report):
    """A watcher that keeps the :class:`Health` of every round and can show it while training.

    Parameters
    ----------
    show : callable, optional
        Called with the health of every ``every``-th round, for example ``print``.
    every : int
        How often to read the gauge.

    Examples
    --------
    >>> from counterplay.defection import FederationGame, SafeStep, Server, instances, play
    >>> c, gauge = instances.random_overparameterised(random_state=0), HealthGauge()
    >>> server = Server(SafeStep(0.05), c.w0, step_size=1.0, watch=[gauge])
    >>> run = play(server, FederationGame(c.problem, c.eps))
    >>> gauge.last.status, bool((gauge.last.excess >= 0.05 - 1e-9).all())
    ('converged', True)
    """

    def __init__(self, show: Callable[[Health], object] | None = None, every: int = 1) -> None:
        self.show, self.every = show, every
        self.rounds: list[Health] = []

    def __call__(self, event: RoundEvent) -> None:
        """Read the gauge for one round."""
        if event.round % self.every and event.decision.status == "running":
            return
        self.read(event.reports, event.decision, event.round)

    def read(self, reports: Reports, decision: Decision, round: int) -> Health:
        """Read the gauge for one round of any engine."""
        health = Health.of(reports, decision, round)
        self.rounds.append(health)
        if self.show is not None:
            self.show(health)
        return health

    @property
    def last(self) -> Health:
        """The latest reading."""
        return self.rounds[-1]

    def __repr__(self) -> str:
        return f"HealthGauge(rounds={len(self.rounds)})"

    def summary(self) -> str:
        """Return the latest reading as text."""
        return self.last.summary() if self.rounds else "no round yet"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per round and active agent."""
        import pandas as pd

        frames = [health.to_frame() for health in self.rounds]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
