"""``counterplay offer``: a log in, the next offer out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from counterplay.cli import run

COLUMNS = ["--offer", "commission", "--outcome", "revenue"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    share = np.repeat([0.1, 0.2, 0.3, 0.4, 0.5], 20)
    revenue = np.where(share < 0.3, 100, 400) * rng.lognormal(-0.1, 0.5, 100)
    path = tmp_path / "log.csv"
    pd.DataFrame({"commission": share, "revenue": revenue.round(2)}).to_csv(path, index=False)
    return path


@pytest.mark.claim("25.28")
def test_json_of_a_log_with_a_plan(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["offer", str(log), *COLUMNS, "--next", "30", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["winner"]["offer"] == 0.3
    assert found["safe"]["promise"] <= found["winner"]["estimate"]
    assert len(found["plan"]["offers"]) == 30
    assert [row["offer"] for row in found["response"]] == [0.1, 0.2, 0.3, 0.4, 0.5]


@pytest.mark.claim("25.28")
def test_a_misspelt_column_is_one_sentence(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["offer", str(log), "--offer", "comission", "--outcome", "revenue"]) == 2
    told = capsys.readouterr().err.strip()
    assert told.count("\n") == 0
    assert "did you mean 'commission'?" in told


def test_summary_and_page(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert run(["offer", str(log), *COLUMNS, "--currency", "EUR", "--html", str(page)]) == 0
    told = capsys.readouterr().out
    assert "winner: commission 0.3" in told
    assert "EUR" in told
    assert page.read_text().count("<table") == 3


def test_names_are_escaped_and_formulas_are_data(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    name = "<script>alert(1)</script>"
    arm = np.repeat(["=1+1", "<b>bold</b>"], 30)
    path, page = tmp_path / "log.csv", tmp_path / "page.html"
    pd.DataFrame({name: arm, "money": rng.lognormal(3, 0.3, 60)}).to_csv(path, index=False)
    options = ["--offer", name, "--outcome", "money", "--terms", "arms", "--html", str(page)]
    assert run(["offer", str(path), *options]) == 0
    text = page.read_text()
    assert "<script>" not in text
    assert "<b>bold" not in text
    assert "=1+1" in text


def test_a_plan_goes_on_with_the_rows_added(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "plan.json"
    command = ["offer", str(log), *COLUMNS, "--next", "9", "--state", str(state), "--json"]
    offers = []
    for day in range(3):
        assert run(command) == 0
        plan = json.loads(capsys.readouterr().out)["plan"]
        assert plan["observed"] == min(day, 1)
        offers.append(plan["offers"][0])
        with log.open("a") as file:
            file.write(f"{offers[-1]},{350.5 + day}\n")
    saved = json.loads(state.read_text())["plan"]["events"]
    assert [event["what"] for event in saved] == ["offered", "seen", "offered", "seen", "offered"]
    lines = log.read_text().splitlines()
    log.write_text("\n".join([lines[0], *lines[2:]]) + "\n")
    assert run(command) == 2
    assert "append new rows at the end" in capsys.readouterr().err
    state.write_text("{}")
    assert run(command) == 2
    assert "plan.json cannot be used" in capsys.readouterr().err


def test_tabs_and_parquet_are_read(log: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(log)
    frame.to_csv(tmp_path / "log.tsv", sep="\t", index=False)
    assert run(["offer", str(tmp_path / "log.tsv"), *COLUMNS]) == 0
    pytest.importorskip("pyarrow")
    frame.to_parquet(tmp_path / "log.parquet")
    assert run(["offer", str(tmp_path / "log.parquet"), *COLUMNS]) == 0


def test_state_needs_a_plan(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["offer", str(log), *COLUMNS, "--state", str(tmp_path / "p.json")]) == 2
    assert "--next" in capsys.readouterr().err
