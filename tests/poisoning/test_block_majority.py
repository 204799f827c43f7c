"""BlockMajorityClassifier: blocks, remainders, row order, unclean poison."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp
from sklearn.datasets import load_breast_cancer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from counterplay.core.votes import random_blocks
from counterplay.errors import InvalidInputError
from counterplay.poisoning import (
    BlockMajorityClassifier,
    IntervalTarget,
    LabelledSet,
)
from counterplay.poisoning.lab import (
    BatchLearner,
    MaxOpenInterval,
)


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


def test_the_certified_rate_reads_the_same_rows_as_fit() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, words = X.iloc[:, :4], np.where(y == 1, "benign", "malignant")
    base = make_pipeline(StandardScaler(), GaussianNB())
    guard = BlockMajorityClassifier(base, t=1, random_state=0)

    def rate(train, test, labels=y):
        return guard.certified_upper_rate(
            train[:300], labels[:300], test[300:], labels[300:], n_permutations=4
        )

    plain = rate(X, X)
    assert rate(X, X[X.columns[::-1]]) == plain  # by name, never by position
    assert rate(X, X, words) == plain
    with pytest.raises(InvalidInputError, match="no column 'mean area'"):
        rate(X, X.drop(columns="mean area"))
    with pytest.raises(InvalidInputError, match="X has 269 rows, y 268"):
        guard.certified_upper_rate(X[:300], y[:300], X[300:], y[301:], n_permutations=4)
    texts = np.array([f"{word} {i % 5}" for i, word in enumerate(words)])
    filters = BlockMajorityClassifier(
        make_pipeline(CountVectorizer(), MultinomialNB()), t=1, random_state=0
    )
    span = filters.certified_upper_rate(
        texts[:300], words[:300], texts[300:], words[300:], n_permutations=4
    )
    assert span.estimate == 0  # the text says the label
