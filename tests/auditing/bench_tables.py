"""Small tables, models and contexts for the tests of the audit's sections."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from counterplay.auditing.context import Context
from counterplay.auditing.plan import run_plan
from counterplay.auditing.runs import Run
from counterplay.tables import Table

FOLDER = Path(os.environ.get("COUNTERPLAY_DATA", "/nowhere"))
real_data = pytest.mark.skipif(
    not (FOLDER / "german_credit.parquet").is_file(),
    reason="COUNTERPLAY_DATA does not name a folder with german_credit.parquet",
)

MOVES = {
    "debt": {"direction": "down", "step": 1.0, "cost": 0.25, "per": "step", "low": 0.0},
    "home": {"switch": {"rent": {"own": 0.5}}},
}
COSTS = {"false_accept": 5, "false_reject": 1, "unit": "euro"}


def people(n: int = 400, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """A table with numbers and a category; outcome 1 is wanted by about 60 %."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "debt": rng.integers(0, 12, n).astype(float),
            "income": rng.normal(5, 2, n).round(2),
            "home": rng.choice(["rent", "own"], n),
            "age": rng.integers(18, 80, n),
        }
    )
    score = frame["income"] - 0.5 * frame["debt"] + (frame["home"] == "own") - 1.5
    return frame, (score + rng.logistic(0, 1.2, n) > 0).to_numpy().astype(int)


def linear(penalty: float = 1.0) -> Any:
    """A logistic regression behind an encoder of words."""
    prepare = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(prepare, LogisticRegression(C=penalty, max_iter=1000))


def boosted(**settings: Any) -> Any:
    """Boosted trees behind an encoder of words."""
    encode = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    prepare = make_column_transformer(
        (encode, make_column_selector(dtype_exclude="number")), remainder="passthrough"
    )
    return make_pipeline(prepare, HistGradientBoostingClassifier(random_state=0, **settings))


def context_of(
    frame: pd.DataFrame, labels: Any, model: Any = None, *, fitted: Any = None, **more: Any
) -> Context:
    """The context of a model (fitted on these rows unless given fitted) and a table."""
    estimator = linear() if model is None else model
    settings = {
        "movable": MOVES, "effort": {"budgets": [0.5, 1, 2], "unit": "days"}, "costs": COSTS
    }  # fmt: skip
    settings = {**settings, **more.pop("settings", {})}
    whole = more.pop("whole", frame)
    return Context(
        table=Table.of(frame), labels=np.asarray(labels), positive=more.pop("positive", 1),
        estimator=clone(estimator).fit(frame, labels) if fitted is None else fitted,
        template=more.pop("template", estimator), frame=whole, settings=settings,
        model_key=more.pop("model_key", "test"), **more,
    )  # fmt: skip


def run(context: Context, *sections: Any, **more: Any) -> Run:
    """Run sections with time enough for everything."""
    found = run_plan(context, sections=list(sections), time_budget=1e5, **more)
    assert not found.failed, found.failed
    return found


def table(name: str) -> pd.DataFrame:
    """A real table of the local folder."""
    return pd.read_parquet(FOLDER / f"{name}.parquet")
