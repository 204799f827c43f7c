"""A frozen schema: kinds by majority, rows cast one by one, odd rows rejected and named."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplay.errors import InvalidInputError
from counterplay.tables import Schema


def kinds(schema: Schema) -> dict[str, str]:
    return {column.name: column.kind for column in schema.columns}


def test_kinds_are_those_of_most_rows(people: pd.DataFrame) -> None:
    schema = Schema.infer(people)
    assert kinds(schema) == {
        "income": "number", "children": "number", "married": "flag", "city": "text",
        "grade": "category", "joined": "time",
    }  # fmt: skip
    assert schema == Schema.from_dict(schema.to_dict())


def test_one_odd_row_changes_no_kind(people: pd.DataFrame) -> None:
    many = pd.concat([people] * 20, ignore_index=True).astype(object)
    odd = many.copy()
    odd.iloc[7] = ["a lot", "two", "perhaps", 5, 3, "yesterday"]
    clean = Schema.infer(many)
    assert kinds(Schema.infer(odd)) == kinds(clean)
    cast = clean.cast(odd)
    assert [item.row for item in cast.rejected] == [7]
    assert cast.rejected[0].column == "income"
    assert "a lot" in cast.rejected[0].value
    honest = np.delete(np.arange(80), 7)
    pd.testing.assert_frame_equal(
        cast.frame().reset_index(drop=True), clean.cast(many).frame(honest).reset_index(drop=True)
    )


def _change(kind_of_cell: str) -> object:
    return {"number": 1.0, "flag": True, "time": pd.Timestamp("2020-01-01"), "text": "x",
            "missing": None}[kind_of_cell]  # fmt: skip


OPTIONS = ("number", "flag", "time", "text", "missing")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(OPTIONS), min_size=1, max_size=5))
def test_margin_is_the_fewest_rows_that_change_a_kind(cells: list[str]) -> None:
    def kind(names: tuple[str, ...]) -> str:
        frame = pd.DataFrame({"c": np.array([_change(n) for n in names], dtype=object)})
        return Schema.infer(frame).columns[0].kind

    frame = pd.DataFrame({"c": np.array([_change(n) for n in cells], dtype=object)})
    schema = Schema.infer(frame)
    start = kind(tuple(cells))
    fewest = min(
        sum(a != b for a, b in zip(cells, other))
        for other in itertools.product(OPTIONS, repeat=len(cells))
        if kind_by_count(other) != start
    )
    assert kind_by_count(tuple(cells)) == start
    assert schema.margin == fewest


def kind_by_count(names: tuple[str, ...]) -> str:
    """The rule said once more, from the counts."""
    voters = [name for name in names if name != "missing"]
    for name in ("number", "flag", "time"):
        if 2 * voters.count(name) > len(voters):
            return name
    return "text" if voters else "number"


def test_a_source_has_one_vote() -> None:
    frame = pd.DataFrame({"c": ["x"] * 10 + ["1", "2", "3"]})
    sources = ["flood"] * 10 + ["a", "b", "c"]
    assert kinds(Schema.infer(frame)) == {"c": "text"}
    assert kinds(Schema.infer(frame, sources)) == {"c": "number"}
    with pytest.raises(InvalidInputError, match="2 entries for 13 rows"):
        Schema.infer(frame, ["a", "b"])


def test_flags_are_not_voted_for_by_numbers() -> None:
    assert kinds(Schema.infer(pd.DataFrame({"c": [0, 1, 1, 0]}))) == {"c": "number"}
    assert kinds(Schema.infer(pd.DataFrame({"c": ["True", "false", None]}))) == {"c": "flag"}


def test_a_column_read_as_text_is_cast_back() -> None:
    clean = pd.DataFrame(
        {
            "number": [1.5, 2.0, np.nan],
            "flag": [True, False, True],
            "time": pd.to_datetime(["2024-01-01 00:00", "2024-01-02 03:04", None]),
            "code": pd.Categorical([3, 4, 3]),
        }
    )
    schema = Schema.infer(clean)
    as_text = pd.DataFrame(
        {
            "number": ["1.5", " 2.0 ", None],
            "flag": ["True", "FALSE", "1"],
            "time": ["2024-01-01", "2024-01-02T03:04:00Z", None],
            "code": ["3", "4.0", "3"],
        }
    )
    cast = schema.cast(as_text)
    assert not cast.rejected
    pd.testing.assert_frame_equal(cast.frame(), schema.cast(clean).frame())


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31 22:30-01:30", 0),
    ],
)
def test_times_are_read_cell_by_cell_as_utc(text: str, nanoseconds: int) -> None:
    schema = Schema.from_dict({"container": "table", "columns": [{"name": "t", "kind": "time"}]})
    value = schema.cast(pd.DataFrame({"t": [text]})).cells["t"][0]
    assert value.astype(np.int64) == nanoseconds


@pytest.mark.parametrize("text", ["3000-01-01", "0001-01-01", "2024-13-01", "now", "5", "12:00"])
def test_times_outside_or_unclear_are_rejected(text: str) -> None:
    schema = Schema.from_dict({"container": "table", "columns": [{"name": "t", "kind": "time"}]})
    assert schema.cast(pd.DataFrame({"t": [text]})).rejected[0].row == 0


def test_categories_are_those_of_the_rows_unless_given() -> None:
    frame = pd.DataFrame({"g": pd.Categorical(["b", "a", "c", None])})
    cast = Schema.infer(frame).cast(frame)
    assert cast.frame([0, 1])["g"].cat.categories.tolist() == ["a", "b"]
    other = cast.frame(categories={"g": ["a", "b"]})["g"]
    assert other.isna().tolist() == [False, False, True, True]
    size = pd.Categorical(["s", "l"], categories=["s", "m", "l"], ordered=True)
    ordered = pd.DataFrame({"g": size})
    kept = Schema.infer(ordered).cast(ordered).frame()["g"]
    assert kept.cat.ordered
    assert kept.cat.categories.tolist() == ["s", "m", "l"]


def test_a_test_row_that_does_not_fit_raises() -> None:
    schema = Schema.infer(pd.DataFrame({"age": [39, 50]}))
    with pytest.raises(
        InvalidInputError, match="column 'age' of test row 0 is '39 years', the schema says number"
    ):
        schema.cast(pd.DataFrame({"age": ["39 years"]})).raise_rejected()


def test_matrices_texts_and_arrays() -> None:
    matrix = Schema.infer(np.zeros((2, 3), dtype=np.float32))
    assert (matrix.container, matrix.dtype, matrix.shape) == ("matrix", "float32", (3,))
    assert matrix.cast(np.ones((1, 3))).rows().dtype == np.float32
    with pytest.raises(InvalidInputError, match=r"shape \(4,\), the schema says \(3,\)"):
        matrix.cast(np.ones((1, 4)))
    assert Schema.infer(np.zeros((2, 3, 3))).shape == (3, 3)
    assert Schema.infer(["a", "b"]).cast(["e\u0301"]).rows() == ["\u00e9"]
    with pytest.raises(InvalidInputError, match="is of kind texts, the schema says matrix"):
        matrix.cast(["a"])


@pytest.mark.parametrize(
    "record",
    [
        {}, {"container": "heap"}, {"container": "table"}, {"container": "table", "columns": 3},
        {"container": "table", "columns": [{"name": "a"}]},
        {"container": "table", "columns": [{"name": "a", "kind": "complex"}]},
        {"container": "table", "columns": [{"name": "a", "kind": "text"}] * 2},
        {"container": "matrix", "shape": ["x"]},
    ],
)  # fmt: skip
def test_only_a_schema_is_a_schema(record: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        Schema.from_dict(record)


def test_half_a_character_is_a_text_like_any_other() -> None:
    frame = pd.DataFrame({"note": pd.Series(["a", "b\udc80", None], dtype=object)})
    cast = Schema.infer(frame).cast(frame)
    assert not cast.rejected
    assert cast.frame()["note"].dtype == object
    assert cast.frame()["note"].tolist()[:2] == ["a", "b\udc80"]
