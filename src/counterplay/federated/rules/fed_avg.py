"""Equal weights for everybody who is still there: FedAvg, FedSGD and the Polyak variant.

One common factor times the mean of what the active parties sent: their local updates, or their
gradients (FedSGD) where they took one full-batch step. No rule of this kind avoids harmful
defections on all problems.
Source: Theorem 5.1, Algorithm D.1, see docs/theory/05-defection.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import check_real
from counterplay.errors import InvalidInputError
from counterplay.federated.reports import Decision, Reports, RuleState


@checked
@dataclass(frozen=True)
class FedAvg:
    """Federated averaging: step along the mean of what the active parties sent, times ``nu``.

    Use it as the baseline that cannot protect anybody. Every party counts once; Flower's own
    ``FedAvg`` weighs parties by their rows, and gives the same model where these are equal.

    Parameters
    ----------
    nu : float, "polyak" or callable
        Common weight. ``"polyak"`` takes ``mean(F) / |mean G|^2`` (use it with step size 1). A
        callable receives the :class:`Reports` and returns the factor.

    Guarantees
    ----------
    None, provably: for every uniform rule there is a problem on which it ends outside the target
    of some party (Theorem 5.1, with the repaired instance for factors that use loss values).

    Examples
    --------
    >>> from counterplay.federated.stack import NumpyStack
    >>> reports = Reports(np.array([1.0, 2.0]), NumpyStack([[1.0, 0.0], [0.0, 1.0]]), np.zeros(2))
    >>> FedAvg().decide(reports, 0.5, RuleState()).step.tolist()
    [-0.25, -0.25]

    References
    ----------
    McMahan, Moore, Ramage, Hampson, Aguera y Arcas (2017); Theorem 5.1 in
    docs/theory/05-defection.md.
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

    @property
    def reads_losses(self) -> bool:
        """Whether the step depends on the losses, so that answers without one cannot be used."""
        return isinstance(self.nu, str) or callable(self.nu)

    @checked
    def decide(self, reports: Reports, step_size: float, state: RuleState) -> Decision:
        """Return the uniform step."""
        state.round += 1
        M, moves = len(reports.loss), reports.moves
        mean = moves.combine(reports.bounded(np.full(M, 1.0 / M)))
        if isinstance(self.nu, str):
            square = moves.dot(mean, mean)
            nu = float(reports.loss.mean()) / square if square > 0.0 else 0.0
        elif callable(self.nu):
            nu = check_real(float(self.nu(reports)), "the value of nu", low=0.0)
        else:
            nu = self.nu
        length = check_real(step_size * nu, "step_size times nu", low=0.0)
        return Decision(mean * -length, "running", 0, np.zeros(M, dtype=bool))
