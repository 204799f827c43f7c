"""How long a policy takes to be shown as k+1 trajectories (experiment E3a).

The records hold seconds of this machine, so they are the one thing here that another run does not
repeat digit by digit; the verdict only uses ratios.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, figure_style, panels
from counterplay.elicitation import (
    expand_and_compress,
    flow_decomposition,
    instances,
    plan,
    policy_flow,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

LABELS = {
    "tree": "expand and compress (cells of points)",
    "literal": "expand and compress (loop of the thesis)",
    "flow": "flow decomposition",
}
DOUBLING = 2.6  # time may grow by this much when the states double; linear growth is 2


def _grid(scale: Scale) -> Sequence[Params]:
    sizes = (50, 100, 200) if scale == "quick" else (50, 100, 200, 400, 800, 1600)
    return [{"states": n, "method": method} for n in sizes for method in LABELS]


def _cell(params: Params, seed: int) -> Record:
    mdp = instances.sparse_mdp(0, n_states=int(params["states"] or 0), horizon=50, successors=10)
    policy = plan(mdp, np.ones((1, 5))).policies[0]
    work: dict[str, Callable[[], object]] = {
        "tree": lambda: expand_and_compress(mdp, policy),
        "literal": lambda: expand_and_compress(mdp, policy, method="literal"),
        "flow": lambda: flow_decomposition(policy_flow(mdp, policy)).compressed(),
    }
    function = work[str(params["method"])]
    function()  # compile
    times = []
    for _ in range(5):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return {"seconds": min(times)}


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    seconds = frame[frame.method == "tree"].set_index("states").seconds.sort_index()
    growth = seconds.to_numpy()[1:] / seconds.to_numpy()[:-1]
    largest = frame[frame.states == frame.states.max()].set_index("method").seconds
    ratio = float(largest["flow"] / largest["tree"])
    return [
        Verdict(
            "08.21",
            "Largest growth of the time of expand-and-compress when the states double",
            f"{growth.max():.2f}",
            f"< {DOUBLING}",
            bool(growth.max() < DOUBLING),
        ),
        Verdict(
            "08.21",
            "Time of the flow decomposition in units of expand-and-compress, most states",
            f"{ratio:.1f}",
            "> 1",
            ratio > 1,
        ),
    ]


def _time(frame: pd.DataFrame) -> Figure:
    """Processor time against the number of states (five objectives, horizon 50, ten successors).
    The flow decomposition follows its theory, linear in the edges (dashed). Expand-and-compress
    stays below that slope: only the evaluation of the policy depends on the number of states."""
    with figure_style():
        figure, (axes,) = panels(1)
        states = np.array(sorted(frame.states.unique()))
        for i, (method, label) in enumerate(LABELS.items()):
            part = frame[frame.method == method].sort_values("states")
            axes.loglog(part.states, 1e3 * part.seconds, "os^"[i], color=PALETTE[i], label=label)
        flow = frame[(frame.method == "flow") & (frame.states == states[-1])].seconds.iloc[0]
        axes.loglog(states, 1e3 * flow * states / states[-1], **THEORY, label="slope 1")
        axes.set_xlabel("states S")
        axes.set_ylabel("milliseconds on one core")
        axes.set_xticks(states, [str(n) for n in states])
        low, high = 1e3 * frame.seconds.min() / 2, 1e3 * frame.seconds.max() * 4
        ticks = [t for e in range(5) for t in (10.0**e, 3 * 10.0**e) if low <= t <= high]
        axes.set_ylim(low, high)
        axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
        axes.minorticks_off()
        axes.legend(fontsize=8, loc="upper left")
        return figure


TIMES = Study(
    name="trajectory-times",
    title="How long it takes to show a policy",
    question=(
        "Expand-and-compress keeps at most k+1 prefixes at every step; the flow decomposition "
        "handles every edge of the layer graph. How does their time grow with the states?"
    ),
    claims=("08.21",),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"time": _time},
)
