"""ProjectedMajority: a proper answer that equals the majority wherever the vote is clear.

With 10 k_p t + 1 blocks, k_p the projection number, some hypothesis of the class agrees with the
majority at every point where fewer than 1/k_p of the blocks disagree. Source: Algorithm 10.3;
docs/theory/10-poisoning.md, "Theorem 10.9: projected majority".
"""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.finite_class import FiniteClass
from counterplay.core.programs import minimize_linear
from counterplay.core.seeds import RandomState, generator
from counterplay.core.stats import Interval
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_float_array,
    check_int,
    check_positive_int,
    shorten,
)
from counterplay.core.votes import majority, minority_counts
from counterplay.errors import InvalidInputError
from counterplay.poisoning import bounds
from counterplay.poisoning.block_fits import fit_random_blocks
from counterplay.poisoning.block_votes import collect_votes
from counterplay.poisoning.clean_rate import CleanTrial, block_vote_rate
from counterplay.poisoning.errors import ProjectionFailed
from counterplay.poisoning.model import BatchLearner, LabelledSet, Labels, check_learner, column
from counterplay.poisoning.ordered_erm import as_class
from counterplay.poisoning.voting import BINARY


class Projector(Protocol):
    """Finds a member of the class with given labels on some reference points."""

    @property
    def reference(self) -> Any:
        """Points at which the votes are taken."""

    def project(self, labels: Labels, mask: BoolArray, k: int) -> Any:
        """Return a predictor from the class that has ``labels`` where ``mask`` is set."""


@checked
class FiniteProjector:
    """Projector for a finite class: the first row that agrees.

    Examples
    --------
    >>> projector = FiniteProjector(FiniteClass.thresholds(range(4)))
    >>> projector.project(np.array([0, 0, 1, 0]), np.array([1, 1, 1, 0], bool), k=2)
    2
    """

    def __init__(self, H: FiniteClass | ArrayLike) -> None:
        self.H = as_class(H)

    @property
    def reference(self) -> IntArray:
        """All positions."""
        return np.arange(self.H.n_points)

    def project(self, labels: Labels, mask: BoolArray, k: int) -> int:
        """Index of the first member that agrees on the mask."""
        points = np.flatnonzero(mask)
        hits = np.flatnonzero(self.H.consistent(points, labels[points]))
        if hits.size == 0:
            raise ProjectionFailed(f"no member agrees with the majority for k={k}; raise k_p")
        return int(hits[0])

    def predict(self, member: int, X: ArrayLike) -> Labels:
        """Labels of a member at positions."""
        row = self.H.labels[member][np.asarray(X, np.int64).reshape(-1)]
        return np.asarray(row, dtype=np.uint8)

    def __repr__(self) -> str:
        return f"FiniteProjector({self.H!r})"


@checked
class ThresholdProjector:
    """Projector for thresholds 1[x >= c] on the line: the cut of the majority (k_p = 2).

    Examples
    --------
    >>> projector = ThresholdProjector([0.1, 0.4, 0.7])
    >>> projector.project(np.array([0, 1, 1]), np.ones(3, bool), k=2)
    0.4
    """

    def __init__(self, points: ArrayLike) -> None:
        self.points = np.sort(column(points))

    @property
    def reference(self) -> FloatArray:
        """The reference points as one column."""
        return self.points[:, None]

    def project(self, labels: Labels, mask: BoolArray, k: int) -> float:
        """Smallest clear positive; it must lie above all clear negatives."""
        ones = self.points[mask & (labels == 1)]
        zeros = self.points[mask & (labels == 0)]
        cut = float(ones.min(initial=np.inf))
        if float(zeros.max(initial=-np.inf)) >= cut:
            raise ProjectionFailed(f"the majority is not a threshold for k={k}; raise k_p")
        return cut

    def predict(self, cut: float, X: ArrayLike) -> Labels:
        """Label 1 from the cut on."""
        return (column(X) >= cut).astype(np.uint8)

    def __repr__(self) -> str:
        return f"ThresholdProjector({len(self.points)} points)"


@checked
class IntervalProjector:
    """Projector for closed intervals on the line: the hull of the clear positives (k_p = 3).

    Examples
    --------
    >>> projector = IntervalProjector([0.1, 0.4, 0.7])
    >>> projector.project(np.array([0, 1, 1]), np.ones(3, bool), k=3)
    (0.4, 0.7)
    """

    def __init__(self, points: ArrayLike) -> None:
        self.points = np.sort(column(points))

    @property
    def reference(self) -> FloatArray:
        """The reference points as one column."""
        return self.points[:, None]

    def project(self, labels: Labels, mask: BoolArray, k: int) -> tuple[float, float]:
        """Ends of the smallest interval around the clear positives; (inf, -inf) is empty."""
        ones = self.points[mask & (labels == 1)]
        zeros = self.points[mask & (labels == 0)]
        low, high = float(ones.min(initial=np.inf)), float(ones.max(initial=-np.inf))
        if ((zeros >= low) & (zeros <= high)).any():
            raise ProjectionFailed(f"the majority is not an interval for k={k}; use k_p = 3")
        return low, high

    def predict(self, ends: tuple[float, float], X: ArrayLike) -> Labels:
        """Label 1 inside the interval."""
        x = column(X)
        return ((x >= ends[0]) & (x <= ends[1])).astype(np.uint8)

    def __repr__(self) -> str:
        return f"IntervalProjector({len(self.points)} points)"


@checked
class HalfspaceProjector:
    """Projector for half-spaces on reference points (training, unlabelled and test rows).

    Examples
    --------
    >>> projector = HalfspaceProjector([[0.0], [1.0], [2.0]])
    >>> plane = projector.project(np.array([0, 1, 1]), np.ones(3, bool), k=3)
    >>> projector.predict(plane, [[-1.0], [3.0]])
    array([0, 1], dtype=uint8)
    """

    def __init__(self, points: ArrayLike) -> None:
        self.points = check_float_array(points, "points", ndim=2)

    @property
    def reference(self) -> FloatArray:
        """The reference points."""
        return self.points

    def project(self, labels: Labels, mask: BoolArray, k: int) -> FloatArray:
        """Normal and offset of a half-space, by linear programming."""
        sign = np.where(labels[mask] == 1, -1.0, 1.0)
        rows = sign[:, None] * np.column_stack([self.points[mask], np.ones(int(mask.sum()))])
        n = rows.shape[1]
        if not len(rows):
            return np.zeros(n)
        found = minimize_linear(
            np.zeros(n), A_ub=rows, b_ub=-np.ones(len(rows)), bounds=(None, None),
            what="the half-space", allow=("infeasible",),
        )  # fmt: skip
        if found.status == "infeasible":
            raise ProjectionFailed(
                f"no half-space agrees with the majority for k={k}; use k_p = n + 2 = {n + 1}"
            )
        return found.point

    def predict(self, plane: FloatArray, X: ArrayLike) -> Labels:
        """Label 1 on and above the hyperplane."""
        x = np.atleast_2d(np.asarray(X, np.float64))
        return np.asarray(x @ plane[:-1] + plane[-1] >= 0, dtype=np.uint8)

    def __repr__(self) -> str:
        return f"HalfspaceProjector({len(self.points)} points)"


def clear_points(votes: ArrayLike, k: int) -> BoolArray:
    """Points with fewer than 1/k of the votes in the minority: the set X_{H',k}.

    Examples
    --------
    >>> clear_points([[1, 0], [1, 1], [1, 1]], k=3)
    array([ True, False])
    """
    table = np.asarray(votes)
    clear: BoolArray = minority_counts(table) * check_int(k, "k", low=2) < table.shape[0]
    return clear


@checked
class ProjectedMajority(BatchLearner):
    """Majority of 10 k_p t + 1 blocks, projected back into the class (proper).

    Parameters
    ----------
    base:
        A learner or classifier whose hypotheses are in the class.
    t:
        The poison budget.
    k_p:
        Projection number of the class: max(2, hollow star number); n + 2 for half-spaces.
    projector:
        :class:`FiniteProjector`, :class:`ThresholdProjector`, :class:`IntervalProjector` or
        :class:`HalfspaceProjector`.
    random_state:
        Seed of the permutation.

    Notes
    -----
    Guaranteed: attackable rate at most eps after
    :func:`counterplay.poisoning.bounds.projected_majority_sample_size` rows.

    Examples
    --------
    >>> from counterplay.poisoning.lab import OrderedERM
    >>> line = FiniteClass.thresholds(range(60))
    >>> X = np.random.default_rng(0).integers(60, size=630)
    >>> learner = ProjectedMajority(OrderedERM(line), 1, 2, FiniteProjector(line), random_state=0)
    >>> int((learner.fit(X, X >= 30).predict(np.arange(60)) != (np.arange(60) >= 30)).sum())
    0
    """

    randomised = True

    def __init__(
        self, base: Any, t: int, k_p: int, projector: Any, *, random_state: RandomState = None
    ) -> None:
        self.base = check_learner(base, "base")
        self.t = check_positive_int(t, "t")
        if not (hasattr(projector, "reference") and hasattr(projector, "project")):
            raise InvalidInputError(
                f"projector must be one of the projectors of lab, got {shorten(projector)}"
            )
        self.k_p = check_int(k_p, "k_p", low=2)
        self.projector = projector
        self.random_state = random_state

    @property
    def n_blocks(self) -> int:
        """The number of blocks, 10 k_p t + 1."""
        return 10 * self.k_p * self.t + 1

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the blocks, take the vote on the reference points, project."""
        S = LabelledSet(np.asarray(X), np.asarray(y))
        models = fit_random_blocks(self.base, S, self.n_blocks, self.random_state)
        votes = collect_votes(models, self.projector.reference, BINARY)
        self.votes_: IntArray = np.maximum(votes, 0)  # a block that abstains counts as a 0
        self.majority_: Labels = majority(self.votes_, tie="raise").astype(np.uint8)
        self.clear_: BoolArray = clear_points(self.votes_, self.k_p)
        self.member_ = self.projector.project(self.majority_, self.clear_, self.k_p)
        return self

    def predict(self, X: ArrayLike) -> Labels:
        """Labels of the projected hypothesis."""
        labels: Labels = self.projector.predict(self.member_, X)
        return labels

    def sample_size(self, eps: float, delta: float, d: int) -> int:
        """Rows that suffice for attackable rate eps with probability 1 - delta."""
        return bounds.projected_majority_sample_size(self.t, d, self.k_p, eps, delta)

    def certified_upper_rate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_test: ArrayLike,
        y_test: ArrayLike,
        *,
        n_permutations: int = 200,
        confidence: float = 0.95,
    ) -> Interval:
        """Upper bound on the rate of test points that t added rows can make wrong.

        The test points must be among the reference points of the projector. The answer is wrong
        only where more than 9t clean blocks are wrong.
        """
        S = LabelledSet(np.asarray(X), np.asarray(y))
        trial = CleanTrial(self.base, S.X, S.y, np.asarray(X_test), np.asarray(y_test))
        return block_vote_rate(
            trial, n_blocks=self.n_blocks, budget=self.t, tolerated=9 * self.t,
            draws=n_permutations, rng=generator(self.random_state), confidence=confidence,
        )  # fmt: skip
