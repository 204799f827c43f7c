"""The advisor on real data with exact symmetries, and on data without."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from counterplay.invariance import (
    augmentation_advisor,
    groups,
    one_hot_boards,
    tic_tac_toe_endgames,
)


@pytest.mark.claim("11.24")
def test_tic_tac_toe_orbits_and_advice() -> None:
    X, y = tic_tac_toe_endgames()
    group = groups.d4((3, 3))
    report = groups.check_validity(group, X, y)
    assert (len(X), int(y.sum()), report.n_orbits) == (958, 626, 138)
    assert report.conflicts == ()
    keys = group.orbit_key(X)
    positive = {key for key, label in zip(keys, y) if label}
    assert len(positive) == 91
    hot = groups.d4((3, 3, 3))
    assert len(set(hot.orbit_key(one_hot_boards(X)))) == 138
    pick = np.random.default_rng(0).permutation(958)[:150]
    advice = augmentation_advisor(
        DecisionTreeClassifier(random_state=0), one_hot_boards(X[pick]), y[pick], hot,
        random_state=0,
    )  # fmt: skip
    assert advice.verdict in {"augment", "use invariant learner"}
    frame = advice.to_frame().set_index("model")
    assert frame.loc["DA", "error"] < frame.loc["ERM", "error"]
    assert advice.plot().get_ylabel()


@pytest.mark.claim("11.24")
def test_advice_against_augmentation_on_mirrored_labels() -> None:
    X, y = load_digits(return_X_y=True)
    keep = np.flatnonzero((y == 6) | (y == 9))  # a half turn maps one onto the other
    advice = augmentation_advisor(
        make_pipeline(StandardScaler(), LogisticRegression()), X[keep], y[keep],
        groups.image_rotations((8, 8), angles=2), random_state=0,
    )  # fmt: skip
    assert advice.verdict == "do not augment"
    assert "setting (ii)" in advice.reason or "setting (iii)" in advice.reason


def test_advice_on_a_table_with_interchangeable_columns() -> None:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    group = groups.sign_flips(X.shape[1], columns=[[0]])
    advice = augmentation_advisor(
        make_pipeline(StandardScaler(), LogisticRegression()), X, y, group, random_state=0
    )
    assert advice.verdict in {"augment", "do not augment", "use invariant learner", "no difference"}
    assert advice.validity.is_group
