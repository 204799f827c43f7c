"""Learning an unknown graph from one move per person.

Source: "Measured", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.strategic import bounds, instances
from counterplay.strategic.lab import (
    ConsistentGraphOnly,
    ExplicitGraphClass,
    UnknownGraphPACAgnostic,
    UnknownGraphPACRealizable,
    graph_loss,
    probe,
    proxy_loss,
)
from counterplay.studies.strategic.graphs.common import errorbars, random_graph
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


_TRAP = {"n": 40, "k": 6, "g": 64}
_TRAP_SIZES = (5, 10, 20, 40, 80, 160)
_METHODS = {"small": "fewest arcs", "proxy": "proxy loss", "any": "any consistent graph"}


def _batch_grid(scale: Scale) -> list[Params]:
    runs, pairs = (40, 10) if scale == "quick" else (100, 60)
    cells: list[Params] = [{"kind": "trap", "replicate": i} for i in range(runs)]
    more: list[Params] = [{"kind": "pairs", "replicate": i} for i in range(pairs)]
    return cells + more


def _batch_cell(params: Params, seed: int) -> Record:
    rng = np.random.default_rng(seed)
    record: dict[str, float] = {
        f"{method}{T}": math.nan for method in _METHODS for T in _TRAP_SIZES
    } | {"low": math.nan, "high": math.nan}
    if params["kind"] == "pairs":
        low, high = [], []
        for _ in range(50):
            k = int(rng.integers(1, 5))
            truth, other = random_graph(rng, 6, k), random_graph(rng, 6, k)
            loss = graph_loss(other, truth)
            if loss > 0:
                low.append(k * proxy_loss(other, truth, k) / loss)
                high.append(proxy_loss(other, truth, k) / loss)
        return record | {"low": min(low), "high": max(high)}
    trap = instances.superset_trap(**_TRAP, random_state=rng)
    assert isinstance(trap.graphs, ExplicitGraphClass)
    x = rng.integers(0, _TRAP["n"], size=_TRAP_SIZES[-1])
    v = probe(trap.graph, x, rng)
    both = trap.hypotheses, trap.graphs
    for T in _TRAP_SIZES:
        moves, ones = (x[:T], v[:T]), np.ones(T)
        fits = {
            "small": UnknownGraphPACRealizable(*both).fit(*moves, ones),
            "any": ConsistentGraphOnly(*both).fit(*moves, ones),
            "proxy": UnknownGraphPACAgnostic(*both).fit(*moves, x[:T], ones),
        }
        for name, fit in fits.items():
            record[f"{name}{T}"] = graph_loss(fit.graph, trap.graph)
    return record


def _batch_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    trap, pairs = frame[frame["kind"] == "trap"], frame[frame["kind"] == "pairs"]
    small, anything = trap["small160"], trap["any160"]
    return [
        at_most(
            "03.15",
            "After 160 moves the consistent graph with fewest arcs is nearly right.",
            float(small.mean()),
            0.01,
            what="mean loss",
        ),
        at_least(
            "03.15",
            "Consistency alone picks a graph with too many arcs.",
            float(anything.mean()),
            0.9,
            what="mean loss",
        ),
        Verdict(
            "03.17",
            "Proxy loss / graph loss lies between 1/k and 3 for all random pairs.",
            f"k * ratio from {float(pairs['low'].min()):.3f}, "
            f"ratio up to {float(pairs['high'].max()):.3f}",
            ">= 1 and <= 3",
            float(pairs["low"].min()) >= 1 - 1e-9 and float(pairs["high"].max()) <= 3 + 1e-9,
        ),
    ]


def _batch_figure(frame: pd.DataFrame) -> Figure:
    """Left: share of nodes whose neighbourhood is learned wrong, against the number of people
    probed (40 nodes, 64 candidate graphs, mean and 95 % interval). Right: smallest and largest
    ratio of proxy to graph loss per batch of 50 random pairs of graphs, with the proved limits.
    """
    figure, (left, right) = panels(2)
    trap, pairs = frame[frame["kind"] == "trap"], frame[frame["kind"] == "pairs"]
    shifts = {"small": 0.97, "proxy": 1.03, "any": 1.0}
    for (name, label), color, marker in zip(_METHODS.items(), PALETTE, "os^"):
        groups = [trap[f"{name}{T}"] for T in _TRAP_SIZES]
        errorbars(left, shifts[name] * np.array(_TRAP_SIZES), groups, color, label, marker)
    T = np.arange(90, 171)
    log_G = math.log(_TRAP["g"])
    bound = [bounds.graph_certificate(_TRAP["k"], log_G, int(t)) for t in T]
    left.plot(T, bound, label="certificate, fewest arcs", **THEORY)
    left.set(xscale="log", xlabel="people probed T", ylabel="graph loss", ylim=(-0.03, 1.08),
             title="Which graph explains the moves?")  # fmt: skip
    left.set_xticks(_TRAP_SIZES, [str(v) for v in _TRAP_SIZES])
    left.minorticks_off()
    left.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0.4, 0.3))
    batch = np.arange(len(pairs))
    right.plot(batch, pairs["low"], "o", color=PALETTE[0], label="k proxy / loss, smallest")
    right.plot(batch, pairs["high"], "s", color=PALETTE[1], label="proxy / loss, largest")
    right.axhline(1, label="limits", **THEORY)
    right.axhline(3, **THEORY)
    right.set(
        xlabel="batch of 50 pairs", ylabel="ratio", ylim=(0, 3.4), title="Proxy loss sandwich"
    )
    right.legend(fontsize=8)
    return figure


UNKNOWN = Study(
    name="graph-unknown",
    title="Learning an unknown graph from one move per person",
    question=(
        "Many candidate graphs contain everything that was seen. Does asking for few arcs find "
        "the right one? Yes, while any consistent graph gets worse with more data."
    ),
    claims=("03.15", "03.17"),
    grid=_batch_grid,
    cell=_batch_cell,
    verdicts=_batch_verdicts,
    figures={"graphs": _batch_figure},
)
