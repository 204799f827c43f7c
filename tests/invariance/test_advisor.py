"""The advisor on real data with exact symmetries, and on data without."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from counterplay.errors import InvalidInputError
from counterplay.invariance import groups, symmetry_advisor
from counterplay.invariance.lab import one_hot_boards, tic_tac_toe_endgames


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
    advice = symmetry_advisor(
        DecisionTreeClassifier(random_state=0), one_hot_boards(X[pick]), y[pick], hot,
        random_state=0,
    )  # fmt: skip
    assert advice.verdict in {"augment", "use invariant learner"}
    frame = advice.to_frame().set_index("candidate")
    assert frame.loc["augment", "error"] < frame.loc["plain", "error"]
    assert advice.plot().get_xlabel()


@pytest.mark.claim("11.24")
def test_advice_against_augmentation_on_mirrored_labels() -> None:
    X, y = load_digits(return_X_y=True)
    keep = np.flatnonzero((y == 6) | (y == 9))  # a half turn maps one onto the other
    advice = symmetry_advisor(
        make_pipeline(StandardScaler(), LogisticRegression()), X[keep], y[keep],
        groups.image_rotations((8, 8), angles=2), random_state=0,
    )  # fmt: skip
    assert advice.verdict == "do not augment"
    assert "setting (ii)" in advice.reason or "setting (iii)" in advice.reason


def test_advice_on_a_table_with_interchangeable_columns() -> None:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    group = groups.sign_flips(X.shape[1], columns=[[0]])
    advice = symmetry_advisor(
        make_pipeline(StandardScaler(), LogisticRegression()), X, y, group, random_state=0
    )
    assert advice.verdict in {"augment", "do not augment", "use invariant learner", "no difference"}
    assert advice.recommendation in advice.to_frame()["candidate"].tolist()


def test_advice_does_not_trust_functions_that_are_no_group() -> None:
    """x and x + 1: no orbits, so nothing that needs them is tried, and the summary says so."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, size=(120, 2)).astype(float)
    shift = groups.from_callables([lambda X: X, lambda X: X + 1.0], n_features=2)
    advice = symmetry_advisor(
        DecisionTreeClassifier(max_depth=2, random_state=0), X, (X[:, 0] > 2).astype(int), shift,
        random_state=0,
    )  # fmt: skip
    assert set(advice.to_frame()["candidate"]) == {"plain", "vote", "augment", "augment+vote"}
    assert "not a group on these rows" in advice.summary()


BAD = {
    "no classifier": {"estimator": "tree"},
    "text": {"X": [["a"]] * 40},
    "NaN": {"X": np.full((40, 3), np.nan)},
    "labels too short": {"y": [0, 1]},
    "continuous labels": {"y": np.linspace(0, 1, 40)},
    "one class": {"y": np.zeros(40, dtype=int)},
    "race": {"race": 7.0},
    "more folds than rows": {"n_splits": 41},
    "no group": {"group": 3},
    "future": {"future": "tomorrow"},
    "share": {"future": 1.5},
    "candidates": {"candidates": ["magic"]},
    "scoring": {"scoring": "beauty"},
}


@pytest.mark.parametrize("name", BAD)
def test_bad_questions_to_the_advisor(name: str) -> None:
    rng = np.random.default_rng(0)
    question = {
        "estimator": LogisticRegression(), "X": rng.normal(size=(40, 3)),
        "y": rng.integers(0, 2, size=40), "group": groups.sequence_reversal,
    }  # fmt: skip
    with pytest.raises(InvalidInputError):
        symmetry_advisor(**{**question, **BAD[name]})
