from __future__ import annotations

import os
from pathlib import Path

import pytest

import counterplay
from counterplay.studies import registry
from counterplay.studies.registry import RegisteredStudy, select

SAMPLE = Path(__file__).parent / "sample"


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> dict[str, RegisteredStudy]:
    """The studies of the sample area by name, registered for this test."""
    monkeypatch.syspath_prepend(str(SAMPLE))
    paths = [SAMPLE, Path(counterplay.__file__).resolve().parents[1]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
    monkeypatch.setitem(registry.MODULES, "sample", "sample_area")
    return {entry.study.name: entry for entry in select(["sample"])}
