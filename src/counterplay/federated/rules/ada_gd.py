"""ADA-GD: predict who is about to leave and move orthogonally to their gradients.

An agent is predicted to leave if one normalised step of size ``eta`` could bring its loss down to
``eps + delta``. The server then follows the sum of the other gradients, projected away from the
gradients of the predicted leavers; convexity keeps their losses from falling.
Source: Algorithm 5.2, Theorem 5.2, docs/theory/05-defection.md, "ADA-GD (Algorithm 5.2)".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import BoolArray, FloatArray, check_choice, check_real
from counterplay.federated.projection import project_out
from counterplay.federated.reports import Decision, Reports, RuleState, RuleStatus
from counterplay.federated.stack import Stack, Vector

HALVINGS = 12  # of the step size, before the model is held


@checked
@dataclass(frozen=True)
class ADAGD:
    """Adaptive gradient descent (ADA-GD), under which nobody leaves.

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
    A ``stalled`` status is a violation of minimal heterogeneity, or a step size with which
    everybody is predicted to leave before all are within ``eps_m + 2 delta``.

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

    protects: ClassVar[bool] = True

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
        if leaving.all():
            nothing = moves.combine(np.zeros(len(leaving)))
            close = (reports.loss <= reports.eps + 2.0 * self._margin(reports)).all()
            status: RuleStatus = "converged" if close else "stalled"
            return Decision(nothing, status, 3, leaving, gram)
        if reports.certain:
            step, status, case = self._step(reports, step_size, leaving & reports.protected)
            return Decision(step, status, case, leaving, gram)
        return self._careful(reports, step_size, gram, state)

    def _step(
        self, reports: Reports, eta: float, leaving: BoolArray
    ) -> tuple[Vector, RuleStatus, int]:
        """Cases 1 and 2: away from the gradients of the predicted leavers, or along the mean."""
        anchors, moves = self._stacks(reports)
        if not leaving.any():
            mean = moves.combine(reports.bounded(np.full(len(leaving), 1.0 / len(leaving))))
            return *self._capped(moves, mean, eta, 0.0), 2
        target = self._others(reports, moves, leaving)
        u = project_out(anchors.rows(leaving), target)
        return *self._capped(moves, u, eta, math.sqrt(moves.dot(target, target))), 1

    def _careful(
        self, reports: Reports, step_size: float, gram: FloatArray, state: RuleState
    ) -> Decision:
        """Theorem 23.C: bounds that need a slack, so the step is halved until they hold."""
        moves = self._stacks(reports)[1]
        first = state.recall(reports.ids, reports.loss)
        room = reports.loss - reports.eps - np.minimum(self.delta, first - reports.eps)
        urgent = reports.protected & (room < reports.slack(step_size))
        eta = step_size
        for _ in range(HALVINGS):
            slack = reports.slack(eta)
            leaving = self._predict(reports, eta, gram, moves, slack) & reports.protected
            # A step does not change the bound of a leaver; its slack must fit all the same.
            if not leaving.all() and (room - slack)[leaving].min(initial=0.0) >= 0.0:
                step, status, case = self._step(reports, eta, leaving)
                return Decision(step, status, case, leaving, gram, urgent)
            eta /= 2.0
        nothing = moves.combine(np.zeros(len(room)))
        weak = reports.protected & (room < reports.slack(0.0))
        old = weak & (reports.caution.distance > 0.0) if reports.caution else weak
        held: RuleStatus = "running" if old.any() else "stalled"
        return Decision(nothing, held, 1, weak, gram, old)

    def _stacks(self, reports: Reports) -> tuple[Stack, Stack]:
        """The vectors to predict with and project from, and the vectors to aggregate."""
        if self.variant == "exact" or reports.updates is None:
            return reports.gradients, reports.gradients
        anchors = reports.updates if self.variant == "naive" else reports.gradients
        return anchors, reports.updates

    def _predict(
        self,
        reports: Reports,
        eta: float,
        gram: FloatArray,
        moves: Stack,
        slack: FloatArray | float = 0.0,
    ) -> BoolArray:
        """``D``: agents that one step of length ``eta`` could bring to ``eps + delta``."""
        squares = np.diagonal(gram)
        if self.variant == "anchored" and reports.updates is not None:
            squares = np.maximum(squares, np.diagonal(moves.gram()))
        leaving = reports.loss - slack - eta * np.sqrt(squares) <= reports.eps + self._margin(
            reports
        )
        return leaving if reports.leaving is None else leaving | reports.leaving

    def _margin(self, reports: Reports) -> float | FloatArray:
        if reports.loss_se is None or self.z == 0.0:
            return self.delta
        return self.delta + self.z * reports.loss_se

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
