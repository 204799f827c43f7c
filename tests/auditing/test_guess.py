"""What ``init`` guesses, what it asks for, and that no name can add a line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from counterplay.auditing.config import Config
from counterplay.auditing.config_text import config_text
from counterplay.auditing.guess import guess_table
from counterplay.cli import run

RNG = np.random.default_rng(0)
N = 300


def table(names: dict[str, Any]) -> pd.DataFrame:
    """A table with these columns: a list is drawn from, a callable makes the column."""
    return pd.DataFrame(
        {k: v() if callable(v) else RNG.choice(np.array(v), N) for k, v in names.items()}
    )


def numbers() -> Any:
    return RNG.integers(0, 90, N)


def coded() -> Any:
    return np.where(RNG.random(N) < 0.1, RNG.choice([-9, -8, -7], N), RNG.integers(0, 90, N))


LIKE_GERMAN = {
    "status_checking": ["A11", "A12"], "duration_months": numbers, "age": numbers,
    "personal_status_sex": ["A91", "A92"], "foreign_worker": ["A201", "A202"], "class": [1, 2],
}  # fmt: skip
LIKE_HELOC = {"RiskPerformance": [0, 1]} | {f"Num{word}": coded for word in "ABCDE"}
MONTHS = (0, 2, 3, 4, 5, 6)
LIKE_TAIWAN = (
    {"ID": lambda: np.arange(N), "SEX": [1, 2], "MARRIAGE": [1, 2, 3], "AGE": numbers}
    | {f"PAY_{k}": numbers for k in MONTHS}
    | {f"BILL_AMT{k}": numbers for k in range(1, 7)}
    | {f"PAY_AMT{k}": numbers for k in range(1, 7)}
    | {"default payment next month": [0, 1]}
)
LIKE_SMS = {
    "label": ["ham", "spam"],
    "text": lambda: [f"message number {k} says a few words to you" for k in range(N)],
}


@pytest.mark.claim("27.01")
def test_labels_roles_codes_and_families_on_tables_like_the_real_ones() -> None:
    german = guess_table(table(LIKE_GERMAN))
    assert german.label.value == "class"
    assert german.positive is None  # 1 and 2 say nothing
    assert set(german.fixed) == {"age", "personal_status_sex", "foreign_worker"}
    heloc = guess_table(table(LIKE_HELOC))
    assert heloc.label.value == "RiskPerformance"
    assert set(heloc.codes) == {f"Num{word}" for word in "ABCDE"}
    assert all(codes == (-9, -8, -7) for codes in heloc.codes.values())
    taiwan = guess_table(table(LIKE_TAIWAN))
    assert taiwan.label.value == "default payment next month"
    assert taiwan.positive is not None
    assert (taiwan.positive.value, taiwan.ids) == (0, ("ID",))
    assert taiwan.fixed == ("SEX", "MARRIAGE", "AGE")
    assert [(f[0], len(f)) for f in taiwan.families] == [
        ("PAY_0", 6), ("BILL_AMT1", 6), ("PAY_AMT1", 6),
    ]  # fmt: skip
    sms = guess_table(table(LIKE_SMS))
    assert (sms.label.value, sms.texts) == ("label", ("text",))
    assert sms.positive is not None
    assert sms.positive.value == "ham"


LABELS = {
    "german_credit": "class", "heloc_fico": "RiskPerformance",
    "taiwan_credit_default": "default payment next month", "adult_census_train": "income",
    "compas_two_years": "two_year_recid", "give_me_some_credit_30k": "SeriousDlqin2yrs",
    "bank_marketing": "y", "law_school": "pass_bar", "sms_spam": "label", "spambase": "spam",
}  # fmt: skip


@pytest.mark.claim("27.01")
@pytest.mark.parametrize("name", LABELS)
def test_the_ten_real_tables(name: str, real: Any, tmp_path: Path) -> None:
    frame = real(name).iloc[:4000]
    found = guess_table(frame)
    assert found.label.value == LABELS[name]
    text = config_text(frame, found)
    assert ("#!" in text.split("[columns]")[0].split("\n", 3)[3]) == (found.positive is None)
    if name == "german_credit":
        assert 'positive = "?"' in text
    if name == "heloc_fico":
        codes = guess_table(real(name)).codes
        assert len(codes) == 23
        assert {code for own in codes.values() for code in own} == {-9, -8, -7}
    if name == "taiwan_credit_default":
        assert (found.ids, found.fixed) == (("ID",), ("SEX", "MARRIAGE", "AGE"))
        assert [len(family) for family in found.families] == [6, 6, 6]
    if name == "sms_spam":
        assert (found.texts, found.positive.value) == (("text",), "ham")
    wanted = quoted_value(found.values[0][0])
    (tmp_path / "audit.toml").write_text(text.replace('positive = "?"', f"positive = {wanted}"))
    frame.to_parquet(tmp_path / "table.parquet")
    files = [str(tmp_path / "audit.toml"), str(tmp_path / "table.parquet")]
    assert run(["audit", "check", *files]) == 0


def quoted_value(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


@pytest.mark.claim("27.01")
@pytest.mark.parametrize("names", [LIKE_GERMAN, LIKE_HELOC, LIKE_TAIWAN, LIKE_SMS])
def test_the_written_file_is_accepted_once_the_questions_are_answered(
    names: dict[str, Any], tmp_path: Path, capsys: Any
) -> None:
    table(names).to_csv(tmp_path / "t.csv", index=False)
    file = tmp_path / "audit.toml"
    assert run(["audit", "init", str(tmp_path / "t.csv"), "-o", str(file)]) == 0
    text = file.read_text()
    if 'positive = "?"' in text:
        assert run(["audit", "check", str(file), str(tmp_path / "t.csv")]) == 2
        assert "Which outcome do people want? Values are" in capsys.readouterr().err
        file.write_text(text.replace('positive = "?"', "positive = 1"))
    assert run(["audit", "check", str(file), str(tmp_path / "t.csv")]) == 0
    assert run(["audit", "init", str(tmp_path / "t.csv"), "-o", str(file)]) == 2  # not overwritten


@pytest.mark.claim("27.22")
@pytest.mark.parametrize(
    "name",
    [
        "a\npositive = 1",
        'a"\npositive = 1 #',
        "a\rpositive = 1",
        "a\u2028positive = 1",
        'x\\"y',
        "#?",
    ],
)
def test_no_name_or_value_adds_a_setting(name: str, tmp_path: Path) -> None:
    frame = table({name: numbers, "colour": [f"red\npositive = 1 {name}", "blue"], "class": [1, 2]})
    text = config_text(frame, guess_table(frame))
    assert tomllib.loads(text)["data"]["positive"] == "?"
    (tmp_path / "audit.toml").write_text(text, encoding="utf-8")
    assert Config.of(tmp_path / "audit.toml").data.positive is None
    odd = frame.rename(columns={"class": f"class\npositive = 2\n{name}"})
    parsed = tomllib.loads(config_text(odd, guess_table(odd)))
    assert parsed["data"]["positive"] == "?"


def test_a_column_that_gives_the_outcome_away_is_a_question() -> None:
    frame = table({"a": numbers, "class": [1, 2]})
    frame["copy"] = frame["class"] * 10
    found = guess_table(frame, "class")
    assert list(found.leaks) == ["copy"]
    assert "#? copy alone gives the outcome" in config_text(frame, found)


def test_real_days_are_not_codes() -> None:
    days = np.arange(-9, 60).repeat(5)
    frame = pd.DataFrame({"days": days, "y": np.arange(len(days)) % 2})
    assert guess_table(frame).codes == {}


def test_a_table_without_an_outcome_asks_for_it(tmp_path: Path) -> None:
    frame = pd.DataFrame({"income": [1.0], "city": ["Bonn"]})
    text = config_text(frame, guess_table(frame))
    assert "#! must be set by you: the outcome that people want" in text
    assert "values are ," not in text
