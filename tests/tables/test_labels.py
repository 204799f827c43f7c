"""Labels in any coding; the wanted class is asked for, never guessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from counterplay.errors import InvalidInputError
from counterplay.tables import Labels
from counterplay.tables.labels import cast_labels


@pytest.mark.parametrize(
    "y",
    [
        [0, 1, 1],
        [False, True, True],
        np.array([0.0, 1.0, 1.0]),
        pd.Series([0, 1, 1], dtype="Int8"),
        pd.Series([False, True, True], dtype="boolean"),
        np.array([[0], [1], [1]]),
    ],
)
def test_zero_one_codings_need_no_word(y: object) -> None:
    labels = Labels.of(y)
    assert labels.wanted().tolist() == [0, 1, 1]
    assert labels.wanted(0).tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    "y", [["a", "b"], [1, 2], [-1, 1], [0, 2], ["0", "1"], pd.Categorical(["a", "b"])]
)
def test_every_other_coding_is_asked_about(y: object) -> None:
    labels = Labels.of(y)
    with pytest.raises(InvalidInputError, match="which outcome do people want") as caught:
        labels.wanted()
    for label in labels.classes:
        assert f"positive={label!r}" in str(caught.value)
    assert "50 %" in str(caught.value)
    assert labels.wanted(labels.classes[0]).tolist() == [1, 0]


def test_several_wanted_classes() -> None:
    labels = Labels.of([3, 5, 7, 8])
    assert labels.wanted([7, 8]).tolist() == [0, 0, 1, 1]
    with pytest.raises(InvalidInputError, match="4 classes"):
        labels.wanted()
    with pytest.raises(InvalidInputError, match="some of the classes, but not all"):
        labels.wanted([3, 5, 7, 8])


def test_numbers_stand_before_texts_and_keep_their_type() -> None:
    labels = Labels.of(["b", 2, "a", 1.0, 2])
    assert labels.classes == (1, 2, "a", "b")
    assert labels.values.tolist() == ["b", 2, "a", 1, 2]


def test_a_text_is_not_a_number() -> None:
    with pytest.raises(InvalidInputError, match="positive=1 is not a class of y"):
        Labels.of(["0", "1"]).wanted(1)


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (["a", None], "no label in row 1"),
        ([0.0, np.nan], "no label in row 1"),
        (pd.Series([pd.NA, 1], dtype="Int64"), "no label in row 0"),
        ([], "has no labels"),
        ("yes", "one label per row"),
        (None, "one label per row"),
        ([[1, 2], [3, 4]], "one label per row|use numbers or texts"),
        ([1j, 2j], "complex|use numbers or texts"),
        ([float("inf"), 1.0], "the label inf"),
        (np.linspace(0, 1, 1500), "looks like a measurement"),
        ([{}, {}], "use numbers or texts"),
    ],
)
def test_bad_labels(y: object, sentence: str) -> None:
    with pytest.raises(InvalidInputError, match=sentence) as caught:
        Labels.of(y)
    assert len(str(caught.value)) <= 300


def test_one_class_says_so() -> None:
    with pytest.raises(InvalidInputError, match="all 3 labels of y are 'yes'"):
        Labels.of(["yes"] * 3).wanted("yes")


@pytest.mark.parametrize("container", [list, pd.Series, lambda y: np.array(y, dtype=object)])
def test_each_label_is_cast_alone(container: Callable[[Any], Any]) -> None:
    values, known = cast_labels(container([1.0, np.int8(0), True, "spam", None, np.nan, {}, 2j]))
    assert known.tolist() == [True] * 4 + [False] * 4
    assert [(type(v), v) for v in values[known]] == [
        (int, 1),
        (int, 0),
        (bool, True),
        (str, "spam"),
    ]


def test_one_odd_label_does_not_change_the_others() -> None:
    clean, _ = cast_labels(pd.Series([0, 1, 1]))
    dirty, known = cast_labels(pd.Series([0, 1, 1, "no label at all"]))
    assert dirty[:3].tolist() == clean.tolist()
    assert known.all()


@pytest.mark.parametrize("y", ["yes", None, {"a": 1}, len, np.ones((2, 2))])
def test_what_is_no_list_of_labels_cannot_be_cast(y: object) -> None:
    with pytest.raises(InvalidInputError, match="one label per row"):
        cast_labels(y)


def test_labels_of_arrow() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    assert Labels.of(pyarrow.array([0, 1, 1])).codes.tolist() == [0, 1, 1]
    words = pyarrow.chunked_array([["no"], ["yes", "no"]])
    assert Labels.of(words).values.tolist() == ["no", "yes", "no"]
