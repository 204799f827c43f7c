"""MW-FED: agents that are far from their target get more weight.

With agents that leave when satisfied and no margin, everybody who is still there has always been
up-weighted, so the rule is plain FedAvg. The margin ``gap`` makes it slow down agents that get
near their target.
Source: Alg. alg:MW and App. sec:cdfl, spec 05 section 3.4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplay.core.validation import FloatArray, IntArray, check_positive_int, check_real
from counterplay.defection.reports import Decision, Reports, RuleState


@dataclass(frozen=True)
class MWFed:
    """Multiplicative weights on the agents: ``a_m`` grows while the loss is above ``eps_m + gap``.

    Use it as the baseline that reacts to losses but cannot predict them.

    Parameters
    ----------
    gap : float
        Margin of the up-weighting test ``F_m >= eps_m + gap``; a natural choice is the ``delta``
        of the other rules. With 0 the rule equals :class:`FedAvg` when agents leave once satisfied.
    growth : float
        Factor ``c > 1`` of an up-weighted agent.
    minibatches : int, optional
        ``B``: average with the whole numbers of minibatch steps ``floor(B k a_m / sum a)`` of the
        original algorithm (they may be 0) instead of with the weights themselves.

    Guarantees
    ----------
    ``gap=0`` reproduces FedAvg under agents that leave when satisfied (spec 05 section 3.4).

    Examples
    --------
    >>> from counterplay.defection.stack import NumpyStack
    >>> reports = Reports(np.array([1.0, 3.0]), NumpyStack([[1.0], [2.0]]), np.zeros(2))
    >>> rule, state = MWFed(gap=2.0, growth=3.0), RuleState()
    >>> [rule.decide(reports, 1.0, state).step.tolist() for _ in range(2)]
    [[-1.5], [-1.75]]

    References
    ----------
    Alg. alg:MW; spec 05 section 3.4.
    """

    gap: float = 0.0
    growth: float = 1.1
    minibatches: int | None = None

    def __post_init__(self) -> None:
        check_real(self.gap, "gap", low=0.0)
        check_real(self.growth, "growth", low=1.0, open_low=True)
        if self.minibatches is not None:
            check_positive_int(self.minibatches, "minibatches")

    def decide(self, reports: Reports, eta: float, state: RuleState) -> Decision:
        """Update the weights from the reported losses, then average with them."""
        M = len(reports.loss)
        weights = state.recall(reports.ids, np.full(M, 1.0 / M))
        if state.round > 0:
            weights = weights * np.where(reports.loss >= reports.eps + self.gap, self.growth, 1.0)
        weights = weights / weights.max()  # only ratios matter; keeps long runs finite
        state.store(reports.ids, weights)
        state.round += 1
        shares = self.loads(weights) if self.minibatches else weights
        total = float(shares.sum())
        step = reports.moves.combine(shares * (-eta / total if total else 0.0))
        return Decision(step, "running", 0, np.zeros(M, dtype=bool))

    def loads(self, weights: FloatArray) -> FloatArray:
        """Minibatch steps per agent, ``floor(B k a_m / sum a)``."""
        B = self.minibatches or 1
        return np.asarray(np.floor(B * len(weights) * weights / weights.sum() + 1e-12))

    def local_steps(self, ids: IntArray, state: RuleState) -> IntArray:
        """Minibatch steps that the agents ``ids`` should take next, from the stored weights."""
        weights = state.recall(ids, np.full(len(ids), 1.0 / max(len(ids), 1)))
        return self.loads(weights).astype(np.int64)
