"""`import counterplay` is fast because it brings in nothing heavy."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from counterplay import AREAS
from scripts import run_python

HEAVY = ("torch", "flwr", "ray", "matplotlib", "pandas", "sklearn", "mo_gymnasium", "cvxpy")
BEHIND_EXTRAS = ("torch", "flwr", "ray", "matplotlib", "mo_gymnasium", "cvxpy", "river")


def loaded_by(statement: str, folder: Path) -> set[str]:
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    return set(json.loads(run_python(["-c", code], folder, 120).splitlines()[-1]))


@pytest.mark.parametrize("module", ["counterplay", "counterplay.errors", "counterplay.datasets"])
def test_import_brings_in_nothing_heavy(module: str, tmp_path: Path) -> None:
    loaded = loaded_by(f"import {module}", tmp_path)
    assert module in loaded
    assert loaded.isdisjoint(HEAVY), f"{module} imports {loaded.intersection(HEAVY)}"


@pytest.mark.parametrize("area", AREAS)
def test_areas_import_no_optional_package(area: str, tmp_path: Path) -> None:
    spec = importlib.util.find_spec(f"counterplay.{area}")
    if spec is None or spec.origin is None:
        pytest.skip(f"counterplay.{area} is not installed")
    loaded = loaded_by(f"import counterplay.{area}", tmp_path)
    assert loaded.isdisjoint(BEHIND_EXTRAS), f"{area} imports {loaded.intersection(BEHIND_EXTRAS)}"
