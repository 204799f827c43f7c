"""Cheapest moves against recourse packages: the same model, prices and people, ratios of one run.

The peers are no part of this package: ``pip install treecf==0.3.2 dice-ml==0.12``, whichever is
there is measured. Run with ``COUNTERPLAY_DATA=folder python benchmarks/moves_recourse.py``.
XGBoost, 100 trees of depth 6; columns that are not fixed move within the seen range, without steps.
Price 1 is one spread of a column, prices add up, there is no budget. Values that are missing stay
so; with ``--fill`` they are the median and move as well. dice-ml is always asked about people
without holes. Models are opened once for each package and not timed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.strategic import Moves
from counterplay.strategic.asking import destinations
from counterplay.strategic.fold import Asked
from counterplay.strategic.move_solvers import TreeSolver, solver_of
from counterplay.studies.strategic.credit_tables import (
    GMSC,
    HELOC,
    TITLES,
    available,
    free_moves,
    people,
)

NODES = 1_000_000  # most boxes per person: none of these people needs that many
SAME = 1e-3  # the peers work with values in other float types, a little beyond a threshold


@dataclass(frozen=True, eq=False)
class Task:
    """Rejected people of a table before a fitted model, and what they can do."""

    name: str
    train: pd.DataFrame
    labels: IntArray
    model: Any
    moves: Moves
    who: pd.DataFrame

    @property
    def fixed(self) -> list[str]:
        """Columns that stay."""
        return [c for c in self.train if c not in self.moves.blocks]


@dataclass(frozen=True, eq=False)
class Answers:
    """What one package pays for every person, what it proves, and how long it takes."""

    price: FloatArray
    proved: BoolArray
    seconds: FloatArray


def make_task(name: str, count: int, fill: bool) -> Task:
    """Return the first rejected test people whose values lie within the seen ranges."""
    from xgboost import XGBClassifier

    table = people(name).numbers() if fill else people(name)
    A, B, ya, _ = train_test_split(table.X, table.y, test_size=0.3, random_state=0)
    model = XGBClassifier(n_estimators=100, max_depth=6, random_state=0, n_jobs=1).fit(A, ya)
    inside = (((A.min() <= B) & (A.max() >= B)) | B.isna()).all(axis=1).to_numpy()
    rejected = np.flatnonzero((model.predict(B) == 0) & inside)[:count]
    return Task(name, A, ya, model, free_moves(table, A), B.iloc[rejected])


def timed(task: Task, answer: Callable[[int], tuple[Any, bool]]) -> Answers:
    """Ask for one person after the other; the cheapest of the rows in an answer counts."""
    n = len(task.who)
    price, proved, seconds = np.empty(n), np.zeros(n, dtype=bool), np.empty(n)
    for i in range(n):
        start = time.perf_counter()
        goals, proved[i] = answer(i)
        seconds[i] = time.perf_counter() - start
        price[i] = min((_paid(task, i, goal) for goal in goals), default=np.inf)
    return Answers(price, proved, seconds)


def ours(task: Task) -> Answers:
    """Search over boxes."""
    solver = solver_of(Asked(task.model, task.who, 1), task.moves)
    assert isinstance(solver, TreeSolver)
    solver.cheapest(np.arange(1), np.inf, 1)  # compiles

    def answer(i: int) -> tuple[Any, bool]:
        _, _, exact, changes = solver.cheapest(np.array([i]), np.inf, NODES)
        return destinations(task.who.iloc[[i]], np.arange(1), changes).to_numpy(), bool(exact[0])

    return timed(task, answer)


def treecf(task: Task, backend: str, limit: float) -> Answers:
    """The same spreads as its normalizers, the same ranges, the same columns frozen."""
    from treecf import Explainer, Freeze, Range, Target  # type: ignore[import-not-found]

    blocks, train = task.moves.blocks, task.train
    free = [Range(c, float(train[c].min()), float(train[c].max())) for c in blocks]
    scales = {c: blocks[c].unit if c in blocks else 1.0 for c in train}  # type: ignore[union-attr]
    explainer = Explainer(
        task.model, normalizers=scales, constraints=[*map(Freeze, task.fixed), *free]
    )
    # accepted is a raw score above 0; its targets are closed
    target = Target.raw(op=">=", value=float(np.nextafter(np.float32(0), np.float32(1))))
    rows = task.who.to_numpy(dtype=float)

    def answer(i: int) -> tuple[Any, bool]:
        found = explainer.explain(rows[i], target, backend=backend, time_budget_s=limit, seed=0)
        goals = [found.x_cf] if hasattr(found, "x_cf") else []
        return goals, bool(goals) and found.proof == "optimal"

    return timed(task, answer)


def dice(task: Task, method: str) -> Answers:
    """Four answers per person, the cheapest counts."""
    import dice_ml  # type: ignore[import-not-found]

    free = [c for c in task.train if c in task.moves.blocks]
    data = dice_ml.Data(
        dataframe=task.train.assign(wanted=task.labels),
        continuous_features=list(task.train.columns),
        outcome_name="wanted",
    )
    seek = dice_ml.Dice(data, dice_ml.Model(model=task.model, backend="sklearn"), method=method)
    seeds = {"random_seed": 0} if method == "random" else {}

    def answer(i: int) -> tuple[Any, bool]:
        try:
            found = seek.generate_counterfactuals(
                task.who.iloc[[i]], total_CFs=4, desired_class=1, features_to_vary=free,
                verbose=False, **seeds,
            )  # fmt: skip
        except dice_ml.utils.exception.UserConfigValidationException:
            return [], False  # it found nothing
        goals = found.cf_examples_list[0].final_cfs_df
        return [] if goals is None else goals[task.train.columns].to_numpy(dtype=float), False

    with contextlib.redirect_stderr(io.StringIO()):  # one progress bar per person
        return timed(task, answer)


def _paid(task: Task, i: int, goal: Any) -> float:
    """Return the price of a destination; infinite if the model rejects it."""
    row = pd.DataFrame([goal], columns=task.train.columns, index=[task.who.index[i]])
    if task.model.predict(row)[0] != 1:
        return np.inf
    return float(task.moves.price(task.who.iloc[[i]], row)[0])


def line(name: str, a: Answers) -> str:
    """Return how many are proved and how long it takes."""
    t = a.seconds
    return (
        f"  {name:22s} proves {int(a.proved.sum()):2d} of {t.size}, median {np.median(t):.3f} s, "
        f"slowest {t.max():.2f} s"
    )


def against_exact(task: Task, own: Answers, limit: float, bar: str) -> None:
    """Who proves how many, how fast, and whether the proved prices agree."""
    peer = treecf(task, "exact", limit)
    both = own.proved & peer.proved
    equal = np.abs(own.price - peer.price) <= SAME * (1 + own.price)
    faster = np.median(peer.seconds) / np.median(own.seconds)
    print(line(f"treecf exact, {limit:g} s", peer))
    print(f"    equal where both prove: {int(equal[both].sum())} of {int(both.sum())}")
    print(f"    median {faster:.1f} times ours (bar: {bar})")


def against_search(name: str, task: Task, own: Answers, peer: Answers) -> None:
    """What a package without proofs pays, in multiples of the proved optimum."""
    found = np.isfinite(peer.price) & own.proved
    ratio = peer.price[found] / own.price[found]
    far = own.price[found] > 0.01
    if not found.any():
        print(f"  {name:22s} answers nobody")
        return
    print(
        f"  {name:22s} answers {int(found.sum())} of {len(task.who)}, pays {np.median(ratio):.2f} "
        f"times the optimum in the median ({np.median(ratio[far]):.2f} over the {int(far.sum())} "
        f"with optimum > .01), {np.median(peer.seconds):.3f} s (bar: ours 1.00)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds per person, treecf")
    parser.add_argument("--fill", action="store_true", help="missing values are the median")
    given = parser.parse_args()
    here = {p for p in ("treecf", "dice_ml", "xgboost") if importlib.util.find_spec(p)}
    if "xgboost" not in here or not here & {"treecf", "dice_ml"}:
        print("The peers treecf and dice-ml (with xgboost) are not installed: nothing to compare.")
        sys.exit(0)
    if not (available(HELOC) and available(GMSC)):
        print("The tables heloc and give_me_some_credit are not there: nothing to compare.")
        sys.exit(0)
    for peer in sorted({"treecf", "dice_ml"} - here):
        print(f"{peer.replace('_', '-')} is not installed and is left out.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, count, bar in ((HELOC, 12, "10, all proved"), (GMSC, 20, "5")):
            compare(make_task(name, count, given.fill), given.limit, bar, here)
        if "dice_ml" in here:
            diverse(make_task(HELOC, 8, True))


def compare(task: Task, limit: float, bar: str, here: set[str]) -> None:
    """Print one table."""
    own = ours(task)
    print(f"{TITLES[task.name]}, XGBoost 100 x 6, {len(task.moves.blocks)} free columns, no budget")
    print(line("search over boxes", own))
    if "treecf" in here:
        against_exact(task, own, limit, bar)
        if task.name == HELOC:
            against_search("treecf genetic", task, own, treecf(task, "genetic", limit))


def diverse(task: Task) -> None:
    """Print what the best of four diverse answers costs."""
    own = ours(task)
    print(f"{TITLES[task.name]}, holes filled, {len(task.who)} people, best of 4 answers")
    print(line("search over boxes", own))
    for method in ("random", "genetic"):
        against_search(f"dice-ml {method}", task, own, dice(task, method))


if __name__ == "__main__":
    main()
