"""Runs scripts the way a user does: in an empty folder, without a display."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import counterplay

ROOT = Path(__file__).parents[1]


def _environment() -> dict[str, str]:
    source = str(Path(counterplay.__file__).parents[1])
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path, "MPLBACKEND": "Agg"}


@functools.cache
def _nursery() -> subprocess.Popen[str]:
    """The process that forks the scripts of this worker; it ends with its standard input."""
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("nursery.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_environment(),
        text=True,
    )


def run_script(script: Path, folder: Path, limit: float) -> str:
    """Run a script in a process that has imported what most of them import; return its output."""
    out, err = folder / ".out", folder / ".err"
    request = {
        "script": str(script),
        "folder": str(folder),
        "limit": limit,
        "out": str(out),
        "err": str(err),
        "environment": _environment(),
    }
    nursery = _nursery()
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write(json.dumps(request) + "\n")
    nursery.stdin.flush()
    code = int(nursery.stdout.readline())
    output, complaints = (path.read_text(encoding="utf-8") for path in (out, err))
    out.unlink()
    err.unlink()
    assert code == 0, f"{script} failed with {code}\n{output}\n{complaints}"
    return output


def run_python(arguments: list[str], folder: Path, limit: float) -> str:
    """Run the interpreter with ``arguments``; return its output, fail with both streams."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=_environment(),
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
