"""Who can be accepted, and at what price: exact cheapest moves against five kinds of model.

Source: "Tree ensembles", "Measured", see docs/theory/20-moves.md.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from counterplay.core.figures import PALETTE, panels
from counterplay.strategic import cheapest_moves
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
    import pandas as pd
    from matplotlib.figure import Figure

POINTS = 21
PLAIN = ("HGB", "GB", "RF")
OTHERS = {"XGBoost": "xgboost", "LightGBM": "lightgbm"}


def _grid(scale: Scale) -> list[Params]:
    models = [*PLAIN, *(name for name, part in OTHERS.items() if importlib.util.find_spec(part))]
    if scale == "quick":
        data = HELOC if available(HELOC) else STAND_IN
        return [{"data": data, "model": m, "people": 40, "trees": 30} for m in PLAIN]
    return [
        {"data": data, "model": m, "people": 200, "trees": 100}
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
    plan = cheapest_moves(model, B.iloc[rejected], moves, positive=1, budget=1.0)
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
    good = yb[rejected] == 1
    for k, r in enumerate(np.linspace(0, 1, POINTS)):
        for name, who in (("good", good), ("bad", ~good)):
            share = np.mean(plan.upper[who] <= r) if who.any() else 0.0
            record[f"{name}_{k:02d}"] = float(share)
    return record


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
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
    figures={"price_curves": _figure},
    full_needs="the tables heloc, taiwan and give_me_some_credit",
)
