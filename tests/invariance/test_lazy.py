"""Augmentation in blocks; number types, image axes and sparse rows as they were given."""

from __future__ import annotations

import tracemalloc
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, SGDClassifier, SGDRegressor
from sklearn.neighbors import KNeighborsClassifier

from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.invariance import (
    AugmentedClassifier,
    AugmentedRegressor,
    CanonicalClassifier,
    Canonicalizer,
    ErmInvClassifier,
    OrbitMeanRegressor,
    OrbitVoteClassifier,
    SymmetryClassifier,
    augmented_blocks,
    augmented_sample,
    groups,
)
from counterplay.invariance.lab import tic_tac_toe_endgames
from invariance.symmetry_worlds import swap

DIGITS_X, DIGITS_Y = load_digits(return_X_y=True)


def collected(*args, **more):
    parts = list(augmented_blocks(*args, **more))
    return tuple(np.concatenate([part[i] for part in parts]) for i in range(3))


def multiset(rows, labels, weights):
    triples = zip(np.asarray(rows, dtype=float), labels.tolist(), weights.tolist())
    return sorted((row.tobytes(), label, round(w, 12)) for row, label, w in triples)


@pytest.mark.claim("22.19")
def test_every_pair_once_and_the_same_multiset() -> None:
    X, y = tic_tac_toe_endgames()
    X, y = X[:100], y[:100]
    group = groups.d4((3, 3))
    weights = np.random.default_rng(0).random(100)
    rows, labels, shares = collected(X, y, group, block_rows=64, sample_weight=weights,
                                     random_state=0)  # fmt: skip
    assert len(rows) == 800
    assert shares.sum() == pytest.approx(weights.sum())
    stacked = augmented_sample(X, y, group, distinct=False, sample_weight=weights)
    assert multiset(rows, labels, shares) == multiset(*stacked)
    assert rows.dtype == X.dtype
    two = collected(X, y, group, block_rows=64, epochs=2, random_state=0)[0]
    np.testing.assert_array_equal(two[:800], rows)
    assert not np.array_equal(two[800:], rows)


@pytest.mark.claim("22.19")
def test_the_same_model_as_on_stacked_copies() -> None:
    X, y = tic_tac_toe_endgames()
    X, y, group = X[:200].astype(float), y[:200], groups.d4((3, 3))
    stacked = np.concatenate([group.act(g, X) for g in range(8)])
    lazy, whole = SGDClassifier(random_state=0), SGDClassifier(random_state=0)
    step = 128
    for start in range(0, len(stacked), step):
        part = slice(start, start + step)
        whole.partial_fit(stacked[part], np.tile(y, 8)[part], classes=[0, 1])
    for rows, labels, _ in augmented_blocks(X, y, group, block_rows=step, shuffle=False):
        lazy.partial_fit(rows, labels, classes=[0, 1])
    np.testing.assert_array_equal(lazy.coef_, whole.coef_)


@pytest.mark.claim("22.19")
def test_memory_of_colour_images() -> None:
    images = np.random.default_rng(0).random((40, 96, 96, 3))
    group = groups.d4((96, 96, 3))
    y = np.arange(40) % 2
    list(augmented_blocks(images[:2], y[:2], group, block_rows=2))  # compile first
    tracemalloc.start()
    seen = 0
    for rows, _, _ in augmented_blocks(images, y, group, block_rows=8, random_state=0):
        assert rows.shape[1:] == (96, 96, 3)
        seen += len(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seen == 320
    assert peak <= 16 * 2**20


@pytest.mark.claim("22.20")
def test_canonical_forms_of_whole_numbers_stay_small() -> None:
    X = np.random.default_rng(0).integers(0, 256, size=(100_000, 64), dtype=np.uint8)
    group = groups.d4((8, 8))
    group.canonical(X[:10])
    tracemalloc.start()
    out = group.canonical(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert out.dtype == np.uint8
    assert peak <= 3 * X.nbytes  # 10^6 rows: 183 MiB; as float64 it would be eight times the input
    np.testing.assert_array_equal(out[:500], group.canonical(X[:500].astype(float)))
    assert group.orbit_key(X[:50]) == group.orbit_key(X[:50].astype(float))


class Recorder(ClassifierMixin, BaseEstimator):
    """Remembers what it is given."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.seen_ = [(X.dtype, X.shape[1:])]
        return self

    def predict(self, X):
        self.seen_.append((X.dtype, X.shape[1:]))
        return np.repeat(self.classes_[0], len(X))


class Streamed(Recorder):
    """Takes its rows block by block."""

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        return self.fit(X, y if classes is None else classes)


class RecordedNumbers(RegressorMixin, BaseEstimator):
    """The same for numbers."""

    def fit(self, X, y, sample_weight=None):
        self.seen_ = [(X.dtype, X.shape[1:])]
        return self

    def predict(self, X):
        self.seen_.append((X.dtype, X.shape[1:]))
        return np.zeros(len(X))


@pytest.mark.claim("22.26")
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("shape", [(9,), (3, 3, 1)])
def test_types_and_axes_reach_the_base(dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 200, size=(30, *shape)).astype(dtype)
    y = np.arange(30) % 2
    group = groups.d4((3, 3))
    wrappers = [AugmentedClassifier, OrbitVoteClassifier, CanonicalClassifier, ErmInvClassifier]
    for wrapper in wrappers:
        model = wrapper(Recorder(), group).fit(X, y)
        model.predict(X[::-1] + 1)
        assert set(model.estimator_.seen_) == {(np.dtype(dtype), shape)}, wrapper
    for kind in (AugmentedRegressor, OrbitMeanRegressor):
        model = kind(RecordedNumbers(), group).fit(X, y.astype(float))
        model.predict(X[::-1] + 1)
        assert set(model.estimator_.seen_) == {(np.dtype(dtype), shape)}, kind
    for more in ({"blocks": "always"}, {"max_bytes": 3 * X.nbytes}):  # streamed; some copies
        base = Streamed() if "blocks" in more else Recorder()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssumptionWarning)
            model = AugmentedClassifier(base, group, **more).fit(X, y)
        assert set(model.estimator_.seen_) == {(np.dtype(dtype), shape)}, more
    search = SymmetryClassifier(Recorder(), group, candidates=["augment"], random_state=0)
    chosen = search.fit(X, y).advice_.model  # the plain recorder, or one fitted on copies
    chosen = getattr(chosen, "estimator_", chosen)
    search.predict(X)
    assert set(chosen.seen_) == {(np.dtype(dtype), shape)}
    given = Canonicalizer(group).fit(X).transform(X)
    assert (given.dtype, given.shape) == (X.dtype, X.shape)
    flipped = AugmentedClassifier(Recorder(), groups.sign_flips(9)).fit(X, y)
    assert flipped.estimator_.seen_[0][0].kind == "f"  # signs of bytes would wrap around


@pytest.mark.claim("22.27")
def test_sparse_rows_give_what_dense_rows_give() -> None:
    rng = np.random.default_rng(0)
    X = np.where(rng.random((80, 5)) < 0.4, rng.integers(1, 4, size=(80, 5)), 0).astype(float)
    y = (X[:, 0] + X[:, 1] > 2).astype(int)
    group = swap(5, 0, 1)
    thin = sparse.csr_array(X)
    for wrapper in (AugmentedClassifier, OrbitVoteClassifier, CanonicalClassifier):
        more = {"form": "smallest"} if wrapper is CanonicalClassifier else {}
        dense = wrapper(LogisticRegression(), group, **more).fit(X, y).predict_proba(X)
        np.testing.assert_allclose(
            wrapper(LogisticRegression(), group, **more).fit(thin, y).predict_proba(thin), dense,
            atol=1e-4,
        )  # fmt: skip
    blocks = list(augmented_blocks(thin, y, group, block_rows=30, shuffle=False))
    stacked = np.concatenate([block.toarray() for block, _, _ in blocks])
    np.testing.assert_array_equal(stacked, np.concatenate([X, X[:, [1, 0, 2, 3, 4]]]))


@pytest.mark.claim("22.27")
def test_large_sparse_rows_are_never_written_out() -> None:
    rng = np.random.default_rng(0)
    n, p = 100_000, 10_000
    thin = sparse.csr_array(
        (np.ones(2 * n), rng.integers(0, p, size=2 * n), np.arange(0, 2 * n + 1, 2)), shape=(n, p)
    )
    group = swap(p, 0, 1)
    tracemalloc.start()
    model = AugmentedClassifier(Thin(), group).fit(thin, np.arange(n) % 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.n_copies_ == 2 * n
    assert peak < 200 * 2**20  # dense copies would take 15 GiB


class Thin(Recorder):
    def fit(self, X, y, sample_weight=None):
        assert sparse.issparse(X)
        self.classes_ = np.unique(y)
        return self


def test_frames_keep_names_and_unlisted_groups_one_image_per_epoch() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, index=["ann", "bob"])
    (block, _, _), *_ = augmented_blocks(frame, ["x", "y"], swap(2, 0, 1), shuffle=False)
    assert block.columns.tolist() == ["a", "b"]
    assert block.index.tolist() == ["ann", "bob", "ann", "bob"]
    rows, _, weights = collected(
        np.eye(4), [0, 1, 2, 3], groups.set_permutations(4), random_state=0
    )
    assert rows.sum() == weights.sum() == 4
    with pytest.raises(InvalidInputError, match="2 labels for 4 rows"):
        augmented_blocks(np.eye(4), [0, 1], swap(4, 0, 1))


@pytest.mark.claim("22.19")
def test_blocks_are_streamed_where_copies_would_be_too_large() -> None:
    X, y = DIGITS_X[:300], DIGITS_Y[:300]
    turns = groups.image_rotations((8, 8))
    base = SGDClassifier(random_state=0)
    streamed = AugmentedClassifier(base, turns, max_bytes=X.nbytes, epochs=2, random_state=1)
    streamed.fit(X, y)
    by_hand = SGDClassifier(random_state=0)
    for rows, labels, _ in augmented_blocks(X, y, turns, epochs=2, random_state=1):
        by_hand.partial_fit(rows, labels, classes=np.arange(10))
    np.testing.assert_array_equal(streamed.estimator_.coef_, by_hand.coef_)
    assert streamed.n_copies_ == 1200
    whole = AugmentedClassifier(base, turns).fit(X, y)  # 512 MiB are enough for these
    np.testing.assert_array_equal(
        whole.estimator_.coef_,
        SGDClassifier(random_state=0).fit(*augmented_sample(X, y, turns, distinct=False)[:2]).coef_,
    )
    shared = AugmentedClassifier(base, turns, weighting="points", blocks="always", random_state=1)
    by_hand = SGDClassifier(random_state=0)
    for rows, labels, weights in augmented_blocks(X, y, turns, random_state=1):
        by_hand.partial_fit(rows, labels, np.arange(10), weights)
    np.testing.assert_array_equal(shared.fit(X, y).estimator_.coef_, by_hand.coef_)


@pytest.mark.claim("22.19")
def test_some_copies_of_every_row_where_nothing_else_fits() -> None:
    X, y = DIGITS_X[:200], DIGITS_Y[:200]
    turns = groups.image_rotations((8, 8))
    model = AugmentedClassifier(KNeighborsClassifier(1), turns, max_bytes=2 * X.nbytes)
    with pytest.warns(AssumptionWarning, match="2 random copies of each row are used"):
        model.set_params(random_state=0).fit(X, y)
    assert model.n_copies_ == 400
    seen = model.estimator_._fit_X
    images = np.moveaxis(turns.apply(X), 0, 1)
    by_row = [{image.tobytes() for image in row} for row in images]
    held = Counter(i for row in seen for i in range(200) if row.tobytes() in by_row[i])
    assert min(held.values()) >= 2  # two different copies of each; equal orbits count together
    assert len({row.tobytes() for row in seen}) == 400
    with pytest.raises(InvalidInputError, match='blocks="always" needs partial_fit'):
        model.set_params(blocks="always").fit(X, y)
    ridge = AugmentedRegressor(SGDRegressor(random_state=0), turns, blocks="always", random_state=0)
    assert ridge.fit(X / 16, y.astype(float)).n_copies_ == 800
