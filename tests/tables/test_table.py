"""Tables keep what the user gave; columns are matched by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from counterplay.errors import InvalidInputError
from counterplay.tables import Table
from counterplay.tables.table import check_groups, check_weights, column_kind, match_columns


def test_a_frame_keeps_names_kinds_index_and_missing_values(people: pd.DataFrame) -> None:
    table = Table.of(people, [1, 0, 1, 0], sample_weight=[1, 2, 3, 4], groups=list("aabb"))
    assert table.rows is people
    assert dict(zip(table.names or (), table.kinds)) == {
        "income": "number", "children": "integer", "married": "flag", "city": "text",
        "grade": "category", "joined": "time",
    }  # fmt: skip
    assert table.missing == {"income": 1, "city": 1, "grade": 1, "joined": 1}
    part = table.part([2, 0])
    assert list(part.index) == ["cem", "ann"]
    assert part.labels is not None
    assert part.labels.codes.tolist() == [1, 1]
    assert part.weights is not None
    assert part.weights.tolist() == [3.0, 1.0]
    assert part.groups is not None
    assert part.groups.tolist() == ["b", "a"]
    assert list(table.take(slice(1, 2)).index) == ["bob"]


def test_columns_are_matched_by_name_never_by_position(people: pd.DataFrame) -> None:
    table = Table.of(people[["children", "income"]])
    turned = table.select(["income", "children"])
    assert turned.names == ("income", "children")
    np.testing.assert_array_equal(turned.rows["income"], people["income"])
    assert table.select(["children"], extra="drop").names == ("children",)


@pytest.mark.parametrize(
    ("given", "wanted", "sentence"),
    [
        (["incme", "debt"], ["income", "debt"], "no column 'income' (nearest: 'incme'), which is"),
        (["debt"], ["a", "b", "debt"], "no column 'a' and 1 more that are needed"),
        (["debt", "age"], ["debt"], "a column that nothing was fitted on: 'age'"),
    ],
)
def test_other_names_are_refused(given: list[str], wanted: list[str], sentence: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        match_columns(given, wanted)
    assert sentence in str(caught.value)
    assert len(str(caught.value)) <= 300


def test_numbers_of_every_numeric_type() -> None:
    frame = pd.DataFrame(
        {
            "nullable": pd.array([1, 2], dtype="Int64"),
            "flag": pd.array([True, False], dtype="boolean"),
            "small": np.array([0.5, 1.5], dtype=np.float16),
            "objects": np.array([3, 4.5], dtype=object),
            "huge": [1_600_000_000_000_000_000, 0],
        }
    )
    expected = [[1, 1, 0.5, 3, 1.6e18], [2, 0, 1.5, 4.5, 0]]
    np.testing.assert_array_equal(Table.of(frame).numbers(), expected)


def test_arrow_types_are_numbers_and_texts() -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "n": pd.array([1, None], dtype="int64[pyarrow]"),
            "t": pd.array(["a", None], dtype="string[pyarrow]"),
        }
    )
    table = Table.of(frame)
    assert table.kinds == ("integer", "text")
    np.testing.assert_array_equal(Table.of(frame[["n"]]).numbers(missing=True), [[1.0], [np.nan]])


@pytest.mark.parametrize("column", ["city", "grade", "joined"])
def test_what_is_not_a_number_is_named(people: pd.DataFrame, column: str) -> None:
    with pytest.raises(InvalidInputError, match=f"column '{column}' of X holds"):
        Table.of(people[[column]]).numbers()


def test_missing_and_infinite_cells_are_named(people: pd.DataFrame) -> None:
    with pytest.raises(InvalidInputError, match=r"'income' of X has 1 missing values .*'cem'"):
        Table.of(people[["income"]]).numbers()
    with pytest.raises(InvalidInputError, match="row 1 of X in column 0 is infinite"):
        Table.of(np.array([[1.0], [np.inf]])).numbers()


def test_sparse_matrices_stay_sparse() -> None:
    X = sparse.random(20, 50, density=0.1, random_state=0, format="coo")
    table = Table.of(X)
    assert table.is_sparse
    assert table.container == "matrix"
    assert table.width == 50
    assert sparse.issparse(table.take([1, 2]))
    assert sparse.issparse(table.matrix())
    with pytest.raises(InvalidInputError, match="X is sparse and a dense array"):
        table.numbers()


def test_texts_and_images() -> None:
    texts = Table.of(["hello", "world"])
    assert texts.container == "texts"
    assert texts.take([1]) == ["world"]
    assert Table.of(np.array(["hello", "world"])).take([1]).tolist() == ["world"]
    images = Table.of(np.zeros((3, 8, 8, 1), dtype=np.uint8))
    assert images.container == "arrays"
    assert images.width == 64
    assert images.take([0]).shape[0] == 1
    with pytest.raises(InvalidInputError, match="X holds texts"):
        texts.numbers()


def test_polars_frames_stay_polars(people: pd.DataFrame) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"debt": [1.0, 2.0], "city": ["Bonn", None]})
    table = Table.of(frame)
    assert table.names == ("debt", "city")
    assert table.kinds == ("number", "text")
    assert isinstance(table.take([1]), polars.DataFrame)
    assert table.select(["city", "debt"]).rows.columns == ["city", "debt"]
    numbers = Table.of(frame.select("debt"))
    np.testing.assert_array_equal(numbers.numbers(), [[1.0], [2.0]])
    assert isinstance(numbers.like(np.array([[7.0]])), polars.DataFrame)


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (None, "must be a frame"),
        ({"a": [1]}, "must be a frame"),
        ({1, 2}, "must be a frame"),
        (3.0, "must be a frame"),
        ([], "has no rows"),
        (np.empty((0, 2)), "has no rows"),
        (np.empty((2, 0)), "has no columns"),
        ([[1, 2], [3]], "is ragged: row 0 and row 1"),
        (np.array([1.0, 2.0]), "must have rows and columns"),
        (np.array([[1j]]), "complex"),
        (np.zeros(2, dtype=[("a", float)]), "structured array"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "more than one column named 'a'"),
        (pd.DataFrame([[1, 2]], columns=["a", 3]), "must all be texts, one is 3"),
        (pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])), "levels"),
        (pd.DataFrame(index=[1, 2]), "has no columns"),
    ],
)
def test_what_is_no_table_is_refused_in_one_sentence(bad: object, sentence: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Table.of(bad)
    assert sentence in str(caught.value)
    assert len(str(caught.value)) <= 300


class Tensor:
    """Something that knows how to become an array, and no more."""

    def __init__(self, values: object) -> None:
        self.values = values

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype)  # type: ignore[call-overload]


def test_what_can_become_an_array_is_read_as_one() -> None:
    table = Table.of(Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([0, 1]))
    np.testing.assert_array_equal(table.numbers(), [[1.0, 2.0], [3.0, 4.0]])
    assert table.labels is not None
    assert table.labels.codes.tolist() == [0, 1]
    with pytest.raises(InvalidInputError, match="must have rows and columns"):
        Table.of(Tensor([1.0, 2.0]))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (np.array([[1j]]), "Complex data not supported"),
        (np.empty((2, 0)), r"0 feature\(s\) \(shape=\(2, 0\)\) while a minimum of 1 is required"),
        (np.array([1.0, 2.0]), "Reshape your data"),
        (np.array([[np.nan]]), "NaN"),
    ],
)
def test_refusals_have_the_words_that_checks_of_estimators_look_for(bad: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        Table.of(bad).numbers()


def test_cells_that_are_nothing_are_named() -> None:
    frame = pd.DataFrame({"odd": [[1, 2], [3]]})
    with pytest.raises(InvalidInputError, match="column 'odd' holds"):
        _ = Table.of(frame).kinds
    with pytest.raises(InvalidInputError, match="complex"):
        column_kind(pd.Series([1j]))


def test_a_size_guard_before_the_work() -> None:
    view = np.broadcast_to(np.zeros(1), (1 << 20, 1 << 10))  # one number seen a billion times
    with pytest.raises(InvalidInputError, match="at most 134217728 cells"):
        Table.of(view).numbers()


def test_labels_in_another_order_of_rows_are_refused(people: pd.DataFrame) -> None:
    y = pd.Series([1, 0, 1, 0], index=people.index)
    assert Table.of(people, y).labels is not None
    with pytest.raises(InvalidInputError, match="in another order"):
        Table.of(people, y[::-1])
    with pytest.raises(InvalidInputError, match="3 labels for 4 rows"):
        Table.of(people, [1, 0, 1])


@pytest.mark.parametrize("bad", [[1, 2], [1, -1, 1], [0, 0, 0], [1, np.nan, 1], "abc", None])
def test_weights_are_finite_and_not_negative(bad: object) -> None:
    with pytest.raises(InvalidInputError, match="sample_weight"):
        check_weights(bad, 3)


def test_groups_have_no_holes() -> None:
    assert check_groups(["a", 1], 2).tolist() == ["a", 1]
    with pytest.raises(InvalidInputError, match="groups has no label in row 1"):
        check_groups(["a", None], 2)
    with pytest.raises(InvalidInputError, match="groups has 1 entries for 2 rows"):
        check_groups(["a"], 2)


def test_numbers_come_back_in_the_users_container(people: pd.DataFrame) -> None:
    table = Table.of(people[["income", "children"]])
    moved = table.like(np.zeros((4, 2)))
    assert list(moved.columns) == ["income", "children"]
    assert list(moved.index) == list(people.index)
    assert Table.of(np.zeros((2, 3, 3))).like(np.ones((1, 9))).shape == (1, 3, 3)
    assert sparse.issparse(Table.of(sparse.eye(3)).like(np.zeros((1, 3))))


def test_ten_thousand_columns() -> None:
    names = [f"c{j}" for j in range(10_000)]
    frame = pd.DataFrame(np.zeros((2, 10_000)), columns=names)
    assert Table.of(frame[names[::-1]]).select(names).names == tuple(names)


@pytest.mark.parametrize("given", ["sample_weight", "groups"])
def test_weights_and_groups_in_another_order_are_refused(people: pd.DataFrame, given: str) -> None:
    values = pd.Series([1, 2, 3, 4], index=people.index)
    assert len(Table.of(people, **{given: values})) == 4
    with pytest.raises(InvalidInputError, match=f"{given} has the rows of X in another order"):
        Table.of(people, **{given: values[::-1]})
