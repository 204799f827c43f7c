"""Where a result comes from: library version, commit, Python and NumPy."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import counterplay


@dataclass(frozen=True)
class Provenance:
    """The code and the machine behind a stored cell."""

    library: str
    commit: str | None
    """Git commit, with ``+changes`` when files were edited; None outside a checkout."""
    environment: str
    """Versions of Python and NumPy, and the platform."""


@cache
def current_provenance() -> Provenance:
    """Describe the running library."""
    environment = (
        f"Python {platform.python_version()}, NumPy {np.__version__}, "
        f"{platform.system()} {platform.machine()}"
    )
    return Provenance(counterplay.__version__, _commit(), environment)


def _commit() -> str | None:
    """Return the commit of the checkout the library runs from, if it is tracked by one."""
    folder = Path(counterplay.__file__).parent
    if _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    head = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return f"{head}+changes" if head and changed else head


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
