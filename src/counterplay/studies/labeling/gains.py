"""Who gains from labelling together: points in the plane split over several parties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.finite_class import FiniteClass
from counterplay.core.seeds import generator
from counterplay.core.validation import FloatArray, IntArray
from counterplay.labeling import B2IR, GBS, PoolProblem, incentive_report
from counterplay.labeling.lab import IncentiveReport
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def _grid(scale: Scale) -> list[Params]:
    sizes = [50] if scale == "quick" else [50, 100, 200]
    counts = [2, 4, 8] if scale == "quick" else [2, 3, 4, 6, 8, 10]
    layouts = ("disjoint", "overlapping", "separated")
    return [{"m": m, "k": k, "layout": a} for m in sizes for k in counts for a in layouts]


def _pools(X: FloatArray, k: int, layout: str, rng: np.random.Generator) -> list[IntArray]:
    m = len(X)
    if layout == "separated":
        return [np.sort(part) for part in np.array_split(np.argsort(X[:, 0]), k)]
    owners = rng.permutation(np.arange(m) % k)
    extra = rng.random((k, m)) < (0.3 if layout == "overlapping" else 0.0)
    return [np.flatnonzero((owners == i) | extra[i]) for i in range(k)]


def _cell(params: Params, seed: int) -> Record:
    rng = generator(seed)
    m, k, layout = int(params["m"] or 0), int(params["k"] or 0), str(params["layout"])
    X = rng.normal(size=(m, 2))
    problem = PoolProblem.from_class(FiniteClass.halfspaces_2d(X), _pools(X, k, layout, rng))
    report = incentive_report(B2IR(GBS()), GBS(), problem)
    return {"smallest_saving": float(report.slack.min()), **workload(problem, report)}


def workload(problem: PoolProblem, report: IncentiveReport) -> dict[str, Any]:
    """Expected queries of each party alone and together, their totals, and the floor."""
    record: dict[str, Any] = {
        "total": float(report.total),
        "sum_alone": float(report.baseline_cost.sum()),
        "entropy": problem.entropy(),
        "is_ir": report.is_ir,
    }
    for i in range(problem.k):
        record[f"alone_{i}"] = float(report.baseline_cost[i])
        record[f"together_{i}"] = float(report.protocol_cost[i])
    return record


def bars(ax: Axes, row: Any, party: str) -> None:
    """Draw the workloads of four parties alone and together."""
    x = np.arange(4)
    ax.bar(x - 0.2, [row[f"alone_{i}"] for i in x], 0.4, label="alone", color=PALETTE[1])
    ax.bar(x + 0.2, [row[f"together_{i}"] for i in x], 0.4, label="together", color=PALETTE[0])
    ax.set_xticks(x, [f"{party} {i + 1}".strip() for i in x])
    ax.margins(y=0.25)
    ax.legend()


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    saving = 1 - (frame["total"] / frame["sum_alone"])
    excess = float((frame["total"] - frame["entropy"]).min())
    return [
        equals("06.11", "Nobody does more work than alone, in any layout.",
               int(frame["is_ir"].sum()), len(frame), what="campaigns"),
        at_least("06.10", "The total stays above the entropy floor.", excess, 0,
                 what="smallest excess", slack=1e-9),
        equals("06.11", "Working together saves labels.", int((saving > 0).sum()), len(frame),
               what=f"{saving.min():.0%} to {saving.max():.0%} of the labels; campaigns"),
    ]  # fmt: skip


def _figure(frame: pd.DataFrame) -> Figure:
    """Left: expected queries of four parties alone and together. Right: all parties together
    against all alone, for three ways to split the points.
    """
    figure, (left, right) = panels(2)
    m = int(frame["m"].max())
    part = frame[frame["m"] == m]
    four = part[(part["k"] == 4) & (part["layout"] == "disjoint")].iloc[0]
    bars(left, four, "party")
    left.set(ylabel="expected label queries", title=f"Four parties, {m} points, halfspaces")
    for n, layout in enumerate(("disjoint", "overlapping", "separated")):
        rows = part[part["layout"] == layout].sort_values("k")
        right.plot(rows["k"], rows["total"], "o-", color=PALETTE[n], label=f"together, {layout}")
        right.plot(rows["k"], rows["sum_alone"], ":", color=PALETTE[n], label=f"alone, {layout}")
    right.axhline(float(part["entropy"].iloc[0]), label="entropy floor", **THEORY)
    right.set(xlabel="parties", ylabel="expected queries of all parties",
              title="Everybody together against everybody alone")  # fmt: skip
    right.legend(fontsize=8)
    return figure


STUDY = Study(
    name="who-gains",
    title="Who gains from labelling together",
    question=(
        "Points in the plane labeled by an unknown halfspace, split over several parties in three "
        "ways. Compared: expected queries of each party alone and together."
    ),
    claims=("06.10", "06.11"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"who-gains": _figure},
)
