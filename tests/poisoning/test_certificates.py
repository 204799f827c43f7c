"""Radii of partitions and finite aggregation, and the curve of certified accuracy."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterplay.poisoning import (
    BlockMajorityClassifier,
    PartitionClassifier,
)
from counterplay.poisoning.certificates import (
    finite_aggregation_radius,
    partition_radius,
    spread_parts,
)


@pytest.mark.claim("10.39")
def test_finite_aggregation_design_and_radius() -> None:
    for k, d in ((5, 3), (7, 4), (3, 1)):
        spread = spread_parts(k, d)
        assert (np.bincount(spread.ravel(), minlength=k * d) == d).all()
        assert all(len(set(row)) == d for row in spread.tolist())
    # Against the definition: remove t parts in the worst way, by brute force over votes.
    rng = np.random.default_rng(3)
    votes = rng.integers(3, size=(12, 40))
    single = finite_aggregation_radius(votes, np.arange(12)[:, None], 3)
    counts = np.stack([(votes == c).sum(axis=0) for c in range(3)], axis=1)
    from counterplay.core.votes import Vote

    vote = Vote(counts.argmax(axis=1), counts, np.arange(3))
    assert np.array_equal(single, partition_radius(vote))  # one model per part: the plain radius
    # A lead of L votes survives at least floor(L / (2 d)) parts, each of which reaches d models.
    design = spread_parts(4, 3)
    radius = finite_aggregation_radius(votes, design, 3)
    assert (radius >= partition_radius(vote) // 3).all()


def test_certified_accuracy_curve() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    guard = PartitionClassifier(pipe, 21).fit(X[:400], y[:400])
    curve = guard.certified_accuracy(X[400:], y[400:])
    frame = curve.to_frame()
    assert frame.certified_accuracy.is_monotonic_decreasing
    assert frame.certified_accuracy.iloc[0] == guard.score(X[400:], y[400:])
    assert curve.at(3) == frame.certified_accuracy[3]
    assert curve.median_radius >= 5
    majority = BlockMajorityClassifier(pipe, t=2, random_state=0)
    rate = majority.certified_upper_rate(X[:400], y[:400], X[400:], y[400:], n_permutations=3)
    assert rate.estimate < 0.15


def test_the_curve_says_what_it_counts() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    guard = PartitionClassifier(n_partitions=9).fit(X[:300], y[:300], sources=np.arange(300) // 3)
    curve = guard.certified_accuracy(X[300:], y[300:])
    assert "planted sources" in curve.summary()
    assert "rows" not in curve.summary()
    assert curve.to_frame().columns[0] == "planted_sources"
    assert curve.plot().get_xlabel() == "planted sources"
    taken = guard.certified_accuracy(X[300:], y[300:], changes="replaced")
    assert "replaced sources" in taken.summary()
    by_row = PartitionClassifier(n_partitions=9).fit(X[:300], y[:300])
    assert "planted rows" in by_row.certified_accuracy(X[300:], y[300:]).summary()
