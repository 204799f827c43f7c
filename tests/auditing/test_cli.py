"""The command line: files in, page out, exit codes, interrupted words, other people's sections."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io

from counterplay.auditing import api
from counterplay.auditing import section as sections
from counterplay.auditing.config import Config
from counterplay.auditing.config_text import quoted
from counterplay.auditing.findings import Finding, SectionResult
from counterplay.auditing.roles import check_moves
from counterplay.auditing.section import Stage
from counterplay.cli import run
from counterplay.errors import CounterplayWarning
from counterplay.tables.model_files import read_model


@pytest.fixture
def home(
    tmp_path: Path, loans: pd.DataFrame, loan_model: Any, settings: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> Path:  # fmt: skip
    """A folder with a model, a table and a config; the working directory."""
    monkeypatch.chdir(tmp_path)
    loans.to_csv("loans.csv", index=False)
    skops.io.dump(loan_model, "model.skops")
    write_config(settings)
    return tmp_path


def write_config(settings: dict[str, Any], **more: Any) -> None:
    def inline(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{quoted(k)} = {inline(v)}" for k, v in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(inline, value)) + "]"
        return quoted(value)

    content = {"confirmed": True} | settings | more
    Path("audit.toml").write_text("\n".join(f"{k} = {inline(v)}" for k, v in content.items()))


def audit(*more: str) -> int:
    words = ["audit", "model.skops", "loans.csv", "--config", "audit.toml", "--time", "1h"]
    return run([*words, "--sections", "honest", "--out", "out", *more])


@pytest.mark.parametrize(
    ("require", "more", "code"),
    [
        ([], [], 0),
        (["honest_accuracy >= 0.2"], [], 0),
        (["honest_accuracy >= 0.999"], [], 3),
        (["honest_accuracy >= 0.75"], [], 4),
        (["honest_accuracy >= 0.75"], ["--undecided", "pass"], 0),
        (["honest_accuracy >= 0.75"], ["--undecided", "fail"], 3),
        (["honest_acuracy >= 0.75"], [], 2),
    ],
)
def test_exit_codes(
    home: Path, settings: dict[str, Any], require: list[str], more: list[str], code: int
) -> None:
    write_config(settings, gates={"require": require})
    assert audit(*more) == code


def test_gates_wait_for_confirmed_guesses(
    home: Path, settings: dict[str, Any], capsys: Any
) -> None:
    write_config(settings, gates={"require": ["honest_accuracy >= 0.2"]}, confirmed=False)
    assert audit() == 2
    assert "--accept-guesses" in capsys.readouterr().err
    assert json.loads(Path("out/audit.json").read_text())["gates"] == []
    assert audit("--accept-guesses") == 0


def test_files_for_a_server(home: Path, settings: dict[str, Any]) -> None:
    write_config(settings, gates={"require": ["honest_accuracy >= 0.999", "honest_accuracy > 0.1"]})
    assert audit("--junit", "gates.xml", "--markdown", "gates.md") == 3
    suite = xml.etree.ElementTree.parse("gates.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "0")
    text = Path("gates.md").read_text()
    assert "❌ fail" in text
    assert "honest\\_accuracy" in text


def test_last_and_plan(home: Path, settings: dict[str, Any]) -> None:
    write_config(settings, gates={"require": ["honest_money <= last + 1"]})
    assert audit() == 2  # nothing to compare with
    write_config(settings)
    assert audit() == 0
    first = json.loads(Path("out/audit.json").read_text())
    write_config(settings, gates={"require": ["honest_money <= last + 1"]})
    Path("out/audit.json").rename("last.json")
    assert audit("--against", "last.json") == 0  # paired on the same rows: no difference at all
    gate = json.loads(Path("out/audit.json").read_text())["gates"][0]
    assert "unpaired" not in gate["reason"]
    assert audit("--against", "last.json", "--plan", "last.json") == 0
    again = json.loads(Path("out/audit.json").read_text())
    assert again["sections"] == first["sections"]
    page = Path("out/audit.html").read_bytes()
    assert audit("--against", "last.json", "--plan", "last.json") == 0
    assert Path("out/audit.html").read_bytes() == page  # no clock, no seconds: byte for byte


def test_the_first_word_is_a_command_only_if_it_is_one(home: Path, capsys: Any) -> None:
    Path("init").mkdir()
    assert run(["audit", "./init", "loans.csv"]) == 2
    assert "is no model file" in capsys.readouterr().err
    assert run(["audit", "init", "loans.csv", "-o", "new.toml"]) == 0
    assert run(["audit", "chek", "audit.toml", "loans.csv"]) == 2
    assert "did you mean 'check'?" in capsys.readouterr().err
    assert run(["audit", "nothing.skops", "loans.csv"]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert run(["audit", "init", "loans.csv", "--model", "model.skops", "-o", "b.toml"]) == 0
    assert run(["audit"]) == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda f: f.iloc[:84],
            "84 rows: every interval would be wider than 20 points. 100 are needed.",
        ),
        (
            lambda f: f.assign(outcome="paid"),
            "All 240 rows have outcome 'paid': nothing to measure.",
        ),
        (
            lambda f: f.assign(outcome=np.arange(240) % 7 + 3),
            "'outcome' has 7 values. Say which are the wanted ones: positive = [7, 8, 9].",
        ),
    ],
)
def test_tables_that_cannot_be_audited(
    home: Path, loans: pd.DataFrame, change: Callable[[Any], Any], sentence: str, capsys: Any
) -> None:
    change(loans).to_csv("loans.csv", index=False)
    assert audit() == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "change", "sentence"),
    [
        ("movable", {"incme": {}}, "[movable.incme] names no column (nearest: income)."),
        ("movable", {"outcome": {"cost": 1.0}}, "[movable.outcome] is the outcome"),
        ("columns", {"fixed": ["sx"]}, "[columns] fixed: 'sx' names no column (nearest: sex)."),
        ("costs", {"false_accept": "loan"}, "[costs] false_accept = 'loan' is no number"),
        ("data", {"label": "outcom"}, "[data] label = 'outcom' names no column (nearest: "),
        ("data", {}, "Which column is the outcome? Set [data] label. Candidates: outcome"),
        ("data", {"label": "outcome"}, "Which outcome do people want? Values are 'lost' ("),
        ("movable", {"debt": {"direction": "down", "step": 2.0, "cost": -1.0}}, "[movable.debt]"),
        ("movable", {"debt": {"direction": "down", "cost": 1.0, "per": "step"}},
         '[movable.debt] per="step" needs a step'),
        ("movable", {"purpose": {"cost": 0}}, "[movable.purpose] cost must be a price above 0"),
        ("effort", {"budgets": [2, 1]}, "[effort] budgets must increase, got [2.0, 1.0]."),
        ("movable", {"purpose": {"switch": {"car": {"hme": 1.0}}}},
         "[movable.purpose] switch from 'car' to 'hme': no row has that value (nearest: 'home')."),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_the_table(
    home: Path, settings: dict[str, Any], table: str, change: dict[str, Any], sentence: str,
    capsys: Any,
) -> None:  # fmt: skip
    write_config(settings | {table: change})
    assert audit() == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert len(told) < 330


@pytest.mark.claim("27.19")
def test_the_hardened_file_decides_as_the_page_says(
    home: Path, settings: dict[str, Any], make_loans: Callable[..., pd.DataFrame]
) -> None:
    table = make_loans(300, seed=2)
    table.to_csv("loans.csv", index=False)
    few = {"effort": {"budgets": [1]}, "costs": {"false_accept": 3, "false_reject": 1}}
    write_config(settings, **few)
    words = ["audit", "model.skops", "loans.csv", "--config", "audit.toml", "--time", "1h"]
    assert run([*words, "--sections", "gaming", "--out", "out"]) == 0
    stored = json.loads(Path("out/audit.json").read_text())
    assert stored["variants"], "costs of 3 to 1 make another cut pay"
    for variant in stored["variants"]:
        assert variant["checked"]
        file = Path("out", variant["file"])
        model = read_model(file.read_bytes(), what="the file")  # the curated list alone
        assert list(model.feature_names_in_) == [c for c in table.columns if c != "outcome"]
        X = table.drop(columns="outcome")
        assert model.predict_proba(X).shape == (len(table), 2)
        assert int((model.predict(X) == "paid").sum()) == variant["accepted"]
        assert (
            f"accepts {variant['accepted']:,} of these rows" in Path("out/audit.html").read_text()
        )


def test_a_table_that_changes_during_the_run_is_said(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    assert audit() == 0
    page = Path("out/audit.html").read_bytes()
    whole = api.run_audit

    def meanwhile(*args: Any, **more: Any) -> Any:
        with Path("loans.csv").open("a") as table:
            table.write("30.0,8.0,1,car,f,paid\n")
        return whole(*args, **more)

    monkeypatch.setattr(api, "run_audit", meanwhile)
    assert audit() == 2
    assert "loans.csv changed during the run: nothing was written." in capsys.readouterr().err
    assert Path("out/audit.html").read_bytes() == page


class Counting:
    """A section of another package."""

    name, title, order, version, reads = "counting", "How many rows?", 500, 1, ()

    def needs(self, context: Any) -> list[Any]:
        return []

    def stages(self, context: Any) -> list[Stage]:
        def count(context: Any, items: Any) -> list[dict[str, Any]]:
            return [{"item": int(item), "one": 1} for item in items]

        return [
            Stage(name="count", items=context.n, n_min=1, n_want=context.n, run=count,
                  seconds=lambda pilot, n: 0.0)
        ]  # fmt: skip

    def result(self, context: Any, records: pd.DataFrame) -> SectionResult:
        sentence = f"There are {len(records)} rows <b>."
        finding = Finding(name="rows", sentence=sentence, severity="good")
        return SectionResult(name=self.name, title=self.title, findings=(finding,))


class Raising(Counting):
    """A section that does not work."""

    name, title = "raising", "Never"

    def result(self, context: Any, records: pd.DataFrame) -> SectionResult:
        raise KeyError("broken on purpose")


class Lying(Counting):
    """A section whose result is no result."""

    name, title = "lying", "Lies"

    def result(self, context: Any, records: pd.DataFrame) -> Any:
        return SectionResult(name=self.name, title=None)  # type: ignore[arg-type]


@pytest.mark.claim("27.25")
def test_sections_of_other_packages(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def points(*kinds: type) -> None:
        found = [SimpleNamespace(name=k.__name__, load=lambda k=k: k) for k in kinds]
        monkeypatch.setattr(sections, "entry_points", lambda group: found)

    def numbers() -> Any:
        stored = json.loads(Path("out/audit.json").read_text())
        (honest,) = (s for s in stored["sections"] if s["name"] == "honest")
        return honest["quantities"], stored

    points()
    assert audit() == 0
    alone, _ = numbers()
    points(Counting)
    assert audit("--sections", "honest,counting") == 0
    assert "There are 240 rows &lt;b&gt;." in Path("out/audit.html").read_text()
    for kind in (Raising, Lying):
        points(kind)
        assert audit("--sections", f"honest,{kind.name}") == 1
        assert f"section {kind.name} failed" in capsys.readouterr().err
        others, stored = numbers()
        assert others == alone
        assert [s["failed"] for s in stored["absent"] if s["name"] == kind.name] == [True]


@pytest.mark.claim("27.25")
def test_an_installed_package_brings_a_section(home: Path) -> None:
    """A package as pip leaves it: a module, and the entry point in its metadata."""
    site = home / "site"
    info = site / "counting-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[counterplay.audit_sections]\ncounting = counting:Counting\n"
    )
    source = inspect.getsource(Counting).replace("pd.DataFrame", "object")
    head = (
        "from typing import Any\nfrom counterplay.auditing import Finding, SectionResult, Stage\n"
    )
    (site / "counting.py").write_text(head + source)
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    words = ["model.skops", "loans.csv", "--config", "audit.toml", "--time", "1h", "--out", "out"]
    done = subprocess.run(
        [sys.executable, "-m", "counterplay", "audit", *words, "--sections", "honest,counting"],
        env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "There are 240 rows" in Path("out/audit.html").read_text()


@pytest.mark.claim("27.24")
def test_help_is_quick_to_import() -> None:
    code = (
        "import sys; from counterplay.cli import run; run(['audit', '--help']);"
        "bad = {'torch', 'ray', 'fastapi', 'sklearn', 'skops'} & set(sys.modules);"
        "sys.exit(f'imported {bad}' if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    module = subprocess.run(
        [sys.executable, "-m", "counterplay", "audit", "--help"], capture_output=True, text=True
    )
    assert module.returncode == 0
    assert module.stdout == done.stdout
    assert "init" in module.stdout


def test_the_demo_needs_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from counterplay.auditing import demo

    short = demo.demo_audit(sections=["honest"])
    monkeypatch.setattr(demo, "demo_audit", lambda told: short)
    assert run(["audit", "demo", "-o", str(tmp_path / "page.html")]) == 0
    assert "mean radius" in (tmp_path / "page.html").read_text()


def test_a_switch_from_a_value_that_no_row_has_is_a_warning() -> None:
    frame = pd.DataFrame({"purpose": ["car", "trip"] * 20, "good": [0, 1] * 20})
    config = Config.of(
        {"data": {"label": "good"}, "movable": {"purpose": {"switch": {"trp": {"car": 1.0}}}}}
    )
    with pytest.warns(CounterplayWarning, match=r"'trp': no row has that value \(nearest: 'trip'"):
        check_moves(config, frame)
