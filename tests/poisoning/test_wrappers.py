"""Wrappers for a known budget: block majority, projection, subsample."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp
from sklearn.svm import SVC

from counterplay.core.finite_class import FiniteClass
from counterplay.core.votes import random_blocks
from counterplay.errors import InvalidInputError
from counterplay.poisoning import (
    BlockMajorityClassifier,
    IntervalTarget,
    LabelledSet,
    bounds,
    instances,
)
from counterplay.poisoning.lab import (
    BatchLearner,
    FiniteProjector,
    HalfspaceProjector,
    IntervalProjector,
    MaxOpenInterval,
    OrderedERM,
    ProjectedMajority,
    ProjectionFailed,
    SubsampleERM,
    ThresholdProjector,
    TooFewSamplesError,
    hollow_star_number,
    projection_number,
)
from counterplay.poisoning.projected_majority import clear_points


class Recorder(BatchLearner):
    """Says 1 everywhere, but 0 if its block holds a marked row (x >= 1000) or is told to err."""

    def __init__(self, wrong_below: float = -1.0) -> None:
        self.wrong_below = wrong_below

    def fit(self, X, y):
        rows = np.asarray(X)[:, 0]
        self.marked_ = bool((rows >= 1000).any())
        self.errs_ = bool(rows.min() < self.wrong_below)
        return self

    def predict(self, X):
        return np.full(len(X), 0 if self.marked_ or self.errs_ else 1, dtype=np.uint8)


@pytest.mark.claim("10.29")
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(0, 40), st.integers(0, 2**31), st.floats(0, 0.4))
def test_block_majority_is_right_while_few_blocks_are_wrong(t, more, seed, share) -> None:
    blocks = 10 * t + 1
    m = 3 * blocks + more
    X = np.vstack([np.linspace(0, 1, m)[:, None], np.full((t, 1), 2000.0)])  # t marked rows
    y = np.concatenate([np.ones(m), np.arange(t) % 2]).astype(int)
    learner = BlockMajorityClassifier(Recorder(share / 10), t=t, random_state=seed).fit(X, y)
    assert learner.n_blocks_ == blocks
    assert learner.block_size_ == (m + t) // blocks
    votes = learner.votes(np.zeros((1, 1)))[:, 0]
    assert votes.size == blocks
    wrong = int((votes == 0).sum())
    marked = sum(model.marked_ for model in learner.models_)  # these vote against, all of them
    clean_wrong = sum(model.errs_ and not model.marked_ for model in learner.models_)
    assert marked <= t
    assert wrong == marked + clean_wrong
    assert (learner.predict(np.zeros((1, 1)))[0] == 1) == (wrong <= 5 * t)
    if clean_wrong <= 4 * t:
        assert learner.predict(np.zeros((1, 1)))[0] == 1


@pytest.mark.claim("10.29")
def test_block_majority_drops_the_remainder() -> None:
    class Sizes(Recorder):
        def fit(self, X, y):
            self.rows_ = np.asarray(X)[:, 0]
            return super().fit(X, y)

    for m in (11, 21, 22, 105):
        X = np.arange(m, dtype=float)
        models = BlockMajorityClassifier(Sizes(), 1, random_state=m).fit(X, np.zeros(m)).models_
        assert [len(model.rows_) for model in models] == [m // 11] * 11
        used = np.concatenate([model.rows_ for model in models])
        assert np.unique(used).size == used.size == 11 * (m // 11)


@pytest.mark.claim("10.29")
def test_block_majority_does_not_depend_on_the_row_order() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((121, 1)), np.zeros(121, int)
    order = rng.permutation(121)

    def margins(X, y):
        return [
            BlockMajorityClassifier(MaxOpenInterval(), 1, random_state=s)
            .fit(X, y)
            .vote_margin([[0.5]])[0]
            for s in range(300)
        ]

    first, second = np.array(margins(X, y)), np.array(margins(X[order], y[order]))
    pooled = np.sqrt((first.var() + second.var()) / 300) + 1e-12
    assert abs(first.mean() - second.mean()) <= 4 * pooled
    assert ks_2samp(first, second).pvalue > 1e-4  # the whole distribution
    few = BlockMajorityClassifier(MaxOpenInterval(), 2).fit(X[:20], y[:20])
    assert (few.n_blocks_, few.n_empty_) == (21, 1)


@pytest.mark.claim("10.30")
@pytest.mark.filterwarnings("ignore::counterplay.poisoning.BlockFailureWarning")
def test_unclean_poison_does_not_break_block_majority() -> None:
    rng = np.random.default_rng(1)
    X = rng.random(440)
    target = IntervalTarget([0.3, 0.7])
    S = LabelledSet(X, target(X))
    for t, base in ((1, MaxOpenInterval()), (2, MaxOpenInterval()), (1, SVC(kernel="linear"))):
        test = rng.random((50, 1))
        poison = LabelledSet(np.full((t, 1), 0.5), np.zeros(t))  # wrong labels, not realizable
        both = S + poison
        learner = BlockMajorityClassifier(base, t, random_state=0).fit(both.X, both.y)
        wrong = learner.votes(test) != target(test)[None, :]
        right = learner.predict(test) == target(test)
        assert np.array_equal(right, wrong.sum(axis=0) <= 5 * t)
        blocks = random_blocks(len(both), learner.n_blocks_, random_state=0)  # the same coins
        touched = np.array([(rows >= len(S)).any() for rows in blocks])
        assert 1 <= touched.sum() <= t
        few = wrong[~touched].sum(axis=0) <= 4 * t
        assert few.any()
        assert right[few].all()


@pytest.mark.claim("10.31")
def test_projected_majority_equals_the_clear_majority() -> None:
    rng = np.random.default_rng(3)
    for H in (FiniteClass.thresholds(range(10)), FiniteClass.intervals(range(6))):
        k_p = projection_number(H).value
        for _ in range(4):
            target = H.labels[rng.integers(len(H))].astype(np.uint8)
            rows = rng.integers(H.n_points, size=4 * (10 * k_p + 1))
            learner = ProjectedMajority(
                OrderedERM(H, rng.permutation(len(H))), 1, k_p, FiniteProjector(H), random_state=0
            ).fit(rows, target[rows])
            answer = learner.predict(np.arange(H.n_points))
            assert H.index_of(answer) is not None
            clear = learner.clear_
            assert np.array_equal(answer[clear], learner.majority_[clear])


@pytest.mark.claim("10.31")
def test_projection_on_thresholds_is_the_median() -> None:
    rng = np.random.default_rng(4)
    points = np.arange(30.0)
    projector = ThresholdProjector(points)
    for _ in range(30):
        cuts = rng.integers(0, 31, size=21)
        votes = (points[None, :] >= cuts[:, None]).astype(int)
        labels = votes.sum(axis=0) * 2 > 21
        cut = projector.project(labels.astype(np.uint8), clear_points(votes, 2), 2)
        assert cut == np.median(cuts) or (np.isinf(cut) and np.median(cuts) == 30)


@pytest.mark.claim("10.31")
def test_projection_fails_below_the_hollow_star_number() -> None:
    H = FiniteClass.singletons(5)
    star = hollow_star_number(H)
    votes = H.labels[list(star.witnesses)].astype(int)  # each point has one dissenter in five
    labels = np.asarray(star.labels, dtype=np.uint8)
    assert star.value == 5
    with pytest.raises(ProjectionFailed, match="k=4"):
        FiniteProjector(H).project(labels, clear_points(votes, 4), 4)
    FiniteProjector(H).project(labels, clear_points(votes, 5), 5)  # nothing is clear any more


@pytest.mark.claim("10.31")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_half_spaces_need_k_p_equal_n_plus_two(n: int) -> None:
    T = instances.simplex_set(n)
    votes = np.tile(T.y.astype(int), (n + 2, 1))
    votes[np.arange(n + 2), np.arange(n + 2)] ^= 1  # the neighbours h_1, ..., h_{n+2}
    projector = HalfspaceProjector(T.X)
    with pytest.raises(ProjectionFailed, match=f"k={n + 1}"):
        projector.project(T.y, clear_points(votes, n + 1), n + 1)
    projector.project(T.y, clear_points(votes, n + 2), n + 2)
    rng, failed = np.random.default_rng(n), 0
    for _ in range(60):
        X = rng.normal(size=(25, n))
        planes = rng.normal(size=(31, n + 1))
        votes = (X @ planes[:, :n].T + planes[:, n] >= 0).T.astype(int)
        labels = (votes.sum(axis=0) * 2 > 31).astype(np.uint8)
        HalfspaceProjector(X).project(labels, clear_points(votes, n + 2), n + 2)  # always works
        try:
            HalfspaceProjector(X).project(labels, clear_points(votes, 2), 2)
        except ProjectionFailed:
            failed += 1
    assert failed > (0, 30, 30)[n - 1]


@pytest.mark.claim("10.31")
def test_projection_on_intervals_is_the_hull_of_the_clear_positives() -> None:
    rng = np.random.default_rng(8)
    points = np.arange(20.0)
    projector = IntervalProjector(points)
    for _ in range(60):
        ends = np.sort(rng.integers(0, 20, size=(21, 2)), axis=1)
        votes = ((points >= ends[:, :1]) & (points <= ends[:, 1:])).astype(int)
        labels = (votes.sum(axis=0) * 2 > 21).astype(np.uint8)
        clear = clear_points(votes, 3)  # k_p = 3: always an interval
        answer = projector.predict(projector.project(labels, clear, 3), points)
        assert np.array_equal(answer[clear], labels[clear])
    with pytest.raises(ProjectionFailed, match="k_p = 3"):
        projector.project(np.arange(20) % 2, np.ones(20, bool), 2)


@pytest.mark.claim("10.32")
def test_subsample_rarely_sees_poison() -> None:
    m, t, eps = 300, 2, 0.3
    rng = np.random.default_rng(6)
    X = np.concatenate([rng.random(m - t), np.full(t, 0.5)])[:, None]
    y = np.zeros(m, int)
    clean = 0
    for seed in range(1500):
        learner = SubsampleERM(MaxOpenInterval(), t, eps, random_state=seed).fit(X, y)
        clean += bool((learner.rows_ < m - t).all())
    assert learner.m0_ == 15 == bounds.subsample_size(m, t, eps)
    exact = (1 - t / m) ** 15
    assert exact >= 1 - eps / 3
    assert abs(clean / 1500 - exact) <= 4 * np.sqrt(exact * (1 - exact) / 1500)
    assert bounds.subsample_size(99, 1, 0.1) == 3
    assert isinstance(learner.model_, MaxOpenInterval)  # proper: the base's own hypothesis
    with pytest.raises(TooFewSamplesError):
        SubsampleERM(MaxOpenInterval(), 5, 0.01).fit(X, y)


@pytest.mark.claim("10.33")
def test_explicit_sample_sizes() -> None:
    assert bounds.block_majority_sample_size(1, 1, 0.1, 0.05) == 1_186_999
    assert bounds.projected_majority_sample_size(1, 1, 3, 0.1, 0.05) == 11_961_862
    assert bounds.subsample_sample_size(1, 1, 0.1, 0.05) == 3_242_357
    for t, d, eps, delta in itertools.product((1, 5, 50), (1, 5), (0.3, 0.1, 0.01), (0.2, 1e-4)):
        for size in (bounds.block_majority_sample_size, bounds.subsample_sample_size):
            base = size(t, d, eps, delta)
            assert size(t + 1, d, eps, delta) > base
            assert size(t, d + 1, eps, delta) > base
            assert size(t, d, eps / 2, delta) > base
            assert size(t, d, eps, delta / 2) >= base
        projected = bounds.projected_majority_sample_size
        base = projected(t, d, 2, eps, delta)
        assert projected(t, d, 5, eps, delta) > base
        assert projected(t + 1, d, 2, eps, delta) > base
        assert projected(t, d + 1, 2, eps, delta) > base
        assert projected(t, d, 2, eps / 2, delta) > base
        assert projected(t, d, 2, eps, delta / 2) >= base
    with pytest.raises(InvalidInputError):
        bounds.block_majority_sample_size(0, 1, 0.1, 0.1)
