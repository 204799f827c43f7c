"""The command line as a user meets it: what is printed where, and the exit codes."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import io
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from joblib.externals.loky import get_reusable_executor
from typer.core import TyperCommand
from typer.main import get_command

import counterplay
from counterplay import addresses, claims, cli
from counterplay.commands import claims as claims_command
from counterplay.datasets import DatasetInfo, list_datasets
from counterplay.studies import registry
from counterplay.studies.outline import outlines
from counterplay.studies.store import Store

SAMPLE = Path(__file__).parent / "studies" / "sample"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with the sample area registered."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(SAMPLE))
    paths = [SAMPLE, Path(counterplay.__file__).resolve().parents[1]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
    monkeypatch.setattr(registry, "GROUP", "sample.studies")
    monkeypatch.setattr("counterplay.studies.threads.THREAD_VARIABLES", ())
    return tmp_path


def one_sentence(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    text = captured.err.strip()
    assert text.startswith("counterplay: ")
    assert "\n" not in text
    return text.removeprefix("counterplay: ")


def test_run_prints_verdicts_and_writes_figures(place: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["run", "sample/walk", "--jobs", "1"]) == 0
    output = capsys.readouterr().out
    assert output.count("holds") == 3
    assert "12 cells" in output
    assert (place / "build/figures/sample/walk-spread.png").is_file()
    assert (place / "build/figures/sample/walk-spread.svg").is_file()
    assert (place / "build/studies.sqlite").is_file()


def test_run_as_json(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["run", "sample/walk", "--jobs", "1", "--seed", "3", "--json"]) == 0
    captured = capsys.readouterr()
    (study,) = json.loads(captured.out)
    assert captured.err == ""
    assert (study["study"], study["seed"], study["cells"], study["computed"]) == (
        "sample/walk",
        3,
        12,
        12,
    )
    assert study["holds"] is True
    assert study["verdicts"][0]["claim"] == "00.01"
    assert all(Path(path).is_file() for path in study["figures"])
    numbers = json.loads(Path(study["numbers"]).read_text(encoding="utf-8"))
    assert (numbers["study"], numbers["seed"], len(numbers["cells"])) == ("sample/walk", 3, 12)


def test_the_report_says_first_where_it_is_and_then_what_to_do(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    import sample_area

    area = dataclasses.replace(sample_area.AREA, start="hold(data)")
    monkeypatch.setattr(sample_area, "AREA", area)
    with Store(place / "build/studies.sqlite", create=True):
        pass
    assert cli.run(["report", "--jobs", "1"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert lines[:4] == [
        "report  build/report.html", "What you can do with data of your own:", f"  {area.title}",
        "    hold(data)",
    ]  # fmt: skip
    assert lines[4:] == [
        "0 of 0 comparisons with theory hold",
        "left out (not run yet, add --run): sample/walk, sample/fragile",
    ]


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["run", "sample/walk", "--jobs", "1", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_two_workers_from_the_command_line(capsys: pytest.CaptureFixture[str]):
    get_reusable_executor(reuse=False).shutdown()  # the workers of another test may be dying
    assert cli.run(["run", "sample/walk", "-j", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["computed"] == 12


def test_complete_studies_are_shown_when_another_fails(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["run", "--all", "--jobs", "1"]) == 1
    captured = capsys.readouterr()
    assert captured.out.count("holds") == 3
    assert "ZeroDivisionError" in captured.err
    assert "counterplay: cell sample/fragile(x=2) failed" in captured.err


def test_check_turns_a_failed_verdict_into_an_exit_code(monkeypatch: pytest.MonkeyPatch):
    import sample_area

    arguments = ["run", "sample/walk", "--jobs", "1", "--quiet", "--check"]
    assert cli.run(arguments) == 0
    monkeypatch.setattr(sample_area.math, "sqrt", lambda x: 2.0 * x)
    assert cli.run(arguments) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "sample/wlak"], "did you mean 'sample/walk'?"),
        (["run", "sampel"], "did you mean 'sample'?"),
        (["rnu"], "did you mean 'run'?"),
        (["run"], "name a study (AREA/NAME), an area, or --all"),
        (["run", "--all", "sample"], "not both"),
        (["run", "sample", "--jobs", "0"], "jobs"),
        (["run", "sample", "--seed", "-1"], "seed"),
        (["run", "sample", "--seed", "x"], "valid int"),
        (["report", "sample", "--seed", "-1"], "--seed"),
        (["run", "sample", "--scale", "huge"], "'huge' is not one of 'quick', 'full'"),
        (["run", "sample", "--address", "x"], "--backend ray"),
        (["run", "sample", "--wrong"], "No such option"),
        (["run", "sample/fragile", "--scale", "full", "--quiet"], "there is no file three"),
        (["report"], "there is no study store"),
    ],
)
def test_mistakes_end_with_one_sentence_and_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert cli.run(arguments) == 2
    assert message in one_sentence(capsys)


def test_a_mistyped_subcommand_suggests_the_nearest_once(capsys: pytest.CaptureFixture[str]):
    for words in (["campaign", "nxt"], ["studio", "study", "lst"]):
        assert cli.run(words) == 2
        assert one_sentence(capsys).count("did you mean") == 1


def test_a_store_of_other_code_is_a_mistake_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    arguments = ["run", "sample/walk", "--jobs", "1", "--quiet"]
    assert cli.run(arguments) == 0
    monkeypatch.setattr("counterplay.studies.plan.study_fingerprint", lambda cell, data: "edited")
    assert cli.run(arguments) == 2
    assert "add --refresh to recompute" in one_sentence(capsys)
    assert cli.run([*arguments, "--refresh"]) == 0


def test_studies_whose_extra_is_missing_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("counterplay.studies.registry.extra_is_installed", lambda extra: False)
    assert cli.run(["run", "sample/walk", "--quiet"]) == 2
    assert "pip install 'counterplay[" in one_sentence(capsys)


def test_list(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["list"]) == 0
    output = capsys.readouterr().out
    assert "sample/walk" in output
    assert "Walks of a drunkard" in output
    assert cli.run(["list", "--json"]) == 0
    (area,) = json.loads(capsys.readouterr().out)
    assert [study["id"] for study in area["studies"]] == ["sample/walk", "sample/fragile"]


def test_claims(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    listed = claims.parse_claims(
        "".join(
            f'[[claim]]\nid="0{i}.01"\narea="{area}"\nstatement="It [holds] {i}."\nsource="Thm."\n'
            for i, area in enumerate(("sample", "other"))
        )
    )
    monkeypatch.setattr(claims_command, "load_claims", lambda: listed)
    assert cli.run(["claims"]) == 0
    output = capsys.readouterr().out
    assert "It [holds] 0." in output
    assert "2 claims" in output
    assert cli.run(["claims", "--json", "--area", "other"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"id": "01.01", "area": "other", "statement": "It [holds] 1.", "source": "Thm."}
    ]
    assert cli.run(["claims", "--area", "othr"]) == 2
    assert "did you mean 'other'?" in one_sentence(capsys)


def test_every_real_claim_is_printed(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["claims", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(claims.load_claims())


def test_data(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    item = DatasetInfo("iris", "table", 1500, "d", available=True, where="here")
    monkeypatch.setattr("counterplay.datasets.list_datasets", lambda: [item])
    assert cli.run(["data"]) == 0
    output = capsys.readouterr().out
    assert "iris" in output
    assert "1,500" in output
    assert cli.run(["data", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [vars(item)]


def test_help_names_every_command_and_imports_none(capsys: pytest.CaptureFixture[str]):
    code = (
        "import sys; from counterplay import cli; cli.run(['--help']);"
        "sys.exit(', '.join({'numpy', 'counterplay.commands.run'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("list", "run", "report", "claims", "data"):
        assert f"│ {name}" in done.stdout


@pytest.mark.parametrize("name", ["list", "run", "report", "claims", "data"])
def test_help_of_each_command(name: str, capsys: pytest.CaptureFixture[str]):
    assert cli.run([name, "--help"]) == 0
    output = capsys.readouterr().out
    assert f"counterplay {name}" in output
    assert "--install-completion" not in output


def test_a_new_command_is_one_row_in_the_table(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (place / "new_command.py").write_text(
        "import typer\napp = typer.Typer()\n"
        "@app.command()\ndef ask(n: int): print('asked', n)\n"
        "@app.command()\ndef tell(n: int): raise KeyError(n)\n"
    )
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setitem(cli.COMMANDS, "new", ("new_command", "A group of commands.", "new.md"))
    monkeypatch.setitem(cli.COMMANDS, "later", ("no_such_module", "Not there yet.", "later.md"))
    assert cli.run(["new", "ask", "3"]) == 0
    assert capsys.readouterr().out == "asked 3\n"
    assert cli.run(["later"]) == 2
    with pytest.raises(KeyError):  # a defect: main() leaves the traceback to Python, exit code 1
        cli.run(["new", "tell", "3"])


def test_internal_errors_have_a_traceback_and_code_1():
    code = (
        "import sys; from counterplay import cli, claims; import counterplay.commands.claims as c;"
        "c.load_claims = lambda: 1 / 0; sys.argv = ['counterplay', 'claims']; cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "ZeroDivisionError" in done.stderr


def test_an_interrupted_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(claims_command, "load_claims", interrupt)
    assert cli.run(["claims"]) == 130
    assert one_sentence(capsys) == "interrupted"


def test_module_and_script_say_their_version():
    expected = f"counterplay {counterplay.__version__}\n"
    command = [sys.executable, "-m", "counterplay", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == expected
    script = shutil.which("counterplay", path=str(Path(sys.executable).parent))
    if script is None:
        pytest.skip("the package is not installed, so there is no script")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == expected


def test_a_damaged_record_is_named_and_computed_again(
    place: Path, capsys: pytest.CaptureFixture[str]
):
    arguments = ["run", "sample/walk", "--jobs", "1", "--quiet"]
    assert cli.run(arguments) == 0
    database = sqlite3.connect(place / "build/studies.sqlite")
    database.execute("UPDATE cell SET record = 'not json' WHERE rowid = 5")
    database.commit()
    database.close()
    assert cli.run(arguments) == 2
    assert "sample/walk" in one_sentence(capsys)
    assert cli.run([*arguments, "--refresh"]) == 0
    assert cli.run(arguments) == 0


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]):
    assert cli.run([]) == 0
    assert "Machine learning when the data plays back" in capsys.readouterr().out


def command_line(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "counterplay", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, **options)


def test_a_reader_that_goes_away_ends_the_command_quietly():
    gone, kept = os.pipe()
    os.close(gone)
    for arguments in (["claims"], ["claims", "--json"], ["list"]):
        done = command_line(*arguments, stdout=kept)
        assert (done.returncode, done.stderr) == (141, ""), arguments
    os.close(kept)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_sentence():
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = command_line("claims", stdout=full)
    assert done.returncode == 74
    assert done.stderr == "counterplay: the output cannot be written: No space left on device\n"


def test_help_explains_commands(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["help", "run"]) == 0
    assert "counterplay run --all --check" in " ".join(capsys.readouterr().out.split())
    assert cli.run(["help"]) == 0
    assert "Explain one command" in capsys.readouterr().out
    assert cli.run(["help", "audit", "init"]) == 0
    assert "Usage: counterplay audit init" in " ".join(capsys.readouterr().out.split())
    assert cli.run(["hlep"]) == 2
    assert "did you mean 'help'?" in one_sentence(capsys)
    assert cli.run(["help", "rnu"]) == 2
    assert "did you mean 'run'?" in one_sentence(capsys)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_help_shows_an_example(name: str, capsys: pytest.CaptureFixture[str]):
    if importlib.util.find_spec(cli.COMMANDS[name][0]) is None:
        pytest.skip(f"{name} is not part of this build")
    assert cli.run([name, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"counterplay {name}" in shown.partition("Example")[2]
    page = Path(__file__).parents[1] / "docs" / cli.COMMANDS[name][2]
    assert page.exists()
    assert f"Guide: docs/{cli.COMMANDS[name][2]}" in shown


@pytest.mark.parametrize(
    ("words", "explained"),
    [
        (["run"], "What to run."),
        (["verify"], "An export, such as cars.jsonl."),
        (["offer"], "A table: .csv, .tsv or .parquet, one row per round."),
        (["campaign", "tell"], "CSV, or an export of Label Studio."),
        (["audit", "init"], "Table with known outcomes: CSV or Parquet."),
    ],
)
def test_help_explains_arguments(
    words: list[str], explained: str, capsys: pytest.CaptureFixture[str]
):
    assert cli.run([*words, "--help"]) == 0
    assert explained in " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_examples_stand_on_lines_of_their_own(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["run", "--help"]) == 0
    lines = [told for line in capsys.readouterr().out.splitlines() if (told := line.strip())]
    place = lines.index("Examples:")
    assert lines[place + 1 : place + 3] == [
        "counterplay run strategic/gaming", "counterplay run tradeoff --scale full"
    ]  # fmt: skip


def test_the_usage_of_an_audit_names_its_arguments_once(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["audit", "model.skops", "loans.csv", "--help"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "Usage: counterplay audit MODEL DATA [OPTIONS]" in lines


def test_what_is_missing_is_told_with_the_usage(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["audit", "loans.csv"]) == 2
    told = one_sentence(capsys)
    assert told.endswith(". Usage: counterplay audit MODEL DATA [OPTIONS]")


def test_subcommands_name_the_guide_too(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["campaign", "next", "--help"]) == 0
    assert "Guide: docs/areas/labeling.md" in " ".join(capsys.readouterr().out.split())


def test_a_release_with_an_address_links_to_it(
    installed: dict[str, str], capsys: pytest.CaptureFixture[str]
):
    installed.update(addresses.release("", "https://example.org/docs", "1.2"))
    assert cli.run(["audit", "--help"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "Guide: https://example.org/docs/1.2/audit/" in [line.strip() for line in shown]


def test_an_installed_package_without_an_address_says_where_its_guide_and_tests_are(
    installed: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(registry, "GROUP", "counterplay.studies")
    assert cli.run(["audit", "--help"]) == 0
    assert "Guide: docs/audit.md in the source archive" in capsys.readouterr().out
    assert cli.run(["claims", "2.1"]) == 0
    shown = capsys.readouterr().out
    assert "02-strategic-finite.md#prop-2-a in the source archive\n" in shown
    assert shown.endswith("\nThe tests are files of the source archive.\n")
    installed.update(addresses.release("https://example.org/counterplay", "", "1.2"))
    assert cli.run(["claims", "2.1"]) == 0
    proof = "https://example.org/counterplay/blob/v1.2/docs/theory/02-strategic-finite.md#prop-2-a"
    assert f"proof  Proposition 2.A, {proof}\n" in (shown := capsys.readouterr().out)
    assert shown.endswith("files of https://example.org/counterplay/tree/v1.2.\n")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """An installed package, without docs and tests; the addresses that it names."""
    named: dict[str, str] = {}
    monkeypatch.setattr(addresses, "_CHECKOUT", tmp_path)
    for module in (addresses, claims_command):
        monkeypatch.setattr(module, "named", lambda: named)
    return named


def test_completion_knows_commands_and_their_options():
    variables = {**os.environ, "_COUNTERPLAY_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    words = {**variables, "COMP_WORDS": "counterplay ver"}
    assert command_line(stdout=subprocess.PIPE, env=words).stdout.split() == ["verify"]


def test_no_color(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for arguments, colored in (
        (["list"], True),
        (["--no-color", "list"], False),
        (["list", "--no-color"], False),
    ):
        done = command_line(
            *arguments, stdout=subprocess.PIPE, env={**os.environ, "FORCE_COLOR": "1"}
        )
        assert ("\x1b[1m" in done.stdout) or not colored
        assert ("\x1b[3" in done.stdout) <= colored


def test_one_claim_is_shown_with_its_proof_tests_and_studies(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(registry, "GROUP", "counterplay.studies")
    assert cli.run(["claims", "2.1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "02.01  strategic"
    page = addresses.where("docs/theory/02-strategic-finite.md#prop-2-a")
    assert f"proof  Proposition 2.A, {page}" in lines
    assert any(line.startswith("test   tests/strategic/test_halving.py::") for line in lines)
    assert "study  counterplay run strategic/what-you-see" in lines
    page = addresses.where("docs/theory/02-strategic-finite.md#thm-2-1")
    assert f"proof  Theorem 2.1, {page}" in lines  # also 2.1
    assert cli.run(["claims", "median", "UPPER", "--json"]) == 0
    assert "02.01" in [claim["id"] for claim in json.loads(capsys.readouterr().out)]
    assert cli.run(["claims", "Theorem", "2.1"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("02.02  strategic")
    assert shown.count("proof  Theorem 2.1, ") == shown.count("proof  ")
    assert cli.run(["claims", "lemma", "A.1"]) == 0
    assert "proof  Lemma A.1, " in capsys.readouterr().out
    assert cli.run(["claims", "halving"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("proof  ") > 5
    assert shown.count("test   ") > 5
    assert "study  counterplay run strategic/what-you-see" in shown
    assert cli.run(["claims", "no", "such", "theorem"]) == 2
    assert "no claim is about 'no such theorem'" in one_sentence(capsys)
    assert cli.run(["claims", "thm. 2.1"]) == 0
    assert capsys.readouterr().out.startswith("02.02  strategic")
    assert cli.run(["claims", " "]) == 2
    assert "no claim is about ' '" in one_sentence(capsys)


@pytest.mark.parametrize("width", [80, 60, 40])
def test_narrow_terminals_cut_no_name_off(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(registry, "GROUP", "counterplay.studies")
    monkeypatch.setenv("COLUMNS", str(width))
    names = {
        "list": [study.id for area in outlines() for study in area.studies],
        "data": [item.name for item in list_datasets()],
        "claims": [claim.id for claim in claims.load_claims()],
    }
    for command, whole in names.items():
        assert cli.run([command]) == 0
        shown = capsys.readouterr().out
        assert "…" not in shown
        assert max(map(len, shown.splitlines())) <= width
        assert set(whole) <= set(shown.split())


@pytest.mark.skipif(os.name != "posix", reason="needs a shell that closes files")
def test_a_closed_output_is_no_defect():
    line = f"exec '{sys.executable}' -m counterplay list >&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_full_scale_without_its_data_does_no_work(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(registry, "GROUP", "counterplay.studies")
    monkeypatch.setattr("counterplay.datasets.fetching.checksum", lambda name: None)
    assert cli.run(["run", "invariance/rotated-digits", "--scale", "full"]) == 2
    assert "invariance/rotated-digits needs the data set 'mnist'" in one_sentence(capsys)
    assert not (place / "build").exists()


@pytest.mark.parametrize("command", [["run"], ["report"], ["report", "--run"]])
def test_a_folder_that_cannot_be_written_to_is_refused_before_any_work(
    command: list[str], place: Path, capsys: pytest.CaptureFixture[str]
):
    store = ["--store", str(place / "kept.sqlite")]
    assert cli.run(["run", "sample/walk", *store, "-q", "--jobs", "1"]) == 0
    before = (place / "kept.sqlite").read_bytes()
    (place / "taken").write_text("a file, no folder")
    for folder in ("taken", "taken/below"):
        assert cli.run([*command, "sample/walk", *store, "--out", folder]) == 2
        assert f"{folder} cannot be written to (" in one_sentence(capsys)
    assert (place / "kept.sqlite").read_bytes() == before


def test_a_file_that_cannot_be_written_is_one_sentence(
    place: Path, capsys: pytest.CaptureFixture[str]
):
    rows = "\n".join(f"{i},{i % 2}" for i in range(120))
    (place / "loans.csv").write_text(f"debt,class\n{rows}\n")
    (place / "taken").write_text("a file, no folder")
    (place / "folder").mkdir()
    for target, why in (("taken/audit.toml", "taken cannot be used: File exists"),
                        ("folder", "folder cannot be used: Is a directory")):  # fmt: skip
        assert cli.run(["audit", "init", "loans.csv", "--force", "-o", target]) == 2
        assert why in one_sentence(capsys)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_names_that_the_encoding_lacks_are_no_defect(place: Path, encoding: str):
    rows = "\n".join(f"{x},{i}" for i in range(20) for x in ("K\u00f6ln", "\u2264 5"))
    (place / "log.csv").write_text(f"arm,money\n{rows}\n", encoding="utf-8")
    options = ["--offer", "arm", "--outcome", "money", "--terms", "arms"]
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    command = [sys.executable, "-m", "counterplay", "offer", "log.csv", *options]
    done = subprocess.run(command, capture_output=True, check=False, env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"ln: " in done.stdout
    raw = subprocess.run([*command, "--json"], capture_output=True, check=True, env=env).stdout
    found = json.loads(raw.decode("utf-8"))
    assert {row["offer"] for row in found["response"]} == {"K\u00f6ln", "\u2264 5"}


def help_of_every_command() -> Iterator[tuple[list[str], list[str]]]:
    """Yield words and the lines of their help, in a terminal of 80 columns."""
    waiting = [[name] for name in cli.COMMANDS]
    while waiting:
        words = waiting.pop()
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            assert cli.run([*words, "--help"]) == 0
        yield words, [line.strip() for line in output.getvalue().splitlines()]
        command = get_command(importlib.import_module(cli.COMMANDS[words[0]][0]).app)
        for word in words[1:]:
            command = command.commands[word]
        waiting += [[*words, n] for n in getattr(command, "commands", {}) if not n.isupper()]


def test_every_example_can_be_pasted(monkeypatch: pytest.MonkeyPatch):
    """No line of an example is broken, and the command line takes it."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    pytest.importorskip("fastapi")
    taken: list[list[str]] = []

    def read_only(self: TyperCommand, context: Any) -> None:
        taken.append(list(context.params))

    count = 0
    for words, lines in list(help_of_every_command()):
        start = next((i for i, x in enumerate(lines) if x in ("Example:", "Examples:")), None)
        assert start is not None, f"counterplay {' '.join(words)} shows no example"
        guide = next(i for i, line in enumerate(lines) if line.startswith("Guide: "))
        text = "\n".join(lines[start + 1 : guide]).replace(" \\\n", " ")
        for line in text.splitlines():
            program, *arguments = shlex.split(line)
            assert program == "counterplay", line
            with monkeypatch.context() as patch:
                patch.setattr(TyperCommand, "invoke", read_only)
                patch.setattr("counterplay.commands.studio.settings_of", stop)
                assert cli.run(arguments) == 0, line
            count += 1
    assert len(taken) > 40
    assert count >= len(taken)


def stop(*given: object, **more: object) -> None:
    raise typer.Exit
