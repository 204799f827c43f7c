"""The command ``counterplay consortium`` and the Flower app that it writes."""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import counterplay
from counterplay import cli

NAMES = ["no'rth", 'so"uth', "=cmd()", "<script>alert(1)"]


def clinic(n: int, seed: int, word: str = "A") -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age, ward = rng.normal(50, 15, n), rng.choice([word, "B", "C"], n)
    sick = (age - 50) / 15 + (ward == word) + rng.normal(scale=0.6, size=n) > 0.4
    frame = pd.DataFrame({"age": age, "ward": ward, "y": np.where(sick, "sick", "well")})
    frame.loc[rng.random(n) < 0.05, "age"] = np.nan
    return frame


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    names = ["north", "south", "east", "west"]
    for i, (name, n) in enumerate(zip(names, (150, 100, 80, 60))):
        clinic(n, i).to_csv(f"{name}.csv", index=False)
    return [f"{name}.csv" for name in names]


def run(*arguments: str) -> int:
    return cli.run(["consortium", *arguments])


@pytest.mark.claim("23.31")
def test_from_files_to_a_plan(tables: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--label", "y", "--target", "within=0.03", "--budget", "65"]
    assert run(*tables, *settings, "--out", "plan.html") == 0
    text = capsys.readouterr().out
    places = [text.index(word) for word in ("measured:", "recommended:", "north:", "not covered")]
    assert places == sorted(places)
    page = Path("plan.html").read_text()
    assert "<html" in page
    assert 'name="viewport"' in page  # and nothing wider than a phone but inside a box that scrolls
    assert page.count("<table") == page.count('<div class="wide"><table') == 1
    assert run(*tables, *settings, "--json") == 0
    content = json.loads(capsys.readouterr().out)
    assert set(content["plans"]["share"]["sites"]) == {"north", "south", "east", "west"}
    assert content["confidence"] == pytest.approx(0.9)
    whole = pd.concat([pd.read_csv(t).assign(site=t[:-4]) for t in tables])
    whole.to_csv("all.csv", index=False)
    assert run("all.csv", "--site-column", "site", *settings, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 4


@pytest.mark.claim("23.31")
def test_names_of_sites_are_as_in_the_file_and_lost_rows_are_counted(
    tables: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [pd.read_csv(t) for t in tables[:2]]
    parts[0].loc[:4, "y"] = None
    whole = pd.concat([parts[0].assign(site="007"), parts[1].assign(site="012")])
    names = whole["site"].to_numpy(dtype=object)
    names[5:8], names[-3:] = " 007 ", None
    whole.assign(site=names).to_csv("all.csv", index=False)
    settings = ["--label", "y", "--target", "within=0.05", "--budget", "60", "--json"]
    assert run("all.csv", "--site-column", "site", *settings) in (0, 3)
    content = json.loads(capsys.readouterr().out)
    assert {row["site"]: row["owned"] for row in content["rows"]} == {"007": 145, "012": 97}
    warnings = " ".join(content["warnings"])
    assert "3 rows of all.csv name no site and are left out" in warnings
    assert "5 rows of 007 have no label and are left out" in warnings


def test_labels_coded_in_two_ways_are_no_consortium(
    tables: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.read_csv("south.csv")
    frame.assign(y=(frame["y"] == "sick").astype(int)).to_csv("south.csv", index=False)
    assert run(*tables[:2], "--label", "y") == 2
    told = capsys.readouterr().err
    assert "north has none of the labels of the other sites" in told
    assert "'sick', 'well' against 0, 1" in told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--target", "acuracy=0.8"], "target must be 'within=0.01', 'accuracy=0.85'"),
        (["--target", "accuracy=85"], "accuracy must be between 0 and 1, got 'accuracy=85'"),
        (["--cap", "north=999"], "cap of north is 999, but it owns 150 rows"),
        (["--cost", "nroth=2"], "did you mean 'north'?"),
        (["--cost", "north=0"], "the cost of north must be positive"),
        (["--flower", "kept"], "kept is not empty; use --force"),
        (["--flower", "taken"], "taken is not empty"),
        (["--out", "kept"], "kept is a folder; name a file in it"),
        (["--out", "taken/plan.html"], "taken/plan.html cannot be written: "),
    ],
)
def test_mistakes_are_told_before_anything_is_fitted(
    options: list[str], told: str, tables: list[str], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    Path("kept").mkdir()
    Path("kept/notes.txt").write_text("mine")
    Path("taken").write_text("a file, no folder")
    monkeypatch.setattr(
        "counterplay.contribution.sites.measuring.Measurement._fit",
        lambda *job: pytest.fail("a model was fitted"),
    )
    before = sorted(Path.cwd().rglob("*"))
    assert run(*tables, "--label", "y", *options) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert told in captured.err
    assert captured.err.splitlines()[-1].startswith("counterplay: ")
    assert "Traceback" not in captured.err
    assert sorted(Path.cwd().rglob("*")) == before


def test_sites_that_one_model_does_not_suit_end_without_a_promise(
    tables: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    for name, sign in (("left", 1.0), ("right", -1.0)):
        X = rng.normal(size=(400, 2))
        sick = sign * (X[:, 0] + 0.3 * rng.normal(size=400)) > 0
        pd.DataFrame(X, columns=["a", "b"]).assign(y=sick).to_csv(f"{name}.csv", index=False)
    assert run("left.csv", "right.csv", "--label", "y", "--budget", "60") == 3
    text = capsys.readouterr().out
    assert "recommended: no joint plan" in text
    assert "under a common share, which is not recommended:" in text


@pytest.mark.claim("23.31")
def test_points_instead_of_rows(tables: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for table in tables[:2]:
        out = table.replace(".csv", ".json")
        assert run("site", table, "--label", "y", "--peers", "other", "--out", out) == 0
    assert "no row is in it" in capsys.readouterr().out
    code = run("--points", "*.json", "--target", "within=0.05")
    assert code in (0, 3)
    assert "points from files" in capsys.readouterr().out


@pytest.mark.claim("23.40")
def test_models_travel_and_rows_stay(tables: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for table in tables[:2]:
        out = table.replace(".csv", ".models.json")
        assert run("models", table, "--label", "y", "--out", out) == 0
    assert "models of few rows tell something" in capsys.readouterr().out
    scored = ["--label", "y", "--models", "*.models.json", "--out"]
    Path("points").mkdir()
    for table in tables[:2]:
        assert run("score", table, *scored, f"points/{table}.json") == 0
    assert "no row is in it" in capsys.readouterr().out
    assert run("--points", "points/*.json", "--target", "within=0.1") in (0, 3)
    assert "no mixture of sites was tried" in capsys.readouterr().out
    for bad, sentence in (
        (["score", tables[0], "--label", "y", "--out", "x.json"], "Missing option '--models'"),
        (["score", tables[2], *scored, "x.json"], "models of east and of at least one other"),
        (["models", tables[0], "--label", "y"], "Missing option '--out'"),
        (["score", tables[0], *scored[:2], "--models", "none*", "--out", "x"], "no file matches"),
    ):
        assert run(*bad) == 2
        assert sentence in capsys.readouterr().err


@pytest.mark.claim("23.41")
def test_an_app_is_written_from_descriptions(
    tables: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for table in tables:
        assert run("describe", table, "--label", "y", "--out", table.replace("csv", "json")) == 0
    assert "no row is in it" in capsys.readouterr().out
    files = [table.replace("csv", "json") for table in tables]
    assert run("app", *files, "--flower", "out", "--cap", "north=50") == 0
    assert "--run-config measure=true" in capsys.readouterr().out
    plan = json.loads(Path("out/app/plan.json").read_text())
    assert [site["rows"] for site in plan["sites"]] == [50, 100, 80, 60]
    assert run("app", "--flower", "out2") == 2
    assert "Missing argument 'SITES...'" in capsys.readouterr().err


@pytest.mark.claim("23.31")
def test_bad_files_end_with_one_sentence(
    tables: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty.csv").write_text("")
    Path("tiny.csv").write_text("age,ward,y\n1,A,sick\n2,B,well\n")
    Path("binary.csv").write_bytes(bytes(range(256)))
    pd.read_csv("east.csv").drop(columns="ward").to_csv("lacks.csv", index=False)
    Path("sub").mkdir()
    Path("sub/north.csv").write_text(Path("north.csv").read_text())
    cases = [
        ([*tables, "--label", "z"], "north.csv has no column 'z'"),
        (["north.csv", "south.csv", "lacks.csv", "--label", "y"], "lacks.csv lacks 'ward'"),
        (["north.csv", "empty.csv", "--label", "y"], "empty.csv"),
        (["north.csv", "binary.csv", "--label", "y"], "binary.csv"),
        (["north.csv", "tiny.csv", "--label", "y"], "tiny has 2 rows"),
        (["north.csv", "--label", "y"], "at least two sites"),
        (["north.csv", "sub/north.csv", "--label", "y"], "two tables are called 'north'"),
        (["north.csv", "gone.csv", "--label", "y"], "gone.csv"),
        ([*tables, "--label", "y", "--budget", "9"], "4 sites need at least 65 fits; got 9"),
        ([*tables, "--label", "y", "--metric", "f1"], "'f1' is not one of 'accuracy'"),
        ([*tables, "--label", "y", "--cost", "north"], "--cost must be SITE=NUMBER"),
        ([*tables], "--label"),
    ]
    for arguments, message in cases:
        assert run(*arguments) == 2
        error = capsys.readouterr().err
        assert message in error
        assert "Traceback" not in error
        assert len(error) <= 330


def written(folder: Path, names: list[str], word: str) -> dict[str, bytes]:
    """Plan sites with these names and write the app; return its files but plan.json."""
    folder.mkdir()
    tables = []
    for i, name in enumerate(names):
        frame = clinic(60 + 20 * i, i, word)
        path = folder / f"{name}.csv"
        frame.rename(columns={"ward": f"ward {word}"}).to_csv(path, index=False)
        tables.append(str(path))
    out = folder / "out"
    code = run(*tables, "--label", "y", "--target", "within=0.05", "--budget", "65", "--out",
               str(folder / "page.html"), "--flower", str(out))  # fmt: skip
    assert code == 0
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != "plan.json"
    }


@pytest.mark.claim("23.30")
@pytest.mark.claim("23.38")
def test_names_never_become_code_and_the_app_rehearses(tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    pytest.importorskip("torch")
    plain = written(tmp_path / "plain", ["a", "b", "c", "d"], "A")
    hostile = written(tmp_path / "hostile", NAMES, '"]\nimport os #')
    assert plain == hostile
    assert set(plain) == {
        "README.md", "app/__init__.py", "app/client_app.py", "app/server_app.py", "app/task.py",
        "pyproject.toml", "rehearse.py",
    }  # fmt: skip
    page = (tmp_path / "hostile" / "page.html").read_text()
    assert "<script>alert" not in page
    assert html.escape(NAMES[3]) in page
    out = tmp_path / "hostile" / "out"
    source = str(Path(counterplay.__file__).resolve().parents[1])
    done = subprocess.run(
        [sys.executable, str(out / "rehearse.py"), "--rounds", "30"],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": source}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Nobody left" in done.stdout
    plan = json.loads((out / "app" / "plan.json").read_text())
    for i, site in enumerate(plan["sites"]):
        assert f"rows used by site {i}: {site['rows']} of {site['owned']}" in done.stdout
    assert run("x.csv", "--label", "y", "--flower", str(out)) == 2


def test_a_full_folder_is_not_written_over(
    tables: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("out").mkdir()
    Path("out/mine.txt").write_text("mine")
    settings = ["--label", "y", "--target", "within=0.05", "--budget", "65", "--flower", "out"]
    assert run(*tables, *settings) == 2
    assert "out is not empty; use --force" in capsys.readouterr().err
    assert run(*tables, *settings, "--force") == 0
    assert Path("out/mine.txt").read_text() == "mine"
