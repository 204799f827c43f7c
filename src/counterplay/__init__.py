"""Machine learning when the data plays back.

Data comes from people and organisations who react. Each subpackage treats one such situation as a
game between a learner and its data source, gives the learner that provably does well in it, and
shows on your own data how much there is to win. Start with the subpackage of your problem::

    import counterplay
    counterplay.tradeoff      # one metric to win, one harm budget to keep

or with a model and a table: ``counterplay.audit(model, table, label=..., positive=...)``.

Subpackages are imported when they are first used.
"""

from __future__ import annotations

import atexit
import importlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

__version__ = "0.2.0.dev0"

AREAS = (
    "strategic",
    "contribution",
    "defection",
    "labeling",
    "principal",
    "elicitation",
    "tradeoff",
    "poisoning",
    "invariance",
)
"""The games of the library, in the order of its guide and reports."""

_SUBPACKAGES = (*AREAS, "federated", "tables", "auditing", "datasets", "errors", "testing")

__all__ = [*_SUBPACKAGES, "audit"]


def __getattr__(name: str) -> Any:
    if name == "audit":
        return importlib.import_module("counterplay.auditing.api").audit
    if name in _SUBPACKAGES:
        return importlib.import_module(f"counterplay.{name}")
    raise AttributeError(f"module 'counterplay' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


def _find_room_for_compiled_code() -> None:
    """Where neither the package nor the home can be written to, compiled code goes elsewhere.

    Numba refuses to import functions that it cannot store. The folder is this process's own: what
    is in it will be executed.
    """
    if os.environ.get("NUMBA_CACHE_DIR") or os.access(Path(__file__).parent, os.W_OK):
        return
    try:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        (caches / "numba").mkdir(parents=True, exist_ok=True)
        if os.access(caches / "numba", os.W_OK):
            return
    except (OSError, RuntimeError):  # a user without a home, or a home that is read-only
        pass
    folder = tempfile.mkdtemp(prefix="counterplay-")
    os.environ["NUMBA_CACHE_DIR"] = folder  # workers take it over
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = folder
    atexit.register(_remove, folder, os.getpid())


def _remove(folder: str, process: int) -> None:
    """Remove the folder when the process that made it ends, not when a child of it does."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


_find_room_for_compiled_code()
