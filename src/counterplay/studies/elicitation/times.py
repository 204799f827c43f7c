"""How long a policy takes to be shown as k+1 trajectories.

The records hold seconds of this machine, so they are the one thing here that another run does not
repeat digit by digit; the verdict only uses ratios.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.elicitation import expand_and_compress, instances, plan
from counterplay.elicitation.lab import flow_decomposition, policy_flow
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

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
    sizes = (100, 200, 400) if scale == "quick" else (50, 100, 200, 400, 800, 1600)
    return [{"states": n} for n in sizes]


def _cell(params: Params, seed: int) -> Record:
    """Least processor time of every method, measured in turns."""
    mdp = instances.sparse_mdp(0, n_states=int(params["states"] or 0), horizon=50, successors=30)
    policy = plan(mdp, np.ones((1, 5))).policies[0]
    work: dict[str, Callable[[], object]] = {
        "tree": lambda: expand_and_compress(mdp, policy),
        "literal": lambda: expand_and_compress(mdp, policy, method="literal"),
        "flow": lambda: flow_decomposition(policy_flow(mdp, policy)).compressed(),
    }
    least = dict.fromkeys(work, np.inf)
    for turn in range(6):  # the first one compiles
        for name, function in work.items():
            start = time.process_time()
            function()
            if turn:
                least[name] = min(least[name], time.process_time() - start)
    return {name: float(seconds) for name, seconds in least.items()}


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    seconds = frame.set_index("states").sort_index()
    growth = seconds.tree.to_numpy()[1:] / seconds.tree.to_numpy()[:-1]
    ratio = float((seconds.flow / seconds.tree).iloc[-1])
    return [
        at_most(
            "08.21",
            "Largest growth of the time of expand-and-compress when the states double",
            growth.max(),
            DOUBLING,
        ),
        at_least(
            "08.21",
            "Time of the flow decomposition in units of expand-and-compress, most states",
            ratio,
            1,
        ),
    ]


def _time(frame: pd.DataFrame) -> Figure:
    """Processor time against the number of states (five objectives, horizon 50, 30 successors).
    The flow decomposition follows its theory, linear in the edges (dashed). Expand-and-compress
    stays below that slope: only the evaluation of the policy depends on the number of states."""
    figure, (axes,) = panels(1)
    states = np.array(sorted(frame.states.unique()))
    for i, (method, label) in enumerate(LABELS.items()):
        axes.loglog(frame.states, 1e3 * frame[method], "os^"[i], color=PALETTE[i], label=label)
    flow = frame[frame.states == states[-1]].flow.iloc[0]
    axes.loglog(states, 1e3 * flow * states / states[-1], **THEORY, label="slope 1")
    axes.set_xlabel("states S")
    axes.set_ylabel("milliseconds on one core")
    axes.set_xticks(states, [str(n) for n in states])
    seconds = frame[list(LABELS)].to_numpy()
    low, high = 1e3 * seconds.min() / 2, 1e3 * seconds.max() * 4
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
    version=2,
)
