"""A small table of loans, a model of it, its settings, and one audit that several tests read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import counterplay


def loans_of(n: int = 240, seed: int = 0) -> pd.DataFrame:
    """Loans with numbers, categories, holes, a group, and an outcome that is not 0/1."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": rng.normal(30, 8, n).round(1),
            "debt": rng.gamma(2.0, 4.0, n).round(1),
            "late": rng.poisson(1.0, n),
            "purpose": rng.choice(["car", "home", "trip"], n),
            "sex": rng.choice(["f", "m"], n),
        }
    )
    score = 0.15 * (frame["income"] - 30) - 0.12 * (frame["debt"] - 8) - 0.8 * frame["late"] + 1.2
    score += (frame["purpose"] == "home") * 0.8
    good = rng.random(n) < 1 / (1 + np.exp(-score))
    frame.loc[rng.choice(n, 6, replace=False), "income"] = np.nan
    return frame.assign(outcome=np.where(good, "paid", "lost"))


def make_model() -> Any:
    """A pipeline that takes the table as it is."""
    return make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
            (
                make_pipeline(SimpleImputer(strategy="median"), StandardScaler()),
                make_column_selector(dtype_include="number"),
            ),
        ),
        LogisticRegression(),
    )


SETTINGS: dict[str, Any] = {
    "data": {"label": "outcome", "positive": "paid", "rows": "heldout"},
    "columns": {"fixed": ["sex"], "group": ["sex"]},
    "movable": {
        "debt": {"direction": "down", "step": 2.0, "cost": 0.5, "per": "step", "low": 0.0},
        "purpose": {"cost": 0.3},
    },
    "effort": {"budgets": [0.5, 1, 2], "unit": "days"},
    "costs": {"false_accept": 5, "false_reject": 1, "unit": "euro"},
}


@pytest.fixture(scope="session")
def make_loans() -> Any:
    return loans_of


@pytest.fixture(scope="session")
def loans() -> pd.DataFrame:
    return loans_of()


@pytest.fixture(scope="session")
def loan_model() -> Any:
    train = loans_of(300, seed=1)
    return make_model().fit(train.drop(columns="outcome"), train["outcome"])


@pytest.fixture
def settings() -> dict[str, Any]:
    return {key: dict(value) for key, value in SETTINGS.items()}


@pytest.fixture(scope="session")
def audited(loans: pd.DataFrame, loan_model: Any) -> Any:
    gates = {"gates": {"require": ["gamed_money at budget=1 <= 10", "honest_accuracy >= 0.2"]}}
    config = SETTINGS | gates
    return counterplay.audit(
        loan_model, loans, config=config, sections=["honest", "gaming"], time_budget=3600.0
    )


@pytest.fixture(scope="session")
def real() -> Any:
    """A reader of the real tables, where they are."""

    def read(name: str) -> pd.DataFrame:
        folder = os.environ.get("COUNTERPLAY_DATA")
        if folder is None or not Path(folder, f"{name}.parquet").is_file():
            pytest.skip(f"COUNTERPLAY_DATA with {name}.parquet is not set")
        return pd.read_parquet(Path(folder, f"{name}.parquet"))

    return read
