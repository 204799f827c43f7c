"""Real streams: budget calibrated on history, then played; learner against what one would do."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.online import Hedge
from counterplay.core.validation import FloatArray
from counterplay.errors import AssumptionWarning
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.tradeoff.streams import RealStream, digits_stream, flu_stream
from counterplay.studies.verdicts import at_most
from counterplay.tradeoff import (
    ChampionChallenger,
    EpochLearner,
    HarmBudget,
    LossStream,
    play,
    required_budget,
)
from counterplay.tradeoff.lab import count_switches

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

POINTS = 40
CHAMPION, ADAPTIVE = "champion, guaranteed", "champion, adaptive"
POLICIES = (CHAMPION, ADAPTIVE, "lazy epochs", "Hedge", "best model of history")


def _grid(scale: Scale) -> list[Params]:
    streams = ["digits"]
    if scale == "full" or os.environ.get("COUNTERPLAY_DATA"):
        streams.append("flu")
    return [{"stream": name, "policy": policy} for name in streams for policy in POLICIES]


def _cell(params: Params, seed: int) -> Record:
    stream = digits_stream() if params["stream"] == "digits" else flu_stream()
    budget = max(2.0, float(required_budget(stream.history[1], stream.rate).quantile(0.25)))
    path, bound = _play(str(params["policy"]), stream, budget, seed)
    l1, l2 = stream.future
    rows = np.arange(len(l1))
    excess = np.cumsum(l2[rows, path] - stream.rate)
    at = np.linspace(0, len(l1) - 1, POINTS).astype(int)
    record: dict[str, float | str] = {f"excess_{k:02d}": float(excess[t]) for k, t in enumerate(at)}
    best = l1.sum(axis=0).min()
    record |= {
        "title": stream.title,
        "T": float(len(l1)),
        "models": float(l1.shape[1]),
        "rate": stream.rate,
        "budget": budget,
        "primary": float(l1[rows, path].sum()),
        "regret": float(l1[rows, path].sum() - best),
        "excess": float(excess[-1]),
        "switches": float(count_switches(path)),
        "bound": bound,
    }
    return record


def _play(policy: str, stream: RealStream, budget: float, seed: int) -> tuple[np.ndarray, float]:
    """Return the path of models and, for the champions, their bound on the harm."""
    l1, l2 = stream.future
    T, K = l1.shape
    if policy in (CHAMPION, ADAPTIVE):
        return _champion(l1, l2, stream.rate, budget, policy == ADAPTIVE, seed)
    if policy == "best model of history":  # the usual choice
        return np.full(T, int(stream.history[0].sum(axis=0).argmin())), float("nan")
    if policy == "Hedge":
        learner = EpochLearner(T, K, B=1, learner=Hedge(), random_state=seed)
    else:
        learner = EpochLearner(T, K, B="balanced", threshold=budget, random_state=seed)
    path = play(learner, LossStream(l1, l2, c=stream.rate), fast=True).path
    return path.astype(np.int64), float("nan")


def _champion(
    l1: FloatArray, l2: FloatArray, rate: float, budget: float, adaptive: bool, seed: int
) -> tuple[np.ndarray, float]:
    live = ChampionChallenger(
        n_models=l1.shape[1], budget=HarmBudget(rate, budget), horizon=len(l1),
        policy="adaptive" if adaptive else "guaranteed", random_state=seed,
    )  # fmt: skip
    path = np.empty(len(l1), dtype=np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)  # said in the report
        for t in range(len(l1)):
            path[t] = live.current
            live.step(l1[t], l2[t])
    report = live.report()
    return path, float("nan") if report.nobody_left else report.harm_bound


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    verdicts = []
    for name, rows in frame.groupby("stream"):
        table = rows.set_index("policy")
        for policy in (CHAMPION, ADAPTIVE):
            mine, hedge = table.loc[policy], table.loc["Hedge"]
            if np.isfinite(mine["bound"]):
                statement = f"{name}, {policy}: the harm keeps its bound."
                verdicts.append(at_most("09.31", statement, mine["excess"], mine["bound"]))
            statement = f"{name}, {policy}: at most a tenth of the switches of Hedge."
            verdicts.append(at_most("09.31", statement, mine["switches"], hedge["switches"] / 10))
    return verdicts


def _figure(frame: pd.DataFrame) -> Figure:
    """Harm above the tolerated rate over time, on real models and data; the burst budget was
    calibrated on earlier data. The primary regret at the end is in the legend.
    """
    groups = list(frame.groupby("stream"))
    figure, axes = panels(len(groups), width=6.5)
    for ax, (_, rows) in zip(axes, groups):
        for k, policy in enumerate(POLICIES):
            row = rows[rows["policy"] == policy].iloc[0]
            t = np.linspace(1, row["T"], POINTS)
            curve = [row[f"excess_{i:02d}"] for i in range(POINTS)]
            label = f"{policy}: regret {abs(row['regret']):.0f}, {row['switches']:.0f} switches"
            ax.plot(t, curve, color=PALETTE[k], label=label)
        row = rows.iloc[0]
        ax.axhline(row["budget"], label=f"burst budget {row['budget']:.1f}", **THEORY)
        ax.axhline(0, color="#999999", linewidth=0.8)
        ax.set(xlabel="round", ylabel=f"harm above rate {row['rate']:g} (cumulative)",
               title=f"{row['title']}, {row['models']:.0f} models")  # fmt: skip
        ax.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    return figure


REAL_STREAM = Study(
    name="real-stream",
    title="Real models on real streams",
    question=(
        "Twelve digit readers (harm: overcharging) and, where the data are available, eight flu "
        "forecasting teams (harm: a missed surge). The budget is calibrated on history. What do "
        "the watchdog and few switches cost on the primary loss, and what do they save?"
    ),
    claims=("09.31",),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"burn-down": _figure},
    data=("flusight",),
    full_needs="the FluSight forecasts",
)
