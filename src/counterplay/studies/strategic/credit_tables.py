"""Real tables of people who want a yes, as frames: what can move, what cannot, who is qualified.

Without a local copy of a table the breast cancer data that come with scikit-learn stand in.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from counterplay import datasets
from counterplay.core.validation import IntArray
from counterplay.errors import AssumptionWarning, DataUnavailableError, MissingDependencyError
from counterplay.strategic import Change, Moves

STAND_IN = "breast_cancer"
HELOC, TAIWAN, GMSC = "heloc", "taiwan", "give_me_some_credit"
ADULT, LAW, GERMAN = "adult", "law_school", "german_credit"
TITLES = {
    HELOC: "HELOC",
    TAIWAN: "Taiwan",
    GMSC: "Give Me Some Credit",
    ADULT: "Adult",
    LAW: "law school",
    GERMAN: "German",
    STAND_IN: "breast cancer",
}
LABELS = {
    HELOC: "RiskPerformance",
    TAIWAN: "default payment next month",
    GMSC: "SeriousDlqin2yrs",
    ADULT: "income",
    LAW: "pass_bar",
    GERMAN: "class",
}
LEFT_OUT = {TAIWAN: ["ID"], GMSC: ["Id"]}
FIXED = {
    HELOC: ["ExternalRiskEstimate", "MSinceOldestTradeOpen", "AverageMInFile"],
    TAIWAN: ["SEX", "EDUCATION", "MARRIAGE", "AGE"],
    GMSC: ["age", "NumberOfDependents"],
    ADULT: ["age"],
    LAW: ["male", "fam_inc"],
    GERMAN: ["age", "people_liable"],
    STAND_IN: ["mean texture"],
}


@dataclass(frozen=True, eq=False)
class People:
    """One table: columns as they are, labels with 1 the wanted outcome."""

    name: str
    X: pd.DataFrame
    y: IntArray

    @property
    def fixed(self) -> list[str]:
        """Columns that nobody can move."""
        return [name for name in FIXED[self.name] if name in self.X]

    def numbers(self) -> People:
        """Return the numeric columns, holes filled with the median."""
        X = self.X.select_dtypes("number").astype(float)
        return People(self.name, X.fillna(X.median()), self.y)


@lru_cache(maxsize=8)
def people(name: str) -> People:
    """Return a table as a frame; codes for "no record" are missing."""
    if name == STAND_IN:
        data = load_breast_cancer(as_frame=True)
        return People(name, data.data.iloc[:, :8], data.target.to_numpy())
    data = datasets.fetch(name, download=False)
    assert data.frame is not None
    X = data.frame.drop(columns=[LABELS[name], *LEFT_OUT.get(name, [])])
    if name == HELOC:
        X = X.astype(float)
        X = X.where(X >= 0)  # -9, -8, -7 mean "no record"
    known = X.notna().any(axis=1).to_numpy()  # people without any record are not scored
    return People(name, X[known].reset_index(drop=True), np.asarray(data.y)[known])


def available(name: str) -> bool:
    """Whether there is a local copy."""
    try:
        people(name)
    except (DataUnavailableError, MissingDependencyError):
        return False
    return True


def whole_moves(table: People, reference: pd.DataFrame) -> Moves:
    """Return moves of everything but what is fixed: a spread costs 1, whole numbers move by 1."""
    return Moves.all(reference, fixed=table.fixed)


def free_moves(table: People, reference: pd.DataFrame) -> Moves:
    """Return moves both ways within the seen range, without steps: a spread costs 1."""
    columns = {
        name: Change("both")
        for name in reference.columns
        if name not in table.fixed and reference[name].nunique() > 1
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)  # fractions of whole numbers, on purpose
        return Moves(columns, reference=reference)
