"""One thread per numerical library: cells share the cores, and sums do not depend on threads."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

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


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit the libraries that are loaded to one thread inside the block."""
    limits: Any = import_module("threadpoolctl").threadpool_limits
    numba: Any = sys.modules.get("numba")
    before = numba.get_num_threads() if numba else 1
    with limits(limits=1):
        if before > 1:
            numba.set_num_threads(1)
        try:
            yield
        finally:
            if before > 1:
                numba.set_num_threads(before)
