"""Frames that many tests of the door use."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def people() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "income": [1.5, 2.5, np.nan, 4.0],
            "children": [0, 2, 1, 3],
            "married": [True, False, True, True],
            "city": ["Bonn", "Ulm", None, "Bonn"],
            "grade": pd.Categorical(["b", "a", "b", None]),
            "joined": pd.to_datetime(["2020-01-01", "2021-06-01", None, "2024-02-29"]),
        },
        index=["ann", "bob", "cem", "dot"],
    )
