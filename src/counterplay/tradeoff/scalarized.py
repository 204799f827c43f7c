"""Baseline: mix both losses into one and forget about the constraint.

Thm. thm:notwork shows why this cannot work in general. Source: spec 09, section 3.11.
"""

from __future__ import annotations

from typing import ClassVar

from counterplay.core.online import ScalarLearner
from counterplay.core.seeds import RandomState
from counterplay.core.validation import FloatArray, check_real
from counterplay.tradeoff.epoch_learner import EpochLearner
from counterplay.tradeoff.model import EpochRule


class ScalarizedLearner(EpochLearner):
    """Run a learner on ``(l1 + lam * l2) / (1 + lam)``.

    Use it as the baseline most people try first.

    Parameters
    ----------
    lam:
        Price of one unit of secondary loss, in units of primary loss.
    T, K, alpha, B, learner, random_state:
        As for ``EpochLearner``; by default one choice per round.

    Examples
    --------
    >>> from counterplay.core.online import FollowTheLeader
    >>> from counterplay.tradeoff.instances import impossibility_worlds
    >>> world_1, world_2 = impossibility_worlds(T=9600)
    >>> learner = ScalarizedLearner(lam=1.0, T=9600, K=2, learner=FollowTheLeader())
    >>> result = learner.run(world_2.l1, world_2.l2, c=world_2.c)
    >>> round(result.R1), round(result.R2)  # on average over both worlds at least 66.7
    (400, 1)

    References
    ----------
    A. Blum, H. Shao, Online learning with primary and secondary losses, NeurIPS 2020.
    """

    uses_secondary: ClassVar[bool] = True

    def __init__(
        self,
        lam: float,
        T: int,
        K: int,
        alpha: float | None = None,
        *,
        B: EpochRule = 1,
        learner: ScalarLearner | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.lam = check_real(lam, "lam", low=0.0)
        super().__init__(T, K, alpha, B=B, learner=learner, random_state=random_state)

    def _combine(self, l1: FloatArray, l2: FloatArray) -> FloatArray:
        mixed: FloatArray = (l1 + self.lam * l2) / (1 + self.lam)
        return mixed

    def guarantees(self) -> dict[str, float]:
        """Return nothing: mixing the losses promises nothing about either of them."""
        return {}
