"""The command that learns tastes from recorded choices."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from counterplay.cli import run
from counterplay.commands.choices import app

KEYS = ["--person", "who", "--task", "task", "--alternative", "item", "--chosen", "taken"]


def write_panel(path: Path) -> Path:
    rng = np.random.default_rng(0)
    who, task, item = np.indices((20, 6, 2))
    price = rng.random((20, 6, 2))
    taken = price == price.min(axis=2, keepdims=True)
    columns = {"who": who, "task": task, "item": item, "price": price, "taken": taken}
    frame = pd.DataFrame({name: column.ravel() for name, column in columns.items()})
    frame.assign(taken=frame.taken.astype(int)).to_csv(path, index=False)
    return path


def test_population_and_score_are_printed(tmp_path: Path) -> None:
    path = write_panel(tmp_path / "panel.csv")
    told = CliRunner().invoke(app, [str(path), *KEYS, "--reveal", "3"])
    assert told.exit_code == 0, told.output
    assert "120 choices of 20 people" in told.output
    assert "log loss" in told.output
    found = json.loads(CliRunner().invoke(app, [str(path), *KEYS, "--json"]).stdout)
    assert found["population"]["rows"][0]["mean"] < 0


def test_json_is_alone_on_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_panel(tmp_path / "panel.csv")
    path.write_text(path.read_text().replace(",", ";"))
    assert run(["choices", str(path), *KEYS, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["population"]
    assert "panel.csv: columns are separated by semicolons\n" in captured.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--seed", "-1"], "-1 is not in the range x>=0"),
        (["--reveal", "-1"], "-1 is not in the range x>=0"),
        (["--attribute", "prise"], "did you mean 'price'?"),
    ],
)
def test_mistakes_are_one_sentence(
    options: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["choices", str(write_panel(tmp_path / "panel.csv")), *KEYS, *options]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert told in captured.err
