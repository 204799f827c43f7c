from __future__ import annotations

import pytest

from counterplay.core.stats import binomial_p_value
from counterplay.labeling import GBS, instances, safe_violators_mc


@pytest.mark.claim("06.27")
def test_sampled_violators_are_safe() -> None:
    delta = 0.1
    for problem, gbs, targets in (
        (instances.gbs_violation_7x6(), GBS(), 400),
        (instances.gbs_counterexample(6), GBS(tie_break=[8]), 200),
    ):
        missed = 0
        for seed in range(200):
            found = safe_violators_mc(
                problem, gbs, n_targets=targets, delta=delta, random_state=seed
            )
            missed += 0 not in found.violators
        assert binomial_p_value(missed, 200, delta, "greater") > 1e-3
    winner, gbs = instances.gbs_counterexample(3), GBS(tie_break=[5])
    large = safe_violators_mc(winner, gbs, n_targets=4000, delta=delta, random_state=0)
    assert 0 not in large.violators
    sharper = safe_violators_mc(
        winner, gbs, n_targets=4000, delta=delta, bound="bernstein", random_state=0
    )
    assert sharper.width[0] < large.width[0]
