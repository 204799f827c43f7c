"""A lender who knows the cheap moves, on real applicants.

German credit data where a local copy is found (COUNTERPLAY_DATA), else the breast cancer data that
come with scikit-learn; the records say which. Actions are in the features' own units.

Source: "Measured", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from counterplay import datasets
from counterplay.core.figures import PALETTE, panels
from counterplay.core.stats import mean_interval
from counterplay.core.validation import FloatArray, IntArray
from counterplay.errors import DataUnavailableError, MissingDependencyError
from counterplay.strategic import (
    Action,
    ManipulationGraph,
    StrategicLinearClassifier,
    bounds,
    strategic_accuracy,
)
from counterplay.strategic.lab import induced_predictions, respond
from counterplay.studies.strategic.graphs.common import errorbars
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BINS = 10
_MODELS = {"naive": "logistic regression", "strategic": "StrategicLinearClassifier"}
_AXES = {  # the two features of the picture of movers
    "german_credit": ("duration (months)", "amount (DM)"),
    "breast_cancer": ("mean radius", "mean texture"),
}
_DIMENSION = 6  # VC dimension of halfspaces in five features


@dataclass(frozen=True)
class Applicants:
    """People with standardised features, their labels and the graph of affordable actions."""

    X: FloatArray
    y: IntArray
    graph: ManipulationGraph
    mean: FloatArray
    scale: FloatArray

    def in_units(self, points: FloatArray) -> FloatArray:
        """The first two features in their own units."""
        units: FloatArray = (points * self.scale + self.mean)[:, :2]
        return units


@lru_cache(maxsize=2)
def applicants(name: str) -> Applicants:
    """The people of a data set."""
    if name == "german_credit":
        data = datasets.fetch(name, download=False)
        columns = ("duration_months", "credit_amount", "installment_rate", "existing_credits",
                   "age")  # fmt: skip
        X = np.asarray(data.X)[:, [data.feature_names.index(c) for c in columns]].astype(float)
        X[:, 1] = np.round(X[:, 1], -2)  # amounts in hundreds
        actions = [
            Action("ask for 6 months less", column=0, change=-6, cost=1.0),
            Action("ask for 500 less", column=1, change=-500, cost=1.0),
            Action("close another credit", column=3, change=-1, cost=2.0),
        ]
    else:
        data = datasets.load(name)
        X = np.round(np.asarray(data.X)[:, [0, 1, 4, 5, 8]].astype(float), 2)
        actions = [
            Action("report a radius 1 smaller", column=0, change=-1, cost=1.0),
            Action("report a texture 2 smaller", column=1, change=-2, cost=1.0),
            Action("report a symmetry 0.02 smaller", column=4, change=-0.02, cost=2.0),
        ]
    graph = ManipulationGraph.from_actions(X, actions, budget=2.0)
    mean, scale = X.mean(axis=0), X.std(axis=0)
    assert graph.features is not None
    graph = ManipulationGraph.from_matrix(graph.adjacency, features=(graph.features - mean) / scale)
    y = np.asarray(data.y, dtype=np.int64)
    return Applicants((X + 0.0 - mean) / scale, y, graph, mean, scale)


def available() -> str:
    """The data set the study runs on here."""
    try:
        datasets.fetch("german_credit", download=False)
    except (DataUnavailableError, MissingDependencyError):
        return "breast_cancer"
    return "german_credit"


def _grid(scale: Scale) -> list[Params]:
    name = available()
    return [{"data": name, "replicate": i} for i in range(20 if scale == "quick" else 100)]


def _cell(params: Params, seed: int) -> Record:
    people = applicants(str(params["data"]))
    X, y, graph = people.X, people.y, people.graph
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.4, random_state=seed % 2**32, stratify=y
    )
    naive = LogisticRegression().fit(X_train, y_train)
    strategic = StrategicLinearClassifier().fit(X_train, y_train, graph=graph)
    record: dict[str, float | str] = {"moves": float(graph.degrees[graph.node_of(X_test)].mean())}
    for name, model in (("naive", naive), ("strategic", strategic)):
        right = strategic_accuracy(model, X_train, y_train, graph=graph)
        record[f"{name}_train"] = 1 - right
    edges = np.quantile(naive.decision_function(X_test), np.arange(1, _BINS) / _BINS)
    bins = np.searchsorted(edges, naive.decision_function(X_test))
    for name, model in (("naive", naive), ("strategic", strategic)):
        before = model.predict(X_test) == 1
        after = induced_predictions(model, X_test, graph)
        for when, accepted in (("before", before), ("after", after)):
            record[f"{name}_{when}_false_accept"] = float(accepted[y_test == 0].mean())
            record[f"{name}_{when}_false_reject"] = float((~accepted)[y_test == 1].mean())
            record[f"{name}_{when}_accuracy"] = float((accepted == (y_test == 1)).mean())
            for b in range(_BINS):
                record[f"{name}_{when}_bin{b}"] = float(accepted[bins == b].mean())
        record[f"{name}_movers"] = float((after & ~before).mean())
        shown = params["replicate"] == 0
        record[f"{name}_arrows"] = _arrows(people, model, X_test, y_test) if shown else ""
    return record


def _arrows(people: Applicants, model: Any, X: FloatArray, y: IntArray) -> str:
    """Where each of these people goes in two features, with the label, as JSON."""
    graph = people.graph
    assert graph.features is not None
    accepted = model.predict(graph.features) == 1
    nodes = graph.node_of(X)
    rng = np.random.default_rng(0)
    goals = np.array([respond(accepted, int(x), graph, "uniform", rng) for x in nodes])
    moved = goals != nodes
    start, end = people.in_units(X[moved]), people.in_units(graph.features[goals[moved]])
    return json.dumps(np.column_stack([start, end, y[moved]]).round(2).tolist())


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    extra = frame["naive_train"] - frame["strategic_train"]
    gain = mean_interval(frame["strategic_after_accuracy"] - frame["naive_after_accuracy"])
    fewer = mean_interval(frame["naive_after_false_accept"] - frame["strategic_after_false_accept"])
    return [
        Verdict(
            "03.25",
            "After people have moved, the strategic rule never errs more often on its training "
            f"sample than logistic regression ({frame['data'].iloc[0]}).",
            f"{float(extra.min()):.3f} to {float(extra.max()):.3f} fewer errors; on held-out "
            f"people accuracy {gain} higher, false acceptances {fewer} fewer",
            ">= 0 fewer on every split",
            bool((extra >= -1e-12).all()),
        ),
        _labels_verdict(eps=0.1, delta=0.05),
    ]


def _labels_verdict(eps: float, delta: float) -> Verdict:
    """How many more labels four moves per person need than one, by the bound calculator.

    The sample size solves T = 32 / eps^2 (ln Phi_d(2 T (k+1)) + ln(4 / delta)), and ln Phi_d(m)
    grows by d per unit of ln m; so the difference is d ln(5/2) times 32 / eps^2, and a little
    more because T itself grows.
    """
    few, many = (bounds.pac_T_agnostic(_DIMENSION, k, eps, delta) for k in (1, 4))
    rate = 32 * _DIMENSION / eps**2
    low = rate * math.log(5 / 2)
    high = low / (1 - rate / few)
    return Verdict(
        "03.05",
        "How many more labels do five features need for k = 4 moves per person than for k = 1? "
        f"(error within {eps:g} of the best, confidence {1 - delta:.0%})",
        f"{many - few:,} more ({(many - few) / few:.1%}): {many:,} instead of {few:,}",
        f"d ln(5/2) 32/eps^2 = {low:,.0f}, at most {high:,.0f} as T grows",
        low <= many - few <= high + 1,
    )


def _bars(ax: Any, x: FloatArray, groups: list[Any], color: str, label: str) -> None:
    spans = [mean_interval(group) for group in groups]
    centres = np.array([float(group.mean()) for group in groups])
    low = np.maximum(centres - [s.low for s in spans], 0)
    high = np.maximum(np.array([s.high for s in spans]) - centres, 0)
    ax.bar(x, centres, 0.36, yerr=np.stack([low, high]), color=color, label=label, capsize=3)


def _figure(frame: pd.DataFrame) -> Figure:
    """Left: share of unqualified people accepted and of qualified people rejected on held-out
    applicants, before and after they move (mean and 95 % interval over splits). Right: acceptance
    rate after moving by the tenth of the naive score a person falls into (mean and 95 % interval);
    hollow: before moving.
    """
    figure, (left, right) = panels(2)
    kinds = [("before", "false_accept"), ("after", "false_accept"), ("before", "false_reject"),
             ("after", "false_reject")]  # fmt: skip
    x = np.arange(4.0)
    for i, (name, label) in enumerate(_MODELS.items()):
        groups = [frame[f"{name}_{when}_{kind}"] for when, kind in kinds]
        _bars(left, x + 0.38 * (i - 0.5), groups, PALETTE[i], label)
    left.set_xticks(x, ["accepted wrongly,\nnobody moves", "accepted wrongly,\nafter moving",
                        "rejected wrongly,\nnobody moves", "rejected wrongly,\nafter moving"],
                    fontsize=7)  # fmt: skip
    left.set(ylabel="share of people", ylim=(0, 1.25), title=f"Errors, {frame['data'].iloc[0]}")
    left.legend(fontsize=8, loc="upper left")
    tenths = np.arange(1, _BINS + 1)
    for i, (name, label) in enumerate(_MODELS.items()):
        for when, style, face in (("after", "o-", PALETTE[i]), ("before", "o:", "white")):
            rates = [frame[f"{name}_{when}_bin{b}"] for b in range(_BINS)]
            text = f"{label}, {when} moving"
            errorbars(right, tenths, rates, PALETTE[i], text, style, face)
    right.set(xlabel="tenth of the naive score (10: highest)", ylabel="acceptance rate",
              ylim=(-0.03, 1.4), title="Who is accepted")  # fmt: skip
    right.set_xticks(tenths)
    right.legend(fontsize=7, loc="upper left", ncol=1)
    return figure


def _movers_figure(frame: pd.DataFrame) -> Figure:
    """Who moves where, on the held-out applicants of one split, in two of the five features: an
    arrow from the true to the reported features of everybody who moves to be accepted (any
    accepted move is as good as another), a dot alone where the move is in another feature. The
    strategic rule (right) is stricter, so that fewer who move do not qualify.
    """
    figure, axes = panels(2)
    x_name, y_name = _AXES[str(frame["data"].iloc[0])]
    for ax, (name, label) in zip(axes, _MODELS.items()):
        text = frame.loc[frame["replicate"] == 0, f"{name}_arrows"].iloc[0]
        moves = np.array(json.loads(text), dtype=float).reshape(-1, 5)
        _draw_arrows(ax, moves[moves[:, 4] == 1], PALETTE[0], "qualified")
        _draw_arrows(ax, moves[moves[:, 4] == 0], PALETTE[1], "not qualified")
        ax.set(xlabel=x_name, ylabel=y_name, title=f"Accepted by moving, {label}")
        ax.legend(fontsize=8)
    axes[1].sharex(axes[0])
    axes[1].sharey(axes[0])
    for ax in axes:
        ax.autoscale()
    return figure


def _draw_arrows(ax: Axes, moves: FloatArray, color: str, who: str) -> None:
    x, y, to_x, to_y, _ = moves.T
    ax.scatter(x, y, s=10, color=color, label=f"{who}: {len(moves)}")
    ax.scatter(to_x, to_y, s=0)  # so that the window holds the tips
    ax.quiver(x, y, to_x - x, to_y - y, color=color, angles="xy", scale_units="xy", scale=1,
              width=0.004)  # fmt: skip


LENDER = Study(
    name="graph-lender",
    data=("german_credit",),
    title="A lender who knows the cheap moves",
    question=(
        "Applicants can take named actions within a budget. What happens to the errors of logistic "
        "regression once they do, and what does a rule trained for it save?"
    ),
    claims=("03.05", "03.25"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"lender": _figure, "movers": _movers_figure},
    version=2,
)
