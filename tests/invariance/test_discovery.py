"""Search over candidates: two families with Holm's method, candidates by kind, merged swaps."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from counterplay.errors import InvalidInputError
from counterplay.invariance import find_symmetries, groups
from counterplay.invariance.discovery import holm, judge
from counterplay.invariance.errors import ShapeError
from counterplay.invariance.label_test import label_test
from invariance.symmetry_worlds import invariant_table, swap


@pytest.mark.claim("22.10")
def test_family_wise_error_with_twenty_true_symmetries() -> None:
    """A slice of the study: 30 searches (of 200), each over 20 swaps of noise columns."""
    wrong = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(120, 3))
        y = rng.integers(0, 2, size=120)
        moved = X[:, [1, 0, 2]]
        tests = [
            label_test(X, y, lambda pick, _, m=moved: (m[pick], np.zeros(len(pick), int)),
                       n_repeats=1, rng=np.random.default_rng((seed, c)))
            for c in range(20)
        ]  # fmt: skip
        wrong += "violated" in judge(tests, 0.05, 0.05)[0]
    assert wrong / 30 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 30)


@pytest.mark.claim("22.10")
def test_adjusted_p_values_are_holms_by_hand() -> None:
    p = np.array([0.004, 0.03, 0.5, 0.01])
    by_hand = {0: 4 * 0.004, 3: 3 * 0.01, 1: 2 * 0.03, 2: 0.5}
    np.testing.assert_allclose(holm(p), [by_hand[i] for i in range(4)])
    assert holm(np.array([0.02, 0.02])).tolist() == [0.04, 0.04]


def test_columns_of_a_table_are_found_and_merged_on_fresh_rows() -> None:
    rng = np.random.default_rng(0)
    n = 3000
    grid = rng.integers(0, 3, size=(n, 3)).astype(float)
    frame = pd.DataFrame(grid, columns=["x1", "x2", "x3"])
    frame["odd"] = rng.normal(size=n) + 5
    frame["odd"] = frame["odd"].round().clip(3, 7)
    y = grid.sum(axis=1) > 3
    found = find_symmetries(frame.drop(columns="odd"), y, kind="table", random_state=0)
    table = found.to_frame().set_index("name")
    assert set(table.index) == {"swap x1, x2", "swap x1, x3", "swap x2, x3", "order of x*"}
    wrong = find_symmetries(
        frame.drop(columns="odd"), grid[:, 0] > grid[:, 1], kind="table", random_state=0
    )
    assert wrong.to_frame().set_index("name").loc["swap x1, x2", "verdict"] in {
        "violated", "not testable",
    }  # fmt: skip


def test_levels_that_differ_cannot_be_exchanged() -> None:
    frame = pd.DataFrame({"a": list("xyxy") * 10, "b": list("uvuv") * 10, "c": np.arange(40.0)})
    with pytest.raises(InvalidInputError, match="different levels; they cannot be interchanged"):
        find_symmetries(frame, [0, 1] * 20, kind="table", columns=["a", "b"])
    with pytest.raises(InvalidInputError, match="no column"):
        find_symmetries(frame, [0, 1] * 20, kind="table", columns=["z"])


def test_texts_sequences_sets_and_your_own() -> None:
    rng = np.random.default_rng(0)
    words = np.array(["red", "green", "blue", "grey", "pink"])
    texts = [" ".join(rng.choice(words, size=6)) for _ in range(200)]
    found = find_symmetries(texts, ["red" in t for t in texts], kind="text", random_state=0)
    assert found.to_frame()["name"].tolist() == ["order of the words"]
    X, y = invariant_table(rng, 400)
    sets = find_symmetries(X, y, kind="set", random_state=0)
    assert sets.to_frame()["verdict"].tolist() != ["violated"]
    own = find_symmetries(
        X, X[:, 0] > X[:, 1], kind="sequence", candidates={"mine": swap(2, 0, 1)}, random_state=0
    )
    table = own.to_frame().set_index("name")
    assert table.loc["mine", "verdict"] == "violated"
    assert own.best is None
    assert own.plot().get_xlabel()
    assert "adjusted for their number (violated: p_adjusted <= 0.025)" in own.summary()


def test_a_candidate_that_does_nothing_is_said() -> None:
    X = np.repeat(np.random.default_rng(0).normal(size=(50, 1)), 2, axis=1)
    found = find_symmetries(X, np.arange(50) % 2, kind="set", candidates={
        "again": groups.sequence_reversal(2)}, random_state=0)  # fmt: skip
    assert any("does nothing on your data" in note for note in found.notes)


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match="has 9 numbers, the rows have 4"):
        find_symmetries(np.ones((9, 4)), [0, 1, 1] * 3, kind="image", shape=(3, 3))
    with pytest.raises(ShapeError, match="shape= is needed"):
        find_symmetries(np.ones((9, 4)), [0, 1, 1] * 3, kind="image")
