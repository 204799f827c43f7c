"""SafeStep: the gradient step, bent as little as necessary so that nobody can leave.

For convex losses the linearised condition "agent m stays above eps_m + delta" is sufficient, so
each round solves ``min |s + eta * mean G|^2  s.t.  G s >= b``, a quadratic program with one dual
variable per agent. An old answer of an agent that was not asked bounds its loss just as well.
Source: Proposition 5.F in docs/theory/05-defection.md, Theorems A to C in
docs/theory/23-training.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import BoolArray, FloatArray, check_real
from counterplay.errors import ConvergenceError, InfeasibleError, InvalidInputError
from counterplay.federated.quadratic import nonnegative_dual
from counterplay.federated.reports import Decision, Reports, RuleState, RuleStatus
from counterplay.federated.stack import Vector

HALVINGS = 12  # of the longest step, before the model is held


@checked
@dataclass(frozen=True)
class SafeStep:
    """The largest-progress step that keeps every agent above its target; the recommended rule.

    Use it to keep all parties in; it takes fewer rounds than :class:`ADAGD` at any step size.

    Parameters
    ----------
    delta : float
        Safety margin: the run stops when every loss is at most ``eps_m + 2 delta``.
    cap : float, "step_size" or None
        Longest step. ``"step_size"`` limits it to that (for neural networks); None for the
        convex theory. Where bounds need a slack (losses that are not convex, answers of earlier
        rounds) it is halved until they hold.
    z : float
        Adds ``z`` standard errors of the reported loss to the margin.
    stall_tol : float
        Relative length of a step that counts as zero.

    Guarantees
    ----------
    Convex losses, exact gradients: ``F_m(w_t) >= eps_m + min(delta, F_m(w_0) - eps_m)`` for any
    step size, so nobody leaves; the mean loss decreases for ``eta <= 1/H``; under minimal
    heterogeneity bounded runs stop, within ``safe_step_rounds`` rounds (Proposition 5.F). The first
    sentence holds whoever is asked in which round (Theorem 23.A).

    Examples
    --------
    Agent 1 may lose at most 0.05 to first order: the step stops there, not at 0.5.

    >>> from counterplay.federated.stack import NumpyStack
    >>> gradients = NumpyStack([[1.0, 0.0], [0.0, 1.0]])
    >>> reports = Reports(np.array([1.0, 0.2]), gradients, eps=np.full(2, 0.1))
    >>> SafeStep(delta=0.05).decide(reports, 1.0, RuleState()).step.round(12).tolist()
    [-0.5, -0.05]

    References
    ----------
    Proposition 5.F in docs/theory/05-defection.md, Theorem 23.A in docs/theory/23-training.md.
    """

    protects: ClassVar[bool] = True

    delta: float
    cap: float | Literal["step_size"] | None = None
    z: float = 0.0
    stall_tol: float = 1e-12

    def __post_init__(self) -> None:
        check_real(self.delta, "delta", low=0.0, open_low=True)
        if isinstance(self.cap, str):
            if self.cap != "step_size":
                raise InvalidInputError(
                    f"cap must be a number, 'step_size' or None, got {self.cap!r}"
                )
        elif self.cap is not None:
            check_real(self.cap, "cap", low=0.0, open_low=True)
        check_real(self.z, "z", low=0.0)
        check_real(self.stall_tol, "stall_tol", low=0.0)

    @checked
    def decide(self, reports: Reports, step_size: float, state: RuleState) -> Decision:
        """Return the solution of the quadratic program, or stop when all are close enough."""
        state.round += 1
        M = len(reports.loss)
        room = self._room(reports, state)
        gram = reports.gradients.gram()
        if (reports.loss <= reports.eps + 2.0 * self._margin(reports)).all():
            nothing = reports.gradients.combine(np.zeros(M))
            return Decision(nothing, "converged", 0, np.ones(M, dtype=bool), gram)
        if not reports.certain:
            return self._careful(reports, step_size, gram, room)
        room = np.maximum(room, 0.0)
        step, wanted, multipliers = self._solve(reports, step_size, gram, room)
        length = math.sqrt(reports.gradients.dot(step, step))
        if length <= self.stall_tol * max(step_size, wanted):
            return Decision(step * 0.0, "stalled", 0, multipliers > 0.0, gram)
        longest = self._longest(step_size)
        if longest is not None and length > longest:
            step = step * (longest / length)
        return Decision(step, "running", 0, multipliers > 0.0, gram)

    def _careful(
        self, reports: Reports, step_size: float, gram: FloatArray, room: FloatArray
    ) -> Decision:
        """Theorem 23.C: bounds that need a slack, so the step is halved until they hold."""
        rho = self._longest(step_size)
        if rho is None:
            plain = reports.moves.combine(np.full(len(room), -step_size / len(room)))
            rho = math.sqrt(reports.moves.dot(plain, plain))
        guarded = reports.protected
        urgent = guarded & (room < reports.slack(rho))
        for _ in range(HALVINGS):
            left = room - reports.slack(rho)
            found = self._within(reports, step_size, gram, left, rho)
            if found is not None:
                return Decision(found[0], "running", 0, found[1] > 0.0, gram, urgent)
            rho /= 2.0
        nothing = reports.gradients.combine(np.zeros(len(room)))
        weak = guarded & (room < reports.slack(0.0))
        old = weak & (reports.caution.distance > 0.0) if reports.caution else weak
        status: RuleStatus = "running" if old.any() else "stalled"
        return Decision(nothing, status, 0, weak, gram, old)

    def _within(
        self,
        reports: Reports,
        step_size: float,
        gram: FloatArray,
        left: FloatArray,
        rho: float,
    ) -> tuple[Vector, FloatArray] | None:
        """The best step of at most this length; None if there is none, or none worth taking."""
        safe = bool((left[reports.protected] >= 0.0).all())  # standing still would do
        try:
            step, wanted, multipliers = self._solve(reports, step_size, gram, left)
        except (InfeasibleError, ConvergenceError):
            return None
        length = math.sqrt(reports.gradients.dot(step, step))
        if length <= self.stall_tol * max(step_size, wanted) or (length > rho and not safe):
            return None
        return step * min(1.0, rho / length), multipliers

    def _longest(self, step_size: float) -> float | None:
        return step_size if self.cap == "step_size" else self.cap

    def _margin(self, reports: Reports) -> float | FloatArray:
        if reports.loss_se is None or self.z == 0.0:
            return self.delta
        return self.delta + self.z * reports.loss_se

    def _room(self, reports: Reports, state: RuleState) -> FloatArray:
        """``F_m - eps_m - delta_m``: how much each agent may lose to first order."""
        first = state.recall(reports.ids, reports.loss)
        margin = np.minimum(self._margin(reports), first - reports.eps)
        room = reports.loss - reports.eps - margin
        return room if reports.leaving is None else np.where(reports.leaving, 0.0, room)

    def _solve(
        self, reports: Reports, step_size: float, gram: FloatArray, room: FloatArray
    ) -> tuple[Vector, float, FloatArray]:
        """Minimise ``|s + eta * mean move|^2`` subject to ``G_m s >= -room_m`` of the protected."""
        M, guarded = len(room), reports.protected
        plain = reports.bounded(np.full(M, -step_size / M))
        if reports.updates is None:
            lam = _multipliers(gram, -room - gram @ plain, guarded)
            wanted = math.sqrt(max(float(plain @ gram @ plain), 0.0))
            return reports.gradients.combine(plain + lam), wanted, lam
        target = reports.updates.combine(plain)
        wanted = math.sqrt(reports.gradients.dot(target, target))
        lam = _multipliers(gram, -room - reports.gradients.inner(target), guarded)
        if not lam.any():
            return target, wanted, lam
        return target + reports.gradients.combine(lam), wanted, lam


def _multipliers(gram: FloatArray, h: FloatArray, guarded: BoolArray) -> FloatArray:
    """Multipliers of the protected agents; zero where the plain step is allowed."""
    lam = np.zeros(len(h))
    if not (h[guarded] > 0.0).any():
        return lam
    if guarded.all():
        return nonnegative_dual(gram, h)
    lam[guarded] = nonnegative_dual(gram[np.ix_(guarded, guarded)], h[guarded])
    return lam
