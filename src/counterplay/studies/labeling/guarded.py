"""Nobody worse for any target: GuardedShadow against B2IR, whose promise is one of averages."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.core.seeds import generator
from counterplay.labeling import B2IR, GBS, GuardedShadow, PoolProblem
from counterplay.labeling.algorithm import expected
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

WAYS = {"guarded": "GuardedShadow", "b2ir": "B2IR"}


def _grid(scale: Scale) -> list[Params]:
    return [{"block": b, "pools": 25} for b in range(2 if scale == "quick" else 40)]


def _cell(params: Params, seed: int) -> Record:
    """Random small pools: per target and party, queries alone minus queries together."""
    rng = generator(seed)
    gains: dict[str, Counter[int]] = {way: Counter() for way in WAYS}
    totals = dict.fromkeys(WAYS, 0.0)
    harmed = dict.fromkeys(WAYS, 0)
    for _ in range(int(params["pools"] or 0)):
        problem = _problem(rng)
        alone = np.stack([GBS().cost_matrix(problem, (i,))[:, i] for i in range(problem.k)], axis=1)
        for way, protocol in (("guarded", GuardedShadow(GBS())), ("b2ir", B2IR(GBS()))):
            costs = protocol.cost_matrix(problem)
            gain = np.rint((alone - costs).astype(float)).astype(int)
            gains[way].update(gain.ravel().tolist())
            totals[way] += float(expected(problem, costs).sum())
            harmed[way] += bool((gain < 0).any())
    return {
        **{f"{way}_gains": ",".join(f"{g}:{c}" for g, c in sorted(gains[way].items()))
           for way in WAYS},
        **{f"{way}_total": totals[way] for way in WAYS},
        **{f"{way}_harmed": harmed[way] for way in WAYS},
    }  # fmt: skip


def _problem(rng: np.random.Generator) -> PoolProblem:
    """A small pool of two or three parties with some shared points and skewed weights."""
    k = int(rng.integers(2, 4))
    m = int(rng.integers(k, k + 5))
    n = int(rng.integers(2, min(2**m, 10) + 1))
    owners = rng.integers(0, k, size=m)
    owners[:k] = rng.permutation(k)
    pools = [np.flatnonzero((owners == i) | (rng.random(m) < 0.2)) for i in range(k)]
    labels = rng.integers(0, 2, size=(n, m))
    return PoolProblem.from_labelings(labels, rng.integers(1, 10, size=n).tolist(), pools)


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    pools = int(frame["pools"].sum())
    verdicts = [
        equals("24.22", "Pools in which GuardedShadow costs some party more than alone, for some "
               "target.", int(frame["guarded_harmed"].sum()), 0, what=f"of {pools}"),
        at_most("24.22", "Expected total of GuardedShadow over that of B2IR.",
                float(frame["guarded_total"].sum() / frame["b2ir_total"].sum()), 1.03),
    ]  # fmt: skip
    if pools >= 500:  # about one pool in a hundred
        verdicts.append(
            at_least("24.22", "The same for B2IR, whose promise is one of averages.",
                     int(frame["b2ir_harmed"].sum()), 1, what=f"of {pools}")
        )  # fmt: skip
    return verdicts


def _gains(frame: pd.DataFrame) -> Figure:
    """Queries saved by a party, for every target of random small pools: GuardedShadow never costs
    a party more than alone; B2IR does for some targets (red), though not on average.
    """
    figure, axes = panels(2, width=3.6, height=3.4)
    for ax, (way, name) in zip(axes, WAYS.items()):
        total: Counter[int] = Counter()
        for cell in frame[f"{way}_gains"]:
            total.update({int(g): int(c) for g, c in (p.split(":") for p in cell.split(","))})
        places, counts = np.array(sorted(total)), np.array([total[g] for g in sorted(total)])
        share = 100 * counts / counts.sum()
        colours = [PALETTE[1] if g < 0 else PALETTE[0] for g in places]
        ax.bar(places, share, color=colours)
        for g, value in zip(places, share):
            if g < 0:
                ax.annotate(f"{value:.2g} %", (g, value), ha="right", va="bottom", fontsize=9)
        ax.axvline(-0.5, color="0.4", lw=1)
        ax.set(title=name, xlabel="queries saved", ylabel="targets and parties (%)")
        ax.set(xlim=(-3.6, 6.6), ylim=(0.01, 100), yscale="log")
    return figure


STUDY = Study(
    name="guarded",
    title="Nobody worse for any target",
    question=(
        "B2IR promises every party that it does not lose on average over the targets. For how many "
        "single targets does a party lose nevertheless, and what does it cost to exclude that, as "
        "GuardedShadow does?"
    ),
    claims=("24.22",),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"gains": _gains},
)
