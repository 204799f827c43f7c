"""The slopes of the smooth pieces are their derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.defection.lab import huber_tau, huber_tau_slope, psi_tau, psi_tau_slope


@pytest.mark.parametrize(
    ("value", "slope"), [(psi_tau, psi_tau_slope), (huber_tau, huber_tau_slope)]
)
def test_smoothing_slopes_are_derivatives(value, slope) -> None:  # type: ignore[no-untyped-def]
    x, h = np.linspace(-3, 3, 601), 1e-6
    for tau in (0.2, 1.0):
        numeric = (value(x + h, tau) - value(x - h, tau)) / (2 * h)
        assert numeric == pytest.approx(slope(x, tau), abs=1e-4)
        assert np.abs(np.diff(slope(x, tau))).max() <= 0.01 / min(tau, 1.0) + 1e-12
