"""Runs a script the way a user does: a fresh interpreter, in an empty folder, without a display."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import counterplay

ROOT = Path(__file__).parents[1]


def run_python(arguments: list[str], folder: Path, limit: float) -> str:
    """Run the interpreter with ``arguments``; return its output, fail with both streams."""
    source = str(Path(counterplay.__file__).parents[1])
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH", ""))))
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    assert done.returncode == 0, f"{arguments} failed\n{done.stdout}\n{done.stderr}"
    return done.stdout


def words(output: str) -> list[str]:
    """The output without numbers, which may differ in the last digit, receipts and padding."""
    output = re.sub(r"\b[0-9A-Z]{4}(?:-[0-9A-Z]{4}){3}\b", "#", output)
    return re.sub(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?", "#", output).split()
