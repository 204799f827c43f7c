"""Who can be accepted, and at what price: exact cheapest moves against five kinds of model.

Source: "Tree ensembles", "Measured", see docs/theory/20-moves.md.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.validation import FloatArray, IntArray
from counterplay.strategic.cheapest import plan_moves
from counterplay.strategic.fold import Asked
from counterplay.strategic.move_solvers import SearchSolver, TreeSolver, solver_of
from counterplay.studies.strategic.credit_tables import (
    GMSC,
    HELOC,
    STAND_IN,
    TAIWAN,
    TITLES,
    available,
    people,
    whole_moves,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 21
NODES = 20_000
MARKERS = "o^x"
PLAIN = ("HGB", "GB", "RF")
OTHERS = {"XGBoost": "xgboost", "LightGBM": "lightgbm"}


def _grid(scale: Scale) -> list[Params]:
    models = [*PLAIN, *(name for name, part in OTHERS.items() if importlib.util.find_spec(part))]
    if scale == "quick":
        data = HELOC if available(HELOC) else STAND_IN
        return [
            {"data": data, "model": m, "people": 40, "trees": 30, "searched": 12 * (m == "GB")}
            for m in PLAIN
        ]
    return [
        {
            "data": data,
            "model": m,
            "people": 200,
            "trees": 100,
            "searched": 60 * ((data, m) == (TAIWAN, "GB")),  # people who also only search
        }
        for data in (HELOC, TAIWAN, GMSC)
        for m in models
    ]


def make_model(name: str, trees: int) -> Any:
    """Return an unfitted ensemble of depth 6; those that need it fill holes with the median."""
    if name == "HGB":
        return HistGradientBoostingClassifier(
            max_iter=trees, max_depth=6, early_stopping=False, random_state=0
        )
    if name == "XGBoost":
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=trees, max_depth=6, random_state=0, n_jobs=1)
    if name == "LightGBM":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=trees, max_depth=6, random_state=0, n_jobs=1, verbose=-1)
    if name == "GB":
        final: Any = GradientBoostingClassifier(n_estimators=trees, max_depth=6, random_state=0)
    else:
        final = RandomForestClassifier(trees, max_depth=6, random_state=0)
    return make_pipeline(SimpleImputer(strategy="median").set_output(transform="pandas"), final)


def _cell(params: Params, seed: int) -> Record:
    table = people(str(params["data"]))
    A, B, ya, yb = train_test_split(table.X, table.y, test_size=0.3, random_state=0)
    model = make_model(str(params["model"]), int(params["trees"] or 0)).fit(A, ya)
    moves = whole_moves(table, A)
    rejected = np.flatnonzero(model.predict(B) == 0)[: int(params["people"] or 0)]
    asked = Asked(model, B.iloc[rejected], 1)
    solver = solver_of(asked, moves, 1.0)
    assert isinstance(solver, TreeSolver)
    plan = plan_moves(asked, asked.frame, moves, 1.0, NODES, solver)
    reached = np.isfinite(plan.upper)
    goals = plan.destination[reached]
    wrong = int((model.predict(goals) != 1).sum()) if len(goals) else 0
    again = moves.price(B.iloc[rejected][reached], goals)
    record: dict[str, float | str] = {
        "columns": float(table.X.shape[1]),
        "movable": float(len(moves.columns)),
        "rejected": float(rejected.size),
        "exact": float(plan.exact.mean()),
        "can": float(reached.mean()),
        "refused_destinations": float(wrong),
        "price_off": float(np.abs(again - plan.upper[reached]).max(initial=0.0)),
        "method": plan.method,
    }
    effort = solver.effort(np.arange(rejected.size), 1.0, NODES)
    record |= {"boxes": _listed(effort[:, 0]), "leaves_kept": _listed(effort[:, 1])}
    able = np.flatnonzero(reached & plan.exact)[: int(params["searched"] or 0)]
    record |= _search_alone(solver, able, plan.upper[able])
    good = yb[rejected] == 1
    for k, r in enumerate(np.linspace(0, 1, POINTS)):
        for name, who in (("good", good), ("bad", ~good)):
            share = np.mean(plan.upper[who] <= r) if who.any() else 0.0
            record[f"{name}_{k:02d}"] = float(share)
    return record


def _search_alone(solver: TreeSolver, who: IntArray, prices: FloatArray) -> dict[str, str]:
    """Return what a search pays that sees only decisions (inf: nothing found), and the optimum."""
    if not who.size:
        return {"found_price": "", "exact_price": ""}
    found = SearchSolver(solver.asked, solver.moves).cheapest(who, 1.0, NODES)[1]
    return {"found_price": _listed(found), "exact_price": _listed(prices)}


def _listed(values: FloatArray | IntArray) -> str:
    """Return one number per person in one field of a record."""
    return " ".join(f"{v:.9g}" for v in values.tolist())


def _numbers(field: Any) -> FloatArray:
    """Return the numbers of such a field."""
    return np.array(str(field).split(), dtype=np.float64)


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    pairs = [(_numbers(f), _numbers(e)) for f, e in zip(frame["found_price"], frame["exact_price"])]
    asked = sum(f.size for f, _ in pairs)
    ratios = np.concatenate([f[np.isfinite(f)] / e[np.isfinite(f)] for f, e in pairs])
    middle = f"{np.median(ratios):.3g}" if ratios.size else "none"
    return [
        Verdict(
            "20.07",
            "Almost every search closes: the price is exact.",
            f"least share {frame['exact'].min():.3f} of {len(frame)} models",
            ">= 0.99",
            bool(frame["exact"].min() >= 0.99),
        ),
        Verdict(
            "20.08",
            "Every destination is accepted by the model itself and costs what the plan says.",
            f"{int(frame['refused_destinations'].sum())} refused, price off by at most "
            f"{frame['price_off'].max():.1g}",
            "0 and <= 1e-9",
            bool((frame["refused_destinations"] == 0).all() and frame["price_off"].max() <= 1e-9),
        ),
        Verdict(
            "20.07",
            "No move that is found by asking for decisions alone is cheaper than the exact price.",
            f"least ratio {ratios.min(initial=np.inf):.9g}, median {middle}; it finds a move for "
            f"{ratios.size} of {asked} people",
            ">= 1",
            bool((ratios >= 1 - 1e-6).all()),
        ),
    ]


def _figure(frame: pd.DataFrame) -> Figure:
    """Share of the rejected who can be accepted within a budget, by model; solid: qualified,
    dashed: unqualified people. Price 1 is one spread of a column.
    """
    names = list(dict.fromkeys(frame["data"]))[:1]
    figure, axes = panels(len(names), width=6.5)
    r = np.linspace(0, 1, POINTS)
    for ax, data in zip(axes, names):
        for color, (_, row) in zip(PALETTE, frame[frame["data"] == data].iterrows()):
            for kind, style in (("good", "-"), ("bad", "--")):
                curve = [row[f"{kind}_{k:02d}"] for k in range(POINTS)]
                label = str(row["model"]) if kind == "good" else None
                ax.plot(r, curve, style, color=color, label=label)
        ax.set(
            xlabel="what a person can spend (budget, in spreads)",
            ylabel="share of the rejected who can be accepted",
            title=TITLES[data],
            ylim=(-0.02, 1.02),
        )
        ax.legend()
    return figure


def _found_figure(frame: pd.DataFrame) -> Figure:
    """Price of the move that is found by asking the model for decisions alone, as for models
    without a formula, against the exact price, boosted trees; on the dashed line the search pays
    the optimum.
    """
    asked = frame["searched"] > 0
    row = frame[asked].iloc[0] if asked.any() else frame.iloc[0]
    exact, found = _numbers(row["exact_price"]), _numbers(row["found_price"])
    moved = np.isfinite(found)
    figure, (ax,) = panels(1, width=5.5, height=4.5)
    if moved.any():
        ends = [exact[moved].min() / 1.5, found[moved].max() * 1.5]
        ax.plot(ends, ends, **THEORY, label="the exact price")
        label = f"one person ({moved.size - int(moved.sum())} without a find left out)"
        ax.plot(exact[moved], found[moved], "o", color=PALETTE[0], alpha=0.6, label=label)
        ax.legend(loc="lower right", fontsize=8)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="exact price (spreads)",
        ylabel="price found by asking for decisions (spreads)",
        title=f"{TITLES[row['data']]}, boosted trees {row['trees']} x 6",
    )
    return figure


def _effort_figure(frame: pd.DataFrame) -> Figure:
    """Boxes opened per person against the leaves she can afford, by model (colour) and table
    (marker), budget 1. On the dashed line a search opens one box per leaf; 0 boxes are drawn as
    one half: the first bound decides.
    """
    figure, (ax,) = panels(1, width=7.5, height=4.5)
    models, tables = list(dict.fromkeys(frame["model"])), list(dict.fromkeys(frame["data"]))
    top, bottom = 1.0, np.inf
    for _, row in frame.iterrows():
        boxes, leaves = _numbers(row["boxes"]), _numbers(row["leaves_kept"])
        boxes, leaves = np.maximum(boxes[leaves > 0], 0.5), leaves[leaves > 0]
        color, marker = PALETTE[models.index(row["model"])], MARKERS[tables.index(row["data"])]
        ax.plot(leaves, boxes, marker, color=color, alpha=0.35, markersize=3.5)
        top, bottom = max(top, leaves.max(initial=1.0)), min(bottom, leaves.min(initial=bottom))
    ends = [max(bottom, 1.0), top]
    ax.plot(ends, ends, **THEORY, label="one box per leaf")
    for k, name in enumerate(models):
        ax.plot([], [], "s", color=PALETTE[k], label=name)
    for k, name in enumerate(tables):
        ax.plot([], [], MARKERS[k], color="#444444", label=TITLES[name])
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="leaves that a person can afford",
        ylabel="boxes opened until the price is exact",
    )
    ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


MOVES_SEARCH = Study(
    name="moves",
    title="Who can be accepted, and at what price",
    question=(
        "Against boosted trees and forests of production size on credit tables: for how many "
        "rejected people is the cheapest accepted move found exactly, and how many can afford it "
        "with a budget of one spread? Whole numbers move by 1; age, history and the external score "
        "do not move."
    ),
    claims=("20.07", "20.08"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={
        "price_curves": _figure,
        "found": _found_figure,
        "boxes": _effort_figure,
    },
    version=3,
    full_needs="the tables heloc, taiwan and give_me_some_credit",
)
