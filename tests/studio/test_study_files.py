"""Studies in TOML files: whatever a field holds, there is one sentence and no traceback."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from counterplay import cli
from counterplay.errors import CounterplayError
from counterplay.studio.kinds import kind_of

FIELDS: dict[str, dict[str, Any]] = {
    "elicitation": {
        "kind": "elicitation", "name": "Cars", "table": "cars.csv", "name_column": "name",
        "benefits": ["comfort"], "costs": ["price"], "target_regret": 0.05, "confidence": 0.95,
        "errors": 0.1, "jnd": 0.0, "max_questions": 20, "seed": 3, "units": {"price": "EUR"},
        "consent": "", "either": [], "locale": "en",
    },
    "campaign": {
        "kind": "campaign", "name": "Scans", "table": "scans.csv", "owner": "site",
        "classes": ["0", "1"], "id": "case", "max_error": 0.1, "confidence": 0.95,
        "scope": "union", "seed": 5, "features": ["size"], "noise": 0.0, "first_to": 1,
        "free": "own", "stake": 0, "batch": 5, "names_open": True, "known_column": "known",
    },
    "guard": {
        "kind": "guard", "name": "Loans", "models": ["v1", "v2"], "safe": "v1", "rate": 0.05,
        "burst": 5.0, "horizon": 1000, "max_delay": 5, "purse": 3.0, "champion": "v1", "seed": 3,
        "policy": "guaranteed", "missing": "ignore", "mode": "live", "valid_for_s": 60,
    },
    "audit": {
        "kind": "audit", "name": "Loans", "table": "cars.csv", "sections": ["gaming"],
        "model": "model.onnx",
    },
}  # fmt: skip
ODD = [
    "x", "", "\0", "x" * 5_000, "../../etc/passwd", -1, 0, 2**70, 1.5, float("inf"), float("nan"),
    True, [], [[]], ["a", ""], [1, 2], [{"a": 1}], {}, {"a": {}}, datetime.date(2020, 1, 1),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("studies")
    (place / "cars.csv").write_text("name,comfort,price\na,1,10\nb,2,20\nc,3,15\n")
    rows = "".join(f"c{i},{i % 7},{'ab'[i % 2]},{'1' if i % 9 == 0 else ''}\n" for i in range(60))
    (place / "scans.csv").write_text(f"case,size,site,known\n{rows}")
    return place


@pytest.mark.filterwarnings("ignore:a burst of")
@pytest.mark.parametrize(("kind", "field"), [(k, f) for k in FIELDS for f in [*FIELDS[k], "speed"]])
def test_a_field_of_the_wrong_kind_is_one_sentence(kind: str, field: str, folder: Path) -> None:
    for odd in ODD:
        told = "taken"
        try:
            kind_of(kind).read_config({**FIELDS[kind], field: odd}, folder)
        except CounterplayError as error:
            told = str(error)
        assert 0 < len(told) < 600
        assert "\n" not in told


@pytest.mark.parametrize("kind", FIELDS)
def test_the_fields_themselves_are_good(kind: str, folder: Path) -> None:
    kind_of(kind).read_config(FIELDS[kind], folder)


def test_the_command_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "study.toml"
    file.write_text('kind = "guard"\nmodels = ["a", "b"]\nsafe = []\nrate = 0.1\nburst = 1\n')
    assert cli.run(["studio", "study", "new", str(file), "--data", str(tmp_path / "d")]) == 2
    told = capsys.readouterr().err
    assert "safe" in told
    assert "Traceback" not in told


def test_known_labels_beside_empty_cells(folder: Path) -> None:
    """A column of 1 and nothing is read as 1.0: it is the label 1 all the same."""
    known = kind_of("campaign").read_config(FIELDS["campaign"], folder)["known"]
    assert dict(known) == dict.fromkeys(range(0, 60, 9), 1)
