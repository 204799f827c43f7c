"""What users write in their first hour runs unchanged.

The scripts are looked for in the folder named by ``COUNTERPLAY_JOURNEYS``, by default
``../shared/journeys`` next to the repository; without such a folder there is nothing to run.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from scripts import ROOT, run_python

LIMIT_SECONDS = 300
MODULES_OF_EXTRA = {
    "convex": ("cvxpy", "clarabel"),
    "data": ("pyarrow", "PIL"),
    "federated": ("torch", "flwr"),
    "gym": ("mo_gymnasium",),
    "ray": ("ray",),
    "river": ("river",),
}


def folder() -> Path:
    return Path(os.environ.get("COUNTERPLAY_JOURNEYS") or ROOT.parent / "shared" / "journeys")


JOURNEYS = sorted(folder().glob("*.py"))


def missing(script: Path) -> str:
    """Return why the script cannot run here, or an empty text."""
    tree = ast.parse(script.read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    for node in imports:
        module = node.module or ""
        spec = importlib.util.find_spec(module) if module.startswith("counterplay.") else None
        if module.startswith("counterplay.") and (spec is None or spec.origin is None):
            return f"{module} is not installed"
    extra = re.match(r"extra: (\w+)", ast.get_docstring(tree) or "")
    for module in MODULES_OF_EXTRA[extra[1]] if extra else ():
        if importlib.util.find_spec(module) is None:
            return f"extra {extra[1]} is not installed: no {module}"
    return ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("from counterplay.no_such_area import x", "counterplay.no_such_area is not installed"),
        ('"""extra: gym. Title."""\nfrom counterplay import datasets', "mo_gymnasium"),
        ('"""Title."""\nfrom counterplay import datasets', ""),
    ],
)
def test_what_cannot_run_is_recognised(
    text: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "journey.py"
    script.write_text(text)
    monkeypatch.setitem(MODULES_OF_EXTRA, "gym", ("mo_gymnasium_that_is_not_there",))
    assert reason in missing(script)
    assert bool(missing(script)) == bool(reason)


@pytest.mark.parametrize("script", JOURNEYS, ids=lambda path: path.stem)
def test_journey(script: Path, tmp_path: Path) -> None:
    if reason := missing(script):
        pytest.skip(reason)
    run_python([str(script)], tmp_path, LIMIT_SECONDS)
