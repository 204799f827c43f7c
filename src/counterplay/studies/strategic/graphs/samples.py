"""How many more labels manipulation costs.

Source: "Measured", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.finite_class import FiniteClass
from counterplay.strategic import ManipulationGraph, bounds, instances
from counterplay.strategic.lab import FiniteERM
from counterplay.studies.strategic.graphs.common import errorbars, whole
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def _sample_grid(scale: Scale) -> list[Params]:
    batches, runs = (5, 40) if scale == "quick" else (20, 200)
    pairs = [(k, 1) for k in (2, 4, 16, 64, 256)] + [(k, 2) for k in (2, 4, 16)]
    return [
        {"k": k, "d": d, "runs": runs, "replicate": i} for k, d in pairs for i in range(batches)
    ]


_SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)


def _sample_cell(params: Params, seed: int) -> Record:
    k, d, runs = (whole(params, name) for name in ("k", "d", "runs"))
    instance = instances.binary_code_instance(k, d)
    centres = np.array(instance.expected["centres"])
    codes = instance.graph.induced(instance.hypotheses.labels)[:, centres]
    rules = FiniteClass.from_matrix(codes)
    still = ManipulationGraph.from_lists([[] for _ in centres])
    rng = np.random.default_rng(seed)
    record: dict[str, float | int] = {}
    for i, share in enumerate(_SHARES):
        T = max(1, round(share * centres.size))
        losses, naive = [], []
        for _ in range(runs):
            target = codes[int(rng.integers(len(codes)))]
            x = rng.integers(0, centres.size, size=T)
            best = FiniteERM(rules).fit(x, target[x], graph=still).member_
            losses.append(float((codes[best] != target).mean()))
            naive.append(float((codes[0] != target).mean()))  # all rules look alike unmoved
        record[f"loss{i}"], record[f"naive{i}"] = float(np.mean(losses)), float(np.mean(naive))
        record[f"T{i}"] = T
    return record


def _sample_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    inside = total = 0
    naive = []
    for (k, d), part in frame.groupby(["k", "d"]):
        s = int(d) * int(math.log2(int(k)))
        for i in range(len(_SHARES)):
            law = bounds.code_error(s, int(part[f"T{i}"].iloc[0]))
            error = math.sqrt(law / (len(part) * int(part["runs"].iloc[0])))  # variance <= mean
            inside += abs(float(part[f"loss{i}"].mean()) - law) <= 4 * error
            total += 1
            naive.append(float(part[f"naive{i}"].mean()))
    return [
        Verdict(
            "03.03",
            "Test error of strategic ERM equals (1 - 1/s)^T / 2 with s = d log2 k.",
            f"{inside} of {total} points within four standard errors",
            "all",
            inside == total,
        ),
        Verdict(
            "03.03",
            "A learner that ignores moving stays at error 1/2 however many labels it gets.",
            f"{min(naive):.3f} to {max(naive):.3f}",
            "0.5 +- 0.1",
            max(abs(v - 0.5) for v in naive) < 0.1,
        ),
    ]


def _sample_figure(frame: pd.DataFrame) -> Figure:
    """Test error after people have moved, against labels (left) and labels per bit d log2 k
    (right): the curves collapse. Points: mean with 95 % interval; dashed: (1 - 1/s)^T / 2; grey
    crosses: rules learned without a thought for moves.
    """
    figure, (left, right) = panels(2)
    for j, ((k, d), part) in enumerate(frame.groupby(["k", "d"])):
        s, color = int(d) * int(math.log2(int(k))), (*PALETTE, "#999999")[j]
        T = np.array([int(part[f"T{i}"].iloc[0]) for i in range(len(_SHARES))])
        groups = [part[f"loss{i}"] for i in range(len(_SHARES))]
        label = f"k = {k}, d = {d}"
        errorbars(left, T, groups, color, label, "os^v"[j % 4])
        errorbars(right, T / s, groups, color, label, "os^v"[j % 4])
        smooth = np.linspace(T[0], T[-1], 60)
        left.plot(smooth, [bounds.code_error(s, t) for t in smooth], **THEORY)
    x = np.linspace(0, 4, 100)
    right.plot(x, 0.5 * np.exp(-x), label="exp(-T/s) / 2", **THEORY)
    naive = [frame[f"naive{i}"] for i in range(len(_SHARES))]
    errorbars(right, _SHARES, naive, "#777777", "", "x")
    for ax in (left, right):
        ax.axhline(0.5, color="#777777", lw=1)
        ax.text(0.98, 0.51, "ignoring moves", va="bottom", ha="right", fontsize=8,
                transform=ax.get_yaxis_transform())  # fmt: skip
        ax.set(ylabel="test error", ylim=(-0.02, 0.62))
    left.set(xlabel="labels T", title="Error against labels")
    right.set(xlabel="labels per bit, T / (d log2 k)", title="The same, per bit")
    right.legend(fontsize=7, ncol=2)
    return figure


SAMPLES = Study(
    name="graph-samples",
    title="How many more labels manipulation costs",
    question=(
        "When everybody has k moves, how many labels does strategic ERM need? Error falls with "
        "labels per bit d log2 k; a learner that ignores moving never improves."
    ),
    claims=("03.03",),
    grid=_sample_grid,
    cell=_sample_cell,
    verdicts=_sample_verdicts,
    figures={"samples": _sample_figure},
)
