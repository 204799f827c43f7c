"""Hard instances on known graphs: dimensions after moving, honest adversaries, rates."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.core.dimensions import vc_dimension
from counterplay.core.finite_class import FiniteClass
from counterplay.core.setting import Setting
from counterplay.strategic import (
    ManipulationGraph,
    instances,
    play,
)
from counterplay.strategic.lab import (
    FEATURES_AFTER_GRAPH,
    FEATURES_FIRST_GRAPH,
    SOA,
    FiniteERM,
    Red2OnlineFI,
    Red2OnlinePMF,
    littlestone_dimension,
)
from strategic.graph_problems import (
    perfect_rule,
)


@pytest.mark.claim("03.19")
@pytest.mark.parametrize("k", [2, 3, 8])
def test_code_and_star_adversaries_are_honest(k: int) -> None:
    code = instances.binary_code_instance(k, 2)
    learner = Red2OnlineFI(SOA(code.hypotheses))
    played = play(learner, code.adversary())
    assert perfect_rule(played["x"], played["y"], code.hypotheses, code.graph) is not None
    star = instances.star_singletons(k, 2)
    hidden = Red2OnlinePMF(SOA(star.hypotheses), k)
    played = play(hidden, star.adversary())
    assert perfect_rule(played["x"], played["y"], star.hypotheses, star.graph) is not None
    # The source's star: centre labelled 0 after it was labelled 1 can be realized by no rule.
    assert perfect_rule([0, 0], [1, 0], star.hypotheses, star.graph) is None


def after_moving(rules: FiniteClass, graph) -> FiniteClass:
    return FiniteClass.from_matrix(graph.induced(rules.labels)).deduplicated().unique


@pytest.mark.claim("03.03")
@pytest.mark.parametrize("k", [2, 3, 4, 5, 8, 16])
@pytest.mark.parametrize("d", [1, 2])
def test_moving_multiplies_the_dimension_by_log_k(k: int, d: int) -> None:
    instance = instances.binary_code_instance(k, d)
    induced = after_moving(instance.hypotheses, instance.graph)
    assert vc_dimension(instance.hypotheses).value == d
    assert littlestone_dimension(instance.hypotheses).value == d
    assert vc_dimension(induced).value == d * int(math.log2(k))
    assert littlestone_dimension(induced).value == d * int(math.log2(k))


@pytest.mark.claim("03.04")
def test_the_bound_printed_without_a_constant_is_wrong() -> None:
    instance = instances.binary_code_instance(2, 1, strengthened=True)
    induced = after_moving(instance.hypotheses, instance.graph)
    assert vc_dimension(instance.hypotheses).value == 1
    assert littlestone_dimension(instance.hypotheses).value == 1
    assert vc_dimension(induced).value == 2 > 1 * math.log2(2 * 1)
    assert littlestone_dimension(induced).value == 2 > 1 * math.log2(2)


def played(instance, learner, mode: Setting) -> int:
    return play(learner, instance.adversary()).mistakes


@pytest.mark.claim("03.27")
@pytest.mark.parametrize(("k", "d"), [(2, 1), (8, 1), (32, 1), (4, 2), (4, 3)])
def test_known_graphs_cost_d_log_k(k: int, d: int) -> None:
    code = instances.binary_code_instance(k, d)
    assert played(code, Red2OnlineFI(SOA(code.hypotheses)), FEATURES_FIRST_GRAPH) == d * int(
        math.log2(k)
    )


@pytest.mark.claim("03.27")
@pytest.mark.parametrize(("k", "d"), [(2, 1), (8, 1), (32, 1), (4, 2), (3, 3)])
def test_hidden_features_cost_d_k(k: int, d: int) -> None:
    star = instances.star_singletons(k, d)
    assert played(star, Red2OnlinePMF(SOA(star.hypotheses), k), FEATURES_AFTER_GRAPH) == d * k


@pytest.mark.claim("03.27")
@pytest.mark.parametrize(("k", "d"), [(16, 1), (16, 2)])
def test_labels_for_known_graphs_follow_the_exact_law(k: int, d: int) -> None:
    """Expected error (1 - 1/s)^T / 2 with s = d log2 k; checked at T = s by 600 runs."""
    code = instances.binary_code_instance(k, d)
    centres = np.array(code.expected["centres"])
    codes = code.graph.induced(code.hypotheses.labels)[:, centres]
    rules, s = FiniteClass.from_matrix(codes), centres.size
    still = ManipulationGraph.from_lists([[] for _ in centres])
    rng, errors = np.random.default_rng(k), []
    for _ in range(600):
        target, x = codes[int(rng.integers(len(codes)))], rng.integers(0, s, size=s)
        best = FiniteERM(rules).fit(x, target[x], graph=still).member_
        errors.append(float((codes[best] != target).mean()))
    law = 0.5 * (1 - 1 / s) ** s
    assert abs(np.mean(errors) - law) <= 5 * np.std(errors) / math.sqrt(600)
    assert np.std(errors) > 0
