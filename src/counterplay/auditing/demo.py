"""An audit without any file: cells of breast tumours, which come with scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counterplay.auditing.api import run_audit
from counterplay.auditing.config import Config
from counterplay.auditing.inputs import read_inputs
from counterplay.auditing.result import Audit

SETTINGS: dict[str, Any] = {
    "data": {"label": "benign", "positive": 1},
    "movable": {
        "mean texture": {"direction": "down", "step": 1.0, "cost": 0.25, "per": "step"},
        "mean radius": {"direction": "down", "step": 0.5, "cost": 0.5, "per": "step"},
    },
    "effort": {"budgets": [0.5, 1, 2], "unit": "days"},
    "costs": {"false_accept": 5, "false_reject": 1, "unit": "euro"},
}
_COLUMNS = ["mean radius", "mean texture", "mean concavity", "mean smoothness"]


def demo_audit(progress: Any = None, sections: Sequence[str] | None = None) -> Audit:
    """Audit a logistic regression on the half of the rows that it has not seen."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    frame = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "benign"})
    frame = frame[[*_COLUMNS, "benign"]]
    train, test = train_test_split(frame, test_size=0.5, random_state=0, stratify=frame["benign"])
    model = make_pipeline(StandardScaler(), LogisticRegression())
    model.fit(train[_COLUMNS], train["benign"])
    inputs = read_inputs(model, test, Config.of(SETTINGS), train=train)
    return run_audit(inputs, progress=progress, sections=sections)
