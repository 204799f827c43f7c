from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from counterplay.studies.provenance import current_provenance
from counterplay.studies.results import (
    Incomplete,
    StudyResult,
    figure_folder,
    load_result,
    render_figures,
)
from counterplay.studies.runner import run_studies
from counterplay.studies.store import Store


@pytest.fixture
def result(tmp_path: Path, sample) -> StudyResult:
    with Store(tmp_path / "s.sqlite") as store:
        run_studies([sample["walk"]], store, jobs=1, progress=False)
        found = load_result(sample["walk"], store)
    assert isinstance(found, StudyResult)
    return found


def test_frame_has_parameters_and_record_in_the_order_of_the_grid(result: StudyResult):
    frame = result.frame
    assert list(frame["steps"]) == [16] * 4 + [64] * 4 + [256] * 4
    assert list(frame["replicate"]) == [0, 1, 2, 3] * 3
    assert frame["even"].dtype == bool
    assert np.isnan(frame["never"]).all()
    assert set(frame["beyond"]) == {-math.inf}
    assert frame["label"][0] == "walk 16 µ"


def test_verdicts_command_and_origin(result: StudyResult):
    assert result.holds
    assert len(result.verdicts) == 3
    assert result.command == "counterplay run sample/walk"
    assert result.provenance == (current_provenance(),)
    assert result.wall_time > 0


def test_missing_and_stale_cells_are_told_apart(tmp_path: Path, sample):
    with Store(tmp_path / "s.sqlite") as store:
        nothing = load_result(sample["walk"], store)
        assert isinstance(nothing, Incomplete)
        assert (nothing.missing, nothing.stale) == (12, ())


def test_figures_are_the_same_bytes_in_any_process(
    result: StudyResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (first,) = render_figures([result])
    monkeypatch.setattr("counterplay.studies.results._WORTH_WORKERS", 1)
    second, third = render_figures([result, result], jobs=2)
    assert first == second == third
    assert [figure.name for figure in first] == ["spread", "two-panels"]
    folder = figure_folder(result.entry, tmp_path)
    paths = first[0].write(folder, "walk")
    assert paths == tuple(
        tmp_path / "figures" / "sample" / f"walk-spread.{kind}" for kind in ("png", "svg")
    )
    assert paths[0].read_bytes() == first[0].png
    assert first[0].png.startswith(b"\x89PNG")
    assert paths[1].read_bytes() == first[0].svg
    assert b"<svg" in first[0].svg


def test_numbers_lie_beside_the_figures_exact_and_reproducible(result: StudyResult, tmp_path: Path):
    folder = figure_folder(result.entry, tmp_path)
    path = result.write_numbers(folder)
    assert path == tmp_path / "figures" / "sample" / "walk.json"
    text = path.read_text(encoding="utf-8")

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    stored = json.loads(text, parse_constant=refuse)
    assert (stored["study"], stored["scale"], stored["seed"]) == ("sample/walk", "quick", 0)
    assert stored["command"] == result.command
    assert stored["verdicts"] == [vars(verdict) for verdict in result.verdicts]
    frame = pd.DataFrame(stored["cells"])
    assert list(frame.columns) == list(result.frame.columns)
    assert {row["never"] for row in stored["cells"]} == {None}
    assert {row["beyond"] for row in stored["cells"]} == {"-inf"}
    for name in set(frame.columns) - {"never", "beyond"}:
        assert frame[name].tolist() == result.frame[name].tolist()
    assert result.write_numbers(folder).read_text(encoding="utf-8") == text
