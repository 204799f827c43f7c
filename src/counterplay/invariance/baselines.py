"""Empirical risk minimisation, data augmentation, and the orbit look-up on top of either.

ERM fits the natural sample; DA fits all transformed copies; ErmInv answers with the training label
where the orbit of the test point was seen and with the base learner elsewhere. Ties between
equally good hypotheses are an argument, because the lower bounds hide there.
Source: Equation J.7, Theorems 11.1 and 11.7; docs/theory/11-invariance.md, "Baselines".
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import check_choice
from counterplay.errors import InvalidInputError
from counterplay.invariance.classes import Tie, TieRule, WeightedSample, as_hypotheses
from counterplay.invariance.errors import NotAGroupError
from counterplay.invariance.model import FiniteDistribution, Learner
from counterplay.invariance.transformations import TransformationSet


@checked
class ERM(Learner):
    """Empirical risk minimisation on the natural sample.

    Parameters
    ----------
    hypotheses:
        A finite problem, a label matrix, or a class with an exact minimiser.
    group:
        Orbits; only used to check points (default: those of the problem).
    tie:
        Which of several best hypotheses to take: "first", "random" or "adversarial" (the one with
        the largest true error; needs ``truth``).
    truth:
        The data distribution, for adversarial ties.
    random_state:
        Seed for random ties.

    Notes
    -----
    Error at most eps after O(VCdim / eps) samples when a hypothesis is right (Theorem 11.1
    for a trivial group).

    Examples
    --------
    >>> from counterplay.invariance import instances
    >>> birds = instances.background_birds(4, random_state=0)
    >>> learner = ERM(birds.problem).fit(*birds.distribution.sample(1, 0))
    >>> birds.distribution.error_of(learner)
    0.0
    """

    def __init__(
        self,
        hypotheses: Any,
        group: Any = None,
        tie: Tie = "first",
        truth: FiniteDistribution | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.hypotheses, self.group = as_hypotheses(hypotheses, group)
        self.tie = check_choice(tie, "tie", ("first", "random", "adversarial"))
        self.truth = truth
        self.random_state = random_state
        if tie == "adversarial" and truth is None:
            raise InvalidInputError('tie="adversarial" needs truth, the data distribution')

    def fit(self, X: ArrayLike, y: ArrayLike) -> ERM:
        """Pick a hypothesis with the smallest error on the sample."""
        sample = WeightedSample(*self._training(*self._check_sample(X, y, settle=False)))
        law, truth = self.truth, None
        if law is not None:
            truth = WeightedSample(law.points, law.labels, law.probabilities)
        rule = TieRule(self.tie, generator(self.random_state), truth)
        self.member_ = self.hypotheses.fit_member(sample, rule)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int8]:
        """Labels of the chosen hypothesis."""
        return np.asarray(self.member_(self._check_fitted(X, "member_")), dtype=np.int8)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "member_"}

    def _training(
        self, points: NDArray[Any], labels: NDArray[np.int8]
    ) -> tuple[NDArray[Any], NDArray[np.int8], NDArray[np.float64]]:
        return points, labels, np.ones(len(points))


@checked
class DA(ERM):
    """Data augmentation: empirical risk minimisation on all transformed copies of the sample.

    Every sample point has total weight one, spread evenly over its distinct images
    (``loss="orbit"``) or over the transformations (``loss="group"``; the same for groups).

    Notes
    -----
    If a hypothesis is right on the data and constant on its orbits, error at most eps after
    m >= (8/eps)(d log^2 m log(2em/d) + log(4/delta) + e) + 4 samples with d = VCao
    (Theorem 11.1). If not, augmentation can fail for every sample size.

    Examples
    --------
    Both hypotheses have augmented loss 1/2, so augmentation never learns (here the first is wrong):

    >>> from counterplay.invariance import instances
    >>> birds = instances.background_birds(4, random_state=0)
    >>> X, y = birds.distribution.sample(500, 0)
    >>> truth = birds.distribution
    >>> truth.error_of(DA(birds.problem, tie="adversarial", truth=truth).fit(X, y))
    1.0
    """

    def __init__(
        self,
        hypotheses: Any,
        group: Any = None,
        loss: Literal["orbit", "group"] = "orbit",
        tie: Tie = "first",
        truth: FiniteDistribution | None = None,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(hypotheses, group, tie, truth, random_state)
        self.loss = check_choice(loss, "loss", ("orbit", "group"))

    def _training(
        self, points: NDArray[Any], labels: NDArray[np.int8]
    ) -> tuple[NDArray[Any], NDArray[np.int8], NDArray[np.float64]]:
        if self.loss == "group":
            images = self.group.apply(points)
            flat = images.reshape(-1, *points.shape[1:])
            weight = np.full(len(flat), 1.0 / max(len(images), 1))
            return flat, np.tile(labels, len(images)), weight
        images, owner = self.group.images(points)
        keys = self.group.point_key(images)
        first = {pair: i for i, pair in enumerate(zip(owner.tolist(), keys))}
        distinct = np.array(sorted(first.values()), dtype=np.int64)
        owner = owner[distinct]
        sizes = np.bincount(owner, minlength=len(points))
        return images[distinct], labels[owner], 1.0 / sizes[owner]


@checked
class ErmInv(Learner):
    """Look up the orbit of the test point in the training set, else ask the base learner.

    Use it when a hypothesis fits the natural data but not its transformed copies, or when none
    fits: augmentation may hurt there, the look-up never does.

    Parameters
    ----------
    base:
        A learner with ``fit`` and ``predict`` (0/1 labels).
    group:
        A group; default: that of the base learner.

    Notes
    -----
    Relaxed setting: the sample size of DA suffices with d = VCao (Theorem 11.7). Agnostic
    setting: see :func:`counterplay.invariance.bounds.m_erminv_agnostic` (Theorem 11.8).

    Examples
    --------
    >>> from counterplay.invariance import instances
    >>> hard = instances.da_lower_bound(4, 1 / 64, random_state=0)
    >>> learner = ErmInv(ERM(hard.problem)).fit(*hard.distribution.sample(60, 0))
    >>> learner.n_orbits_, hard.distribution.error_of(learner)
    (5, 0.0)
    """

    def __init__(self, base: Any, group: TransformationSet | None = None) -> None:
        self.base = base
        found = group if group is not None else getattr(base, "group", None)
        if found is None:
            raise InvalidInputError("give the group, or a base learner that knows it")
        if not found.is_group:
            raise NotAGroupError("the look-up needs a group; orbits of maps may intersect")
        self.group = found

    def fit(self, X: ArrayLike, y: ArrayLike) -> ErmInv:
        """Fit the base learner on the natural sample and index the orbits."""
        points, labels = self._check_sample(X, y)
        self.base_ = self.base.fresh().fit(points, labels)
        self.table_ = dict(zip(self.group.orbit_key(points), labels.tolist()))
        self.n_orbits_ = len(self.table_)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int8]:
        """Training label where the orbit is known, base prediction elsewhere."""
        points = self._check_fitted(X, "table_")
        labels = np.asarray(self.base_.predict(points), dtype=np.int8)
        found = [self.table_.get(key, -1) for key in self.group.orbit_key(points)]
        looked_up = np.array(found, dtype=np.int8).reshape(-1)
        return np.where(looked_up >= 0, looked_up, labels).astype(np.int8)
