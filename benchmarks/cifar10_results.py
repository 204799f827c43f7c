"""Table, figures and verdicts of the CIFAR-10 experiment, from the file of ``gpu_defection.py``.

Nothing is computed here but means and intervals. Source: Figures 5.2, 5.3 and 5.7, see
docs/theory/05-defection.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gpu_defection import FORMAT, METHODS
from scipy import stats

from counterplay.core.figures import PALETTE, panels
from counterplay.core.stats import mean_interval
from counterplay.errors import InvalidInputError
from counterplay.studies.defection.digits import four_panels
from counterplay.studies.study import Verdict
from counterplay.studies.verdicts import at_least, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAIN = {"fedavg": 0.1, "mw_fed": 0.1, "ada_gd": 0.02, "safe_step": 0.1}
"""Rules of the main figures with their step sizes; ADA-GD stops at once with larger ones."""


def load_results(path: str | Path) -> dict[str, Any]:
    """Read the file that the GPU script wrote."""
    data: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    if data.get("format") != FORMAT:
        raise InvalidInputError(f"{path} was not written by benchmarks/gpu_defection.py")
    return data


def table(data: dict[str, Any]) -> pd.DataFrame:
    """Return one row per cell: means over seeds, with half-widths of 95 % intervals."""
    import pandas as pd

    rows = []
    for cell in data["cells"]:
        row = {name: cell[name] for name in ("eps", "own", "local_steps", "step_size")}
        row = {"rule": METHODS[cell["method"]], **row}
        row["departures"] = float(np.mean(cell["defections"]))
        for name in ("average", "worst", "population", "peak"):
            row[name] = _with_interval(cell[name])
        row["worst loss"] = round(float(np.mean(cell["worst_loss"])), 2)
        row["rounds"] = round(float(np.mean(cell["rounds_used"])))
        rows.append(row)
    return pd.DataFrame(rows)


def _with_interval(values: list[float]) -> str:
    """``mean +- half-width`` in per cent."""
    if len(values) == 1:
        return f"{100 * values[0]:.1f}"
    interval = mean_interval(values)
    return f"{100 * interval.estimate:.1f} ± {100 * (interval.high - interval.estimate):.1f}"


def pick(data: dict[str, Any], **wanted: Any) -> list[dict[str, Any]]:
    """Return the cells with these settings; settings not named are those of the source."""
    base = {"own": 0.9, "local_steps": 5, "step_size": 0.1}
    chosen = {name: value for name, value in (base | wanted).items() if value is not None}
    return [c for c in data["cells"] if all(c[name] == x for name, x in chosen.items())]


def telling_target(data: dict[str, Any]) -> float:
    """Return the strictest target at which FedAvg falls by 10 points, in the source's setting."""
    cells = pick(data, method="fedavg")
    if not cells:
        raise InvalidInputError("the results hold no FedAvg run in the setting of the source")
    falls = {float(c["eps"]): np.mean(c["peak"]) - np.mean(c["average"]) for c in cells}
    return min((eps for eps, fall in falls.items() if fall >= 0.1), default=max(falls))


def verdicts(data: dict[str, Any], eps: float = 1.25) -> list[Verdict]:
    """FedAvg falls from its peak as in the source; SafeStep loses nobody in any cell."""
    (plain,) = pick(data, method="fedavg", eps=eps)
    (safe,) = pick(data, method="safe_step", eps=eps)
    fall = mean_interval(np.array(plain["peak"]) - np.array(plain["average"]))
    gain = mean_interval(np.array(safe["worst"]) - np.array(plain["worst"]))
    runs = [c["defections"] for c in data["cells"] if c["method"] in ("safe_step", "ada_gd")]
    from_to = f"{np.mean(plain['peak']):.3f} to {np.mean(plain['average']):.3f}"
    return [
        at_least("05.24",
                 f"On CIFAR-10 FedAvg falls by at least 10 points from its peak at target {eps:g} "
                 "(the thesis reports about 46 % to 22 %).",
                 fall.low, 0.10, what=f"{from_to}; fall, 95 % from"),
        equals("05.24", "On CIFAR-10 SafeStep and anchored ADA-GD lose nobody.",
               sum(map(sum, runs)), 0.0, what=f"{sum(map(len, runs))} runs, departures"),
        at_least("05.24",
                 "On CIFAR-10 the worst device is at least 30 points better under SafeStep.",
                 gain.low, 0.30, what="gain, 95 % from"),
    ]  # fmt: skip


def figures(data: dict[str, Any]) -> dict[str, Figure]:
    """Return the figures of the experiment, as far as their cells were run."""
    return {
        "timeline": _timeline(data, telling_target(data)),
        "devices": _devices(data),
        "step-sizes": _step_sizes(data),
        "q-by-k": _q_by_k(data),
        "fine-tune": _fine_tune(data),
    }


def _timeline(data: dict[str, Any], eps: float) -> Figure:
    """Accuracy over the rounds; dashed: mean round of the first, second, ... departure."""
    figure, axes = four_panels()
    t = stats.t.ppf(0.975, max(1, data["seeds"] - 1)) / np.sqrt(data["seeds"])
    for ax, (method, step) in zip(axes, MAIN.items()):
        ax.set(title=f"{METHODS[method]}, step {step:g}", ylim=(0, 0.62))
        for cell in pick(data, method=method, eps=eps, step_size=step):
            for i, name in enumerate(("average", "worst", "population")):
                mean, sd = (np.array(cell["curves"][name][k]) for k in ("mean", "sd"))
                rounds = data["every"] * np.arange(len(mean))
                ax.plot(rounds, mean, color=PALETTE[i], label=name)
                ax.fill_between(rounds, mean - t * sd, mean + t * sd, color=PALETTE[i], alpha=0.2)
            left = np.sort(np.array(cell["defect_round"], dtype=float), axis=1)
            for r in left[:, (left >= 0).all(axis=0)].mean(axis=0):
                ax.axvline(r, color="#888888", linestyle="--", linewidth=0.8)
            ax.annotate(f"{np.mean(cell['defections']):.3g} of 10 leave", (15, 0.58), fontsize=9)
    _label(axes, "round", "accuracy")
    axes[-1].legend(loc="lower right")
    return figure


def _label(axes: list[Axes], x: str, y: str) -> None:
    """Label the outer axes of a square of panels."""
    for ax in axes[2:]:
        ax.set_xlabel(x)
    for ax in axes[::2]:
        ax.set_ylabel(y)


def _devices(data: dict[str, Any]) -> Figure:
    """Final accuracy of the worst, average and best device against the target."""
    figure, axes = four_panels()
    for i, (ax, (method, step)) in enumerate(zip(axes, MAIN.items())):
        found = [c for c in pick(data, method=method, step_size=step) if c["eps"] > 0]
        cells = sorted(found, key=lambda c: float(c["eps"]))
        eps = [c["eps"] for c in cells]
        mean = {k: [np.mean(c[k]) for c in cells] for k in ("worst", "average", "best")}
        ax.fill_between(eps, mean["worst"], mean["best"], color=PALETTE[i], alpha=0.25)
        ax.plot(eps, mean["average"], color=PALETTE[i], marker="o")
        for cell in cells:
            count = np.mean(cell["defections"])
            if count:
                ax.annotate(f"{count:.3g}\nleft", (cell["eps"], 0.86), ha="center", fontsize=8)
        ax.set(title=f"{METHODS[method]}, step {step:g}", ylim=(0, 1.0))
    _label(axes, "target loss eps", "worst, average, best accuracy")
    return figure


def _step_sizes(data: dict[str, Any], eps: float = 1.0) -> Figure:
    """Final average accuracy and number of departures against the step size."""
    figure, axes = panels(2, width=5.0, height=3.8)
    for i, method in enumerate(("fedavg", "ada_gd_naive", "ada_gd", "safe_step")):
        cells = pick(data, method=method, eps=eps, step_size=None)
        cells = sorted(cells, key=lambda c: float(c["step_size"]))
        steps = [c["step_size"] for c in cells]
        style: Any = {"color": PALETTE[i], "marker": "osD^"[i], "label": METHODS[method]}
        axes[0].plot(steps, [np.mean(c["average"]) for c in cells], **style)
        axes[1].plot(steps, [np.mean(c["defections"]) for c in cells], **style)
    for ax, label in zip(axes, ("final average accuracy", "agents that leave, of 10")):
        ax.set_xscale("log")
        ax.set(xlabel="step size", ylabel=label)
    axes[0].set_ylim(0, 0.62)
    axes[1].legend()
    return figure


def _q_by_k(data: dict[str, Any], eps: float = 1.25) -> Figure:
    """Final average (solid) and worst-device (dotted) accuracy against the share of own data."""
    steps = sorted({c["local_steps"] for c in data["cells"]})
    figure, axes = panels(len(steps), width=3.8, height=3.6)
    for ax, k in zip(axes, steps):
        for i, method in enumerate(("fedavg", "safe_step")):
            cells = pick(data, method=method, eps=eps, local_steps=k, own=None)
            cells = sorted(cells, key=lambda c: float(c["own"]))
            own = [c["own"] for c in cells]
            style: Any = {"color": PALETTE[i], "marker": "os"[i]}
            average, worst = ([np.mean(c[n]) for c in cells] for n in ("average", "worst"))
            ax.plot(own, average, label=METHODS[method], **style)
            ax.plot(own, worst, linestyle=":", **style)
        ax.set(xlabel="share of own class", title=f"K={k}", ylim=(0, 0.65))
    axes[0].set_ylabel("accuracy: average, worst (dotted)")
    axes[0].legend(loc="lower left")
    return figure


def _fine_tune(data: dict[str, Any]) -> Figure:
    """Average accuracy after all rounds of FedAvg when nobody leaves, against the step size; bars:
    95 % intervals.
    """
    figure, (ax,) = panels(1, width=5.4, height=3.8)
    for i, k in enumerate(sorted({c["local_steps"] for c in data["cells"]})):
        cells = pick(data, method="fedavg", eps=0.0, local_steps=k, step_size=None)
        cells = sorted(cells, key=lambda c: float(c["step_size"]))
        found = [mean_interval(c["average"]) for c in cells]
        centre = np.array([f.estimate for f in found])
        spread = [centre - [f.low for f in found], np.array([f.high for f in found]) - centre]
        ax.errorbar([c["step_size"] for c in cells], centre, yerr=spread, capsize=3,
                    color=PALETTE[i], marker="os^"[i % 3], label=f"K={k}")  # fmt: skip
    ax.set_xscale("log")
    ax.set(xlabel="step size", ylabel="final average accuracy", ylim=(0, 0.62),
           title="FedAvg when nobody leaves")  # fmt: skip
    ax.legend(title="local steps", loc="lower left")
    return figure
