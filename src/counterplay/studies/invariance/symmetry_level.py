"""Worlds made up so that the truth is known: duplicates, planted violations, searches, coins.

Source: docs/theory/22-symmetry.md, "What is exact", "Naturalness" and "Search with error control".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import clopper_pearson
from counterplay.core.validation import FloatArray
from counterplay.studies.invariance.common import integer
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

LEVEL = 0.05
RATES = (0.08, 0.1, 0.3, 0.5, 0.8)
_RUNS = {"own labels twice": 400, "copied labels": 400, "fair coins": 300, "twenty swaps": 200,
         **{f"violation {rate:g}": 60 for rate in RATES}}  # fmt: skip
_BLOCK = 20


def level_grid(scale: Scale) -> Sequence[Params]:
    """Worlds and blocks of runs."""
    if scale == "quick":
        return [{"world": name, "block": 0, "runs": 3} for name in _RUNS]
    return [
        {"world": name, "block": block, "runs": _BLOCK}
        for name, runs in _RUNS.items() for block in range(runs // _BLOCK)
    ]  # fmt: skip


def level_cell(params: Params, seed: int) -> Record:
    """Wrong statements in some runs of one world."""
    name = str(params["world"])
    kinds: dict[str, Callable[..., tuple[float, bool]]] = {
        "own labels twice": partial(_twice, copied=False),
        "copied labels": partial(_twice, copied=True),
        "fair coins": _coins,
        "twenty swaps": _swaps,
    }
    if name not in kinds:
        kinds[name] = partial(_violated, rate=float(name.split()[-1]))
    run = kinds[name]
    found = [run(np.random.default_rng((seed, k))) for k in range(integer(params, "runs"))]
    values = " ".join(f"{value:.6g}" for value, _ in found)
    return {"wrong": sum(int(wrong) for _, wrong in found), "values": values}


def _asked(X: FloatArray, y: Any, group: Any, rng: np.random.Generator, **more: Any) -> Any:
    from counterplay.invariance.label_test import label_test
    from counterplay.invariance.symmetry import read_question

    question = read_question(X, y, group, clusters=more.pop("clusters", None))
    return label_test(question.embed(question.rows), question.y, question.mover(),
                      clusters=question.clusters, rng=rng, **more)  # fmt: skip


def _twice(rng: np.random.Generator, *, copied: bool) -> tuple[float, bool]:
    """Every row twice, labels with noise .3 that are drawn again, or copied."""
    from counterplay.invariance import groups

    n = 150
    X = rng.normal(size=(n, 2))
    y = (X.sum(axis=1) > 0).astype(int) + 2 * (np.abs(X[:, 0] - X[:, 1]) > 1)
    first, second = (np.where(rng.random(n) < 0.3, rng.integers(0, 4, size=n), y) for _ in range(2))
    labels = np.concatenate([first, first if copied else second])
    test = _asked(np.concatenate([X, X]), labels, groups.column_permutations(2), rng,
                  clusters=None if copied else False, n_repeats=1)  # fmt: skip
    return test.p_value, bool(test.p_value <= LEVEL)


def _violated(rng: np.random.Generator, rate: float) -> tuple[float, bool]:
    """A swap that changes labels in bands of a known share; wrong: the safe bound is below it."""
    from counterplay.invariance import groups

    X = rng.normal(size=(500, 2))
    band = np.mod(np.abs(X[:, 0] - X[:, 1]) * 7, 1) < rate
    y = (X.sum(axis=1) > 0).astype(int) ^ (band & (X[:, 0] < X[:, 1]))
    safe = _asked(X, y, groups.column_permutations(2), rng).safe(LEVEL)
    return safe, bool(safe < rate)


def _coins(rng: np.random.Generator) -> tuple[float, bool]:
    """A sample that is exactly symmetric under a change of all signs; 500 held-out pairs."""
    from counterplay.invariance.naturalness import naturalness

    X = rng.normal((1.0, 0.5), 1.0, size=(1000, 2)) * rng.choice([-1.0, 1.0], size=(1000, 1))
    found = naturalness(X, lambda pick, _: (-X[pick], None), rng)
    assert found is not None
    p = float(found.p_value or 0.0)
    return p, p <= LEVEL


def _swaps(rng: np.random.Generator) -> tuple[float, bool]:
    """A search over twenty swaps of columns of pure noise; wrong: some is called violated."""
    from counterplay.invariance import groups
    from counterplay.invariance.discovery import judge

    X, y = rng.normal(size=(200, 7)), rng.integers(0, 2, size=200)
    pairs = [(a, b) for a in range(7) for b in range(a)][:20]
    swaps = [groups.column_permutations(7, blocks=[[a], [b]]) for a, b in pairs]
    tests = [_asked(X, y, swap, stream) for swap, stream in zip(swaps, rng.spawn(20))]
    verdicts, adjusted = judge(tests, LEVEL, LEVEL)
    return min(adjusted), "violated" in verdicts


def level_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Levels with three standard errors, the safe bound, uniform p-values."""
    from scipy import stats

    sums = frame.groupby("world", sort=False)[["wrong", "runs"]].sum()
    out = []
    for name, claim in (("own labels twice", "22.07"), ("copied labels", "22.07"),
                        ("twenty swaps", "22.10")):  # fmt: skip
        wrong, runs = sums.loc[name]
        limit = LEVEL + 3 * np.sqrt(LEVEL * (1 - LEVEL) / runs)
        out.append(at_most(claim, f"{name}: rejected at most at the level.", wrong / runs, limit))
    for rate in RATES:
        name = f"violation {rate:g}"
        wrong, runs = sums.loc[name]
        held = _values(frame, name).min() < LEVEL
        out.append(Verdict("22.07", f"{name}: the safe bound covers it, and it is never called "
                           "holding.", f"{1 - wrong / runs:.3f}", ">= .95",
                           bool(wrong / runs <= 0.05 and not held)))  # fmt: skip
    p = float(stats.kstest(_values(frame, "fair coins"), "uniform").pvalue)
    out.append(Verdict("22.08", "Naturalness: p-values of symmetric samples are uniform.",
                       f"Kolmogorov-Smirnov p = {p:.3f}", "> .001", p > 0.001))  # fmt: skip
    return out


def _values(frame: pd.DataFrame, name: str) -> FloatArray:
    mine = frame[frame["world"] == name]["values"]
    return np.array([float(value) for text in mine for value in text.split()])


def level_figure(frame: pd.DataFrame) -> Figure:
    """Left: p-values of worlds in which nothing is violated, sorted (dashed: uniform; above it the
    test is conservative). Right: the safe bound against the violation rate that was planted.
    """
    figure, axes = panels(2, width=5.0, height=4.0)
    for name, colour in zip(("own labels twice", "copied labels", "fair coins"), PALETTE):
        values = np.sort(_values(frame, name))
        axes[0].plot((np.arange(len(values)) + 0.5) / len(values), values, color=colour, label=name)
    axes[0].plot([0, 1], [0, 1], **THEORY)
    axes[0].set(xlabel="share of runs", ylabel="p-value")
    axes[0].legend(fontsize=8)
    for rate in RATES:
        values = _values(frame, f"violation {rate:g}")
        axes[1].plot(np.full(len(values), rate), values, ".", color=PALETTE[0], alpha=0.4)
    axes[1].plot([0, 1], [0, 1], **THEORY)
    axes[1].set(xlabel="violation rate", ylabel="safe upper bound", ylim=(0, 1.02))
    rates = frame.groupby("world")[["wrong", "runs"]].sum().loc["twenty swaps"]
    interval = clopper_pearson(int(rates["wrong"]), int(rates["runs"]))
    axes[1].set_title(f"searches with a wrong \"violated\": {interval.estimate:.3f} "
                      f"[{interval.low:.3f}, {interval.high:.3f}]", fontsize=9)  # fmt: skip
    return figure


LEVELS = Study(
    name="symmetry-level",
    title="Statements about symmetries in worlds with a known truth",
    question="Are wrong statements as rare as promised: duplicates, violations, searches, coins?",
    claims=("22.07", "22.08", "22.10"),
    grid=level_grid,
    cell=level_cell,
    verdicts=level_verdicts,
    figures={"symmetry-level": level_figure},
    version=1,
)
