"""What TAB offers in a shell."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from counterplay import cli
from counterplay.claims import load_claims
from counterplay.studies.outline import outlines


@pytest.fixture
def tab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Press TAB after a line, as bash asks."""

    def completed(line: str) -> list[str]:
        words = f"counterplay {line}".split(" ")
        monkeypatch.setenv("_COUNTERPLAY_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        monkeypatch.setattr(sys, "argv", ["counterplay"])
        with pytest.raises(SystemExit):
            cli.main()
        told = capsys.readouterr()
        assert told.err == ""
        return told.out.split()

    return completed


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("help ru", ["run"]),
        ("help campaign ne", ["next"]),
        ("--no-color help campaign ex", ["export"]),
        ("consortium sc", ["score"]),
        ("consortium --lab", ["--label"]),
        ("consortium a.csv --metric ro", ["roc_auc"]),
        ("audit ", ["init", "check", "show", "demo"]),
        ("studio links re", ["revoke", "reissue"]),
        ("studio links x --open", ["--open-for"]),
        ("rnu x", []),
        ("help rnu x", []),
        ("run no-such-ar", []),
        ("run no-such-area/", []),
    ],
)
def test_words_and_choices(tab, line: str, offered: list[str]) -> None:
    assert tab(line) == offered


def test_every_command_follows_help(tab) -> None:
    assert tab("help ") == list(cli.COMMANDS)


def test_areas_and_studies(tab) -> None:
    areas = {area.name: [study.id for study in area.studies] for area in outlines()}
    assert tab("run ") == list(areas)
    assert tab("run trade") == ["tradeoff", *areas["tradeoff"]]
    assert tab("report labeling/") == areas["labeling"]
    promised = {claim.area for claim in load_claims()}
    assert tab("claims --area s") == sorted(name for name in promised if name.startswith("s"))


def test_ids_of_a_studio(tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sqlalchemy")
    from counterplay.studio.settings import Settings
    from counterplay.studio.store import Store

    (tmp_path / "cars.csv").write_text("name,price,comfort\na,1,3\nb,2,5\nc,3,9\n")
    with Store.open(Settings(data=tmp_path / "studio")) as store:
        from counterplay.studio.kinds import kind_of

        raw = {
            "kind": "elicitation",
            "name": "Cars",
            "table": "cars.csv",
            "benefits": ["comfort"],
            "costs": ["price"],
        }
        config = kind_of("elicitation").read_config(raw, tmp_path)
        study = store.new_study("elicitation", "Cars", config, actor="a", open_now=True).public_id
        row = store.study(study)
        party = store.new_party(row, role="participant", label="p").public_id
        monkeypatch.chdir(tmp_path)
        assert tab("studio study close ") == [study]  # beside a writer
    with closing(sqlite3.connect(tmp_path / "studio/studio.sqlite")) as database, database:
        copied = "public_id, kind, state, version, config_hash, created_at, fold_version, "
        copied += "library_version, name"
        shown = copied.replace("public_id", "'x$(touch stolen)'")
        database.execute(f"INSERT INTO study ({copied}) SELECT {shown} FROM study")
    before = sorted((tmp_path / "studio").iterdir())
    assert tab(f"studio links {study[:4]}") == [study]
    assert tab("studio links revoke ") == [study, party]
    assert tab("studio links reissue ") == [party]
    assert tab(f"studio links reissue --data {tmp_path / 'studio'} ") == [party]
    assert tab(f"studio --data {tmp_path / 'studio'} study open ") == [study]
    assert tab("studio --data nowhere study open ") == []
    assert sorted((tmp_path / "studio").iterdir()) == before  # no file beside the database
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "studio.sqlite").write_text("no database")
    assert tab("studio study open --data bad ") == []


@pytest.mark.parametrize(
    "line",
    [
        "run str",
        "claims --area ",
        "studio study open ",
        "consortium si",
        "elicit --ben",
        "choices --pe",
    ],
)
def test_nothing_heavy_is_imported(line: str) -> None:
    """Who presses TAB does not wait for numpy."""
    words = f"counterplay {line}".split(" ")
    code = (
        "import sys\nfrom counterplay import cli\nsys.argv = ['counterplay']\n"
        "try:\n cli.main()\nexcept SystemExit: pass\n"
        "sys.exit(', '.join({'numpy', 'pandas', 'sqlalchemy'} & set(sys.modules)) or 0)"
    )
    asked = {"_COUNTERPLAY_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words),
             "COMP_CWORD": str(len(words) - 1)}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
