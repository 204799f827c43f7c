"""Two quadratics, where leaving is harmless and where nobody can move.

Source: Proposition 5.1; docs/theory/05-defection.md.
"""

from __future__ import annotations

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.defection.instances.construction import Construction
from counterplay.defection.problem import FunctionProblem


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
