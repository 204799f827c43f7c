"""What people do on a graph, and regret against the best rule."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.strategic import (
    ManipulationGraph,
    strategic_accuracy,
)
from counterplay.strategic.lab import (
    respond,
    stackelberg_regret,
)
from strategic.graph_problems import random_graph

TWO = FiniteClass.from_matrix([[0, 0], [0, 1]])
ARC = ManipulationGraph.from_lists([[1], []])


@pytest.mark.claim("03.01")
def test_agents_move_only_to_be_accepted_and_induced_labels_are_maxima() -> None:
    rng = np.random.default_rng(0)
    for _ in range(1000):
        n = int(rng.integers(2, 9))
        graph = random_graph(rng, n, int(rng.integers(1, n)))
        rule, x = rng.random(n) < 0.3, int(rng.integers(n))
        neighbors = set(graph.neighbors(x).tolist())
        accepted = {z for z in neighbors if rule[z]}
        expected = bool(rule[x] or accepted)
        for tie in ("first", "uniform", lambda options: int(options[-1])):
            v = respond(rule, x, graph, tie, random_state=1)
            if rule[x] or not accepted:
                assert v == x
            else:
                assert v in accepted
            assert bool(rule[v]) == expected
        assert graph.induced(rule[None, :])[0, x] == expected


@pytest.mark.claim("03.01")
def test_the_label_stays_with_the_person() -> None:
    line = ManipulationGraph.from_lists([[1], []], features=[[0.0], [1.0]])
    assert strategic_accuracy(lambda Z: Z[:, 0] >= 1, [[0.0], [1.0]], [0, 1], graph=line) == 0.5
    assert strategic_accuracy(lambda Z: Z[:, 0] >= 1, [[0.0], [1.0]], [1, 1], graph=line) == 1.0


def test_ties_are_uniform_on_request() -> None:
    star = ManipulationGraph.from_lists([[1, 2, 3], [], [], []])
    rng = np.random.default_rng(0)
    places = [respond([0, 1, 1, 1], 0, star, "uniform", rng) for _ in range(3000)]
    counts = np.bincount(places, minlength=4)
    assert counts[0] == 0
    assert (np.abs(counts[1:] - 1000) < 5 * np.sqrt(3000 * 2 / 9)).all()


def test_regret_compares_with_every_rule_under_its_own_responses() -> None:
    # The rule 1{node 1} accepts the agent at 0 as well, who moves there.
    assert stackelberg_regret([0, 0], [0, 1], [1, 1], TWO, ARC) == 0
    assert stackelberg_regret([1, 1], [0, 1], [0, 1], TWO, ARC) == 1
