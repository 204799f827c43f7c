"""Smooth convex problems in the plane that break one assumption each.

The first has parallel gradients, so that protecting everybody means standing still. The second
satisfies every printed assumption of the convergence theorem and still never stops, because its
sublevel sets are unbounded.
Source: Proposition 5.3, Theorem 5.2; docs/theory/05-defection.md.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.defection.instances.construction import Construction
from counterplay.defection.problem import FunctionProblem
from counterplay.defection.smoothing import psi_tau, psi_tau_slope


def non_heterogeneous_example() -> Construction:
    """Return a strip and a tilted ellipse that touch with parallel gradients.

    Under any fixed weights and small steps agent 0 leaves at the edge of the strip, and agent 1
    alone drives the model across and out of it. ADA-GD keeps both and stalls.

    Examples
    --------
    >>> c = non_heterogeneous_example()
    >>> G = c.problem.gradients(np.array([-1.1, 0.0]))
    >>> bool(abs(G[1, 1] / G[1, 0]) < 0.05)
    True

    References
    ----------
    Proposition 5.3, Figure 5.6; docs/theory/05-defection.md.
    """
    A, c, rho, tau = _ellipse()
    problem = FunctionProblem(
        partial(_strip_and_ellipse, A=A, c=c, rho=rho, tau=tau),
        2,
        2,
        w_star=np.array([0.7, 6.9]),
        name="parallel gradients",
    )
    expected = {
        "final": (2.119, -0.830),
        "loss": (1.019, 0.05),
        "ada_gd": (-1.17, -0.69),
        "ada_gd_loss": 5.78,
    }
    return Construction(problem, np.array([-3.0, -3.0]), np.full(2, 0.05), expected)


def nonterminating_example() -> Construction:
    """Return an endless example: ADA-GD never stops, though its theorem's hypotheses hold.

    Agent 0 is held at its margin while agent 1's loss decreases towards 1.0678 only as ``w_1``
    drifts to infinity.

    Examples
    --------
    >>> nonterminating_example().expected["frozen_loss"]
    0.161231

    References
    ----------
    Ours, against Theorem 5.2 as printed; Proposition 5.E in docs/theory/05-defection.md.
    """
    problem = FunctionProblem(
        _receding, 2, 2, H=6.0, L=np.sqrt(5.0), w_star=np.array([0.0, -4.0]), name="unbounded"
    )
    expected = {
        "eta": 0.05 / np.sqrt(5.0),  # delta / L
        "delta": 0.05,
        "frozen_w2": 0.567858,
        "frozen_loss": 0.161231,
        "w1": {10**3: 2.88, 10**4: 6.82, 10**5: 14.91, 10**6: 32.2},
    }
    return Construction(problem, np.array([0.0, 5.0]), np.full(2, 0.1), expected)


def _ellipse() -> tuple[FloatArray, FloatArray, float, float]:
    """Eigenvalues 1 and 0.01, tilted so that gradients meet in parallel."""
    small, D, D_prime, tau = 0.01, 3.2, 12.0, 0.2
    phi = np.arctan(np.sqrt(D_prime * small / D))
    k = D / np.cos(phi) ** 2
    e, f = np.array([np.cos(phi), -np.sin(phi)]), np.array([np.sin(phi), np.cos(phi)])
    A = np.outer(e, e) + small * np.outer(f, f)
    c = np.array([-1.0, 0.0]) + k * np.linalg.solve(A, np.array([1.0, 0.0]))
    rho = k * k * np.sin(phi) ** 2 / (2.0 * small)
    return A, c, float(rho), tau


def _strip_and_ellipse(
    w: FloatArray, A: FloatArray, c: FloatArray, rho: float, tau: float
) -> tuple[FloatArray, FloatArray]:
    v = w - c
    pull = A @ v
    x = np.array([abs(w[0]) - 1.0, 0.5 * float(v @ pull) - rho])
    slope = psi_tau_slope(x, tau)
    strip = np.array([np.sign(w[0]) * slope[0], 0.0])
    return psi_tau(x, tau), np.vstack([strip, slope[1] * pull])


def _receding(w: FloatArray) -> tuple[FloatArray, FloatArray]:
    a, b = float(w[0]), float(w[1])
    root = (1.0 + a * a) ** 0.5
    # sqrt(1 + a^2) - a without cancellation for large a
    gap = 1.0 / (root + a) if a > 0.0 else root - a
    x, y = b, b + 1.0 + gap
    s, t = min(max(x, 0.0), 1.0), min(max(y, 0.0), 1.0)
    F = np.array([_psi1(x), _psi1(y)])
    return F, np.array([[0.0, s], [t * (-gap / root), t]])


def _psi1(x: float) -> float:
    if x <= 0.0:
        return 0.0
    return 0.5 * x * x if x <= 1.0 else x - 0.5
