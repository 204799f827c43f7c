"""What users write in their first hour: every script of ``tests/journeys`` runs as it is."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from scripts import ROOT, run_script

LIMIT_SECONDS = 300
MODULES_OF_EXTRA = {
    "convex": ("cvxpy", "clarabel"),
    "data": ("pyarrow", "PIL"),
    "federated": ("torch", "flwr"),
    "gym": ("mo_gymnasium",),
    "ray": ("ray",),
    "river": ("river",),
}


JOURNEYS = sorted((ROOT / "tests" / "journeys").glob("j*.py"))


def missing(script: Path) -> str:
    """Return why the script cannot run here (the extra of its first line), or an empty text."""
    title = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    extra = re.match(r"extra: (\w+)", title)
    for module in MODULES_OF_EXTRA[extra[1]] if extra else ():
        if importlib.util.find_spec(module) is None:
            return f"extra {extra[1]} is not installed: no {module}"
    return ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
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
    run_script(script, tmp_path, LIMIT_SECONDS)
