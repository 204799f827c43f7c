"""The report for people who make moves: budgets, brackets, value, weights, groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterplay.errors import InvalidInputError
from counterplay.strategic import Change, Moves, cheapest_moves, gaming_report
from strategic.test_cheapest import credit, encoded, whole_moves


@pytest.mark.claim("20.14")
@pytest.mark.parametrize(
    "final",
    [LogisticRegression(), GradientBoostingClassifier(n_estimators=5), KNeighborsClassifier()],
)
def test_without_a_budget_nobody_moves(final: Any) -> None:
    X, y = credit()
    model = encoded(final).fit(X, y)
    row = gaming_report(model, X, y, whole_moves(X), budget=[0]).to_frame().iloc[0]
    assert row["accuracy"] == model.score(X, y) == row["accuracy_low"] == row["accuracy_high"]
    assert row["moved"] == 0


def test_counts_follow_from_the_prices() -> None:
    X, y = credit()
    model = encoded(LogisticRegression()).fit(X, y)
    moves = whole_moves(X)
    plan = cheapest_moves(model, X, moves)
    report = gaming_report(model, X, y, moves, budget=[0, 1, 2, 4])
    frame = report.to_frame().set_index("budget")
    for r in (0, 1, 2, 4):
        after = plan.upper <= r
        assert frame.loc[r, "accuracy"] == (after == y).mean()
        assert frame.loc[r, "false_positives"] == (after & (y == 0)).sum()
        moved = after & (plan.upper > 0)
        assert frame.loc[r, "moved"] == moved.sum()
        assert frame.loc[r, "social_burden"] == pytest.approx(
            np.where(moved, plan.upper, 0)[y == 1].mean()
        )
    assert set(report.moves(2)["person"]) == set(X.index[(plan.upper > 0) & (plan.upper <= 2)])
    text = report.summary()
    assert "wanted: 1" in text
    assert "price 1 = one raw unit" in text
    assert "3 of 5 columns can move" in text


def test_searched_models_show_what_is_certified() -> None:
    X, y = credit()
    model = encoded(KNeighborsClassifier()).fit(X, y)
    row = gaming_report(model, X, y, whole_moves(X), budget=2.0).to_frame().iloc[0]
    assert not row["exact"]
    assert row["accuracy_low"] <= row["accuracy"] <= row["accuracy_high"]
    rejected = model.predict(X) == 0
    assert row["accuracy_low"] == pytest.approx(
        (len(X) - (y == 0).sum() - (rejected & (y == 1)).sum() + _movers(model, X, y)) / len(X)
    )


def _movers(model: Any, X: pd.DataFrame, y: Any) -> int:
    plan = cheapest_moves(model, X, whole_moves(X), budget=2.0)
    return int(((plan.upper > 0) & (plan.upper <= 2.0) & (y == 1)).sum())


@pytest.mark.claim("20.27")
def test_value_and_weights() -> None:
    X, y = credit()
    model = encoded(LogisticRegression()).fit(X, y)
    moves, value = whole_moves(X), [[0.0, -5.0], [0.0, 1.0]]
    plan = cheapest_moves(model, X, moves)
    row = gaming_report(model, X, y, moves, budget=2.0, value=value).to_frame().iloc[0]
    after = plan.upper <= 2.0
    worth = sum((1.0 if good else -5.0) for good, yes in zip(y == 1, after) if yes)
    assert row["value"] == pytest.approx(worth / len(y))
    weights = np.arange(len(y)) % 3
    again = np.repeat(np.arange(len(y)), weights)
    weighted = gaming_report(model, X, y, moves, budget=2.0, value=value, sample_weight=weights)
    repeated = gaming_report(
        model, X.iloc[again].reset_index(drop=True), y[again], moves, budget=2.0, value=value
    )
    names = ["accuracy", "acceptance_rate", "false_positives", "moved", "social_burden", "value"]
    a, b = weighted.to_frame().iloc[0][names], repeated.to_frame().iloc[0][names]
    assert a.astype(float).to_numpy() == pytest.approx(b.astype(float).to_numpy())


@pytest.mark.claim("20.27")
def test_burden_gap_by_hand() -> None:
    X = pd.DataFrame({"late": [0.0, 3.0, 4.0, 0.0, 2.0, 6.0]})
    model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [1, 1, 0, 0])  # yes below 1.5
    model = LogisticRegression().fit(pd.DataFrame({"late": [0.0, 1, 2, 3]}), [1, 1, 0, 0])
    moves = Moves({"late": Change("down", step=1, per="unit", low=0)})
    y, groups = [1, 1, 1, 1, 1, 0], ["a", "a", "a", "b", "b", "b"]
    report = gaming_report(model, X, y, moves, budget=[2], groups=groups)
    row = report.to_frame().iloc[0]
    assert row["burden_gap"] == pytest.approx((0 + 2 + 3) / 3 - (0 + 1) / 2)
    assert row["acceptance_gap"] == pytest.approx(0.0)  # two of three in both groups
    assert report.by_group()["false_positives"].tolist() == [0, 0]


def test_columns_in_another_order_give_the_same_report() -> None:
    X, y = credit()
    model = encoded(LogisticRegression()).fit(X, y)
    one = gaming_report(model, X, y, whole_moves(X)).to_frame()
    two = gaming_report(model, X[X.columns[::-1]], y, whole_moves(X)).to_frame()
    pd.testing.assert_frame_equal(one, two)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"budget": -1}, "budget must be numbers of at least 0"),
        ({"budget": [0, np.nan]}, "budget must be numbers of at least 0"),
        ({"budget": "much"}, "budget must be numbers of at least 0"),
        ({"value": [1, 2]}, r"value must be \[\[tn, fp\]"),
        ({"confidence": 2.0}, "confidence must be in"),
        ({"sample_weight": [1.0]}, "sample_weight"),
        ({"groups": ["a"]}, "groups has 1 entries"),
        ({"costs": [1.0]}, "costs belongs to the ball"),
    ],
)
def test_bad_arguments_are_refused_before_the_search(given: Any, message: str) -> None:
    X, y = credit()
    model = encoded(LogisticRegression()).fit(X, y)
    with pytest.raises(InvalidInputError, match=message):
        gaming_report(model, X, y, whole_moves(X), **given)


def test_without_moves_people_stay_in_a_ball() -> None:
    X, y = credit()
    numbers = X[["income", "age"]]
    model = LogisticRegression(max_iter=1000).fit(numbers, y)
    given = {"budget": [0.0, 1.0], "groups": X["home"], "value": [[0.0, -1.0], [0.0, 1.0]]}
    one = gaming_report(model, numbers, y, **given)
    two = gaming_report(model, numbers, y, Moves.ball(numbers), **given)
    pd.testing.assert_frame_equal(one.to_frame(), two.to_frame())
    with pytest.raises(InvalidInputError, match="give radius once"):
        gaming_report(model, numbers, y, 1.0, radius=1.0)


@pytest.mark.claim("20.27")
def test_in_a_ball_the_ranking_of_a_linear_model_is_the_honest_one() -> None:
    """Everybody gains the same; against a cut that is in force the scores bunch up behind it."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:, :6]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X, y)
    report = gaming_report(model, X, y, Moves.ball(X), budget=[0.5, 1.0])
    frame = report.ranking().set_index("budget")
    honest = roc_auc_score(y, model.decision_function(X))
    np.testing.assert_allclose(frame["auc_shown"], honest, atol=1e-12)
    np.testing.assert_allclose(frame["auc_shown_low"], frame["auc_shown_high"])
    fpr, tpr, _ = roc_curve(y, model.decision_function(X))
    np.testing.assert_allclose(frame["ks_shown"], np.abs(tpr - fpr).max(), atol=1e-12)
    assert frame.loc[1.0, "auc_seen"] < honest
    assert frame.loc[0.0, "auc_seen"] == pytest.approx(honest)


@pytest.mark.claim("20.27")
def test_every_measure_has_its_two_intervals() -> None:
    X, y = credit()
    for final in (LogisticRegression(), KNeighborsClassifier()):
        model = encoded(final).fit(X, y)
        value = [[0.0, -5.0], [0.0, 1.0]]
        report = gaming_report(model, X, y, whole_moves(X), budget=[0, 2], value=value)
        frame = report.intervals(2.0)
        row = report.to_frame().set_index("budget").loc[2]
        assert (frame["low"] <= frame["estimate"] + 1e-12).all()
        assert (frame["estimate"] <= frame["high"] + 1e-12).all()
        assert (frame["ci_low"] <= frame["estimate"] + 1e-12).all()
        assert (frame["estimate"] <= frame["ci_high"] + 1e-12).all()
        assert frame.loc["accuracy", "estimate"] == row["accuracy"]
        assert frame.loc["false_positive_rate", "estimate"] == row["false_positives"] / len(y)
        assert frame.loc["value", "estimate"] == pytest.approx(row["value"])
        assert frame.loc["social_burden", "estimate"] == pytest.approx(row["social_burden"])
