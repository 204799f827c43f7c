"""The search over boxes against an integer program that knows nothing of it.

The program is written down from the nodes of scikit-learn's trees, the table and the spreads of its
columns: it shares neither readers, nor cells, nor prices with the search. HiGHS solves it to the
end. So "nobody can be accepted within the budget" is checked as well as a price.

Source: "Tree ensembles", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.model_selection import train_test_split

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.programs import minimize_integer
from counterplay.core.validation import BoolArray, FloatArray
from counterplay.strategic import cheapest_moves
from counterplay.studies.strategic.credit_tables import (
    HELOC,
    STAND_IN,
    TITLES,
    People,
    available,
    people,
    whole_moves,
)
from counterplay.studies.strategic.moves_search import make_model
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGET = 1.0
LIMIT = 120.0  # seconds of HiGHS per person


def _grid(scale: Scale) -> list[Params]:
    if scale == "quick":
        data = HELOC if available(HELOC) else STAND_IN
        return [{"data": data, "model": "GB", "trees": 20, "first": 0, "people": 6}]
    cells: list[Params] = [{"data": HELOC, "model": "HGB", "trees": 100, "first": 0, "people": 10}]
    cells += [
        {"data": HELOC, "model": "GB", "trees": 100, "first": first, "people": 50}
        for first in range(0, 200, 50)
    ]
    return cells


def _cell(params: Params, seed: int) -> Record:
    given = people(str(params["data"]))
    table = People(given.name, given.X.round(), given.y)  # HELOC holds whole numbers anyway
    A, B, ya, _ = train_test_split(table.X, table.y, test_size=0.3, random_state=0)
    model = make_model(str(params["model"]), int(params["trees"] or 0)).fit(A, ya)
    first, count = int(params["first"] or 0), int(params["people"] or 0)
    rejected = B.iloc[np.flatnonzero(model.predict(B) == 0)[first : first + count]]
    plan = cheapest_moves(model, rejected, whole_moves(table, A), positive=1, budget=BUDGET)
    trees = sklearn_trees(model, A)
    proved = np.array([_proved(trees, menus_of(row, table, A)) for _, row in rejected.iterrows()])
    with np.errstate(invalid="ignore"):
        equal = (proved == plan.upper) | (np.abs(proved - plan.upper) <= 1e-6)
    return {
        "compared": float((~np.isnan(proved)).sum()),
        "differ": float((~equal & ~np.isnan(proved)).sum()),
        "none": float(np.isinf(proved).sum()),
        "prices": " ".join(f"{v:.9g}" for v in plan.upper.tolist()),
        "programs": " ".join(f"{v:.9g}" for v in proved.tolist()),
    }


class Trees(NamedTuple):
    """Nodes of an ensemble as scikit-learn keeps them, and what is added to the leaves.

    ``fill`` are values that stand for missing ones; NaN where the trees see the hole itself.
    """

    trees: list[dict[str, Any]]
    base: float
    fill: FloatArray


def sklearn_trees(model: Any, X: pd.DataFrame) -> Trees:
    """Return the nodes of boosted trees, behind an imputer or alone."""
    if hasattr(model, "_predictors"):
        found = []
        for stage in model._predictors:
            nodes = stage[0].nodes
            found.append(
                {
                    "left": np.where(nodes["is_leaf"], -1, nodes["left"].astype(np.int64)),
                    "right": nodes["right"].astype(np.int64),
                    "feature": nodes["feature_idx"],
                    "threshold": nodes["num_threshold"],
                    "hole_left": nodes["missing_go_to_left"].astype(bool),
                    "value": nodes["value"],
                    "kind": np.float64,
                }
            )
        base = float(np.ravel(model._baseline_prediction)[0])
        return Trees(found, base, np.full(X.shape[1], np.nan))
    imputer, boosted = model[0], model[-1]
    found = [
        {
            "left": stage[0].tree_.children_left,
            "right": stage[0].tree_.children_right,
            "feature": stage[0].tree_.feature,
            "threshold": stage[0].tree_.threshold,
            "hole_left": np.zeros(stage[0].tree_.node_count, dtype=bool),
            "value": boosted.learning_rate * stage[0].tree_.value[:, 0, 0],
            "kind": np.float32,  # it compares in 32 bits
        }
        for stage in boosted.estimators_
    ]
    share = float(boosted.init_.class_prior_[1])
    return Trees(found, float(np.log(share / (1 - share))), imputer.statistics_)


class Menu(NamedTuple):
    """What one person can have in one column, and the price."""

    value: FloatArray
    price: FloatArray


def menus_of(person: pd.Series, table: People, reference: pd.DataFrame) -> list[Menu]:
    """Return every whole step within the budget and the seen range; holes and fixed columns stay.

    A column costs 1 per spread: the distance of its 10 % and 90 % points over 2.563.
    """
    menus = []
    for name in reference.columns:
        own, seen = float(person[name]), reference[name].dropna()
        spread = float(seen.quantile(0.9) - seen.quantile(0.1)) / 2.563 or float(seen.std(ddof=0))
        if np.isnan(own) or name in table.fixed or seen.nunique() < 2:
            menus.append(Menu(np.array([own]), np.zeros(1)))
            continue
        far = int(np.floor(BUDGET * spread * (1 + 1e-12)))
        steps = np.arange(-far, far + 1)
        inside = (own + steps >= seen.min()) & (own + steps <= seen.max())
        keep = inside | (steps == 0)
        menus.append(Menu(own + steps[keep], np.abs(steps[keep]) / spread))
    return menus


def _proved(trees: Trees, menus: list[Menu]) -> float:
    """Return the least price of an accepted choice, infinite if there is none, NaN if time ran out.

    One binary per option and one number per leaf: a leaf counts only if every column of its path
    chose an option that leads there.
    """
    sizes = [menu.value.size for menu in menus]
    start = np.cumsum([0, *sizes])
    price = np.concatenate([menu.price for menu in menus])
    rows: list[tuple[list[int], list[float], float, float]] = [
        (list(range(a, b)), [1.0] * (b - a), 1.0, 1.0) for a, b in zip(start, start[1:])
    ]
    columns, total, score = int(start[-1]), trees.base, ([], [])  # type: ignore[var-annotated]
    for tree in trees.trees:
        leaves = _leaves(tree, menus, trees.fill)
        if len(leaves) == 1:
            total += leaves[0][0]
            continue
        mine = list(range(columns, columns + len(leaves)))
        columns += len(leaves)
        rows.append((mine, [1.0] * len(mine), 1.0, 1.0))
        for at, (value, paths) in zip(mine, leaves):
            score[0].append(at)
            score[1].append(value)
            for j, open_ in paths.items():
                if not open_.all():
                    options = (start[j] + np.flatnonzero(open_)).tolist()
                    rows.append(([*options, at], [1.0] * len(options) + [-1.0], 0.0, np.inf))
    rows.append((score[0], score[1], 1e-12 - total, np.inf))  # accepted: a score above 0
    rows.append((list(range(start[-1])), price.tolist(), 0.0, BUDGET * (1 + 1e-9)))
    found = minimize_integer(
        np.concatenate((price, np.zeros(columns - price.size))),
        rows=sparse.csr_array(
            (
                np.concatenate([row[1] for row in rows]),
                (
                    np.repeat(np.arange(len(rows)), [len(row[0]) for row in rows]),
                    np.concatenate([row[0] for row in rows]).astype(np.int64),
                ),
            ),
            shape=(len(rows), columns),
        ),
        low=[row[2] for row in rows],
        high=[row[3] for row in rows],
        integers=(np.arange(columns) < price.size).astype(float),
        bounds=(0.0, np.ones(columns)),
        gap=0.0,
        time_limit=LIMIT,
        allow=("infeasible", "limit"),
    )
    if found.status == "infeasible":
        return np.inf
    return np.nan if found.status == "limit" else float(found.value)


def _leaves(
    tree: dict[str, Any], menus: list[Menu], fill: FloatArray
) -> list[tuple[float, dict[int, BoolArray]]]:
    """Return the leaves that a person can come to, with the options that lead there per column."""
    stack: list[tuple[int, dict[int, BoolArray]]] = [(0, {})]
    leaves = []
    while stack:
        node, paths = stack.pop()
        if tree["left"][node] < 0:
            leaves.append((float(tree["value"][node]), paths))
            continue
        j = int(tree["feature"][node])
        value = np.where(np.isnan(menus[j].value), fill[j], menus[j].value).astype(tree["kind"])
        left = np.where(
            np.isnan(value), tree["hole_left"][node], value <= tree["threshold"][node]
        ).astype(bool)
        held = paths.get(j, np.ones(value.size, dtype=bool))
        for child, side in ((tree["left"][node], left), (tree["right"][node], ~left)):
            if (held & side).any():
                stack.append((int(child), {**paths, j: held & side}))
    return leaves


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    verdicts = []
    for (data, model), part in frame.groupby(["data", "model"], sort=False):
        asked, compared = int(part["people"].sum()), int(part["compared"].sum())
        verdicts.append(
            Verdict(
                "20.05",
                f"{TITLES[str(data)]}, {model}: prices, and that there is no move within the "
                "budget, equal an integer program of the trees.",
                f"{int(part['differ'].sum())} of {compared} differ ({asked - compared} undecided; "
                f"{int(part['none'].sum())} have no move)",
                "0",
                bool(part["differ"].sum() == 0 and compared == asked),
            )
        )
    return verdicts


def _figure(frame: pd.DataFrame) -> Figure:
    """Price by the search against price by the integer program, one dot per person who can be
    accepted; who cannot be is counted in the legend.
    """
    figure, (ax,) = panels(1, width=5.0, height=4.2)
    ax.plot([0, BUDGET], [0, BUDGET], **THEORY, label="equal")
    for color, (model, part) in zip(PALETTE, frame.groupby("model", sort=False)):
        search, program = (
            np.array(" ".join(part[name]).split(), dtype=np.float64)
            for name in ("prices", "programs")
        )
        able = np.isfinite(search) & np.isfinite(program)
        both = int((np.isinf(search) & np.isinf(program)).sum())
        ax.plot(program[able], search[able], "o", color=color, alpha=0.6, markersize=4,
                label=f"{model} ({both} without a move in both)")  # fmt: skip
    ax.set(xlabel="price by integer programming (spreads)", ylabel="price by the search (spreads)")
    ax.legend(fontsize=8)
    return figure


MOVES_PROGRAMS = Study(
    name="moves-programs",
    title="Searched or solved by an integer program: one answer",
    question=(
        "Boosted trees of production size on a credit table: does a program with one binary per "
        "allowed value, written down from the trees alone, find the same prices, and the same "
        "people without any move within the budget?"
    ),
    claims=("20.05",),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"prices": _figure},
    full_needs="the table heloc",
)
