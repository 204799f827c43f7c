"""Data sets bundled with scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets as sk

from counterplay import datasets
from counterplay.errors import UnknownNameError


@pytest.mark.parametrize(
    "name", ["breast_cancer", "diabetes", "digits", "iris", "linnerud", "wine"]
)
def test_same_numbers_as_scikit_learn(name: str) -> None:
    x, y = getattr(sk, f"load_{name}")(return_X_y=True)
    data = datasets.load(name)
    assert np.array_equal(data.X, x)
    assert np.array_equal(data.y, y)
    assert len(data.feature_names) == x.shape[1]
    pair = datasets.load(name, return_X_y=True)
    assert np.array_equal(pair[0], x)
    assert np.array_equal(pair[1], y)
    info = {entry.name: entry for entry in datasets.list_datasets()}[name]
    assert (info.rows, info.available) == (len(x), True)


def test_label_1_of_breast_cancer_is_the_wanted_outcome() -> None:
    data = datasets.load("breast_cancer")
    assert data.label_1 == "benign"
    assert data.target_names[1] == "benign"
    # Malignant tumours are larger: the mean radius of label 1 must be the smaller one.
    radius = data.X[:, data.feature_names.index("mean radius")]
    assert radius[data.y == 1].mean() < radius[data.y == 0].mean()


def test_as_frame() -> None:
    data = datasets.load("wine", as_frame=True)
    assert isinstance(data.X, pd.DataFrame)
    assert isinstance(data.y, pd.Series)
    assert list(data.frame.columns) == [*data.feature_names, "target"]
    x, y = datasets.load("wine", return_X_y=True, as_frame=True)
    assert isinstance(x, pd.DataFrame)
    assert y.name == "target"


def test_to_frame_of_arrays() -> None:
    frame = datasets.load("iris").to_frame()
    assert frame.shape == (150, 5)
    assert frame["target"].value_counts().to_dict() == {0: 50, 1: 50, 2: 50}
    assert datasets.load("linnerud").to_frame().shape == (20, 3)


def test_unknown_names() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'digits'"):
        datasets.load("digit")
    with pytest.raises(UnknownNameError, match=r"use datasets.fetch\('mnist'\)"):
        datasets.load("mnist")
    with pytest.raises(UnknownNameError, match=r"use datasets.load\('digits'\)"):
        datasets.fetch("digits")


def test_summary_names_the_source() -> None:
    text = datasets.load("digits").summary()
    assert "digits" in text
    assert "scikit-learn" in text
