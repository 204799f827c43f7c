"""The config: every key checked, every mistake one sentence."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from counterplay.auditing.config import Config, read_seconds
from counterplay.auditing.config_text import quoted
from counterplay.cli import run
from counterplay.commands.audit import check
from counterplay.errors import CounterplayError, InvalidInputError


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            {"costs": {"false_acept": 5}},
            "config: [costs] false_acept is not a setting (nearest: false_accept).",
        ),
        ({"cost": {}}, "config: [cost] is not a setting (nearest: [costs])."),
        (
            {"model": {"path": "a.pkl"}},
            "config: [model] path is not a setting (known: columns).",
        ),
        (
            {"effort": {"budgets": [2, 1]}},
            "config: [effort] budgets must increase, got [2.0, 1.0].",
        ),
        ({"effort": 3}, "config: [effort] must be a table of settings, got 3."),
        ({"costs": {"false_accept": -1}}, "config: [costs] false_accept: expected `float` >= 0.0."),
        ({"run": {"time": "soon"}}, "a time is written 90s, 5m or 2h, got 'soon'."),
    ],
)
def test_mistakes_name_the_key(content: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInputError) as told:
        Config.of(content)
    assert str(told.value) == sentence


def test_syntax_errors_name_the_line(tmp_path: Path) -> None:
    file = tmp_path / "audit.toml"
    file.write_text("version = 1\n" * 1 + "\n" * 12 + "foo\n")
    with pytest.raises(InvalidInputError) as told:
        Config.of(file)
    assert str(told.value) == "audit.toml line 14: expected '=' after the key."


def test_a_file_that_says_nothing_is_not_confirmed(tmp_path: Path) -> None:
    file = tmp_path / "audit.toml"
    file.write_text('[data]\nlabel = "y"  #? last column\npositive = "?"  #! must be set\n')
    config = Config.of(file)
    assert not config.confirmed
    assert config.data.positive is None
    assert config.guesses == ("label: last column",)


def test_times() -> None:
    assert [read_seconds(t) for t in ("45", "45s", "2m", "1.5h")] == [45, 45, 120, 5400]
    for wrong in ("", "5d", "-3", "0s", "9" * 30):
        with pytest.raises(InvalidInputError):
            read_seconds(wrong)


JUNK = (
    "x" * 1_000_000, float("nan"), float("inf"), -1, 10**30, 1e300, True, [], [[[[[]]]]], {}, "",
    "?", 0, {"a": {"b": {"c": {"d": {}}}}}, [1, "a"], "../../etc/passwd", "a\nb", "\x00", -0.5, 3.7,
)  # fmt: skip


def edited(rng: np.random.Generator, content: dict[str, Any]) -> dict[str, Any]:
    """Change, add or remove something somewhere in a config."""
    twin = copy.deepcopy(content)
    place: Any = twin
    while True:
        key = list(place)[rng.integers(len(place))] if place else "new"
        inner = place.get(key)
        if isinstance(inner, dict) and inner and rng.random() < 0.8:
            place = inner
            continue
        what = rng.random()
        if what < 0.1:
            place.pop(key, None)
        elif what < 0.25:
            place[f"{key}x"] = JUNK[rng.integers(len(JUNK))]
        else:
            place[key] = JUNK[rng.integers(len(JUNK))]
        return twin


def toml(value: Any) -> str:
    """Write a value as inline TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(str(k))} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf"
    return quoted(value)


def hostile_ends(
    folder: Path, loans: pd.DataFrame, settings: dict[str, Any], most_runs: int
) -> tuple[list[int], list[int]]:
    """Return how 300 edited configs end when checked, and how those that pass end when run."""
    loans.iloc[:120].to_csv(folder / "loans.csv", index=False)
    content = settings | {
        "gates": {"require": ["gamed_money at budget=1 <= 900"]}, "run": {"time": "5m", "seed": 0},
        "planted": {"rows": [1, 5]}, "version": 1, "confirmed": True,
    }  # fmt: skip
    rng = np.random.default_rng(0)
    codes, runs = [], []
    for k in range(300):
        twin = edited(rng, content)
        text = "\n".join(f"{quoted(str(key))} = {toml(value)}" for key, value in twin.items())
        file = folder / "audit.toml"
        file.write_text(text, encoding="utf-8")
        code, told = 0, ""
        try:
            check(file, folder / "loans.csv")
        except CounterplayError as error:  # the command line prints it and exits with 2
            code, told = 2, str(error)
        codes.append(code)
        assert len(told) <= 300, told
        assert "\n" not in told
        if code == 0 and len(runs) < most_runs:
            out = str(folder / f"out{k}")
            argv = ["audit", "-", str(folder / "loans.csv"), "--config", str(file), "--out", out]
            runs.append(run([*argv, "--sections", "honest", "--accept-guesses"]))
    return codes, runs


@pytest.mark.claim("27.23")
def test_hostile_configs_end_in_one_sentence_or_run(
    loans: pd.DataFrame, settings: dict[str, Any], tmp_path: Path, capsys: Any
) -> None:
    codes, runs = hostile_ends(tmp_path, loans, settings, most_runs=3)
    told = capsys.readouterr().err
    assert codes.count(2) > 150
    assert codes.count(0) > 10
    assert set(runs) <= {0, 2, 3, 4}
    assert "Traceback" not in told


@pytest.mark.slow
def test_hostile_configs_that_pass_the_check_run(
    loans: pd.DataFrame, settings: dict[str, Any], tmp_path: Path, capsys: Any
) -> None:
    codes, runs = hostile_ends(tmp_path, loans, settings, most_runs=300)
    told = capsys.readouterr().err
    assert len(runs) == codes.count(0)
    assert set(runs) <= {0, 2, 3, 4}
    assert all(len(line) <= 320 for line in told.splitlines() if line.startswith("counterplay: "))
    assert "Traceback" not in told
