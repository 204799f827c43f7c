"""How costs grow in every setting: the table of rates of the source, measured."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.core.online import SOA, Halving
from counterplay.core.setting import Setting
from counterplay.strategic import ManipulationGraph, instances, play
from counterplay.strategic.lab import (
    FEATURES_AFTER_GRAPH,
    FEATURES_FIRST,
    FEATURES_FIRST_GRAPH,
    FiniteERM,
    Red2OnlineFI,
    Red2OnlinePMF,
    UnknownGraphOnline,
)


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
@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_unknown_graphs_cost_log_size_over_loglog_size_or_their_number(n: int) -> None:
    groups = instances.group_singletons(n)
    learner = UnknownGraphOnline(Halving(groups.hypotheses), groups.graphs)
    bits = groups.graphs.log_size / math.log(2)
    cost = played(groups, learner, FEATURES_FIRST)
    assert cost == n
    assert 0.8 <= cost / (bits / math.log2(bits)) <= 1.6
    path = instances.path_AB_C(n)
    assert played(path, Red2OnlinePMF(SOA(path.hypotheses), n + 1), FEATURES_AFTER_GRAPH) == n
    assert len(path.graphs) == n


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
