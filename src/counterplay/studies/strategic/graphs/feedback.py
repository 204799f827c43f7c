"""What hidden features cost on a graph.

Source: "Measured", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.strategic import bounds, instances, play
from counterplay.strategic.lab import (
    SOA,
    BiasedMajorityVote,
    Red2OnlineFI,
    Red2OnlinePMF,
)
from counterplay.studies.strategic.graphs.common import whole
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def _feedback_grid(scale: Scale) -> list[Params]:
    cells: list[Params] = [
        {"kind": kind, "k": k, "r": 0}
        for kind in ("fi", "pmf", "baseline")
        for k in (2, 4, 8, 16, 32, 64)
    ]
    traps = (4, 8, 12, 16, 20, 24) if scale == "quick" else (4, 8, 12, 16, 20, 24, 28, 32, 36, 40)
    more: list[Params] = [{"kind": "trap", "k": 4, "r": r} for r in traps]
    return cells + more


def _feedback_cell(params: Params, seed: int) -> Record:
    k, kind = whole(params, "k"), params["kind"]
    if kind == "trap":
        trap = instances.halving_trap(whole(params, "r"), k)
        vote = BiasedMajorityVote(trap.hypotheses, k)
        learner = Red2OnlinePMF(SOA(trap.hypotheses), k)
        reduced = sum(int(learner.accepts(np.array([x]))[0]) for x in trap.nodes)
        mistakes = play(vote, trap.people()).mistakes
        return {"mistakes": mistakes, "reduction": reduced, "size": len(trap.hypotheses)}
    if kind == "fi":
        instance = instances.binary_code_instance(k)
        played = play(Red2OnlineFI(SOA(instance.hypotheses)), instance.adversary())
    else:
        instance = instances.star_singletons(k)
        hidden: Any = (
            Red2OnlinePMF(SOA(instance.hypotheses), k)
            if kind == "pmf"
            else BiasedMajorityVote(instance.hypotheses, k)
        )
        played = play(hidden, instance.adversary())
    return {"mistakes": played.mistakes, "reduction": -1, "size": len(instance.hypotheses)}


def _feedback_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    parts = {kind: part.set_index("k")["mistakes"] for kind, part in frame.groupby("kind")}
    code = {
        k: instances.binary_code_instance(int(k)).expected["induced"] for k in parts["fi"].index
    }
    star = {k: instances.star_singletons(int(k)).expected["lower"] + 1 for k in parts["pmf"].index}
    trap = frame[frame["kind"] == "trap"]
    return [
        Verdict(
            "03.09",
            "Known graph: exactly log2 k mistakes on the code instance.",
            ", ".join(str(int(m)) for m in parts["fi"]),
            ", ".join(str(m) for m in code.values()),
            parts["fi"].to_dict() == code,
        ),
        Verdict(
            "03.09",
            "Hidden features: exactly k mistakes on the two-way star.",
            ", ".join(str(int(m)) for m in parts["pmf"]),
            ", ".join(str(m) for m in star.values()),
            parts["pmf"].to_dict() == star,
        ),
        Verdict(
            "03.12",
            "Counting hypotheses costs r mistakes on the trap, the reduction with SOA none.",
            f"baseline {int(trap['mistakes'].max())} at most, "
            f"reduction {int(trap['reduction'].max())}",
            "r and 0",
            bool((trap["mistakes"] == trap["r"]).all() and (trap["reduction"] == 0).all()),
        ),
    ]


def _feedback_figure(frame: pd.DataFrame) -> Figure:
    """Left: mistakes forced by the adversaries against the number of moves k (log-log), with the
    lower (dotted) and upper (dashed) bounds. Right: a class of Littlestone dimension 2 on which
    counting hypotheses fails.
    """
    figure, (left, right) = panels(2)
    k = np.array([2, 4, 8, 16, 32, 64])
    names = {"fi": "graph known", "pmf": "features hidden", "baseline": "features hidden, majority"}
    for (kind, label), color, marker in zip(names.items(), PALETTE, "os^"):
        part = frame[frame["kind"] == kind].sort_values("k")
        left.plot(
            part["k"],
            part["mistakes"],
            marker,
            color=color,
            label=label,
            ms=6 if kind != "baseline" else 4,
        )
    fi = [bounds.red2online_fi_mistakes(1, int(v)) for v in k]
    pmf = [bounds.red2online_pmf_mistakes(1, int(v)) for v in k]
    left.plot(k, fi, label="upper bounds", **THEORY)
    left.plot(k, pmf, **THEORY)
    dotted = {**THEORY, "linestyle": ":"}
    left.plot(k, np.log2(k), label="lower bounds", **dotted)
    left.plot(k[1:], k[1:] - 1, **dotted)
    left.set(xscale="log", yscale="log", xlabel="moves per person k", ylabel="mistakes",
             title="Seeing people first is worth a factor k / log k")  # fmt: skip
    left.set_xticks(k, [str(v) for v in k])
    left.minorticks_off()
    left.legend(fontsize=8)
    trap = frame[frame["kind"] == "trap"].sort_values("r")
    x = np.log(trap["size"])
    right.plot(x, trap["mistakes"], "o", color=PALETTE[2], label="biased majority")
    right.plot(x, trap["reduction"], "s", color=PALETTE[1], label="reduction with SOA")
    sizes = trap["size"].astype(int)
    right.plot(x, [bounds.biased_majority_mistakes(n, 4) for n in sizes],
               label="its bound, about (k+2) ln |H|", **THEORY)  # fmt: skip
    right.set(xlabel="ln |H|", ylabel="mistakes", title="Trap of dimension 2, k = 4")
    right.legend(fontsize=8)
    return figure


FEEDBACK = Study(
    name="graph-feedback",
    title="What hidden features cost on a graph",
    question=(
        "Seeing people before the decision costs log k mistakes per dimension, seeing only "
        "where they went costs k. And counting hypotheses is not enough: on a class of "
        "dimension 2 it errs without end while the reduction does not err at all."
    ),
    claims=("03.09", "03.12"),
    grid=_feedback_grid,
    cell=_feedback_cell,
    verdicts=_feedback_verdicts,
    figures={"feedback": _feedback_figure},
)
