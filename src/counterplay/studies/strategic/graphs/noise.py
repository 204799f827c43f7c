"""Regret when no rule is right about everybody.

Source: "Measured", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.finite_class import FiniteClass
from counterplay.strategic import GraphApplicants, bounds, play
from counterplay.strategic.lab import (
    SOA,
    AgnosticCoverHedge,
    HedgeOverH,
    stackelberg_regret,
)
from counterplay.studies.strategic.graphs.common import errorbars, random_graph, whole
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


_FLIPS = 12


def _noise_grid(scale: Scale) -> list[Params]:
    sizes, runs = ((50, 100, 200), 20) if scale == "quick" else ((100, 400, 1600), 20)
    return [{"T": T, "replicate": i} for T in sizes for i in range(runs)]


def noise_cell(params: Params, seed: int) -> Record:
    """Regret on one noisy stream of T people."""
    rng, T = np.random.default_rng(seed), whole(params, "T")
    rules = FiniteClass.from_matrix(rng.random((8, 6)) < 0.4).deduplicated().unique
    while SOA(rules).mistake_bound != 2:
        rules = FiniteClass.from_matrix(rng.random((8, 6)) < 0.4).deduplicated().unique
    graph = random_graph(rng, 6, 2)
    nodes = rng.integers(0, 6, size=T)
    y = (graph.induced(rules.labels[:1])[0][nodes] ^ (rng.random(T) < 0.25)).astype(int)
    cover = AgnosticCoverHedge(SOA(rules), M=_FLIPS, horizon=T, random_state=rng)
    losses = []
    for x, label in zip(nodes.tolist(), y.tolist()):
        play(cover, GraphApplicants(graph, [x], [label]))
        losses.append(abs(cover.probability - label))
    hedge = play(HedgeOverH(rules, T, random_state=rng), GraphApplicants(graph, nodes, y))
    made = (hedge["yhat"] != hedge["y"]).astype(float)
    return {
        "cover": stackelberg_regret(losses, nodes.tolist(), y, rules, graph),
        "hedge": stackelberg_regret(made, nodes.tolist(), y, rules, graph),
        "bound": bounds.cover_hedge_regret(T, _FLIPS),
        "states": cover.n_states,
    }


def _noise_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    share = frame["cover"] / frame["bound"]
    return [
        at_most(
            "03.20",
            "Expected regret of cover hedge is below sqrt(T/2 ln N) on every stream.",
            float(share.max()),
            1.0,
            what=f"at most {int(frame['states'].max())} states; largest share of the bound",
        )
    ]


def _noise_figure(frame: pd.DataFrame) -> Figure:
    """Regret against the best rule of the class when a quarter of the labels is wrong (mean and
    95 % interval): hedge over all rules needs the list of rules, cover hedge only an online
    learner. Dashed: the bound of cover hedge; dotted: growth like sqrt(T ln T).
    """
    figure, (ax,) = panels(1)
    groups = frame.groupby("T")
    T = np.array([int(t) for t, _ in groups])
    errorbars(ax, 0.97 * T, [g["cover"] for _, g in groups], PALETTE[0], "cover hedge")
    errorbars(ax, 1.03 * T, [g["hedge"] for _, g in groups], PALETTE[1], "hedge over rules", "s")
    ax.plot(T, [float(g["bound"].iloc[0]) for _, g in groups], label="bound", **THEORY)
    growth = np.sqrt(T * np.log(T))
    first = float(frame.loc[frame["T"] == T[0], "cover"].mean())
    dotted = {**THEORY, "linestyle": ":"}
    ax.plot(T, growth * first / growth[0], label="sqrt(T ln T), through the first point", **dotted)
    ax.set(
        xscale="log", xlabel="rounds T", ylabel="regret", title="A quarter of the labels is noise"
    )
    ax.set_xticks(T, [str(t) for t in T])
    ax.minorticks_off()
    ax.legend()
    return figure


NOISE = Study(
    name="graph-noise",
    title="Regret when no rule is right about everybody",
    question=(
        "With a quarter of the labels wrong, is the regret against the best rule sublinear and "
        "below its bound?"
    ),
    claims=("03.20",),
    grid=_noise_grid,
    cell=noise_cell,
    verdicts=_noise_verdicts,
    figures={"regret": _noise_figure},
)
