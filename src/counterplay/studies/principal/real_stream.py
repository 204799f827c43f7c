"""Forecasts of a real outcome series: bias where decisions change, ours against the usual ones.

Quick: the diagnoses of the breast-cancer data in the order of the file, which starts with many
malignant cases. Full: weekly trends of flu hospital admissions (FluSight), if the data are there.
Source: Definition 7.2, see docs/theory/07-principal.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.principal import Decision, UnbiasedForecaster, compare_forecasters
from counterplay.principal.lab import (
    ClassifierForecaster,
    ConstantForecaster,
    EmpiricalMeanForecaster,
    EWMAForecaster,
    MostLikely,
    NetCalibratedForecaster,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

FORECASTERS = (
    "unbiased",
    "naive Bayes, corrected",
    "naive Bayes",
    "net-calibrated",
    "recent average",
    "average",
    "uniform",
)


def grid(scale: Scale) -> Sequence[Params]:
    """Series x forecaster x replicates of the lottery."""
    series = ["diagnoses"] if scale == "quick" else ["diagnoses", "flu"]
    return [
        {"series": name, "forecaster": forecaster, "replicate": i}
        for name in series
        for forecaster in FORECASTERS
        for i in range(1 if scale == "quick" else 10)
    ]


def outcomes(series: str) -> tuple[Any, int]:
    """Return the outcome codes and their number."""
    from counterplay import datasets

    if series == "diagnoses":
        return np.asarray(datasets.load("breast_cancer").y), 2
    frame = datasets.fetch("flusight").frame
    return flu_trends(frame), 3


def flu_trends(frame: pd.DataFrame) -> Any:
    """Weekly trend (0 down, 1 stable, 2 up; 20% either way) of all places, in order of time."""
    weekly = frame[["location", "target_end_date", "observed"]].astype(
        {"location": str, "target_end_date": str}
    )
    weekly = weekly.drop_duplicates(["location", "target_end_date"])
    weekly = weekly.sort_values(["target_end_date", "location"])
    ratio = weekly.groupby("location")["observed"].pct_change()
    ratio = ratio.replace([np.inf, -np.inf], np.nan).dropna()
    return np.digitize(ratio.to_numpy(), [-0.2, 0.2]).astype(np.int64)


def decisions(n: int) -> list[Any]:
    """Actions a hospital would take on the forecast, and the mode."""
    if n == 2:
        act = Decision([[0.0, 0.0], [0.3, -0.7]], name="second reading", actions=["no", "yes"])
        return [act, MostLikely()]
    staff = Decision(
        [[0.0, -0.1, -1.0], [-0.2, 0.0, -0.4], [-0.5, -0.3, 0.0]],
        name="staffing",
        actions=["less", "same", "more"],
    )
    return [staff, MostLikely()]


def cell(params: Params, seed: int) -> Record:
    """Total bias on the decisions and on the mode, and the scores."""
    from sklearn.naive_bayes import BernoulliNB

    y, n = outcomes(str(params["series"]))
    bayes = ClassifierForecaster(classifier=BernoulliNB(), memory=3)
    chosen: Any = {
        "unbiased": UnbiasedForecaster(),
        "naive Bayes, corrected": UnbiasedForecaster(base=bayes),
        "net-calibrated": NetCalibratedForecaster(eta=0.1),
        "average": EmpiricalMeanForecaster(),
        "recent average": EWMAForecaster(decay=0.05),
        "naive Bayes": bayes,
        "uniform": ConstantForecaster(),
    }[str(params["forecaster"])]
    found = compare_forecasters(y, {"this": chosen}, decisions(n), n_outcomes=n, random_state=seed)
    frame = found.to_frame()
    by_family = frame.groupby("family")["alpha"].sum()
    return {
        "rounds": found.rounds,
        "decision_bias": float(by_family[decisions(n)[0].name]),
        "mode_bias": float(by_family["most likely"]),
        "scaled": float(frame["scaled"].max()),
        "log_loss": float(found.scores["log_loss"].iloc[0]),
    }


def verdicts(frame: pd.DataFrame) -> Sequence[Verdict]:
    """The unbiased forecaster has a small bias on both families, on every series."""
    ours = frame[frame["forecaster"].isin(["unbiased", "naive Bayes, corrected"])]
    worst = ours[["decision_bias", "mode_bias"]].max(axis=1) * np.sqrt(ours["rounds"])
    naive = frame[frame["forecaster"] == "uniform"]["decision_bias"].max()
    return [
        at_most(
            "07.12",
            "On the real series the total bias on decisions and on the mode is small.",
            worst.max(),
            4,
            what=f"a constant forecast has bias {naive:.3f}; largest bias times sqrt(rounds)",
        )
    ]


def bias_figure(frame: pd.DataFrame) -> Figure:
    """Total bias on the decisions made with the forecast (left) and log loss (right) for every
    forecaster. Correcting a given model (naive Bayes) removes its bias and keeps its log loss."""
    series = list(dict.fromkeys(frame["series"]))
    figure, axes = panels(2, width=4.8, height=3.6)
    y = np.arange(len(FORECASTERS))
    for i, name in enumerate(series):
        mean = frame[frame["series"] == name].groupby("forecaster").mean(numeric_only=True)
        mean = mean.loc[list(FORECASTERS)]
        shift = (i - (len(series) - 1) / 2) * 0.38
        for axis, column in zip(axes, ("decision_bias", "log_loss")):
            height = 0.7 / len(series)
            axis.barh(y + shift, mean[column], height, color=PALETTE[i], label=name)
    for axis, label in zip(axes, ("total bias on decisions", "log loss")):
        axis.set_yticks(y, FORECASTERS)
        axis.invert_yaxis()
        axis.set_xlabel(label)
    axes[1].set_yticks(y, [""] * len(y))
    if len(series) > 1:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


REAL_STREAM = Study(
    name="real-stream",
    title="Decision bias on a real outcome series",
    question=(
        "On real, drifting outcomes, how biased are common forecasters on the rounds where they "
        "trigger a given action? The unbiased forecaster should stay within the square root of "
        "the rounds without knowing anything about the series."
    ),
    claims=("07.12",),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"bias": bias_figure},
    data=("flusight",),
    full_needs="the FluSight data",
)
