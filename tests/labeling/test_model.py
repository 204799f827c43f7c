from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.labeling import PoolProblem, plan_campaign
from counterplay.labeling.lab import optimal_cost
from labeling.problems import plain_optimum, random_problem


@pytest.mark.claim("24.20")
def test_floor_counts_the_labels_an_answer_can_have() -> None:
    """Nine labelings of two points: two questions are enough, although the entropy is 3.17 bits."""
    nine = np.array([[a, b] for a in range(3) for b in range(3)])
    problem = PoolProblem.from_labelings(nine, agents=[[0], [1]], n_classes=3)
    assert problem.query_floor() == pytest.approx(2.0)
    assert float(optimal_cost(problem)) == 2.0
    plan = plan_campaign(np.arange(2.0), owners=[0, 1], hypotheses=nine)
    assert "no protocol can do with fewer than 2.00 queries" in plan.summary()
    rng = np.random.default_rng(9)
    tight = 0
    for _ in range(200):
        labels = rng.integers(0, 3, size=(int(rng.integers(1, 9)), 4))
        weights = rng.integers(1, 9, size=len(labels))
        problem = PoolProblem.from_labelings(labels, weights, [[0, 1], [2, 3]], n_classes=3)
        best = plain_optimum(problem) / problem.weights.sum()
        assert problem.query_floor() <= best + 1e-12
        tight += problem.entropy() > best + 1e-9
        for agent in (0, 1):
            alone = problem.restrict((agent,)).problem
            best = plain_optimum(alone) / alone.weights.sum()
            assert problem.query_floor((agent,)) <= best + 1e-12
    assert tight > 20  # bits are no floor
    for _ in range(20):
        problem = random_problem(rng, k=2)
        assert problem.query_floor() == pytest.approx(problem.entropy())


@pytest.mark.claim("06.29")
def test_bad_problems_name_the_item() -> None:
    good = [[0, 1], [1, 0]]
    cases = [
        ({"labels": good, "agents": [[0]]}, "column 1 is owned by nobody"),
        ({"labels": good, "agents": [[0, 1], []]}, "agent 1 has an empty pool"),
        ({"labels": good, "agents": [[0, 1, 5]]}, "agent 0 lists column 5"),
        ({"labels": good, "agents": [[0, 1, 1]]}, "agent 0 lists a column twice"),
        ({"labels": good, "weights": [1, -2], "agents": [[0, 1]]}, r"weights\[1\] is negative"),
        ({"labels": good, "weights": [1, np.nan], "agents": [[0, 1]]}, "finite"),
        ({"labels": good, "weights": [0, 0], "agents": [[0, 1]]}, "positive sum"),
        ({"labels": [[0, 2]], "agents": [[0, 1]]}, "labeling 0 gives point 1 the label 2"),
        ({"labels": np.zeros((0, 2)), "agents": [[0, 1]]}, "must not be empty"),
        ({"labels": good, "weights": [1], "agents": [[0, 1]]}, "length 2"),
    ]
    for arguments, message in cases:
        with pytest.raises(InvalidInputError, match=message):
            PoolProblem.from_labelings(**arguments)
