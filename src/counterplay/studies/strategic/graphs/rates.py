"""The table of rates, measured: how samples, mistakes and regret grow in every setting.

Theory lists rates per setting; here each is the slope of a log-log line through costs that were
measured on the instance of the lower bound.

Source: "Measured", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.core.finite_class import FiniteClass
from counterplay.strategic import ManipulationGraph, instances, play
from counterplay.strategic.lab import (
    SOA,
    FiniteERM,
    Halving,
    Red2OnlineFI,
    Red2OnlinePMF,
    UnknownGraphOnline,
)
from counterplay.studies.strategic.graphs.common import whole
from counterplay.studies.strategic.graphs.noise import noise_cell
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_EPS = 0.1  # error aimed at in the batch settings
_SAMPLED_EPS = 0.05
_RUNS = 150


def _labels(k: int, d: int, rng: np.random.Generator) -> float:
    """Labels until strategic ERM has error eps, from how fast its error falls in many runs."""
    instance = instances.binary_code_instance(k, d)
    centres = np.array(instance.expected["centres"])
    codes = instance.graph.induced(instance.hypotheses.labels)[:, centres]
    rules, T = FiniteClass.from_matrix(codes), centres.size
    still = ManipulationGraph.from_lists([[] for _ in centres])
    targets = codes[rng.integers(len(codes), size=_RUNS)]
    draws = rng.integers(0, T, size=(_RUNS, T))
    fit = FiniteERM(rules).fit
    best = [fit(x, t[x], graph=still).member_ for x, t in zip(draws, targets)]
    error = float((codes[best] != targets).mean())
    return T * math.log(0.5 / _EPS) / math.log(0.5 / error)


def _samples_until_safe(n: int, rng: np.random.Generator) -> float:
    """Samples until the adversary can no longer give a rule loss eps on an unknown graph."""
    groups = instances.sampled_groups(n, _SAMPLED_EPS)
    x, _, _ = groups.sample(int(6 * n / _SAMPLED_EPS), rng)
    nobody = np.zeros(groups.graphs.n, dtype=np.bool_)
    low, high = 0, x.size
    while low + 1 < high:  # more samples never help the adversary
        middle = (low + high) // 2
        if groups.worst_case(nobody, x[:middle])[2] >= _SAMPLED_EPS:
            low = middle
        else:
            high = middle
    return float(high)


def _known_online(k: int, d: int) -> float:
    code = instances.binary_code_instance(k, d)
    learner = Red2OnlineFI(SOA(code.hypotheses))
    return float(play(learner, code.adversary()).mistakes)


def _hidden_online(k: int, d: int) -> float:
    star = instances.star_singletons(k, d)
    learner = Red2OnlinePMF(SOA(star.hypotheses), k)
    return float(play(learner, star.adversary()).mistakes)


def _unknown_online(n: int) -> float:
    groups = instances.group_singletons(n)
    assert groups.graphs is not None
    learner = UnknownGraphOnline(Halving(groups.hypotheses), groups.graphs)
    return float(play(learner, groups.adversary()).mistakes)


def _unknown_afterwards(n: int) -> float:
    path = instances.path_AB_C(n)
    learner = Red2OnlinePMF(SOA(path.hypotheses), n + 1)
    return float(play(learner, path.adversary()).mistakes)


def _per_loglog(n: int) -> float:
    bits = n * math.log2(n + 1)
    return bits / math.log2(bits)


def _harmonic(n: int) -> float:
    """Expected samples until more than half of n blocks were seen, up to the factor 1/(2 eps)."""
    return n * math.fsum(1 / (n - i) for i in range(n // 2 + 1))


def _slope_of(driver: Callable[[int], float], cost: Callable[[int], float], *sizes: int) -> float:
    """Exponent that theory predicts between the given sizes."""
    x, y = np.log([driver(s) for s in sizes]), np.log([cost(s) for s in sizes])
    return float(np.polyfit(x, y, 1)[0])


@dataclass(frozen=True)
class _Setting:
    """One row of the table: what grows with what, the exponent theory gives at these sizes."""

    cost: str
    driver_name: str
    expected: float
    tolerance: float
    sizes: tuple[tuple[int, int], ...]
    driver: Callable[[int, int], float]

    @property
    def holds_as(self) -> str:
        if self.tolerance < 0.01:
            return f"{self.expected:g}"
        return f"{self.expected:.2f} +- {self.tolerance:g}"


def _first(k: int, d: int) -> float:
    return float(k)


def _second(k: int, d: int) -> float:
    return float(d)


_ONE = tuple((size, 1) for size in (4, 8, 16, 32))
_SETTINGS = {
    "known, batch": _Setting(
        "labels", "d log k", _slope_of(float, lambda s: -1 / math.log1p(-1 / s), 4, 6, 8, 12),
        0.15, ((16, 1), (64, 1), (16, 2), (64, 2)), lambda k, d: d * math.log2(k),
    ),
    "known, online": _Setting("mistakes", "log k", 1, 1e-9, _ONE, lambda k, d: math.log2(k)),
    "known, online, d": _Setting("mistakes", "d", 1, 1e-9, ((4, 1), (4, 2), (4, 3)), _second),
    "hidden, online": _Setting("mistakes", "k", 1, 1e-9, _ONE, _first),
    "hidden, online, d": _Setting("mistakes", "d", 1, 1e-9, ((3, 1), (3, 2), (3, 3)), _second),
    "unknown, batch": _Setting(
        "samples", "log|G| / loglog|G|", _slope_of(_per_loglog, _harmonic, 8, 16, 32), 0.2,
        ((8, 1), (16, 1), (32, 1)), lambda n, d: _per_loglog(n),
    ),
    "unknown, online": _Setting(
        "mistakes", "log|G| / loglog|G|", _slope_of(_per_loglog, float, 4, 8, 16, 32), 1e-9, _ONE,
        lambda n, d: _per_loglog(n),
    ),
    "unknown, seen afterwards": _Setting("mistakes", "|G|", 1, 1e-9, _ONE, _first),
    "known, noise": _Setting(
        "regret", "T", 0.5, 0.5, ((50, 1), (100, 1), (200, 1)), _first,
    ),
}  # fmt: skip
_RANDOM = {"known, batch": (8, 30), "unknown, batch": (20, 100), "known, noise": (10, 100)}


def _grid(scale: Scale) -> list[Params]:
    cells: list[Params] = []
    for setting, row in _SETTINGS.items():
        runs = _RANDOM.get(setting, (1, 1))[scale == "full"]
        cells += [
            {"setting": setting, "size": size, "d": d, "replicate": i}
            for size, d in row.sizes
            for i in range(runs)
        ]
    return cells


def _cell(params: Params, seed: int) -> Record:
    setting, size, d = str(params["setting"]), whole(params, "size"), whole(params, "d")
    rng = np.random.default_rng(seed)
    if setting == "known, batch":
        cost = _labels(size, d, rng)
    elif setting.startswith("known, online"):
        cost = _known_online(size, d)
    elif setting.startswith("hidden, online"):
        cost = _hidden_online(size, d)
    elif setting == "unknown, batch":
        cost = _samples_until_safe(size, rng)
    elif setting == "unknown, online":
        cost = _unknown_online(size)
    elif setting == "unknown, seen afterwards":
        cost = _unknown_afterwards(size)
    else:
        cost = float(noise_cell({"T": size}, seed)["cover"] or 0.0)
    return {"cost": cost, "driver": _SETTINGS[setting].driver(size, d)}


def _name(setting: str) -> str:
    return setting.removesuffix(", d")


def _slope(part: pd.DataFrame) -> float:
    means = part.groupby("driver")["cost"].mean()
    x, y = np.log(means.index.to_numpy(dtype=float)), np.log(means.to_numpy(dtype=float))
    return float(np.polyfit(x, y, 1)[0])


def _slopes(frame: pd.DataFrame) -> dict[str, tuple[float, float, float]]:
    """Exponent and a 95 % interval from resampling replicates, per setting."""
    rng = np.random.default_rng(0)
    result = {}
    for setting in _SETTINGS:
        part = frame[frame["setting"] == setting]
        centre = _slope(part)
        ends = (centre, centre)
        if setting in _RANDOM:
            draws = [
                _slope(part.groupby("driver").sample(frac=1, replace=True, random_state=int(seed)))
                for seed in rng.integers(2**31, size=100)
            ]
            ends = (float(np.quantile(draws, 0.025)), float(np.quantile(draws, 0.975)))
        result[setting] = (centre, *ends)
    return result


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    rows = []
    for setting, (value, low, high) in _slopes(frame).items():
        row = _SETTINGS[setting]
        interval = f" ({low:.2f} to {high:.2f})" if high > low else ""
        sublinear = row.cost == "regret"
        rows.append(
            Verdict(
                "03.27",
                f"{_name(setting).capitalize()}: {row.cost} grow as a power of {row.driver_name}.",
                f"exponent {value:.2f}{interval}",
                "< 1 (sublinear)" if sublinear else row.holds_as,
                high < 1 if sublinear else abs(value - row.expected) <= row.tolerance,
            )
        )
    return rows


def _figure(frame: pd.DataFrame) -> Figure:
    """Measured exponents of the costs in every setting, with 95 % intervals where they are
    simulated; the grey ticks are what theory says at these sizes.
    """
    figure, (ax,) = panels(1, width=8.0, height=4.4)
    slopes = _slopes(frame)
    for row, (setting, (value, low, high)) in enumerate(slopes.items()):
        ax.plot([_SETTINGS[setting].expected], [row], "|", color="#777777", ms=22, mew=3)
        bars = np.array([[max(0.0, value - low)], [max(0.0, high - value)]])
        ax.errorbar([value], [row], xerr=bars, fmt="o", color=PALETTE[0], capsize=3)
    names = [
        f"{_name(setting)}: {_SETTINGS[setting].cost} in {_SETTINGS[setting].driver_name}"
        for setting in slopes
    ]
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set(xlabel="exponent (slope of the log-log line)", xlim=(0, 1.5),
           title="How fast costs grow, measured")  # fmt: skip
    return figure


RATES = Study(
    name="graph-rates",
    title="The table of rates, measured",
    question=(
        "How do labels, mistakes and regret grow with the number of moves, the dimension, the "
        "number of graphs and time? One exponent per setting, on the hardest known instances."
    ),
    claims=("03.27",),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"rates": _figure},
)
