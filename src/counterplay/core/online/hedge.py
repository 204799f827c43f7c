"""Hedge (exponential weights): the standard learner for experts with losses.

Each expert's probability falls exponentially in its cumulative loss. The expert is drawn afresh in
every round, so the played expert changes often; the lazy variants are in ``shrinking_dartboard``
and ``coupling``.
Source: Littlestone and Warmuth 1989; docs/theory/09-tradeoff.md, "Anytime learners".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.online.chain import LazyChain, independent_chain, normalise, pick
from counterplay.core.online.exponential import (
    REBUILD,
    advance,
    fixed_step_marginals,
    rebuild,
    varying_step_marginals,
)
from counterplay.core.online.learner import ScalarLearner
from counterplay.core.online.stored import require
from counterplay.core.validation import FloatArray, check_positive_int, check_real
from counterplay.errors import InvalidInputError


@checked
class Hedge(ScalarLearner):
    """Exponential weights: play expert ``h`` with probability proportional to ``exp(-eta L_h)``.

    Use it when switching the expert costs nothing. Where it does, use ``ShrinkingDartboard`` or
    wrap this learner in ``MaximalCouplingSampler``: same probabilities, far fewer switches.

    Parameters
    ----------
    step_size:
        None: ``sqrt(8 ln K / horizon)``, the best tuning for a known horizon.
        ``"decreasing"``: ``sqrt(2 ln K / i)`` in round ``i = 1, 2, ...``, for an unknown horizon.
        A number, or a function of the round ``i = 1, 2, ...`` that does not increase.
    loss_range:
        Smallest and largest possible loss; the automatic steps are divided by its width.

    Notes
    -----
    Guarantee for losses in [0, 1], any sequence: expected regret at most ``sqrt(T ln K / 2)`` with
    the default step, and at most ``1.07 sqrt(m ln K)`` after every number ``m`` of rounds with
    the decreasing one.

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.random.default_rng(0).random((1000, 10))
    >>> P = Hedge().marginals(losses)
    >>> round(float((P * losses).sum() - losses.sum(axis=0).min()), 1)  # bound: 33.9
    14.8

    References
    ----------
    N. Littlestone and M. Warmuth, The weighted majority algorithm, 1989.
    """

    _state: ClassVar[tuple[str, ...]] = (*ScalarLearner._state, "_step", "_cumulative", "_weights")
    _step: float | None  # None when it varies from round to round
    _cumulative: FloatArray
    _weights: FloatArray

    def __init__(
        self,
        step_size: float | Literal["decreasing"] | Callable[[int], float] | None = None,
        *,
        loss_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        if isinstance(step_size, str) and step_size != "decreasing":
            raise InvalidInputError(
                f"step_size must be a number, 'decreasing' or None, got {step_size!r}"
            )
        if step_size is not None and not isinstance(step_size, str) and not callable(step_size):
            check_real(step_size, "step_size", low=0.0)
        pair = isinstance(loss_range, tuple) and len(loss_range) == 2
        ends = [check_real(end, "loss_range") for end in loss_range] if pair else [0.0, 0.0]
        if not ends[0] < ends[1]:
            raise InvalidInputError(
                f"loss_range must be an interval (low, high), got {loss_range!r:.100}"
            )
        self.step_size = step_size
        self.loss_range = loss_range
        self._range = loss_range

    def _start(self) -> None:
        self._cumulative = np.zeros(self.K)
        self._weights = np.ones(self.K)
        self._step = self._fixed_step(self.K, self.horizon)

    def _check_parts(self, fresh: Hedge) -> None:
        require(self._step == fresh._step, self, "_step", f"must be {fresh._step}")
        self._check_cumulative(self._cumulative)
        if self._step is None:
            self._weights = fresh._weights  # computed anew before they are used
        else:
            check_weights(self, self._cumulative, self._weights, self._step)

    def probs(self) -> FloatArray:
        """Return the distribution of the coming choice."""
        self._check_started()
        self._refresh()
        return normalise(self._weights)

    def _draw(self) -> int:
        self._refresh()
        return pick(self._weights, self._rng.random(2)[1])

    def _learn(self, loss: FloatArray) -> None:
        if self._step is None:
            self._cumulative += loss
            return
        advance(self._cumulative, self._weights, loss, self._step, self._reach(self._step))
        if (self.rounds + 1) % REBUILD == 0:
            rebuild(self._cumulative, self._weights, self._step)

    def _refresh(self) -> None:
        """With a varying step the weights are a function of the round: compute them now."""
        if self._step is None:
            rebuild(self._cumulative, self._weights, self._step_in(self.rounds + 1, self.K))

    def marginals(
        self, losses: ArrayLike, *, horizon: int | None = None, out: FloatArray | None = None
    ) -> FloatArray:
        """Return the exact probabilities in every round; see ``ScalarLearner.marginals``."""
        matrix = self._raw_matrix(losses)
        rounds, n_experts = matrix.shape
        result = np.empty_like(matrix) if out is None else out
        step = self._fixed_step(n_experts, horizon or rounds)
        if step is not None:
            if not fixed_step_marginals(matrix, step, *self._range, result):
                self._check_values(matrix)
        else:
            self._check_values(matrix)
            varying_step_marginals(matrix, self._steps(rounds, n_experts), result)
        return result

    def chain(self, losses: ArrayLike, *, horizon: int | None = None) -> LazyChain:
        """Return the law of the path: independent draws from the marginals."""
        return independent_chain(self.marginals(losses, horizon=horizon))

    def _fixed_step(self, K: int, horizon: int | None) -> float | None:
        """Return the constant step, or None when it varies from round to round."""
        if self.step_size is None:
            if horizon is None:
                raise InvalidInputError(
                    "Hedge needs a horizon to set its step; pass horizon to reset, "
                    "a number as step_size, or step_size='decreasing'"
                )
            return hedge_step(K, horizon) / self._width
        if isinstance(self.step_size, str) or callable(self.step_size):
            return None
        return float(self.step_size)

    def _steps(self, rounds: int, K: int) -> FloatArray:
        """``_step_in`` for the rounds 1, 2, ..."""
        if callable(self.step_size):
            return np.array([float(self.step_size(i)) for i in range(1, rounds + 1)])
        first = decreasing_step(K, 1) / self._width
        return first / np.sqrt(np.arange(1, rounds + 1))

    def _step_in(self, i: int, K: int) -> float:
        if callable(self.step_size):
            return float(self.step_size(i))
        return decreasing_step(K, i) / self._width

    @property
    def _width(self) -> float:
        return self.loss_range[1] - self.loss_range[0]

    def _reach(self, step: float) -> float:
        return step * max(abs(self.loss_range[0]), abs(self.loss_range[1]))


def check_weights(
    owner: ScalarLearner, cumulative: FloatArray, weights: FloatArray, step: float
) -> None:
    """Stored weights must be ``exp(-step L)`` up to a factor and rounding."""
    require(bool((weights >= 0).all()) and weights.sum() > 0, owner, "_weights", "must be positive")
    expected = normalise(np.exp(-step * (cumulative - cumulative.min())))
    same = np.allclose(normalise(weights.copy()), expected, rtol=1e-6, atol=1e-12)
    require(same, owner, "_weights", "must follow from the cumulative losses")


def hedge_step(K: int, horizon: int) -> float:
    """Step of Hedge for a known horizon: ``sqrt(8 ln K / T)``.

    Examples
    --------
    >>> round(hedge_step(10, 10000), 5)
    0.04292
    """
    return math.sqrt(8 * math.log(check_positive_int(K, "K")) / check_positive_int(horizon, "T"))


def decreasing_step(K: int, i: int) -> float:
    """Step of Hedge in round ``i`` for an unknown horizon: ``sqrt(2 ln K / i)``.

    Examples
    --------
    >>> round(decreasing_step(10, 1), 5)
    2.14597
    """
    return math.sqrt(2 * math.log(check_positive_int(K, "K")) / check_positive_int(i, "i"))
