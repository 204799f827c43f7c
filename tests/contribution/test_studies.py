"""The studies of the area: cells are pure, verdicts hold, figures can be drawn."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from counterplay.errors import InvalidInputError
from counterplay.federated.arrays import subnormals_kept
from counterplay.studies.contribution import AREA, emnist_figures, emnist_verdicts

ROOT = Path(__file__).parents[2]
FAST = [study for study in AREA.studies if study.name not in ("defection", "eight", "search")]


@pytest.mark.parametrize("study", FAST, ids=lambda study: study.name)
def test_quick_study(study: Any) -> None:
    params = list(study.grid("quick"))
    frame = pd.DataFrame([{**p, **study.cell(p, 17 + i)} for i, p in enumerate(params)])
    assert repr(study.cell(params[0], 17)) == repr(study.cell(params[0], 17))
    verdicts = study.verdicts(frame)
    assert verdicts
    assert [v.statement for v in verdicts if not v.holds] == []
    assert {v.claim for v in verdicts} <= set(study.claims)
    for draw in study.figures.values():
        assert draw(frame).axes


def test_defection_study_figures_from_small_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    from counterplay.studies.contribution import defection_digits as module

    monkeypatch.setattr(module, "RUNS", 2)
    frame = pd.DataFrame([module.cell({"block": b, "shares": "3"}, 0) for b in range(2)])
    assert len(module.verdicts(frame)) == 2
    for draw in module.STUDY.figures.values():
        assert draw(frame).axes


def test_search_study_from_small_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    from counterplay.studies.contribution import search as module

    monkeypatch.setattr(module, "STEPS", 30)
    frame = pd.DataFrame([{"block": b, **module.cell({"block": b}, 0)} for b in range(2)])
    assert len(module.collected(frame).lr) == 40
    (verdict,) = module.verdicts(frame)
    assert "40 draws" in verdict.measured
    assert module.draw(frame).axes


@pytest.mark.claim("04.42")
def test_eight_parties() -> None:
    from counterplay.studies.contribution import defection_digits as module

    rows = [{"agents": k, "block": 0, "runs": 4} for k in (4, 8)]
    frame = pd.DataFrame([{**row, **module.cell_of_eight(row, 0)} for row in rows])
    assert [v.statement for v in module.verdicts_of_eight(frame) if not v.holds] == []
    assert frame["FedAvg_hard"].tolist() == [0.5, 0.5]  # equal shares in federated averaging
    assert module.draw_eight(frame).axes


def fake_results() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    cells = []
    for algorithm, rate in (("FedAvg", 0.9), ("MWFed", 0.4)):
        for fraction in (1.0, 0.25):
            outcome = (rng.random(40) < rate).astype(int).tolist()
            cells.append(
                {
                    "algorithm": algorithm,
                    "fraction": fraction,
                    "defector": [0] * 40,
                    "satisfied_at_end": outcome,
                    "satisfied_by_round": [0.0, rate / 2, rate],
                }
            )
    solo = [{"fraction": f, "accuracy": [[0.5, 0.6, 0.7]] * 4} for f in (1.0, 0.5)]
    return {
        "format": "counterplay-contribution-emnist-1",
        "rounds": 2,
        "runs": 40,
        "threshold": 0.7,
        "cells": cells,
        "solo": solo,
    }


def test_emnist_figures_come_from_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "emnist.json"
    path.write_text(json.dumps(fake_results()))
    assert set(emnist_figures(path)) == {"success", "rounds", "solo"}
    (verdict,) = emnist_verdicts(path)
    assert verdict.holds
    with pytest.raises(InvalidInputError, match="no pair of cells"):
        emnist_verdicts(path, share=0.5)
    path.write_text("{}")
    with pytest.raises(InvalidInputError, match="gpu_contribution"):
        emnist_figures(path)


def test_gpu_script_runs_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole pipeline of the script on random images, in its smallest size."""
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    raw, data, out = (tmp_path / name for name in ("raw.npz", "small.npz", "out.json"))
    images, labels = rng.integers(0, 256, (600, 28, 28), dtype=np.uint8), rng.integers(0, 47, 600)
    np.savez(raw, xtrain=images, ytrain=labels, xtest=images[:9], ytest=labels[:9])
    script = runpy.run_path(str(ROOT / "benchmarks" / "gpu_contribution.py"))
    kept = {name: module for name, module in sys.modules.items() if name.startswith("counterplay")}
    path = list(sys.path)
    try:
        script["convert"](str(raw), str(data))
        words = f"run {data} --out {out} --device cpu --minutes 0.001 --runs 2 --rounds 1"
        words += " --eval-points 2 --size 8 --train 6 --split 400 100 --scorers 1"
        words += " --scorer-steps 2 --pretrain-steps 2 --speed-rounds 1 --solo-rounds 1"
        words += " --search-draws 2 --search-steps 1 --speed-repeats 1"
        script["run"](script["parser"]().parse_args(words.split()))
    finally:  # the script replaces the area by a bare package
        sys.modules.update(kept)
        sys.path[:] = path
    assert subnormals_kept()  # the script turns them off while it trains on a CPU
    result = json.loads(out.read_text())
    finished = sum(len(result[name]) for name in ("cells", "solo", "eight", "skipped"))
    assert finished + ("search" in result) == 14 + 3 + 8 + 1
    assert result["speed"]["ratio"] > 0
    assert [c["algorithm"] for c in result["cells"][:2]] == ["FedAvg", "MWFed"]
    assert len(result["cells"][0]["defector"]) == 2
