"""ProjectedMajority: clear majorities and their projection."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.poisoning import (
    instances,
)
from counterplay.poisoning.lab import (
    FiniteProjector,
    HalfspaceProjector,
    IntervalProjector,
    OrderedERM,
    ProjectedMajority,
    ProjectionFailed,
    ThresholdProjector,
    hollow_star_number,
    projection_number,
)
from counterplay.poisoning.projected_majority import clear_points


@pytest.mark.claim("10.31")
def test_projected_majority_equals_the_clear_majority() -> None:
    rng = np.random.default_rng(3)
    for H in (FiniteClass.thresholds(range(10)), FiniteClass.intervals(range(6))):
        k_p = projection_number(H).value
        for _ in range(4):
            target = H.labels[rng.integers(len(H))].astype(np.uint8)
            rows = rng.integers(H.n_points, size=4 * (10 * k_p + 1))
            learner = ProjectedMajority(
                OrderedERM(H, rng.permutation(len(H))), 1, k_p, FiniteProjector(H), random_state=0
            ).fit(rows, target[rows])
            answer = learner.predict(np.arange(H.n_points))
            assert H.index_of(answer) is not None
            clear = learner.clear_
            assert np.array_equal(answer[clear], learner.majority_[clear])


@pytest.mark.claim("10.31")
def test_projection_on_thresholds_is_the_median() -> None:
    rng = np.random.default_rng(4)
    points = np.arange(30.0)
    projector = ThresholdProjector(points)
    for _ in range(30):
        cuts = rng.integers(0, 31, size=21)
        votes = (points[None, :] >= cuts[:, None]).astype(int)
        labels = votes.sum(axis=0) * 2 > 21
        cut = projector.project(labels.astype(np.uint8), clear_points(votes, 2), 2)
        assert cut == np.median(cuts) or (np.isinf(cut) and np.median(cuts) == 30)


@pytest.mark.claim("10.31")
def test_projection_fails_below_the_hollow_star_number() -> None:
    H = FiniteClass.singletons(5)
    star = hollow_star_number(H)
    votes = H.labels[list(star.witnesses)].astype(int)  # each point has one dissenter in five
    labels = np.asarray(star.labels, dtype=np.uint8)
    assert star.value == 5
    with pytest.raises(ProjectionFailed, match="k=4"):
        FiniteProjector(H).project(labels, clear_points(votes, 4), 4)
    FiniteProjector(H).project(labels, clear_points(votes, 5), 5)  # nothing is clear any more


@pytest.mark.claim("10.31")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_half_spaces_need_k_p_equal_n_plus_two(n: int) -> None:
    T = instances.simplex_set(n)
    votes = np.tile(T.y.astype(int), (n + 2, 1))
    votes[np.arange(n + 2), np.arange(n + 2)] ^= 1  # the neighbours h_1, ..., h_{n+2}
    projector = HalfspaceProjector(T.X)
    with pytest.raises(ProjectionFailed, match=f"k={n + 1}"):
        projector.project(T.y, clear_points(votes, n + 1), n + 1)
    projector.project(T.y, clear_points(votes, n + 2), n + 2)
    rng, failed = np.random.default_rng(n), 0
    for _ in range(60):
        X = rng.normal(size=(25, n))
        planes = rng.normal(size=(31, n + 1))
        votes = (X @ planes[:, :n].T + planes[:, n] >= 0).T.astype(int)
        labels = (votes.sum(axis=0) * 2 > 31).astype(np.uint8)
        HalfspaceProjector(X).project(labels, clear_points(votes, n + 2), n + 2)  # always works
        try:
            HalfspaceProjector(X).project(labels, clear_points(votes, 2), 2)
        except ProjectionFailed:
            failed += 1
    assert failed > (0, 30, 30)[n - 1]


@pytest.mark.claim("10.31")
def test_projection_on_intervals_is_the_hull_of_the_clear_positives() -> None:
    rng = np.random.default_rng(8)
    points = np.arange(20.0)
    projector = IntervalProjector(points)
    for _ in range(60):
        ends = np.sort(rng.integers(0, 20, size=(21, 2)), axis=1)
        votes = ((points >= ends[:, :1]) & (points <= ends[:, 1:])).astype(int)
        labels = (votes.sum(axis=0) * 2 > 21).astype(np.uint8)
        clear = clear_points(votes, 3)  # k_p = 3: always an interval
        answer = projector.predict(projector.project(labels, clear, 3), points)
        assert np.array_equal(answer[clear], labels[clear])
    with pytest.raises(ProjectionFailed, match="k_p = 3"):
        projector.project(np.arange(20) % 2, np.ones(20, bool), 2)
