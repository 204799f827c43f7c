"""A recommender that sees one click per visit and wants the whole liked set.

Sixty items with Zipf popularity, 40 groups of people that visit unequally often and like one to
six items each; one click in twenty is an accident.

Source: Proposition 3.F, "Algorithms", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from counterplay.core.figures import PALETTE, panels
from counterplay.core.stats import mean_interval
from counterplay.core.validation import IntArray
from counterplay.strategic.lab import NeighborhoodLearner
from counterplay.studies.strategic.graphs.common import errorbars, whole
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_ITEMS, _PEOPLE, _K, _ACCIDENTS = 60, 40, 6, 0.05
_VISITS = (200, 500, 1000, 2000, 5000, 10000)
_METHODS = {
    "proxy": "proxy loss (agnostic)",
    "every": "every clicked item (consistent only)",
    "popular": "most popular items",
}


def market(rng: np.random.Generator) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Liked sets as a table (people, items), and how often each group of people visits."""
    popularity = 1 / np.arange(1, _ITEMS + 1) ** 0.8
    liked = np.zeros((_PEOPLE, _ITEMS), dtype=np.bool_)
    for person in range(_PEOPLE):
        size = int(rng.integers(1, _K + 1))
        chosen = rng.choice(_ITEMS, size, replace=False, p=popularity / popularity.sum())
        liked[person, chosen] = True
    visits = 1 / np.arange(1, _PEOPLE + 1) ** 0.5
    return liked, visits / visits.sum()


def visit(
    liked: NDArray[np.bool_], often: NDArray[np.float64], T: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Who came and what they clicked on: a random liked item, or by accident any item."""
    who = rng.choice(_PEOPLE, size=T, p=often)
    clicks = np.where(liked[who], rng.random((T, _ITEMS)), -1).argmax(axis=1)
    accident = rng.random(T) < _ACCIDENTS
    clicks[accident] = rng.integers(_ITEMS, size=int(accident.sum()))
    return who.astype(np.int64), clicks.astype(np.int64)


def _grid(scale: Scale) -> list[Params]:
    return [{"replicate": i} for i in range(20 if scale == "quick" else 100)]


def _cell(params: Params, seed: int) -> Record:
    rng = np.random.default_rng(seed + whole(params, "replicate"))
    liked, often = market(rng)
    who, clicks = visit(liked, often, _VISITS[-1], rng)
    record: dict[str, float] = {}
    for T in _VISITS:
        model = NeighborhoodLearner(k=_K).fit(who[:T], clicks[:T])
        said = {"proxy": np.zeros_like(liked), "every": np.zeros_like(liked)}
        known = np.unique(who[:T])
        said["proxy"][np.ix_(known, model.classes_)] = model.predict(known) == 1
        said["every"][who[:T], clicks[:T]] = True
        counts = np.bincount(clicks[:T], minlength=_ITEMS)
        said["popular"] = np.tile(counts.argsort().argsort() >= _ITEMS - 4, (_PEOPLE, 1))
        for name, table in said.items():
            wrong = (table != liked).any(axis=1)
            both, size = (table & liked).sum(axis=1), table.sum(axis=1) + liked.sum(axis=1)
            record[f"{name}{T}"] = float(often @ wrong)
            record[f"f1_{name}{T}"] = float(often @ (2 * both / size))
    return record


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    last = _VISITS[-1]
    proxy, every = frame[f"proxy{last}"], frame[f"every{last}"]
    return [
        at_most(
            "03.26",
            f"After {last} visits the sets of least proxy loss are mostly exactly right.",
            mean_interval(proxy).high,
            0.1,
            what=f"wrong for {mean_interval(proxy)} of the visitors, at most",
        ),
        at_least(
            "03.26",
            "Recommending every clicked item gets worse with more visits.",
            mean_interval(every).low,
            0.8,
            what=f"wrong for {mean_interval(every)} of the visitors, at least",
        ),
    ]


def _figure(frame: pd.DataFrame) -> Figure:
    """Left: share of visitors whose set is not exactly right, against the number of visits seen.
    Right: overlap of recommended and liked items (F1). One click per visit, 5 % of them accidents;
    mean and 95 % interval over simulated markets.
    """
    figure, axes = panels(2)
    for ax, prefix in zip(axes, ("", "f1_")):
        for (name, label), color, marker in zip(_METHODS.items(), PALETTE, "os^"):
            groups = [frame[f"{prefix}{name}{T}"] for T in _VISITS]
            errorbars(ax, _VISITS, groups, color, label, marker)
            ax.plot(_VISITS, [float(g.mean()) for g in groups], color=color, lw=1)
        ax.set(xscale="log", xlabel="visits (one click each)", ylim=(-0.03, 1.08))
        ax.set_xticks(_VISITS, [str(v) for v in _VISITS], fontsize=8)
        ax.minorticks_off()
    axes[0].set(ylabel="share of visitors with a wrong set", title="Exact sets")
    axes[1].set(ylabel="F1 of recommended against liked items", title="Overlap")
    axes[1].legend(fontsize=8, loc="lower left", bbox_to_anchor=(0.02, 0.36))
    return figure


CLICKS = Study(
    name="graph-clicks",
    title="Whole liked sets from one click per visit",
    question=(
        "A recommender never sees a whole liked set, only one click at a time, some by accident. "
        "Does it learn the sets, and what happens to the obvious rules?"
    ),
    claims=("03.26",),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"clicks": _figure},
)
