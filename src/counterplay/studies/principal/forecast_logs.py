"""Logs of forecasts: flu trends by forecaster, and what experts' own forecasts reveal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.principal import (
    RecentAverage,
    UnbiasedForecaster,
    compare_forecasters,
    decision_audit,
)
from counterplay.principal.lab import EmpiricalMeanForecaster, EWMAForecaster
from counterplay.studies.principal.real_stream import decisions, flu_trends

if TYPE_CHECKING:
    import pandas as pd

FLU = ("recent average", "mixture of decays", "running mean", "unbiased", "guarded recent average",
       "guarded running mean")  # fmt: skip
EXPERTS = ("FluSight-ensemble", "FluSight-baseline", "all models", "Good Judgment")
_RISE = 1.2


def flu_run(order: str, name: str, seed: int) -> dict[str, float]:
    """Bias where staffing changes, log loss and cost of one forecaster, by place or by week."""
    from counterplay import datasets

    frame = datasets.fetch("flusight").frame
    y, week = flu_trends(frame), flu_weeks(frame)
    source: Any = {
        "recent average": EWMAForecaster(decay=0.05),
        "mixture of decays": RecentAverage(),
        "running mean": EmpiricalMeanForecaster(),
        "unbiased": UnbiasedForecaster(),
        "guarded recent average": UnbiasedForecaster(base=EWMAForecaster(decay=0.05)),
        "guarded running mean": UnbiasedForecaster(base=EmpiricalMeanForecaster()),
    }[name]
    found = compare_forecasters(
        y, {"it": source}, decisions(3), n_outcomes=3, random_state=seed,
        batches=week if order == "weeks" else None,
    )  # fmt: skip
    rows = found.to_frame()
    scores = found.scores.iloc[0]
    return {
        "bias": float(rows[rows["family"] == "staffing"]["alpha"].sum()),
        "log_loss": float(scores["log_loss"]),
        "cost": float(scores["decision_cost"]),
    }


def flu_weeks(frame: pd.DataFrame) -> Any:
    """The week of every trend, in the order of :func:`flu_trends`."""
    weekly = frame[["location", "target_end_date", "observed"]].astype(
        {"location": str, "target_end_date": str}
    )
    weekly = weekly.drop_duplicates(["location", "target_end_date"])
    weekly = weekly.sort_values(["target_end_date", "location"])
    ratio = weekly.groupby("location")["observed"].pct_change()
    known = ratio.replace([np.inf, -np.inf], np.nan).notna()
    return weekly["target_end_date"][known].to_numpy()


def expert_run(name: str) -> dict[str, float]:
    """Threshold revealed by experts who call a rise (or more likely than not), and their bias."""
    log = good_judgment() if name == "Good Judgment" else called_rises(name)
    found = decision_audit(
        log, decision="called", outcome="event", time="time", acting="yes",
        forecast="forecast" if "forecast" in log else None,
    )  # fmt: skip
    assert found.threshold is not None
    rows = found.to_frame().set_index("decision")
    record = {
        "decisions": float(rows["rows"].sum()),
        "called": float(rows.loc["yes", "rows"] / rows["rows"].sum()),
        "event_if_called": float(rows.loc["yes", "share"]),
        "event_if_not": float(rows.loc["no", "share"]),
        "low": found.threshold[0],
        "high": found.threshold[1],
    }
    for decision in ("yes", "no"):
        for side in ("bias", "bias_low", "bias_high"):
            known = side in rows
            record[f"{side}_{decision}"] = (
                float(rows.loc[decision, side]) if known else float("nan")
            )
    return record


def called_rises(model: str) -> pd.DataFrame:
    """Forecasts one week ahead: whether the median was a rise of 20 %, and whether it came."""
    from counterplay import datasets

    raw: Any = datasets.fetch("flusight").frame
    raw = raw.astype({"location": str, "target_end_date": str, "model": str})
    seen = raw.drop_duplicates(["location", "target_end_date"]).sort_values("target_end_date")
    before = seen.assign(before=seen.groupby("location")["observed"].shift(1))
    keys = ["location", "target_end_date"]
    own = raw[raw["horizon"] == 0]
    own = own if model == "all models" else own[own["model"] == model]
    own = own.merge(before[[*keys, "before"]], on=keys)
    own = own[own["before"] > 0]
    return own.assign(
        called=np.where(own["q50"] >= _RISE * own["before"], "yes", "no"),
        event=(own["observed"] >= _RISE * own["before"]).astype(int),
        time=own["target_end_date"],
    )[["called", "event", "time"]].reset_index(drop=True)


def good_judgment() -> pd.DataFrame:
    """Probabilities of the first option of questions with two; called if more likely than not."""
    from counterplay import datasets

    raw: Any = datasets.fetch("gjp").frame
    own = raw[(raw["n_opts"] == 2) & (raw["answer_option"].astype(str) == "a")]
    own = own[own["value"].between(0, 1)]
    return own.assign(
        called=np.where(own["value"] > 0.5, "yes", "no"),
        event=(own["outcome"].astype(str) == "a").astype(int),
        forecast=own["value"],
        time=own["ifp_id"].astype(str),
    )[["called", "event", "forecast", "time"]].reset_index(drop=True)
