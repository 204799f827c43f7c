"""What a user calls a model is the loss it minimises."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from counterplay.defection.models import objective_for
from defection.problems import table


def test_logistic_regression_is_its_own_minimum() -> None:
    frame = table()
    X, y = frame[list("abcd")].to_numpy(), (frame["label"] == "well").to_numpy().astype(int)
    fitted = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(X, y)
    model = objective_for(LogisticRegression(C=0.5), features=4, classes=2, rows=len(y))
    w = np.concatenate([fitted.coef_[0], fitted.intercept_])[None]
    weight = np.full((1, len(y)), 1 / len(y))
    _, accuracy, gradient = model.gradients(w, X[None], y[None], weight)
    assert np.abs(gradient).max() < 1e-6
    assert accuracy[0] == pytest.approx(fitted.score(X, y))
