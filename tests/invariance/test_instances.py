"""The constructions and what theory says about them."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.core.dimensions import vc_dimension
from counterplay.invariance import instances
from counterplay.invariance.lab import (
    FiniteProblem,
    dim,
    mu,
    vcao,
    vcdim,
    vco,
)
from invariance.problems import random_problem

CONSTRUCTIONS = [
    *[instances.example_vco0(d) for d in (1, 2, 3)],
    *[instances.da_lower_bound(d, 1 / 64, random_state=0) for d in (1, 2, 3, 4)],
    *[instances.rotated_images(n, k, c) for n, k in ((2, 2), (4, 1), (4, 2), (2, 3))
      for c in (False, True)],
    *[instances.indicator_blowup(d) for d in (1, 2, 3)],
    instances.halfspaces_c4(5),
    instances.halfspaces_c4(14, reflection=True),
    *[instances.background_birds(K, random_state=0) for K in (1, 2, 3, 4)],
]  # fmt: skip


@pytest.mark.claim("11.01")
@pytest.mark.parametrize("case", CONSTRUCTIONS, ids=lambda case: case.name)
def test_values_of_the_constructions(case: instances.Instance) -> None:
    problem = case.problem
    measured = {
        "VCdim": lambda: vcdim(problem).value,
        "VCao": lambda: vcao(problem).value,
        "VCo": lambda: vco(problem).value,
        "VCdim(iota)": lambda: vc_dimension(problem.iota.astype(int)).value,
        "dim": lambda: dim(problem).value,
        "mu": lambda: round(mu(problem).value, 9),
    }
    for name, value in case.facts:
        assert measured[name]() == value, name


def test_supplement_keeps_vco_and_raises_vcao() -> None:
    rng = np.random.default_rng(2)
    for _ in range(60):
        problem = random_problem(rng, max_orbits=3)
        larger = instances.supplement(problem)
        big = int((np.bincount(problem.orbit) >= 2).sum())
        assert vco(larger).value == vco(problem).value
        assert vcao(larger).value >= big


def test_da_helps_has_three_orbits() -> None:
    for seed in range(5):
        case = instances.da_helps(6, 1 / 64, random_state=seed)
        rows = np.array(list(np.ndindex(*[2] * 6)))
        problem = FiniteProblem(rows, case.group.orbit_id)
        assert vcao(problem).value == vco(problem).value == case.group.n_orbits
        assert vcdim(problem).value == 6
    wide = instances.da_helps(5, 1 / 64, random_state=0, n_extra=4)
    rows = np.array(list(np.ndindex(*[2] * 9)))
    assert vcao(FiniteProblem(rows, wide.group.orbit_id)).value == wide.group.n_orbits <= 5
