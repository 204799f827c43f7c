"""A lender who knows the cheap moves, on real applicants. Source: spec 03 section 9.

German credit data where a local copy is found (COUNTERPLAY_DATA), else the breast cancer data that
come with scikit-learn; the records say which. Actions are in the features' own units.
"""

from __future__ import annotations

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
    induced_predictions,
    strategic_accuracy,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_BINS = 10
_MODELS = {"naive": "logistic regression", "strategic": "StrategicLinearClassifier"}


@lru_cache(maxsize=2)
def applicants(name: str) -> tuple[FloatArray, IntArray, ManipulationGraph]:
    """Standardised features, labels and the graph of affordable actions."""
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
    return (X + 0.0 - mean) / scale, np.asarray(data.y, dtype=np.int64), graph


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
    X, y, graph = applicants(str(params["data"]))
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.4, random_state=seed % 2**32, stratify=y
    )
    naive = LogisticRegression().fit(X_train, y_train)
    strategic = StrategicLinearClassifier().fit(X_train, y_train, graph=graph)
    record: dict[str, float] = {"moves": float(graph.degrees[graph.node_of(X_test)].mean())}
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
    return record


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
        )
    ]


def _bars(ax: Any, x: FloatArray, groups: list[Any], color: str, label: str) -> None:
    spans = [mean_interval(group) for group in groups]
    centres = np.array([float(group.mean()) for group in groups])
    low = np.maximum(centres - [s.low for s in spans], 0)
    high = np.maximum(np.array([s.high for s in spans]) - centres, 0)
    ax.bar(x, centres, 0.36, yerr=np.stack([low, high]), color=color, label=label, capsize=3)


def _figure(frame: pd.DataFrame) -> Figure:
    """Left: share of unqualified people accepted and of qualified people rejected on held-out
    applicants, before and after they move (mean and 95 % interval over splits). Right: acceptance
    rate after moving by the tenth of the naive score a person falls into; hollow: before moving.
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
            rates = [float(frame[f"{name}_{when}_bin{b}"].mean()) for b in range(_BINS)]
            text = f"{label}, {'after' if when == 'after' else 'before'} moving"
            right.plot(tenths, rates, style, color=PALETTE[i], mfc=face, label=text)
    right.set(xlabel="tenth of the naive score (10: highest)", ylabel="acceptance rate",
              ylim=(-0.03, 1.4), title="Who is accepted")  # fmt: skip
    right.set_xticks(tenths)
    right.legend(fontsize=7, loc="upper left", ncol=1)
    return figure


LENDER = Study(
    name="graph-lender",
    title="A lender who knows the cheap moves",
    question=(
        "Applicants can take named actions within a budget. What happens to the errors of logistic "
        "regression once they do, and what does a rule trained for it save?"
    ),
    claims=("03.25",),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"lender": _figure},
)
