"""SafeStep: the gradient step, bent as little as necessary so that nobody can leave.

For convex losses the linearised condition "agent m stays above eps_m + delta" is sufficient, so
each round solves ``min |s + eta * mean G|^2  s.t.  G s >= b``, a quadratic program with one dual
variable per agent.
Source: Proposition 5.F in docs/theory/05-defection.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, check_real
from counterplay.errors import InvalidInputError
from counterplay.federated.quadratic import nonnegative_dual
from counterplay.federated.reports import Decision, Reports, RuleState
from counterplay.federated.stack import Vector


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
        convex theory.
    z : float
        Adds ``z`` standard errors of the reported loss to the margin.
    stall_tol : float
        Relative length of a step that counts as zero.

    Guarantees
    ----------
    Convex losses, exact gradients: ``F_m(w_t) >= eps_m + min(delta, F_m(w_0) - eps_m)`` for any
    step size, so nobody leaves; the mean loss decreases for ``eta <= 1/H``; under minimal
    heterogeneity bounded runs stop, within ``safe_step_rounds`` rounds (Proposition 5.F).

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
    Proposition 5.F in docs/theory/05-defection.md.
    """

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
        step, wanted, multipliers = self._solve(reports, step_size, gram, room)
        length = math.sqrt(reports.gradients.dot(step, step))
        if length <= self.stall_tol * max(step_size, wanted):
            return Decision(step * 0.0, "stalled", 0, multipliers > 0.0, gram)
        longest = step_size if self.cap == "step_size" else self.cap
        if longest is not None and length > longest:
            step = step * (longest / length)
        return Decision(step, "running", 0, multipliers > 0.0, gram)

    def _margin(self, reports: Reports) -> float | FloatArray:
        if reports.loss_se is None or self.z == 0.0:
            return self.delta
        return self.delta + self.z * reports.loss_se

    def _room(self, reports: Reports, state: RuleState) -> FloatArray:
        """``F_m - eps_m - delta_m >= 0``: how much each agent may lose to first order."""
        first = state.recall(reports.ids, reports.loss)
        margin = np.minimum(self._margin(reports), first - reports.eps)
        room = np.maximum(reports.loss - reports.eps - margin, 0.0)
        return room if reports.leaving is None else np.where(reports.leaving, 0.0, room)

    def _solve(
        self, reports: Reports, step_size: float, gram: FloatArray, room: FloatArray
    ) -> tuple[Vector, float, FloatArray]:
        """Minimise ``|s + eta * mean move|^2`` subject to ``G s >= -room``."""
        M = len(room)
        plain = reports.bounded(np.full(M, -step_size / M))
        if reports.updates is None:
            h = -room - gram @ plain
            lam = nonnegative_dual(gram, h) if (h > 0.0).any() else np.zeros(M)
            wanted = math.sqrt(max(float(plain @ gram @ plain), 0.0))
            return reports.gradients.combine(plain + lam), wanted, lam
        target = reports.updates.combine(plain)
        h = -room - reports.gradients.inner(target)
        wanted = math.sqrt(reports.gradients.dot(target, target))
        if not (h > 0.0).any():
            return target, wanted, np.zeros(M)
        lam = nonnegative_dual(gram, h)
        return target + reports.gradients.combine(lam), wanted, lam
