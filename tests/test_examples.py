"""Every example runs as it is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from scripts import ROOT, run_python

LIMIT_SECONDS = 120  # an example takes less than 20 s on an idle machine
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example(script: Path, tmp_path: Path) -> None:
    output = run_python([str(script)], tmp_path, LIMIT_SECONDS)
    assert output.strip(), f"{script.name} prints nothing"
