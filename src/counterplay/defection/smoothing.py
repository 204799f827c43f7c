"""Smooth versions of the positive part and of the absolute value, used by all constructions.

Source: docs/theory/05-defection.md, "Setting", "Smooth pieces".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, check_float_array, check_real


@checked
def psi_tau(x: ArrayLike, tau: float) -> FloatArray:
    """Return the smooth positive part: 0, then ``x^2 / (2 tau)`` up to ``tau``, then linear.

    Convex, with slope in [0, 1] and curvature at most ``1 / tau``.

    Examples
    --------
    >>> psi_tau([-1.0, 0.5, 1.0, 3.0], tau=1.0).tolist()
    [0.0, 0.125, 0.5, 2.5]
    """
    tau = check_real(tau, "tau", low=0.0, open_low=True)
    positive = np.maximum(check_float_array(x, "x"), 0.0)
    return np.asarray(
        np.where(positive <= tau, positive * positive / (2.0 * tau), positive - tau / 2.0)
    )


@checked
def psi_tau_slope(x: ArrayLike, tau: float) -> FloatArray:
    """Return the derivative of :func:`psi_tau`.

    Examples
    --------
    >>> psi_tau_slope([-1.0, 0.5, 3.0], tau=1.0).tolist()
    [0.0, 0.5, 1.0]
    """
    tau = check_real(tau, "tau", low=0.0, open_low=True)
    return np.asarray(np.clip(check_float_array(x, "x") / tau, 0.0, 1.0))


@checked
def huber_tau(x: ArrayLike, tau: float) -> FloatArray:
    """Return Huber's function: ``x^2 / 2`` up to ``tau``, then linear with slope ``tau``.

    Examples
    --------
    >>> huber_tau([-3.0, 0.5], tau=1.0).tolist()
    [2.5, 0.125]
    """
    tau = check_real(tau, "tau", low=0.0, open_low=True)
    size = np.abs(check_float_array(x, "x"))
    return np.asarray(np.where(size <= tau, size * size / 2.0, tau * size - tau * tau / 2.0))


@checked
def huber_tau_slope(x: ArrayLike, tau: float) -> FloatArray:
    """Return the derivative of :func:`huber_tau`: ``x`` clipped to ``[-tau, tau]``.

    Examples
    --------
    >>> huber_tau_slope([-3.0, 0.5], tau=1.0).tolist()
    [-1.0, 0.5]
    """
    tau = check_real(tau, "tau", low=0.0, open_low=True)
    return np.asarray(np.clip(check_float_array(x, "x"), -tau, tau))
