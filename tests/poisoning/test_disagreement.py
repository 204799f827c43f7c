"""The region of disagreement of half-spaces by linear programs."""

from __future__ import annotations

import numpy as np

from counterplay.core.finite_class import FiniteClass
from counterplay.poisoning import LabelledSet
from counterplay.poisoning.lab import (
    disagreement_region,
    separable,
)
from poisoning.problems import random_sample


def test_disagreement_of_halfspaces_by_linear_programs() -> None:
    S = LabelledSet([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0]], [1, 1, 0, 0])
    inside = disagreement_region("halfspaces", S, [[0.5, 0.5], [0.5, 1.0], [0.5, 1.2], [3.0, 0.9]])
    assert inside.tolist() == [True, False, False, True]
    assert separable(S.X, S.y)
    cells = FiniteClass.intervals(range(9))
    for _ in range(20):
        rng = np.random.default_rng(_)
        target = cells.labels[rng.integers(len(cells))].astype(np.uint8)
        seen = random_sample(rng, 9)
        S = LabelledSet(seen, target[seen])
        flat = LabelledSet(seen.astype(float), target[seen])
        assert np.array_equal(
            disagreement_region(cells, S), disagreement_region("intervals", flat, np.arange(9.0))
        )
