"""Learners that choose among candidates on a validation sample.

``ConfidenceBooster`` runs a learner on several fresh samples: Markov's inequality halves the chance
of failure with each run, so "small error on average" becomes "small error with high probability".
The others need not know how invariant the right hypothesis is:
``KnownEta`` uses a given level eta; ``AdaptiveRelaxed`` tries a grid of levels and validates;
``AdaptiveAgnostic`` groups the hypotheses by their measured invariance and learns in every group.
Source: Proposition J.1, Algorithms J.1 and J.2; docs/theory/11-invariance.md, "Proposition 11.C:
confidence" and "Boosting and adaptivity (Algorithms J.1, J.2)" (with the repairs of its errata).
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    IntArray,
    check_choice,
    check_open_fraction,
    check_real,
)
from counterplay.errors import InvalidInputError
from counterplay.invariance.baselines import ERM, ErmInv
from counterplay.invariance.bounds import booster_sizes, invariance_slack, known_eta_sizes
from counterplay.invariance.classes import as_hypotheses
from counterplay.invariance.compression import AgnosticCompression
from counterplay.invariance.errors import SampleTooSmallError
from counterplay.invariance.model import FiniteProblem, Learner, as_problem, check_learner
from counterplay.invariance.one_inclusion import OneInclusionEta


class _Chooser(Learner):
    """Fitted candidates, and which of them did best on points that they have not seen."""

    candidates_: Any
    chosen_: int

    def predict(self, X: ArrayLike) -> NDArray[np.int8]:
        """Labels of the chosen candidate."""
        points = self._check_fitted(X, "chosen_")
        return np.asarray(self.candidates_[self.chosen_].predict(points), dtype=np.int8)


@checked
class ConfidenceBooster(_Chooser):
    """Boost the confidence of a learner whose expected error is at most d / (n + 1).

    Parameters
    ----------
    learner:
        An unfitted learner (:class:`OneInclusionInvariant`, ...).
    d:
        Its dimension: VCo, VCao or mu.
    eps:
        Wanted error.
    delta:
        Probability with which it may be exceeded.
    practical:
        Split the data at hand (30 % validation, the rest in equal folds) instead of insisting on
        the theoretical sizes; ``guaranteed_`` is then False.
    random_state:
        Seed of the split in practical mode.

    Notes
    -----
    L = ceil(log2(2/delta)) runs on ceil(4d/eps) fresh points each and a validation sample of
    ceil((32/eps)(ln(2/delta) + ln(L + 1))) points give error at most eps with probability
    1 - delta. The first of equally good runs is kept.

    Examples
    --------
    >>> from counterplay.invariance import instances
    >>> from counterplay.invariance.lab import OneInclusionInvariant
    >>> hard = instances.da_lower_bound(3, 1 / 64, random_state=0)
    >>> booster = ConfidenceBooster(OneInclusionInvariant(hard.problem), d=0, eps=0.2, delta=0.1)
    >>> X, y = hard.distribution.sample(booster.n_needed, 0)
    >>> hard.distribution.error_of(booster.fit(X, y))
    0.0
    """

    def __init__(
        self,
        learner: Any,
        d: float,
        eps: float = 0.1,
        delta: float = 0.05,
        practical: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.learner = check_learner(learner, "learner")
        self.group = learner.group
        self.d = check_real(d, "d", low=0.0)
        self.eps = check_open_fraction(eps, "eps")
        self.delta = check_open_fraction(delta, "delta")
        self.practical = practical
        self.random_state = random_state

    @property
    def n_needed(self) -> int:
        """Number of samples the guarantee needs."""
        runs, size, validation = booster_sizes(self.d, self.eps, self.delta)
        return runs * size + validation

    def fit(self, X: ArrayLike, y: ArrayLike) -> ConfidenceBooster:
        """Run, validate, choose."""
        points, labels = self._check_sample(X, y)
        runs, size, validation = booster_sizes(self.d, self.eps, self.delta)
        order = np.arange(len(points))
        if self.practical:
            order = generator(self.random_state).permutation(len(points))
            validation = max(1, math.ceil(0.3 * len(points)))
            size = (len(points) - validation) // runs
            if size < 0 or len(points) == 0:
                raise SampleTooSmallError("the sample is empty", needed=1)
        elif len(points) < self.n_needed:
            raise SampleTooSmallError(
                f"the guarantee needs {self.n_needed} samples, got {len(points)}; collect more, "
                "relax eps or delta, or use practical=True",
                needed=self.n_needed,
            )
        self.guaranteed_ = not self.practical
        held = order[runs * size : runs * size + validation]
        self.candidates_ = [
            self.learner.fresh().fit(points[block], labels[block])
            for block in (order[i * size : (i + 1) * size] for i in range(runs))
        ]
        self.errors_ = np.array(
            [validation_error(c, points[held], labels[held]) for c in self.candidates_]
        )
        self.chosen_ = int(np.argmin(self.errors_))
        return self


def validation_error(learner: Any, points: NDArray[Any], labels: NDArray[Any]) -> float:
    """Share of wrong predictions; repeated points are asked for once.

    Examples
    --------
    >>> class Zero:
    ...     group = None
    ...     def predict(self, X): return np.zeros(len(X))
    >>> validation_error(Zero(), np.array([[1.0], [1.0], [2.0]]), np.array([1, 1, 0]))
    0.6666666666666666
    """
    if len(points) == 0:
        return 0.0
    distinct, position = np.unique(points, axis=0, return_inverse=True)
    predictions = np.asarray(learner.predict(distinct))[position.reshape(-1)]
    return float((predictions != labels).mean())


@checked
class KnownEta(_Chooser):
    """One-inclusion learner for a known invariance level, with high probability.

    Parameters
    ----------
    hypotheses:
        The class.
    group:
        The transformations.
    eta:
        Share of the data on whose orbits the right hypothesis may vary.
    slack:
        Delta; default sqrt(ln(n+1) / (2(n+1))), the smallest the theory allows.
    delta:
        Failure probability.
    practical:
        One run on all points instead of several blocks and a validation.

    Notes
    -----
    Error at most 4 (VCo^(eta + Delta) + 1) / (n + 1) with probability 1 - delta
    (Proposition J.1 with its proof's constant).

    Examples
    --------
    >>> from counterplay.invariance import instances
    >>> case = instances.da_lower_bound(3, 1 / 64, random_state=0)
    >>> learner = KnownEta(case.problem, eta=0.0, delta=0.1).fit(*case.distribution.sample(500, 0))
    >>> learner.n_
    10
    """

    def __init__(
        self,
        hypotheses: Any,
        group: Any = None,
        eta: float = 0.0,
        slack: float | None = None,
        delta: float = 0.1,
        practical: bool = False,
    ) -> None:
        self.hypotheses, self.group = as_hypotheses(hypotheses, group)
        self.eta = check_real(eta, "eta")
        self.slack = slack
        self.delta = check_open_fraction(delta, "delta")
        self.practical = practical

    def fit(self, X: ArrayLike, y: ArrayLike) -> KnownEta:
        """Learn on fresh blocks and keep the best one on the last points."""
        points, labels = self._check_sample(X, y)
        m = len(points)
        self.n_, runs, held = (m, 1, 0) if self.practical else known_eta_sizes(m, self.delta)
        self.slack_ = invariance_slack(self.n_) if self.slack is None else self.slack
        base = OneInclusionEta(self.hypotheses, self.group, self.eta + self.slack_)
        self.candidates_ = [
            base.fresh().fit(points[i * self.n_ : (i + 1) * self.n_],
                             labels[i * self.n_ : (i + 1) * self.n_])
            for i in range(runs)
        ]  # fmt: skip
        tail = slice(m - held, m)
        errors = [validation_error(c, points[tail], labels[tail]) for c in self.candidates_]
        self.chosen_ = int(np.argmin(errors))
        return self


@checked
class AdaptiveRelaxed(_Chooser):
    """Relaxed-realizable learner that adapts to the unknown invariance of the right hypothesis.

    Parameters
    ----------
    hypotheses:
        The class.
    group:
        The transformations.
    delta:
        Failure probability.
    c:
        Constant of the split m1 = c m / (3 ln m + c); default 3 ln m, that is m1 = m / 2.
    practical:
        One run on m1 points per level instead of blocks with validation.
    tie:
        Level to keep among equally good ones: "smallest" (the theory) or "largest".
    random_state:
        Seed of the split.

    Notes
    -----
    Levels i = 0..ceil(1 / (2 Delta)) use H^(2 i Delta); i = 0 are the invariant labelings. Error
    O(max(1, VCo^(2 i* Delta)) log(1/delta) log(m) / m) with probability 1 - delta, where i* is the
    least level with (2i - 1) Delta >= eta(h*) (Theorem J.1).

    Examples
    --------
    >>> from counterplay.invariance import instances
    >>> case = instances.da_lower_bound(4, 1 / 64, random_state=0)
    >>> learner = AdaptiveRelaxed(case.problem, practical=True, random_state=0)
    >>> learner = learner.fit(*case.distribution.sample(40, 0))
    >>> learner.chosen_, case.distribution.error_of(learner)
    (0, 0.0)
    """

    def __init__(
        self,
        hypotheses: Any,
        group: Any = None,
        delta: float = 0.1,
        c: float | None = None,
        practical: bool = False,
        tie: Literal["smallest", "largest"] = "smallest",
        random_state: RandomState = None,
    ) -> None:
        self.hypotheses, self.group = as_hypotheses(hypotheses, group)
        self.delta = check_open_fraction(delta, "delta")
        self.c = c
        self.practical = practical
        self.tie = check_choice(tie, "tie", ("smallest", "largest"))
        self.random_state = random_state
        self._base = OneInclusionEta(self.hypotheses, self.group)

    def fit(self, X: ArrayLike, y: ArrayLike) -> AdaptiveRelaxed:
        """Learn at every level, validate once, keep the best."""
        points, labels = self._check_sample(X, y)
        m = len(points)
        if m < 2:
            raise InvalidInputError(f"at least two samples are needed for the split, got {m}")
        order = generator(self.random_state).permutation(m)
        constant = 3 * math.log(m) if self.c is None else check_real(self.c, "c", low=0.0)
        m1 = min(m - 1, max(1, round(constant * m / (3 * math.log(m) + constant))))
        first, second = order[:m1], order[m1:]
        n = m1 if self.practical else known_eta_sizes(m1, self.delta / 2)[0]
        self.slack_ = invariance_slack(n)
        self.candidates_ = [self._level(i, points[first], labels[first]) for i in self._numbers()]
        errors = [validation_error(h, points[second], labels[second]) for h in self.candidates_]
        self.errors_ = np.array(errors)
        best = np.flatnonzero(self.errors_ <= self.errors_.min() + 1e-12)
        self.chosen_ = int(best[0] if self.tie == "smallest" else best[-1])
        return self

    def certify(self, X: ArrayLike) -> Any:
        """Certificates of the chosen level (practical mode)."""
        points = self._check_fitted(X, "chosen_")
        level = self.candidates_[self.chosen_]
        if isinstance(level, KnownEta):
            level = level.candidates_[level.chosen_]
        return level.certify(points)

    def _numbers(self) -> range:
        return range(math.ceil(1 / (2 * self.slack_) - 1e-12) + 1)

    def _level(self, i: int, points: NDArray[Any], labels: NDArray[np.int8]) -> Any:
        if self.practical:
            base = self._base.fresh()  # all levels share the cache of labelings
            base.eta = 2 * i * self.slack_
            return base.fit(points, labels)
        eta = (2 * i - 1) * self.slack_
        return KnownEta(
            self.hypotheses, self.group, eta, self.slack_, self.delta / 2
        ).fit(points, labels)  # fmt: skip


@checked
class AdaptiveAgnostic(_Chooser):
    """Agnostic learner that adapts to the invariance of good hypotheses with unlabelled data.

    Parameters
    ----------
    problem:
        A finite problem.
    slack:
        Width parameter Delta of the cells.
    inner:
        Learner inside each cell: "compression" (the theory) or "erm-inv" (the same rate, faster).
    random_state:
        Seed of the split.

    Notes
    -----
    Cell 0 holds the hypotheses that are constant on every orbit of the unlabelled sample, cell i
    those with measured level in (2(i-1) Delta, 2 i Delta]; every hypothesis is in exactly one.
    Excess error O(sqrt((VCao(H*) log^2 m + log(1/(delta Delta))) / m)) (Theorem J.2).

    Examples
    --------
    >>> from counterplay.invariance import instances
    >>> case = instances.eta_family(3, 0.2, random_state=0)
    >>> U, _ = case.distribution.sample(200, 1)
    >>> learner = AdaptiveAgnostic(case.problem, slack=0.1, inner="erm-inv", random_state=0)
    >>> learner = learner.fit(*case.distribution.sample(200, 0), unlabeled=U)
    >>> case.distribution.error_of(learner)
    0.0
    """

    def __init__(
        self,
        problem: Any,
        group: Any = None,
        slack: float = 0.1,
        inner: Literal["compression", "erm-inv"] = "compression",
        random_state: RandomState = None,
    ) -> None:
        self.problem: FiniteProblem = as_problem(problem, group)
        self.group = self.problem.group
        self.slack = check_real(slack, "slack", low=0.0, high=1.0, open_low=True)
        self.inner = check_choice(inner, "inner", ("compression", "erm-inv"))
        self.random_state = random_state

    def cells(self, unlabeled: ArrayLike) -> IntArray:
        """Cell number of every hypothesis."""
        points = self.group.check_points(unlabeled)
        if len(points) == 0:
            return np.zeros(len(self.problem.H), dtype=np.int64)
        counts = self.problem.iota[:, points].sum(axis=1)
        cell = np.ceil(counts / (2 * self.slack * len(points)) - 1e-12).astype(np.int64)
        limit = math.ceil(1 / (2 * self.slack) - 1e-12)
        return np.asarray(np.clip(cell, (counts > 0).astype(np.int64), limit))

    def fit(
        self, X: ArrayLike, y: ArrayLike, unlabeled: ArrayLike | None = None
    ) -> AdaptiveAgnostic:
        """Learn in every non-empty cell on half of the sample, validate on the other half."""
        points, labels = self._check_sample(X, y, settle=False)
        if len(points) < 2:
            raise InvalidInputError("at least two samples are needed for the split")
        self.cells_ = self.cells(points if unlabeled is None else unlabeled)
        order = generator(self.random_state).permutation(len(points))
        first, second = order[: len(points) // 2], order[len(points) // 2 :]
        self.candidates_ = {
            int(cell): self._cell_learner(int(cell)).fit(points[first], labels[first])
            for cell in np.unique(self.cells_)
        }
        self.errors_ = {
            cell: validation_error(learner, points[second], labels[second])
            for cell, learner in self.candidates_.items()
        }
        self.chosen_ = min(self.errors_, key=lambda cell: (self.errors_[cell], cell))
        return self

    def _cell_learner(self, cell: int) -> Any:
        rows = self.problem.H[self.cells_ == cell]
        part = FiniteProblem(rows, self.problem.orbit)
        if self.inner == "erm-inv":
            return ErmInv(ERM(part))
        return AgnosticCompression(part, random_state=self.random_state)
