from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from counterplay.labeling import GBS, incentive_report, instances
from counterplay.labeling.report import alone_costs


def test_report_numbers_and_plot() -> None:
    problem, gbs = instances.gbs_violation_7x6(), GBS()
    report = incentive_report(gbs, gbs, problem)
    assert report.violators == (0,)
    assert "agent 1 would do better alone" in report.summary()
    frame = report.to_frame()
    assert frame.loc["agent 1", "saving"] == pytest.approx(float(Fraction(1070 - 1526, 527)))
    costs, alone = gbs.cost_matrix(problem), alone_costs(gbs, problem)
    chance = sum(problem.prior[h] for h in range(problem.N) if costs[h, 0] > alone[h, 0])
    assert report.expost_worse[0] == chance > 0
    assert len(report.plot().patches) == 4
    uniform = np.full(problem.N, 1 / problem.N)
    other = incentive_report(gbs, gbs, problem, true_prior=uniform)
    assert other.protocol_cost[0] == pytest.approx(costs[:, 0].mean())
