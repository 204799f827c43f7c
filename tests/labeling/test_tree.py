from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.labeling import GBS, instances
from counterplay.labeling.lab import QueryTree
from counterplay.labeling.tree import owner_shares


@pytest.mark.claim("06.22")
def test_identical_pools_share_evenly() -> None:
    problem = instances.identical_pools(k=4, m=7)
    assert GBS(assignment="uniform").expected_costs(problem).tolist() == [Fraction(3, 4)] * 4
    assert GBS().expected_costs(problem).tolist() == [3, 0, 0, 0]
    loads = GBS(assignment="least_loaded").cost_matrix(problem)
    assert (loads.max(axis=1) - loads.min(axis=1) <= 1).all()


def test_costs_are_the_shares_along_the_path() -> None:
    problem = instances.gbs_counterexample(6)
    tree = GBS(tie_break=[8]).tree(problem)
    shares = owner_shares(tree, problem.owner_mask, "first")
    for row, cost in enumerate(tree.costs(shares)):
        asked = [x for x, _ in tree.path(problem.H, row)]
        assert len(asked) == tree.query_counts()[row]
        assert cost.tolist() == [sum(x in pool for x in asked) for pool in problem.agents]
    assert tree.depth == tree.query_counts().max()
    assert (tree.n_inner, tree.leaves.size) == (tree.n_nodes - problem.N, problem.N)


def test_owner_rules_may_be_functions_and_must_name_an_owner() -> None:
    problem = instances.identical_pools(k=3, m=7)
    last = GBS(assignment=lambda owners, loads, point: owners[-1])
    assert last.expected_costs(problem).tolist() == [0, 0, 3]
    assert last.expected_costs(problem, (0, 1)).tolist() == [0, 3, 0]
    with pytest.raises(InvalidInputError, match="chose agent 7 for point"):
        GBS(assignment=lambda owners, loads, point: 7).cost_matrix(problem)
    with pytest.raises(InvalidInputError, match="assignment"):
        GBS(assignment="last")


def test_arrays_of_the_wrong_size_are_refused() -> None:
    tree = GBS().tree(instances.threshold_example())
    with pytest.raises(InvalidInputError, match=f"must have {tree.n_nodes} nodes"):
        tree.costs(np.ones((tree.n_nodes - 1, 2)))
    far = QueryTree(tree.point, tree.children + tree.n_nodes, tree.lo, tree.hi, tree.rows)
    with pytest.raises(InvalidInputError, match="children"):
        far.costs(np.ones((tree.n_nodes, 2)))
