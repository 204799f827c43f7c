"""ADA-GD: predict who is about to leave and move orthogonally to their gradients.

An agent is predicted to leave if one normalised step of size ``eta`` could bring its loss down to
``eps + delta``. The server then follows the sum of the other gradients, projected away from the
gradients of the predicted leavers; convexity keeps their losses from falling.
Source: Algorithm 5.2, Theorem 5.2, docs/theory/05-defection.md, "ADA-GD (Algorithm 5.2)".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import BoolArray, FloatArray, check_choice, check_real
from counterplay.federated.projection import project_out
from counterplay.federated.reports import Decision, Reports, RuleState, RuleStatus
from counterplay.federated.stack import Stack, Vector


@checked
@dataclass(frozen=True)
class ADAGD:
    """Adaptive gradient descent that nobody leaves.

    Use it when the losses are convex and gradients are exact; :class:`SafeStep` needs fewer rounds.

    Parameters
    ----------
    delta : float
        Safety margin: agents are kept above ``eps_m + delta``.
    variant : {"anchored", "naive", "exact"}
        How local steps enter, where agents send them. ``"anchored"``: predict with the larger of
        gradient and update, project away from full gradients, aggregate updates. ``"naive"``:
        updates everywhere (does not protect). ``"exact"``: gradients everywhere. Without local
        steps all three are the algorithm of the theorem.
    z : float
        Adds ``z`` standard errors of the reported loss to ``delta``.
    stall_tol : float
        Relative size of the projected direction that counts as zero.

    Guarantees
    ----------
    Convex losses, exact gradients: nobody ever leaves, for any step size, and
    ``F_m(w_t) >= min(F_m(w_0), eps_m + delta)``. With ``eta`` from ``adagd_step_size`` and iterates
    that stay bounded under minimal heterogeneity it stops with
    ``eps_m + delta < F_m <= eps_m + 2 delta`` for every agent (Theorem 5.2, repaired).
    A ``stalled`` status is a violation of minimal heterogeneity.

    Examples
    --------
    Agent 1 is about to leave, so the step is orthogonal to its gradient (1, -1).

    >>> from counterplay.federated.stack import NumpyStack
    >>> gradients = NumpyStack([[0.0, 1.0], [1.0, -1.0]])
    >>> reports = Reports(np.array([1.0, 0.2]), gradients, eps=np.full(2, 0.1))
    >>> decision = ADAGD(delta=0.1).decide(reports, 0.25, RuleState())
    >>> decision.case, decision.predicted.tolist(), decision.step.tolist()
    (1, [False, True], [-0.125, -0.125])

    References
    ----------
    Algorithm 5.2, Theorem 5.2; docs/theory/05-defection.md, "ADA-GD (Algorithm 5.2)".
    """

    delta: float
    variant: Literal["anchored", "naive", "exact"] = "anchored"
    z: float = 0.0
    stall_tol: float = 1e-9

    def __post_init__(self) -> None:
        check_real(self.delta, "delta", low=0.0)
        check_choice(self.variant, "variant", ("anchored", "naive", "exact"))
        check_real(self.z, "z", low=0.0)
        check_real(self.stall_tol, "stall_tol", low=0.0)

    @checked
    def decide(self, reports: Reports, step_size: float, state: RuleState) -> Decision:
        """Return the step of Algorithm 5.2."""
        state.round += 1
        anchors, moves = self._stacks(reports)
        gram = anchors.gram()
        leaving = self._predict(reports, step_size, gram, moves)
        M = len(leaving)
        if leaving.all():
            return Decision(moves.combine(np.zeros(M)), "converged", 3, leaving, gram)
        if not leaving.any():
            u, case, size = moves.combine(reports.bounded(np.full(M, 1.0 / M))), 2, 0.0
        else:
            target = self._others(reports, moves, leaving)
            u, case = project_out(anchors.rows(leaving), target), 1
            size = math.sqrt(moves.dot(target, target))
        step, status = self._capped(moves, u, step_size, size)
        return Decision(step, status, case, leaving, gram)

    def _stacks(self, reports: Reports) -> tuple[Stack, Stack]:
        """The vectors to predict with and project from, and the vectors to aggregate."""
        if self.variant == "exact" or reports.updates is None:
            return reports.gradients, reports.gradients
        anchors = reports.updates if self.variant == "naive" else reports.gradients
        return anchors, reports.updates

    def _predict(self, reports: Reports, eta: float, gram: FloatArray, moves: Stack) -> BoolArray:
        """``D``: agents that one step of length ``eta`` could bring to ``eps + delta``."""
        squares = np.diagonal(gram)
        if self.variant == "anchored" and reports.updates is not None:
            squares = np.maximum(squares, np.diagonal(moves.gram()))
        margin: float | FloatArray = self.delta
        if reports.loss_se is not None and self.z > 0.0:
            margin = self.delta + self.z * reports.loss_se
        leaving = reports.loss - eta * np.sqrt(squares) <= reports.eps + margin
        return leaving if reports.leaving is None else leaving | reports.leaving

    def _others(self, reports: Reports, moves: Stack, leaving: BoolArray) -> Vector:
        """The sum, not the mean, of what the parties outside ``D`` sent."""
        return moves.combine(reports.bounded((~leaving).astype(np.float64)))

    def _capped(
        self, moves: Stack, u: Vector, eta: float, size: float
    ) -> tuple[Vector, RuleStatus]:
        """``-eta * min(|u|, 1) * u / |u|``, or no step at all when ``u`` is only rounding."""
        length = math.sqrt(moves.dot(u, u))
        if length <= self.stall_tol * max(1.0, size):
            return u * 0.0, "stalled"
        return u * (-eta * min(length, 1.0) / length), "running"
