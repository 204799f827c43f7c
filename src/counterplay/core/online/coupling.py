"""Maximal coupling: sample any learner's probabilities with the fewest possible switches.

From one round to the next the expert is kept with probability ``min(1, new / old)`` and otherwise
drawn from what was gained. The switch probability is the total variation distance of the two
distributions, and no sampling with these marginals can do with less.
Source: docs/theory/09-tradeoff.md, "Proposition 9.F: maximal coupling".
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.online.chain import LazyChain, pick
from counterplay.core.online.learner import ScalarLearner
from counterplay.core.online.stored import require
from counterplay.core.validation import FloatArray, check_probabilities
from counterplay.errors import InvalidInputError

_NOTHING = 1e-300  # below this the gained probability is zero: keep the expert


@checked
class MaximalCouplingSampler(ScalarLearner):
    """Make any learner with known probabilities as lazy as its probabilities allow.

    Use it around ``Hedge`` (fixed or decreasing step) or any other learner whose probabilities
    depend on the losses only: same regret, fewest switches.

    Parameters
    ----------
    base:
        A learner whose ``probs`` are known and do not depend on its own draws.

    Notes
    -----
    The marginals are those of ``base``. The expected number of switches is
    ``sum_i TV(p_{i-1}, p_i)``, the least of all samplings; for exponential weights it is never
    above the redraws of ``ShrinkingDartboard``.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.core.online import Hedge
    >>> losses = np.random.default_rng(0).random((400, 10))
    >>> hedge = Hedge()
    >>> round(hedge.expected_switches(losses), 1)
    312.6
    >>> round(MaximalCouplingSampler(hedge).expected_switches(losses), 1)
    8.9

    References
    ----------
    L. Thorisson, Coupling, Stationarity, and Regeneration, 2000 (maximal coupling).
    """

    _state: ClassVar[tuple[str, ...]] = (*ScalarLearner._state, "_previous", "_last")
    _previous: FloatArray | None
    _last: int

    def __init__(self, base: ScalarLearner) -> None:
        self.base = base
        self._range = base._range

    def _start(self) -> None:
        self.base.reset(self.K, self.horizon, self._rng)
        self._previous, self._last = None, -1

    def _check_parts(self, fresh: MaximalCouplingSampler) -> None:
        found = (self.base.K, self.base.horizon, self.base.rounds)
        wanted = (self.K, self.horizon, self.rounds)
        require(found == wanted, self, "base", "must be in the same round")
        require(self.base._rng is self._rng, self, "base", "must share the generator")
        first = self._previous is None
        require(first == (self._last < 0), self, "_last", "must be the expert that was drawn last")
        require(not first or self.rounds == 0, self, "_previous", "must be the last probabilities")
        if self._previous is not None:
            require(isinstance(self._previous, np.ndarray), self, "_previous", "must be numbers")
            check_probabilities(self._previous, "_previous")
            possible = bool(self._previous[self._last] > 0)
            require(possible, self, "_last", "has probability 0")

    def probs(self) -> FloatArray | None:
        """Return the probabilities of the wrapped learner."""
        self._check_started()
        return self.base.probs()

    def _draw(self) -> int:
        current = self.base.probs()
        if current is None:
            raise InvalidInputError(f"{self.base!r} does not know its probabilities; use it as is")
        uniform = self._rng.random(2)
        if self._previous is None:
            choice = pick(current, uniform[1])
        else:
            choice = coupled_draw(self._previous, current, self._last, uniform[0], uniform[1])
        self._previous, self._last = current, choice
        return choice

    def _learn(self, loss: FloatArray) -> None:
        self.act()
        self.base.observe(loss)

    def marginals(
        self, losses: ArrayLike, *, horizon: int | None = None, out: FloatArray | None = None
    ) -> FloatArray:
        """Return the exact probabilities of the wrapped learner."""
        return self.base.marginals(losses, horizon=horizon, out=out)

    def chain(self, losses: ArrayLike, *, horizon: int | None = None) -> LazyChain:
        """Return the law of the path: the maximal coupling of the marginals."""
        return maximal_coupling(self.marginals(losses, horizon=horizon))


@checked
def maximal_coupling(marginals: ArrayLike) -> LazyChain:
    """Return the laziest chain with the given marginals, shape ``(E, K)``.

    Examples
    --------
    >>> import numpy as np
    >>> maximal_coupling(np.array([[0.5, 0.5], [0.75, 0.25]])).expected_switches
    0.25
    """
    matrix = check_probabilities(marginals, "marginals")
    keep, redraw = np.zeros_like(matrix), np.empty_like(matrix)
    _couple(matrix, keep, redraw)
    return LazyChain(matrix, keep, redraw)


@njit(cache=True)
def _couple(marginals: FloatArray, keep: FloatArray, redraw: FloatArray) -> None:
    rounds, n_experts = marginals.shape
    redraw[0] = marginals[0]
    for i in range(1, rounds):
        gained = 0.0
        for h in range(n_experts):
            old, new = marginals[i - 1, h], marginals[i, h]
            keep[i, h] = min(1.0, new / old) if old > 0.0 else 1.0
            redraw[i, h] = max(0.0, new - old)
            gained += redraw[i, h]
        if gained < _NOTHING:
            keep[i], redraw[i] = 1.0, marginals[i]
        else:
            for h in range(n_experts):
                redraw[i, h] /= gained


@njit(cache=True)
def coupled_draw(
    previous: FloatArray, current: FloatArray, last: int, keep: float, draw: float
) -> int:
    """Move expert ``last`` from one distribution to the next, given two uniform numbers."""
    if keep * previous[last] < current[last]:
        return last
    gained = np.maximum(0.0, current - previous)
    if gained.sum() < _NOTHING:
        return last
    return pick(gained, draw)
