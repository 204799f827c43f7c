"""From tables to histograms: cut the pooled rows into cells, keep only counts per party.

What leaves a party is one histogram, not its rows.
Source: "Planning for a consortium", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import IntArray, check_positive_int
from counterplay.errors import InvalidInputError


def cell_histograms(
    tables: Sequence[Any], *, cells: int = 200, random_state: RandomState = 0
) -> IntArray:
    """Return counts per party and cell, from one table per party.

    Parameters
    ----------
    tables:
        Data frames or arrays with the same columns; text and category columns are one-hot coded.
    cells:
        Number of cells; fewer if there are fewer distinct rows.
    random_state:
        Seed of the clustering (k-means on standardised columns).

    Examples
    --------
    >>> import pandas as pd
    >>> a = pd.DataFrame({"age": [30, 31, 32], "ward": ["A", "A", "B"]})
    >>> b = pd.DataFrame({"age": [80, 81], "ward": ["B", "B"]})
    >>> cell_histograms([a, b], cells=2).sum(axis=1).tolist()
    [3, 2]
    """
    import pandas as pd
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import StandardScaler

    check_positive_int(cells, "cells")
    frames = [pd.DataFrame(table) for table in tables]
    if not frames or any(frame.empty for frame in frames):
        raise InvalidInputError("tables must contain one non-empty table per party")
    columns = list(frames[0].columns)
    for i, frame in enumerate(frames):
        if list(frame.columns) != columns:
            raise InvalidInputError(f"table {i} has other columns than table 0; align them first")
    coded = pd.get_dummies(pd.concat(frames, ignore_index=True), dtype=float)
    if coded.isna().any().any():
        column = coded.columns[coded.isna().any()][0]
        raise InvalidInputError(f"column {column!r} has missing values; fill them first")
    rows = StandardScaler().fit_transform(coded.to_numpy(dtype=np.float64))
    n_cells = min(cells, len(np.unique(rows, axis=0)))
    seed = int(generator(random_state).integers(2**31 - 1))
    cell = KMeans(n_cells, n_init=1, random_state=seed).fit_predict(rows)
    party = np.repeat(np.arange(len(frames)), [len(frame) for frame in frames])
    counts = np.bincount(party * n_cells + cell, minlength=len(frames) * n_cells)
    return counts.reshape(len(frames), n_cells).astype(np.int64)
