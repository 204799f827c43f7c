"""Follow the Lazy Leader: one random handicap per expert, drawn once; then just follow the leader.

The leader changes rarely because a single draw of the noise serves all rounds. The number of
switches is small on average and wildly spread: either none or almost one per round.
Source: Kalai and Vempala 2005; docs/theory/09-tradeoff.md, "Proposition 9.D: Follow the Lazy
Leader".
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.online.chain import Int32Array, LazyChain
from counterplay.core.online.leader_laws import (
    exponential_leader_law,
    exponential_leader_switches,
    grid_leader_law,
)
from counterplay.core.online.learner import ScalarLearner
from counterplay.core.online.stored import inside, require
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    check_choice,
    check_positive_int,
    check_real,
)
from counterplay.errors import InvalidInputError

Variant = Literal["exponential", "grid"]


@checked
class FollowLazyLeader(ScalarLearner):
    """Follow the expert that leads after a random head start drawn once.

    Use ``ShrinkingDartboard`` unless you need a learner without any further randomness: this one
    is only sound for losses fixed in advance, and its number of switches is heavy-tailed.

    Parameters
    ----------
    eps:
        Scale of the noise (mean ``1 / eps``); None: ``min(1, sqrt(ln K / horizon))``.
    variant:
        ``"exponential"``: exponential head starts. ``"grid"``: the original version, which rounds
        the cumulative losses up to a randomly shifted grid of width ``1 / eps``.

    Notes
    -----
    Exponential variant, losses fixed in advance: expected switches at most
    ``eps * (its expected loss)``, and expected loss at most ``e**eps (L* + (H_K - 1) / eps)``. The
    textbook bound of the grid variant has ``sqrt(K E)`` in place of ``sqrt(E ln K)``.

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.tile([[0.0, 1.0], [1.0, 0.0]], (800, 1))  # the leader alternates
    >>> learner = FollowLazyLeader()
    >>> round(learner.expected_switches(losses), 1)
    16.5
    >>> paths = learner.sample(losses, 5000, random_state=0)
    >>> switches = (paths[:, 1:] != paths[:, :-1]).sum(axis=1)
    >>> int(switches.max())  # bound on the mean: 16.7
    1599

    References
    ----------
    A. Kalai, S. Vempala, Efficient algorithms for online decision problems, 2005.
    """

    _state: ClassVar[tuple[str, ...]] = (*ScalarLearner._state, "_eps", "_noise", "_cumulative")
    _eps: float
    _noise: FloatArray
    _cumulative: FloatArray

    def __init__(self, eps: float | None = None, *, variant: Variant = "exponential") -> None:
        if eps is not None:
            check_real(eps, "eps", low=0.0, open_low=True)
        self.eps = eps
        self.variant: Variant = check_choice(variant, "variant", ("exponential", "grid"))

    def _start(self) -> None:
        self._eps = self._scale(self.K, self.horizon)
        self._noise = self._draw_noise(1, self.K, self._eps, self._rng)[0]
        self._cumulative = np.zeros(self.K)

    def _check_parts(self, fresh: FollowLazyLeader) -> None:
        require(self._eps == fresh._eps, self, "_eps", f"must be {fresh._eps}")
        self._check_cumulative(self._cumulative)
        most = (1.0 if self.variant == "grid" else 1000.0) / self._eps  # e**-1000 is 0 in doubles
        inside(self, "_noise", self._noise, 0.0, most, 0.0)

    def probs(self) -> None:
        """Return None: given the one draw of the noise, the path is no longer random."""
        return

    def _draw(self) -> int:
        return leader(self._cumulative, self._noise, self._eps, self.variant == "grid")

    def _learn(self, loss: FloatArray) -> None:
        self._cumulative += loss

    def marginals(
        self, losses: ArrayLike, *, horizon: int | None = None, out: FloatArray | None = None
    ) -> FloatArray:
        """Return the exact probabilities over the draw of the noise, by Gauss quadrature."""
        matrix = self._matrix(losses)
        eps = self._scale(matrix.shape[1], horizon or len(matrix))
        before = cumulative_before(matrix)
        law = exponential_leader_law if self.variant == "exponential" else grid_leader_law
        result = law(before, eps)
        if out is None:
            return result
        np.copyto(out, result)
        return out

    def chain(self, losses: ArrayLike, *, horizon: int | None = None) -> LazyChain:
        """Not available: one draw decides all rounds, so the path is not a lazy chain."""
        raise InvalidInputError(
            "FollowLazyLeader has no round-by-round law; use marginals, sample, expected_switches"
        )

    def sample(
        self,
        losses: ArrayLike,
        replicates: int = 1,
        *,
        horizon: int | None = None,
        random_state: RandomState = None,
    ) -> Int32Array:
        """Draw ``replicates`` noise vectors and return the paths they lead to."""
        matrix = self._matrix(losses)
        eps = self._scale(matrix.shape[1], horizon or len(matrix))
        n = check_positive_int(replicates, "replicates")
        noise = self._draw_noise(n, matrix.shape[1], eps, generator(random_state))
        paths = np.empty((n, len(matrix)), dtype=np.int32)
        _leaders(cumulative_before(matrix), noise, eps, self.variant == "grid", paths)
        return paths

    def expected_switches(self, losses: ArrayLike, *, horizon: int | None = None) -> float:
        """Return the exact expected number of switches (exponential variant)."""
        if self.variant == "grid":
            raise InvalidInputError("expected_switches needs variant='exponential'; use sample")
        matrix = self._matrix(losses)
        eps = self._scale(matrix.shape[1], horizon or len(matrix))
        return float(exponential_leader_switches(cumulative_before(matrix), eps).sum())

    def _scale(self, K: int, horizon: int | None) -> float:
        if self.eps is not None:
            return float(self.eps)
        if horizon is None:
            raise InvalidInputError(
                "FollowLazyLeader needs a horizon to set its noise; pass horizon to reset or eps"
            )
        return lazy_leader_scale(K, horizon)

    def _draw_noise(self, n: int, K: int, eps: float, rng: np.random.Generator) -> FloatArray:
        if self.variant == "grid":
            return rng.random((n, K)) / eps
        return rng.standard_exponential((n, K)) / eps


def lazy_leader_scale(K: int, horizon: int) -> float:
    """Noise scale for a known horizon: ``min(1, sqrt(ln K / E))`` (1 for a single expert).

    Examples
    --------
    >>> round(lazy_leader_scale(10, 100), 5)
    0.15174
    """
    if check_positive_int(K, "K") == 1:
        return 1.0
    return min(1.0, math.sqrt(math.log(K) / check_positive_int(horizon, "horizon")))


def cumulative_before(losses: FloatArray) -> FloatArray:
    """Return each expert's cumulative loss before every round."""
    before = np.zeros_like(losses)
    np.cumsum(losses[:-1], axis=0, out=before[1:])
    return before


@njit(cache=True)
def leader(cumulative: FloatArray, noise: FloatArray, eps: float, grid: bool) -> int:
    """Return the perturbed leader; ties go to the lowest index."""
    best, best_value = 0, math.inf
    for h in range(cumulative.size):
        if grid:
            value = noise[h] + math.ceil((cumulative[h] - noise[h]) * eps) / eps
        else:
            value = cumulative[h] - noise[h]
        if value < best_value:
            best, best_value = h, value
    return best


@njit(cache=True)
def _leaders(
    before: FloatArray, noise: FloatArray, eps: float, grid: bool, paths: Int32Array
) -> None:
    for r in range(noise.shape[0]):
        for i in range(before.shape[0]):
            paths[r, i] = leader(before[i], noise[r], eps, grid)
