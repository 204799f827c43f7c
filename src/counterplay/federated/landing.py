"""The certified last step: from reports close to the targets into every target at once.

Source: Proposition 5.G in docs/theory/05-defection.md.
"""

from __future__ import annotations

import math

import numpy as np

from counterplay.federated.reports import Reports
from counterplay.federated.stack import Vector

CONDITION = 1e-12  # relative eigenvalue of the Gram matrix below which gradients are dependent


def landing_step(reports: Reports, H: float) -> tuple[Vector | None, str]:
    """Return the certified step from one round of reports, or None and the reason.

    The step solves ``G s = -(F - eps + mu)`` with ``mu = H |s|^2 / 2``, which is a quadratic
    equation in ``mu``; smoothness turns it into ``F_m(w + s) <= eps_m``.

    Examples
    --------
    >>> from counterplay.federated.stack import NumpyStack
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
