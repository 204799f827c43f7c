"""The builders list exactly the labelings that a brute-force search finds."""

from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplay.core import class_builders as build
from counterplay.core.finite_class import FiniteClass
from counterplay.core.halfspaces import halfspaces_2d, halfspaces_lp
from counterplay.errors import InvalidInputError

numbers = st.lists(st.integers(-4, 4), min_size=1, max_size=6)


def as_set(rows: np.ndarray) -> set[tuple[bool, ...]]:
    labelings = {tuple(row) for row in rows.tolist()}
    assert len(labelings) == len(rows), "rows must be distinct"
    return labelings


def runs(row: tuple[bool, ...]) -> int:
    return sum(1 for i, bit in enumerate(row) if bit and (i == 0 or not row[i - 1]))


def by_runs(points: list[int], k: int) -> set[tuple[bool, ...]]:
    values = sorted(set(points))
    position = [values.index(x) for x in points]
    return {
        tuple(row[i] for i in position)
        for row in product([False, True], repeat=len(values))
        if runs(row) <= k
    }


@given(numbers, st.integers(0, 3))
def test_intervals_and_their_unions(points: list[int], k: int) -> None:
    assert as_set(build.unions_of_intervals(points, k)) == by_runs(points, k)
    rows, ends = build.intervals(points)
    assert as_set(rows) == by_runs(points, 1)
    x = np.array(points)
    np.testing.assert_array_equal(rows, (x >= ends[:, :1]) & (x <= ends[:, 1:]))
    m = len(set(points))
    assert len(rows) == m * (m + 1) // 2 + 1


@given(numbers)
def test_thresholds(points: list[int]) -> None:
    x = np.array(points, dtype=float)
    up = {tuple((x >= b).tolist()) for b in [*points, 9]}
    rows, params = build.thresholds(points)
    assert as_set(rows) == up
    assert len(rows) == len(set(points)) + 1
    np.testing.assert_array_equal(rows, x >= params[:, :1])
    down = {tuple(not bit for bit in row) for row in up}
    assert as_set(build.thresholds(points, direction="down")[0]) == down
    assert as_set(build.thresholds(points, direction="both")[0]) == up | down


def test_thresholds_with_given_cuts() -> None:
    rows, params = build.thresholds([0.25, 0.5, 0.75], cuts=[0.2, 0.4, 0.6, 0.8])
    assert rows.astype(int).tolist() == [[1, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 0]]
    assert params[:, 0].tolist() == [0.2, 0.4, 0.6, 0.8]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6))
def test_boxes(points: list[tuple[int, int]]) -> None:
    x = np.array(points)
    corners = [-1, *range(5)]
    expected = {
        tuple(((x >= [a, b]) & (x <= [c, d])).all(1).tolist())
        for a, b, c, d in product(corners, repeat=4)
    }
    rows, params = build.boxes(x)
    assert as_set(rows) == expected
    inside = (x[None] >= params[:, None, :2]) & (x[None] <= params[:, None, 2:])
    np.testing.assert_array_equal(rows, inside.all(-1))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6))
def test_halfspaces_on_a_grid_with_duplicates_and_lines(points: list[tuple[int, int]]) -> None:
    expected = as_set(halfspaces_lp(points))
    assert as_set(halfspaces_2d(points)) == expected
    tiny = np.array(points) * 2.0**-40 + 1.0  # too fine for small integers: floats, then exact
    assert as_set(halfspaces_2d(tiny)) == expected


@pytest.mark.parametrize("m", [1, 2, 3, 10, 50, 200])
def test_halfspaces_in_general_position(m: int) -> None:
    points = np.random.default_rng(m).normal(size=(m, 2))
    rows = halfspaces_2d(points)
    assert rows.shape == (m * (m - 1) + 2, m)
    assert not rows[0].any()
    assert rows[-1].all()
    assert as_set(~rows) == as_set(rows)


@pytest.mark.parametrize("exponent", [-1000, -600, -530, 0, 500, 1000])
def test_halfspaces_at_extreme_scales_and_on_a_line(exponent: int) -> None:
    scale = 2.0**exponent
    square = np.array([[0, 0], [1, 0], [0, 1], [1, 1]]) * scale
    assert len(halfspaces_2d(square)) == 14
    line = np.column_stack([np.arange(9), 3 * np.arange(9)]) * scale
    assert len(halfspaces_2d(line)) == 2 * 9


def test_nearly_collinear_points_are_not_mixed_up() -> None:
    tiny = np.nextafter(0.5, 1.0)
    bent = halfspaces_2d([[0.0, 0.0], [0.5, tiny], [1.0, 1.0]])
    straight = halfspaces_2d([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]])
    assert len(bent) == 8
    assert len(straight) == 6


def test_halfspaces_lp_in_three_dimensions() -> None:
    corners = np.array(list(product([0.0, 1.0], repeat=3)))
    assert len(FiniteClass.halfspaces_lp(corners)) == 104  # threshold functions of three variables


def test_small_classes() -> None:
    assert FiniteClass.all_labelings(3).labels.astype(int).tolist()[6] == [1, 1, 0]
    assert len(FiniteClass.all_labelings(0)) == 1
    assert len(FiniteClass.singletons(4, include_empty=True)) == 5
    assert len(FiniteClass.unions_of_intervals(range(9), 4)) == sum(
        comb(10, 2 * j) for j in range(5)
    )
    assert FiniteClass.boxes(np.zeros((0, 2))).shape == (1, 0)
    assert halfspaces_2d(np.zeros((0, 2))).shape == (1, 0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: build.thresholds([[1.0]]), "axes"),
        (lambda: build.thresholds([1.0], cuts=[np.nan]), "NaN"),
        (lambda: build.thresholds([1.0], direction="left"), "direction"),  # type: ignore[arg-type]
        (lambda: build.unions_of_intervals(range(300), 40), "too many"),
        (lambda: build.all_labelings(40), "at most 26"),
        (lambda: halfspaces_2d(np.zeros((2, 3))), "two columns"),
        (lambda: halfspaces_2d([[0.0, np.inf]]), "finite"),
    ],
)
def test_bad_input(call: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        call()
