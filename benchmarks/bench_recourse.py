"""Cheapest moves against recourse packages: the same model, prices and people, ratios of one run.

The peers are no part of this package: ``pip install treecf==0.3.2 dice-ml==0.12``, whichever is
there is measured. Run with ``COUNTERPLAY_DATA=folder python benchmarks/bench_recourse.py``.
XGBoost, 100 trees of depth 6; columns that are not fixed move within the seen range, without steps.
Price 1 is one spread of a column, prices add up, there is no budget. Values that are missing stay
so; with ``--fill`` they are the median and move as well. dice-ml is always asked about people
without holes. Models are opened once for each package and not timed. Times are seconds of CPU, in
one thread each, so that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from ledger import Times, compare, median_gain, skipped, timed
from sklearn.model_selection import train_test_split

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.strategic import Moves
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
    seconds: Times


def make_task(name: str, count: int, fill: bool) -> Task:
    """Return the first rejected test people whose values lie within the seen ranges."""
    from xgboost import XGBClassifier

    table = people(name).numbers() if fill else people(name)
    A, B, ya, _ = train_test_split(table.X, table.y, test_size=0.3, random_state=0)
    model = XGBClassifier(n_estimators=100, max_depth=6, random_state=0, n_jobs=1).fit(A, ya)
    inside = (((A.min() <= B) & (A.max() >= B)) | B.isna()).all(axis=1).to_numpy()
    rejected = np.flatnonzero((model.predict(B) == 0) & inside)[:count]
    return Task(name, A, ya, model, free_moves(table, A), B.iloc[rejected])


def answered(task: Task, answer: Callable[[int], tuple[Any, bool]]) -> Answers:
    """Ask for one person after the other; the cheapest of the rows in an answer counts."""
    runs = [timed(lambda i=i: answer(i), 1, cpu=True) for i in range(len(task.who))]
    price = [
        min((_paid(task, i, goal) for goal in run.result[0]), default=np.inf)
        for i, run in enumerate(runs)
    ]
    proved = np.array([run.result[1] for run in runs], dtype=bool)
    return Answers(np.array(price), proved, Times(tuple(run.value for run in runs), "median"))


def ours(task: Task) -> Answers:
    """Search over boxes."""
    solver = solver_of(Asked(task.model, task.who, 1), task.moves)
    assert isinstance(solver, TreeSolver)
    solver.cheapest(np.arange(1), np.inf, 1)  # compiles

    rows, place = task.who.to_numpy(dtype=float), {c: j for j, c in enumerate(task.who)}

    def answer(i: int) -> tuple[Any, bool]:
        _, _, exact, changes = solver.cheapest(np.array([i]), np.inf, NODES)
        goal = rows[i].copy()
        for name, (_, values) in changes.items():
            goal[place[name]] = values[0] if values else goal[place[name]]
        return [goal], bool(exact[0])

    return answered(task, answer)


def at_once(task: Task) -> Times:
    """The whole table in one call, per person."""
    solver = solver_of(Asked(task.model, task.who, 1), task.moves)
    everybody = np.arange(len(task.who))
    return timed(lambda: solver.cheapest(everybody, np.inf, NODES), 3, cpu=True).each(len(task.who))


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

    return answered(task, answer)


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
        return answered(task, answer)


def _paid(task: Task, i: int, goal: Any) -> float:
    """Return the price of a destination; infinite if the model rejects it."""
    row = pd.DataFrame([goal], columns=task.train.columns, index=[task.who.index[i]])
    if task.model.predict(row)[0] != 1:
        return np.inf
    return float(task.moves.price(task.who.iloc[[i]], row)[0])


def against_exact(task: Task, own: Answers, limit: float, bar: float) -> None:
    """Who proves how many, how fast, and whether the proved prices agree."""
    peer = treecf(task, "exact", limit)
    both = own.proved & peer.proved
    equal = np.abs(own.price - peer.price) <= SAME * (1 + own.price)
    said: dict[str, Any] = {"against": f"exact, {limit:g} s", "package": "treecf"}
    # people differ, so the range over people is no range of turns: an interval of the medians
    compare("strategic", f"cheapest move of one person, median, {told(task)}", own.seconds.value,
            peer.seconds.value, bar=bar,
            gain=median_gain(own.seconds.turns, peer.seconds.turns),
            note=f"slowest {max(own.seconds.turns):.2f} s and "
            f"{max(peer.seconds.turns):.2f} s", **said)  # fmt: skip
    mean = float(np.mean(peer.seconds.turns))
    compare("strategic", f"cheapest moves of a table in one call, mean per person, {told(task)}",
            at_once(task).value, mean, note="theirs one by one", **said)  # fmt: skip
    compare("strategic", f"cheapest moves proved, {told(task)}", float(own.proved.sum()),
            float(peer.proved.sum()), unit=f"of {len(task.who)} people", more=True,
            note=f"equal where both prove: {int(equal[both].sum())} of {int(both.sum())}",
            **said)  # fmt: skip


def against_search(package: str, way: str, task: Task, own: Answers, peer: Answers) -> None:
    """What a package without proofs pays, in multiples of the proved optimum."""
    found = np.isfinite(peer.price) & own.proved
    what = f"{told(task)}, {way}"
    if not found.any():
        skipped("strategic", what, f"{package} answers nobody")
        return
    ratio = peer.price[found] / own.price[found]
    far = own.price[found] > 0.01
    compare("strategic", f"median price paid, {what}", 1.0, float(np.median(ratio)),
            against=way, package=package, unit="times the optimum",
            gain=median_gain([1.0], ratio),
            note=f"answers {int(found.sum())} of {len(task.who)}; {np.median(ratio[far]):.2f} over "
            f"the {int(far.sum())} with optimum > .01")  # fmt: skip
    compare("strategic", f"one answer, median, {what}", own.seconds.value, peer.seconds.value,
            gain=median_gain(own.seconds.turns, peer.seconds.turns),
            against=way, package=package)  # fmt: skip


def told(task: Task) -> str:
    """Return what is asked in a few words."""
    return f"{TITLES[task.name]}, XGBoost 100 x 6, {len(task.moves.blocks)} free columns"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds per person, treecf")
    parser.add_argument("--fill", action="store_true", help="missing values are the median")
    given = parser.parse_args()
    here = {p for p in ("treecf", "dice_ml", "xgboost") if importlib.util.find_spec(p)}
    for peer in sorted({"treecf", "dice_ml", "xgboost"} - here):
        skipped("strategic", "recourse", f"{peer.replace('_', '-')} is not installed")
    if "xgboost" not in here or not here & {"treecf", "dice_ml"}:
        return
    if not (available(HELOC) and available(GMSC)):
        skipped("strategic", "recourse", "the tables heloc and give_me_some_credit are not there")
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, count, bar in ((HELOC, 12, 10), (GMSC, 20, 5)):
            if "treecf" in here:
                beside_treecf(make_task(name, count, given.fill), given.limit, bar)
        if "dice_ml" in here:
            diverse(make_task(HELOC, 8, True))


def beside_treecf(task: Task, limit: float, bar: float) -> None:
    own = ours(task)
    against_exact(task, own, limit, bar)
    if task.name == HELOC:
        against_search("treecf", "genetic", task, own, treecf(task, "genetic", limit))


def diverse(task: Task) -> None:
    """What the best of four diverse answers costs, holes filled."""
    own = ours(task)
    for method in ("random", "genetic"):
        against_search("dice-ml", f"{method}, best of 4", task, own, dice(task, method))


if __name__ == "__main__":
    main()
