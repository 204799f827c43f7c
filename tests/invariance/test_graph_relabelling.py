"""Canonical forms of graphs against brute-force isomorphism."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.invariance import (
    groups,
)


@pytest.mark.parametrize("seed", range(20))
def test_graph_keys_decide_isomorphism(seed: int) -> None:
    import networkx as nx

    rng = np.random.default_rng(seed)
    group = groups.graph_relabelling(6)
    graphs = []
    for _ in range(12):
        upper = np.triu(rng.integers(0, 2, size=(6, 6)), 1)
        graphs.append((upper + upper.T).reshape(-1))
    X = np.array(graphs, dtype=float)
    keys = group.orbit_key(X)
    assert group.orbit_key(group.sample(X, 1, seed)[0]) == keys
    nets = [nx.from_numpy_array(g.reshape(6, 6)) for g in X]
    for i in range(12):
        for j in range(i):
            assert (keys[i] == keys[j]) == nx.is_isomorphic(nets[i], nets[j])


SYMMETRIC = {
    "empty": lambda nx: nx.empty_graph(12),
    "complete": lambda nx: nx.complete_graph(12),
    "cube": lambda nx: nx.hypercube_graph(4),
    "pairs": lambda nx: nx.disjoint_union_all([nx.complete_graph(2)] * 6),
    "cliques": lambda nx: nx.disjoint_union_all([nx.complete_graph(4)] * 3),
    "Petersen": lambda nx: nx.petersen_graph(),
    "rook": lambda nx: nx.line_graph(nx.complete_bipartite_graph(4, 4)),
    "directed cycle": lambda nx: nx.cycle_graph(9, create_using=nx.DiGraph),
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_graphs_with_many_automorphisms_have_a_canonical_form(name: str) -> None:
    """Breaking ties in every way would take up to 12! branches."""
    import networkx as nx

    graph = nx.convert_node_labels_to_integers(SYMMETRIC[name](nx))
    matrix = nx.to_numpy_array(graph)
    group = groups.graph_relabelling(len(matrix))
    form = group.canonical(matrix.reshape(1, -1))
    made = nx.from_numpy_array(form.reshape(matrix.shape), create_using=type(graph))
    assert nx.is_isomorphic(made, graph)
    for image in group.sample(matrix.reshape(1, -1), 5, 0):
        np.testing.assert_array_equal(group.canonical(image), form)
