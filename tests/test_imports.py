"""`import counterplay` is fast because it brings in nothing heavy."""

from __future__ import annotations

import importlib.util
import json
import os
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


READ_ONLY = """
import os, stat
os.environ.pop("NUMBA_CACHE_DIR", None)
os.environ.pop("XDG_CACHE_HOME", None)
os.environ["HOME"] = os.path.abspath("home")  # a file: nothing can be made below it
seen, os.access = os.access, lambda path, mode, **more: False  # an installation of somebody else
import counterplay
os.access = seen
folder = os.environ["NUMBA_CACHE_DIR"]
assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700  # what is in it will be executed
from counterplay.invariance import groups
assert groups.sequence_reversal(2).canonical([[2.0, 1.0]]).tolist() == [[1.0, 2.0]]
assert any(name.endswith(".nbi") for _, _, names in os.walk(folder) for name in names)
print(folder)
"""


@pytest.mark.skipif(os.name != "posix", reason="modes of folders as on POSIX")
def test_import_needs_no_folder_that_can_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    folder = run_python(["-c", READ_ONLY], tmp_path, 120).strip()
    assert Path(folder).name.startswith("counterplay-")
    assert not Path(folder).exists()  # gone with the process
