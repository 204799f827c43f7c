"""The EMNIST experiment: figures and verdicts from the numbers that a GPU run has written.

``benchmarks/gpu_contribution.py`` writes one JSON file; nothing is computed here but means and
intervals. Source: "The experiment of the chapter", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from counterplay.contribution.lab import SearchResult
from counterplay.core.figures import PALETTE, figure_style, panels
from counterplay.core.files import read_limited
from counterplay.core.records import LIMIT, Fraction, Positive, read_json, to_record
from counterplay.core.stats import Interval, clopper_pearson, mean_interval
from counterplay.errors import InvalidInputError
from counterplay.studies.contribution.defection_digits import success_bars
from counterplay.studies.study import Verdict
from counterplay.studies.verdicts import at_least

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTIES = ("all hard", "90 % hard", "90 % easy", "all easy")


class _Cell(msgspec.Struct):
    algorithm: Literal["FedAvg", "MWFed"]
    fraction: Fraction
    defector: tuple[int, ...]
    satisfied_at_end: tuple[int, ...]
    satisfied_by_round: tuple[float, ...]


class _Solo(msgspec.Struct):
    fraction: Fraction
    accuracy: tuple[tuple[float, ...], ...]


class _Search(msgspec.Struct):
    steps: Positive
    lr: tuple[float, ...]
    batch_size: tuple[int, ...]
    accuracy: tuple[float, ...]


class _Results(msgspec.Struct):
    """What the figures and verdicts read; the file holds more."""

    format: Literal["counterplay-contribution-emnist-1"]
    rounds: Positive
    runs: Positive
    threshold: Fraction
    cells: tuple[_Cell, ...]
    solo: tuple[_Solo, ...]
    device: str = "unknown"
    eight: tuple[_Cell, ...] = ()
    search: _Search | None = None
    speed: dict[str, Any] = {}


def load_emnist_results(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the file that benchmarks/gpu_contribution.py wrote."""
    what = f"{Path(path).name[:80]}, the results of benchmarks/gpu_contribution.py,"
    data: dict[str, Any] = read_json(read_limited(path, what=what, limit=LIMIT), what=what)
    to_record(data, _Results, what=what)
    return data


def emnist_figures(path: str | os.PathLike[str]) -> dict[str, Figure]:
    """Return the figures of the experiment: success, curves over rounds, training alone, and
    success among eight parties and the random search where the file has them."""
    data = load_emnist_results(path)
    with figure_style():
        figures = {"success": _success(data, "cells"), "rounds": _rounds(data)}
        if data["solo"]:
            figures["solo"] = _solo(data)
        if data.get("eight"):
            figures["eight"] = _success(data, "eight")
        if "search" in data:
            figures["search"] = _search(data)
    return figures


def emnist_verdicts(path: str | os.PathLike[str], share: float = 0.25) -> list[Verdict]:
    """Compare the algorithms at one share with paired runs, at the last round."""
    data = load_emnist_results(path)
    cells = {c["algorithm"]: c for c in data["cells"] if c["fraction"] == share}
    if set(cells) != {"FedAvg", "MWFed"}:
        raise InvalidInputError(f"{path} has no pair of cells at share {share:g}")
    plain, mw = (np.array(cells[a]["satisfied_at_end"], dtype=float) for a in ("FedAvg", "MWFed"))
    gap = mean_interval(plain - mw)
    found = [
        Verdict(
            "04.32",
            f"On EMNIST a defector with {share:.0%} of its data does better under FedAvg.",
            f"{plain.mean():.0%} against {mw.mean():.0%}; difference {gap}",
            "> 0 (the thesis reports 94 % against 45 % at 25 %)",
            gap.low > 0,
        )
    ]
    speed = data.get("speed", {})
    if "ratio_plain" in speed:  # written by the current script
        found.append(
            at_least(
                "04.41",
                f"Training {speed['batch']} runs together is five times faster per run.",
                speed["ratio"],
                5.0,
                what=f"{speed['ratio_plain']:.2f} times as fast as plain torch on "
                f"{data.get('device', 'unknown')}; as the same code one by one",
            )
        )
    return found


def _success(data: dict[str, Any], part: str) -> Figure:
    """Bars of the share of satisfied defectors at the last round."""
    shares = sorted({c["fraction"] for c in data[part]}, reverse=True)
    found: dict[str, dict[float, Interval]] = {"FedAvg": {}, "MWFed": {}}
    for c in data[part]:
        interval = clopper_pearson(sum(c["satisfied_at_end"]), len(c["defector"]))
        found[c["algorithm"]][c["fraction"]] = interval
    figure, (ax,) = panels(1, width=6.4)
    success_bars(ax, shares, found)
    who = "four" if part == "cells" else "eight"
    ax.set_title(f"EMNIST, {who} parties, round {data['rounds']}, {data['runs']} runs per bar")
    middle, half = (len(shares) - 1) / 2, max(len(shares), 4) / 2
    ax.set_xlim(middle - half - 0.1, middle + half + 0.1)
    return figure


def _rounds(data: dict[str, Any]) -> Figure:
    """Share of satisfied defectors over the rounds, one panel per algorithm."""
    figure, axes = panels(2, width=5.0)
    for ax, algorithm in zip(axes, ("FedAvg", "MWFed")):
        cells = [c for c in data["cells"] if c["algorithm"] == algorithm]
        for color, c in zip(PALETTE, sorted(cells, key=lambda c: -c["fraction"])):
            ax.plot(c["satisfied_by_round"], color=color, label=f"{c['fraction']:.0%}", lw=1.2)
        ax.set(title=algorithm, xlabel="round", ylabel="satisfied defectors", ylim=(-0.02, 1.02))
        ax.legend(title="keeps", fontsize=8)
    return figure


def _solo(data: dict[str, Any]) -> Figure:
    """Accuracy of parties trained alone: by party with all data, and averaged by share."""
    figure, axes = panels(2, width=5.0)
    whole = [c for c in data["solo"] if c["fraction"] == 1.0]
    for c in whole:
        for party, curve in enumerate(c["accuracy"]):
            axes[0].plot(curve, color=PALETTE[party], label=PARTIES[party])
    for color, c in zip(PALETTE, sorted(data["solo"], key=lambda c: -c["fraction"])):
        label = f"{c['fraction']:.0%} of the data"
        axes[1].plot(np.mean(c["accuracy"], axis=0), color=color, label=label)
    for ax, title in zip(axes, ("alone, all data", "alone, mean over parties")):
        ax.axhline(data["threshold"], color="#444444", ls=":")
        ax.set(title=title, xlabel="step", ylabel="validation accuracy", ylim=(0.48, 0.82))
        ax.legend(loc="lower right")
    return figure


def _search(data: dict[str, Any]) -> Figure:
    """Held-out accuracy of random learning rates, one colour per batch size."""
    found = data["search"]
    lr, batch, accuracy = (np.array(found[name]) for name in ("lr", "batch_size", "accuracy"))
    result = SearchResult(lr, batch, accuracy, int(found["steps"]))
    figure, (ax,) = panels(1, width=6.0)
    result.plot(ax)
    ax.axvline(0.002, color="#444444", ls=":")
    ax.set_title(f"EMNIST, {result.steps} steps from scratch; dotted: the rate we use")
    return figure
