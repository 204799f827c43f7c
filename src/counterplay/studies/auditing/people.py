"""Real tables as an audit sees them: columns as shipped, what can move, which model.

Without a local copy the breast cancer data that come with scikit-learn stand in.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from counterplay import datasets
from counterplay.auditing.context import Context
from counterplay.auditing.plan import run_plan
from counterplay.auditing.runs import Run
from counterplay.auditing.section import Section
from counterplay.core.validation import IntArray
from counterplay.errors import DataUnavailableError, MissingDependencyError
from counterplay.tables import Table

STAND_IN = "breast_cancer"
LABELS = {
    "german_credit": "class",
    "heloc": "RiskPerformance",
    "taiwan": "default payment next month",
    "adult": "income",
    "sms_spam": "label",
    STAND_IN: "benign",
}
WANTED: dict[str, Any] = {
    "german_credit": 1, "heloc": 0, "taiwan": 0, "adult": ">50K", "sms_spam": "ham", STAND_IN: 1
}  # fmt: skip
LEFT_OUT = {"taiwan": ["ID"]}
CODES = {"heloc": {"*": [-9, -8, -7]}}
MOVABLE: dict[str, dict[str, Any]] = {
    "german_credit": {
        "duration_months": {"direction": "down", "step": 3, "cost": 0.25, "per": "step", "low": 4},
        "credit_amount": {"direction": "down", "step": 500, "cost": 0.25, "per": "step",
                          "low": 250},
        "status_checking": {"switch": {"A11": {"A12": 0.5, "A13": 1.5}, "A12": {"A13": 1.0}}},
        "savings": {"switch": {"A61": {"A62": 0.5, "A63": 1.0}, "A62": {"A63": 0.5}}},
        "purpose": {"cost": 0.3},
        "telephone": {"switch": {"A191": {"A192": 0.2}}},
        "existing_credits": {"direction": "down", "step": 1, "cost": 1.0, "per": "step", "low": 1},
    },
    "heloc": {
        "NumInqLast6M": {"direction": "down", "step": 1, "cost": 0.25, "per": "step", "low": 0},
        "NetFractionRevolvingBurden": {"direction": "down", "step": 10, "cost": 0.5,
                                       "per": "step", "low": 0},
        "NumRevolvingTradesWBalance": {"direction": "down", "step": 1, "cost": 0.5, "per": "step",
                                       "low": 0},
    },
    "taiwan": {
        "PAY_0": {"direction": "down", "step": 1, "cost": 1.0, "per": "step", "low": 0},
        "BILL_AMT1": {"direction": "down", "step": 10000, "cost": 0.25, "per": "step", "low": 0},
        "PAY_AMT1": {"direction": "up", "step": 5000, "cost": 0.5, "per": "step", "high": 50000},
    },
    STAND_IN: {
        "mean texture": {"direction": "down", "step": 1.0, "cost": 0.25, "per": "step"},
        "mean radius": {"direction": "down", "step": 0.5, "cost": 0.5, "per": "step"},
    },
}  # fmt: skip
SPLITS = {"german_credit": 400, "heloc": 1000, "taiwan": 1000, "sms_spam": 1000, STAND_IN: 200}


@lru_cache(maxsize=4)
def table(name: str) -> tuple[pd.DataFrame, Any]:
    """Return features and outcomes of a table as it is shipped."""
    if name == STAND_IN:
        data = load_breast_cancer(as_frame=True)
        return data.data.iloc[:, :6], data.target.to_numpy()
    frame = datasets.fetch(name, download=False).frame
    assert frame is not None
    frame = frame.drop(columns=LEFT_OUT.get(name, []))
    label = LABELS[name]
    return frame.drop(columns=label), frame[label].to_numpy()


def available(name: str) -> bool:
    """Whether there is a local copy."""
    try:
        table(name)
    except (DataUnavailableError, MissingDependencyError):
        return False
    return True


def model_of(kind: str) -> Any:
    """Return an unfitted model: ``LR``, ``HGB`` or ``text``."""
    if kind == "text":
        # Both outcomes weigh the same: small blocks of a plain model never say spam.
        model = LogisticRegression(max_iter=1000, class_weight="balanced")
        return make_pipeline(TfidfVectorizer(), model)
    words = make_column_selector(dtype_exclude="number")
    numbers = make_column_selector(dtype_include="number")
    if kind == "HGB":
        encode = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        return make_pipeline(
            make_column_transformer((encode, words), remainder="passthrough"),
            HistGradientBoostingClassifier(random_state=0),
        )
    return make_pipeline(
        make_column_transformer(
            (StandardScaler(), numbers), (OneHotEncoder(handle_unknown="ignore"), words)
        ),
        LogisticRegression(max_iter=2000),
    )


def rows_of(name: str, frame: pd.DataFrame, rows: IntArray) -> Any:
    """Return rows as the model takes them: a frame, or texts."""
    if name == "sms_spam":
        return frame["text"].iloc[rows].tolist()
    return frame.iloc[rows].reset_index(drop=True)


def context_of(
    name: str,
    kind: str,
    rows: IntArray,
    train: IntArray | None = None,
    *,
    told: bool = True,
    settings: Mapping[str, Any] | None = None,
) -> Context:
    """Return the audit of a model of one kind: fitted on ``train``, or on the rows themselves.

    Where it is not ``told``, it has to find out whether it was fitted on the rows.
    """
    frame, labels = table(name)
    fitted_on = rows if train is None else train
    template = model_of(kind)
    own = rows_of(name, frame, fitted_on)
    config: Mapping[str, Any] = {
        "movable": MOVABLE.get(name, {}),
        "effort": {"budgets": [0.5, 1, 2], "unit": "units"},
        "costs": {"false_accept": 5, "false_reject": 1, "unit": "units"},
        "planted": {"rows": [1, 5, 10]},
        "data": {"special_codes": CODES.get(name, {})},
        **(settings or {}),
    }
    return Context(
        table=Table.of(rows_of(name, frame, rows)), labels=labels[rows], positive=WANTED[name],
        estimator=model_of(kind).fit(own, labels[fitted_on]), template=template,
        frame=frame.iloc[rows].reset_index(drop=True), settings=config,
        train=(Table.of(own), labels[train]) if told and train is not None else None,
        rows="unknown" if not told else "training" if train is None else "heldout",
    )  # fmt: skip


def split(name: str, seed: int = 0, most: int | None = None) -> tuple[IntArray, IntArray]:
    """Return training and test rows of one split."""
    order = np.random.default_rng(seed).permutation(len(table(name)[1]))
    size = SPLITS[name]
    rest = order[size:] if most is None else order[size : size + most]
    return np.sort(rest), np.sort(order[:size])


def whole_run(context: Context, *sections: Section) -> Run:
    """Return the run of some sections with time enough; one that was interrupted is no result."""
    found = run_plan(context, sections=list(sections), time_budget=1e6)
    if found.interrupted:
        raise KeyboardInterrupt
    return found
