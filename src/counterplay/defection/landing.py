"""The last broadcast: one certified step into everybody's target at once.

A rule that loses nobody ends with every loss above its target, because an agent that is satisfied
leaves. If all targets are reached in the same step, everybody leaves satisfied and nothing is lost.
Source: spec 05 section 3.8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.validation import FloatArray, check_real
from counterplay.defection.agents import check_eps
from counterplay.defection.problem import FederatedProblem
from counterplay.defection.reports import Reports
from counterplay.defection.stack import NumpyStack, Vector
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

CONDITION = 1e-12  # relative eigenvalue of the Gram matrix below which gradients are dependent


@dataclass(frozen=True, eq=False)
class Landing:
    """Outcome of an attempt to land.

    Attributes
    ----------
    certified : bool
        Whether smoothness guarantees ``F_m(w) <= eps_m`` for every agent.
    w : array of shape (d,)
        The landed model, or the model given when landing was refused.
    loss : array of shape (M,)
        Losses at ``w``.
    eps : array of shape (M,)
        Targets.
    reason : str
        Why landing was refused, or the size of the step.

    Examples
    --------
    See :func:`land`.

    >>> Landing(False, np.zeros(1), np.ones(1), np.zeros(1), "no root").certified
    False
    """

    certified: bool
    w: FloatArray
    loss: FloatArray
    eps: FloatArray
    reason: str

    def summary(self) -> str:
        """Return the outcome in one line."""
        worst = float((self.loss - self.eps).max())
        word = "landed" if self.certified else "not landed"
        return f"{word}: {self.reason}; worst excess over a target {worst:.3g}"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per agent."""
        import pandas as pd

        return pd.DataFrame({"agent": np.arange(len(self.eps)), "eps": self.eps, "loss": self.loss})


def land(
    problem: FederatedProblem, w: ArrayLike, eps: ArrayLike, H: float | None = None
) -> Landing:
    """Move from a protected model into every target with one step, if that can be certified.

    Use it after ``ADAGD`` or ``SafeStep`` to hand everybody a model within its target.

    Parameters
    ----------
    problem : FederatedProblem
        Losses and gradients.
    w : array of shape (d,)
        Final model of a protected run.
    eps : float or array of shape (M,)
        Targets.
    H : float, optional
        Smoothness constant; default ``problem.H``.

    Guarantees
    ----------
    When ``certified``, every loss is at most its target. Always certified if every excess is at
    most ``2 delta`` with ``delta <= bounds.landing_margin(M, H, sigma)``. Otherwise the model is
    returned unchanged.

    Examples
    --------
    >>> from counterplay.defection import SafeStep, instances, run_icfo
    >>> c = instances.random_overparameterised(delta=1e-3, random_state=0)
    >>> run = run_icfo(c.problem, SafeStep(1e-3), c.w0, c.eps, eta=1 / c.problem.H)
    >>> landing = land(c.problem, run.w, c.eps)
    >>> landing.certified, bool((landing.loss <= c.eps).all())
    (True, True)

    References
    ----------
    Spec 05 section 3.8.
    """
    point = problem.check_point(w)
    targets = check_eps(eps, problem.n_agents)
    smooth = problem.H if H is None else check_real(H, "H", low=0.0, open_low=True)
    if smooth is None:
        raise InvalidInputError("land needs the smoothness constant H of the losses")
    F, G = problem.losses(point), problem.gradients(point)
    step, reason = landing_step(Reports(F, NumpyStack(G), targets), smooth)
    if step is None:
        return Landing(False, point, F, targets, reason)
    landed = point + step
    return Landing(True, landed, problem.losses(landed), targets, reason)


def landing_step(reports: Reports, H: float) -> tuple[Vector | None, str]:
    """Return the certified step from one round of reports, or None and the reason.

    The step solves ``G s = -(F - eps + mu)`` with ``mu = H |s|^2 / 2``, which is a quadratic
    equation in ``mu``; smoothness turns it into ``F_m(w + s) <= eps_m``.

    Examples
    --------
    >>> reports = Reports(np.array([0.02]), NumpyStack([[1.0]]), np.array([0.01]))
    >>> step, _ = landing_step(reports, H=1.0)
    >>> step.round(6).tolist()
    [-0.010051]
    """
    gram = reports.gradients.gram()
    values, basis = np.linalg.eigh(gram)
    if values[0] <= CONDITION * max(float(values[-1]), 0.0) or values[-1] <= 0.0:
        return None, "the gradients are linearly dependent"
    excess = reports.loss - reports.eps
    a, one = basis.T @ excess, basis.T @ np.ones(len(excess))
    A, B, C = (float((x * y / values).sum()) for x, y in ((a, a), (a, one), (one, one)))
    slope = 1.0 - H * B
    root = slope * slope - H * H * A * C
    if slope <= 0.0 or root < 0.0:
        return None, "the excess over the targets is too large for one certified step"
    mu = H * A / (slope + math.sqrt(root))  # smaller root of H/2 (A + 2 B mu + C mu^2) = mu
    coefficients = basis @ ((a + mu * one) / values)
    step = reports.gradients.combine(-coefficients)
    length = math.sqrt(reports.gradients.dot(step, step))
    return step, f"certified step of length {length:.3g}"
