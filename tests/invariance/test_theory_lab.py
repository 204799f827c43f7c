"""The theory lab: all dimensions of a problem, and all learners on its worst case."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.invariance import bounds, instances
from counterplay.invariance.instances import nongroup_funnel
from counterplay.invariance.lab import FiniteProblem, theory_lab


@pytest.mark.claim("11.11")
def test_worst_case_of_the_birds() -> None:
    problem = instances.background_birds(3, random_state=0).problem
    report = theory_lab(problem, sample_sizes=(1, 6), n_runs=80, random_state=0)
    assert (report.vcdim.value, report.vcao.value, report.vco.value) == (1, 1, 0)
    assert report.dim.value == 3
    assert report.mu.value == pytest.approx(1.5)
    frame = report.to_frame().set_index(["learner", "samples"])
    for name in ("ERM", "ERM-INV", "one-inclusion"):
        assert frame.loc[(name, 1), "error"] == 0.0
    for n in (1, 6):
        row = frame.loc[("orbit-only", n)]
        assert abs(row["error"] - bounds.birds_error(3, n)) <= 4 * row["standard_error"] + 1e-9
    assert frame.loc[("DA", 6), "error"] > 0.3
    assert report.plot().get_xlabel()
    assert "VCao 1" in report.summary()


def test_problems_without_a_game() -> None:
    report = theory_lab(FiniteProblem([[0, 1]], [0, 1]))
    assert report.mu.value == 0.0
    assert report.to_frame().empty
    with pytest.raises(InvalidInputError):
        theory_lab(nongroup_funnel(3).problem)
    assert np.isinf(dict(instances.circle_rotations())["VCdim"])
