"""OrderedERM: exact regions, smallest poison, and large classes."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.poisoning import LabelledSet
from counterplay.poisoning.lab import (
    OrderedERM,
    brute_force_region,
    disagreement_region,
    worst_case_region,
)
from poisoning.problems import random_class, random_sample, shortest


@pytest.mark.claim("10.11")
def test_ordered_erm_region_is_exact() -> None:
    rng = np.random.default_rng(6)
    for _ in range(100):
        H = random_class(rng, 7, int(rng.integers(2, 11)))
        target = H.labels[rng.integers(len(H))].astype(np.uint8)
        seen = random_sample(rng, 7)
        learner = OrderedERM(H, rng.permutation(len(H)))
        region = learner.attackable_region(target, seen)
        assert np.array_equal(region, brute_force_region(learner, target, seen))
        worst = worst_case_region(H, target, seen)
        assert np.array_equal(worst, disagreement_region(H, LabelledSet(seen, target[seen])))
        orders = [OrderedERM(H, np.roll(np.arange(len(H)), -i)) for i in range(len(H))]
        union = np.any([o.attackable_region(target, seen) for o in orders], axis=0)
        assert np.array_equal(worst, union)  # some order puts each bad hypothesis first


@pytest.mark.claim("10.11")
def test_smallest_poison_of_ordered_erm() -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        H = random_class(rng, 7, 8)
        target = H.labels[rng.integers(len(H))].astype(np.uint8)
        seen, x0 = random_sample(rng, 7)[:2], int(rng.integers(7))
        learner = OrderedERM(H)
        poison = learner.smallest_poison(target, seen, x0)
        sizes = [t for t in range(8) if brute_force_region(learner, target, seen, budget=t)[x0]]
        assert (poison is None) == (not sizes)
        if poison is not None:
            assert poison.size == sizes[0]
            assert learner.smallest_poison(target, seen, x0, exact=False).size >= poison.size


@pytest.mark.slow
@pytest.mark.claim("10.37")
def test_exact_region_of_a_large_class_is_fast() -> None:
    rng = np.random.default_rng(0)
    H = FiniteClass.from_matrix(rng.random((2000, 500)) < 0.1)
    learner, target = OrderedERM(H), H.labels[-1].astype(np.uint8)
    seen = np.flatnonzero(target == 0)[:1]
    region = learner.attackable_region(target, seen)
    assert region.any()
    errors = H.labels[H.consistent(seen, target[seen])] ^ target.astype(bool)
    last = len(errors) - 1

    def plain(h: int) -> bool:  # the condition for one hypothesis, straight from its definition
        return bool((errors[:h] & ~errors[h]).any(axis=1).all())

    exact = shortest(lambda: learner.attackable_region(target, seen))
    sample = shortest(lambda: [plain(h) for h in range(0, last, 40)])
    assert exact < 40 * sample  # all hypotheses in less time than the definition takes
    assert exact < 5  # seconds; about 0.07 on one core
