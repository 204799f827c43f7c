"""PartitionClassifier: certificates under insertions, failures, odd input, real data."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from counterplay import datasets
from counterplay.errors import InvalidInputError
from counterplay.poisoning import (
    BlockFailureWarning,
    BlockMajorityClassifier,
    IntervalTarget,
    LabelledSet,
    PartitionClassifier,
    attackable_rate,
    choose_n_partitions,
)
from counterplay.poisoning.certificates import (
    partition_radius,
)
from counterplay.poisoning.lab import MaxOpenInterval


def small_problem(seed: int, n: int = 60, classes: int = 3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.3) * (classes > 2)


@pytest.mark.claim("10.34")
def test_no_certified_point_flips_under_any_single_insertion() -> None:
    rng = np.random.default_rng(0)
    X, y = small_problem(1)
    guard = PartitionClassifier(DecisionTreeClassifier(max_depth=2), 9)
    test = rng.normal(size=(80, 2))
    guard.fit(X, y)
    before, safe = guard.predict(test), guard.certify(test) >= 1
    assert 0 < safe.sum() < len(test)
    flipped = np.zeros(len(test), dtype=bool)
    pool = rng.normal(size=(12, 2))
    for row in pool:
        for label in (0, 1, 2, -1):  # clean or not, also a label nobody has seen
            again = clone(guard).fit(np.vstack([X, row]), np.append(y, label))
            flipped |= again.predict(test) != before
    assert not (flipped & safe).any()
    for i in range(0, len(X), 12):  # removals, too
        again = clone(guard).fit(np.delete(X, i, axis=0), np.delete(y, i))
        assert np.array_equal(again.predict(test)[safe], before[safe])


@pytest.mark.claim("21.20")
def test_one_row_of_another_class_does_not_stop_a_certified_vote() -> None:
    """Calibration needs two rows of each class: one odd row makes one block fail."""
    X = np.random.default_rng(0).normal(size=(200, 2))
    guard = PartitionClassifier(CalibratedClassifierCV(GaussianNB()), 11)
    guard.fit(X, np.zeros(200, int))
    assert (guard.certify(X) == 5).all()  # 11 votes against a new label that wins ties
    with pytest.warns(BlockFailureWarning, match="1 of 11 blocks"):
        guard.fit(np.vstack([X, [[5.0, 5.0]]]), np.append(np.zeros(200, int), 1))
    assert guard.n_failed_ == 1
    assert (guard.predict(X) == 0).all()
    assert (guard.certify(X) == 4).all()  # 10 votes


class Fragile(ClassifierMixin, BaseEstimator):
    """A nearest neighbour that breaks in one of many ways if it meets the number 99."""

    def __init__(self, error: object = RuntimeError("diverged"), at: str = "fit") -> None:
        self.error = error
        self.at = at

    def fit(self, X, y):
        if self.at == "fit" and (X == 99).any():
            raise self.error
        self.odd_ = self.at == "predict" or (X == 99).any()
        self.model_ = KNeighborsClassifier(1).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        labels = self.model_.predict(X)
        if self.at == "predict" and (X == 99).any():
            raise self.error
        if self.odd_ and self.at == "labels":
            return np.full(len(X), np.nan)
        return labels[:-1] if self.odd_ and self.at == "length" else labels


@pytest.mark.claim("21.20")
@pytest.mark.parametrize(
    ("error", "at"),
    [
        (RuntimeError("diverged"), "fit"),
        (MemoryError("too large"), "fit"),
        (None, "labels"),
        (None, "length"),
    ],
)
@pytest.mark.filterwarnings("ignore::counterplay.poisoning.BlockFailureWarning")
def test_a_base_that_breaks_in_one_block_leaves_the_other_votes(error, at: str) -> None:
    X, y = small_problem(3, n=150)
    base = Fragile(error, at)
    test = np.random.default_rng(4).normal(size=(60, 2))
    before = PartitionClassifier(base, 9).fit(X, y)
    after = PartitionClassifier(base, 9).fit(np.vstack([X, [[99.0, 0.0]]]), np.append(y, 0))
    changed = (before.votes(test) != after.votes(test)).any(axis=1)
    assert changed.sum() == 1
    assert (after.votes(test)[changed] == -1).all()
    safe = before.certify(test) >= 1
    assert safe.any()
    assert np.array_equal(before.predict(test)[safe], after.predict(test)[safe])


@pytest.mark.claim("21.21")
def test_an_odd_test_row_leaves_the_votes_on_other_rows() -> None:
    X, y = small_problem(3, n=150)
    guard = PartitionClassifier(Fragile(at="predict"), 9).fit(X, y)
    test = np.random.default_rng(4).normal(size=(60, 2))
    mixed = np.insert(test, 17, [99.0, 0.0], axis=0)
    assert np.array_equal(np.delete(guard.votes(mixed), 17, axis=1), guard.votes(test))
    assert (guard.certify(mixed)[17], guard.predict_proba(mixed)[17].sum()) == (-1, 1)
    with pytest.raises(InvalidInputError, match="diverged"):  # nobody can predict anything
        guard.predict([[99.0, 0.0]])
    with pytest.raises(InvalidInputError, match="diverged"):  # no block can be fitted
        PartitionClassifier(Fragile(), 3).fit(np.full((30, 2), 99.0) * [1, 0], y[:30])


@pytest.mark.claim("21.20")
@pytest.mark.parametrize("at", ["predict", "length"])
def test_a_block_that_cannot_predict_its_own_rows_has_failed_and_is_not_asked(at: str) -> None:
    X, y = small_problem(3, n=150)
    odd = np.column_stack([np.full(60, 99.0), np.arange(60)])
    rows, labels = np.vstack([X, odd]), np.append(y, np.arange(60) % 2)
    owners = np.append(np.arange(150), np.full(60, 777))  # one source fills one block
    guard = PartitionClassifier(Mute(at), 9, check=False)
    with pytest.warns(BlockFailureWarning, match="1 of 9 blocks could not be fitted and abstain"):
        guard.fit(rows, labels, sources=owners)
    ((block, kind, _),) = guard.failures_
    assert kind == {"predict": "RuntimeError", "length": "ValueError"}[at]
    Mute.asked = 0
    votes = guard.votes(rows[:150])
    assert Mute.asked == 8  # each other block once
    assert np.flatnonzero((votes == -1).all(axis=1)).tolist() == [block]
    one = PartitionClassifier(Mute("predict", least=2), 9, check=False).fit(X, y)
    assert one.n_failed_ == 0  # a model that wants two rows at once is alive


class Mute(ClassifierMixin, BaseEstimator):
    """A nearest neighbour that fits anything, but does not answer after it met the number 99."""

    asked = 0

    def __init__(self, at: str = "predict", least: int = 1) -> None:
        self.at = at
        self.least = least

    def fit(self, X, y):
        self.odd_ = (X == 99).any()
        self.model_ = KNeighborsClassifier(1).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        Mute.asked += 1
        if (self.odd_ and self.at == "predict") or len(X) < self.least:
            raise RuntimeError("no answer")
        return self.model_.predict(X)[1 if self.odd_ else 0 :]


@pytest.mark.claim("21.27")
@pytest.mark.parametrize("random_state", [np.random.RandomState(0), np.random.default_rng(0)])
def test_generators_are_refused_and_refits_are_equal(random_state) -> None:
    X, y = small_problem(5)
    tree = DecisionTreeClassifier(max_features=1, splitter="random")
    with pytest.raises(InvalidInputError, match="None or an integer"):
        PartitionClassifier(tree, 7, random_state=random_state).fit(X, y)
    for seed in (None, 3):
        guard = PartitionClassifier(tree, 7, random_state=seed)
        first = guard.fit(X, y).votes(X)
        assert np.array_equal(first, guard.fit(X, y).votes(X))


@pytest.mark.claim("10.34")
def test_hash_aggregation_certificate_in_the_engine() -> None:
    rng = np.random.default_rng(1)
    X = rng.random(40)
    S = LabelledSet(X, np.zeros(40))
    learner = PartitionClassifier(MaxOpenInterval(), 7).fit(S.X, S.y)
    test = rng.random((60, 1))
    safe = learner.certify(test) >= 1
    pool = np.linspace(0.01, 0.99, 60)
    assert learner.classes_.tolist() == [0, 1]  # the base answers 1 although no row has that label
    for row, label in itertools.product(pool, (0, 1)):
        again = PartitionClassifier(MaxOpenInterval(), 7).fit(
            np.append(X, row), np.append(np.zeros(40, int), label)
        )
        assert np.array_equal(again.predict(test)[safe], learner.predict(test)[safe])
    report = attackable_rate(learner, IntervalTarget(), S, test, budget=1)
    assert np.array_equal(report.certified, safe & (learner.predict(test) == 0))


@pytest.mark.claim("10.39")
def test_finite_aggregation_certificate_is_sound() -> None:
    rng = np.random.default_rng(2)
    X, y = small_problem(3)
    guard = PartitionClassifier(DecisionTreeClassifier(max_depth=2), 5, spread=3).fit(X, y)
    assert len(guard.models_) == 15
    test = rng.normal(size=(60, 2))
    before, safe = guard.predict(test), guard.certify(test) >= 1
    assert 0 < safe.sum() < len(test)
    for row in rng.normal(size=(12, 2)):
        for label in (0, 2):
            again = clone(guard).fit(np.vstack([X, row]), np.append(y, label))
            assert np.array_equal(again.predict(test)[safe], before[safe])


@pytest.mark.claim("10.39")
def test_finite_aggregation_gains_on_digits() -> None:
    # Diverse trees whose votes are split: there the damage of a row is far from its worst case.
    X, y = load_digits(return_X_y=True)
    tree, gains, sharper = DecisionTreeClassifier(random_state=0), [], []
    for split in range(2):
        X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=split)
        plain = PartitionClassifier(tree, 25, key=f"split {split}").fit(X_train, y_train)
        fine = PartitionClassifier(tree, 25, spread=8, key=f"split {split}").fit(X_train, y_train)
        first = plain.certified_accuracy(X_test, y_test)
        second = fine.certified_accuracy(X_test, y_test)
        gains.append([second.at(t) - first.at(t) for t in range(1, 6)])
        radius, loose = fine.certify(X_test), partition_radius(fine.vote(X_test)) // 8
        assert (radius >= loose).all()  # same votes: never below the plain counting
        sharper.append((radius > loose).mean())
    assert min(np.mean(gains, axis=1)) > 0  # full scale: +0.09 at four rows
    assert min(sharper) > 0.1


@pytest.mark.claim("10.40")
@pytest.mark.filterwarnings("ignore:.*blocks are empty")
@pytest.mark.filterwarnings("ignore::counterplay.poisoning.BlockFailureWarning")
def test_any_input_gets_an_answer() -> None:
    rng = np.random.default_rng(4)
    cases = [
        (np.zeros((5, 1)), np.array([0, 1, 0, 1, 1])),  # one point, both labels
        (rng.random((3, 2)) / 1e9, np.array(["a", "b", "c"])),  # fewer rows than blocks
        (np.ones((1, 1)), np.array([7])),
        (np.repeat(rng.random((2, 3)), 50, axis=0), np.repeat([0, 1], 50)),  # two distinct rows
        (load_digits().data[:200] / 16, load_digits().target[:200]),  # scaled to [0, 1]
    ]
    for estimator in (None, KNeighborsClassifier(5), SVC(), LogisticRegression(max_iter=300)):
        for X, y in cases:
            for spread in (1, 2):
                guard = PartitionClassifier(estimator, 51, spread=spread).fit(X, y)
                assert set(guard.predict(X)) <= set(y)
                assert (guard.certify(X) >= 0).all()
                assert np.allclose(guard.predict_proba(X).sum(axis=1), 1)
            majority = BlockMajorityClassifier(estimator, t=1, random_state=0).fit(X, y)
            assert set(majority.predict(X)) <= set(y)


@pytest.mark.claim("10.46")
@pytest.mark.filterwarnings("ignore:.*blocks are empty")
@pytest.mark.parametrize("aggregation", ["plurality", "runoff"])
@pytest.mark.parametrize("spread", [1, 2])
def test_certificates_hold_when_blocks_are_empty(aggregation: str, spread: int) -> None:
    rng, checked = np.random.default_rng(7), 0
    for run in range(5):
        X = rng.integers(0, 6, size=(7, 1)).astype(float)  # fewer different rows than blocks
        y = (X[:, 0] >= 5).astype(int)
        guard = PartitionClassifier(
            None, 8, spread=spread, aggregation=aggregation, key=f"run {run}"
        ).fit(X, y)
        assert guard.n_empty_ > 0
        assert guard.n_empty_ == sum(model is None for model in guard.models_)
        test = np.arange(6.0)[:, None]
        before, radius = guard.predict(test), guard.certify(test)
        changes = list(itertools.product(range(8), (0, 1, 5)))  # two new rows, one new label
        for size in (1, 2):
            for planted in itertools.combinations(changes, size):
                more = np.vstack([X, [[row] for row, _ in planted]])
                again = clone(guard).fit(more, np.append(y, [label for _, label in planted]))
                assert np.array_equal(again.predict(test)[radius >= size], before[radius >= size])
            if spread == 2 or not (radius >= size).any():
                break
            checked += 1
    assert checked > 0 or spread == 2


@pytest.mark.claim("10.46")
def test_no_rule_fills_all_blocks_and_keeps_rows_apart() -> None:
    # Rules for all samples of at least two of three rows, into two blocks that are never empty.
    rows = "abc"
    samples = [frozenset(s) for size in (2, 3) for s in itertools.combinations(rows, size)]

    def fillings(sample: frozenset[str]) -> list[tuple[frozenset[str], frozenset[str]]]:
        members = sorted(sample)
        parts = itertools.chain.from_iterable(
            itertools.combinations(members, size) for size in range(1, len(members))
        )
        return [(frozenset(part), sample - set(part)) for part in parts]

    rules = [dict(zip(samples, choice)) for choice in itertools.product(*map(fillings, samples))]
    assert len(rules) == 2**3 * 6
    for rule in rules:
        moved = [
            sum(rule[small][i] != rule[large][i] for i in (0, 1))
            for small, large in itertools.permutations(samples, 2)
            if small < large and len(large - small) == 1
        ]
        assert max(moved) > 1  # some single row reaches both blocks


@pytest.mark.claim("10.46")
def test_no_block_is_empty_on_scaled_digits() -> None:
    X, y = load_digits(return_X_y=True)
    guard = PartitionClassifier(None, 51).fit(X / 16, y)
    assert guard.n_empty_ == 0
    assert guard.partition_sizes_.min() >= 15
    theirs = np.unique((X / 16).sum(axis=1).astype(int) % 51)  # ART's default hash
    assert 51 - theirs.size >= 30


@pytest.mark.claim("10.40")
def test_row_order_and_copies_do_not_matter() -> None:
    rng = np.random.default_rng(5)
    X, y = small_problem(6)
    order = rng.permutation(len(y))
    test = rng.normal(size=(50, 2))
    guard = PartitionClassifier(DecisionTreeClassifier(), 7)
    first = guard.fit(X, y).votes(test)
    second = clone(guard).fit(X[order], y[order]).votes(test)
    assert np.array_equal(first, second)
    third = clone(guard).set_params(n_jobs=2, backend="threading").fit(X, y).votes(test)
    assert np.array_equal(first, third)
    many = clone(guard).fit(np.vstack([X] + [test[:1]] * 30), np.append(y, [1] * 30))
    assert (many.votes(test) != first).any(axis=1).sum() <= 1  # thirty copies reach one block


@pytest.mark.claim("10.40")
def test_abstention_auto_and_changes() -> None:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    guard = PartitionClassifier(n_partitions=51, min_lead=20).fit(X_train, y_train)
    radius = guard.certify(X_test)
    assert np.array_equal(radius == -1, guard.abstains(X_test))
    kept = guard.predict_or_abstain(X_test)
    assert kept.mask.sum() == (radius == -1).sum() > 0
    sure = ~guard.abstains(X_test)
    assert (guard.predict(X_test)[sure] == y_test[sure]).mean() > guard.score(X_test, y_test)
    assert np.array_equal(guard.certify(X_test, "inserted_or_removed"), radius)
    assert np.array_equal(guard.certify(X_test, "replaced")[sure], radius[sure] // 2)
    auto = PartitionClassifier(n_partitions="auto", budget=5).fit(X_train, y_train)
    few = PartitionClassifier(n_partitions=11).fit(X_train, y_train)
    at = lambda model: model.certified_accuracy(X_test, y_test).at(5)  # noqa: E731  short
    assert at(auto) >= at(few)
    curve = choose_n_partitions(None, X_train, y_train, budget=5)
    assert auto.n_partitions_ == curve.best
    with pytest.raises(InvalidInputError):
        guard.certify(X_test, "renamed")
    with pytest.raises(InvalidInputError):
        PartitionClassifier(n_partitions=0).fit(X_train, y_train)
    search = GridSearchCV(PartitionClassifier(), {"n_partitions": [5, 15]}, cv=2)
    assert search.fit(X_train[:200], y_train[:200]).best_params_


@pytest.mark.skipif(
    not os.path.exists(
        os.path.join(os.environ.get("COUNTERPLAY_DATA", "/nowhere"), "spambase.parquet")
    ),
    reason="COUNTERPLAY_DATA does not name a folder with spambase.parquet",
)
def test_spam_filter_with_a_certificate() -> None:
    X, y = datasets.fetch("spambase", return_X_y=True)
    X = np.log1p(np.asarray(X, dtype=float))
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    guard = PartitionClassifier(DecisionTreeClassifier(max_depth=6), 51).fit(X_train, y_train)
    curve = guard.certified_accuracy(X_test, y_test)
    assert curve.at(0) > 0.88
    assert curve.at(5) > 0.75
