"""Certificates for whole pipelines, per row, id and source."""

from __future__ import annotations

import itertools
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from counterplay.errors import InvalidInputError
from counterplay.poisoning import (
    NotDeterministicWarning,
    PartitionClassifier,
    RowsRejectedWarning,
    Schema,
    row_local,
)
from counterplay.poisoning.certificates import spread_parts, threshold_radius
from counterplay.poisoning.model_rows import ModelRows
from counterplay.tables import hash_blocks

TREE = DecisionTreeClassifier(max_depth=2)
QUIET = pytest.mark.filterwarnings("ignore::counterplay.errors.CounterplayWarning")


def mixed(n: int = 240, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    age = (40 + 8 * y + rng.normal(size=n) * 6).round(1)
    age[::17] = np.nan
    frame = pd.DataFrame(
        {
            "age": age,
            "city": pd.Categorical(np.where(rng.random(n) < 0.2 + 0.5 * y, "Bonn", "Ulm")),
            "visits": rng.integers(0, 5, size=n),
        }
    )
    return frame, np.where(y == 1, "yes", "no")


def pipeline():
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    return make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
            (numbers, make_column_selector(dtype_include="number")),
        ),
        LogisticRegression(),
    )


@pytest.mark.claim("21.04")
@pytest.mark.parametrize("through_csv", [False, True])
def test_one_odd_cell_is_one_rejected_row_and_no_vote_changes(through_csv: bool, tmp_path) -> None:
    X, y = mixed()
    guard = PartitionClassifier(pipeline(), 9).fit(X[:180], y[:180])
    before = guard.votes(X[180:])
    odd = X[:1].astype(object)
    odd.iloc[0, 0] = "39 years"
    more = pd.concat([X[:180], odd])
    if through_csv:
        more.to_csv(tmp_path / "rows.csv", index=False)
        more = pd.read_csv(tmp_path / "rows.csv")
        assert not pd.api.types.is_numeric_dtype(more["age"])  # read as text
    again = clone(guard).set_params(schema=guard.schema_)
    with pytest.warns(RowsRejectedWarning, match="column 'age': '39 years'"):
        again.fit(more, np.append(y[:180], "yes"))
    assert again.rows_rejected_ == 1
    assert np.array_equal(again.votes(X[180:]), before)


@pytest.mark.claim("21.05")
def test_texts_with_the_vectoriser_inside() -> None:
    rng = np.random.default_rng(0)
    words = {
        0: ["meet", "lunch", "home", "today", "thanks"],
        1: ["win", "free", "prize", "cash", "urgent"],
    }
    y = rng.integers(2, size=200)
    texts = [" ".join(rng.choice(words[k], 4)) + f" {i % 7}" for i, k in enumerate(y)]
    guard = PartitionClassifier(make_pipeline(TfidfVectorizer(), KNeighborsClassifier(1)), 9)
    guard.fit(texts[:150], y[:150])
    first, radius = guard.votes(texts[150:]), guard.certify(texts[150:])
    assert guard.score(texts[150:], y[150:]) > 0.9
    again = clone(guard).fit([*texts[:150], "win lunch cash home"], np.append(y[:150], 1))
    assert (again.partition_sizes_ != guard.partition_sizes_).sum() == 1
    assert (again.votes(texts[150:]) != first).any(axis=1).sum() <= 1
    flipped = again.predict(texts[150:]) != guard.predict(texts[150:])
    assert not (flipped & (radius >= 1)).any()


@QUIET
@pytest.mark.claim("21.06")
def test_any_container() -> None:
    X, y = mixed()
    numbers = X[["age", "visits"]].fillna(40.0)
    images = np.random.default_rng(0).random((240, 4, 4, 1)).astype(np.float32)
    images[y == "yes"] += 1
    flat = FunctionTransformer(lambda rows: rows.reshape(len(rows), -1))
    cases = {
        "frame": (X, pipeline()),
        "nullable": (X.convert_dtypes(), pipeline()),
        "arrow": (X.convert_dtypes(dtype_backend="pyarrow"), pipeline()),
        "sparse": (sparse.csr_array(numbers.to_numpy(float)), KNeighborsClassifier(3)),
        "texts": ([f"{a} {b}" for a, b in zip(y, X.visits)],
                  make_pipeline(HashingVectorizer(), KNeighborsClassifier(1))),
        "images": (images, make_pipeline(flat, KNeighborsClassifier(1))),
        "names": (numbers, KNeighborsClassifier(3)),
    }  # fmt: skip
    for name, (rows, base) in cases.items():
        guard = PartitionClassifier(base, 5).fit(rows, y)
        assert guard.score(rows, y) > 0.6, name
        assert guard.certify(rows).shape == (240,), name
    scores = cross_val_score(
        PartitionClassifier(pipeline(), 5),
        X, y, cv=3,
    )  # fmt: skip
    assert scores.mean() > 0.6


def small(seed: int, n: int = 12):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(n, 1)).astype(float)
    return X, (X[:, 0] >= 2).astype(int), rng.integers(0, 6, size=n)


@pytest.mark.claim("21.09")
@pytest.mark.parametrize("k", [3, 4, 5])
def test_threshold_radii_equal_brute_force(k: int) -> None:
    for row in itertools.product((-1, 0, 1), repeat=k):
        for least in range(1, k + 1):
            wins = sum(v == 1 for v in row) >= least
            radius = int(threshold_radius(np.array(row)[:, None], 1, least)[0])
            for size in range(1, k + 1):
                flips = any(
                    (sum(v == 1 for i, v in enumerate(row) if i not in chosen)
                     + (0 if wins else size) >= least) != wins
                    for chosen in itertools.combinations(range(k), size)
                )  # fmt: skip
                assert flips == (radius < size)


@pytest.mark.claim("21.09")
def test_threshold_radii_of_spread_blocks_equal_brute_force() -> None:
    design = spread_parts(2, 2)
    for row in itertools.product((-1, 0, 1), repeat=4):
        for least in range(1, 5):
            wins = sum(v == 1 for v in row) >= least
            radius = int(threshold_radius(np.array(row)[:, None], 1, least, design)[0])
            for size in range(1, 5):
                flips = False
                for parts in itertools.combinations(range(4), size):
                    hit = set(design[list(parts)].ravel().tolist())
                    left = sum(v == 1 for i, v in enumerate(row) if i not in hit)
                    flips |= (left + (0 if wins else len(hit)) >= least) != wins
                assert not flips or radius < size
                assert flips or radius >= size


@pytest.mark.claim("21.09")
def test_a_threshold_survives_its_round_trip_and_needs_classes() -> None:
    import math

    assert all(
        math.ceil(least / k * k - 1e-9) == least for k in range(1, 400) for least in range(1, k + 1)
    )
    X, y, _ = small(0, 40)
    with pytest.raises(InvalidInputError, match="needs classes="):
        PartitionClassifier(None, 5, vote_threshold={1: 0.4}).fit(X, y)
    guard = PartitionClassifier(None, 5, classes=(0, 1), vote_threshold={1: 0.4})
    with pytest.warns(RowsRejectedWarning, match="column 'y': 2"):
        guard.fit(X, np.append(y[:-1], 2))
    for bad in ({1: 0.0}, {1: 1.5}, {2: 0.5}, {0: 0.5, 1: 0.5}):
        with pytest.raises(InvalidInputError, match="vote threshold"):
            PartitionClassifier(None, 5, classes=(0, 1), vote_threshold=bad).fit(X, y)


@QUIET
@pytest.mark.claim("21.10")
def test_a_source_with_many_rows_changes_one_block() -> None:
    rng = np.random.default_rng(0)
    X, owners = rng.normal(size=(300, 2)), rng.integers(100, size=300)
    y = (X[:, 0] > 0).astype(int)
    guard = PartitionClassifier(TREE, 11, check=False).fit(X, y, sources=owners)
    flood = rng.normal(size=(10_000, 2))
    again = clone(guard).fit(
        np.vstack([X, flood]), np.append(y, np.ones(10_000, int)),
        sources=np.append(owners, np.full(10_000, 777)),
    )  # fmt: skip
    assert (again.votes(X) != guard.votes(X)).any(axis=1).sum() == 1
    assert guard.unit_ == "sources"


@QUIET
@pytest.mark.claim("21.11")
def test_the_cap_of_one_source_depends_on_its_rows_alone() -> None:
    rng = np.random.default_rng(1)
    X, owners = rng.normal(size=(60, 1)), np.repeat(["a", "b", "c"], 20)
    y = (X[:, 0] > 0).astype(int)
    guard = PartitionClassifier(TREE, 3, rows_per_source=5, check=False)

    def kept(rows, who):
        model = clone(guard).fit(rows, (rows[:, 0] > 0).astype(int), sources=who)
        kept: dict[bytes, set[bytes]] = {}
        blocks = ModelRows(model._parts, model._dealer, None)
        for block in range(3):
            held = blocks[block]
            for owner, mark in zip(held.owners, held.marks):
                kept.setdefault(owner.tobytes(), set()).add(mark.tobytes())
        return kept

    first = kept(X, owners)
    more = kept(np.vstack([X, rng.normal(size=(30, 1))]), np.append(owners, ["a"] * 30))
    changed = [name for name in first if first[name] != more[name]]
    assert len(changed) <= 1
    assert all(len(rows) == 5 for rows in first.values())
    order = rng.permutation(60)
    assert kept(X[order], owners[order]) == first
    assert y.sum() > 0


@QUIET
@pytest.mark.claim("21.12")
def test_unknown_sources() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(200, 2)), np.arange(200) % 2
    owners = np.array([f"u{i % 40}" for i in range(200)], dtype=object)
    anonymous = rng.normal(size=(1000, 2))

    def touched(rule: str, n: int) -> int:
        guard = PartitionClassifier(TREE, 11, unknown_source=rule, check=False)
        first = guard.fit(X, y, sources=owners).partition_sizes_
        second = clone(guard).fit(
            np.vstack([X, anonymous[:n]]), np.append(y, np.arange(n) % 2),
            sources=np.append(owners, [None] * n),
        )  # fmt: skip
        return int((first != second.partition_sizes_).sum())

    assert touched("pool", 1000) == 1
    assert touched("row", 3) <= 3
    assert touched("drop", 1000) == 0


@QUIET
@pytest.mark.claim("21.13")
def test_split_sources_use_their_slots_and_cost_them() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 2))
    owners = np.where(np.arange(400) < 200, "partner", "u")
    plain = PartitionClassifier(TREE, 31, check=False).fit(X, X[:, 0] > 0, sources=owners)
    guard = PartitionClassifier(TREE, 31, split={"partner": 8}, check=False)
    guard.fit(X, X[:, 0] > 0, sources=owners)
    assert (plain.partition_sizes_ > 0).sum() <= 2
    assert 4 <= (guard.partition_sizes_ > 0).sum() <= 9
    assert "'partner' costs 8 blocks" in guard.summary()


@pytest.mark.claim("21.20")
def test_all_blocks_failing_is_one_error_with_the_first_message() -> None:
    X, y = np.random.default_rng(0).normal(size=(40, 1)), np.arange(40) % 2
    with pytest.raises(InvalidInputError, match="first: RuntimeError: no"):
        PartitionClassifier(Broken(), 3).fit(X, y)


class Broken(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        raise RuntimeError("no")


@QUIET
@pytest.mark.claim("21.24")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rows_per_source": 4},
        {"committee": 3},
        {"committee": 2, "rows_per_source": 3},
        {"spread": 2},
    ],
)
def test_fifty_random_updates_equal_a_fresh_fit(settings) -> None:
    rng = np.random.default_rng(4)
    X = rng.integers(0, 9, size=(400, 2)).astype(float)
    y, owners = (X[:, 0] > 4).astype(int), rng.integers(40, size=400)
    guard = PartitionClassifier(TREE, 15, check=False, schema=Schema.infer(X), **settings)
    guard.fit(X[:200], y[:200], sources=owners[:200])
    keep, spare = list(range(200)), list(range(200, 400))
    labels = y.copy()
    for step in range(50):
        kind = rng.integers(3)
        if kind == 0 and len(spare) > 3:
            new, spare = spare[:3], spare[3:]
            done = guard.update(X[new], labels[new], sources=owners[new])
            assert done.rows_added == 3
            keep += new
        elif kind == 1:
            gone = int(owners[keep[0]])
            done = guard.update(remove_sources=[gone])
            assert done.rows_removed == sum(owners[i] == gone for i in keep)
            keep = [i for i in keep if owners[i] != gone]
        else:  # a row gets another label; equal rows of other sources may lose theirs
            i = keep[int(rng.integers(len(keep)))]
            guard.update(remove_sources=[int(owners[i])])
            mine = [j for j in keep if owners[j] == owners[i]]
            labels[i] = 1 - labels[i]
            guard.update(X[mine], labels[mine], sources=owners[mine])
        if step % 10 == 9:
            fresh = clone(guard).fit(X[keep], labels[keep], sources=owners[keep])
            assert np.array_equal(fresh.votes(X), guard.votes(X))
            assert np.array_equal(fresh.certify(X), guard.certify(X))


@QUIET
@pytest.mark.claim("21.24")
def test_an_update_refits_the_blocks_it_touches_and_no_other() -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(500, 3))
    y = (X[:, 0] > 0).astype(int)
    guard = PartitionClassifier(TREE, 50, check=False).fit(X[:400], y[:400])
    block = hash_blocks(X, 50, schema=guard.schema_).block
    added = guard.update(X[400:430], y[400:430])
    assert added.blocks_refitted == len(set(block[400:430]))
    removed = guard.update(remove=X[:30])
    assert (removed.rows_removed, removed.blocks_refitted) == (30, len(set(block[:30])))
    before = [id(model) for model in guard.models_]
    relabelled = guard.update(X[40:50], 1 - y[40:50], remove=(X[40:50], y[40:50]))
    assert relabelled.blocks_refitted == len(set(block[40:50]))
    same = [a == id(model) for a, model in zip(before, guard.models_)]
    assert sum(same) == 50 - relabelled.blocks_refitted
    labels = np.r_[y[30:40], 1 - y[40:50], y[50:430]]
    fresh = clone(guard).fit(X[30:430], labels)
    assert np.array_equal(fresh.votes(X), guard.votes(X))


@QUIET
@pytest.mark.claim("21.24")
def test_rows_are_removed_by_content_one_copy_each() -> None:
    X = np.array([[1.0], [1.0], [2.0], [3.0], [3.0]])
    y = np.array([0, 0, 1, 0, 1])
    guard = PartitionClassifier(None, 3, check=False).fit(X, y)
    assert guard.update(remove=X[:1]).rows_removed == 1
    assert guard.update(remove=X[2:3], all_copies=True).rows_removed == 1
    with pytest.raises(InvalidInputError, match="different labels"):
        guard.update(remove=X[3:4])
    assert guard.update(remove=(X[3:4], [1])).rows_removed == 1
    with pytest.raises(InvalidInputError, match="not among"):
        guard.update(remove=[[7.0]])
    with pytest.raises(InvalidInputError, match="was not fitted by sources"):
        guard.update(X, y, sources=[1] * 5)


@pytest.mark.claim("21.01")
def test_source_ids_are_never_rounded() -> None:
    rng = np.random.default_rng(5)
    ids = (1 << 60) + np.arange(1000)
    X = rng.normal(size=(1000, 1))
    guard = PartitionClassifier(TREE, 5, check=False).fit(X, X[:, 0] > 0, sources=ids)
    assert guard.update(remove_sources=[int(ids[7])]).rows_removed == 1
    with pytest.raises(InvalidInputError, match="read them as text"):
        PartitionClassifier(TREE, 5).fit(X, X[:, 0] > 0, sources=ids.astype(float))


@pytest.mark.claim("21.27")
def test_an_estimator_that_is_not_deterministic_is_named() -> None:
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    with pytest.warns(NotDeterministicWarning, match="twice"):
        PartitionClassifier(Moody(), 3).fit(X, y)
    with pytest.raises(InvalidInputError, match="warm_start"):
        PartitionClassifier(LogisticRegression(warm_start=True), 3).fit(X, y)


class Moody(ClassifierMixin, BaseEstimator):
    """Answers by a coin of its own."""

    def fit(self, X, y):
        self.classes_, self.coin_ = np.unique(y), np.random.default_rng()
        return self

    def predict(self, X):
        return self.classes_[self.coin_.integers(2, size=len(X))]


@pytest.mark.claim("21.34")
def test_row_local() -> None:
    X = np.random.default_rng(0).random((60, 4))
    texts = ["win cash now", "see you later", "free prize"] * 9
    assert not row_local(StandardScaler().fit_transform, X)
    assert not row_local(PCA().fit_transform, X)
    assert not row_local(TfidfVectorizer().fit_transform, texts)
    assert row_local(np.log1p, X)
    assert row_local(HashingVectorizer().transform, texts)


@pytest.mark.claim("21.36")
@pytest.mark.claim("21.39")
def test_the_key_is_kept_and_shown_nowhere() -> None:
    X, y, owners = small(0, 40)
    guard = PartitionClassifier(None, 5, key="hush hush", classes=(0, 1))
    guard.fit(X, y, sources=owners)
    texts = [repr(guard), guard.summary(), guard._repr_html_(), str(guard)]
    assert not any("hush" in text for text in texts)
    again = pickle.loads(pickle.dumps(guard))
    assert np.array_equal(again.votes(X), guard.votes(X))
    assert clone(guard).key == "hush hush"
    other = clone(guard).set_params(key="other").fit(X, y, sources=owners)
    assert not np.array_equal(other.partition_sizes_, guard.partition_sizes_)


@QUIET
@pytest.mark.claim("21.39")
def test_searches_copies_and_changed_parameters_keep_key_and_schema() -> None:
    X, y = mixed(120)
    schema = Schema.infer(X)
    guard = PartitionClassifier(pipeline(), 3, key=b"hush", schema=schema, check=False)
    search = GridSearchCV(guard, {"n_partitions": [3, 5]}, cv=2).fit(X, y)
    best = search.best_estimator_
    assert (best.key, best.schema_, best.schema_margin_) == (b"hush", schema, None)
    other = clone(best).set_params(committee=1, n_partitions=5)
    assert (other.key, other.schema) == (b"hush", schema)
    again = pickle.loads(pickle.dumps(best))
    assert np.array_equal(again.votes(X), best.votes(X))
    assert again.update(X[:1], y[:1]).blocks_refitted == 1


@QUIET
@pytest.mark.claim("21.37")
def test_rows_are_held_once_beside_the_users() -> None:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60_000, 20))
    y = (X[:, 0] > 0).astype(int)
    base = GaussianNB()
    PartitionClassifier(base, 100).fit(X[:500], y[:500])  # imports
    tracemalloc.start()
    try:
        guard = PartitionClassifier(base, 100).fit(X, y)
        now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(guard.models_) == 100
    assert now < 1.6 * X.nbytes
    assert peak < 2 * X.nbytes + 40e6  # one piece of 20,000 rows is encoded at a time


def test_the_schema_margin_caps_every_radius() -> None:
    cells = [f"word {i}" if i % 7 > 3 else i for i in range(140)]
    frame = pd.DataFrame({"a": cells})
    y = np.arange(140) % 2
    guard = PartitionClassifier(
        make_pipeline(FunctionTransformer(lambda rows: np.zeros((len(rows), 1))), TREE), 9
    )
    with pytest.warns(RowsRejectedWarning):
        guard.fit(frame, y)
    assert guard.schema_margin_ == 10
    assert guard.certify(frame[:4]).max() <= 9


@QUIET
@pytest.mark.claim("21.12")
@pytest.mark.parametrize("rule", ["pool", "drop"])
def test_rows_without_a_source_have_the_say_of_one_source_or_none(rule: str) -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, 200)
    frame = pd.DataFrame({"age": age.astype(object), "more": rng.normal(size=200)})
    y = np.where(age > 50, "old", "young")
    owners = np.array([None] * 120 + [f"u{i}" for i in range(80)], dtype=object)
    guard = PartitionClassifier(pipeline(), 15, classes=("old", "young"), unknown_source=rule)
    guard.fit(frame, y, sources=owners)
    radius, answers = guard.certify(frame[120:]), guard.predict(frame[120:])
    assert radius.max() >= 3
    odd = frame.copy()
    odd.loc[:119, "age"] = "x"  # all that the one who sends no source can do to a column
    again = clone(guard).fit(odd, y, sources=owners)
    assert again.schema_ == guard.schema_
    assert (again.predict(frame[120:]) == answers)[radius >= 1].all()


@QUIET
@pytest.mark.claim("21.21")
def test_no_certified_prediction_becomes_an_error() -> None:
    rng = np.random.default_rng(0)
    words = rng.choice(list("abcdefghijklmnopqrst"), 300).astype(object)
    words[0] = "rare"  # one block knows this word, the others cannot predict it
    frame = pd.DataFrame({"word": words, "size": rng.normal(size=300)})
    y = np.where(rng.random(300) < 0.3, "spam", "ham")
    encode = make_column_transformer((OneHotEncoder(), ["word"]), remainder="passthrough")
    for spread in (1, 2):
        guard = PartitionClassifier(
            make_pipeline(encode, TREE), 15, classes=("ham", "spam"), spread=spread,
            vote_threshold={"spam": 0.5}, check=False,
        ).fit(frame, y)  # fmt: skip
        row = frame[:1]
        assert (guard.votes(row) >= 0).sum() == spread
        assert guard.predict(row).tolist() == ["ham"]
        assert guard.certify(row).tolist() == [0]
        metrics = guard.certified_metrics(row, ["ham"], positive="ham", budgets=[0, 1])
        assert (metrics.at("recall", 0), metrics.at("recall", 1)) == (1.0, 0.0)
        with pytest.raises(InvalidInputError, match="no block can predict"):
            clone(guard).fit(frame[1:], y[1:]).predict(row)


@pytest.mark.parametrize("odd", [None, float("nan"), 7, ["a", "list"]])
def test_one_row_that_is_no_text_is_left_out(odd: object) -> None:
    texts = [("win cash", "see you")[i % 2] + f" {i}" for i in range(60)]
    y = np.where(np.arange(60) % 2, "ham", "spam")
    base = make_pipeline(HashingVectorizer(n_features=64), DecisionTreeClassifier())
    guard = PartitionClassifier(base, 7, classes=("ham", "spam")).fit(texts, y)
    with pytest.warns(RowsRejectedWarning, match="1 of 61 rows"):
        again = clone(guard).fit([*texts, odd], [*y, "ham"])
    assert again.rows_rejected_ == 1
    assert np.array_equal(again.votes(texts), guard.votes(texts))
    if not isinstance(odd, list):
        with pytest.warns(RowsRejectedWarning):
            by_series = clone(guard).fit(pd.Series([*texts, odd]), [*y, "ham"])
        assert np.array_equal(by_series.votes(texts), guard.votes(texts))


def test_one_name_is_no_list_of_names() -> None:
    X, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    guard = PartitionClassifier(TREE, 3, check=False).fit(X, y, sources=np.arange(20))
    for one in (7, "7"):
        with pytest.raises(InvalidInputError, match="remove_sources must be a list, got"):
            guard.update(remove_sources=one)
    guard = PartitionClassifier(TREE, 3, check=False).fit(X, y, row_ids=np.arange(20))
    with pytest.raises(InvalidInputError, match="remove_ids must be a list, got 7"):
        guard.update(remove_ids=7)
