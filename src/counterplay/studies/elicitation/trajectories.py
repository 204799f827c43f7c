"""Policies as k+1 trajectories: rare events, sizes, routes on a map."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.elicitation import MultiObjectiveMDP, bounds, expand_and_compress, instances, plan
from counterplay.elicitation.lab import (
    flow_decomposition,
    policy_flow,
    policy_value,
    sampled_trajectory_set,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

EXACT: tuple[Literal["tree", "literal", "unscaled"], ...] = ("tree", "literal", "unscaled")
SAMPLES = bounds.sample_size(3, 0.05, 0.05)
LABELS = {
    "tree": "relative weights (ours)",
    "literal": "as in the thesis",
    "unscaled": "cells, unscaled",
    "sampled": f"{SAMPLES} samples",
}
ROWS, COLUMNS = 7, 8
EXACTLY = 1e-10  # relative error that counts as none


def _grid(scale: Scale) -> Sequence[Params]:
    powers = (3, 6, 9, 12) if scale == "quick" else range(2, 15)
    sizes = (20, 50, 100) if scale == "quick" else (20, 50, 100, 200, 400)
    cells: list[Params] = [
        {"kind": "crash", "size": p, "method": m} for p in powers for m in (*EXACT, "sampled")
    ]
    cells += [{"kind": "flow", "size": n, "method": "both"} for n in sizes]
    cells.append({"kind": "map", "size": 0, "method": "tree"})
    return cells


def _cell(params: Params, seed: int) -> Record:
    empty: dict[str, Any] = {
        "error": None, "trajectories": None, "paths": None, "bound": None, "routes": None
    }  # fmt: skip
    kind, size = str(params["kind"]), int(params["size"] or 0)
    if kind == "crash":
        return {**empty, **_crash(size, str(params["method"]), seed)}
    if kind == "flow":
        mdp = instances.sparse_mdp(0, n_states=size, k=5, horizon=20, successors=10)
        policy = plan(mdp, np.ones((1, 5))).policies[0]
        flow = policy_flow(mdp, policy)
        paths = flow_decomposition(flow)
        few = expand_and_compress(mdp, policy)
        off = float(np.abs(few.value / policy_value(mdp, policy) - 1).max())
        return {
            **empty,
            "error": off,
            "trajectories": len(few),
            "paths": len(paths),
            "bound": bounds.flow_paths(flow.n_edges, flow.n_vertices),
        }
    return {**empty, **_map()}


def _crash(power: int, method: str, seed: int) -> dict[str, Any]:
    mdp = instances.rare_crash(crash_probability=10.0**-power)
    policy = plan(mdp, [[1.0, 1.0, 1.0, 0.0]]).policies[0]
    exact = float(policy_value(mdp, policy)[-1])
    if method == "sampled":
        shown = sampled_trajectory_set(mdp, policy, SAMPLES, seed)
    else:
        chosen = cast(Literal["tree", "literal", "unscaled"], method)
        shown = expand_and_compress(mdp, policy, method=chosen)
    return {"error": abs(float(shown.value[-1]) / exact - 1), "trajectories": len(shown)}


def _map() -> dict[str, Any]:
    graph = instances.city(ROWS, COLUMNS)
    mdp = MultiObjectiveMDP.from_road_graph(
        graph, (5, 0), (1, 7), 18, objectives=["time", "scenery", "safety"], costs=["time"]
    )
    policy = plan(mdp, [[1.0, 0.02, 0.02]]).policies[0]
    shown = expand_and_compress(mdp, policy)
    names = mdp.state_names or ()
    routes = [
        {
            "weight": float(weight),
            "minutes": float(mdp.original_value(returns)[0]),
            "stops": [names[s] for s in states.tolist()],
        }
        for weight, returns, states in zip(shown.weights, shown.returns, shown.states)
    ]
    return {"trajectories": len(shown), "routes": json.dumps(routes)}


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    crash = frame[frame.kind == "crash"]
    ours = float(crash[crash.method == "tree"].error.max())
    unscaled = float(crash[crash.method == "unscaled"].error.max())
    flow = frame[frame.kind == "flow"]
    routes = json.loads(frame[frame.kind == "map"].routes.iloc[0])
    most = bounds.trajectory_set_size(5)
    told = "Largest relative error of the crash objective"
    spare = int((flow.bound - flow.paths).min())
    return [
        at_most("08.18", f"{told} with relative weights, p down to 1e-12", ours, EXACTLY),
        at_least("08.18", f"{told} without relative weights", unscaled, EXACTLY),
        at_most("08.19", "Most trajectories of any policy", flow.trajectories.max(), most),
        at_most("08.19", "Largest relative error of their value", flow.error.max(), EXACTLY),
        at_least("08.20", "Paths of the flow decomposition left over from |E| - |V| + 2", spare, 0),
        at_most(
            "08.19",
            "Routes of the commuter's policy with three objectives",
            len(routes),
            bounds.trajectory_set_size(3),
        ),
    ]


def _rare(frame: pd.DataFrame) -> Figure:
    """Relative error of the crash objective against the probability of a crash per step. Relative
    weights keep it at rounding level; a sample simply never contains the crash (error 1)."""
    figure, (axes,) = panels(1)
    crash = frame[frame.kind == "crash"]
    for i, method in enumerate(("tree", "literal", "unscaled", "sampled")):
        part = crash[crash.method == method].sort_values("size")
        error = np.maximum(part.error.to_numpy(dtype=float), 1e-17)
        axes.loglog(10.0 ** -part["size"], error, "o-", color=PALETTE[i], label=LABELS[method])
    axes.axhline(EXACTLY, **THEORY, label="required")
    axes.set_xlabel("probability of a crash per step")
    axes.set_ylabel("relative error of the crash objective")
    axes.set_ylim(1e-18, 1e6)
    axes.legend(fontsize=8, ncols=3, loc="upper center")
    return figure


def _sizes(frame: pd.DataFrame) -> Figure:
    """What has to be handled as the number of states grows (five objectives, horizon 20). The flow
    decomposition has about one path per edge and meets its bound; expand-and-compress ends with
    at most six trajectories."""
    flow = frame[frame.kind == "flow"].sort_values("size")
    figure, (axes,) = panels(1)
    states = flow["size"]
    axes.loglog(states, flow.bound, **THEORY, label="|E| - |V| + 2")
    axes.loglog(states, flow.paths, "o", color=PALETTE[0], label="flow decomposition: paths")
    label = "expand and compress: trajectories"
    axes.loglog(states, flow.trajectories, "s", color=PALETTE[1], label=label)
    axes.axhline(bounds.trajectory_set_size(5), **{**THEORY, "linestyle": ":"}, label="k + 1")
    axes.set_xlabel("states S")
    axes.set_ylabel("number shown")
    axes.set_ylim(2, 3e5)
    axes.set_xticks(states, [str(n) for n in states])
    axes.minorticks_off()
    axes.legend(fontsize=8, loc="center right")
    return figure


def _routes(frame: pd.DataFrame) -> Figure:
    """One commuter's policy on a made-up city, as its exact trajectory set: line width is the
    probability, circles mark jams. The motorway in the middle is fast but may jam."""
    routes = json.loads(frame[frame.kind == "map"].routes.iloc[0])
    graph = instances.city(ROWS, COLUMNS)
    place = {str(node): data["pos"] for node, data in graph.nodes(data=True)}
    figure, (axes,) = panels(1, width=7.0, height=5.2)
    for tail, head in graph.edges():
        (x0, y0), (x1, y1) = place[str(tail)], place[str(head)]
        axes.plot([x0, x1], [y0, y1], color="#cccccc", lw=0.8, zorder=1)
    for i, route in enumerate(sorted(routes, key=lambda r: -r["weight"])):
        _draw_route(axes, route, place, PALETTE[i % len(PALETTE)], shift=0.07 * i)
    for name, mark in (((5, 0), "home"), ((1, 7), "work")):
        x, y = place[str(name)]
        axes.plot(x, y, "o", color="black", ms=7, zorder=5)
        axes.annotate(mark, (x, y), textcoords="offset points", xytext=(6, 6))
    axes.set_axis_off()
    axes.legend(fontsize=8, loc="lower right")
    return figure


def _draw_route(axes: Any, route: Any, place: Any, color: str, shift: float) -> None:
    points, jams = [], []
    for stop in route["stops"]:
        if stop in place:
            points.append(place[stop])
        else:
            jams.append(len(points))
    xy = np.array(points) + shift
    label = f"{100 * route['weight']:.3g} %: {route['minutes']:.0f} min"
    axes.plot(xy[:, 0], xy[:, 1], color=color, lw=1.5 + 6 * route["weight"], label=label, zorder=3)
    for position in jams:
        middle = (xy[position - 1] + xy[min(position, len(xy) - 1)]) / 2
        axes.plot(*middle, "o", color="white", mec=color, mew=2, ms=9, zorder=4)


TRAJECTORIES = Study(
    name="trajectory-sets",
    title="Any policy as k+1 real trajectories, crashes included",
    question=(
        "A policy is shown as a few weighted trajectories whose mean return is its value. Does it "
        "stay exact for events that happen once in 1e12 steps? How does it compare with sampling "
        "and with decomposing the whole flow? And what does a person see?"
    ),
    claims=("08.18", "08.19", "08.20"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"rare-events": _rare, "sizes": _sizes, "routes": _routes},
)
