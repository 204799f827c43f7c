"""PartitionClassifier and BlockMajorityClassifier: drop-in defences for scikit-learn users.

Both train one model per block and let them vote. Hash blocks give every prediction a certificate;
random blocks come with a bound on the attackable rate. Source: spec 10, sections 3.9 and 9.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from counterplay.core.seeds import RandomState, derive_seed, generator
from counterplay.core.stats import Interval, clopper_pearson
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_choice, check_int
from counterplay.core.validation import check_positive_int as positive
from counterplay.core.votes import Vote, hash_blocks, random_blocks
from counterplay.errors import InvalidInputError
from counterplay.poisoning.certificates import (
    CertifiedAccuracy,
    finite_aggregation_radius,
    partition_radius,
    spread_parts,
)
from counterplay.poisoning.voting import block_labels, collect_votes, count_votes, fit_blocks

Changes = Literal["inserted", "inserted_or_removed", "replaced"]


class _VotingClassifier(ClassifierMixin, BaseEstimator):
    """What both classifiers share once ``models_`` are fitted."""

    n_jobs: int | None

    def _validated(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        points, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.classes_, encoded = np.unique(labels, return_inverse=True)
        return points, encoded.reshape(-1)

    def _fit_models(
        self, estimator: Any, X: NDArray[Any], y: NDArray[Any], blocks: list[IntArray], seed: int
    ) -> None:
        base = KNeighborsClassifier(n_neighbors=1) if estimator is None else estimator
        seeds = [derive_seed("block", seed, i) % 2**31 for i in range(len(blocks))]
        self.models_ = fit_blocks(base, X, y, blocks, seeds, self.n_jobs)
        self.fallback_ = block_labels(y, blocks)
        self.n_empty_ = sum(model is None for model in self.models_)

    def votes(self, X: ArrayLike) -> IntArray:
        """Class positions voted for, shape (models, points); -1 for models without data."""
        check_is_fitted(self)
        points = validate_data(self, X, reset=False, dtype=np.float64)
        known = np.arange(len(self.classes_))
        return collect_votes(self.models_, points, known, self.fallback_, self.n_jobs)

    def vote(self, X: ArrayLike) -> Vote:
        """Counts and winners; ties go to the first class."""
        counts = count_votes(self.votes(X), len(self.classes_))
        return Vote(counts.argmax(axis=1).astype(np.int64), counts, self.classes_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class with most votes, the first one on ties."""
        return self.vote(X).labels

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Vote shares per class."""
        counts = self.vote(X).counts.astype(np.float64)
        shares: FloatArray = counts / counts.sum(axis=1, keepdims=True)
        return shares

    def vote_margin(self, X: ArrayLike) -> IntArray:
        """Votes for the winner minus votes for the strongest other class."""
        return self.vote(X).gap


class PartitionClassifier(_VotingClassifier):
    """Classifier whose predictions come with a certificate against planted training rows.

    Every row goes to the block given by a hash of its content, each block trains one model, the
    models vote. A planted row reaches one block, so a lead of 2t votes survives t planted rows,
    whatever they are: clean or not, duplicated or crafted.

    Parameters
    ----------
    estimator:
        Any scikit-learn classifier; default: one nearest neighbour. Blocks in which it cannot be
        fitted vote for their most frequent class, blocks with one class for that class.
    n_partitions:
        Number of blocks, or ``"auto"``: the best certified accuracy at ``budget`` on a held-out
        part (see :func:`choose_n_partitions`). More blocks certify more rows, but each model sees
        less data. A certificate is valid for the number of blocks as chosen; fix the number, or
        choose it on data you trust, if the attacker may know the rule.
    spread:
        1: deep partition aggregation. d > 1: finite aggregation with d times as many models, each
        trained on d of ``n_partitions * d`` parts; sharper certificates, d times the work.
    min_lead:
        Abstain when the winner's lead is below this many votes.
    budget:
        Planted rows to optimise for when ``n_partitions="auto"``.
    include_label:
        Hash the label, too. Without it a flipped label stays in its block.
    decimals:
        Round features before hashing, so that near copies share a block.
    salt:
        Text that selects the hash function; keep it fixed and, if you can, secret.
    random_state:
        Seed of the base models. An integer; None means 0, since equal blocks must give equal
        models for the certificate.
    n_jobs:
        Workers of joblib for fitting and voting.

    Notes
    -----
    Guaranteed: ``certify(X)`` rows can be inserted or removed without changing the prediction
    (Levine and Feizi 2021; for ``spread`` > 1 Wang, Levine and Feizi 2022), provided that fitting
    the base estimator is deterministic given its seed. Empty blocks abstain.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> guarded = PartitionClassifier(n_partitions=25).fit(X[:1200], y[:1200])
    >>> curve = guarded.certified_accuracy(X[1200:1400], y[1200:1400])
    >>> curve.at(0) > 0.85, curve.at(3) > 0.75
    (True, True)

    References
    ----------
    Levine and Feizi (2021), "Deep partition aggregation: provable defenses against general
    poisoning attacks".
    """

    def __init__(
        self,
        estimator: Any = None,
        n_partitions: int | Literal["auto"] = 25,
        *,
        spread: int = 1,
        min_lead: int = 0,
        budget: int = 3,
        include_label: bool = False,
        decimals: int | None = None,
        salt: str = "",
        random_state: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_partitions = n_partitions
        self.spread = spread
        self.min_lead = min_lead
        self.budget = budget
        self.include_label = include_label
        self.decimals = decimals
        self.salt = salt
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Hash the rows into blocks and fit one model per block."""
        points, labels = self._validated(X, y)
        check_int(self.min_lead, "min_lead", low=0)
        order = np.lexsort((labels, *points.T[::-1]))  # the row order must not matter
        points, labels = points[order], labels[order]
        self.n_partitions_ = self._count(points, labels)
        d = positive(self.spread, "spread")
        content = self.classes_[labels] if self.include_label else None
        parts = hash_blocks(
            points, self.n_partitions_ * d, y=content, decimals=self.decimals, salt=self.salt
        )
        self.partition_sizes_: IntArray = parts.sizes
        self.design_: IntArray | None = None
        blocks = list(parts)
        if d > 1:
            self.design_ = spread_parts(self.n_partitions_, d)
            users = self.design_[parts.block]  # models that see each row
            blocks = [np.flatnonzero((users == i).any(axis=1)) for i in range(len(parts))]
        self._fit_models(self.estimator, points, labels, blocks, self._seed())
        return self

    def _seed(self) -> int:
        if self.random_state is None:
            return 0
        if isinstance(self.random_state, np.random.RandomState | np.random.Generator):
            return int(generator(self.random_state).integers(2**31))
        return check_int(self.random_state, "random_state", low=0)

    def _count(self, X: NDArray[Any], y: NDArray[Any]) -> int:
        if self.n_partitions != "auto":
            return positive(self.n_partitions, "n_partitions")
        chosen: int = choose_n_partitions(
            self.estimator, X, y, budget=self.budget, salt=self.salt, n_jobs=self.n_jobs
        ).best
        return chosen

    def certify(self, X: ArrayLike, changes: Changes = "inserted") -> IntArray:
        """Return how many changed training rows each prediction provably survives.

        Parameters
        ----------
        X:
            Points to certify.
        changes:
            ``"inserted"`` or ``"inserted_or_removed"`` count rows of either kind (the radius is the
            same: each changes one block); ``"replaced"`` counts rows exchanged for others, each of
            which is a removal and an insertion.

        Returns
        -------
        Integers; -1 where the classifier abstains.
        """
        check_choice(changes, "changes", ("inserted", "inserted_or_removed", "replaced"))
        votes = self.votes(X)
        counts = count_votes(votes, len(self.classes_))
        vote = Vote(counts.argmax(axis=1).astype(np.int64), counts, self.classes_)
        if self.design_ is None:
            radius = partition_radius(vote)
        else:
            radius = finite_aggregation_radius(votes, self.design_, len(self.classes_))
        if changes == "replaced":
            radius = radius // 2
        return np.where(vote.gap < self.min_lead, -1, radius).astype(np.int64)

    def abstains(self, X: ArrayLike) -> BoolArray:
        """Whether the lead of the winner is below ``min_lead``."""
        mask: BoolArray = self.vote_margin(X) < self.min_lead
        return mask

    def predict_or_abstain(self, X: ArrayLike) -> np.ma.MaskedArray[Any, Any]:
        """Return predictions as a masked array; abstentions are masked."""
        return np.ma.MaskedArray(self.predict(X), mask=self.abstains(X))

    def certified_accuracy(
        self, X: ArrayLike, y: ArrayLike, changes: Changes = "inserted"
    ) -> CertifiedAccuracy:
        """Return the curve of certified accuracy over the number of changed rows."""
        radius = self.certify(X, changes)
        right = self.predict(X) == np.asarray(y)
        return CertifiedAccuracy(radius, np.asarray(right & (radius >= 0), dtype=np.bool_))


class BlockMajorityClassifier(_VotingClassifier):
    """Plurality vote of 10t+1 models fitted on random blocks: a bound on the attackable rate.

    Use it when the budget t is known and the average over predictions matters; for a certificate
    per prediction use :class:`PartitionClassifier`.

    Parameters
    ----------
    estimator:
        Any scikit-learn classifier; default: one nearest neighbour.
    t:
        Rows an attacker may add, clean or not.
    random_state:
        Seed of the permutation and the base models.
    n_jobs:
        Workers of joblib.

    Notes
    -----
    Guaranteed: a point is wrong only if at least 4t+1 models of clean blocks are wrong there;
    :meth:`certified_upper_rate` evaluates that on clean data. The number of blocks is never
    reduced: with fewer rows than blocks some are empty and abstain.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> pipe = make_pipeline(StandardScaler(), LogisticRegression())
    >>> model = BlockMajorityClassifier(pipe, t=1, random_state=0).fit(X[:400], y[:400])
    >>> model.n_blocks_, bool(model.score(X[400:], y[400:]) > 0.9)
    (11, True)
    """

    def __init__(
        self,
        estimator: Any = None,
        t: int = 1,
        *,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.t = t
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Shuffle, cut into 10t+1 equal blocks, drop the remainder, fit each block."""
        points, labels = self._validated(X, y)
        rng = generator(self.random_state)
        self.n_blocks_ = 10 * positive(self.t, "t") + 1
        blocks = _equal_blocks(len(labels), self.n_blocks_, rng)
        self.block_size_ = len(labels) // self.n_blocks_
        self._fit_models(self.estimator, points, labels, blocks, int(rng.integers(2**31)))
        return self

    def certified_upper_rate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_test: ArrayLike,
        y_test: ArrayLike,
        *,
        n_permutations: int = 20,
        confidence: float = 0.95,
    ) -> Interval:
        """Upper bound on the rate of test points that t added rows can make wrong.

        Fits blocks of the clean data (X, y) for several permutations and counts the test points at
        which at least 4t+1 clean blocks are wrong.
        """
        points, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
        test, truth = np.asarray(X_test, dtype=np.float64), np.asarray(y_test)
        rng, t, m = generator(self.random_state), positive(self.t, "t"), len(labels)
        count = 10 * t + 1
        if m < count:
            raise InvalidInputError(f"{m} rows cannot fill {count} blocks; lower t or add rows")
        classes = np.unique(np.concatenate([labels, truth]))
        enough = 4 * t + 1  # a class with more than half of the votes wins, whatever the others do
        sizes = [m // count] + ([m // count + 1] if (m + t) // count > m // count else [])
        bad, pairs = 0, 0
        for _ in range(positive(n_permutations, "n_permutations")):
            for size in sizes:
                blocks = list(random_blocks(m, sizes=[size] * min(count, m // size),
                                            random_state=rng))  # fmt: skip
                votes = self._clean_votes(points, labels, blocks, test, classes, rng)
                wrong = (votes != np.searchsorted(classes, truth)[None, :]).sum(axis=0)
                bad += int((wrong >= enough).sum())
            pairs += len(truth)
        return clopper_pearson(min(bad, pairs), pairs, confidence)

    def _clean_votes(
        self,
        X: NDArray[Any],
        y: NDArray[Any],
        blocks: list[IntArray],
        test: NDArray[Any],
        classes: NDArray[Any],
        rng: np.random.Generator,
    ) -> IntArray:
        base = KNeighborsClassifier(n_neighbors=1) if self.estimator is None else self.estimator
        seeds = [int(s) for s in rng.integers(2**31, size=len(blocks))]
        models = fit_blocks(base, X, y, blocks, seeds, self.n_jobs)
        return collect_votes(models, test, classes, block_labels(y, blocks), self.n_jobs)


def _equal_blocks(n: int, count: int, rng: np.random.Generator) -> list[IntArray]:
    if n >= count:
        return list(random_blocks(n, count, random_state=rng))
    return list(random_blocks(n, sizes=[1] * n + [0] * (count - n), random_state=rng))


def choose_n_partitions(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    budget: int = 3,
    candidates: tuple[int, ...] | None = None,
    salt: str = "",
    n_jobs: int | None = None,
) -> Any:
    """Find the number of blocks with the best certified accuracy at a budget.

    A quarter of the rows, selected by their content, is held out. The rule looks at the data: run
    it on data you trust and fix its answer.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> curve = choose_n_partitions(None, X[:600], y[:600], budget=2, candidates=(5, 15, 45))
    >>> curve.best in (5, 15, 45)
    True
    """
    from counterplay.poisoning.partition_curve import PartitionCurve

    points, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
    t = check_int(budget, "budget", low=0)
    held = hash_blocks(points, 4, salt=f"validation {salt}").block == 0
    if held.all() or not held.any():
        held = np.arange(len(labels)) % 4 == 0
    if len(labels) < 2:
        held[:] = False
    train, test = ~held, held if held.any() else ~held
    tried = candidates or _default_candidates(int(train.sum()), t)
    accuracy, certified = [], []
    for count in tried:
        model = PartitionClassifier(estimator, count, salt=salt, n_jobs=n_jobs)
        curve = model.fit(points[train], labels[train]).certified_accuracy(
            points[test], labels[test]
        )
        accuracy.append(curve.at(0))
        certified.append(curve.at(t))
    return PartitionCurve(np.array(tried), np.array(accuracy), np.array(certified), t)


def _default_candidates(rows: int, budget: int) -> tuple[int, ...]:
    least = 2 * budget + 1
    sizes = {least * factor for factor in (1, 2, 3, 5, 9, 15, 25)}
    fitting = sorted(size | 1 for size in sizes if size <= max(least, rows // 4))
    return tuple(dict.fromkeys(fitting))
