"""One set of blocks for all test rows: bounds and attained values against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import hypergeom
from sklearn.datasets import load_digits

from counterplay.poisoning import PartitionClassifier
from counterplay.poisoning.ballots import Ballots, metric_value
from counterplay.poisoning.certificates import part_table, spread_parts
from counterplay.poisoning.collective import Collective


def score(metric: str, truth: np.ndarray, said: np.ndarray) -> float:
    """The metric of class 1 by its definition; 0/0 is 0."""
    hits = int(((truth == 1) & (said == 1)).sum())
    own, called = int((truth == 1).sum()), int((said == 1).sum())
    top, below = {
        "accuracy": (int((truth == said).sum()), len(truth)),
        "precision": (hits, called),
        "recall": (hits, own),
        "f1": (2 * hits, own + called),
    }[metric]
    return top / below if below else 0.0


def ballots(seed: int, n: int = 8, k: int = 6) -> Ballots:
    """Random votes with abstentions: classes, thresholds, spread blocks, open labels."""
    rng = np.random.default_rng(seed)
    classes = 2 + seed % 2
    truth = rng.integers(classes, size=n)
    votes = np.where(rng.random((k, n)) < 0.6, truth[None, :], rng.integers(-1, classes, (k, n)))
    counts = np.stack([(votes == c).sum(axis=0) for c in range(classes)], axis=1)
    winner = counts.argmax(axis=1)
    ties = np.arange(classes)[None, :] < winner[:, None]
    needed = counts.max(axis=1)[:, None] - counts - ties + 1
    design = spread_parts(3, 2) if seed % 5 == 4 else np.arange(k)[:, None]
    uses = part_table(design, k)
    plain = Ballots(votes, truth, winner, needed, None, uses, closed=seed % 3 > 0)
    if classes == 2 and seed % 4 == 0:
        return plain.with_threshold(1, int(rng.integers(1, k + 1)))
    return plain


def answers(b: Ballots, touched: set[int], target: int) -> np.ndarray:
    """Predictions once all touched models say ``target`` (a new label wins ties)."""
    votes = b.votes.copy()
    votes[list(touched)] = target
    if b.least is not None:
        return np.where((votes == 1).sum(axis=0) >= b.least[1], 1, 0)
    counts = np.stack([(votes == c).sum(axis=0) for c in (9, *range(b.needed.shape[1]))], axis=1)
    names = np.array([9, *range(b.needed.shape[1])])
    if target != 9:
        counts[:, 0] = -1
    return names[counts.argmax(axis=1)]


def worst(b: Ballots, t: int, metric: str) -> float:
    """Smallest metric of class 1 over all sets of parts and, for each row, all flips they allow."""
    targets = [*range(b.needed.shape[1]), *([] if b.closed else [9])]
    least = 1.0
    for parts in itertools.combinations(range(b.parts), t):
        touched = set(np.flatnonzero(b.uses[:, list(parts)].any(axis=1)).tolist())
        said = np.stack([answers(b, touched, c) for c in targets])
        final = b.winner.copy()
        for j in range(len(final)):
            options = {int(v) for v in said[:, j]} | {int(b.winner[j])}
            if b.truth[j] == 1:
                bad = [v for v in options if v != 1]
            elif metric in ("precision", "f1"):
                bad = [v for v in options if v == 1]
            else:
                bad = [v for v in options if v != b.truth[j]]
            if b.truth[j] == b.winner[j] or (metric in ("precision", "f1") and final[j] != 1):
                final[j] = bad[0] if bad else final[j]
        least = min(least, score(metric, b.truth, final))
    return least


@pytest.mark.claim("21.15")
@pytest.mark.parametrize("start", range(0, 120, 15))
def test_the_integer_program_is_the_enumeration_and_no_bound_is_above_it(start: int) -> None:
    for seed in range(start, start + 15):
        b = ballots(seed)
        metrics = ("accuracy", "recall") if seed % 5 == 0 else ("accuracy",)
        for t, metric in itertools.product((1, 2, 3), metrics):
            truth = worst(b, t, metric)
            game = Collective.of(metric, b, 1, t)
            per_point = metric_value(metric, b, 1, b.reachable(t, b.parts))
            attained = min(game.attained(1.0), game.attained(per_point))
            for method in ("pairs", "linear"):
                low, _ = game.certified(per_point, attained, method)
                assert per_point <= low <= truth + 1e-12
            low, high = game.certified(0.0, attained, "integer")
            assert low == pytest.approx(truth, abs=1e-12)
            assert truth - 1e-12 <= attained
            assert high == pytest.approx(truth, abs=1e-12)


@pytest.mark.claim("21.16")
@pytest.mark.parametrize("start", range(0, 60, 15))
def test_ratio_metrics_are_certified_to_a_hundred_thousandth(start: int) -> None:
    for seed in range(start, start + 15):
        b = ballots(seed)
        for t, metric in itertools.product((1, 2), ("precision", "f1")):
            truth = worst(b, t, metric)
            game = Collective.of(metric, b, 1, t)
            per_point = metric_value(metric, b, 1, b.reachable(t, b.parts))
            attained = game.attained(per_point)
            relaxed, _ = game.certified(per_point, attained, "linear")
            low, _ = game.certified(0.0, attained, "integer")
            assert per_point <= relaxed + 1e-12
            assert relaxed <= truth + 1e-12
            assert truth - 1e-5 <= low <= truth + 1e-12 <= attained + 2e-12


@pytest.mark.claim("21.17")
def test_a_collective_report_is_between_the_certificate_per_point_and_what_is_attained() -> None:
    X, y = load_digits(return_X_y=True)
    guard = PartitionClassifier(n_partitions=15, classes=range(10)).fit(X[:900], y[:900])
    rows, labels = X[900:1000], y[900:1000]
    budgets = [0, 1, 3]
    plain = guard.certified_metrics(rows, labels, positive=3, budgets=budgets).to_frame()
    report = guard.certified_metrics(
        rows, labels, positive=3, budgets=budgets, collective=True, time_limit=2
    )
    frame = report.to_frame()
    assert (frame.certified >= plain.certified - 1e-12).all()
    assert (frame.certified <= frame.attained + 1e-12).all()
    assert (frame.attained <= plain.attained + 1e-12).all()
    assert frame.certified.sum() > plain.certified.sum()  # ten classes: it gains
    assert "one poisoned training set" in report.summary()
    for _, part in frame.groupby("metric"):
        assert (np.diff(part.certified) <= 1e-12).all()
        assert (np.diff(part.attained) <= 1e-12).all()
    wide = frame[(frame.metric == "accuracy") & (frame.budget == 3)].iloc[0]
    assert 0 < wide.low < wide.certified


@pytest.mark.claim("21.19")
@pytest.mark.parametrize("k", [5, 8])
def test_the_blind_mean_is_the_hypergeometric_one(k: int) -> None:
    X, y = load_digits(n_class=2, return_X_y=True)
    guard = PartitionClassifier(n_partitions=k, classes=(0, 1)).fit(X[:60, :9], y[:60])
    rows, labels = X[60:160, :9], y[60:160]
    report = guard.certified_metrics(rows, labels, positive=1, budgets=range(4))
    votes = guard.votes(rows)
    for t in range(4):
        kept = 0.0
        for column, truth in zip(votes.T, labels):
            ones, zeros = int((column == 1).sum()), int((column == 0).sum())
            said = int(ones > zeros)
            own, other = (ones, zeros) if said == 1 else (zeros, ones)
            slack = own - other - int(said == 1)
            # every touched vote for the winner moves the lead by two; no block abstains here
            safe = hypergeom(k, own, t).cdf(slack // 2)
            kept += (said == truth) * safe
        mean, low = report.blind(t)
        assert mean == pytest.approx(kept / len(labels), abs=1e-9)
        assert report.at("accuracy", t) <= low <= mean + 1e-12
        for metric in ("recall", "precision", "f1"):
            assert report.at(metric, t) <= report.blind(t, metric)[0] + 1e-12
