"""Tables against small files written by the test in the original formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from counterplay import datasets
from counterplay.datasets import tables
from counterplay.errors import DataUnavailableError, MissingDependencyError

GERMAN = """\
A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1
A12 48 A32 A43 5951 A61 A73 2 A92 A101 2 A121 22 A143 A152 1 A173 1 A191 A201 2
"""


ADULT = """\
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, \
2174, 0, 40, United-States, <=50K
52, ?, 287927, HS-grad, 9, Married-civ-spouse, ?, Wife, White, Female, \
15024, 0, 40, United-States, >50K

"""


GMSC = (
    ",SeriousDlqin2yrs,RevolvingUtilizationOfUnsecuredLines,age,"
    "NumberOfTime30-59DaysPastDueNotWorse,DebtRatio,MonthlyIncome,"
    "NumberOfOpenCreditLinesAndLoans,NumberOfTimes90DaysLate,NumberRealEstateLoansOrLines,"
    "NumberOfTime60-89DaysPastDueNotWorse,NumberOfDependents\r\n"
    "1,1,0.766,45,2,0.8,9120,13,0,6,0,2\r\n"
    "2,0,0.957,40,0,0.1,NA,4,0,0,0,1\r\n"
    "3,0,0.658,38,1,0.1,3042,2,1,0,0,NA\r\n"
)


def test_german_credit_text(tmp_path: Path) -> None:
    (tmp_path / "german.data").write_text(GERMAN)
    data = datasets.fetch("german_credit", folder=tmp_path, download=False)
    assert data.y.tolist() == [1, 0]
    assert data.frame["credit_amount"].tolist() == [1169, 5951]
    x, _ = datasets.fetch(
        "german_credit", folder=tmp_path, download=False, return_X_y=True, as_frame=True
    )
    assert x["status_checking=A12"].tolist() == [0.0, 1.0]
    assert x["age"].tolist() == [67.0, 22.0]


def test_adult_text(tmp_path: Path) -> None:
    (tmp_path / "adult.data").write_text(ADULT)
    data = datasets.fetch("adult", folder=tmp_path, download=False)
    assert data.y.tolist() == [0, 1]
    assert data.frame["workclass"].tolist() == ["State-gov", "?"]
    assert "fnlwgt" in data.frame
    assert "fnlwgt" not in data.feature_names


def test_give_me_some_credit_text(tmp_path: Path) -> None:
    (tmp_path / "cs-training.csv").write_text(GMSC)
    data = datasets.fetch("give_me_some_credit", folder=tmp_path, download=False)
    assert data.y.tolist() == [0, 1, 1]
    column = dict(zip(data.feature_names, data.X.T))
    assert column["MonthlyIncome"].tolist() == [9120.0, (9120 + 3042) / 2, 3042.0]
    assert column["MonthlyIncome is missing"].tolist() == [0.0, 1.0, 0.0]
    assert column["NumberOfDependents"].tolist() == [2.0, 1.0, 1.5]
    assert np.isfinite(data.X).all()
    assert data.frame["MonthlyIncome"].isna().tolist() == [False, True, False]
    assert {"Id", "SeriousDlqin2yrs"}.isdisjoint(data.feature_names)


def test_wrong_file_says_which_column_is_missing(tmp_path: Path) -> None:
    (tmp_path / "cs-training.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataUnavailableError, match="MonthlyIncome"):
        datasets.fetch("give_me_some_credit", folder=tmp_path, download=False)


def test_parquet_needs_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "heloc_fico.parquet").write_bytes(b"")
    monkeypatch.setattr(tables.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"counterplay\[data\]"):
        datasets.fetch("heloc", folder=tmp_path, download=False)


def test_heloc_special_codes(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"RiskPerformance": [1, 0, 0], "A": [10, -9, 20], "B": [1, 2, 3]})
    frame.to_parquet(tmp_path / "heloc_fico.parquet")
    data = datasets.fetch("heloc", folder=tmp_path, download=False)
    assert data.y.tolist() == [0, 1, 1]
    assert data.feature_names == ("A", "A is missing", "B")
    assert data.X.tolist() == [[10, 0, 1], [15, 1, 2], [20, 0, 3]]
    assert data.frame["A"].tolist() == [10, -9, 20]


def test_encode_names_and_two_levels() -> None:
    frame = pd.DataFrame({"a": ["x", "y", "x"], "b": [1, 2, 3], "c": ["u", None, "v"]})
    values, names = tables.encode(frame, categories=("b",))
    assert names == ["a=y", "b=1", "b=2", "b=3", "c=(missing)", "c=u", "c=v"]
    assert values.tolist() == [
        [0, 1, 0, 0, 0, 1, 0],
        [1, 0, 1, 0, 1, 0, 0],
        [0, 0, 0, 1, 0, 0, 1],
    ]
