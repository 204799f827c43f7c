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

import importlib
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
