"""Explore then commit: watch for a while, then play the best expert so far for ever.

Enough when the losses are independent draws from a fixed distribution, hopeless when they are not.
Source: introduction of chapter 9 of the thesis (the i.i.d. remark).
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.online.chain import LazyChain, independent_chain, point_mass
from counterplay.core.online.learner import ScalarLearner
from counterplay.core.online.stored import require
from counterplay.core.validation import FloatArray, check_int, check_real
from counterplay.errors import InvalidInputError


@checked
class ExploreThenCommit(ScalarLearner):
    """Play expert 0 for ``n0`` rounds, then the best expert of these rounds.

    Use it only when losses are independent draws from one distribution.

    Parameters
    ----------
    n0:
        Rounds of exploration. None: ``ceil((2 / gap**2) ln(K T))``, which finds the best expert
        with probability at least ``1 - 1/T`` when it leads by ``gap`` on average.
    gap:
        Difference of the mean losses of the best and the second-best expert.

    Examples
    --------
    >>> import numpy as np
    >>> losses = (np.random.default_rng(0).random((1000, 3)) < [0.5, 0.5, 0.2]).astype(float)
    >>> P = ExploreThenCommit(gap=0.3).marginals(losses)
    >>> float((P * losses).sum() - losses.sum(axis=0).min())
    35.0

    References
    ----------
    A. Garivier, T. Lattimore, E. Kaufmann, On explore-then-commit strategies, 2016.
    """

    _state: ClassVar[tuple[str, ...]] = (*ScalarLearner._state, "_cumulative", "_committed")
    _cumulative: FloatArray
    _committed: int

    def __init__(self, n0: int | None = None, *, gap: float | None = None) -> None:
        if (n0 is None) == (gap is None):
            raise InvalidInputError("pass either n0 (rounds of exploration) or gap, not both")
        self.n0 = None if n0 is None else check_int(n0, "n0", low=0)
        self.gap = None if gap is None else check_real(gap, "gap", low=0, high=1, open_low=True)

    def _start(self) -> None:
        self._length(self.K, self.horizon)  # fails early when the horizon is missing
        self._cumulative = np.zeros(self.K)
        self._committed = 0

    def _check_parts(self, fresh: ExploreThenCommit) -> None:
        length = self._length(self.K, self.horizon)
        self._check_cumulative(self._cumulative, min(self.rounds, length))
        done = 0 < length <= self.rounds
        wanted = int(self._cumulative.argmin()) if done else 0
        require(self._committed == wanted, self, "_committed", f"must be {wanted}")

    def probs(self) -> FloatArray:
        """Return all mass on the expert that is played."""
        self._check_started()
        return point_mass(self.K, self._committed)

    def _draw(self) -> int:
        self._rng.random(2)  # keep in step with the batch version
        return self._committed

    def _learn(self, loss: FloatArray) -> None:
        length = self._length(self.K, self.horizon)
        if self.rounds < length:
            self._cumulative += loss
            if self.rounds + 1 == length:
                self._committed = int(self._cumulative.argmin())

    def chain(self, losses: ArrayLike, *, horizon: int | None = None) -> LazyChain:
        """Return the (deterministic) law of the path."""
        matrix = self._matrix(losses)
        length = self._length(matrix.shape[1], horizon or len(matrix))
        marginals = np.zeros_like(matrix)
        marginals[:length, 0] = 1.0
        seen = np.cumsum(matrix[:length], axis=0)[-1] if length else np.zeros(matrix.shape[1])
        marginals[length:, int(seen.argmin())] = 1.0
        return independent_chain(marginals)

    def _length(self, K: int, horizon: int | None) -> int:
        if self.n0 is not None:
            return self.n0
        if horizon is None or self.gap is None:
            raise InvalidInputError("ExploreThenCommit needs a horizon; pass it to reset, or n0")
        return exploration_rounds(K, horizon, self.gap)


def exploration_rounds(K: int, horizon: int, gap: float) -> int:
    """Rounds after which the best expert is found: ``ceil((2 / gap**2) ln(K T))``.

    Examples
    --------
    >>> exploration_rounds(3, 1000, 0.3)
    178
    """
    return math.ceil(2 / gap**2 * math.log(K * horizon))
