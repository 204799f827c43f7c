from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.labeling import B2IR, GBS, instances, plan_campaign
from counterplay.labeling.lab import PrunedPartialSIR, RandomQuery, draw_tree


def hatched(ax: Any) -> list[str]:
    return [t.get_text() for t in ax.texts if t.get_bbox_patch() and t.get_bbox_patch().get_hatch()]


def test_questions_that_nobody_answers_are_hatched() -> None:
    violation, trap = instances.gbs_violation_7x6(), instances.weak_pruning_trap()
    tree = GBS().tree(violation)
    asked = [f"point {x}" for x in tree.point if x > 0]  # point 0 is agent 2's
    assert sorted(hatched(draw_tree(violation, B2IR(GBS())))) == sorted(asked)
    assert not hatched(draw_tree(violation, GBS()))
    pruned = PrunedPartialSIR(GBS(), 0)
    assert not hatched(draw_tree(trap, pruned))  # pruned only where agent 2's label is 1
    for target in range(trap.N):
        free = hatched(draw_tree(trap, pruned, target=target))
        assert free == (["point 1"] if trap.H[target, 2] == 1 else [])
    with pytest.raises(InvalidInputError, match="target"):
        draw_tree(trap, pruned, target=7)
    with pytest.raises(InvalidInputError, match="tree algorithms"):
        draw_tree(trap, RandomQuery())


def test_overlapping_pools_and_drawing() -> None:
    plan = plan_campaign(
        np.arange(6.0), owners=[[0, 1, 2, 3], [2, 3, 4, 5]], hypotheses="thresholds"
    )
    assert plan.problem.k == 2
    assert plan.report.is_ir
    assert plan.plot_tree().texts
    assert not hatched(plan.plot_tree())
    with pytest.raises(InvalidInputError, match="leaves"):
        plan_campaign(np.arange(90.0), owners=[0] * 90, hypotheses="thresholds").plot_tree()
