"""Worked examples and hard instances of chapter 5, each with what must come out.

Piecewise linear losses on which first-order protocols fail, smooth ones that break one assumption
each, quadratics where leaving is harmless or nobody can move, random regressions on which the
theory applies, and two silos whose own separators are wrong for each other.
Source: Theorems 5.1 and 5.2, Propositions 5.1 to 5.3, 5.A, 5.B, 5.E; docs/theory/05-defection.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.defection.agents import check_eps
from counterplay.defection.linear_models import LinearModelProblem
from counterplay.defection.problem import FederatedProblem, FunctionProblem
from counterplay.defection.smoothing import psi_tau, psi_tau_slope
from counterplay.errors import InvalidInputError

__all__ = [
    "Construction",
    "TwoSilos",
    "bad_init_example",
    "benign_example",
    "identical_agents",
    "non_heterogeneous_example",
    "nonterminating_example",
    "random_overparameterised",
    "two_silo_cartoon",
    "uniform_fails_family",
    "uniform_fails_repaired",
]

MOST_CELLS = 10_000_000
RED_ANGLES = (-80.0, -20.0, 0.0, 20.0, 40.0)


@checked
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


@checked
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


@checked
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


@checked
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


@checked
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


@checked
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


@checked
def benign_example(eps: float = 0.1) -> Construction:
    """Return ``|w|^2 / 2`` and ``w_1^2 / 2``; agent 1 leaves first and nothing is lost.

    Examples
    --------
    >>> benign_example().expected["defect_rounds"][0.5]
    (6, 4)

    References
    ----------
    Proposition 5.1; docs/theory/05-defection.md, "Benign departures (Proposition 5.1)".
    """
    problem = FunctionProblem(_nested, 2, 2, H=1.0, w_star=np.zeros(2), name="benign")
    expected = {
        "defect_rounds": {1.0: (3, 2), 0.5: (6, 4), 0.05: (64, 39)},
        "loss": {1.0: (0.0, 0.0), 0.05: (0.09689, 0.00702)},
    }
    return Construction(problem, np.array([3.0, 4.0]), np.full(2, eps), expected)


@checked
def identical_agents() -> Construction:
    """Return two agents with the same loss ``w_1^2 / 2`` and targets 0.5 and 0.1.

    Their gradients are parallel, so no step keeps agent 0 and helps agent 1: ADA-GD stalls.

    Examples
    --------
    >>> identical_agents().expected["stalled_at"]
    0.55125
    """
    problem = FunctionProblem(_same, 2, 2, H=1.0, w_star=np.zeros(2), name="identical")
    expected = {
        "status": "stalled",
        "stalled_at": 0.55125,
        "rounds": 195,
        "eta": 0.01,
        "delta": 0.05,
    }
    return Construction(problem, np.array([3.0, 1.0]), np.array([0.5, 0.1]), expected)


def _nested(w: FloatArray) -> tuple[FloatArray, FloatArray]:
    G = np.array([[w[0], w[1]], [w[0], 0.0]])
    return 0.5 * (G * G).sum(axis=1), G


def _same(w: FloatArray) -> tuple[FloatArray, FloatArray]:
    G = np.array([[w[0], 0.0], [w[0], 0.0]])
    return 0.5 * (G * G).sum(axis=1), G


@checked
def random_overparameterised(
    M: int = 5,
    n: int = 2,
    d: int = 12,
    tau: float = 1.0,
    corr: float = 0.0,
    eps: ArrayLike = 0.1,
    delta: float = 0.05,
    spread: float = 4.0,
    random_state: RandomState = None,
) -> Construction:
    """Return random losses ``F_m(w) = mean_j huber(a_mj . (w - w*))`` with independent unit rows.

    Use it as the test bed of every guarantee: gradients of different agents are independent at
    every non-optimal point and the mean loss is coercive on the span of the rows.

    Parameters
    ----------
    M : int
        Agents.
    n : int
        Rows per agent.
    d : int
        Parameters, ``d >= M n``.
    tau : float
        Huber parameter.
    corr : float
        How much a common direction enters every row; makes gradients more parallel.
    eps : float or array of shape (M,)
        Targets.
    delta : float
        The start is drawn again until every loss exceeds ``eps_m + delta``.
    spread : float
        Standard deviation of the start around the optimum.
    random_state : int, Generator or None
        Seed.

    Guarantees
    ----------
    Convex, ``H``-smooth, ``tau``-Lipschitz, simultaneously optimal at ``w_star`` and minimally
    heterogeneous (almost surely).

    Examples
    --------
    >>> c = random_overparameterised(M=3, n=2, d=6, random_state=0)
    >>> c.problem.n_agents, bool((c.problem.losses(c.w0) > 0.15).all())
    (3, True)
    """
    M, n, d = (check_positive_int(v, k) for v, k in ((M, "M"), (n, "n"), (d, "d")))
    check_size(M * n * d, MOST_CELLS, "numbers M x n x d")
    if d < M * n:
        raise InvalidInputError(f"d must be at least M*n = {M * n}, got {d}")
    corr = check_real(corr, "corr", low=0.0)
    floor = check_eps(eps, M) + check_real(delta, "delta", low=0.0)
    rng = generator(random_state)
    rows = rng.normal(size=(M, n, d)) + corr * rng.normal(size=d)
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    w_star = rng.normal(size=d)
    problem = LinearModelProblem(rows, w_star=w_star, tau=tau, name=f"random M={M} n={n} d={d}")
    for _ in range(1000):
        w0 = w_star + spread * rng.normal(size=d)
        if (problem.losses(w0) > floor).all():
            return Construction(problem, w0, check_eps(eps, M))
    raise InvalidInputError("no start with every loss above eps + delta; increase spread")


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class TwoSilos:
    """Points on the circle with labels, per silo, and the normals of the max-margin separators.

    Examples
    --------
    >>> two_silo_cartoon().error(20.0, "red")
    0.2
    """

    red: FloatArray
    red_labels: IntArray
    blue: FloatArray
    blue_labels: IntArray
    normals: tuple[float, float, float]
    """Angles of the normals in degrees: red, blue, union."""

    def error(self, normal: float, silo: str) -> float:
        """Return the share of wrong labels of the homogeneous separator with this normal."""
        direction = np.array([np.cos(np.deg2rad(normal)), np.sin(np.deg2rad(normal))])
        points, labels = (
            (self.red, self.red_labels) if silo == "red" else (self.blue, self.blue_labels)
        )
        return float((np.where(points @ direction > 0.0, 1, -1) != labels).mean())


@checked
def two_silo_cartoon() -> TwoSilos:
    """Return two silos: errors 0 at home, 0.2 abroad, 0.1 on average, 0 for the joint separator.

    Examples
    --------
    >>> silos = two_silo_cartoon()
    >>> red, blue, union = silos.normals
    >>> [silos.error(red, "red"), silos.error(red, "blue"), silos.error(union, "blue")]
    [0.0, 0.2, 0.0]

    References
    ----------
    Figure D.1; docs/theory/05-defection.md, "Two silos (Figure D.1)".
    """
    red, labels = _both_sides(np.array(RED_ANGLES))
    blue, _ = _both_sides(-np.array(RED_ANGLES))
    # The max-margin normal of points on an arc is the middle of the arc.
    middle = (min(RED_ANGLES) + max(RED_ANGLES)) / 2
    return TwoSilos(red, labels, blue, labels, (middle, -middle, 0.0))


def _both_sides(degrees: FloatArray) -> tuple[FloatArray, IntArray]:
    """Each label-normalised point once as it is and once at the antipode with label -1."""
    angles = np.deg2rad(degrees)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    both = np.vstack([points, -points])
    labels = np.repeat([1, -1], len(points))
    both.setflags(write=False)
    labels.setflags(write=False)
    return both, labels
