from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.labeling import PoolProblem
from counterplay.labeling.lab import Answer, smallest_conflict


@pytest.mark.claim("06.31")
def test_conflicts_are_smallest() -> None:
    rng = np.random.default_rng(0)
    compared = 0
    while compared < 40:
        H = rng.integers(0, 2, size=(6, 8))
        problem = PoolProblem.from_labelings(H, agents=[np.arange(8)])
        answers = [Answer(0, x, int(rng.integers(2))) for x in rng.permutation(8)[:6]]
        wrong = np.stack([problem.H[:, a.point] != a.label for a in answers], axis=1)
        if not wrong.any(axis=1).all():
            with pytest.raises(InvalidInputError, match="no conflict"):
                smallest_conflict(problem, answers)
            continue
        sizes = [
            size
            for size in range(1, 7)
            if any(wrong[:, list(c)].any(axis=1).all() for c in combinations(range(6), size))
        ]
        conflict = smallest_conflict(problem, answers)
        chosen = [answers.index(answer) for answer in conflict]
        assert wrong[:, chosen].any(axis=1).all()
        assert len(conflict) == sizes[0]
        compared += 1
