"""Query trees as pictures: joint, individually rational, and pruned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.core.figures import panels
from counterplay.labeling import B2IR, GBS, instances
from counterplay.labeling.lab import PrunedPartialSIR, draw_tree
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


FIGURE_ORDER = [1, 3, 6]  # Example 6.1 asks 0.5 first, then 0.3 or 0.7


def _grid(scale: Scale) -> list[Params]:
    return [{"tree": "joint"}, {"tree": "individually rational"}, {"tree": "pruned"}]


def _cell(params: Params, seed: int) -> Record:
    gbs = GBS(tie_break=FIGURE_ORDER)
    if params["tree"] == "joint":
        problem = instances.threshold_example()
        costs = gbs.expected_costs(problem)
    elif params["tree"] == "individually rational":
        problem, gbs = instances.gbs_violation_7x6(), GBS()
        costs = B2IR(gbs).expected_costs(problem)
    else:
        problem, gbs = instances.weak_pruning_trap(), GBS()
        costs = PrunedPartialSIR(gbs, 0).expected_costs(problem)
    joint = gbs.expected_costs(problem)
    alone = [gbs.expected_costs(problem, (i,))[i] for i in range(2)]
    record: dict[str, float] = {}
    for i in range(2):
        record |= {f"cost_{i + 1}": float(costs[i]), f"alone_{i + 1}": float(alone[i]),
                   f"joint_{i + 1}": float(joint[i])}  # fmt: skip
    return record


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    rows = frame.set_index("tree")
    joint, safe, pruned = (rows.loc[name] for name in _names())
    four = joint[["cost_1", "cost_2", "alone_1", "alone_2"]].astype(float) - [1, 1, 2, 2]
    return [
        equals("06.01", "Four thresholds: two questions alone, one each together.",
               four.abs().max(), 0, what="largest difference"),
        equals("06.11", "The agent whom joining would hurt pays what it pays alone.",
               safe["cost_1"], min(safe["alone_1"], safe["joint_1"]), tolerance=1e-12),
        equals("06.15", "A pruned tree saves the favoured agent queries: 13/7 of 2.",
               pruned["cost_1"], 13 / 7, tolerance=1e-12),
    ]  # fmt: skip


def _names() -> list[str]:
    return [str(params["tree"]) for params in _grid("quick")]


def _figure(frame: pd.DataFrame) -> Figure:
    """Left: two parties find one of four thresholds together. Middle: agent 1 would lose, labels
    alone first and brings the answers along (hatched). Right: the other party said z = 1, so
    after a = 0 nobody has to ask for b.
    """
    figure, (left, middle, right) = panels(3, width=4.6)
    draw_tree(instances.threshold_example(), GBS(tie_break=FIGURE_ORDER), ax=left)
    left.set_title("Joint tree of the threshold example")
    draw_tree(instances.gbs_violation_7x6(), B2IR(GBS()), ax=middle)
    middle.set_title("B2IR: answers brought along")
    trap = instances.weak_pruning_trap()
    target = int((trap.H[:, trap.agents[1][0]] == 1).nonzero()[0][0])
    draw_tree(trap, PrunedPartialSIR(GBS(), 0), target=target, ax=right)
    right.set_title("Agent 1's tree, pruned by the others")
    return figure


STUDY = Study(
    name="query-trees",
    title="Query trees: who is asked what",
    question=(
        "Whom does a joint campaign ask, which answers are brought along by somebody who labeled "
        "alone first, and which questions do the others' labels answer?"
    ),
    claims=("06.01", "06.11", "06.15"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"query-trees": _figure},
)
