"""Deciding while the graph is unknown.

Source: "Measured", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import IntArray
from counterplay.strategic import GraphApplicants, ManipulationGraph, bounds, instances, play
from counterplay.strategic.lab import (
    FEATURES_FIRST,
    SOA,
    ProductGraphClass,
    UnknownGraphOnline,
)
from counterplay.studies.strategic.graphs.common import errorbars, whole
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def _online_grid(scale: Scale) -> list[Params]:
    runs = 20 if scale == "quick" else 100
    cells: list[Params] = [
        {"kind": "product", "blocks": b, "eager": eager, "replicate": i}
        for b in (1, 2, 4, 6)
        for eager in (True, False)
        for i in range(runs)
    ]
    literal: list[Params] = [
        {"kind": kind, "blocks": T, "eager": False, "replicate": 0}
        for kind in ("literal", "repaired")
        for T in (10, 30, 100, 300, 1000)
    ]
    return cells + literal


def _online_cell(params: Params, seed: int) -> Record:
    if params["kind"] != "product":
        instance, T = instances.majority_graph_counterexample(), whole(params, "blocks")
        assert instance.graphs is not None
        learner = UnknownGraphOnline(
            SOA(instance.hypotheses), instance.graphs, eager=False,
            literal=params["kind"] == "literal",
        )  # fmt: skip
        played = play(
            learner, GraphApplicants(instance.graph, [0] * T, [1] * T, setting=FEATURES_FIRST)
        )
        return {"a": learner.types["a"], "other": played.mistakes, "bound_a": 0.0, "bound": 0.0}
    rng, b = np.random.default_rng(seed), whole(params, "blocks")
    graphs, truth = _random_product(rng, b, candidates=10)
    rows = FiniteClass.from_matrix(rng.random((8, b + 6)) < 0.4).deduplicated().unique
    learner = UnknownGraphOnline(SOA(rows), graphs, 2, eager=bool(params["eager"]))
    labels = truth.induced(rows.labels[:1])[0]

    def tie(options: IntArray) -> int:
        return int(rng.choice(options))

    for _ in range(12):
        for x in rng.permutation(truth.n).tolist():
            one = GraphApplicants(truth, [x], [int(labels[x])], setting=FEATURES_FIRST, tie=tie)
            play(learner, one)
    bound = bounds.red2online_pmf_mistakes(SOA(rows).mistake_bound, 4)
    types = learner.types
    return {
        "a": types["a"],
        "other": types["b"] + types["c"],
        "bound_a": graphs.log_size / math.log(2),
        "bound": bound,
    }


def _random_product(
    rng: np.random.Generator, blocks: int, candidates: int
) -> tuple[ProductGraphClass, ManipulationGraph]:
    """Each of the first nodes moves to at most two of six others, in one of ten ways."""
    chosen = []
    for x in range(blocks):
        lists: list[dict[int, tuple[int, ...]]] = []
        while len(lists) < candidates:
            size = int(rng.integers(1, 3))
            targets = tuple(sorted(int(z) for z in blocks + rng.permutation(6)[:size]))
            if {x: targets} not in lists:
                lists.append({x: targets})
        chosen.append(((x,), tuple(lists)))
    graphs = ProductGraphClass(blocks + 6, tuple(chosen))
    return graphs, graphs.build([int(i) for i in rng.integers(0, candidates, size=blocks)])


def _online_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    product = frame[frame["kind"] == "product"]
    literal = frame[frame["kind"] == "literal"]
    repaired = frame[frame["kind"] == "repaired"]
    return [
        Verdict(
            "03.13",
            "Mistakes that halve the graphs stay below log2 |G|, the others below their bound.",
            f"largest shares {float((product['a'] / product['bound_a']).max()):.2f} and "
            f"{float((product['other'] / product['bound'].clip(lower=1)).max()):.2f} of the bounds",
            "<= 1",
            bool((product["a"] <= product["bound_a"] + 1e-9).all())
            and bool((product["other"] <= product["bound"] + 1e-9).all()),
        ),
        Verdict(
            "03.14",
            "As printed the algorithm errs in every round on three nodes, repaired once.",
            f"{int(literal['other'].max())} of 1000 and {int(repaired['other'].max())}",
            "1000 and 1",
            bool((literal["other"] == literal["blocks"]).all() and (repaired["other"] == 1).all()),
        ),
    ]


def _online_figure(frame: pd.DataFrame) -> Figure:
    """Left: mistakes against the number of candidate graphs (10 to a million), split into those
    that halve the candidates and the others (mean and 95 % interval; dashed: their bounds, that of
    the others in the easiest game). Right: the algorithm as printed and repaired on the three-node
    counterexample.
    """
    figure, (left, right) = panels(2)
    product = frame[frame["kind"] == "product"]
    styles = [
        (True, "a", "halving, filter always"),
        (True, "other", "other, filter always"),
        (False, "a", "halving, filter on mistakes"),
        (False, "other", "other, filter on mistakes"),
    ]
    for (eager, column, label), color, marker in zip(styles, PALETTE, "osov"):
        part = product[product["eager"] == eager].groupby("blocks")
        x = np.array([float(group["bound_a"].iloc[0]) for _, group in part])
        shift = 0.25 if not eager else -0.25
        errorbars(left, x + shift, [group[column] for _, group in part], color, label, marker)
    line = np.linspace(1, 21, 100)
    left.plot(line, line, label="bounds", **THEORY)
    left.axhline(float(product["bound"].min()), **THEORY)
    left.set_yscale("symlog", linthresh=1)
    left.set(xlabel="log2 of the number of graphs", ylabel="mistakes", ylim=(0, 1000),
             title="More graphs, hardly more mistakes")  # fmt: skip
    left.legend(fontsize=8, ncol=2, loc="upper left")
    for kind, color, marker in (("literal", PALETTE[3], "o"), ("repaired", PALETTE[0], "s")):
        part = frame[frame["kind"] == kind].sort_values("blocks")
        label = "as printed" if kind == "literal" else "repaired"
        right.plot(part["blocks"], part["other"], marker + "-", color=color, label=label)
    right.set(xscale="log", yscale="log", xlabel="rounds", ylabel="mistakes",
              title="Three nodes, three graphs")  # fmt: skip
    right.legend()
    return figure


UNKNOWN_ONLINE = Study(
    name="graph-unknown-online",
    title="Deciding while the graph is unknown",
    question=(
        "How many mistakes do up to a million candidate graphs cost? Hardly any; but the "
        "algorithm as printed in the source errs for ever on three nodes."
    ),
    claims=("03.13", "03.14"),
    grid=_online_grid,
    cell=_online_cell,
    verdicts=_online_verdicts,
    figures={"online": _online_figure},
)
