"""Checks return canonical values and name what is wrong."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from counterplay.core import validation as v
from counterplay.errors import InvalidInputError


def test_good_values_become_canonical() -> None:
    assert v.check_int(np.int32(3), "n", low=0, high=3) == 3
    assert type(v.check_int(np.int64(3), "n")) is int
    assert v.check_real(1, "x") == 1.0
    assert type(v.check_real(np.float32(0.5), "x")) is float
    assert v.check_fraction(1, "p") == 1.0
    assert v.check_choice("a", "kind", ["a", "b"]) == "a"
    array = v.check_float_array([[1, 2]], "X", ndim=2)
    assert array.dtype == np.float64
    assert array.flags["C_CONTIGUOUS"]
    assert v.check_float_array(3, "x").shape == ()
    assert v.check_labels01([True, False]).tolist() == [1, 0]
    assert v.check_labels01([]).tolist() == []
    assert v.check_labels01([0.0, 1.0]).dtype == np.int8
    assert v.check_probabilities([[0.5, 0.5], [0, 1]], "p").shape == (2, 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: v.check_int(True, "n"), "n must be an integer, got True"),
        (lambda: v.check_int(1.0, "n"), "n must be an integer"),
        (lambda: v.check_int(0, "n", low=1), "n must be at least 1, got 0"),
        (lambda: v.check_int(9, "n", high=8), "n must be at most 8, got 9"),
        (lambda: v.check_positive_int(0, "n"), "at least 1"),
        (lambda: v.check_real("1", "x"), "x must be a number"),
        (lambda: v.check_real(True, "x"), "x must be a number"),
        (lambda: v.check_real(float("nan"), "x"), "x must be in"),
        (lambda: v.check_real(float("inf"), "x"), "x must be in"),
        (lambda: v.check_real(0, "x", low=0, open_low=True), r"x must be in \(0,inf\], got 0"),
        (lambda: v.check_real(1, "x", high=1, open_high=True), r"\[-inf,1\)"),
        (lambda: v.check_fraction(1.5, "p"), r"p must be in \[0,1\], got 1.5"),
        (lambda: v.check_open_fraction(1.0, "p"), r"p must be in \(0,1\)"),
        (lambda: v.check_choice("c", "kind", ["a", "b"]), "kind must be one of 'a', 'b', got 'c'"),
        (lambda: v.check_float_array(["a"], "X"), "X must be an array of numbers"),
        (lambda: v.check_float_array([1], "X", ndim=2), r"X must have 2 axes, got shape \(1,\)"),
        (lambda: v.check_float_array([[1, np.nan]], "X"), r"entry \(0, 1\) is nan"),
        (lambda: v.check_float_array([1, 0, math.inf], "X"), r"entry \(2,\) is inf"),
        (lambda: v.check_float_array([1, 10**400], "X"), "an integer that is too large"),
        (
            lambda: v.check_same_shape(np.zeros(2), np.zeros(3), ("a", "b")),
            r"a and b must have the same shape, got \(2,\) and \(3,\)",
        ),
        (lambda: v.check_labels01([-1, 1]), r"y must contain only 0 and 1; use \(y > 0\)"),
        (lambda: v.check_labels01([0, 2], "labels"), "labels must contain only 0 and 1$"),
        (lambda: v.check_labels01([np.nan, 1]), "only 0 and 1"),
        (lambda: v.check_probabilities([], "p"), "p must not be empty"),
        (lambda: v.check_probabilities([-0.5, 1.5], "p"), "negative"),
        (lambda: v.check_probabilities([0.5, 0.6], "p"), "p must sum to 1, got 1.1"),
    ],
)
def test_bad_values_are_named(call: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        call()


def test_cells_of_a_frame_are_looked_at() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "z"]}).astype(object)
    assert v.array_fault(frame, kinds="biuf") == "it contains text"
    assert v.array_fault(frame[["a"]], kinds="biuf") == ""
    with pytest.raises(InvalidInputError, match="points must be an array of numbers: it contains"):
        v.check_float_array(frame, "points")


@pytest.mark.parametrize(
    "value", [np.array(["a"]), pd.Series(["a", "b"]), pd.DataFrame({"a": [1]})]
)
def test_what_is_compared_entry_by_entry_is_no_choice(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="kind must be one of 'a', 'b'"):
        v.check_choice(value, "kind", ["a", "b"])
