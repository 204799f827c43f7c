"""The loops with people and running systems, in the browser.

``counterplay studio --data ./studio`` starts a server with one SQLite file: questions to a person
on her phone, labelling campaigns of several parties, a guard rail as a service, audits by upload.
Every answer is one committed event of an append-only log; state is its replay; an export proves
itself with ``counterplay verify``. :class:`Studio` opens the same data without a server,
:func:`create_app` gives the application for mounting, :class:`GuardClient` is what a service uses.
Source: docs/theory/28-studio.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterplay.studio.app import create_app
    from counterplay.studio.client import GuardClient
    from counterplay.studio.opened import Studio
    from counterplay.studio.settings import Settings

__all__ = ["GuardClient", "Settings", "Studio", "create_app"]

_HOMES = {"create_app": "app", "GuardClient": "client", "Studio": "opened", "Settings": "settings"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is used: the client needs none of the web packages."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
