"""Curves as text, so that a cell's record stays flat."""

from __future__ import annotations

import numpy as np

from counterplay.core.validation import FloatArray, IntArray


def pack(values: FloatArray) -> str:
    """Return numbers as one line of text."""
    return " ".join(f"{v:.6g}" for v in np.ravel(values))


def unpack(text: str, columns: int = 1) -> FloatArray:
    """Return the numbers of :func:`pack` as rows of ``columns`` values.

    Examples
    --------
    >>> unpack(pack(np.array([[1.0, 2.0], [3.0, 4.0]])), 2).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return np.array([float(v) for v in text.split()]).reshape(-1, columns)


def thinned(n: int, most: int = 120) -> IntArray:
    """Return at most about ``most`` positions out of ``n``, dense at the start, with both ends.

    Examples
    --------
    >>> thinned(3).tolist()
    [0, 1, 2]
    """
    if n <= most:
        return np.arange(n)
    grid = np.concatenate([np.geomspace(1, n, most // 2), np.linspace(1, n, most // 2)])
    return np.unique(np.round(grid).astype(np.int64) - 1)
