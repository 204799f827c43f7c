"""The search over boxes against enumeration of all cells, on many random small ensembles.

Whole, continuous and one-sided columns, native categories, one-hot pipelines, missing entries that
are kept, filled or hidden, and links; prices that add up, as a norm, or by the dearest part.

Source: "Tree ensembles", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.validation import FloatArray, IntArray
from counterplay.strategic import Change, Moves, NotAbove, Switch
from counterplay.strategic.cell_prices import CellPrices, price_cells
from counterplay.strategic.fold import Asked
from counterplay.strategic.move_solvers import TreeSolver, solver_of
from counterplay.strategic.tree_cells import Cells
from counterplay.strategic.tree_search import best_scores, measured_search
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMBINES = ("sum", "euclid", "max")
CAPS = np.array([0.4, 1.5])  # before the root
KINDS = ("forest", "boosted trees", "categories and missing", "one-hot", "link")


def _grid(scale: Scale) -> list[Params]:
    count, people = (1, 3) if scale == "quick" else (12, 6)
    return [
        {"kind": kind, "replicate": i, "people": people} for kind in KINDS for i in range(count)
    ]


@dataclass(frozen=True, eq=False)
class Case:
    """A fitted ensemble of eight trees, its rejected people and what they can do."""

    model: Any
    X: pd.DataFrame
    columns: dict[str, Any]
    links: tuple[Any, ...]

    def solver(self, combine: Any, people: int) -> tuple[TreeSolver, CellPrices]:
        """Return the search for the first rejected people, and their prices."""
        moves = Moves(self.columns, reference=self.X, combine=combine, links=self.links)
        rejected = self.X[self.model.predict(self.X) == 0].iloc[:people]
        solver = solver_of(Asked(self.model, rejected, 1), moves)
        assert isinstance(solver, TreeSolver)
        return solver, price_cells(solver.cells, np.arange(len(rejected)), moves.power)


def random_case(kind: str, seed: int) -> Case:
    """Return eight trees on two to four numbers, with what the kind adds."""
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(2, 5 if kind in KINDS[:2] else 4)), 120
    X = pd.DataFrame(rng.normal(size=(n, d)).round(2), columns=list("abcd")[:d])
    X["a"] = rng.integers(0, 6, n).astype(float)
    y = (X.sum(axis=1) + X["a"] * X["b"] + rng.normal(size=n) > 2).astype(int)
    ways: list[Any] = ["up", "down", "both"]
    columns: dict[str, Any] = {
        name: Change(ways[rng.integers(3)], rng.uniform(0.3, 2), per="unit") for name in X
    }
    columns["a"] = Change(ways[rng.integers(3)], rng.uniform(0.3, 2), step=1, per="unit")
    links: tuple[Any, ...] = ()
    model: Any = RandomForestClassifier(8, max_depth=3, random_state=seed)
    if kind == "boosted trees":
        model = GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=seed)
    elif kind == "categories and missing":
        model = HistGradientBoostingClassifier(max_iter=8, max_depth=3, early_stopping=False)
        X.loc[::6, "b"] = np.nan
        X["k"] = pd.Categorical(rng.choice(["u", "v", "w"], n))
        fill: Any = "keep" if seed % 2 else 0.5
        columns["b"] = Change("both", 0.8, per="unit", missing=fill, hide=1.1)
    elif kind == "one-hot":
        X["k"] = rng.choice(["u", "v", "w"], n)
        numbers = [name for name in X if name != "k"]
        encode = make_column_transformer((OneHotEncoder(), ["k"]), ("passthrough", numbers))
        model = make_pipeline(encode, GradientBoostingClassifier(n_estimators=8, max_depth=3))
    elif kind == "link":
        X["l"] = np.minimum(rng.integers(0, 6, n), X["a"])
        y = (y ^ (X["l"] > 2)).astype(int)
        columns["l"] = Change("both", 0.9, step=1, per="unit", low=0)
        columns["a"] = Change("both", 0.7, step=1, per="unit", low=0)
        links = (NotAbove("l", "a"),)
    if "k" in X:
        y = (y ^ ((X["k"] == "u") & (X["a"] > 3))).astype(int)
        columns["k"] = Switch({("u", "v"): 0.7, ("w", "u"): 0.4})
    return Case(model.fit(X, y), X, columns, links)


def all_points(
    cells: Cells, prices: CellPrices, i: int, power: float
) -> tuple[IntArray, FloatArray]:
    """Return every combination of open cells of one person and its price before the root."""
    options = []
    for g in range(len(cells.blocks)):
        part = slice(int(cells.offset[g]), int(cells.offset[g + 1]))
        mine = [(k, p) for k, p in enumerate(prices.price[i, part]) if np.isfinite(p)]
        if cells.ordered[g] and np.isfinite(prices.missing[i, g]):
            mine.append((-1, prices.missing[i, g]))
        options.append(np.array(mine))
    places = np.indices([len(mine) for mine in options]).reshape(len(options), -1)
    points = np.column_stack([mine[at, 0] for mine, at in zip(options, places)]).astype(np.int64)
    price = np.column_stack([mine[at, 1] for mine, at in zip(options, places)])
    return points, price.max(axis=1) if np.isinf(power) else price.sum(axis=1)


def scores_of(cells: Cells, points: IntArray) -> FloatArray:
    """Return the sum of leaves of points, by the boxes of the leaves: exactly one per tree."""
    forest = cells.forest
    total = np.full(len(points), forest.start)
    held = np.zeros((len(points), forest.tree_start.size - 1))
    for leaf in range(forest.leaf_value.size):
        inside = np.ones(len(points), dtype=bool)
        for e in range(forest.leaf_start[leaf], forest.leaf_start[leaf + 1]):
            z = points[:, forest.entry_block[e]]
            if forest.ordered[forest.entry_block[e]]:
                here = (z >= forest.entry_low[e]) & (z <= forest.entry_high[e])
                inside &= np.where(z < 0, forest.entry_missing[e], here)
            else:
                inside &= forest.entry_masks[forest.entry_mask[e], z] == 1
        held[inside, forest.leaf_tree[leaf]] += 1
        total[inside] += forest.leaf_value[leaf]
    if not (held == 1).all():
        raise AssertionError("a point lies in no leaf of a tree, or in two")
    return total


def compared(case: Case, combine: str, people: int) -> dict[str, float]:
    """Return how many people were compared, how many answers differ, and the effort of both."""
    solver, prices = case.solver(combine, people)
    cells, power, target = solver.cells, solver.moves.power, solver.target
    low, high, _, effort = measured_search(cells, prices, cells.own, target, np.inf, power, 10**6)
    found, bound, _ = best_scores(cells, prices, cells.own, CAPS, power, 10**6)
    wrong, size = 0, 0
    for i in range(len(low)):
        points, price = all_points(cells, prices, i, power)
        scores = scores_of(cells, points)
        size += len(points)
        best = price[scores >= target].min(initial=np.inf)
        same = low[i] == high[i] and (high[i] == best or abs(high[i] - best) <= 1e-12 * (1 + best))
        top = np.array([scores[price <= cap].max() for cap in CAPS])
        same &= bool((found[i] == bound[i]).all() and np.allclose(found[i], top, rtol=1e-9))
        wrong += not same
    return {"cases": len(low), "differ": wrong, "points": size, "boxes": float(effort[:, 0].sum())}


def _cell(params: Params, seed: int) -> Record:
    case = random_case(str(params["kind"]), int(params["replicate"] or 0))
    parts = [compared(case, combine, int(params["people"] or 0)) for combine in COMBINES]
    return {name: float(sum(part[name] for part in parts)) for name in parts[0]}


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    cases, differ = int(frame["cases"].sum()), int(frame["differ"].sum())
    said = f"{differ} of {cases} cases differ"
    return [
        Verdict("20.04", "Cheapest prices of the search equal enumeration of all cells.", said, "0",
                differ == 0),
        Verdict("20.19", "Best scores within a budget equal enumeration of all cells.", said, "0",
                differ == 0),
    ]  # fmt: skip


def _figure(frame: pd.DataFrame) -> Figure:
    """Boxes that the search opens against all combinations of cells, one dot per ensemble; on the
    dashed line it would look at everything. No box at all is drawn as one half.
    """
    figure, (ax,) = panels(1, width=6.0)
    for color, kind in zip(PALETTE, KINDS):
        part = frame[frame["kind"] == kind]
        boxes = np.maximum(part["boxes"].to_numpy(dtype=float), 0.5)
        ax.plot(part["points"], boxes, "o", color=color, alpha=0.7, label=kind)
    ends = [float(frame["points"].min()), float(frame["points"].max())]
    ax.plot(ends, ends, **THEORY, label="enumeration")
    ax.set(xscale="log", yscale="log", xlabel="combinations of cells", ylabel="boxes opened")
    ax.legend(fontsize=8)
    return figure


MOVES_ENUMERATION = Study(
    name="moves-enumeration",
    title="Searched or enumerated: one answer",
    question=(
        "Ensembles small enough to try every combination of cells: does the search over boxes find "
        "the same cheapest price and the same best score?"
    ),
    claims=("20.04", "20.19"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"boxes": _figure},
)
