"""Honest and gamed accuracy side by side, and what a moved threshold buys back.

Source: "Setting", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.strategic import Moves, gaming_report, rethreshold
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_MODELS = ("logistic regression", "decision tree", "random forest", "re-thresholded logistic")


def _grid(scale: Scale) -> list[Params]:
    radii = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0] if scale == "quick" else np.linspace(0, 4, 17).tolist()
    runs = 2 if scale == "quick" else 10
    return [
        {"model": name, "replicate": i, "radii": ",".join(f"{r:g}" for r in radii)}
        for name in _MODELS
        for i in range(runs)
    ]


def _cell(params: Params, seed: int) -> Record:
    name = str(params["model"])
    radii = [float(r) for r in str(params["radii"]).split(",")]
    X, y = load_breast_cancer(return_X_y=True)
    split = int(params["replicate"] or 0)  # the same split for all models
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=split)
    scaler = StandardScaler().fit(X_train)
    X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    model = _make(name, seed).fit(X_train, y_train)
    record: dict[str, float] = {"honest": float(model.score(X_test, y_test))}
    ball = Moves.ball(X_train, per="unit")
    if name == "re-thresholded logistic":
        for k, r in enumerate(radii):
            ready = rethreshold(model, X_train, None, ball, r, objective="decisions").model
            report = gaming_report(ready, X_test, y_test, ball, budget=r).to_frame().iloc[0]
            _write(record, k, report)
        return record
    report = gaming_report(model, X_test, y_test, ball, budget=radii).to_frame()
    for k, row in enumerate(report.to_dict("records")):
        _write(record, k, row)
    return record


def _make(name: str, seed: int) -> Any:
    if name == "decision tree":
        return DecisionTreeClassifier(max_depth=5, random_state=seed % 2**31)
    if name == "random forest":
        return RandomForestClassifier(20, max_depth=6, random_state=seed % 2**31)
    return LogisticRegression(max_iter=1000)


def _write(record: dict[str, float], k: int, row: Any) -> None:
    record[f"radius{k}"] = float(row["budget"])
    for column in ("accuracy", "accuracy_low", "accuracy_high"):
        record[f"{column}{k}"] = float(row[column])


def _values(frame: pd.DataFrame, model: str, column: str) -> Any:
    count = len(str(frame["radii"].iloc[0]).split(","))
    part = frame[frame["model"] == model]
    return part[[f"{column}{k}" for k in range(count)]].to_numpy(dtype=float)


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    ready = _values(frame, "re-thresholded logistic", "accuracy")
    honest = frame[frame["model"] == "re-thresholded logistic"]["honest"].to_numpy()[:, None]
    naive = _values(frame, "logistic regression", "accuracy")
    forest = [_values(frame, "random forest", f"accuracy{end}") for end in ("_low", "", "_high")]
    return [
        equals(
            "02.36",
            "Among applicants who move, the re-thresholded model has the honest accuracy of the "
            "original, at every radius.",
            float(np.abs(ready - honest).max()),
            0.0,
            what="largest difference",
        ),
        Verdict(
            "02.34",
            "Without it, accuracy falls when people can move.",
            f"from {naive[:, 0].mean():.3f} to {naive[:, -1].mean():.3f}",
            "lower",
            bool(naive[:, -1].mean() < naive[:, 0].mean()),
        ),
        Verdict(
            "20.06",
            "The certified range of the forest contains what the moves found do.",
            f"range at the largest radius [{forest[0][:, -1].mean():.3f}, "
            f"{forest[2][:, -1].mean():.3f}], moves {forest[1][:, -1].mean():.3f}",
            "contained",
            bool((forest[0] <= forest[1]).all() and (forest[1] <= forest[2]).all()),
        ),
    ]


def _figure(frame: pd.DataFrame) -> Figure:
    """Accuracy on breast cancer data when everybody can move by the given Euclidean effort
    (standardised features). The band is the certified range for the forest; the dashed line is
    the honest accuracy of the logistic regression.
    """
    figure, (ax,) = panels(1, width=7.0)
    for name, color, marker in zip(_MODELS, PALETTE, "os^v"):
        r = _values(frame, name, "radius").mean(axis=0)
        mean = _values(frame, name, "accuracy").mean(axis=0)
        ax.plot(r, mean, marker=marker, color=color, label=name)
        if name == "random forest":
            low, high = (
                _values(frame, name, f"accuracy_{e}").mean(axis=0) for e in ("low", "high")
            )
            ax.fill_between(r, low, high, color=color, alpha=0.15, linewidth=0)
    honest = frame[frame["model"] == "logistic regression"]["honest"].mean()
    ax.axhline(float(honest), label="logistic regression, honest", **THEORY)
    ax.set(
        xlabel="effort an applicant can afford",
        ylabel="accuracy",
        title="Honest and gamed accuracy",
    )
    ax.legend(fontsize=8)
    return figure


GAMING = Study(
    name="gaming",
    title="Honest and gamed accuracy of fitted models",
    question=(
        "How much accuracy does a fitted model lose when everybody can move by a given effort, and "
        "does a moved threshold help? Exact for linear models and trees, certified for forests."
    ),
    claims=("02.34", "02.36", "20.06"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"accuracy": _figure},
)
