"""One rule or two: what it costs to insist on a single rule as the final answer.

Source: Theorem 2.5, Theorem 2.6, Theorem 2.2, "Results", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import mean_interval
from counterplay.strategic import ApplicantStream, StrategicHalving, bounds, instances
from counterplay.strategic.lab import (
    QuantileProbe,
    UnionSamplingLearner,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

EPS = 0.002
_SHARES = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0)  # T eps


def _grid(scale: Scale) -> list[Params]:
    sizes = [8, 32] if scale == "quick" else [8, 16, 32, 64]
    runs = 6 if scale == "quick" else 40
    return [{"n": n, "replicate": i} for n in sizes for i in range(runs)]


def _cell(params: Params, seed: int) -> Record:
    n = int(params["n"] or 0)
    rng = np.random.default_rng(seed)
    target = int(rng.integers(n))
    population = instances.ProperInstance(n, EPS, target=target)
    pair = UnionSamplingLearner(population.hypotheses, random_state=rng.spawn(1)[0])
    probe = QuantileProbe(population.hypotheses, random_state=rng.spawn(1)[0])
    after = ApplicantStream(population, "features_after", random_state=rng.spawn(1)[0])
    before = ApplicantStream(population, "features_first", random_state=rng.spawn(1)[0])
    halving = StrategicHalving(population.hypotheses)
    first = ApplicantStream(population, "features_first", random_state=rng.spawn(1)[0])
    record: dict[str, float] = {}
    played = 0
    for k, share in enumerate(_SHARES):
        more = max(1, round(share / EPS)) - played
        played += more
        after.play_on(pair, more)
        before.play_on(probe, more)
        game = first.play_on(halving, more)
        epochs = pair.output_epochs()
        rounds = sum(r for r, _ in epochs)
        single = sum(r * population.space_loss(m.size, 1) for r, m in epochs) / rounds
        people = population.sample(400, rng)
        last = halving.frozen().members_for(people.X[-1:])[0]
        record[f"pair{k}"] = population.output_loss(pair) / EPS
        record[f"single{k}"] = single / EPS
        record[f"probe{k}"] = population.output_loss(probe) / EPS
        record[f"last{k}"] = population.union_loss(1, bool(last == target)) / EPS
        record[f"map{k}"] = halving.frozen().loss(people) / EPS
        record[f"mistakes{k}"] = game.mistakes
    return record


def _columns(name: str) -> list[str]:
    return [f"{name}{k}" for k in range(len(_SHARES))]


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    largest = frame[frame["n"] == frame["n"].max()]
    n = int(largest["n"].iloc[0])
    at = int(np.searchsorted(_SHARES, bounds.proper_lower_bound(n, EPS) * EPS))
    at = min(at, len(_SHARES) - 1)
    pair, single = largest[f"pair{at}"], largest[f"single{at}"]
    rounds = [max(1, round(share / EPS)) for share in _SHARES]
    allowed = [bounds.quantile_probe_error(n, t) / EPS for t in rounds]
    probe = largest[_columns("probe")].to_numpy(dtype=float).mean(axis=0)
    perfect = frame[[*_columns("map"), *_columns("mistakes")]].to_numpy(dtype=float)
    wrong = frame[_columns("last")].to_numpy(dtype=float) > 0
    return [
        Verdict(
            "02.17",
            f"n = {n}: around the lower bound for single rules the pair is already good, a single "
            "rule is not.",
            f"error/eps: pair {mean_interval(pair)}, single {mean_interval(single)}",
            "pair below 1, single above 1",
            bool(pair.mean() < 1 < single.mean()),
        ),
        Verdict(
            "02.18",
            "StrategicHalving never errs and its median map has error 0, yet its last rule is "
            "wrong in most runs.",
            f"{perfect.max():g} mistakes or errors; last rule wrong in {wrong.mean():.0%}",
            "0; more than half",
            bool(perfect.max() == 0 and wrong.mean() > 0.5),
        ),
        at_most(
            "02.29",
            f"n = {n}: QuantileProbe stays below 4 (floor(log2 n)+1) ln(n)/T at every T.",
            float((probe / allowed).max()),
            1.0,
            what="largest ratio",
        ),
    ]


def _figure(frame: pd.DataFrame) -> Figure:
    """Error of the final answer over eps, against the number of agents times eps. The dashed line
    is where proper learners can start to succeed; a union of two rules is there long before.
    """
    sizes = sorted(frame["n"].unique())
    sizes = [sizes[0], sizes[-1]]
    figure, axes = panels(len(sizes), height=4.6)
    labels = {
        "last": "last rule of StrategicHalving",
        "single": "one rule (union sampling)",
        "probe": "one rule (QuantileProbe)",
        "pair": "union of two rules",
        "map": "median map (x first)",
    }
    for ax, n in zip(axes, sizes):
        part = frame[frame["n"] == n]
        for (name, label), marker, color in zip(labels.items(), "xsv^o", PALETTE):
            values = part[_columns(name)].to_numpy(dtype=float)
            half = 2 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
            ax.errorbar(
                _SHARES, values.mean(axis=0), half, marker=marker, color=color, label=label,
                linewidth=1, capsize=2,
            )  # fmt: skip
        line = bounds.proper_lower_bound(int(n), EPS) * EPS
        ax.axvline(line, label="lower bound, one rule", **THEORY)
        ax.axhline(1.0, color="#999999", linewidth=0.8)
        ax.set(
            xscale="log",
            xlabel="agents times eps",
            ylabel="error of the output / eps",
            title=f"{n} rules",
        )
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, fontsize=9)
    return figure


PROPER_IMPROPER = Study(
    name="proper-improper",
    title="One rule or two as the final answer",
    question=(
        "On a population where every single wrong rule errs with probability 3 eps and any two "
        "rules together never err, how many agents does each kind of answer need? A pair needs "
        "few, a single rule about n/(6 eps), and the last rule of StrategicHalving stays bad."
    ),
    claims=("02.17", "02.18", "02.29"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"error": _figure},
)
