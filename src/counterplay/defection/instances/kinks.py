"""Piecewise linear losses on which first-order protocols fail.

Source: Theorem 5.1, Propositions 5.2, 5.A and 5.B, see docs/theory/05-defection.md.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray, check_real
from counterplay.defection.instances.construction import Construction
from counterplay.defection.problem import FunctionProblem
from counterplay.defection.smoothing import psi_tau, psi_tau_slope
from counterplay.errors import InvalidInputError


def bad_init_example(eps: float = 0.1) -> Construction:
    """Return ``|w_2|`` and ``|w_1 - w_2|`` from (1, 1), lost for every protocol.

    Agent 1 leaves at once and takes the only direction with it that could move ``w_1``.

    Examples
    --------
    >>> bad_init_example().expected["runs"][1.0]["loss"]
    (0.0, 1.0)

    References
    ----------
    Proposition 5.2; docs/theory/05-defection.md, "A bad start (Proposition 5.2)".
    """
    problem = FunctionProblem(_absolute, 2, 2, L=np.sqrt(2.0), w_star=np.zeros(2), name="bad start")
    expected: dict[str, Any] = {
        "smallest_mean_loss": 0.5,
        "runs": {
            1.0: {"w": (1.0, 0.0), "loss": (0.0, 1.0), "defect_rounds": (2, 1)},
            0.25: {"w": (1.0, 0.0), "loss": (0.0, 1.0), "defect_rounds": (5, 1)},
            0.75: {"w": (1.0, -0.5), "mean_loss": 1.0, "defect_rounds": (-1, 1), "rounds": 50},
        },
    }
    return Construction(problem, np.ones(2), np.full(2, eps), expected)


def uniform_fails_family(
    alpha: float = 0.0, eps: float = 1 / 16, tau: float | None = None
) -> Construction:
    """Return ``max(w_2, 0)`` and ``max(w_1 - w_2 + alpha, 0)`` from (2, 1).

    Uniform rules cannot tell the members of the family apart until agent 1 has left, and fail on
    one of them; see ``adversarial_alpha``. ``tau`` gives the smooth version.

    Examples
    --------
    >>> uniform_fails_family(alpha=4.0).expected["ada_gd"]["w"]
    (-3.71875, 0.140625)

    References
    ----------
    Theorem 5.1; docs/theory/05-defection.md.
    """
    alpha = check_real(alpha, "alpha", low=0.0)
    if tau is None:
        oracle = partial(_ramps, alpha=alpha)
        metadata: dict[str, Any] = {"L": np.sqrt(2.0)}
    else:
        tau = check_real(tau, "tau", low=0.0, open_low=True)
        oracle = partial(_smooth_ramps, alpha=alpha, tau=tau)
        metadata = {"L": np.sqrt(2.0), "H": 2.0 / tau}
    problem = FunctionProblem(
        oracle, 2, 2, w_star=np.array([-alpha, 0.0]), name=f"kinks, alpha={alpha:g}", **metadata
    )
    cases = {0.0: (110, 110), 4.0: (622, 110)}
    expected: dict[str, Any] = {}
    if alpha in cases and tau is None:
        expected["ada_gd"] = {
            "case_2": cases[alpha][0],
            "case_1": cases[alpha][1],
            "w": (0.28125 - alpha, 0.140625),
            "loss": (0.140625, 0.140625),
        }
        expected["safe_step"] = {
            "rounds": {0.0: 10, 4.0: 26}[alpha],
            "loss": (0.1875, 0.125),
        }
    return Construction(problem, np.array([2.0, 1.0]), np.full(2, eps), expected)


def uniform_fails_repaired(z_k: float, z_0: float, eps: float) -> Construction:
    """Return the instance that also defeats uniform rules which look at loss values.

    Agent 1's loss agrees with ``max(z, 0)``, ``z = w_1 - w_2``, at every ``z >= z_k``, is exactly
    ``eps`` at ``z_0`` (where the rule made agent 1 leave) and rises again afterwards. Use
    ``repair_against`` to find ``z_k`` and ``z_0`` for a given rule.

    Examples
    --------
    >>> c = uniform_fails_repaired(z_k=0.9, z_0=-0.5, eps=0.1)
    >>> c.problem.losses(np.array([0.5, 1.0])).round(12).tolist()
    [1.0, 0.1]

    References
    ----------
    Ours; Proposition 5.B in docs/theory/05-defection.md.
    """
    eps = check_real(eps, "eps", low=0.0, open_low=True)
    z_k = check_real(z_k, "z_k", low=eps, open_low=True)
    z_0 = check_real(z_0, "z_0", high=eps)
    if z_0 >= z_k:
        raise InvalidInputError(f"z_0 must be below z_k, got {z_0:g} and {z_k:g}")
    beta = (z_k - eps) / (z_k - z_0)
    problem = FunctionProblem(
        partial(_bent_ramps, eps=eps, z_0=z_0, beta=beta), 2, 2, L=np.sqrt(2.0), name="repaired"
    )
    expected = {"beta": beta, "loss_after": min(eps + beta * (1.0 - eps), z_k)}
    return Construction(problem, np.array([2.0, 1.0]), np.full(2, eps), expected)


def _absolute(w: FloatArray) -> tuple[FloatArray, FloatArray]:
    z = w[0] - w[1]
    s, t = np.sign(w[1]), np.sign(z)
    return np.array([abs(w[1]), abs(z)]), np.array([[0.0, s], [t, -t]])


def _ramps(w: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    y, z = float(w[1]), float(w[0] - w[1]) + alpha
    s, t = float(y > 0.0), float(z > 0.0)
    return np.array([max(y, 0.0), max(z, 0.0)]), np.array([[0.0, s], [t, -t]])


def _smooth_ramps(w: FloatArray, alpha: float, tau: float) -> tuple[FloatArray, FloatArray]:
    x = np.array([w[1], w[0] - w[1] + alpha])
    s, t = psi_tau_slope(x, tau)
    return psi_tau(x, tau), np.array([[0.0, s], [t, -t]])


def _bent_ramps(
    w: FloatArray, eps: float, z_0: float, beta: float
) -> tuple[FloatArray, FloatArray]:
    y, z = float(w[1]), float(w[0] - w[1])
    line = eps + beta * (z - z_0)
    loss = max(z, line, 0.0)
    t = 0.0 if loss == 0.0 else (1.0 if z >= line else beta)
    return np.array([max(y, 0.0), loss]), np.array([[0.0, float(y > 0.0)], [t, -t]])
