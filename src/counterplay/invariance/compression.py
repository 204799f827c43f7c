"""Boosting a weak one-inclusion learner into a compression of the sample.

Each round draws a few points from the current distribution until the weak learner is right on two
thirds of the mass, then gives more weight to what it missed. The majority is soon right on
everything and is determined by the drawn points alone. In the agnostic setting this is done on the
largest part of the sample that some hypothesis gets right.
Source: Lemmas J.1 to J.3, Theorem 11.8; docs/theory/11-invariance.md, "Proposition 11.F: boosting".
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import IntArray, check_int
from counterplay.core.votes import majority
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.invariance.baselines import ERM
from counterplay.invariance.bounds import alpha_boost_rounds
from counterplay.invariance.classes import ExplicitClass, as_hypotheses
from counterplay.invariance.dimensions import vcao
from counterplay.invariance.model import FiniteProblem, Learner, check_learner
from counterplay.invariance.one_inclusion import OneInclusionRelaxed
from counterplay.invariance.transformations import AbstractOrbits

_ALPHA = 0.5 * math.log(2.0)


@checked
class AlphaBoostCompression(Learner):
    """Majority of weak learners on small samples, perfect on the whole sample.

    Parameters
    ----------
    weak:
        Learner whose expected error on k points is at most 1/3 for every distribution on the
        sample (:class:`OneInclusionRelaxed` with k = 3 VCao, :class:`OrbitOnlyOptimal`).
    k:
        Points per round.
    max_draws:
        Draws per round before the best one is taken with a warning.
    random_state:
        Seed of the draws.

    Notes
    -----
    ceil(17 ln n) rounds always suffice for n points: each multiplies the bound on the share of
    mistakes by 0.9428. ``indices_`` stores the draws; the predictor is a function of them alone.

    Examples
    --------
    >>> from counterplay.invariance import instances
    >>> from counterplay.invariance.lab import OneInclusionRelaxed
    >>> hard = instances.da_lower_bound(3, 1 / 64, random_state=0)
    >>> X, y = hard.distribution.sample(60, 0)
    >>> boost = AlphaBoostCompression(OneInclusionRelaxed(hard.problem), k=9, random_state=0)
    >>> bool((boost.fit(X, y).predict(X) == y).all())
    True
    """

    def __init__(
        self, weak: Any, k: int, max_draws: int = 200, random_state: RandomState = None
    ) -> None:
        self.weak = check_learner(weak, "weak")
        self.group = weak.group
        self.k = check_int(k, "k", low=0, high=10**7)
        self.max_draws = check_int(max_draws, "max_draws", low=1)
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> AlphaBoostCompression:
        """Boost until the vote is right on every sample point."""
        points, labels = self._check_sample(X, y)
        n = len(points)
        rng = generator(self.random_state)
        weights = np.full(n, 1.0 / n) if n else np.zeros(0)
        self.indices_: list[IntArray] = []
        self.learners_: list[Any] = []
        self.n_draws_: list[int] = []
        margin = np.zeros(n)
        distinct, position = np.unique(points, axis=0, return_inverse=True)
        position = position.reshape(-1)
        for _ in range(alpha_boost_rounds(n) if n else 1):
            learner, block, right = self._weak_learner(
                points, labels, weights, rng, distinct, position
            )
            self.indices_.append(block)
            self.learners_.append(learner)
            margin += np.where(right, 1, -1)
            if (margin > 0).all():
                break
            weights = weights * np.exp(np.where(right, -_ALPHA, _ALPHA))
            weights /= weights.sum()
        self.n_rounds_ = len(self.indices_)
        self.perfect_ = bool((margin > 0).all())
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int8]:
        """Unweighted majority; 0 on ties."""
        points = self._check_fitted(X, "learners_")
        if len(points) == 0:
            return np.zeros(0, dtype=np.int8)
        votes = np.array([learner.predict(points) for learner in self.learners_])
        return majority(votes, tie=0).astype(np.int8)

    def rebuild(self, X: ArrayLike, y: ArrayLike, indices: list[IntArray]) -> AlphaBoostCompression:
        """The predictor of stored indices: what a compression scheme's receiver computes."""
        points, labels = self._check_sample(X, y)
        twin = self.fresh()
        twin.indices_ = [np.asarray(block) for block in indices]
        twin.learners_ = [
            self.weak.fresh().fit(points[block], labels[block]) for block in twin.indices_
        ]
        return twin

    def _weak_learner(
        self,
        points: NDArray[Any],
        labels: NDArray[np.int8],
        weights: NDArray[np.float64],
        rng: np.random.Generator,
        distinct: NDArray[Any],
        position: IntArray,
    ) -> tuple[Any, IntArray, NDArray[np.bool_]]:
        best: tuple[float, Any, IntArray, NDArray[np.bool_]] | None = None
        for draw in range(1, self.max_draws + 1):
            block = np.zeros(0, dtype=np.int64)
            if len(points):
                block = np.sort(rng.choice(len(points), size=self.k, p=weights))
            learner = self.weak.fresh().fit(points[block], labels[block])
            right = np.asarray(learner.predict(distinct))[position] == labels
            error = float(weights[~right].sum())
            if best is None or error < best[0]:
                best = (error, learner, block, right)
            if error <= 1 / 3 + 1e-12:
                self.n_draws_.append(draw)
                return learner, block, right
        assert best is not None
        warnings.warn(
            f"no draw of {self.k} points had weighted error at most 1/3; taking {best[0]:.3f}",
            AssumptionWarning,
            stacklevel=3,
        )
        self.n_draws_.append(self.max_draws)
        return best[1], best[2], best[3]


@checked
class AgnosticCompression(Learner):
    """Compression learner for the agnostic setting: as good as the best hypothesis on the sample.

    Parameters
    ----------
    hypotheses:
        A finite problem or a label matrix (or any class with an exact minimiser and ``d`` given).
    group:
        Orbits (default: those of the problem).
    d:
        VCao of the class; default: computed.
    max_draws:
        As for :class:`AlphaBoostCompression`.
    random_state:
        None, an int or a numpy Generator.

    Notes
    -----
    Error on the sample at most that of the best hypothesis; on the distribution at most opt plus
    O(sqrt(VCao log^2 m / m)) (Theorem 11.8, :func:`bounds.agnostic_compression_bound`).

    Examples
    --------
    >>> from counterplay.invariance import instances
    >>> hard = instances.da_lower_bound(3, 1 / 64, random_state=0)
    >>> X, y = hard.distribution.sample(60, 0)
    >>> learner = AgnosticCompression(hard.problem, random_state=0).fit(X, y)
    >>> bool((learner.predict(X) == y).all()), learner.k_
    (True, 9)
    """

    def __init__(
        self,
        hypotheses: Any,
        group: Any = None,
        d: int | None = None,
        max_draws: int = 200,
        random_state: RandomState = None,
    ) -> None:
        self.hypotheses, self.group = as_hypotheses(hypotheses, group)
        self.d = d
        self.max_draws = max_draws
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> AgnosticCompression:
        """Keep what the best hypothesis gets right, and boost on it."""
        points, labels = self._check_sample(X, y, settle=False)
        erm = ERM(self.hypotheses, self.group).fit(points, labels)
        right = np.asarray(erm.predict(points)) == labels
        self.kept_ = np.flatnonzero(right)
        self.k_ = 3 * self._dimension()
        self.boost_: AlphaBoostCompression | None = None
        if self.kept_.size:
            weak = OneInclusionRelaxed(self.hypotheses, self.group)
            boost = AlphaBoostCompression(weak, self.k_, self.max_draws, self.random_state)
            self.boost_ = boost.fit(points[self.kept_], labels[self.kept_])
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int8]:
        """Majority of the weak learners; 0 where nothing was kept."""
        points = self._check_fitted(X, "k_")
        if self.boost_ is None:
            return np.zeros(len(points), dtype=np.int8)
        return self.boost_.predict(points)

    def _dimension(self) -> int:
        if self.d is not None:
            return check_int(self.d, "d", low=0)
        if not isinstance(self.hypotheses, ExplicitClass):
            raise InvalidInputError("d (the VCao of the class) must be given for implicit classes")
        orbits = self.group
        table = orbits.orbit_id if isinstance(orbits, AbstractOrbits) else orbits
        return vcao(FiniteProblem(self.hypotheses.matrix, table)).value  # type: ignore[arg-type]  # validated there
