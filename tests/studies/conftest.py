from __future__ import annotations

import os
from pathlib import Path

import pytest

import counterplay
from counterplay.studies.registry import RegisteredStudy, select

SAMPLE = Path(__file__).parent / "sample"


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> dict[str, RegisteredStudy]:
    """The studies of the sample area by name: a third party's area, found by its entry point."""
    monkeypatch.syspath_prepend(str(SAMPLE))
    paths = [SAMPLE, Path(counterplay.__file__).resolve().parents[1]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
    return {entry.study.name: entry for entry in select(["sample"])}
