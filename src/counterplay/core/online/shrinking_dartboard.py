"""Shrinking Dartboard: the probabilities of Hedge with about sqrt(E ln K) switches.

The weight of an expert only shrinks. The learner keeps its expert with exactly the share of weight
that is left, and draws afresh otherwise; the marginal law stays that of exponential weights.
Source: Geulen, Voecking and Winkler 2010; docs/theory/09-tradeoff.md, "Proposition 9.C: Shrinking
Dartboard".
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.online.chain import LazyChain, normalise, pick
from counterplay.core.online.exponential import REBUILD, advance, fixed_step_marginals, rebuild
from counterplay.core.online.hedge import check_weights
from counterplay.core.online.learner import ScalarLearner
from counterplay.core.online.stored import require
from counterplay.core.validation import FloatArray, check_positive_int, check_real
from counterplay.errors import InvalidInputError


@checked
class ShrinkingDartboard(ScalarLearner):
    """Exponential weights that switch experts rarely.

    Use it when every change of expert costs something: a model to deploy, people to unsettle.

    Parameters
    ----------
    eta:
        Shrinking rate in [0, 1): a loss of 1 multiplies the weight by ``1 - eta``. None:
        ``min(1/2, sqrt(ln K / horizon))``.

    Notes
    -----
    On losses fixed in advance, with ``E >= 4 ln K`` rounds and the default rate, the expected
    regret and the expected number of switches are both at most ``2 sqrt(E ln K)``.

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.random.default_rng(0).random((400, 10))
    >>> learner = ShrinkingDartboard()
    >>> round(learner.expected_switches(losses), 1)  # bound: 60.7
    13.5
    >>> from counterplay.core.online import Hedge
    >>> round(Hedge(-np.log1p(-0.07587)).expected_switches(losses), 1)  # same probabilities
    354.6

    References
    ----------
    S. Geulen, B. Voecking, M. Winkler, Regret minimization for online buffering problems using the
    weighted majority algorithm, COLT 2010.
    """

    _state: ClassVar[tuple[str, ...]] = (
        *ScalarLearner._state, "_step", "_cumulative", "_weights", "_last", "_keep",
    )  # fmt: skip
    _step: float
    _cumulative: FloatArray
    _weights: FloatArray
    _last: int  # expert of the previous round, -1 in the first
    _keep: float  # share of its weight that is left

    def __init__(self, eta: float | None = None) -> None:
        if eta is not None:
            check_real(eta, "eta", low=0.0, high=1.0, open_high=True)
        self.eta = eta

    def _start(self) -> None:
        self._step = self._step_for(self.K, self.horizon)
        self._cumulative = np.zeros(self.K)
        self._weights = np.ones(self.K)
        self._last, self._keep = -1, 0.0

    def _check_parts(self, fresh: ShrinkingDartboard) -> None:
        require(self._step == fresh._step, self, "_step", f"must be {fresh._step}")
        self._check_cumulative(self._cumulative)
        check_weights(self, self._cumulative, self._weights, self._step)
        least = math.exp(-self._step) - 1e-12 if self.rounds else 0.0
        require(least <= self._keep <= 1.0, self, "_keep", f"must be in [{least:g}, 1]")
        started = (self._last >= 0) == (self.rounds > 0)
        require(started, self, "_last", "must be the expert of the last round")

    def probs(self) -> FloatArray:
        """Return the marginal distribution of the coming choice."""
        self._check_started()
        return normalise(self._weights)

    def _draw(self) -> int:
        uniform = self._rng.random(2)
        if self._last >= 0 and uniform[0] < self._keep:
            return self._last
        return pick(self._weights, uniform[1])

    def _learn(self, loss: FloatArray) -> None:
        self._last = self.act()
        self._keep = math.exp(-self._step * loss[self._last])
        advance(self._cumulative, self._weights, loss, self._step, self._step)
        if (self.rounds + 1) % REBUILD == 0:
            rebuild(self._cumulative, self._weights, self._step)

    def marginals(
        self, losses: ArrayLike, *, horizon: int | None = None, out: FloatArray | None = None
    ) -> FloatArray:
        """Return the exact probabilities in every round; see ``ScalarLearner.marginals``."""
        matrix = self._raw_matrix(losses)
        step = self._step_for(matrix.shape[1], horizon or len(matrix))
        result = np.empty_like(matrix) if out is None else out
        if not fixed_step_marginals(matrix, step, *self._range, result):
            self._check_values(matrix)
        return result

    def chain(self, losses: ArrayLike, *, horizon: int | None = None) -> LazyChain:
        """Return the law of the path: keep with the share of weight left, else draw afresh."""
        matrix = self._matrix(losses)
        step = self._step_for(matrix.shape[1], horizon or len(matrix))
        marginals = self.marginals(matrix, horizon=horizon)
        keep = np.zeros_like(matrix)
        np.exp(-step * matrix[:-1], out=keep[1:])
        return LazyChain(marginals, keep, marginals)

    def _step_for(self, K: int, horizon: int | None) -> float:
        if self.eta is not None:
            return -math.log1p(-self.eta)
        if horizon is None:
            raise InvalidInputError(
                "ShrinkingDartboard needs a horizon to set its rate; pass horizon to reset or eta"
            )
        return -math.log1p(-dartboard_rate(K, horizon))


def dartboard_rate(K: int, horizon: int) -> float:
    """Shrinking rate for a known horizon: ``min(1/2, sqrt(ln K / E))``.

    Examples
    --------
    >>> round(dartboard_rate(10, 100), 5)
    0.15174
    """
    rate = math.sqrt(math.log(check_positive_int(K, "K")) / check_positive_int(horizon, "horizon"))
    return min(0.5, rate)
