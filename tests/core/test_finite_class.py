"""FiniteClass against plain NumPy on small random matrices."""

import json
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from counterplay.core.finite_class import FiniteClass
from counterplay.errors import InvalidInputError, InvalidStateError

matrices = hnp.arrays(bool, st.tuples(st.integers(1, 8), st.integers(0, 7)))


@given(matrices, st.data())
def test_views_restriction_and_questions(rows: np.ndarray, data: st.DataObject) -> None:
    cls = FiniteClass.from_matrix(rows)
    n, p = rows.shape
    np.testing.assert_array_equal(cls.labels, rows)
    np.testing.assert_array_equal(cls.member_counts, rows.sum(1))
    np.testing.assert_array_equal(cls.point_counts, rows.sum(0))
    assert cls.column_ints == tuple(sum(1 << i for i in range(n) if rows[i, j]) for j in range(p))
    points = data.draw(st.lists(st.integers(0, p - 1), max_size=5) if p else st.just([]))
    labels = data.draw(st.lists(st.integers(0, 1), min_size=len(points), max_size=len(points)))
    expected = np.array([all(r[x] == y for x, y in zip(points, labels)) for r in rows])
    np.testing.assert_array_equal(cls.consistent(points, labels), expected)
    np.testing.assert_array_equal(cls.restrict(points).labels, rows[:, points])
    members = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=4))
    np.testing.assert_array_equal(cls.select(members).labels, rows[members])
    np.testing.assert_array_equal(cls.union(members), rows[members].any(0))
    np.testing.assert_array_equal(cls.intersection(members), rows[members].all(0))
    np.testing.assert_array_equal(
        cls.disagreement(members), rows[members].any(0) & ~rows[members].all(0)
    )
    target = rows[members[0]]
    np.testing.assert_array_equal(cls.errors(members[0]).labels, rows ^ target)
    assert cls.index_of(target) == next(i for i in range(n) if (rows[i] == target).all())


@given(matrices, st.data())
def test_deduplication_adds_weights(rows: np.ndarray, data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(1, 10**20), min_size=len(rows), max_size=len(rows)))
    merged = FiniteClass.from_matrix(rows, weights=weights, exact=True).deduplicated()
    table: dict[tuple[bool, ...], int] = {}
    for row, weight in zip(rows.tolist(), weights):
        table[tuple(row)] = table.get(tuple(row), 0) + weight
    assert [tuple(row) for row in merged.unique.labels.tolist()] == list(table)
    assert merged.unique.weights is not None
    assert merged.unique.weights.tolist() == list(table.values())
    np.testing.assert_array_equal(merged.unique.labels[merged.inverse], rows)
    np.testing.assert_array_equal(rows[merged.first], merged.unique.labels)
    assert merged.counts.sum() == len(rows)
    assert sum(merged.unique.prior) == 1


def test_product_flip_and_intersection_closure() -> None:
    a, b = FiniteClass.all_labelings(1), FiniteClass.singletons(2)
    product = FiniteClass.product(a, b)
    assert product.labels.astype(int).tolist() == [[0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1]]
    assert product.flipped([0]).labels[:, 0].tolist() == [True, True, False, False]
    assert FiniteClass.boxes([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]).is_intersection_closed()
    assert not FiniteClass.singletons(3).is_intersection_closed()
    assert FiniteClass.singletons(3, include_empty=True).is_intersection_closed()


def test_error_rates_use_point_weights() -> None:
    cls = FiniteClass.singletons(3).with_point_weights([1, 1, 2])
    np.testing.assert_allclose(cls.error_rates(0), [0, 0.5, 0.75])
    np.testing.assert_allclose(FiniteClass.singletons(4).error_rates([0, 0, 0, 0]), 0.25)


def test_estimators_on_a_pool() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] > 0, "yes", "no")
    models = [LogisticRegression().fit(X[i:], y[i:]) for i in range(3)]
    models.append(DecisionTreeClassifier(random_state=0).fit(X, y))
    cls = FiniteClass.from_estimators(models, X[:20], names=["a", "b", "c", "d"])
    np.testing.assert_array_equal(cls.labels[3], models[3].predict(X[:20]) == "yes")
    other = FiniteClass.from_estimators(models, X[:20], positive="no")
    np.testing.assert_array_equal(other.labels, ~cls.labels)
    with pytest.raises(InvalidInputError, match="maybe"):
        FiniteClass.from_estimators(models, X[:20], positive="maybe")
    three = LogisticRegression().fit(X, rng.integers(3, size=60))
    with pytest.raises(InvalidInputError, match="3 classes"):
        FiniteClass.from_estimators([three], X)
    with pytest.raises(InvalidInputError, match="at least one"):
        FiniteClass.from_estimators([], X)


def _examples() -> list[FiniteClass]:
    return [
        FiniteClass.thresholds([0.1, 0.2, 0.3]),
        FiniteClass.from_matrix(
            np.eye(3),
            weights=[Fraction(1, 3), 10**40, 0],
            exact=True,
            names=["a", "b", "ü"],
            point_weights=[0.1, 0.2, 0.7],
        ),
        FiniteClass.from_matrix(np.ones((2, 65)), weights=[0.1, 1e-300]),
        FiniteClass.from_matrix(np.ones((1, 0))),
    ]


def _same(a: FiniteClass, b: FiniteClass) -> None:
    assert a == b
    assert hash(a) == hash(b)
    assert a.names == b.names
    for name in ("point_weights", "points", "params"):
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None) == (y is None)
        if x is not None:
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("cls", _examples(), ids=repr)
def test_storage_round_trips(cls: FiniteClass, tmp_path: Path) -> None:
    text = json.dumps(cls.to_dict(), allow_nan=False)
    _same(cls, FiniteClass.from_dict(json.loads(text)))
    _same(cls, FiniteClass.load(cls.save(tmp_path / "class.npz")))
    _ = cls.labels
    _same(cls, pickle.loads(pickle.dumps(cls)))


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    np.savez(path, a=np.zeros(2))
    text = tmp_path / "text.npz"
    text.write_text("hello")
    for bad in (path, text):
        with pytest.raises(InvalidStateError, match="a stored FiniteClass, cannot be used"):
            FiniteClass.load(bad)
    with pytest.raises(InvalidInputError, match="cannot be read"):
        FiniteClass.load(tmp_path / "none.npz")
    with pytest.raises(InvalidStateError, match="format: invalid enum value 'x'"):
        FiniteClass.from_dict({"format": "x"})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"shape": [3, 10**9]}, r"shape\[1\]: expected `int` <= "),
        ({"shape": [3, 9]}, "labels: must hold 3 rows of 9 labels"),
        ({"labels": "not base64"}, "labels: must be base64"),
        ({"labels": "ü"}, "labels: must be base64"),
        ({"exact": None}, "exact: must say what the weights are"),
        ({"weights": ["1/0", "1", "1"]}, "weights: must be whole numbers or fractions: '1/0'"),
        ({"weights": ["-1", "1", "1"]}, "weights: must be whole numbers"),
        ({"weights": ["1", "1"]}, "weight"),
        ({"exact": False, "weights": ["one", 1, 1]}, "weights: must be numbers, got 'one'"),
        ({"exact": False, "weights": [float("nan"), 1, 1]}, "cannot be used"),
        ({"names": ["a"]}, "name"),
        ({"point_weights": {"shape": [2], "values": [0.5]}}, "1 numbers do not have the shape"),
        ({"point_weights": {"shape": [1], "values": [0.5]}}, "cannot be used"),
        ({"unknown": 1}, "unknown field"),
    ],
)
def test_stored_classes_are_checked(change: dict[str, Any], told: str) -> None:
    data = FiniteClass.from_matrix(np.eye(3), weights=[1, 2, 3], exact=True).to_dict()
    FiniteClass.from_dict(data)
    with pytest.raises(InvalidStateError, match=told):
        FiniteClass.from_dict(data | change)


@pytest.mark.parametrize(
    "change",
    [
        {"n_points": np.array(10**9)},
        {"n_points": np.array(-1)},
        {"n_points": np.array("3")},
        {"n_points": np.array([3])},
        {"packed": np.zeros((3, 1))},
        {"packed": np.zeros(3, dtype=np.uint64)},
        {"packed": np.zeros((3, 2), dtype=np.uint64)},
        {"weights": np.array(["a", "b", "c"])},
        {"weights": np.array([np.nan, 1, 1])},
        {"points": np.array(["a", "b", "c"])},
        {"names": np.array(["a"])},
        {"packed": None},
    ],
)
def test_stored_files_are_checked(change: dict[str, Any], tmp_path: Path) -> None:
    path = FiniteClass.from_matrix(np.eye(3), weights=[0.5, 1.0, 2.0]).save(tmp_path / "a.npz")
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files} | change
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(InvalidStateError):
        FiniteClass.load(path)


def test_flipped_bits_of_a_stored_file_give_a_class_or_one_sentence(tmp_path: Path) -> None:
    original = FiniteClass.thresholds(np.linspace(0, 1, 9))
    data = original.save(tmp_path / "a.npz").read_bytes()
    rng, refused = np.random.default_rng(0), 0
    for _ in range(300):
        broken = bytearray(data)
        broken[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        (tmp_path / "b.npz").write_bytes(broken)
        try:
            assert FiniteClass.load(tmp_path / "b.npz") == original  # the archive has checksums
        except InvalidStateError:
            refused += 1
    assert refused > 100


def test_immutable_and_equality() -> None:
    cls = FiniteClass.singletons(3)
    with pytest.raises(ValueError, match="read-only"):
        cls.labels[0, 0] = False
    with pytest.raises(AttributeError):
        cls.n_points = 4  # type: ignore[misc]  # the point of the test
    assert cls != cls.with_weights([1, 1, 1])
    assert cls.with_weights([1, 1, 1]) == cls.with_weights([1.0, 1.0, 1.0])
    assert cls != 3
    assert [row.tolist() for row in cls][1] == [False, True, False]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: FiniteClass.from_matrix(np.zeros((0, 3))), "at least one hypothesis"),
        (lambda: FiniteClass.from_matrix([0, 1]), "matrix"),
        (lambda: FiniteClass.from_matrix([[-1, 1]]), "-1/\\+1"),
        (lambda: FiniteClass.from_matrix([[0, 1]], weights=[1, 2]), "length 1"),
        (lambda: FiniteClass.from_matrix([[0], [1]], weights=[1, -2]), "negative"),
        (lambda: FiniteClass.from_matrix([[0], [1]], weights=[0, 0]), "positive sum"),
        (lambda: FiniteClass.from_matrix([[0], [1]], weights=[0.5, 1], exact=True), "Fraction"),
        (lambda: FiniteClass.from_matrix([[0], [1]], weights=[np.nan, 1]), "finite"),
        (lambda: FiniteClass.from_matrix([[0, 1]], names=["a", "b"]), "names"),
        (lambda: FiniteClass.singletons(2).consistent([0], [0, 1]), "1 points but 2 labels"),
        (lambda: FiniteClass.singletons(2).consistent([2], [0]), "between 0 and 1"),
        (lambda: FiniteClass.singletons(2).index_of([0]), "length 2"),
        (lambda: FiniteClass.singletons(2).errors([0]), "length 2"),
    ],
)
def test_bad_input(call: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        call()
