"""Training with tiny weights is slow where the processor handles subnormal numbers one by one.

torch can switch that off, but the switch belongs to the whole thread: code that runs later would
silently lose numbers below 2e-308. Here it is undone at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


@contextmanager
def flushed_subnormals(torch: Any) -> Iterator[None]:
    """Treat subnormal numbers as zero inside the block, then restore the mode before it.

    ``torch`` is the module: the switch is torch's, and only callers who use it pay for its import.
    """
    before = subnormals_kept()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(not before)


def subnormals_kept() -> bool:
    """Return whether the processor computes with subnormal numbers, as it should.

    Examples
    --------
    >>> subnormals_kept()
    True
    """
    smallest = np.array([5e-324])
    return bool((smallest * 1.0 != 0.0)[0])
