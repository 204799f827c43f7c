"""Equal weights for everybody who is still there: FedSGD, its Polyak variant, and FedAvg.

One common factor times the mean of what the active agents sent. No rule of this kind avoids
harmful defections on all problems.
Source: Thm. obs:aggre, Alg. alg:fedavg, spec 05 sections 3.2 and 3.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from counterplay.core.validation import check_real
from counterplay.defection.reports import Decision, Reports, RuleState
from counterplay.defection.stack import Stack
from counterplay.errors import InvalidInputError


@dataclass(frozen=True)
class UniformAggregation:
    """FedSGD: step along the mean gradient of the active agents, times a common factor ``nu``.

    Use it as the baseline that cannot protect anybody.

    Parameters
    ----------
    nu : float, "polyak" or callable
        Common weight. ``"polyak"`` takes ``mean(F) / |mean G|^2`` (use it with ``eta=1``). A
        callable receives the :class:`Reports` and returns the factor.

    Guarantees
    ----------
    None, provably: for every uniform rule there is a problem on which it ends outside the target
    of some agent (Thm. obs:aggre, with the repaired instance for factors that use loss values).

    Examples
    --------
    >>> from counterplay.defection.stack import NumpyStack
    >>> reports = Reports(np.array([1.0, 2.0]), NumpyStack([[1.0, 0.0], [0.0, 1.0]]), np.zeros(2))
    >>> UniformAggregation().decide(reports, 0.5, RuleState()).step.tolist()
    [-0.25, -0.25]

    References
    ----------
    Thm. obs:aggre; spec 05 section 3.2.
    """

    nu: float | Literal["polyak"] | Callable[[Reports], float] = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.nu, str):
            if self.nu != "polyak":
                raise InvalidInputError(
                    f"nu must be a number, 'polyak' or callable, got {self.nu!r}"
                )
        elif not callable(self.nu):
            check_real(self.nu, "nu", low=0.0, open_low=True)

    def decide(self, reports: Reports, eta: float, state: RuleState) -> Decision:
        """Return the uniform step on the gradients."""
        return self._mean(reports, reports.gradients, eta, state)

    def _mean(self, reports: Reports, moves: Stack, eta: float, state: RuleState) -> Decision:
        state.round += 1
        M = len(reports.loss)
        mean = moves.combine(np.full(M, 1.0 / M))
        if isinstance(self.nu, str):
            square = moves.dot(mean, mean)
            nu = float(reports.loss.mean()) / square if square > 0.0 else 0.0
        elif callable(self.nu):
            nu = check_real(float(self.nu(reports)), "the value of nu", low=0.0)
        else:
            nu = self.nu
        return Decision(mean * (-eta * nu), "running", 0, np.zeros(M, dtype=bool))


@dataclass(frozen=True)
class FedAvg(UniformAggregation):
    """Federated averaging: step along the mean local update of the active agents.

    Use it with agents that take several local steps. With one full-batch step it is
    :class:`UniformAggregation` bit for bit.

    Parameters
    ----------
    nu : float, "polyak" or callable
        As in :class:`UniformAggregation`.

    Guarantees
    ----------
    The mean is over the agents that are still there; like every uniform rule it may lose them.

    Examples
    --------
    >>> from counterplay.defection.stack import NumpyStack
    >>> gradients, updates = NumpyStack([[2.0], [4.0]]), NumpyStack([[1.0], [3.0]])
    >>> reports = Reports(np.ones(2), gradients, np.zeros(2), updates=updates)
    >>> FedAvg().decide(reports, 0.5, RuleState()).step.tolist()
    [-1.0]

    References
    ----------
    Alg. alg:fedavg; spec 05 section 3.3.
    """

    def decide(self, reports: Reports, eta: float, state: RuleState) -> Decision:
        """Return the uniform step on the local updates."""
        return self._mean(reports, reports.moves, eta, state)
