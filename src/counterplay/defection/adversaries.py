"""Adversaries: given a rule, the problem on which it fails.

Source: Theorem 5.1, Propositions 5.2, 5.A and 5.B, see docs/theory/05-defection.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.play import play
from counterplay.core.validation import BoolArray, check_float_array, check_real
from counterplay.defection.federation_game import FederationGame, Server
from counterplay.defection.instances import (
    Construction,
    uniform_fails_family,
    uniform_fails_repaired,
)
from counterplay.errors import InvalidInputError
from counterplay.federated.reports import Rule


@checked
def adversarial_alpha(etas: ArrayLike, eps: float, nu: ArrayLike = 1.0) -> float:
    """Return the member of ``uniform_fails_family`` on which a uniform rule with these steps fails.

    While both agents stay, the mean gradient is (1/2, 0) for every ``alpha``, so a rule whose
    weights do not depend on loss values walks the same path until agent 1 leaves at ``x_0``. With
    ``alpha = max(0, 1 - x_0)`` the mean loss can never again fall below one half.

    Parameters
    ----------
    etas : array of shape (R,)
        Step sizes.
    eps : float
        Common target, below one half.
    nu : float or array of shape (R,)
        Weights of the uniform rule in each round.

    Guarantees
    ----------
    The run on ``uniform_fails_family(alpha, eps)`` ends outside the target with mean loss at
    least 1/2 (Theorem 5.1).

    Examples
    --------
    >>> adversarial_alpha([10.0] + [1 / 64] * 70, eps=1 / 16)
    4.0

    References
    ----------
    Theorem 5.1; docs/theory/05-defection.md.
    """
    steps = check_float_array(etas, "etas", ndim=1) * check_float_array(nu, "nu")
    eps = check_real(eps, "eps", low=0.0, high=0.5, open_low=True, open_high=True)
    if (steps <= 0.0).any():
        raise InvalidInputError("etas and nu must be positive")
    x = np.cumsum(np.concatenate([[2.0], -steps / 2.0]))
    reached = np.flatnonzero(x - 1.0 <= eps)
    return max(0.0, 1.0 - float(x[reached[0]])) if len(reached) else 0.0


@checked
def repair_against(
    rule: Rule, eps: float, step_size: ArrayLike = 1.0, rounds: int = 1000
) -> Construction:
    """Return the repaired instance, on which a uniform rule fails that looks at losses.

    Parameters
    ----------
    rule : Rule
        A deterministic uniform rule, such as ``FedAvg("polyak")``.
    eps : float
        Common target.
    step_size : float
        As the rule will be run.
    rounds : int
        As the rule will be run.

    Guarantees
    ----------
    The rule sees the same losses and gradients as on the plain instance until agent 1 leaves, and
    then ends outside the target. If it never makes agent 1 leave, the plain instance is returned:
    it is not solved either.

    Examples
    --------
    >>> from counterplay.defection import FedAvg, FederationGame, Server, play
    >>> polyak = FedAvg("polyak")
    >>> c = repair_against(polyak, eps=0.05)
    >>> server = Server(polyak, c.w0, step_size=1.0)
    >>> play(server, FederationGame(c.problem, c.eps), rounds=1000).harmful
    True

    References
    ----------
    Ours; Proposition 5.B in docs/theory/05-defection.md.
    """
    eps = check_real(eps, "eps", low=0.0, high=0.5, open_low=True, open_high=True)
    plain = uniform_fails_family(0.0, eps)
    run = play(
        Server(rule, plain.w0, step_size=step_size),
        FederationGame(plain.problem, plain.eps, keep_every=1),
        rounds=rounds,
    )
    left = int(run.defect_round[1])
    models = run.models
    if left < 0 or models is None:
        return plain
    z = models[:, 0] - models[:, 1]
    z_0, z_p = float(z[left - 1]), float(z[: left - 1].min())
    floor = max(eps, z_0)
    return uniform_fails_repaired(z_p - 1e-3 * (z_p - floor), z_0, eps)


@checked
def bad_region_linear(w: ArrayLike, eps: float) -> BoolArray:
    """Return which starts of ``bad_init_example`` are lost for every first-order protocol.

    ``{|w_1 - w_2| <= eps, |w_1| > 2 eps} or {|w_2| <= eps, |w_1 + w_2| > 3 eps}``: one agent is
    satisfied at once and the other alone can only move along a line that misses the target.

    Parameters
    ----------
    w : array of shape (..., 2)
        Starts.
    eps : float
        Common target.

    Examples
    --------
    >>> bad_region_linear([[1.0, 1.0], [0.15, 0.1], [2.0, 1.0]], eps=0.1).tolist()
    [True, False, False]

    References
    ----------
    Proposition 5.2, region: Proposition 5.A in docs/theory/05-defection.md.
    """
    points = check_float_array(w, "w")
    if points.ndim == 0 or points.shape[-1] != 2:
        raise InvalidInputError(f"w must have two coordinates, got shape {points.shape}")
    eps = check_real(eps, "eps", low=0.0, open_low=True)
    a, b = points[..., 0], points[..., 1]
    second = (np.abs(a - b) <= eps) & (np.abs(a) > 2 * eps)
    first = (np.abs(b) <= eps) & (np.abs(a + b) > 3 * eps)
    return np.asarray(first | second)
