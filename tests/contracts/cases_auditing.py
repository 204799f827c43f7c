"""Contract cases of counterplay.auditing."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from counterplay.auditing import (
    Action,
    Audit,
    Config,
    Context,
    Figure,
    Finding,
    Gate,
    Grid,
    Missing,
    Quantity,
    SectionResult,
    Stage,
    audit,
)
from counterplay.auditing.findings import Chart, Column, Series
from counterplay.tables import Table


@cache
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"income": rng.normal(size=120), "debt": rng.normal(size=120)})
    return frame.assign(paid=(frame["income"] + rng.normal(size=120) > 0).astype(int))


@cache
def model() -> LogisticRegression:
    return LogisticRegression().fit(rows()[["income", "debt"]], rows()["paid"])


def call(**more: Any) -> dict[str, Any]:
    return {
        "model": model(), "table": rows(), "label": "paid", "positive": 1,
        "config": {"costs": {"false_accept": 5, "false_reject": 1}}, "sections": ["honest"],
        "time_budget": 3600.0, "random_state": 0, "n_jobs": 1, "progress": None, **more,
    }  # fmt: skip


@cache
def answer() -> Audit:
    config = {
        "effort": {"budgets": [1]},
        "movable": {"debt": {"direction": "down", "step": 1.0, "cost": 0.5, "per": "step"}},
    }
    return audit(**call(config=config, sections=["honest", "gaming"]))


def cost() -> Quantity:
    return Quantity(value=910, low=793, high=1023, unit="euro", basis="measured", n=1000)


def context() -> Context:
    frame = rows()[["income", "debt"]]
    return Context(
        table=Table.of(frame), labels=rows()["paid"].to_numpy(), positive=1, estimator=model(),
        template=LogisticRegression(), frame=rows(), rows="heldout",
    )  # fmt: skip


def seconds(pilot: Any, n: int) -> float:
    return 0.1 * n


def no_records(context: Any, items: Any) -> list[dict[str, Any]]:
    return []


def stage(**more: Any) -> Stage:
    settings = {"name": "rows", "items": 9, "n_min": 1, "n_want": 9, "seconds": seconds}
    return Stage(run=no_records, **{**settings, **more})


def chart() -> Chart:
    line = Series(label="as is", x=(0.0, 1.0), y=(910.0, 1354.0))
    return Chart(x_label="effort", y_label="euro", series=(line,))


CASES = {
    "audit": {
        "args": call,
        "bad": {
            "no table": lambda: audit(model(), 3, label="paid", positive=1),
            "no such label": lambda: audit(model(), rows(), label="pad", positive=1),
            "a progress that raises": lambda: audit(**call(progress=lambda a, b, c: 1 / 0)),
        },
    },
    "Audit": {
        "make": answer,
        "run": lambda made: (made.record.content_sha256, made.to_frame(), made.summary()),
        "no_example": "see audit",
    },
    "Quantity": {
        "make": cost,
        "run": lambda made: (str(made), Quantity.certain(3, unit="rows", n=9)),
        "bad": {
            "ends in the wrong order": lambda: Quantity(
                value=1.0, low=2.0, high=0.0, unit="", basis="found"
            )
        },
    },
    "Finding": {
        "make": lambda: Finding(
            name="a", sentence="It costs 910.", severity="high", quantity=cost()
        ),
    },
    "Action": {
        "make": lambda: Action(name="a", title="Move the cut", how="by hand", gain=cost()),
        "run": lambda made: made.advised,
    },
    "Gate": {"make": lambda: Gate(text="honest_money <= 900", verdict="fail", reason="910")},
    "Config": {
        "make": lambda: Config.of({"effort": {"budgets": [0.5, 1]}}),
        "run": lambda made: (made.effort.headline, made.part(["effort"]), made.moves_content()),
        "bad": {
            "an unknown table": lambda: Config.of({"cost": {}}),
            "no config": lambda: Config.of(3),
        },
    },
    "Context": {
        "make": context,
        "run": lambda made: (made.accepted, made.order, made.folds.of_row, made.wanted),
        "bad": {
            "other rows": lambda: Context(
                table=Table.of(rows()),
                labels=np.zeros(3),
                positive=1,
                estimator=model(),
                frame=rows(),
            )
        },
    },
    "Stage": {"make": stage, "run": lambda made: made.run(None, np.arange(3))},
    "SectionResult": {
        "make": lambda: SectionResult(name="a", title="A", quantities={"cost": cost()}),
        "run": lambda made: made.to_frame(),
    },
    "Missing": {"make": lambda: Missing(sentence="Say what people can spend.")},
    "Figure": {"make": lambda: Figure(title="Money", alt="It rises.", chart=chart())},
    "Grid": {
        "make": lambda: Grid(title="a", columns=(Column(name="x"),), rows=((1,), (cost(),))),
        "bad": {
            "a row that is too long": lambda: Grid(
                title="a", columns=(Column(name="x"),), rows=((1, 2),)
            )
        },
    },
}
