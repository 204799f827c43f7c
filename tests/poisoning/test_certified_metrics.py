"""Certified precision, recall and F1 against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_score, recall_score
from sklearn.tree import DecisionTreeClassifier

from counterplay.errors import InvalidInputError
from counterplay.poisoning import PartitionClassifier
from counterplay.poisoning.ballots import plurality_ballots
from counterplay.poisoning.metric_table import MetricTable

SCORES = {"precision": precision_score, "recall": recall_score, "f1": f1_score}


def problem(seed: int, n: int = 120, classes: int = 2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = (X[:, 0] + 0.8 * rng.normal(size=n) > 0).astype(int)
    return X, y + (X[:, 1] > 1) * (classes > 2)


def fitted(seed: int, **given):
    X, y = problem(seed)
    return PartitionClassifier(DecisionTreeClassifier(max_depth=1), 7, **given).fit(X, y)


@pytest.mark.claim("21.14")
@pytest.mark.parametrize("threshold", [None, {1: 0.3}])
def test_certified_metrics_equal_all_subsets_of_points_that_can_flip(threshold) -> None:
    for seed in range(4):
        guard = fitted(seed, classes=(0, 1), vote_threshold=threshold)
        X, y = problem(seed + 50, 9)
        report = guard.certified_metrics(X, y, positive=1, budgets=[0, 1, 2])
        answers, radius = guard.predict(X), guard.certify(X)
        for t, (name, score) in itertools.product((0, 1, 2), SCORES.items()):
            loose = np.flatnonzero(radius < t)
            worst = 1.0
            for size in range(len(loose) + 1):
                for chosen in itertools.combinations(loose, size):
                    flipped = answers.copy()
                    flipped[list(chosen)] = 1 - flipped[list(chosen)]
                    worst = min(worst, score(y, flipped, zero_division=0))
            assert report.at(name, t) == pytest.approx(worst, abs=1e-12)


@pytest.mark.claim("21.17")
@pytest.mark.parametrize("classes", [2, 3])
def test_curves_fall_and_a_real_set_is_above_them(classes: int) -> None:
    X, y = problem(1, 200, classes)
    guard = PartitionClassifier(DecisionTreeClassifier(max_depth=2), 15, spread=classes - 1)
    guard.fit(X[:150], y[:150])
    groups = np.where(X[150:, 0] > 0, "east", "west")
    frame = guard.certified_metrics(X[150:], y[150:], groups=groups).to_frame()
    assert (frame.certified <= frame.attained + 1e-12).all()
    keys = ["metric", "class", "group"]
    for _, part in frame.fillna({"group": "all rows"}).groupby(keys):
        assert (np.diff(part.sort_values("budget").certified) <= 1e-12).all()
        assert (np.diff(part.sort_values("budget").attained) <= 1e-12).all()
    assert frame.certified.min() < frame.attained.max()


@pytest.mark.claim("21.17")
def test_what_is_attained_is_reached_by_changing_votes_of_some_blocks() -> None:
    guard = fitted(3, classes=(0, 1))
    X, y = problem(90, 30)
    votes = guard.votes(X)
    report = guard.certified_metrics(X, y, positive=1, budgets=[0, 1, 2])
    frame = report.to_frame()
    for t in (1, 2):
        worst = 1.0
        for chosen in itertools.combinations(range(7), t):
            kept = np.delete(votes, chosen, axis=0)
            ones, zeros = (kept == 1).sum(axis=0), (kept == 0).sum(axis=0)
            bad = np.where(y == 1, ones > zeros + t, zeros + t >= ones)
            right = np.where(y == 1, bad, zeros >= ones + t)  # whatever the touched blocks say
            worst = min(worst, right[y == 1].mean())
        row = frame[(frame.metric == "recall") & (frame.budget == t)]
        assert row.certified.iloc[0] - 1e-12 <= worst <= row.attained.iloc[0] + 1e-12


@pytest.mark.claim("21.19")
def test_a_blind_attacker_is_no_worse_than_the_worst_case() -> None:
    guard = fitted(5, classes=(0, 1))
    X, y = problem(95, 60)
    report = guard.certified_metrics(X, y, positive=1)
    for t in report.budgets:
        mean, low = report.blind(t)
        assert report.at("accuracy", t) <= low + 1e-12 <= mean + 1e-9


def test_the_best_threshold_is_the_best_of_all() -> None:
    X, y = problem(7, 80)
    guard = fitted(6, classes=(0, 1))
    share = guard.certified_metrics(X, y, positive=1).best_threshold("f1", 1)
    values = [
        fitted(6, classes=(0, 1), vote_threshold={1: k / 7})
        .certified_metrics(X, y, positive=1, budgets=[1])
        .at("f1", 1)
        for k in range(1, 8)
    ]
    assert values[round(share * 7) - 1] == max(values)
    with pytest.raises(InvalidInputError, match="two classes and positive"):
        guard.certified_metrics(X, y).best_threshold("f1", 1)
    with pytest.raises(InvalidInputError, match="not a class"):
        guard.certified_metrics(X, y, positive="spam")


def worst_mean(votes, truth, t: int, score, k: int) -> float:
    """Smallest mean over the classes that touching one set of t blocks reaches, by enumeration."""
    worst = 1.0
    for chosen in itertools.combinations(range(len(votes)), t):
        reached = []
        for column in votes.T:
            changed = np.repeat(column[None, :], k**t, axis=0)
            changed[:, list(chosen)] = list(itertools.product(range(k), repeat=t))
            reached.append(sorted({int(np.bincount(v, minlength=k).argmax()) for v in changed}))
        for answers in itertools.product(*reached):
            value = score(truth, answers, labels=range(k), average="macro", zero_division=0)
            worst = min(worst, float(value))
    return worst


@pytest.mark.claim("21.17")
@pytest.mark.parametrize("name", SCORES)
def test_a_mean_over_classes_is_between_certified_and_attained(name: str) -> None:
    for seed in (0, 47, 53):  # in the last two no set is the worst for all classes
        rng = np.random.default_rng(seed)
        truth = rng.integers(3, size=6)
        votes = np.where(rng.random((6, 6)) < 0.6, truth, rng.integers(3, size=(6, 6)))
        ballots = plurality_ballots(votes, truth, 3, closed=True)
        lines = MetricTable([0, 1], 1, 5, (0, 1, 2), [0, 1, 2], means=True).lines(ballots, None)
        found = {r["budget"]: r for r in lines if r["class"] == "all" and r["metric"] == name}
        exact = worst_mean(votes, truth, 1, SCORES[name], 3)
        assert found[1]["certified"] <= exact + 1e-12
        assert found[1]["attained"] >= exact - 1e-12
        assert found[0]["attained"] == pytest.approx(worst_mean(votes, truth, 0, SCORES[name], 3))


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_row_without_a_group_is_refused(missing: object) -> None:
    X, y = problem(0, 20)
    groups = ["a", "b"] * 9 + ["a", missing]
    with pytest.raises(InvalidInputError, match="groups has no group for row 19"):
        fitted(0).certified_metrics(X, y, positive=1, groups=groups)
