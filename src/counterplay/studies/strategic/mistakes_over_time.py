"""How fast MWMR can be made to err: the exact worst case between the bounds.

Source: Theorem 2.4, Theorem 2.3, "Results", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.strategic import MWMR, bounds, instances, play
from counterplay.strategic.lab import SequentialElimination, mwmr_worst_mistakes
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CHECKPOINTS = 24
DELTA = 0.05


def _times(n: int) -> list[int]:
    return sorted({round(t) for t in np.geomspace(1, n * n, _CHECKPOINTS)})


def _grid(scale: Scale) -> list[Params]:
    runs = {16: 30, 64: 4} if scale == "quick" else {16: 200, 64: 60}
    cells: list[Params] = [
        {"kind": "mwmr", "n": n, "replicate": i} for n, count in runs.items() for i in range(count)
    ]
    orders = 20 if scale == "quick" else 100
    for kind in ("fixed", "lazy"):
        cells += [{"kind": kind, "n": 16, "replicate": i} for i in range(orders)]
    return cells


def _cell(params: Params, seed: int) -> Record:
    n, kind = int(params["n"] or 0), params["kind"]
    instance = instances.online_lb_instance(n)
    record: dict[str, float | int] = {f"m{k}": -1 for k in range(_CHECKPOINTS)}
    record["batch"] = -1
    if kind == "mwmr":
        learner = MWMR(instance.hypotheses, random_state=seed)
        game = play(learner, instance.adversary(mode="fixed", target=n - 1), rounds=n * n)
        for k, t in enumerate(_times(n)):
            record[f"m{k}"] = int((game.mistake_rounds < t).sum())
        return record
    # Ten independent secret orders per cell, counted in one number per value.
    counts = np.zeros(n, dtype=int)
    rng = np.random.default_rng(seed)
    for _ in range(10):
        order = SequentialElimination(instance.hypotheses, order="random", random_state=rng)
        target = int(rng.integers(n))
        adversary = (
            instance.adversary(mode="lazy")
            if kind == "lazy"
            else instance.adversary(mode="fixed", target=target)
        )
        counts[play(order, adversary, rounds=n).mistakes] += 1
    for k, count in enumerate(counts):
        record[f"m{k}"] = int(count)
    record["batch"] = 10
    return record


def _mean_curve(frame: pd.DataFrame, n: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    part = frame[(frame["kind"] == "mwmr") & (frame["n"] == n)]
    columns = [f"m{k}" for k in range(len(_times(n)))]
    return np.asarray(part[columns], dtype=np.float64)


def _counts(frame: pd.DataFrame, kind: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    columns = [f"m{k}" for k in range(16)]
    total: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = (
        frame.loc[frame["kind"] == kind, columns].to_numpy(dtype=np.float64).sum(axis=0)
    )
    return total


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    verdicts = []
    for n in (16, 64):
        runs = _mean_curve(frame, n)
        worst = mwmr_worst_mistakes(n, n * n)[_times(n)]
        error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
        error = np.maximum(error, 1 / len(runs))  # all runs may agree by chance
        excess = float((runs.mean(axis=0) - 4 * error - worst).max())
        refined = [bounds.mwmr_mistakes(n, t, "refined") for t in _times(n)]
        verdicts.append(
            Verdict(
                "02.11",
                f"n = {n}: mean mistakes are below the exact worst case, and that is below "
                "sqrt(2 T ln n), at every time.",
                f"largest excess {excess:.2g}; worst case / bound at most "
                f"{float((worst / np.maximum(refined, 1e-9)).max()):.3f}",
                "<= 0 (4 standard errors); <= 1",
                excess <= 0 and bool((worst <= np.asarray(refined) + 1e-9).all()),
            )
        )
    fixed, lazy = _counts(frame, "fixed"), _counts(frame, "lazy")
    p = float(stats.chisquare(fixed).pvalue)
    verdicts.append(
        Verdict(
            "02.09",
            "A secret random order against a target fixed in advance: mistakes uniform on 0..15.",
            f"chi-square p = {p:.3f}, mean {fixed @ np.arange(16) / fixed.sum():.2f}",
            f"p > 0.001, mean {bounds.random_order_mistakes(16):g}",
            p > 0.001,
        )
    )
    verdicts.append(
        Verdict(
            "02.07",
            "The same learner against a target fixed last: always 15 mistakes.",
            f"{int(lazy[15])} of {int(lazy.sum())} games",
            "all",
            bool(lazy[15] == lazy.sum()),
        )
    )
    return verdicts


def _draw_curves(ax: Axes, frame: pd.DataFrame, n: int) -> None:
    times = np.array(_times(n))
    runs = _mean_curve(frame, n)
    low, high = np.quantile(runs, [0.05, 0.95], axis=0)
    ax.fill_between(times, low, high, color=PALETTE[0], alpha=0.2, linewidth=0)
    ax.plot(times, runs.mean(axis=0), "o", color=PALETTE[0], markersize=4, label="MWMR, mean")
    t = np.arange(1, n * n + 1)
    ax.plot(t, mwmr_worst_mistakes(n, n * n)[1:], color=PALETTE[1], label="exact worst case")
    ax.plot(t, [bounds.mwmr_mistakes(n, int(s)) for s in t], label="sqrt(4 T ln n)", **THEORY)
    refined = [bounds.mwmr_mistakes(n, int(s), "refined") for s in t]
    ax.plot(t, refined, label="sqrt(2 T ln n)", **{**THEORY, "linestyle": ":"})
    lower = [bounds.online_lower_bound(n, int(s), DELTA) for s in t]
    ax.plot(t, lower, label="lower bound", **{**THEORY, "linestyle": "-."})
    ax.axvline(bounds.lazy_adversary_rounds(n), color="#999999", linewidth=1)
    ax.set(
        xscale="log",
        xlabel="rounds T",
        ylabel="mistakes",
        title=f"n = {n} rules, perfect rule last",
    )
    ax.legend(fontsize=8)


def _curves(frame: pd.DataFrame) -> Figure:
    """Mistakes of MWMR over time against the adversary of the lower bound (mean and 90 % band),
    the exact worst case over all adversaries, and the bounds of theory. The grey line marks
    n(n+1)/2 - 1, when the last wrong rule falls on average.
    """
    figure, axes = panels(2)
    for ax, n in zip(axes, (16, 64)):
        _draw_curves(ax, frame, n)
    return figure


def _histogram(frame: pd.DataFrame) -> Figure:
    """Number of mistakes of a learner with a secret random order, 16 rules: uniform when the
    perfect rule is fixed in advance, always 15 when the adversary fixes it last.
    """
    figure, (ax,) = panels(1)
    fixed, lazy = _counts(frame, "fixed"), _counts(frame, "lazy")
    x = np.arange(16)
    ax.bar(x - 0.2, fixed / fixed.sum(), 0.4, color=PALETTE[0], label="target fixed in advance")
    ax.bar(x + 0.2, lazy / lazy.sum(), 0.4, color=PALETTE[1], label="target fixed last")
    ax.axhline(1 / 16, label="uniform", **THEORY)
    ax.set(
        yscale="log",
        xlabel="mistakes",
        ylabel="share of games",
        title="When the target is fixed matters",
        ylim=(0.01, 1.5),
    )
    ax.legend()
    return figure


MISTAKES_OVER_TIME = Study(
    name="mistakes-over-time",
    title="Mistakes over time when features are seen afterwards",
    question=(
        "How fast can an adversary make MWMR err? The exact worst case lies below "
        "sqrt(2 T ln n), and the adversary of the lower bound comes close to it. A secret random "
        "order is better if the target is fixed in advance, and no better if it is not."
    ),
    claims=("02.07", "02.09", "02.11"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"mistakes": _curves, "orders": _histogram},
)
