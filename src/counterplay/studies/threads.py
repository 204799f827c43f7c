"""One thread per numerical library: cells share the cores, and sums do not depend on threads."""

from __future__ import annotations

import os

from counterplay.core.clusters import THREAD_VARIABLES
from counterplay.core.threads import one_thread

__all__ = ["THREAD_VARIABLES", "limit_new_libraries", "one_thread"]


def limit_new_libraries() -> None:
    """Give libraries that are not loaded yet one thread each; called when a program starts."""
    for variable in THREAD_VARIABLES:
        os.environ.setdefault(variable, "1")
