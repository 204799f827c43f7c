"""The polytope of preferences that explain the answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from counterplay.elicitation.comparisons import Answer
from counterplay.elicitation.consistent_set import answer_rows
from counterplay.elicitation.lab import ConsistentSet
from counterplay.elicitation.users import three_valued


def told_set(k: int, n: int, eps: float, seed: int) -> tuple[ConsistentSet, np.ndarray]:
    rng = np.random.default_rng(seed)
    w = rng.dirichlet(np.ones(k))
    consistent = ConsistentSet(k)
    for _ in range(n):
        difference = rng.random(k) - rng.random(k)
        assert consistent.tell(difference, three_valued(float(difference @ w), eps))
    return consistent, w


@pytest.mark.claim("08.28")
@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("eps", [0.0, 0.03, 0.3])
def test_vertices_span_exactly_the_preferences_that_explain_the_answers(k: int, eps: float) -> None:
    for seed in range(4):
        consistent, w = told_set(k, 15, eps, seed)
        assert consistent.contains(w, eps)
        rows = np.array([row for d, a in consistent.answers for row in answer_rows(d, a)])
        points = np.hstack([consistent.vertices, consistent.precisions[:, None]])
        assert (points @ rows.T >= -1e-9).all()
        with_eps = any(a is Answer.INDISTINGUISHABLE for _, a in consistent.answers)
        rng = np.random.default_rng(seed)
        for _ in range(10):
            goal = np.append(rng.normal(size=k), rng.normal() if with_eps else 0.0)
            best = linprog(
                -goal,
                A_ub=-rows,
                b_ub=np.zeros(len(rows)),
                A_eq=[np.append(np.ones(k), 0.0)],
                b_eq=[1.0],
                bounds=[(0, None)] * k + [(0, 1)],
            )
            assert (points @ goal).max() == pytest.approx(-best.fun, abs=1e-7)


@pytest.mark.claim("08.28")
def test_people_explain_the_answers_and_none_is_shown_twice() -> None:
    consistent, _ = told_set(4, 4, 0.0, 5)
    everybody = consistent.people(10**6, np.random.default_rng(0))
    assert 0 < len(everybody) < len(ConsistentSet(4).people(10**6, np.random.default_rng(0)))
    assert all(consistent.contains(w) for w in everybody)
    assert len(np.unique(everybody, axis=0)) == len(everybody)
    some = consistent.people(len(everybody) - 1, np.random.default_rng(1))
    assert len(np.unique(some, axis=0)) == len(some) == len(everybody) - 1
    assert consistent.tell([1e-9, -1e-9, 0.0, 0.0], "same")
    assert len(consistent.people(100, np.random.default_rng(0))) == 0
