"""People's rows in the wrappers: names, missing values, sparse rows, images, codings, weights."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.invariance import (
    AugmentedClassifier,
    AugmentedRegressor,
    CanonicalClassifier,
    ErmInvClassifier,
    OrbitKernelClassifier,
    OrbitVoteClassifier,
    augmented_sample,
    check_symmetry,
    groups,
    symmetry_advisor,
)
from counterplay.invariance.lab import MatrixGroup, SymmetricGroup, check_sample_invariant

SWAP = groups.column_permutations(3, [[0], [1]])  # the first two columns are interchangeable
TREE = DecisionTreeClassifier(random_state=0)
WRAPPERS = {
    "augmented": lambda base, group: AugmentedClassifier(base, group),
    "look-up": lambda base, group: ErmInvClassifier(base, group, on_conflict="majority"),
    "vote": lambda base, group: OrbitVoteClassifier(base, group),
    "canonical": lambda base, group: CanonicalClassifier(base, group, form="smallest"),
}
every_wrapper = pytest.mark.parametrize("name", WRAPPERS)


def eyes(n: int = 60, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Measurements of two eyes and an age; the label is a symmetric function of the eyes."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["left", "right", "age"])
    frame.index = [f"patient {i}" for i in range(n)]
    return frame, (frame["left"] + frame["right"] > frame["age"]).to_numpy().astype(int)


class Witness(ClassifierMixin, BaseEstimator):
    """Says the commonest class, and remembers what it was shown."""

    shown: list[object] = []  # noqa: RUF012  shared with the clones on purpose

    def fit(self, X, y):
        Witness.shown.append(X)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        Witness.shown.append(X)
        return np.repeat(self.classes_[:1], len(X))


@every_wrapper
def test_columns_are_matched_by_name_and_reach_the_base(name: str) -> None:
    X, y = eyes()
    scale = ColumnTransformer([("all", StandardScaler(), ["age", "left", "right"])])  # by name
    model = WRAPPERS[name](make_pipeline(scale, LogisticRegression()), SWAP).fit(X, y)
    assert model.feature_names_in_.tolist() == ["left", "right", "age"]
    test, _ = eyes(seed=1)
    expected = model.predict(test)
    assert 0 < expected.mean() < 1
    np.testing.assert_array_equal(model.predict(test[["age", "right", "left"]]), expected)
    np.testing.assert_array_equal(model.predict(test.to_numpy()), expected)
    plain = WRAPPERS[name](make_pipeline(StandardScaler(), LogisticRegression()), SWAP)
    np.testing.assert_array_equal(
        plain.fit(X.to_numpy(), y).predict_proba(test.to_numpy()).argmax(axis=1), expected
    )
    with pytest.raises(InvalidInputError, match=r"no column 'age'.*nearest: 'Age'"):
        model.predict(test.rename(columns={"age": "Age"}))
    with pytest.raises(InvalidInputError, match="nothing was fitted on: 'city'"):
        model.predict(test.assign(city=1.0))
    with pytest.warns(AssumptionWarning, match="by position"):
        plain.predict(test)


@every_wrapper
@pytest.mark.parametrize("group", [SWAP, groups.sign_flips(3, [[0, 1]]), SymmetricGroup(1)])
def test_missing_values_pass_where_the_base_takes_them(name: str, group) -> None:
    X, y = eyes()
    rows = X.to_numpy(copy=True)
    rows[np.random.default_rng(2).random(rows.shape) < 0.2] = np.nan
    boosted = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5, random_state=0)
    model = WRAPPERS[name](boosted, group).fit(rows, y)
    answers = model.predict(rows)
    assert 0 < answers.mean() < 1
    if name in ("vote", "canonical"):  # constant on orbits, holes included
        for image in group.sample(rows, 6, 0):
            np.testing.assert_array_equal(model.predict(image), answers)
    with pytest.raises(InvalidInputError, match="NaN"):
        WRAPPERS[name](LogisticRegression(), group).fit(rows, y)
    with pytest.raises(InvalidInputError, match=r"missing values \(NaN"):
        WRAPPERS[name](boosted, MatrixGroup([np.eye(3), -np.eye(3)])).fit(rows, y)


def test_holes_are_part_of_the_orbit() -> None:
    nan = np.nan
    rows = np.array([[nan, 2.0, 1.0], [2.0, nan, 1.0], [2.0, 2.0, 1.0], [0.0, 2.0, 1.0]])
    for group in (SWAP, groups.set_permutations(3)):
        keys = group.orbit_key(rows)
        assert keys[0] == keys[1]
        assert len(set(keys)) == 3
    flips = groups.sign_flips(3).orbit_key([[nan, 1.0, 2.0], [nan, -1.0, -2.0], [0.0, 1.0, 2.0]])
    assert flips[0] == flips[1] != flips[2]
    shown = groups.sign_flips(2).canonical([[-nan, 3.0]])
    assert shown.tobytes() == np.array([[nan, -3.0]]).tobytes()


@every_wrapper
@pytest.mark.parametrize("group", [None, groups.sequence_reversal(12), groups.sign_flips(12)])
def test_sparse_rows_give_what_dense_rows_give(name: str, group) -> None:
    rng = np.random.default_rng(3)
    rows = np.where(rng.random((80, 12)) < 0.3, rng.normal(size=(80, 12)).round(1), 0.0)
    y = (np.abs(rows).sum(axis=1) > 2.5).astype(int)
    model = WRAPPERS[name](TREE, group)
    dense = model.fit(rows[:50], y[:50]).predict_proba(rows)
    for kind in (sparse.csr_array, sparse.csc_matrix):
        model.fit(kind(rows[:50]), y[:50])
        np.testing.assert_array_equal(model.predict_proba(kind(rows)), dense)
    if group is not None and name == "augmented":
        copies, labels, weights = augmented_sample(sparse.csr_array(rows), y, group)
        expected = augmented_sample(rows, y, group)
        np.testing.assert_array_equal(copies.toarray(), expected[0])
        np.testing.assert_array_equal(labels, expected[1])
        np.testing.assert_array_equal(weights, expected[2])
        assert weights.sum() == pytest.approx(80)
    dense_rows = r"needs dense rows: X.toarray\(\), or use column permutations"
    with pytest.raises(InvalidInputError, match=dense_rows):
        WRAPPERS[name](TREE, groups.set_permutations(12)).fit(sparse.csr_array(rows), y)
    with pytest.raises(TypeError, match=dense_rows):
        OrbitKernelClassifier(group=group).fit(sparse.csr_array(rows), y)


@every_wrapper
def test_images_keep_their_axes_and_their_type(name: str) -> None:
    rng = np.random.default_rng(4)
    images = rng.random((20, 4, 4, 3)).astype(np.float32)
    y = np.arange(20) % 2
    Witness.shown.clear()
    model = WRAPPERS[name](Witness(), groups.d4((4, 4, 3))).fit(images, y)
    model.predict(rng.random((20, 4, 4, 3)).astype(np.float32))
    assert len(Witness.shown) >= 2
    assert all(seen.shape[1:] == (4, 4, 3) for seen in Witness.shown)
    assert all(seen.dtype == np.float32 for seen in Witness.shown)
    if name == "augmented":  # all eight symmetries of every image, and nothing else
        turned = np.rot90(images[7], axes=(0, 1))
        assert (Witness.shown[0] == turned).all(axis=(1, 2, 3)).any()
    with pytest.raises(InvalidInputError, match="flatten images"):
        WRAPPERS[name](TREE, groups.d4((4, 4, 3))).fit(images, y)
    with pytest.raises(InvalidInputError, match="items of shape"):
        model.predict(images.transpose(0, 3, 1, 2))


def test_sets_of_rows_along_the_axis_of_an_array() -> None:
    bags = np.random.default_rng(5).normal(size=(30, 5, 2))
    y = (bags[:, :, 0].max(axis=1) > 1).astype(int)
    flat = make_pipeline(Flat(), KNeighborsClassifier(1))
    model = CanonicalClassifier(flat, SymmetricGroup(1)).fit(bags, y)
    np.testing.assert_array_equal(model.predict(bags[:, [3, 1, 0, 4, 2]]), y)
    assert model.representatives(bags).shape == bags.shape


class Flat(BaseEstimator):
    """Flatten images for a classifier of tables."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return X.reshape(len(X), -1)


@every_wrapper
def test_labels_in_any_coding(name: str) -> None:
    X, y = eyes()
    expected = WRAPPERS[name](TREE, SWAP).fit(X, y).predict(X)
    codings = {
        "words": np.where(y == 1, "yes", "no"),
        "categories": pd.Categorical(np.where(y == 1, "yes", "no")),
        "nullable": pd.array(y, dtype="Int64"),
        "flags": pd.Series(y == 1, index=X.index),
        "objects": y.astype(object),
    }
    for coding, labels in codings.items():
        found = WRAPPERS[name](TREE, SWAP).fit(X, labels).predict(X)
        wanted = {"words": "yes", "categories": "yes", "flags": True}.get(coding, 1)
        np.testing.assert_array_equal(found == wanted, expected == 1, err_msg=coding)
    with pytest.raises(InvalidInputError, match="another order"):
        WRAPPERS[name](TREE, SWAP).fit(X, pd.Series(y, index=X.index).iloc[::-1])


@every_wrapper
def test_weights_are_repetitions(name: str) -> None:
    X, y = eyes()
    weights = np.random.default_rng(6).integers(0, 4, size=len(y))
    base = LogisticRegression(tol=1e-10, max_iter=1000)
    test, _ = eyes(seed=7)
    model = WRAPPERS[name](base, SWAP)
    weighted = model.fit(X, y, sample_weight=weights).predict_proba(test)
    repeated = model.fit(X.loc[X.index.repeat(weights)], y.repeat(weights)).predict_proba(test)
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)
    with pytest.raises(InvalidInputError, match="KNeighborsClassifier takes no sample_weight"):
        WRAPPERS[name](KNeighborsClassifier(), SWAP).fit(X, y, sample_weight=weights)
    with pytest.raises(InvalidInputError, match="sample_weight"):
        model.fit(X, y, sample_weight=-weights)


def test_the_look_up_counts_weights() -> None:
    X, y = [[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [5.0, 5.0]], [0, 1, 0, 1]
    model = ErmInvClassifier(TREE, groups.sequence_reversal(2), on_conflict="majority")
    assert model.fit(X, y).lookup([[2.0, 1.0]]) == [0]
    assert model.fit(X, y, sample_weight=[1, 3, 1, 1]).lookup([[1.0, 2.0]]) == [1]
    assert model.fit(X, y, sample_weight=[1, 1, 1, 0]).lookup([[5.0, 5.0]]) == [-1]


def test_a_class_that_majorities_remove_keeps_its_column() -> None:
    X, y = [[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [5.0, 5.0]], ["a", "b", "a", "c"]
    model = ErmInvClassifier(TREE, groups.sequence_reversal(2), True, "majority").fit(X, y)
    chances = model.predict_proba([[1.0, 2.0], [5.0, 5.0], [6.0, 5.0]])
    np.testing.assert_array_equal(chances, [[1, 0, 0], [0, 0, 1], [0, 0, 1]])


def test_the_advisor_takes_frames_words_and_images() -> None:
    X, y = eyes(120)
    words = np.where(y == 1, "sick", "healthy")  # in the order of 0 and 1: ties fall alike
    table = symmetry_advisor(TREE, X.to_numpy(), y, SWAP, random_state=0).to_frame()
    frame = symmetry_advisor(TREE, X, words, SWAP, random_state=0).to_frame()
    pd.testing.assert_frame_equal(frame, table)
    images = np.random.default_rng(8).random((40, 3, 3, 1))
    labels = (images.mean(axis=(1, 2, 3)) > 0.5).astype(int)
    model = make_pipeline(Flat(), TREE)
    advice = symmetry_advisor(model, images, labels, groups.d4((3, 3, 1)), random_state=0)
    flat = symmetry_advisor(TREE, images.reshape(40, 9), labels, groups.d4((3, 3)), random_state=0)
    assert advice.rows == flat.rows
    with pytest.raises(InvalidInputError, match="orbits"):
        symmetry_advisor(TREE, np.ones((20, 3)), np.arange(20) % 2, SWAP)


def test_copies_of_a_frame_have_its_names_and_the_rows_they_come_from() -> None:
    X, y = eyes(4)
    copies, labels, weights = augmented_sample(X, np.where(y == 1, "sick", "well"), SWAP)
    assert copies.columns.tolist() == ["left", "right", "age"]
    assert sorted(copies.index) == sorted([*X.index, *X.index])
    for row, label, weight in zip(copies.index, labels, weights):
        assert label == ("sick" if y[X.index.get_loc(row)] else "well")
        assert weight == 0.5
    settled = check_sample_invariant(SWAP, copies, labels)
    np.testing.assert_array_equal(settled, labels)
    assert groups.check_validity(SWAP, copies, labels).n_orbits == 4


@pytest.mark.parametrize(
    "make",
    [
        lambda: groups.sequence_reversal(3 * 10**6, 10**3),
        lambda: groups.sequence_reversal(3 * 10**6 * 10**6),
        lambda: groups.cyclic_shifts(3 * 10**6),
        lambda: groups.cyclic_shifts(10**5),
        lambda: groups.d4((10**6, 10**6)),
        lambda: groups.image_jitter((10**5, 10**5)),
        lambda: groups.sign_flips(10**9),
        lambda: groups.sign_flips(4000, [[j] for j in range(4000)]),
        lambda: groups.column_permutations(10**9, [[0], [1]]),
        lambda: groups.plane_rotations(10**6),
        lambda: groups.graph_relabelling(10**6),
        lambda: groups.cyclic_shifts(2000).apply(np.zeros((1000, 2000))),
        lambda: groups.set_permutations(100).sample(np.zeros((1000, 100)), 10**6),
    ],
)
def test_sizes_are_refused_before_the_work(make) -> None:
    with pytest.raises(InvalidInputError, match=r"too many|at most|more than"):
        make()


def test_interchangeable_columns_by_name() -> None:
    rng = np.random.default_rng(0)
    eyes = pd.DataFrame(rng.normal(size=(120, 3)), columns=["left", "age", "right"])
    sick = np.where(eyes["left"] + eyes["right"] > eyes["age"], "yes", "no")
    by_name = groups.column_permutations(columns=["left", "right"])
    by_number = groups.column_permutations(3, blocks=[[0], [2]])
    assert check_symmetry(eyes, sick, by_name, random_state=0).p_value == (
        check_symmetry(eyes, sick, by_number, random_state=0).p_value
    )
    other = eyes[["right", "left", "age"]]  # another order of columns, the same question
    for order in (eyes, other):
        model = CanonicalClassifier(DecisionTreeClassifier(random_state=0), by_name)
        model.fit(order, sick)
        exchanged = eyes.rename(columns={"left": "right", "right": "left"})
        assert (model.predict(exchanged) == model.predict(eyes)).all()
    advice = symmetry_advisor(
        LogisticRegression(), other, sick, by_name, candidates=["augment", "canonical"],
        check=False, random_state=0,
    )  # fmt: skip
    assert advice.theory.vco == 3  # the mean of both eyes, and the age
    with pytest.raises(InvalidInputError, match="X has no names; pass a frame"):
        CanonicalClassifier(DecisionTreeClassifier(), by_name).fit(eyes.to_numpy(), sick)
    with pytest.raises(InvalidInputError, match="X has no column 'nose'; the group names it"):
        check_symmetry(eyes, sick, groups.column_permutations(columns=["left", "nose"]))
    for bad in ([], ["left", "left"], [["left", "age"], ["right"]], "left", [3]):
        with pytest.raises(InvalidInputError, match="columns must be"):
            groups.column_permutations(columns=bad)
    with pytest.raises(InvalidInputError, match="not both"):
        groups.column_permutations(3, columns=["left", "right"])


def test_targets_of_different_lengths_are_refused() -> None:
    model = AugmentedRegressor(Ridge(), groups.sequence_reversal)
    with pytest.raises(InvalidInputError, match="y must be one number per row"):
        model.fit([[0.0, 1.0], [1.0, 2.0]], [[1.0], [2.0, 3.0]])
