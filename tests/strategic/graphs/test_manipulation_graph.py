"""Manipulation graphs from lists, matrices, networkx and actions."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from counterplay.errors import (
    CounterplayWarning,
)
from counterplay.strategic import (
    Action,
    ManipulationGraph,
)

ARC = ManipulationGraph.from_lists([[1], []])


def test_duplicate_arcs_are_dropped_with_a_warning() -> None:
    with pytest.warns(CounterplayWarning, match="node 0"):
        graph = ManipulationGraph.from_lists([[1, 1], []])
    assert graph.neighbors(0).tolist() == [1]


def test_the_same_graph_from_lists_matrix_and_networkx() -> None:
    lists = [[1, 2], [2], []]
    matrix = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]])
    digraph = nx.DiGraph([(0, 1), (0, 2), (1, 2)])
    for graph in (
        ManipulationGraph.from_lists(lists),
        ManipulationGraph.from_matrix(matrix),
        ManipulationGraph.from_networkx(digraph),
    ):
        assert [graph.neighbors(x).tolist() for x in range(3)] == lists
        assert graph.k == 2


def test_actions_reach_exactly_what_the_budget_allows() -> None:
    X = np.array([[0.0, 0.0], [3.0, 2.0]])
    actions = [Action("a", 0, 1, cost=1.0), Action("b", 1, 2, cost=1.5)]
    graph = ManipulationGraph.from_actions(X, actions, budget=2.5)
    reached = {tuple(p) for p in graph.features[graph.neighbors(graph.node_of(X[:1])[0])]}
    affordable = {
        (float(i), 2.0 * j)
        for i in range(4)
        for j in range(3)
        if 0 < i + 1.5 * j <= 2.5 and i <= 3 and 2 * j <= 2
    }
    assert reached == affordable
    assert graph.neighbors(graph.node_of(X[1:])[0]).size == 0  # nothing leaves the seen range


def test_a_graph_can_be_rebuilt_from_its_own_matrix() -> None:
    again = ManipulationGraph.from_matrix(ARC.adjacency, features=[[0.0], [2.0]])
    assert again.neighbors(0).tolist() == [1]
    assert ARC.neighbors(0).tolist() == [1]


@pytest.mark.claim("20.15")
def test_limits_bind_only_the_features_that_change() -> None:
    """Who stands outside the limits of one action may still take another one."""
    X = np.array([[3.0, 0.0], [6.0, 0.0], [6.0, 1.0]])
    actions = [
        Action("close a card", column=0, change=-1, cost=1.0, low=5),
        Action("raise income", column=1, change=1, cost=1.0),
    ]
    graph = ManipulationGraph.from_actions(X, actions, budget=1.0)

    def reached(point: list[float]) -> set[tuple[float, ...]]:
        node = int(graph.node_of([point])[0])
        return {tuple(row) for row in graph.features[graph.neighbors(node)]}

    assert reached([3.0, 0.0]) == {(3.0, 1.0)}  # two cards fewer than allowed, income is free
    assert reached([6.0, 0.0]) == {(5.0, 0.0), (6.0, 1.0)}
    assert reached([6.0, 1.0]) == {(5.0, 1.0)}  # income ends at the largest value seen
