"""All clean additions, tried one by one."""

from __future__ import annotations

import numpy as np

from counterplay.core.finite_class import FiniteClass
from counterplay.poisoning.lab import (
    OrderedERM,
    TableTarget,
    brute_force_region,
)


def test_table_target_and_brute_force_budget() -> None:
    H = FiniteClass.singletons(5)
    target = TableTarget([0, 0, 0, 0, 1])
    regions = [brute_force_region(OrderedERM(H), target.labels, [1], budget=t) for t in range(5)]
    assert [int(r.sum()) for r in regions] == [2, 3, 4, 4, 4]
    multi = brute_force_region(OrderedERM(H), target.labels, [1], multiset_cap=2)
    assert np.array_equal(multi, regions[-1])
