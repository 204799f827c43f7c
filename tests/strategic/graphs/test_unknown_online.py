"""Online learning when the graph is unknown: mistakes by type, the algorithm repaired."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.strategic import (
    GraphApplicants,
    bounds,
    instances,
    play,
)
from counterplay.strategic.lab import (
    FEATURES_FIRST,
    SOA,
    UnknownGraphOnline,
    littlestone_dimension,
)
from strategic.graph_problems import (
    perfect_rule,
    play_until_quiet,
    random_candidates,
    random_class,
)


@pytest.mark.claim("03.13")
@pytest.mark.parametrize("eager", [True, False])
def test_mistakes_by_type_stay_below_their_bounds(eager: bool) -> None:
    rng = np.random.default_rng(0)
    seen = {"a": 0, "b": 0, "c": 0}
    for _ in range(400):
        n, k, g = int(rng.integers(3, 7)), int(rng.integers(1, 3)), int(rng.integers(2, 9))
        graphs, rules = random_candidates(rng, n, k, g), random_class(rng, 6, n)
        true, h = int(rng.integers(g)), int(rng.integers(len(rules)))
        learner = UnknownGraphOnline(SOA(rules), graphs, k, eager=eager)
        truth = graphs.graph(true)
        for _ in play_until_quiet(learner, truth, rules.labels[h], FEATURES_FIRST, rng):
            assert learner.candidates.alive[true]
            assert learner._majority.size <= 2 * k
        M = littlestone_dimension(rules).value
        assert learner.types["a"] <= math.log2(g)
        others = learner.types["b"] + learner.types["c"]
        assert others <= bounds.red2online_pmf_mistakes(M, 2 * k) + 1e-9
        for kind, count in learner.types.items():
            seen[kind] += count
    assert min(seen.values()) > 10


@pytest.mark.claim("03.14")
def test_the_printed_algorithm_errs_for_ever_and_the_repaired_one_once() -> None:
    instance = instances.majority_graph_counterexample()
    assert perfect_rule(instance.nodes, instance.labels, instance.hypotheses, instance.graph) == 2

    def mistakes(**options: bool) -> int:
        learner = UnknownGraphOnline(SOA(instance.hypotheses), instance.graphs, **options)
        return play(
            learner, GraphApplicants(instance.graph, [0] * 1000, [1] * 1000, setting=FEATURES_FIRST)
        ).mistakes

    assert mistakes(literal=True) == 1000
    assert mistakes(eager=False) == 1
    assert mistakes(eager=True) <= 1


@pytest.mark.claim("03.13")
def test_counterexample_costs_one_mistake_lazily() -> None:
    instance = instances.majority_graph_counterexample()
    learner = UnknownGraphOnline(SOA(instance.hypotheses), instance.graphs, eager=False, exact=True)
    played = play(
        learner, GraphApplicants(instance.graph, [0] * 50, [1] * 50, setting=FEATURES_FIRST)
    )
    assert played.mistakes == 1
    assert learner.types == {"a": 0, "b": 0, "c": 1}
