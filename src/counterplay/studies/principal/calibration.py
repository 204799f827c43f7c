"""Beyond calibration: unbiased where decisions change, for any number of states.

Source: Proposition 7.A, see docs/theory/07-principal.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.principal import (
    FollowRecommendation,
    LinearContractOracle,
    RepeatedContract,
    StableMechanism,
    UnbiasedForecaster,
    play,
)
from counterplay.principal.behaviour import conditional_bias
from counterplay.principal.bounds import decision_events, net_events
from counterplay.principal.instances import random_contract_game
from counterplay.principal.lab import Forecaster, NetCalibratedForecaster
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

NET_LIMIT = 100_000
ETA = 0.1
SHOWN = 12
EVENTS = decision_events(11, 5, 3)  # 11 contracts, 5 benchmarks, 3 actions


def grid(scale: Scale) -> Sequence[Params]:
    """Number of states x forecaster x kind of sequence x replicates."""
    quick = scale == "quick"
    states = (2, 3, 5, 8) if quick else (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 50)
    cells = []
    for n in states:
        for name in ("decisions", "net"):
            if name == "net" and net_events(n, ETA) > (2_000 if quick else NET_LIMIT):
                continue
            for kind in ("iid", "drifting"):
                for replicate in range(1 if quick else 5):
                    cells.append(
                        {"n_states": n, "forecaster": name, "kind": kind, "replicate": replicate}
                        | {"T": 800 if quick else 8000}
                    )
    return cells


def cell(params: Params, seed: int) -> Record:
    """Bias on the decision events of a contract mechanism, whoever makes the forecasts."""
    n, T = int(str(params["n_states"])), int(str(params["T"]))
    replicate = int(str(params["replicate"]))
    game = random_contract_game(3, n, random_state=replicate)
    oracle = LinearContractOracle(game, np.linspace(0.1, 0.9, 5), beta=0.1, delta=0.1)
    net = params["forecaster"] == "net"
    forecaster: Forecaster = (
        NetCalibratedForecaster(eta=ETA, max_events=NET_LIMIT) if net else UnbiasedForecaster()
    )
    mechanism = StableMechanism(oracle, forecaster=forecaster, random_state=seed)
    states = _states(str(params["kind"]), n, T, replicate)
    transcript = play(mechanism, RepeatedContract(game, FollowRecommendation(), states))
    events, columns = mechanism.events(), transcript.columns
    ids = np.array([events.active(pi) for pi in columns["pi"]])
    alpha, counts = [], []
    for column in ids.T:
        found, bias = conditional_bias(columns["pi"], columns["y"], column)
        alpha += bias.tolist()
        counts += np.bincount(column)[found].tolist()
    scaled = np.array(alpha) * T / np.sqrt(counts)
    made: Any = mechanism.forecaster_
    certificate = made.certificate()
    ranked = np.argsort(counts, kind="stable")  # a sample of events from rare to frequent
    order = ranked[np.linspace(0, len(ranked) - 1, SHOWN).astype(int)]
    shown: dict[str, Any] = {f"n_{i}": int(counts[k]) for i, k in enumerate(order)}
    shown |= {f"bias_{i}": alpha[k] * T for i, k in enumerate(order)}
    return {
        "scaled_bias": float(scaled.max()),
        "total_bias": float(sum(alpha)),
        "evaluations": certificate.evaluations,
        "ratio": certificate.worst_ratio,
        "gap": certificate.worst_gap,
        "events": net_events(n, ETA) if net else EVENTS,
        **shown,
    }


def _states(kind: str, n: int, rounds: int, replicate: int) -> Any:
    rng = np.random.default_rng([replicate, n])
    first, second = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n))
    mix = np.zeros(rounds) if kind == "iid" else 0.5 + 0.5 * np.sin(np.arange(rounds) / 100)
    chances = np.cumsum((1 - mix)[:, None] * first + mix[:, None] * second, axis=1)
    return np.minimum((rng.random(rounds)[:, None] > chances).sum(axis=1), n - 1)


def verdicts(frame: pd.DataFrame) -> Sequence[Verdict]:
    """Gaps and biases within their bounds; work grows slowly with the number of states."""
    ours = frame[frame["forecaster"] == "decisions"]
    work = ours.groupby("n_states")["evaluations"].mean()
    return [
        at_most(
            "07.12",
            "Every minimax gap is within tolerance.",
            ours["gap"].max(),
            1.0,
            what="largest gap / tolerance",
        ),
        at_most(
            "07.12",
            "Every bias is within its bound.",
            ours["ratio"].max(),
            1.0,
            what="largest bias / bound",
        ),
        at_most(
            "07.12",
            "The number of events stays the same when states are added, and each round looks at "
            "a handful of forecasts.",
            work.max(),
            40,
            what=f"{EVENTS} events; largest mean number of forecasts per round",
        ),
    ]


def events_figure(frame: pd.DataFrame) -> Figure:
    """Left: events that must be unbiased: few for decisions, exponentially many for calibration
    (dashed). Right: largest bias on decision events, divided by the square root of the rounds the
    event was active; calibration pays for events nobody uses."""
    figure, axes = panels(2, width=4.6, height=3.8)
    states = np.arange(2, frame["n_states"].max() + 1)
    nets = [net_events(int(n), ETA) for n in states]
    axes[0].plot(states, nets, **THEORY, label="calibration, 0.1-net")
    axes[0].plot(states, np.full(states.size, EVENTS), color=PALETTE[0], label="decision events")
    axes[0].set_yscale("log")
    axes[0].set_ylabel("number of events")
    axes[0].legend(loc="upper left", fontsize=8)
    for i, (name, label) in enumerate((("decisions", "decision events"), ("net", "0.1-net"))):
        rows = frame[frame["forecaster"] == name]
        mean = rows.groupby("n_states")["scaled_bias"].mean()
        axes[1].plot(mean.index, mean, "o-", color=PALETTE[i], label=label)
    axes[1].set_ylabel("largest bias / $\\sqrt{n_E}$")
    axes[1].set_ylim(bottom=0)
    axes[1].legend(fontsize=8)
    for axis in axes:
        axis.set_xlabel("number of states")
    return figure


def scatter_figure(frame: pd.DataFrame) -> Figure:
    """Bias of a sample of events of every run, from rare to frequent, against the rounds they were
    active. The dashed line is the square root: rare events have small bias."""
    figure, (axis,) = panels(1)
    ours = frame[frame["forecaster"] == "decisions"]
    for i, (n, rows) in enumerate(ours.groupby("n_states")):
        x = np.concatenate([rows[f"n_{k}"] for k in range(SHOWN)])
        y = np.concatenate([rows[f"bias_{k}"] for k in range(SHOWN)])
        axis.plot(x, np.maximum(y, 0.3), "o", color=PALETTE[i % len(PALETTE)], label=f"{n}")
    grid_n = np.geomspace(1, ours[f"n_{SHOWN - 1}"].max(), 30)
    axis.plot(grid_n, np.sqrt(grid_n), **THEORY)
    axis.annotate("$\\sqrt{n_E}$", (grid_n[-1], np.sqrt(grid_n[-1])), ha="right", va="bottom")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("rounds the event was active, $n_E$")
    axis.set_ylabel("summed bias (l1 norm)")
    axis.legend(title="states", fontsize=8)
    return figure


CALIBRATION = Study(
    name="beyond-calibration",
    title="Unbiased where decisions change",
    question=(
        "How do the number of events, the bias on the events that matter and the work per round "
        "grow with the number of states? Decision events stay the same; the net of full "
        "calibration explodes and is refused beyond a few states."
    ),
    claims=("07.12",),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"events": events_figure, "bias": scatter_figure},
)
