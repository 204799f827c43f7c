"""What `make lint` runs, beside the other tests: types, style, import rules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    ["mypy", "ruff format --check .", "ruff check .", "lint-imports"],
)
def test_lint(command: str) -> None:
    program, *arguments = command.split()
    if not (BIN / program).exists():
        pytest.skip(f"{program} is not installed")
    done = subprocess.run(
        [BIN / program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
