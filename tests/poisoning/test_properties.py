"""What holds for every deterministic learner of the area: regions shrink, and they are nested."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.poisoning import LabelledSet, PartitionClassifier, UnionOfIntervals
from counterplay.poisoning.lab import (
    ClosureLearner,
    CoverLearner,
    DyadicDirectionLearner,
    HardMarginSVM,
    LinearTarget,
    MaxOpenInterval,
    MinClosedInterval,
    OrderedERM,
    TreeOrderLearner,
    brute_force_region,
    disagreement_region,
)
from poisoning.problems import disc, random_class, random_sample, random_vc1_class

LINE = np.linspace(0.05, 0.95, 7)[:, None]


INTERVALS = FiniteClass.intervals(range(7))


def finite_problem(name: str, rng: np.random.Generator):
    """A learner, a target row and the coordinates of the domain (None: positions)."""
    if name == "TreeOrderLearner":
        V = random_vc1_class(rng, 7)
        return TreeOrderLearner(V), V.labels[rng.integers(len(V))].astype(np.uint8), None
    if name in ("OrderedERM", "ClosureLearner"):
        H = random_class(rng, 7, 8)
        learner = OrderedERM(H) if name == "OrderedERM" else ClosureLearner(H)
        return learner, H.labels[rng.integers(len(H))].astype(np.uint8), None
    if name in ("DyadicDirectionLearner", "HardMarginSVM"):
        points = disc(rng, 7)
        beta = 2 * np.pi * rng.random()
        target = LinearTarget([np.cos(beta), np.sin(beta)], rng.uniform(-0.4, 0.4))
        learner = DyadicDirectionLearner() if name[0] == "D" else HardMarginSVM()
        return learner, target(points), points
    if name == "CoverLearner":
        points = np.array([-0.9, -0.7, -0.45, -0.3, 0.3, 0.5, 0.8])[:, None]
        learner = CoverLearner(0.6, unseen=int(rng.integers(2)), origin=-1.1)
        return learner, (points[:, 0] >= 0).astype(np.uint8), points
    learners = {
        "MinClosedInterval": MinClosedInterval(),
        "MaxOpenInterval": MaxOpenInterval(),
        "PartitionClassifier": PartitionClassifier(MaxOpenInterval(), 3),
    }
    if name == "UnionOfIntervals":
        U = FiniteClass.unions_of_intervals(range(7), 2)
        return UnionOfIntervals(), U.labels[rng.integers(len(U))].astype(np.uint8), LINE
    target = INTERVALS.labels[rng.integers(len(INTERVALS))].astype(np.uint8)
    return learners[name], target, LINE


@pytest.mark.claim("10.12")
@pytest.mark.parametrize(
    "name",
    ["OrderedERM", "ClosureLearner", "TreeOrderLearner", "UnionOfIntervals", "MinClosedInterval",
     "MaxOpenInterval", "DyadicDirectionLearner", "HardMarginSVM", "CoverLearner",
     "PartitionClassifier"],
)  # fmt: skip
def test_attackable_regions_shrink_with_clean_data(name: str) -> None:
    rng = np.random.default_rng(8)
    for _ in range(12):
        learner, target, points = finite_problem(name, rng)
        seen = random_sample(rng, 7)
        more = np.concatenate([seen, random_sample(rng, 7)])
        before = brute_force_region(learner, target, seen, points=points)
        after = brute_force_region(learner, target, more, points=points)
        assert (after <= before).all()


@pytest.mark.claim("10.13")
def test_error_attack_and_disagreement_are_ordered() -> None:
    rng = np.random.default_rng(9)
    for _ in range(80):
        H = random_class(rng, 7, 8)
        target = H.labels[rng.integers(len(H))].astype(np.uint8)
        seen = random_sample(rng, 7)
        learner = OrderedERM(H, rng.permutation(len(H)))
        _check_nested(learner, target, seen, None, disagreement_region(H, _set(seen, target)))


@pytest.mark.claim("10.13")
@pytest.mark.parametrize(
    "name", ["MinClosedInterval", "MaxOpenInterval", "DyadicDirectionLearner", "HardMarginSVM"]
)
def test_the_order_holds_for_the_other_consistent_learners(name: str) -> None:
    rng = np.random.default_rng(10)
    for _ in range(12):
        learner, target, points = finite_problem(name, rng)
        seen = random_sample(rng, 7)
        S = LabelledSet(points[seen], target[seen])
        family = "intervals" if name.endswith("Interval") else "halfspaces"
        _check_nested(learner, target, seen, points, disagreement_region(family, S, points))


def _set(seen, target) -> LabelledSet:
    return LabelledSet(seen, target[seen])


def _check_nested(learner, target, seen, points, everywhere) -> None:
    domain = np.arange(len(target)) if points is None else points
    wrong = learner.fit(domain[seen], target[seen]).predict(domain) != target
    region = brute_force_region(learner, target, seen, points=points)
    assert (wrong <= region).all()
    assert (region <= everywhere).all()
