"""Meta-estimators, the advisor, and real data with exact symmetries."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from counterplay.invariance import (
    AugmentedClassifier,
    CanonicalClassifier,
    ErmInvClassifier,
    OrbitKernelClassifier,
    OrbitVoteClassifier,
    groups,
)
from counterplay.invariance.lab import ConflictingOrbitLabelsError

WRAPPERS = {
    "erm-inv": ErmInvClassifier(
        LogisticRegression(), groups.sequence_reversal, on_conflict="majority"
    ),
    "augmented": AugmentedClassifier(LogisticRegression(), groups.sequence_reversal),
    "vote": OrbitVoteClassifier(LogisticRegression(), groups.sequence_reversal),
    "canonical": CanonicalClassifier(LogisticRegression(), groups.sequence_reversal),
    "kernel": OrbitKernelClassifier(group=groups.sequence_reversal),
}


@pytest.mark.claim("11.22")
@pytest.mark.parametrize("name", WRAPPERS)
def test_scikit_learn_contract(name: str) -> None:
    results = check_estimator(WRAPPERS[name], on_fail=None)
    failed = [r["check_name"] for r in results if r["status"] == "failed"]
    # A reversal makes some checks' labels depend on the direction, so only accuracy may suffer.
    assert set(failed) <= {"check_classifiers_train", "check_classifiers_classes"}, failed
    plain = clone(WRAPPERS[name]).set_params(group=None)
    assert not [r for r in check_estimator(plain, on_fail=None) if r["status"] == "failed"]


@pytest.mark.claim("11.22")
def test_frames_pickles_and_many_classes() -> None:
    X, y = load_digits(return_X_y=True)
    frame = pd.DataFrame(X[:300]).add_prefix("pixel")
    for model in (
        ErmInvClassifier(KNeighborsClassifier(1), groups.d4((8, 8))),
        AugmentedClassifier(KNeighborsClassifier(1), groups.d4((8, 8))),
        OrbitVoteClassifier(KNeighborsClassifier(1), groups.d4((8, 8))),
    ):
        fitted = clone(model).fit(frame, y[:300])
        assert list(fitted.classes_) == list(range(10))
        assert fitted.predict_proba(frame).shape == (300, 10)
        twin = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(twin.predict(frame), fitted.predict(frame))


@pytest.mark.claim("11.14")
def test_lookup_is_perfect_on_copies_and_equals_the_base_elsewhere() -> None:
    rng = np.random.default_rng(0)
    group = groups.d4((3, 3))
    X = rng.integers(0, 3, size=(60, 9)).astype(float)
    y = (X.sum(axis=1) > 9).astype(int)
    base = DecisionTreeClassifier(max_depth=1, random_state=0)
    model = ErmInvClassifier(base, group).fit(X, y)
    for image in group.apply(X):
        np.testing.assert_array_equal(model.predict(image), y)
    test = rng.integers(0, 3, size=(400, 9)).astype(float)
    known = set(group.orbit_key(X))
    fresh = np.array([key not in known for key in group.orbit_key(test)])
    np.testing.assert_array_equal(
        model.predict(test)[fresh], clone(base).fit(X, y).predict(test)[fresh]
    )
    with pytest.raises(ConflictingOrbitLabelsError):
        ErmInvClassifier(base, group).fit(np.vstack([X, X[:1]]), np.append(y, 1 - y[0]))


@pytest.mark.claim("11.14")
def test_prediction_of_many_points_is_fast() -> None:
    """100,000 points with eight transformations: well below the cost of applying them all."""
    rng = np.random.default_rng(0)
    group = groups.d4((8, 8))
    X = rng.integers(0, 17, size=(1000, 64)).astype(float)
    from sklearn.dummy import DummyClassifier

    model = ErmInvClassifier(DummyClassifier(), group).fit(X, rng.integers(0, 2, size=1000))
    model.predict(X)  # compile
    test = rng.integers(0, 17, size=(100_000, 64)).astype(float)
    start = time.process_time()  # processor time: other programs do not count
    model.predict(test)
    ours = time.process_time() - start
    assert ours < 1.0
    start = time.process_time()
    for chunk in np.array_split(test, 20):  # the plain way: sort the bytes of all images
        images = [np.ascontiguousarray(image) for image in group.apply(chunk)]
        [min(image[i].tobytes() for image in images) for i in range(len(chunk))]
    plain = time.process_time() - start
    assert ours < plain


def test_weighting_by_points_gives_every_point_weight_one() -> None:
    seen = {}

    class Spy(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight=None):
            seen["weight"] = sample_weight.sum()
            return super().fit(X, y, sample_weight)

    X = np.array([[1.0, 1.0], [1.0, 2.0], [3.0, 1.0]])
    AugmentedClassifier(Spy(), groups.sequence_reversal(2), weighting="points").fit(X, [0, 1, 0])
    assert seen["weight"] == pytest.approx(3.0)


@pytest.mark.parametrize("voting", ["soft", "hard"])
@pytest.mark.parametrize("random_state", [None, 5, np.random.default_rng(1)])
def test_i6_orbit_vote_is_constant_on_orbits_that_cannot_be_listed(voting, random_state) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = (X[:, 0] > X[:, 1]).astype(int)  # not invariant: a tree alone is far from constant
    tree = DecisionTreeClassifier(random_state=0)
    model = OrbitVoteClassifier(tree, groups.set_permutations(6), voting, random_state=random_state)
    model.fit(X, y)
    first = model.predict(X)
    assert 0 < first.mean() < 1
    assert (tree.fit(X, y).predict(X[:, ::-1]) != y).mean() > 0.3
    for _ in range(5):
        np.testing.assert_array_equal(model.predict(X[:, rng.permutation(6)]), first)
    graphs = rng.integers(0, 2, size=(60, 5, 5)) * 1.0
    labels = (graphs[:, 0, 1] > 0).astype(int)
    model = OrbitVoteClassifier(tree, groups.graph_relabelling(5), voting, random_state=3)
    model.fit(graphs.reshape(60, -1), labels)
    perm = rng.permutation(5)
    relabelled = graphs[:, perm][:, :, perm].reshape(60, -1)
    np.testing.assert_array_equal(model.predict(relabelled), model.predict(graphs.reshape(60, -1)))


def test_i6_soft_votes_do_not_depend_on_the_order_of_images() -> None:
    X = np.random.default_rng(0).random((200, 12))
    y = np.arange(200) % 2
    forest = RandomForestClassifier(5, max_depth=4, random_state=0)
    model = OrbitVoteClassifier(forest, groups.cyclic_shifts(12)).fit(X, y)
    expected = model.predict_proba(X)
    for step in (1, 5, 7):
        np.testing.assert_array_equal(model.predict_proba(np.roll(X, step, axis=1)), expected)
