"""Follow the Leader, plain and with fresh noise: play whoever has lost least so far.

Both depend on the cumulative losses only. The plain version is easily fooled by alternating losses;
fresh exponential noise in every round makes it as good as Hedge, and as restless.
Source: Kalai and Vempala 2005; docs/theory/09-tradeoff.md, "Learners of cumulative losses".
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.online.chain import LazyChain, independent_chain, pick, point_mass
from counterplay.core.online.follow_lazy_leader import cumulative_before, lazy_leader_scale
from counterplay.core.online.leader_laws import exponential_leader_law
from counterplay.core.online.learner import ScalarLearner
from counterplay.core.online.stored import require
from counterplay.core.validation import FloatArray, check_real
from counterplay.errors import InvalidInputError


@checked
class FollowTheLeader(ScalarLearner):
    """Play the expert with the smallest cumulative loss; ties go to the lowest index.

    Use it as the naive baseline: it has no guarantee against losses that alternate.

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.tile([[1.0, 0.0], [0.0, 1.0]], (50, 1))
    >>> losses[0, 0] = 0.5  # from now on the leader always loses next
    >>> P = FollowTheLeader().marginals(losses)
    >>> float((P * losses).sum() - losses.sum(axis=0).min())
    50.0

    References
    ----------
    N. Cesa-Bianchi, G. Lugosi, Prediction, Learning, and Games, 2006, section 4.3.
    """

    _state: ClassVar[tuple[str, ...]] = (*ScalarLearner._state, "_cumulative")
    _cumulative: FloatArray

    def __init__(self) -> None:
        pass

    def _start(self) -> None:
        self._cumulative = np.zeros(self.K)

    def _check_parts(self, fresh: FollowTheLeader) -> None:
        self._check_cumulative(self._cumulative)

    def probs(self) -> FloatArray:
        """Return all mass on the leader."""
        self._check_started()
        return point_mass(self.K, int(self._cumulative.argmin()))

    def _draw(self) -> int:
        self._rng.random(2)  # keep in step with the batch version
        return int(self._cumulative.argmin())

    def _learn(self, loss: FloatArray) -> None:
        self._cumulative += loss

    def chain(self, losses: ArrayLike, *, horizon: int | None = None) -> LazyChain:
        """Return the (deterministic) law of the path."""
        matrix = self._matrix(losses)
        leaders = cumulative_before(matrix).argmin(axis=1)
        marginals = np.zeros_like(matrix)
        marginals[np.arange(len(matrix)), leaders] = 1.0
        return independent_chain(marginals)


@checked
class FollowPerturbedLeader(ScalarLearner):
    """Follow the leader after exponential head starts drawn afresh in every round.

    Use it as a baseline: the marginals of ``FollowLazyLeader``, but a new draw per round.

    Parameters
    ----------
    eps:
        The head starts have mean ``1 / eps``; None: ``min(1, sqrt(ln K / horizon))``.

    Notes
    -----
    Expected loss at most ``e**eps (L* + (H_K - 1) / eps)``, with ``H_K`` the harmonic number.

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.tile([[1.0, 0.0], [0.0, 1.0]], (50, 1))
    >>> P = FollowPerturbedLeader().marginals(losses)
    >>> round(float((P * losses).sum() - losses.sum(axis=0).min()), 2)
    2.0

    References
    ----------
    A. Kalai, S. Vempala, Efficient algorithms for online decision problems, 2005.
    """

    _state: ClassVar[tuple[str, ...]] = (*ScalarLearner._state, "_eps", "_cumulative")
    _eps: float
    _cumulative: FloatArray

    def __init__(self, eps: float | None = None) -> None:
        if eps is not None:
            check_real(eps, "eps", low=0.0, open_low=True)
        self.eps = eps

    def _start(self) -> None:
        self._eps = self._scale(self.K, self.horizon)
        self._cumulative = np.zeros(self.K)

    def _check_parts(self, fresh: FollowPerturbedLeader) -> None:
        require(self._eps == fresh._eps, self, "_eps", f"must be {fresh._eps}")
        self._check_cumulative(self._cumulative)

    def probs(self) -> FloatArray:
        """Return the exact distribution of the perturbed leader."""
        self._check_started()
        return exponential_leader_law(self._cumulative[None, :], self._eps).reshape(-1)

    def _draw(self) -> int:
        return pick(self.probs(), self._rng.random(2)[1])

    def _learn(self, loss: FloatArray) -> None:
        self._cumulative += loss

    def chain(self, losses: ArrayLike, *, horizon: int | None = None) -> LazyChain:
        """Return the law of the path: independent draws of the perturbed leader."""
        matrix = self._matrix(losses)
        eps = self._scale(matrix.shape[1], horizon or len(matrix))
        return independent_chain(exponential_leader_law(cumulative_before(matrix), eps))

    def _scale(self, K: int, horizon: int | None) -> float:
        if self.eps is not None:
            return float(self.eps)
        if horizon is None:
            raise InvalidInputError(
                "FollowPerturbedLeader needs a horizon to set its noise; "
                "pass horizon to reset or eps"
            )
        return lazy_leader_scale(K, horizon)
