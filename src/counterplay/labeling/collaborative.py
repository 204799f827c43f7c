"""The whole campaign behind one object with ``fit``, in the style of scikit-learn.

For people who have one feature array per party instead of one pool with owners. Source: spec 06,
section 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.validation import check_float_array
from counterplay.errors import InvalidInputError, ProtocolError
from counterplay.labeling.algorithm import TreeAlgorithm
from counterplay.labeling.campaign import CampaignPlan, plan_campaign
from counterplay.labeling.session import LabelingSession


class CollaborativeActiveLearner:
    """Plan a joint campaign from one feature array per party.

    Use it instead of ``plan_campaign`` when every party hands in its own table.

    Parameters
    ----------
    baseline:
        What each party would run alone; ``GBS()`` by default.
    incentive:
        ``"ir"`` (nobody loses) or ``"sir"`` (everybody gains strictly).
    eps:
        Extra queries allowed for ``"sir"``.

    Attributes
    ----------
    plan_:
        The plan, with its report and certificate.
    pool_:
        All parties' rows, one below the other.

    Notes
    -----
    The guarantees are those of ``B2IR`` and ``SIRMixture``.

    Examples
    --------
    >>> learner = CollaborativeActiveLearner().fit([[[1.0], [4.0]], [[2.0], [3.0]]], "thresholds")
    >>> learner.report_.is_ir, round(float(learner.report_.total), 3)
    (True, 2.4)
    """

    def __init__(
        self,
        baseline: TreeAlgorithm | None = None,
        *,
        incentive: Literal["ir", "sir"] = "ir",
        eps: float = 0.1,
    ) -> None:
        self.baseline = baseline
        self.incentive = incentive
        self.eps = eps

    def fit(
        self, pools: Sequence[ArrayLike], hypotheses: Any, weights: ArrayLike | None = None
    ) -> CollaborativeActiveLearner:
        """Plan the campaign on the parties' rows; ``hypotheses`` as in ``plan_campaign``."""
        parts = [check_float_array(pool, f"pool {i}", ndim=2) for i, pool in enumerate(pools)]
        if not parts or any(part.shape[1] != parts[0].shape[1] for part in parts):
            raise InvalidInputError("every party needs a pool with the same number of features")
        self.pool_ = np.vstack(parts)
        ends = np.cumsum([0, *(len(part) for part in parts)])
        owners = [np.arange(first, last) for first, last in zip(ends[:-1], ends[1:])]
        self.plan_: CampaignPlan = plan_campaign(
            self.pool_,
            owners=owners,
            hypotheses=hypotheses,
            weights=weights,
            baseline=self.baseline,
            incentive=self.incentive,
            eps=self.eps,
        )
        self.report_ = self.plan_.report
        return self

    def start(self, seed: int = 0) -> LabelingSession:
        """Begin the planned campaign."""
        if not hasattr(self, "plan_"):
            raise ProtocolError("this learner is not fitted yet; call fit first")
        return self.plan_.start(seed)

    def __repr__(self) -> str:
        return (
            f"CollaborativeActiveLearner(baseline={self.baseline!r}, "
            f"incentive={self.incentive!r}, eps={self.eps!r})"
        )
