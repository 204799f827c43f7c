"""The parties' tables become one pool: columns by name, nothing converted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from counterplay.contribution import CoverageGame
from counterplay.contribution.lab import cell_histograms
from counterplay.contribution.parties import coded_numbers, read_parties
from counterplay.errors import InvalidInputError

NORTH = pd.DataFrame({"age": [30, 40, 50], "ward": ["A", "B", "A"], "smokes": [True, False, True]})
SOUTH = pd.DataFrame({"smokes": [False], "ward": ["C"], "age": [70]})


def test_columns_are_matched_by_name() -> None:
    pool, sizes = read_parties([NORTH, SOUTH])
    assert sizes.tolist() == [3, 1]
    assert pool.rows["age"].tolist() == [30, 40, 50, 70]
    assert pool.rows["ward"].tolist() == ["A", "B", "A", "C"]
    coded = coded_numbers(pool)  # age, smokes, A, B, C
    assert coded.tolist() == [
        [30, 1, 1, 0, 0], [40, 0, 0, 1, 0], [50, 1, 1, 0, 0], [70, 0, 0, 0, 1]
    ]  # fmt: skip


def test_histograms_do_not_depend_on_the_order_of_columns() -> None:
    rng = np.random.default_rng(0)
    tables = [
        pd.DataFrame(
            {"age": rng.normal(m, 1, 40), "pulse": rng.normal(size=40), "ward": list("ABAB") * 10}
        )
        for m in (0, 3)
    ]
    other = [tables[0], tables[1][["ward", "pulse", "age"]]]
    assert (cell_histograms(tables, cells=6) == cell_histograms(other, cells=6)).all()
    game = CoverageGame.from_tables(other, mu=0.7, cells=6)
    assert game.standalone().tolist() == (
        CoverageGame.from_tables(tables, mu=0.7, cells=6).standalone().tolist()
    )


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        ([], "at least one party"),
        (NORTH, "one table per party"),
        (7, "tables must be a list"),
        ([NORTH, SOUTH.rename(columns={"age": "years"})], r"tables\[1\] has no column 'age'"),
        ([NORTH, SOUTH.assign(sex="f")], "nothing was fitted on: 'sex'|'sex'"),
        ([NORTH, NORTH.assign(ward=[1, 2, 3])], "'ward' holds words in .* and numbers in"),
        ([NORTH, np.ones((2, 3))], "a table with names and .* is an array"),
        ([np.ones((2, 3)), sparse.eye_array(3)], "is a sparse matrix"),
        ([np.ones((2, 3)), np.ones((2, 2))], "same number of columns"),
        ([NORTH.assign(age=np.nan)], "'age' .* missing"),
        ([NORTH.assign(age=1e200)], "beyond 1e"),
        ([NORTH.assign(day=pd.Timestamp("2024-01-01"))], "'day' .* holds times"),
        ([sparse.eye_array(3)], "sparse"),
        ([["a text", "another"]], "texts"),
    ],
)
def test_what_cannot_be_pooled_gets_a_sentence(tables: Any, text: str) -> None:
    with pytest.raises(InvalidInputError, match=text) as caught:
        cell_histograms(tables, cells=2)
    assert len(str(caught.value)) <= 300


def test_sizes_are_guarded_before_the_work() -> None:
    words = pd.DataFrame({f"w{j}": [f"{i} {j}" for i in range(6000)] for j in range(2)})
    with pytest.raises(InvalidInputError, match="one-hot coded words are too many"):
        cell_histograms([words])
    with pytest.raises(InvalidInputError, match="cells x rows are too many"):
        cell_histograms([np.zeros((40_000, 1))], cells=40_000)
