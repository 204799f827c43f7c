"""Adapters for scikit-activeml and modAL: the next question depends on the labels so far."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from counterplay.errors import InvalidInputError
from counterplay.labeling import CommitteeStrategy


def pool(seed: int = 3, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).normal(size=(n, 2))
    return X, (X @ [1.0, 0.5] > 0).astype(int)


@pytest.mark.claim("24.18")
def test_both_adapters_react_to_the_labels() -> None:
    """The next point after label 0 and after label 1 is often another one."""
    differs = {"query": 0, "modal": 0}
    for seed in range(50):
        X, y = pool(seed)
        strategy = CommitteeStrategy(GaussianNB(), n_members=3)
        known = np.full(len(X), np.nan)
        known[:6] = y[:6]
        asked = int(strategy.query(X, known)[0])
        after = {"query": [], "modal": []}
        for label in (0, 1):
            known[asked] = label
            there = np.isfinite(known)
            after["query"].append(int(strategy.query(X, known)[0]))
            learner = SimpleNamespace(X_training=X[there], y_training=known[there])
            after["modal"].append(int(strategy.as_modal()(learner, X)[0][0]))
        for name, chosen in after.items():
            differs[name] += chosen[0] != chosen[1]
    assert differs["query"] >= 25
    assert differs["modal"] >= 25


@pytest.mark.claim("24.18")
def test_words_missing_labels_and_clone() -> None:
    X, y = pool()
    words = np.array(["no", "yes"])[y]
    strategy = clone(CommitteeStrategy(LogisticRegression(), n_members=4, random_state=1))
    assert strategy.get_params()["n_members"] == 4
    with pytest.raises(InvalidInputError, match="no parameter 'size'"):
        strategy.set_params(size=3)
    for missing in (None, np.nan):
        known = np.full(len(X), missing, dtype=object)
        known[:8] = words[:8]
        first = strategy.query(X, known)
        assert first[0] >= 8
        assert strategy.query(X, known) == first  # the same question for the same labels
    frame = pd.DataFrame(X, columns=["width", "height"])
    same = strategy.query(frame, pd.Series(known))
    assert same == first
    learner = SimpleNamespace(X_training=frame.iloc[:8], y_training=words[:8])
    swapped = frame[["height", "width"]]
    direct = strategy.as_modal()(learner, frame)[0]
    assert strategy.as_modal()(learner, swapped)[0] == direct


def test_it_asks_where_the_committee_is_unsure() -> None:
    X = np.linspace(-1, 1, 101)[:, None]
    known = np.full(101, np.nan)
    known[[0, 10, 20, 80, 90, 100]] = [0, 0, 0, 1, 1, 1]
    strategy = CommitteeStrategy(LogisticRegression(), n_members=10)
    index, utilities = strategy.query(X, known, batch_size=5, return_utilities=True)
    assert np.abs(X[index]).max() < 0.6
    assert np.isnan(utilities[0, 0])
    assert utilities.shape == (1, 101)


def test_conventions_and_errors() -> None:
    X, y = pool()
    strategy = CommitteeStrategy(GaussianNB(), n_members=3)
    nothing = np.full(len(X), np.nan)
    assert strategy.query(X, nothing, batch_size=3).shape == (3,)
    assert strategy.query(X, nothing, candidates=[7, 9])[0] in (7, 9)
    untrained = SimpleNamespace(X_training=None, y_training=np.empty(0))
    best, metric = strategy.as_modal()(untrained, X, n_instances=2)
    assert best.shape == metric.shape == (2,)
    with pytest.raises(InvalidInputError, match="NoneType has no X_training"):
        strategy.as_modal()(None, X)
    with pytest.raises(InvalidInputError, match="unlabeled"):
        strategy.query(X, y.astype(float))
    with pytest.raises(InvalidInputError, match=f"length {len(X)}"):
        strategy.query(X, [np.nan])
    with pytest.raises(InvalidInputError, match="n_members must be"):
        CommitteeStrategy(GaussianNB(), n_members="many").query(X, nothing)


@pytest.mark.parametrize("candidates", [[-1], [200], [0.5], [[1, 2]], [True]])
def test_candidates_are_positions(candidates: object) -> None:
    X, _ = pool()
    with pytest.raises(InvalidInputError, match="candidates must be"):
        CommitteeStrategy(GaussianNB()).query(X, np.full(60, np.nan), candidates=candidates)


def test_modal_loop() -> None:
    modal = pytest.importorskip("modAL.models", reason="modAL is not installed")
    X, y = pool()
    learner = modal.ActiveLearner(
        estimator=GaussianNB(),
        query_strategy=CommitteeStrategy(GaussianNB(), n_members=3).as_modal(),
        X_training=X[:10],
        y_training=y[:10],
    )
    assert 0 <= int(learner.query(X)[0][0]) < len(X)
