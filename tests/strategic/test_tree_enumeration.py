"""The search over boxes against everything there is, and against integer programming."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)

from counterplay.strategic import Change, Moves, Switch
from counterplay.strategic.cell_prices import CellPrices, price_cells
from counterplay.strategic.fold import Asked
from counterplay.strategic.move_solvers import TreeSolver, solver_of
from counterplay.strategic.tree_cells import Cells
from counterplay.strategic.tree_milp import cheapest_by_milp
from counterplay.strategic.tree_search import best_scores, search_people


def random_case(seed: int) -> tuple[Any, pd.DataFrame, dict[str, Any]]:
    """Return eight trees on two to four columns, whole and continuous, and one-sided moves."""
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(2, 5)), 120
    X = pd.DataFrame(rng.normal(size=(n, d)).round(2), columns=list("abcd")[:d])
    X["a"] = rng.integers(0, 6, n).astype(float)
    y = (X.sum(axis=1) + X["a"] * X["b"] + rng.normal(size=n) > 2).astype(int)
    model: Any = [
        RandomForestClassifier(8, max_depth=3, random_state=seed),
        GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=seed),
        HistGradientBoostingClassifier(max_iter=8, max_depth=3, early_stopping=False),
    ][seed % 3]
    if seed % 3 == 2:  # fixed and fillable missing entries, and a native category
        X.loc[::6, "b"] = np.nan
        X["k"] = pd.Categorical(rng.choice(["u", "v", "w"], n))
        y = (y ^ ((X["k"] == "u") & (X["a"] > 3))).astype(int)
    ways = ["up", "down", "both"]
    moves: dict[str, Any] = {
        name: Change(ways[rng.integers(3)], rng.uniform(0.3, 2), per="unit")
        for name in X
        if name != "k"
    }
    moves["a"] = Change(ways[rng.integers(3)], rng.uniform(0.3, 2), step=1, per="unit")
    if "k" in X:
        moves["b"] = Change("both", 0.8, per="unit", missing=[0.5, "keep"][seed % 2], hide=1.1)
        moves["k"] = Switch({("u", "v"): 0.7, ("w", "u"): 0.4})
    return model.fit(X, y), X, moves


def solver_for(seed: int, combine: Any, people: int) -> tuple[TreeSolver, CellPrices, Any]:
    model, X, columns = random_case(seed)
    moves = Moves(columns, reference=X, combine=combine)
    rejected = X[model.predict(X) == 0].iloc[:people]
    solver = solver_of(Asked(model, rejected, 1), moves)
    assert isinstance(solver, TreeSolver)
    who = np.arange(len(rejected))
    return solver, price_cells(solver.cells, rejected, who, moves.power), model


def all_points(cells: Cells, prices: CellPrices, i: int, power: float) -> tuple[Any, Any]:
    """Return every combination of open cells of one person and its price before the root."""
    options = []
    for g in range(len(cells.blocks)):
        part = slice(cells.offset[g], cells.offset[g + 1])
        mine = [(k, p) for k, p in enumerate(prices.price[i, part]) if np.isfinite(p)]
        if cells.ordered[g] and np.isfinite(prices.missing[i, g]):
            mine.append((-1, prices.missing[i, g]))
        options.append(mine)
    combos = list(itertools.product(*options))
    points = np.array([[k for k, _ in combo] for combo in combos])
    price = np.array([[p for _, p in combo] for combo in combos])
    return points, price.max(axis=1) if np.isinf(power) else price.sum(axis=1)


def scores_of(cells: Cells, points: Any) -> Any:
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
    assert (held == 1).all()
    return total


def compare_with_enumeration(seeds: Any, people: int) -> int:
    """Compare prices and best scores with enumeration; return the number of cases."""
    cases = 0
    for seed in seeds:
        for combine in ("sum", "euclid", "max"):
            solver, prices, _ = solver_for(seed, combine, people)
            cells, power = solver.cells, solver.moves.power
            cut, _ = solver.opened.cut()
            target = cut - cells.base + 1e-12
            low, high, _ = search_people(cells, prices, cells.own, target, np.inf, power, 10**6)
            caps = np.array([0.4, 1.5])
            found, bound, _ = best_scores(cells, prices, cells.own, caps, power, 10**6)
            for i in range(len(low)):
                points, price = all_points(cells, prices, i, power)
                scores = scores_of(cells, points)
                fine = scores >= target
                best = price[fine].min() if fine.any() else np.inf
                assert low[i] == high[i] == pytest.approx(best, rel=1e-12), (seed, combine, i)
                top = [scores[price <= cap].max() for cap in caps]
                assert found[i] == pytest.approx(top, rel=1e-9), (seed, combine, i)
                assert (found[i] == bound[i]).all()
                cases += 1
    return cases


@pytest.mark.claim("20.04", "20.19")
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_random_ensembles_equal_enumeration_of_all_cells(kind: int) -> None:
    assert compare_with_enumeration(range(kind, kind + 6, 3), people=4) >= 18


@pytest.mark.claim("20.05")
def test_the_search_equals_integer_programming() -> None:
    for seed in (0, 1, 2):
        solver, prices, _ = solver_for(seed, "sum", 3)
        cells = solver.cells
        cut, _ = solver.opened.cut()
        target = cut - cells.base + 1e-9
        low, high, _ = search_people(cells, prices, cells.own, target, 3.0, 1.0, 10**6)
        for i in range(len(low)):
            a, b = cheapest_by_milp(cells, prices, cells.own, i, target, 3.0)
            assert a == b
            assert high[i] == pytest.approx(b, abs=1e-6)
