"""Unbiased forecasts for a staffing decision, and a commission that leaves no near-tie.

Part 1 uses a real outcome series: weekly trends of flu hospital admissions (FluSight) if the folder
COUNTERPLAY_DATA has them, else the first 300 diagnoses of the breast-cancer data, in their order.
"""

import numpy as np
from sklearn.naive_bayes import BernoulliNB

from counterplay import datasets
from counterplay.errors import DataUnavailableError, MissingDependencyError
from counterplay.principal import (
    Decision,
    UnbiasedForecaster,
    behaviour_audit,
    compare_forecasters,
    design_contract,
)
from counterplay.principal.lab import (
    ClassifierForecaster,
    EmpiricalMeanForecaster,
    EWMAForecaster,
    NetCalibratedForecaster,
    SpitefulAgent,
)


def flu_trends() -> np.ndarray:
    """0 down, 1 stable, 2 up (20% either way), all places in order of time."""
    weekly = datasets.fetch("flusight").frame[["location", "target_end_date", "observed"]]
    weekly = weekly.astype({"location": str, "target_end_date": str}).drop_duplicates(
        ["location", "target_end_date"]
    )
    weekly = weekly.sort_values(["target_end_date", "location"])
    change = weekly.groupby("location")["observed"].pct_change()
    change = change.replace([np.inf, -np.inf], np.nan).dropna()
    return np.digitize(change, [-0.2, 0.2])


try:
    outcomes = flu_trends()
    decision = Decision(
        [[0.0, -0.1, -1.0], [-0.2, 0.0, -0.4], [-0.5, -0.3, 0.0]],
        name="staffing",
        actions=["less", "same", "more"],
    )
    print("series: weekly flu trends")
except (DataUnavailableError, MissingDependencyError):
    outcomes = datasets.load("breast_cancer").y[:300]
    decision = Decision([[0.0, 0.0], [0.3, -0.7]], name="second reading", actions=["no", "yes"])
    print("series: diagnoses (set COUNTERPLAY_DATA for the flu data)")

model = ClassifierForecaster(classifier=BernoulliNB(), memory=3)
comparison = compare_forecasters(
    outcomes,
    {
        "unbiased": UnbiasedForecaster(),
        "naive Bayes": model,
        "naive Bayes, corrected": UnbiasedForecaster(base=model),
        "fully calibrated": NetCalibratedForecaster(eta=0.1),
        "recent average": EWMAForecaster(decay=0.05),
        "average": EmpiricalMeanForecaster(),
    },
    [decision],
)
print(comparison.summary())

# Part 2: today's commission for a contractor whose market follows the same series.
busy = (outcomes == outcomes.max()).astype(int)
design = design_contract(
    values=[[0.0, 0.0], [0.2, 0.5], [0.3, 1.0]],  # idle, normal, overtime x quiet, busy
    costs=[0.0, 0.08, 0.25],
    history=busy,
    agent=SpitefulAgent(),
    replicates=1,
)
print(design.summary())
print(design.to_frame().sort_values("regret", ascending=False).head(3).to_string(index=False))
print(behaviour_audit(design.transcript).summary())
comparison.plot().figure.savefig("principal_flu_staffing.png")
