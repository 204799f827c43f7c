"""What answers to offers reveal about costs, and the least regret that explains them.

The other side earns s m - cost. If he answers every offer as well as with what he did under the
others, differences of costs lie in intervals. If no costs explain his means, the smallest regret
per round that does is a linear program (equivalently a cycle of largest mean).
Source: Lemmas 25.A and 25.B, see docs/theory/25-offers.md.
"""

from __future__ import annotations

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.programs import minimize_linear
from counterplay.core.validation import FloatArray, check_float_array, check_real, check_same_shape


@checked
def smallest_regret(power: FloatArray, means: FloatArray) -> float:
    """Least regret per round, in money, with which some costs explain the mean outcomes.

    Parameters
    ----------
    power:
        Power of each offer.
    means:
        Mean outcome under each offer.

    Examples
    --------
    >>> import numpy as np
    >>> round(smallest_regret(np.array([0.2, 0.4]), np.array([500.0, 300.0])), 6)
    20.0
    """
    s, f = _pair(power, means, "means")
    k, scale = s.size, _scale(s, f)
    if k < 2 or scale == 0.0:
        return 0.0
    A, b = _rows(s / max(np.abs(s).max(), 1e-300), k)
    known = f / max(np.abs(f).max(), 1e-300)
    # variables: costs (free), then the regret; the responses are known and move to the right side
    upper = np.hstack([A[:, k:], -np.ones((len(A), 1))])
    right = b - A[:, :k] @ known
    solved = minimize_linear(
        np.append(np.zeros(k), 1.0),
        A_ub=upper,
        b_ub=right,
        bounds=[(None, None)] * k + [(0, None)],
        what="the smallest regret",
    )
    return float(solved.value) * scale


@checked
def cost_ranges(
    power: FloatArray, lower: FloatArray, upper: FloatArray, *, slack: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Range of the cost under each offer above that under the weakest, given limits of the means.

    Parameters
    ----------
    power:
        Power of each offer, increasing.
    lower:
        Lower limit of each mean outcome.
    upper:
        Upper limit of each mean outcome; finite.
    slack:
        Regret per round that is allowed, in money.

    Examples
    --------
    >>> import numpy as np
    >>> f = np.array([100.0, 400.0, 700.0])
    >>> low, high = cost_ranges(np.array([0.1, 0.3, 0.6]), f, f)
    >>> low.round(6).tolist(), high.round(6).tolist()
    ([0.0, 30.0, 120.0], [0.0, 90.0, 270.0])
    """
    s, low = _pair(power, lower, "lower")
    _, high = _pair(power, upper, "upper")
    check_real(slack, "slack", low=0.0)
    k, scale = s.size, _scale(s, high)
    if k < 2 or scale == 0.0:
        return np.zeros(k), np.zeros(k)
    top = max(np.abs(high).max(), 1e-300)
    A, b = _rows(s / max(np.abs(s).max(), 1e-300), k)
    b = b + slack / scale
    free = [(a / top, c / top) for a, c in zip(low, high)] + [(None, None)] * k
    found = np.zeros((2, k))
    for i in range(1, k):
        for side, sign in enumerate((1.0, -1.0)):
            objective = np.zeros(2 * k)
            objective[[k + i, k]] = sign, -sign
            solved = minimize_linear(
                objective,
                A_ub=A,
                b_ub=b,
                bounds=free,
                what="the range of the costs",
                infeasible="no response that rises with the incentive fits the limits",
            )
            found[side, i] = sign * solved.value * scale
    return found[0], found[1]


def _pair(power: FloatArray, values: FloatArray, name: str) -> tuple[FloatArray, FloatArray]:
    s = check_float_array(power, "power", ndim=1)
    f = check_float_array(values, name, ndim=1)
    check_same_shape(s, f, ("power", name))
    return s, f


def _scale(s: FloatArray, f: FloatArray) -> float:
    """Unit of money in which the programs are solved."""
    return float(np.abs(s).max(initial=0.0) * np.abs(f).max(initial=0.0))


def _rows(s: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
    """Rows ``s_i f_j - c_j - s_i f_i + c_i <= 0`` in the variables (f, c)."""
    i, j = np.nonzero(~np.eye(k, dtype=bool))
    rows, at = np.zeros((i.size, 2 * k)), np.arange(i.size)
    rows[at, j] += s[i]
    rows[at, i] -= s[i]
    rows[at, k + j] -= 1.0
    rows[at, k + i] += 1.0
    return rows, np.zeros(i.size)
