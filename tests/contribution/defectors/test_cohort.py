"""Who holds which points."""

from __future__ import annotations

import numpy as np
import pytest

from contribution.digits import COHORT, KEYS
from counterplay.contribution.lab import (
    hard_and_easy,
    kept_points,
    mixture_parties,
    noisy_digits,
    split_indices,
)
from counterplay.core.draws import run_keys
from counterplay.errors import InvalidInputError


@pytest.mark.claim("04.31")
def test_defector_data_are_fixed_nested_and_bounded() -> None:
    cohort = noisy_digits(KEYS, size=2000, train=1600)
    who = np.array([0, 3, 1, 2])
    used: dict[float, list[set[int]]] = {}
    for fraction in (0.01, 0.05, 0.25, 1.0):
        reduced = cohort.defect(who, fraction)
        assert (reduced.sizes[np.arange(4), who] == max(1, round(1600 * fraction))).all()
        others = np.ones((4, 4), dtype=bool)
        others[np.arange(4), who] = False
        assert (reduced.sizes[others] == 1600).all()
        points: list[set[int]] = [set() for _ in range(4)]
        for t in range(40):
            for r in range(4):
                points[r] |= set(reduced.draw(int(who[r]), t, 64)[r].tolist())
        used[fraction] = points
        allowed = [
            set(cohort.train[r, who[r], : round(1600 * fraction)].tolist()) for r in range(4)
        ]
        assert all(p <= a for p, a in zip(points, allowed))
    assert kept_points(1600, 0.01) == 16
    assert all(len(p) == 16 for p in used[0.01])  # 2560 draws see all 16 points
    assert all(a <= b for a, b in zip(used[0.01], used[0.05]))
    assert (cohort.sizes == 1600).all()
    with pytest.raises(InvalidInputError, match="between 0 and 3"):
        cohort.defect(7, 0.5)


@pytest.mark.claim("04.34")
def test_split_and_mixture_sizes() -> None:
    parts = split_indices(131_600)
    assert [len(part) for part in parts] == [60_000, 30_000, 41_600]
    assert len(set(np.concatenate(parts).tolist())) == 131_600
    hard, easy = hard_and_easy(np.random.default_rng(0).random(60_000))
    assert len(hard) == len(easy) == 6000
    assert not set(hard.tolist()) & set(easy.tolist())
    keys = run_keys(0, 3)
    for disjoint in (True, False):
        train, val = mixture_parties(hard, easy, keys=keys, disjoint=disjoint)
        assert train.shape == (3, 4, 1600)
        assert val.shape == (3, 4, 400)
        both = np.concatenate([train, val], axis=2)
        assert np.isin(both, hard).sum(axis=2).tolist() == [[2000, 1800, 200, 0]] * 3
        for run in both:
            assert all(len(set(party.tolist())) == 2000 for party in run)
        if disjoint:
            assert all(len(set(run.ravel().tolist())) == 8000 for run in both)
    with pytest.raises(InvalidInputError, match="4000 hard points are needed"):
        mixture_parties(hard[:3999], easy, disjoint=True)


@pytest.mark.claim("04.29")
def test_the_pool_of_a_round_holds_what_everybody_was_asked_for() -> None:
    counts = np.array([[64, 64, 64, 64], [26, 102, 26, 102], [0, 250, 3, 3], [1, 1, 1, 1]])
    index, weight = COHORT.pooled(counts, 7)
    assert index.shape == (4, 256)
    assert weight.sum(axis=1) == pytest.approx(1.0)
    assert (weight > 0).sum(axis=1).tolist() == [256, 256, 256, 4]
    for r in range(4):
        drawn = index[r, weight[r] > 0]
        assert [int(np.isin(drawn, COHORT.train[r, i]).sum()) for i in range(4)] == list(counts[r])
