"""Populations that make the sample bounds tight, each with its exact losses.

Every population is realizable by its rule ``target``; the exact loss of any union of rules is a
formula, so learners are judged without noise. ``smoothing`` gives the mixtures used inside the
proofs, which are not realizable.

Source: Theorem 2.5, Theorem 2.7, see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_int,
    check_open_fraction,
    check_real,
    check_size,
)
from counterplay.errors import InvalidInputError
from counterplay.strategic.agents import Agents
from counterplay.strategic.applicants import MOST_DRAWS, Population, check_draws
from counterplay.strategic.classes import DistanceTableClass, HypothesisClass
from counterplay.strategic.finite_classes import FiniteMetricClass
from counterplay.strategic.instances.online import star_rules
from counterplay.strategic.permutation_class import PermutationMetricClass
from counterplay.strategic.predictors import AllNegative, PositiveSet, Predictor, UnionPredictor
from counterplay.strategic.union_sampling import UnionSamplingLearner


@dataclass(frozen=True)
class HardPopulation(Population):
    """Common part of the hard populations."""

    n: int
    target: int = field(default=0, kw_only=True)
    hypotheses: HypothesisClass = field(init=False, repr=False)
    fewest: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_int(self.n, "n", low=self.fewest)
        check_int(self.target, "target", low=0, high=self.n - 1)
        check_real(getattr(self, "smoothing", 0.0), "smoothing", low=0.0, high=1.0)
        object.__setattr__(self, "hypotheses", self._catalogue())

    @abstractmethod
    def _catalogue(self) -> HypothesisClass:
        """Check the remaining parameters and return the rules."""

    @abstractmethod
    def union_loss(self, size: int, has_target: bool) -> float:
        """Return the exact loss of a union of ``size`` distinct rules."""

    def loss(self, predictor: Predictor) -> float:
        """Return the exact loss of a published rule."""
        if isinstance(predictor, AllNegative):
            return self._positive_share()
        if isinstance(predictor, UnionPredictor):
            members = np.unique(predictor.members)
            return self.union_loss(members.size, bool(np.isin(self.target, members)))
        if isinstance(predictor, PositiveSet) and self._accepts_everybody(predictor):
            return 1.0 - self._positive_share()
        raise InvalidInputError(
            f"no closed form for {type(predictor).__name__}; sample agents and use predictor.loss"
        )

    def output_loss(self, learner: UnionSamplingLearner) -> float:
        """Return the exact expected loss of a learner's output, over the output's coins."""
        epochs = learner.output_epochs()
        total = sum(rounds for rounds, _ in epochs)
        if not all(self.target in members for _, members in epochs):
            raise InvalidInputError("the learner lost the perfect rule; it ran on other data")
        loss = sum(r * self.space_loss(m.size, learner.output_size) for r, m in epochs)
        return float(loss / total)

    def space_loss(self, m: int, size: int = 2) -> float:
        """Return the exact expected loss of ``size`` draws out of m rules with the perfect one."""
        if size == 1:
            return self.union_loss(1, False) * (m - 1) / m
        same, mixed, apart = (m - 1) / m**2, 2 * (m - 1) / m**2, (m - 1) * (m - 2) / m**2
        return (
            same * self.union_loss(1, False)
            + (mixed * self.union_loss(2, True) if m > 1 else 0.0)
            + (apart * self.union_loss(2, False) if m > 2 else 0.0)
        )

    def _positive_share(self) -> float:
        raise NotImplementedError

    def _accepts_everybody(self, predictor: PositiveSet) -> bool:
        raise NotImplementedError


@checked
@dataclass(frozen=True)
class ProperInstance(HardPopulation):
    """The population on which a single rule as output costs n / eps agents.

    With probability 3 n eps an agent is positive and sits on a random permutation of (0..n-1)/z;
    she reaches every basis vector but the one of her zero entry (and that one, too, if it is the
    target's). Every single wrong rule errs with probability 3 eps, any two rules together never.

    Parameters
    ----------
    n:
        Number of rules, at least 3.
    eps:
        With 3 n eps <= 1.
    target:
        The perfect rule.

    Examples
    --------
    >>> population = ProperInstance(8, eps=0.01, target=0)
    >>> population.union_loss(1, has_target=False), population.union_loss(2, has_target=False)
    (0.03, 0.0)

    References
    ----------
    Theorem 2.5, see docs/theory/02-strategic-finite.md.
    """

    eps: float
    hypotheses: PermutationMetricClass = field(init=False, repr=False)
    fewest: ClassVar[int] = 3

    def _catalogue(self) -> PermutationMetricClass:
        _check_feasible(self.eps, 3 * self.n, "3 n")
        return PermutationMetricClass(self.n)

    def union_loss(self, size: int, has_target: bool) -> float:
        """Return 3 eps for one wrong rule, 0 otherwise."""
        return 3 * self.eps if size == 1 and not has_target else 0.0

    def sample(self, m: int, random_state: RandomState = None) -> Agents:
        """Draw agents: mostly at the origin, else on a random permutation."""
        m = check_draws(m, width=self.n)
        rng = generator(random_state)
        far = rng.random(m) < 3 * self.n * self.eps
        X = np.zeros((m, self.n), dtype=np.int64)
        X[far] = _random_permutations(int(far.sum()), self.n, rng)
        return Agents(X=X, y=far, radius=np.where(far, self._radii(X), 0.0))

    def support(self) -> tuple[FloatArray, Agents]:
        """Return all agents with their probabilities, for at most 8 rules."""
        c = _all_permutations(self.n)
        X = np.vstack([np.zeros((1, self.n), dtype=np.int64), c])
        far = np.arange(X.shape[0]) > 0
        share = 3 * self.n * self.eps
        weight = np.where(far, share / c.shape[0], 1 - share)
        return weight, Agents(X=X, y=far, radius=np.where(far, self._radii(X), 0.0))

    def _radii(self, X: IntArray) -> FloatArray:
        entry = X[:, self.target]
        return self.hypotheses.metric.to_basis(np.where(entry == 0, 0, 1))

    def _positive_share(self) -> float:
        return 3 * self.n * self.eps

    def _accepts_everybody(self, predictor: PositiveSet) -> bool:
        return bool((predictor.points >= 0).all(axis=1).any()) and not predictor.points.any()


@checked
@dataclass(frozen=True)
class ConservativeInstance(HardPopulation):
    """The population on which reported features alone teach little.

    Agents sit on random permutations; positives reach everything, negatives (probability 6 eps)
    every basis vector closer than the target's.

    Parameters
    ----------
    n:
        Number of rules, at least 2.
    eps:
        With 6 eps <= 1.
    target:
        The perfect rule.
    smoothing:
        Share of negatives who just reach the perfect rule, used inside the proof only.

    Examples
    --------
    >>> ConservativeInstance(16, eps=0.01, target=3).space_loss(16)  # doctest: +ELLIPSIS
    0.0380...

    References
    ----------
    Theorem 2.7, see docs/theory/02-strategic-finite.md.
    """

    eps: float
    smoothing: float = field(default=0.0, kw_only=True)
    hypotheses: PermutationMetricClass = field(init=False, repr=False)

    def _catalogue(self) -> PermutationMetricClass:
        _check_feasible(self.eps, 6, "6")
        return PermutationMetricClass(self.n)

    def union_loss(self, size: int, has_target: bool) -> float:
        """Return 6 eps k/(k+1) without the perfect rule, 6 eps (k-1)/k with it."""
        k = size
        return 6 * self.eps * ((k - 1) / k if has_target else k / (k + 1))

    def sample(self, m: int, random_state: RandomState = None) -> Agents:
        """Draw agents on random permutations."""
        m = check_draws(m, width=self.n)
        rng = generator(random_state)
        y = rng.random(m) >= 6 * self.eps
        smooth = rng.random(m) < self.smoothing
        X = _random_permutations(m, self.n, rng)
        return Agents(X=X, y=y, radius=np.where(y, 2.0, self._radii(X, smooth)))

    def support(self) -> tuple[FloatArray, Agents]:
        """Return all agents with their probabilities, for at most 8 rules (without smoothing)."""
        c = _all_permutations(self.n)
        X = np.vstack([c, c])
        y = np.arange(X.shape[0]) < c.shape[0]
        weight = np.where(y, 1 - 6 * self.eps, 6 * self.eps) / c.shape[0]
        radius = np.where(y, 2.0, self._radii(X, np.zeros(X.shape[0], dtype=np.bool_)))
        return weight, Agents(X=X, y=y, radius=radius)

    def _radii(self, X: IntArray, smooth: Any) -> FloatArray:
        entry = X[:, self.target]
        return self.hypotheses.metric.to_basis(np.where(smooth, entry, entry + 1))

    def _positive_share(self) -> float:
        return 1 - 6 * self.eps

    def _accepts_everybody(self, predictor: PositiveSet) -> bool:
        return bool((predictor.points >= 0).all(axis=1).any())


@checked
@dataclass(frozen=True)
class BlindInstance(HardPopulation):
    """The population on which learning without feedback is a bandit problem.

    Star metric; a positive agent at the centre, and with probability 3 eps each a negative agent at
    every leaf but the target's.

    Parameters
    ----------
    n:
        Number of rules, at least 2.
    eps:
        With 3 (n - 1) eps <= 1.
    target:
        The perfect rule.
    smoothing:
        Share of negatives at the target's leaf, used inside the proof only.

    Examples
    --------
    >>> BlindInstance(8, eps=0.01, target=3).space_loss(8, size=1)
    0.02625

    References
    ----------
    Theorem 2.8, see docs/theory/02-strategic-finite.md.
    """

    eps: float
    smoothing: float = field(default=0.0, kw_only=True)
    hypotheses: FiniteMetricClass = field(init=False, repr=False)

    def _catalogue(self) -> FiniteMetricClass:
        _check_feasible(self.eps, 3 * (self.n - 1), "3 (n - 1)")
        return star_rules(self.n)

    def union_loss(self, size: int, has_target: bool) -> float:
        """Return 3 eps for every wrong rule in the union."""
        return 3 * self.eps * (size - has_target)

    def support(self) -> tuple[FloatArray, Agents]:
        """Return all agents with their probabilities."""
        negative = 3 * (self.n - 1) * self.eps
        leaves = np.full(self.n, (1 - self.smoothing) / (self.n - 1))
        leaves[self.target] = self.smoothing
        weight = np.concatenate([[1 - negative], negative * leaves])
        points = np.arange(self.n + 1)
        return weight, Agents(X=points, y=points == 0, radius=1.0)

    def sample(self, m: int, random_state: RandomState = None) -> Agents:
        """Draw agents: a positive one at the centre, a negative one at each wrong leaf."""
        m = check_draws(m, width=self.n)
        weight, agents = self.support()
        return agents.take(generator(random_state).choice(weight.size, size=m, p=weight))

    def _positive_share(self) -> float:
        return 1 - 3 * (self.n - 1) * self.eps

    def _accepts_everybody(self, predictor: PositiveSet) -> bool:
        return bool((predictor.points == 0).any())


@checked
@dataclass(frozen=True)
class NonBallInstance(HardPopulation):
    """The population that is hard in every setting because manipulation sets are arbitrary.

    All agents stand at point 0. Positives reach everything; a negative agent (probability 6 eps)
    reaches the rules that precede the target in a random order. Play it with ``tie="random"``: a
    fixed tie rule leaks the target (Theorem 2.9 and corollary 2.1).

    Parameters
    ----------
    n:
        Number of rules, at least 2.
    eps:
        With 6 eps <= 1.
    target:
        The perfect rule.
    smoothing:
        Share of negatives who reach exactly the perfect rule, used inside the proof only.

    Examples
    --------
    >>> NonBallInstance(8, eps=0.01, target=3).sample(5, random_state=0)
    Agents(5 agents with sets, 3 positive)

    References
    ----------
    Theorem 2.9, Theorem 2.9 and corollary 2.1, see docs/theory/02-strategic-finite.md.
    """

    eps: float
    smoothing: float = field(default=0.0, kw_only=True)
    has_balls = False
    hypotheses: FiniteMetricClass = field(init=False, repr=False)

    def _catalogue(self) -> FiniteMetricClass:
        _check_feasible(self.eps, 6, "6")
        rules = star_rules(self.n).positive  # checks the size
        return FiniteMetricClass(1.0 - np.eye(self.n + 1), rules, check_metric=False)

    def union_loss(self, size: int, has_target: bool) -> float:
        """Return 6 eps k/(k+1) without the perfect rule, 6 eps (k-1)/k with it."""
        k = size
        return 6 * self.eps * ((k - 1) / k if has_target else k / (k + 1))

    def sample(self, m: int, random_state: RandomState = None) -> Agents:
        """Draw agents at point 0; a negative one reaches what precedes the perfect rule."""
        m = check_draws(m, width=self.n)
        rng = generator(random_state)
        y = rng.random(m) >= 6 * self.eps
        keys = rng.random((m, self.n))
        smooth = rng.random(m) < self.smoothing
        return self._agents(y, keys, smooth)

    def support(self) -> tuple[FloatArray, Agents]:
        """Return all agents with their probabilities, for at most 8 rules (without smoothing)."""
        orders = _all_permutations(self.n)
        y = np.zeros(orders.shape[0] + 1, dtype=np.bool_)
        y[0] = True
        keys = np.vstack([orders[:1], orders]).astype(np.float64)
        weight = np.where(y, 1 - 6 * self.eps, 6 * self.eps / orders.shape[0])
        return weight, self._agents(y, keys, np.zeros(y.size, dtype=np.bool_))

    def _agents(self, y: Any, keys: FloatArray, smooth: Any) -> Agents:
        before = keys < keys[:, [self.target]]
        before[smooth] = False
        before[smooth, self.target] = True
        before[y] = True
        sets = sp.csr_array(np.hstack([np.ones((y.size, 1), dtype=np.bool_), before]))
        return Agents(X=np.zeros(y.size, dtype=np.int64), y=y, sets=sets)

    def _positive_share(self) -> float:
        return 1 - 6 * self.eps

    def _accepts_everybody(self, predictor: PositiveSet) -> bool:
        return bool((predictor.points == 0).any())


@checked
@dataclass(frozen=True)
class SparseWrong(HardPopulation):
    """The population on which only a small random share of the rules errs on each agent.

    It separates right from wrong implementations of union sampling: with ``label=0`` single rules
    learn too slowly, with ``label=1`` a single rule as output is much worse than a pair
    (Proposition 2.E).

    Parameters
    ----------
    n:
        Number of rules, at least 3.
    share:
        ceil(share n) rules err on each agent, never the perfect one.
    label:
        Label of all agents: 0 (the nearest rules err) or 1 (the farthest).
    target:
        The perfect rule.

    Examples
    --------
    >>> population = SparseWrong(100, share=0.05, label=0)
    >>> people = population.sample(4, random_state=0)
    >>> people.losses(population.hypotheses).sum(axis=1)
    array([5, 5, 5, 5])
    """

    share: float
    label: Literal[0, 1] = 0
    hypotheses: DistanceTableClass = field(init=False, repr=False)

    fewest: ClassVar[int] = 3

    def _catalogue(self) -> DistanceTableClass:
        check_open_fraction(self.share, "share")
        check_choice(self.label, "label", (0, 1))
        if self.wrong > self.n - 1:
            raise InvalidInputError(f"share = {self.share:g} leaves no room for the perfect rule")
        return DistanceTableClass(self.n)

    @property
    def wrong(self) -> int:
        """Number of rules that err on each agent: ceil(share n)."""
        return math.ceil(self.share * self.n)

    def union_loss(self, size: int, has_target: bool) -> float:
        """Return the probability that a union of ``size`` fixed rules errs."""
        others, k = self.n - 1, self.wrong
        drawn = size - has_target
        if self.label == 0:  # errs if any of them is among the k wrong ones
            return 1.0 - math.comb(others - drawn, k) / math.comb(others, k)
        if has_target:
            return 0.0
        return math.comb(others - drawn, k - drawn) / math.comb(others, k) if drawn <= k else 0.0

    def sample(self, m: int, random_state: RandomState = None) -> Agents:
        """Draw agents, each with a fresh random order of the rules."""
        m = check_draws(m, width=self.n)
        rng = generator(random_state)
        rows, k, t = rng.random((m, self.n)), self.wrong, self.target
        place = rng.random(m)
        if self.label == 0:
            rows[:, t] = 2.0
            radius = np.partition(rows, k - 1, axis=1)[:, k - 1]
            rows[:, t] = radius + (1.0 - radius) * np.maximum(place, 1e-9)
        else:
            rows[:, t] = 0.0
            radius = np.partition(rows, self.n - k - 1, axis=1)[:, self.n - k - 1]
            rows[:, t] = radius * place
        return Agents(X=rows, y=np.full(m, self.label), radius=radius)

    def _positive_share(self) -> float:
        return float(self.label)

    def _accepts_everybody(self, predictor: PositiveSet) -> bool:
        return False


def _check_feasible(eps: float, factor: float, name: str) -> None:
    eps = check_open_fraction(eps, "eps")
    if factor * eps > 1:
        raise InvalidInputError(f"{name} eps must be at most 1, got {factor * eps:g}; lower eps")


def _random_permutations(m: int, n: int, rng: np.random.Generator) -> IntArray:
    check_size(m * n, MOST_DRAWS, "numbers to draw")
    return rng.permuted(np.tile(np.arange(n), (m, 1)), axis=1)


def _all_permutations(n: int) -> IntArray:
    if n > 8:
        raise InvalidInputError(f"{n}! agents are too many to list; use sample")
    return np.array(list(permutations(range(n))), dtype=np.int64)
