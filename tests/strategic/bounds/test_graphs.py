"""Bounds on graphs: listed values, smallest sample sizes, dimensions after moving."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.core.dimensions import vc_dimension
from counterplay.core.finite_class import FiniteClass
from counterplay.strategic import bounds
from counterplay.strategic.lab import (
    littlestone_dimension,
)
from strategic.graph_problems import random_class, random_graph


def after_moving(rules: FiniteClass, graph) -> FiniteClass:
    return FiniteClass.from_matrix(graph.induced(rules.labels)).deduplicated().unique


@pytest.mark.claim("03.04")
def test_induced_dimension_stays_below_its_bounds() -> None:
    rng = np.random.default_rng(2)
    tight = 0
    for _ in range(500):
        n = int(rng.integers(3, 9))
        k = int(rng.integers(1, n))
        rules = random_class(rng, int(rng.integers(2, 25)), n, share=float(rng.uniform(0.1, 0.4)))
        graph = random_graph(rng, n, k)
        induced = after_moving(rules, graph)
        before, moved = vc_dimension(rules).value, vc_dimension(induced).value
        assert moved <= bounds.vc_induced_upper(before, k)
        ldim = littlestone_dimension(rules).value
        bound = bounds.red2online_fi_mistakes(ldim, k)
        assert littlestone_dimension(induced).value <= bound + 1e-9
        tight += moved > before
    assert tight > 10  # moving does raise the dimension


@pytest.mark.claim("03.05")
def test_sample_sizes_and_dimension_bounds_have_the_listed_values() -> None:
    upper = {(1, 1): 2, (1, 2): 3, (1, 4): 4, (1, 8): 5, (1, 16): 6, (1, 64): 9, (2, 4): 10,
             (3, 4): 16, (5, 8): 34, (10, 64): 105}  # fmt: skip
    assert {key: bounds.vc_induced_upper(*key) for key in upper} == upper
    realizable = {(1, 1): 313, (1, 4): 342, (1, 16): 380, (1, 64): 422, (3, 1): 748, (3, 64): 1081}
    assert {key: bounds.pac_T_realizable(*key) for key in realizable} == realizable
    agnostic = {(1, 1): 53286, (1, 4): 56400, (3, 16): 156997}
    assert {key: bounds.pac_T_agnostic(*key) for key in agnostic} == agnostic
    assert bounds.unknown_graph_T1(1, math.log(100)) == 258832
    assert bounds.unknown_graph_T1(4, math.log(100)) == 4141301


@pytest.mark.claim("03.05")
@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 3), (3, 16)])
def test_sample_sizes_are_the_smallest_that_satisfy_their_inequality(d: int, k: int) -> None:
    def phi(m: int) -> int:
        return sum(math.comb(m, i) for i in range(d + 1))

    T = bounds.pac_T_realizable(d, k)
    left = [2 * phi(2 * t * (k + 1)) * 2.0 ** (-0.1 * t / 2) for t in (T - 1, T)]
    assert left[1] <= 0.05 < left[0]
    T = bounds.pac_T_agnostic(d, k)
    left = [math.log(4 * phi(2 * t * (k + 1))) - (0.05) ** 2 * t / 8 for t in (T - 1, T)]
    assert left[1] <= math.log(0.05) < left[0]
    n = bounds.vc_induced_upper(d, k)
    assert 2**n <= phi(n * (k + 1))
    assert 2 ** (n + 1) > phi((n + 1) * (k + 1))
