"""A model and a table in, one page of findings out.

`audit` joins what the areas know into one answer for a person who has a fitted model and a table:
how good is it on rows it has not seen, what does gaming cost, who can plant rows, and what to do
next, each with the gain, its interval and what the number rests on.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterplay.auditing.api import audit as audit
    from counterplay.auditing.config import Config as Config
    from counterplay.auditing.context import Context as Context
    from counterplay.auditing.findings import Action as Action
    from counterplay.auditing.findings import Figure as Figure
    from counterplay.auditing.findings import Finding as Finding
    from counterplay.auditing.findings import Grid as Grid
    from counterplay.auditing.findings import Missing as Missing
    from counterplay.auditing.findings import SectionResult as SectionResult
    from counterplay.auditing.gates import Gate as Gate
    from counterplay.auditing.quantity import Quantity as Quantity
    from counterplay.auditing.result import Audit as Audit
    from counterplay.auditing.section import Section as Section
    from counterplay.auditing.section import Stage as Stage

_WHERE = {
    "audit": "api",
    "Audit": "result",
    "Quantity": "quantity",
    "Finding": "findings",
    "Action": "findings",
    "Gate": "gates",
    "Config": "config",
    "Section": "section",
    "Stage": "section",
    "Context": "context",
    "SectionResult": "findings",
    "Missing": "findings",
    "Figure": "findings",
    "Grid": "findings",
}

__all__ = [
    "Action",
    "Audit",
    "Config",
    "Context",
    "Figure",
    "Finding",
    "Gate",
    "Grid",
    "Missing",
    "Quantity",
    "Section",
    "SectionResult",
    "Stage",
    "audit",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f"counterplay.auditing.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'counterplay.auditing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
