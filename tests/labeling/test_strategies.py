from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from counterplay.errors import InvalidInputError, NotRealizableError
from counterplay.labeling import CommitteeSplitStrategy


def committee_and_pool() -> tuple[list[object], np.ndarray, np.ndarray]:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 2))
    y = (X @ [1.0, 0.5] > 0).astype(int)
    members = []
    while len(members) < 60:
        chosen = rng.integers(0, 200, 12)
        if len(set(y[chosen])) == 2:
            members.append(LogisticRegression().fit(X[chosen], y[chosen]))
    return members, X, y


def test_strategy_halves_the_committee() -> None:
    members, X, _ = committee_and_pool()
    truth = members[5].predict(X)
    strategy, known = CommitteeSplitStrategy(members), np.full(len(X), np.nan)
    predictions = np.stack([member.predict(X) for member in members])
    while True:
        index, utilities = strategy.query(X, known, return_utilities=True)
        if utilities[0, index[0]] <= 0:
            break
        agree = (predictions[:, ~np.isnan(known)] == truth[~np.isnan(known)]).all(axis=1)
        ones = predictions[agree].mean(axis=0)
        best = np.minimum(ones, 1 - ones)[np.isnan(known)].max()
        assert utilities[0, index[0]] == pytest.approx(best)
        known[index[0]] = truth[index[0]]
    alive = (predictions[:, ~np.isnan(known)] == truth[~np.isnan(known)]).all(axis=1)
    assert (predictions[alive] == truth).all()
    assert np.isfinite(known).sum() < 20


def test_strategy_conventions_and_errors() -> None:
    members, X, y = committee_and_pool()
    strategy = CommitteeSplitStrategy(members)
    assert strategy.query(X, np.full(200, np.nan), batch_size=3).shape == (3,)
    only = strategy.query(X, np.full(200, np.nan), candidates=[7, 9])
    assert only[0] in (7, 9)
    untrained = SimpleNamespace(X_training=None, y_training=None)
    best, metric = strategy.as_modal()(untrained, X, n_instances=2)
    assert best.shape == metric.shape == (2,)
    with pytest.raises(InvalidInputError, match="NoneType has no X_training"):
        strategy.as_modal()(None, X)
    contradiction = np.full(200, np.nan)
    contradiction[:60] = 1 - y[:60]
    with pytest.raises(NotRealizableError, match="tolerance"):
        strategy.query(X, contradiction)
    assert CommitteeSplitStrategy(members, tolerance=0.2).query(X, contradiction).shape == (1,)
    with pytest.raises(InvalidInputError, match="unlabeled"):
        strategy.query(X, y.astype(float))
    with pytest.raises(InvalidInputError, match="length 200"):
        strategy.query(X, [np.nan])


def test_modal_strategy_uses_the_labels_so_far() -> None:
    """The next point splits the members that agree with the learner's training labels."""
    members, X, _ = committee_and_pool()
    predictions = np.stack([member.predict(X) for member in members])
    strategy = CommitteeSplitStrategy(members)
    ask = strategy.as_modal()
    first = int(ask(SimpleNamespace(X_training=None, y_training=None), X)[0][0])
    chosen = []
    for label in (0, 1):
        learner = SimpleNamespace(X_training=X[[first]], y_training=np.array([label]))
        index, metric = ask(learner, X)
        ones = predictions[predictions[:, first] == label].mean(axis=0)
        assert metric[0] == pytest.approx(np.minimum(ones, 1 - ones).max())
        known = np.full(len(X), np.nan)
        known[first] = label
        assert int(index[0]) == int(strategy.query(X, known)[0])
        chosen.append(int(index[0]))
    assert chosen[0] != chosen[1]
    wrong = SimpleNamespace(X_training=X, y_training=1 - predictions[0])
    with pytest.raises(NotRealizableError, match="tolerance"):
        ask(wrong, X)
    tolerant = CommitteeSplitStrategy(members, tolerance=1e-5).as_modal()  # 1e-5 ** 100 is 0
    assert tolerant(wrong, X)[0].shape == (1,)


def test_modal_loop() -> None:
    modal = pytest.importorskip("modAL.models", reason="modAL is not installed")
    members, X, y = committee_and_pool()
    strategy = CommitteeSplitStrategy(members)
    learner = modal.ActiveLearner(
        estimator=members[0],
        query_strategy=strategy.as_modal(),
        X_training=X[:10],
        y_training=y[:10],
    )
    index = learner.query(X)[0]
    assert 0 <= int(index[0]) < 200


def test_l7_labels_may_be_words() -> None:
    members, X, y = committee_and_pool()
    words = np.array(["no", "yes"])
    speaking = [DecisionTreeClassifier(max_depth=2).fit(X, words[m.predict(X)]) for m in members]
    known = np.full(len(X), None, dtype=object)
    strategy = CommitteeSplitStrategy(speaking, tolerance=0.1)
    first = int(strategy.query(X, known)[0])
    known[first] = words[y[first]]
    assert int(strategy.query(X, known)[0]) != first


def test_l7_frames_and_words_in_every_loop() -> None:
    """Members fitted on a frame get it back, by name, from both conventions."""
    members, X, _ = committee_and_pool()
    frame = pd.DataFrame(X, columns=["width", "height"])
    words = np.array(["no", "yes"])
    named = [DecisionTreeClassifier(max_depth=3).fit(frame, words[m.predict(X)]) for m in members]
    predictions = np.stack([member.predict(frame) for member in named])
    strategy = CommitteeSplitStrategy(named)
    known = np.full(len(X), None, dtype=object)
    first = int(strategy.query(frame[["height", "width"]], known)[0])
    share = (predictions == "yes").mean(axis=0)
    assert np.minimum(share, 1 - share)[first] == np.minimum(share, 1 - share).max()
    known[first] = "yes"
    second = int(strategy.query(frame, pd.Series(known))[0])
    learner = SimpleNamespace(X_training=frame.iloc[[first]], y_training=["yes"])
    assert int(strategy.as_modal()(learner, frame)[0][0]) == second
    left = predictions[predictions[:, first] == "yes"]
    share = (left == "yes").mean(axis=0)
    assert np.minimum(share, 1 - share)[second] == pytest.approx(np.minimum(share, 1 - share).max())
    with pytest.raises(InvalidInputError, match="X has no column 'height'"):
        strategy.query(frame.rename(columns={"height": "h"}), known)


def test_labels_in_another_coding_are_refused() -> None:
    """With a tolerance they would count as contradictions of every member and change nothing."""
    members, X, _ = committee_and_pool()
    known = np.full(len(X), None, dtype=object)
    known[0] = "yes"
    with pytest.raises(InvalidInputError, match="y has 'yes', the members answer 0, 1"):
        CommitteeSplitStrategy(members, tolerance=0.1).query(X, known)


@pytest.mark.parametrize("candidates", [[-1], [200], [0.5], [[1, 2]], [True]])
def test_candidates_are_positions(candidates: object) -> None:
    members, X, _ = committee_and_pool()
    with pytest.raises(InvalidInputError, match="candidates must be"):
        CommitteeSplitStrategy(members).query(X, np.full(200, np.nan), candidates=candidates)
