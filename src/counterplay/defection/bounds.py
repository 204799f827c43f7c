"""Step sizes and round bounds of ADA-GD and SafeStep, as numbers.

Source: Theorem 5.2, Propositions 5.D, 5.F and 5.G in docs/theory/05-defection.md.
"""

from __future__ import annotations

import math

from counterplay.core.arguments import checked
from counterplay.core.validation import check_positive_int, check_real


@checked
def adagd_step_size(M: int, H: float, L: float, delta: float) -> float:
    """Return the step size of the theorem: ``min(delta/L, sqrt(delta/(2H)), 1/(MH))``.

    Examples
    --------
    >>> round(adagd_step_size(M=2, H=8.0, L=2**0.5, delta=0.05), 5)
    0.03536
    """
    M = check_positive_int(M, "M")
    H = check_real(H, "H", low=0.0, open_low=True)
    L = check_real(L, "L", low=0.0, open_low=True)
    delta = check_real(delta, "delta", low=0.0, open_low=True)
    return min(delta / L, math.sqrt(delta / (2.0 * H)), 1.0 / (M * H))


@checked
def l_free_step_size(M: int, H: float, max_eps: float, delta: float) -> float:
    """Return a step size that needs no Lipschitz constant.

    ``min(delta / sqrt(2 H (eps + 2 delta)), 1/(MH))``: smooth losses have ``|grad|^2 <= 2 H F``,
    and only gradients near the end matter.

    Examples
    --------
    >>> round(l_free_step_size(M=5, H=1.0, max_eps=0.1, delta=0.05), 4)
    0.0791
    """
    M = check_positive_int(M, "M")
    H = check_real(H, "H", low=0.0, open_low=True)
    eps = check_real(max_eps, "max_eps", low=0.0)
    delta = check_real(delta, "delta", low=0.0, open_low=True)
    return min(delta / math.sqrt(2.0 * H * (eps + 2.0 * delta)), 1.0 / (M * H))


@checked
def effective_lipschitz(M: int, H: float, initial_loss: float) -> float:
    """Return ``sqrt(2 H M F(w_0))``: no gradient along a decreasing run is longer.

    Examples
    --------
    >>> effective_lipschitz(M=2, H=1.0, initial_loss=4.0)
    4.0
    """
    M = check_positive_int(M, "M")
    H = check_real(H, "H", low=0.0, open_low=True)
    return math.sqrt(2.0 * H * M * check_real(initial_loss, "initial_loss", low=0.0))


@checked
def adagd_rounds(M: int, initial_loss: float, eta: float, sigma: float) -> float:
    """Return the most rounds ADA-GD makes: ``2 M F(w_0) / (eta min(sigma^2, 1))``.

    ``sigma`` is the smallest singular value of the gradients along the run.

    Examples
    --------
    >>> adagd_rounds(M=5, initial_loss=2.0, eta=0.05, sigma=0.5)
    1600.0
    """
    M = check_positive_int(M, "M")
    F = check_real(initial_loss, "initial_loss", low=0.0)
    eta = check_real(eta, "eta", low=0.0, open_low=True)
    sigma = check_real(sigma, "sigma", low=0.0, open_low=True)
    return _ratio(2.0 * M * F, eta * min(sigma * sigma, 1.0))


@checked
def safe_step_rounds(
    M: int, initial_loss: float, H: float, L: float, delta: float, sigma: float
) -> float:
    """Return the most rounds SafeStep makes with ``eta = 1/H``.

    ``2 F(w_0) / (H min(sigma/(MH), delta/L)^2)``, ``sigma`` as in :func:`adagd_rounds`.

    Examples
    --------
    >>> safe_step_rounds(M=2, initial_loss=2.0, H=1.0, L=1.0, delta=0.5, sigma=0.5)
    64.0
    """
    M = check_positive_int(M, "M")
    F = check_real(initial_loss, "initial_loss", low=0.0)
    H = check_real(H, "H", low=0.0, open_low=True)
    L = check_real(L, "L", low=0.0, open_low=True)
    delta = check_real(delta, "delta", low=0.0, open_low=True)
    sigma = check_real(sigma, "sigma", low=0.0, open_low=True)
    shortest = min(sigma / (M * H), delta / L)
    return _ratio(2.0 * F, H * shortest * shortest)


@checked
def landing_margin(M: int, H: float, sigma: float) -> float:
    """Return the margin ``sigma^2 / (4 H M)`` up to which a final landing always exists.

    With every excess at most ``2 delta`` the quadratic equation of ``landing_step`` has a root as
    soon as ``2 delta M H / sigma^2 <= 1/2``. ``sigma`` is the smallest singular value of the final
    gradients.

    Examples
    --------
    >>> landing_margin(M=2, H=1.0, sigma=0.5)
    0.03125
    """
    M = check_positive_int(M, "M")
    H = check_real(H, "H", low=0.0, open_low=True)
    sigma = check_real(sigma, "sigma", low=0.0, open_low=True)
    return sigma * sigma / (4.0 * H * M)


def _ratio(above: float, below: float) -> float:
    """Return the quotient; infinite, not an error, where the denominator is too small."""
    return above / below if below > 0.0 else math.inf
