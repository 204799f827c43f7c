"""One thread per numerical library: cells share the cores, and sums do not depend on threads."""

from __future__ import annotations

import os

from counterplay.core.threads import one_thread

__all__ = ["THREAD_VARIABLES", "limit_new_libraries", "one_thread"]

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def limit_new_libraries() -> None:
    """Give libraries that are not loaded yet one thread each; called when a program starts."""
    for variable in THREAD_VARIABLES:
        os.environ.setdefault(variable, "1")
