"""Cheapest moves against a generic solver and a search, as ratios of one run.

Run with ``COUNTERPLAY_DATA=folder python benchmarks/bench_moves.py``; without the credit tables the
breast cancer data stand in. ``--people`` limits the people against integer programming, which takes
up to half a minute each. ``--tables`` measures instead one search after the other on three tables,
``--large`` wide moves (budget 2, no steps) and large ensembles (500 trees of depth 8): how many
searches close, and how long the slowest takes, in seconds of CPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from ledger import Times, compare, growth, median_gain, skipped, timed
from scipy.optimize import Bounds, LinearConstraint, milp
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from counterplay import datasets
from counterplay.errors import AssumptionWarning, DataUnavailableError, MissingDependencyError
from counterplay.strategic import Change, Moves, cheapest_moves
from counterplay.strategic.cell_prices import price_cells
from counterplay.strategic.fold import Asked
from counterplay.strategic.knapsack import MOST_STATES, least_price
from counterplay.strategic.knapsack_dual import Problem
from counterplay.strategic.move_solvers import SearchSolver, TreeSolver, solver_of
from counterplay.strategic.tree_milp import cheapest_by_milp
from counterplay.strategic.tree_search import search_people
from counterplay.studies.strategic.credit_tables import (
    GMSC,
    HELOC,
    TAIWAN,
    People,
    available,
    free_moves,
    whole_moves,
)
from counterplay.studies.strategic.credit_tables import people as table_of
from counterplay.studies.strategic.moves_search import OTHERS, PLAIN, make_model

KINDS = (*PLAIN, *OTHERS)
Say = Callable[[People, pd.DataFrame], Moves]

LEFT_OUT = {"heloc": ["RiskPerformance"], "taiwan": ["ID", "default payment next month"]}
FIXED = {
    "heloc": ["ExternalRiskEstimate", "MSinceOldestTradeOpen", "AverageMInFile"],
    "taiwan": ["SEX", "EDUCATION", "MARRIAGE", "AGE"],
}


def table(name: str) -> tuple[str, pd.DataFrame, Any]:
    """Return a credit table with 1 the wanted outcome, or the stand-in."""
    try:
        data = datasets.fetch(name, download=False)
        assert data.frame is not None
        X = data.frame.drop(columns=LEFT_OUT[name]).astype(float)
        X = X.where(X >= 0) if name == "heloc" else X
        known = X.notna().any(axis=1).to_numpy()
        return name, X[known].reset_index(drop=True), np.asarray(data.y)[known]
    except (DataUnavailableError, MissingDependencyError):
        cancer = load_breast_cancer(as_frame=True)
        return "breast cancer", cancer.data.iloc[:, :10], cancer.target.to_numpy()


def against_integer_programming(people: int, limit: float) -> None:
    """Rejected people, 100 trees of depth 6, budget 1: the same problem, proved by HiGHS."""
    name, X, y = table("heloc")
    A, B, ya, _ = train_test_split(X, y, test_size=0.3, random_state=0)
    model = HistGradientBoostingClassifier(max_iter=100, max_depth=6, random_state=0).fit(A, ya)
    moves = Moves.all(A, fixed=[c for c in FIXED["heloc"] if c in X])
    rejected = B.iloc[np.flatnonzero(model.predict(B) == 0)[:people]]
    asked = Asked(model, rejected, 1)
    solver = solver_of(asked, moves, 1.0)
    assert isinstance(solver, TreeSolver)
    cut, _ = solver.opened.cut()
    who, cap = np.arange(len(rejected)), 1.0 + 1e-9
    prices = price_cells(solver.cells, who, 1.0)
    target = cut - solver.cells.base + 1e-12
    given = (solver.cells, prices, solver.cells.own, target, cap)
    search_people(*given, 1.0, 1)  # compiles
    ours = timed(lambda: search_people(*given, 1.0, 20_000))
    low, high, _ = ours.result
    theirs = timed(
        lambda: [
            cheapest_by_milp(solver.cells, prices, solver.cells.own, i, target, cap, limit)
            for i in who.tolist()
        ]
    )
    proved = [a == b for a, b in theirs.result]
    same = sum(
        p and (b == high[i] or abs(b - high[i]) <= 1e-6)
        for i, (p, (_, b)) in enumerate(zip(proved, theirs.result))
    )
    compare(
        "strategic",
        f"cheapest moves, {name}, histogram trees 100 x 6, budget 1, {len(who)} people",
        ours,
        theirs,
        against="integer programming (HiGHS)",
        package="scipy",
        bar=50,
        note=f"exact for {int((low == high).sum())}, proved {sum(proved)}, equal {same}",
    )


def knapsacks(count: int = 400) -> None:
    """Random menus and lines: the compiled knapsack against HiGHS."""
    rng = np.random.default_rng(0)
    given = []
    for _ in range(count):
        blocks = range(rng.integers(1, 9))
        menus = [rng.uniform([0.1, 0.05], [2, 1], (rng.integers(1, 7), 2)) for _ in blocks]
        lines = rng.uniform(0.1, [1, 2, 1], (rng.integers(0, 6), 3))
        total = sum(m[:, 1].max() for m in menus) + float((lines[:, 0] * lines[:, 2]).sum())
        flat = np.concatenate(menus)
        start = np.cumsum([0, *map(len, menus)]).astype(np.int64)
        none = np.zeros(0)
        problem = Problem(
            start, flat[:, 0].copy(), flat[:, 1].copy(), none, none, none.astype(np.int64),
            lines[:, 0].copy(), lines[:, 1].copy(), lines[:, 2].copy(), 1,
        )  # fmt: skip
        given.append((problem, float(rng.uniform(0.05, 1.05) * total)))
    least_price(*given[0], np.inf, MOST_STATES)
    fast = timed(lambda: [least_price(p, need, np.inf, MOST_STATES).high for p, need in given])
    slow = timed(lambda: [_by_milp(p, need) for p, need in given])
    pairs = zip(fast.result, slow.result)
    equal = sum(a == b or abs(a - b) <= 1e-6 * max(1, b) for a, b in pairs)
    compare("strategic", "cheapest moves under an additive score, one random person",
            fast.each(count), slow.each(count), against="integer programming (HiGHS)",
            package="scipy", bar=20, note=f"equal for {equal} of {count}")  # fmt: skip


def _by_milp(p: Problem, need: float) -> float:
    rows = [np.concatenate((p.gain, p.line_gain))]
    low, high = [need], [np.inf]
    for a, b in zip(p.start, p.start[1:]):
        row = np.zeros(rows[0].size)
        row[a:b] = 1
        rows.append(row)
        low.append(-np.inf)
        high.append(1.0)
    found = milp(
        np.concatenate((p.price, p.line_price)),
        constraints=LinearConstraint(np.array(rows), low, high),
        integrality=[1] * p.gain.size + [0] * p.line_gain.size,
        bounds=Bounds(0, np.concatenate((np.ones(p.gain.size), p.line_room))),
        options={"mip_rel_gap": 0},
    )
    return float(found.fun) if found.status == 0 else np.inf


def against_a_search(people: int = 60) -> None:
    """What a search pays that sees only decisions, as for models without a formula."""
    name, X, y = table("taiwan")
    A, B, ya, _ = train_test_split(X, y, test_size=0.3, random_state=0)
    fixed = [c for c in FIXED["taiwan"] if c in X]
    moves = Moves(
        {c: Change("both", per="sd", low=-np.inf, high=np.inf) for c in X if c not in fixed},
        reference=A,
    )
    model = GradientBoostingClassifier(n_estimators=100, max_depth=3, random_state=0).fit(A, ya)
    rejected = B.iloc[np.flatnonzero(model.predict(B) == 0)[:people]]
    plan = cheapest_moves(model, rejected, moves, positive=1)
    others = pd.concat([rejected, B.iloc[:500]])  # it copies accepted people of the table
    searched = SearchSolver(Asked(model, others, 1), moves)
    low, high, _, _ = searched.cheapest(np.arange(len(rejected)), np.inf, 20_000)
    decided = (high <= 1) | (low > 1)
    moved = np.isfinite(high) & (plan.upper > 0.001)
    ratio = high[moved] / plan.upper[moved]
    what = f"{name}, boosted trees 100 x 3, {len(rejected)} people"
    other: dict[str, Any] = {"against": "a search by decisions", "package": "counterplay"}
    compare("strategic", f"decided at budget 1, {what}", plan.exact, decided,
            unit="of the people", more=True, **other)  # fmt: skip
    compare("strategic", f"median price paid, {what}", 1.0, float(np.median(ratio)),
            unit="times the optimum", gain=median_gain([1.0], ratio), **other,
            note=f"{np.quantile(ratio, 0.9):.1f} at the 90th percentile")  # fmt: skip


def tables(people: int = 200) -> None:
    """Budget 1, whole numbers move by 1, five ensembles of 100 trees of depth 6, three tables."""
    for name in (HELOC, TAIWAN, GMSC):
        for kind in KINDS if available(name) else ():
            _closed(name, kind, 100, 6, whole_moves, people, 1.0)


def wide_moves(people: int = 100) -> None:
    """Budget 2, continuous columns, five ensembles of 100 trees of depth 6 on three tables."""
    for name in (HELOC, TAIWAN, GMSC):
        for kind in KINDS if available(name) else ():
            _closed(name, kind, 100, 6, free_moves, people, 2.0)


def large_ensembles(people: int = 50) -> None:
    """500 trees of depth 8 on HELOC, whole numbers move by 1, budget 1."""
    for kind in ("XGBoost", "LightGBM", "RF") if available(HELOC) else ():
        _closed(HELOC, kind, 500, 8, whole_moves, people, 1.0)


def _closed(
    name: str, kind: str, trees: int, depth: int, say: Say, people: int, budget: float
) -> None:
    """Fit, search for one person after the other, say how many searches close and the times."""
    what = f"one search, {name}, {kind}, {trees} trees x {depth}, budget {budget:g}"
    if kind in OTHERS and not importlib.util.find_spec(OTHERS[kind]):
        skipped("strategic", what, f"{kind} is not installed")
        return
    table, model = table_of(name), make_model(kind, trees)
    (model[-1] if hasattr(model, "steps") else model).set_params(max_depth=depth)
    A, B, ya, _ = train_test_split(table.X, table.y, test_size=0.3, random_state=0)
    model.fit(A, ya)
    rejected = B.iloc[np.flatnonzero(model.predict(B) == 0)[:people]]
    solver = solver_of(Asked(model, rejected, 1), say(table, A), budget)
    assert isinstance(solver, TreeSolver)
    solver.cheapest(np.arange(1), budget, 1)  # compiles
    runs = [
        timed(lambda i=i: solver.cheapest(np.array([i]), budget, 20_000), 1, cpu=True)
        for i in range(len(rejected))
    ]
    exact = sum(int(run.result[2][0]) for run in runs)
    able = sum(int(np.isfinite(run.result[1][0])) for run in runs)
    seconds = Times(tuple(run.value for run in runs), "median")
    growth(
        "strategic",
        what,
        {solver.cells.forest.leaf_value.size: seconds},
        size="leaves",
        note=f"exact {exact} of {len(rejected)}, can {able}, slowest {max(seconds.turns):.2f} s",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=5)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds per integer program")
    parser.add_argument("--tables", action="store_true", help="one search after the other")
    parser.add_argument("--large", action="store_true", help="wide moves and large ensembles")
    given = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        if given.tables:
            tables()
            return
        if given.large:
            large_ensembles()
            wide_moves()
            return
        knapsacks()
        against_a_search()
        against_integer_programming(given.people, given.limit)


if __name__ == "__main__":
    main()
