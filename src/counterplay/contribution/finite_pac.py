"""Exact PAC learning on a handful of points: labels of seen points also inform unseen ones.

Every subset of the domain is enumerated, so utilities are exact: no sampling, no bounds.
Source: "PAC games", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.contribution.game import CollabGame, _frozen, crossing_level
from counterplay.core.validation import (
    FloatArray,
    check_float_array,
    check_labels01,
    check_probabilities,
)
from counterplay.errors import InvalidInputError

MAX_POINTS = 14


class FiniteClassPACGame(CollabGame):
    """Data sharing where the truth is drawn from a known finite class of labelings.

    The learner is Bayes optimal: after seeing labelled samples it predicts the likelier label of
    every point. Use it to see what knowledge of the class changes compared with coverage.

    Parameters
    ----------
    H:
        ``(N, n)`` array of 0/1 labelings of ``n <= 14`` points, or a
        :class:`counterplay.core.finite_class.FiniteClass`.
    prior:
        Probability of each labeling; None for uniform, or for the prior of the finite class.
    Q:
        ``(k, n)`` array, the parties' distributions over points.
    mu:
        Targets.
    integral, upper, cost:
        See :class:`CollabGame`.

    Notes
    -----
    With all ``2^n`` labelings and a uniform prior the game equals :class:`CoverageGame`.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Sec. 2 (general PAC learning).

    Examples
    --------
    >>> game = FiniteClassPACGame([[0, 0], [1, 1]], None, [[1, 0], [0, 1]], mu=0.9)
    >>> game.utilities([1, 0]).tolist()  # one sample of either party settles both
    [1.0, 1.0]
    """

    def __init__(
        self,
        H: Any,
        prior: ArrayLike | None,
        Q: ArrayLike,
        mu: ArrayLike,
        *,
        integral: bool = False,
        upper: ArrayLike | None = None,
        cost: ArrayLike | None = None,
    ) -> None:
        labels = check_labels01(getattr(H, "labels", H), "H")
        if labels.ndim != 2 or labels.size == 0 or labels.shape[1] > MAX_POINTS:
            raise InvalidInputError(
                f"H must be a table of labelings of at most {MAX_POINTS} points, "
                f"got shape {labels.shape}"
            )
        rows = check_probabilities(Q, "Q")
        if rows.ndim != 2 or rows.shape[1] != labels.shape[1]:
            raise InvalidInputError(
                f"Q must have {labels.shape[1]} columns, one per point, got shape {rows.shape}"
            )
        if prior is None:  # a finite class brings its own
            own: Any = getattr(H, "prior", np.full(len(labels), 1.0 / len(labels)))
        else:
            own = prior
        self.prior = _frozen(check_probabilities(own, "prior"))
        if self.prior.shape != (len(labels),):
            raise InvalidInputError(f"prior must have {len(labels)} entries, one per labeling")
        super().__init__(rows.shape[0], mu, integral=integral, upper=upper, cost=cost)
        self.labels, self.Q = labels, _frozen(rows)
        codes = (labels.astype(np.int64) << np.arange(labels.shape[1])).sum(axis=1)
        from counterplay.contribution._kernels import bayes_errors

        errors = bayes_errors(codes, np.asarray(self.prior), labels.shape[1])
        self._error = errors @ self.Q.T  # (2^n, k): expected error of party i if S was seen
        self._mass = _subset_sums(self.Q)  # (k, 2^n): probability of landing in S
        self._validate()

    def _utilities(self, theta: FloatArray) -> FloatArray:
        return np.stack([1.0 - self._seen(row) @ self._error for row in theta])

    def _seen(self, theta: FloatArray) -> FloatArray:
        """Distribution of the set of observed points, by inclusion-exclusion."""
        inside = np.prod(self._inside(theta[:, None]), axis=0)
        return moebius(inside)

    def _inside(self, theta: FloatArray) -> FloatArray:
        whole = np.floor(theta)
        return np.asarray(self._mass**whole * (1.0 - (theta - whole) * (1.0 - self._mass)))

    def _best_response(self, i: int, theta: FloatArray) -> float:
        inside = self._inside(theta[:, None])
        inside[i] = 1.0
        others = np.prod(inside, axis=0)

        def curve(t: float) -> float:
            return float(1.0 - moebius(others * self._mass[i] ** t) @ self._error[:, i])

        return crossing_level(
            curve, float(self.mu[i]), integral=self.integral, start=float(theta[i])
        )

    def _sup_alone(self, i: int) -> float:
        inside = (self._mass[i] >= 1.0 - 1e-15).astype(np.float64)
        return float(1.0 - moebius(inside) @ self._error[:, i])


def moebius(inside: FloatArray) -> FloatArray:
    """Turn ``P(observed inside S)`` for all bit-coded ``S`` into ``P(observed equals S)``.

    Examples
    --------
    >>> moebius(np.array([0.0, 0.25, 0.25, 1.0])).tolist()
    [0.0, 0.25, 0.25, 0.5]
    """
    exact = check_float_array(inside, "inside", ndim=1).copy()
    n = exact.size.bit_length() - 1
    for x in range(n):
        pairs = exact.reshape(-1, 2, 1 << x)
        pairs[:, 1] -= pairs[:, 0]
    return exact


def _subset_sums(Q: FloatArray) -> FloatArray:
    k, n = Q.shape
    members = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1
    sums = members @ Q.T
    sums[-1] = 1.0
    return np.ascontiguousarray(np.minimum(sums.T, 1.0).reshape(k, 1 << n))
