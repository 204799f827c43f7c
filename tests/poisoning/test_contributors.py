"""Whole pipelines by contributor: insertions, thresholds, numbers of blocks, leaks."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier
from tests.poisoning.test_sources import QUIET, mixed, pipeline, small

from counterplay.errors import InvalidInputError
from counterplay.poisoning import PartitionClassifier, choose_n_partitions
from counterplay.poisoning.ballots import metric_value
from counterplay.poisoning.partition_trial import Goal, Trial

HOWS = ("rows", "ids", "sources", "committee", "cap")


def planted_sets(
    seed: int, some: int | None, by_source: bool
) -> list[tuple[tuple[float, int, int], ...]]:
    """All sets of one or two rows from 6 rows x 2 labels x 3 sources, or some of them.

    Without sources all of them are few: 12 rows, 78 pairs.
    """
    senders = (1, 7, 8) if by_source else (1,)
    pool = list(itertools.product((0.0, 1.0, 2.0, 3.0, 4.0, 5.0), (0, 1), senders))
    sets = [(row,) for row in pool] + list(itertools.combinations_with_replacement(pool, 2))
    if some is None or not by_source:
        return sets
    chosen = np.random.default_rng(seed).permutation(len(sets))[:some]
    return [sets[i] for i in chosen]


def check_insertions(how: str, k: int, some: int | None) -> int:
    """Fit with every planted set; return the number of flips, none of them certified or safe."""
    X, y, owners = small(3)
    test = np.arange(6.0)[:, None]
    settings = {"committee": {"committee": 2}, "cap": {"committee": 2, "rows_per_source": 1}}
    guard = PartitionClassifier(None, k, check=False, **settings.get(how, {}))
    by_source = how in ("sources", "committee", "cap")

    def fit(rows, labels, who):
        given = {"sources": who} if by_source else {}
        if how == "ids":
            given = {"row_ids": np.arange(len(who))}
        return clone(guard).fit(rows, labels, **given)

    first = fit(X, y, owners)
    before, radius = first.predict(test), first.certify(test, unit="rows")
    units = [(s, r) for s in range(3) for r in range(3 - s) if by_source or s == 0]
    safe = {(s, r): first.is_safe(test, sources=s, rows=r) for s, r in units}
    flips = 0
    for planted in planted_sets(k, some, by_source):
        rows = np.vstack([X, [[x] for x, _, _ in planted]])
        labels = np.append(y, [label for _, label, _ in planted])
        who = np.append(owners, [s for _, _, s in planted])
        flip = fit(rows, labels, who).predict(test) != before
        flips += int(flip.sum())
        assert not (flip & (radius >= len(planted))).any()
        for s, r in units:  # s sources with all their rows, r rows of others
            for own in itertools.combinations({p[2] for p in planted}, s):
                if sum(p[2] not in own for p in planted) == r:
                    assert not (flip & safe[s, r]).any()
    return flips


@QUIET
@pytest.mark.claim("21.07")
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("k", [3, 5])
def test_no_certified_point_flips_under_small_insertions(how: str, k: int) -> None:
    assert check_insertions(how, k, 40) > 0


@QUIET
@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS[2:])
@pytest.mark.parametrize("k", [3, 5])
def test_no_certified_point_flips_under_all_small_insertions(how: str, k: int) -> None:
    assert check_insertions(how, k, None) > 0


@QUIET
@pytest.mark.claim("21.04")
def test_the_same_odd_cell_flips_certified_predictions_of_sliced_frames() -> None:
    """The test of the frozen schema could fail: slices of the frame do."""
    X, y = mixed(400)
    block = np.random.default_rng(1).integers(9, size=len(X))
    odd = X[:1].astype(object)
    odd.iloc[0, 0] = "39 years"
    more = pd.concat([X.astype({"age": object}), odd])

    def votes(frame, labels):
        own, said = np.append(block, 0)[: len(frame)], []
        for b in range(9):
            try:
                model = pipeline().fit(frame[own == b], labels[own == b])
            except TypeError:  # the block of the odd row itself
                continue
            said.append(np.where(model.predict(X.astype(frame.dtypes)) == "yes", 1, -1))
        assert len(said) >= 8
        return np.sum(said, axis=0)

    first, second = votes(X, y), votes(more, np.append(y, "yes"))
    certified = np.abs(first) > 2  # a lead that survives one block
    assert (certified & ((first > 0) != (second > 0))).sum() >= 5


@QUIET
@pytest.mark.claim("21.06")
def test_cross_validation_carries_sources_and_copies_keep_parameters() -> None:
    X, y = mixed(160)
    who = np.arange(160) // 4
    with sklearn.config_context(enable_metadata_routing=True):
        guard = PartitionClassifier(pipeline(), 5, check=False).set_fit_request(sources=True)
        folds = GroupKFold(3).set_split_request(groups=True)
        scores = cross_val_score(guard, X, y, cv=folds, params={"sources": who, "groups": who})
    assert scores.mean() > 0.6
    again = clone(guard).fit(X, y, sources=who)
    assert again.unit_ == "sources"
    assert again.get_params()["n_partitions"] == 5


@QUIET
@pytest.mark.claim("21.10")
def test_accounts_of_twenty_rows_by_row_and_by_source() -> None:
    X, y = load_digits(n_class=2, return_X_y=True)
    who = np.arange(300) // 20
    rows = PartitionClassifier(n_partitions=15, classes=(0, 1)).fit(X[:300], y[:300])
    own = clone(rows).fit(X[:300], y[:300], sources=who)
    assert rows.certify(X[300:]).max() // 20 == 0  # not one account of twenty rows
    assert own.certified_accuracy(X[300:], y[300:]).at(3) > 0.9


def letters(seed: int, n: int = 600):
    """Messages of accounts: few spammers, whose words overlap with everybody's."""
    rng = np.random.default_rng(seed)
    good, bad = (
        ["meet", "lunch", "home", "today", "thanks", "see", "you", "later"],
        ["win", "free", "cash", "call"],
    )
    texts, labels, who = [], [], []
    while len(texts) < n:
        account, spammer = len(set(who)), rng.random() < 0.15
        for _ in range(int(rng.integers(1, 9))):
            words = [*rng.choice(bad if spammer else good, 2), *rng.choice(good + bad, 4)]
            texts.append(" ".join(words))
            labels.append("spam" if spammer else "ham")
            who.append(account)
    return np.array(texts[:n], dtype=object), np.array(labels[:n]), np.array(who[:n])


@QUIET
@pytest.mark.claim("21.18")
def test_a_threshold_chosen_on_one_half_helps_on_the_other() -> None:
    gains = []
    for seed in (0, 1):
        X, y, who = letters(seed)
        guard = PartitionClassifier(
            make_pipeline(CountVectorizer(), MultinomialNB()), 21, classes=("ham", "spam"),
            check=False,
        ).fit(X[:400], y[:400], sources=who[:400])  # fmt: skip
        halves = (X[400:500], y[400:500]), (X[500:], y[500:])
        for (one, its), (other, theirs) in (halves, halves[::-1]):
            report = guard.set_params(vote_threshold=None).certified_metrics(
                one, its, positive="spam", budgets=[0]
            )
            values = []
            for rule in (None, {"spam": report.best_threshold("f1", 3)}):
                judged = guard.set_params(vote_threshold=rule)
                values.append(
                    judged.certified_metrics(other, theirs, positive="spam", budgets=[3]).at(
                        "f1", 3
                    )
                )
            gains.append(values[1] - values[0])
    assert min(gains) >= 0
    assert np.mean(gains) >= 0.06


@pytest.mark.claim("21.26")
@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_halving_finds_a_number_of_blocks_with_half_of_the_fits(metric) -> None:
    X, y = load_digits(return_X_y=True)
    counts = (21, 35, 51, 75, 101, 151, 201, 251)
    curve = choose_n_partitions(None, X, y, budget=6, metric=metric, candidates=counts)
    assert curve.n_candidates == len(counts)
    assert curve.ensembles_fitted <= curve.n_candidates / 2
    trial = Trial.of(None, X, y, None, None, None)
    goal = Goal.of(metric, trial.classes)
    values = {count: goal.certified(*_at(trial, count)) for count in counts}
    assert max(values.values()) - values[curve.best] <= 0.01
    assert curve.certified.max() == values[curve.best]  # exact, not estimated
    assert {count for count, _, _ in curve.estimated} == set(counts)


def _at(trial, count):
    ballots, most = trial.ballots(count)
    return ballots, 6, most


def test_a_choice_names_metrics_and_classes_that_exist() -> None:
    X, y = load_digits(n_class=3, return_X_y=True)
    for bad in ("speed", ("f1", 7), ("accuracy", 1), 3):
        with pytest.raises(InvalidInputError):
            choose_n_partitions(None, X[:200], y[:200], metric=bad)
    assert (
        "certified recall of 2"
        in choose_n_partitions(
            None, X[:200], y[:200], metric=("recall", 2), candidates=(5, 9)
        ).summary()
    )


@QUIET
@pytest.mark.claim("21.14")
def test_metrics_of_three_classes_against_all_flips_of_points() -> None:
    """Never above the worst of all combinations of flips; recall and accuracy meet it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
    tree = DecisionTreeClassifier(max_depth=2)
    for seed in range(3):
        guard = PartitionClassifier(tree, 7, classes=(0, 1, 2), key=f"{seed}").fit(X, y)
        rows = rng.normal(size=(6, 2)) * 0.5
        truth = (rows[:, 0] > 0).astype(int) + (rows[:, 1] > 0.5)
        report = guard.certified_metrics(rows, truth, budgets=[0, 1, 2])
        ballots = report._ballots
        for t in (1, 2):
            reach = np.stack([ballots.radius(c) < t for c in range(3)], axis=1)
            reach[np.arange(6), ballots.winner] = True
            options = [np.flatnonzero(r) for r in reach]
            for code, metric in itertools.product(range(3), ("precision", "recall", "f1")):
                worst = 1.0
                for said in itertools.product(*options):
                    own = (truth == code) & (np.array(said) == code)
                    parts = {"precision": (np.array(said) == code).sum(),
                             "recall": (truth == code).sum()}  # fmt: skip
                    below = parts.get(metric, (sum(parts.values())) / 2)
                    worst = min(worst, own.sum() / below if below else 0.0)
                value = metric_value(metric, ballots, code, ballots.reachable(t, 6))
                assert value <= worst + 1e-12
                if metric == "recall":
                    assert value == pytest.approx(worst)


def test_the_gap_between_groups_is_worst_minus_best() -> None:
    X, y = load_digits(n_class=2, return_X_y=True)
    guard = PartitionClassifier(n_partitions=9, classes=(0, 1)).fit(X[:100, :6], y[:100])
    groups = np.where(np.arange(200) % 2, "east", "west")
    report = guard.certified_metrics(X[100:300, :6], y[100:300], positive=1, groups=groups)
    for metric, t in itertools.product(("accuracy", "recall", "precision", "f1"), (0, 1, 2)):
        worst, best = report.at(metric, t, "east"), report.at(metric, 0, "west")
        assert report.gap(metric, t, "east", "west") <= worst - best + 1e-12
        if t == 0:
            assert report.gap(metric, t, "east", "west") == pytest.approx(worst - best)
    with pytest.raises(InvalidInputError, match="no group"):
        report.gap("recall", 1, "east", "north")
