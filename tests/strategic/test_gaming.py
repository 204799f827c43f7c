"""The gaming report, re-thresholding, and the value of information."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from counterplay.errors import InvalidInputError
from counterplay.strategic import (
    Change,
    LinearClass,
    Moves,
    gaming_report,
    rethreshold,
    value_of_information,
)
from counterplay.strategic.graphs.bags import best_threshold
from counterplay.strategic.lab import NormMetric


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, ...]:
    X, y = load_breast_cancer(return_X_y=True)
    parts = train_test_split(StandardScaler().fit_transform(X), y, random_state=0)
    return tuple(parts)


@pytest.mark.claim("02.34")
@pytest.mark.parametrize(
    "model",
    [LogisticRegression(max_iter=1000), DecisionTreeClassifier(random_state=0), LinearSVC()],
    ids=["logistic", "tree", "svm"],
)
def test_report_counts_what_happens(model: Any, data: tuple[np.ndarray, ...]) -> None:
    X_train, X, y_train, y = data
    model.fit(X_train, y_train)
    radii = [0.0, 0.5, 1.0, 2.0]
    report = gaming_report(model, X, y, Moves.ball(X_train, per="unit"), budget=radii)
    frame = report.to_frame().set_index("budget")
    assert frame.loc[0.0, "accuracy"] == model.score(X, y)
    assert (frame["false_positives"].diff().dropna() >= 0).all()
    assert (frame["false_negatives"].diff().dropna() <= 0).all()
    for r in radii:
        changed = report.moves(r)
        reported = X.copy()
        reported[changed["person"].tolist(), changed["column"].tolist()] = changed["after"]
        paid = NormMetric().length(reported - X)
        assert (paid <= r * (1 + 1e-6) + 1e-9).all()
        decided = model.predict(reported)  # let the model decide on what people report
        assert np.mean(decided == y) == pytest.approx(frame.loc[r, "accuracy"])
        assert int(((decided == 1) & (y == 0)).sum()) == frame.loc[r, "false_positives"]
        assert int(((decided == 0) & (y == 1)).sum()) == frame.loc[r, "false_negatives"]
        assert changed["person"].nunique() == frame.loc[r, "moved"]
        assert paid[y == 1].mean() == pytest.approx(frame.loc[r, "social_burden"], abs=1e-6)
    assert (frame["accuracy_low"] == frame["accuracy"]).all()
    assert (frame["accuracy_high"] == frame["accuracy"]).all()
    assert ((frame["ci_low"] <= frame["accuracy"]) & (frame["accuracy"] <= frame["ci_high"])).all()


@pytest.mark.claim("20.16")
@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("positional", [False, True])
def test_the_old_arguments_build_a_ball(
    norm: float, positional: bool, data: tuple[np.ndarray, ...]
) -> None:
    X_train, X, y_train, y = data
    model = LogisticRegression(max_iter=1000).fit(X_train, y_train)
    costs = np.linspace(0.5, 2.0, X.shape[1])
    costs[:3] = np.inf
    radii = [0.0, 0.5, 1.0]
    given = {"norm": norm, "costs": costs}
    with pytest.warns(DeprecationWarning, match="go with the next release"):
        old = (
            gaming_report(model, X, y, radii, **given)
            if positional
            else gaming_report(model, X, y, radius=radii, **given)
        )
    moves = Moves(
        {
            j: Change("both", float(c), per="unit", low=-np.inf, high=np.inf)
            for j, c in enumerate(costs)
            if np.isfinite(c)
        },
        combine={1: "sum", 2: "euclid", np.inf: "max"}[norm],
    )
    new = gaming_report(model, X, y, moves, budget=radii)
    pd.testing.assert_frame_equal(old.to_frame().drop(columns="radius"), new.to_frame())
    assert old.to_frame()["radius"].tolist() == radii
    # by hand: need over the dual norm of the weights per price
    w = np.where(np.isfinite(costs), model.coef_[0] / costs, 0.0)
    dual = {1: np.abs(w).max(), 2: np.linalg.norm(w), np.inf: np.abs(w).sum()}[norm]
    price = np.maximum(-model.decision_function(X), 0) / dual
    able = price <= 1.0
    assert old.plan.upper[able] == pytest.approx(price[able], rel=1e-9, abs=1e-12)
    assert np.isinf(old.plan.upper[~able]).all()


def test_without_moves_a_deviation_of_any_number_costs_one(data: tuple[np.ndarray, ...]) -> None:
    X_train, X, y_train, y = data
    model = LogisticRegression(max_iter=1000).fit(X_train, y_train)
    report = gaming_report(model, X, y, budget=[0.0, 1.0])
    same = gaming_report(model, X, y, Moves.ball(X, per="sd"), budget=[0.0, 1.0])
    pd.testing.assert_frame_equal(report.to_frame(), same.to_frame())
    assert "price 1 = one standard deviation" in report.summary()


def test_plot_shows_honest_and_gamed(data: tuple[np.ndarray, ...]) -> None:
    X_train, X, y_train, y = data
    model = LogisticRegression(max_iter=1000).fit(X_train, y_train)
    ax = gaming_report(model, X, y, budget=[0.0, 1.0]).plot()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "accuracy when gamed" in labels
    assert "accuracy if honest" in labels


@pytest.mark.claim("02.36")
@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("positive", [1, 0])
def test_rethreshold_restores_every_honest_decision(
    norm: float, positive: int, data: tuple[np.ndarray, ...]
) -> None:
    X_train, X, y_train, y = data
    costs = np.linspace(0.5, 2.0, X.shape[1])
    for model in (
        LogisticRegression(max_iter=1000),
        RidgeClassifier(),
        make_pipeline(StandardScaler(), LinearSVC()),
    ):
        model.fit(X_train, y_train)
        before = model.predict(X).copy()
        ball = priced_ball(costs, norm)
        for radius in (0.0, 0.7, 2.0):
            ready = rethreshold(
                model, X_train, None, ball, radius, objective="decisions", positive=positive
            ).model
            report = gaming_report(ready, X, y, ball, budget=radius, positive=positive)
            after, _ = report.accepted(radius)
            assert np.array_equal(after, before == positive)
            assert report.to_frame().loc[0, "accuracy"] == model.score(X, y)
        assert np.array_equal(model.predict(X), before)  # the original is untouched


def priced_ball(costs: np.ndarray, norm: float) -> Moves:
    """A ball in which a unit of each feature has its own price."""
    columns = {
        j: Change("both", float(c), per="unit", low=-np.inf, high=np.inf)
        for j, c in enumerate(costs)
    }
    return Moves(columns, combine={1: "sum", 2: "euclid"}.get(norm, "max"))


def cut_of(scores: Any, qualified: Any) -> float:
    yes = np.array(qualified)
    found = best_threshold(np.array(scores), yes * 1.0, ~yes * 1.0, widest=True, strict=True)
    return float(found[1])


def test_best_cut_never_splits_equal_scores() -> None:
    scores = np.array([1.0, 1.0, 1.0, 2.0])
    cut = cut_of(scores, [False, True, False, True])
    assert 1.0 < cut < 2.0


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"budget": -1.0}, "budget"),
        ({"budget": []}, "budget"),
        ({"budget": "far"}, "budget"),
        ({"budget": 1.0, "y": [0, 1]}, "2 labels for 60 rows"),
        ({"budget": 1.0, "y": [2] * 60}, "the labels have 2"),
        ({"ability": [1.0]}, "ability"),
        ({"budget": 1.0, "confidence": 1.5}, "confidence"),
        ({"radius": -1.0}, "budget"),
        ({"radius": 1.0, "budget": 1.0}, "give radius with norm and costs, and no budget"),
        ({"norm": 1}, "give radius with norm and costs"),
        ({"radius": 1.0, "norm": 3}, "norm must be 1, 2"),
        ({"radius": 1.0, "costs": [1.0]}, "each of the 2 columns"),
        ({"radius": 1.0, "pool": [1.0]}, "no argument named 'pool'"),
    ],
)
@pytest.mark.filterwarnings("ignore:radius, norm and costs go:DeprecationWarning")
def test_bad_reports_are_refused(kwargs: dict, message: str) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    model = LogisticRegression().fit(X, y)
    with pytest.raises(InvalidInputError, match=message):
        gaming_report(model, X, **{"y": y, **kwargs})


def test_value_of_information_orders_the_settings() -> None:
    rng = np.random.default_rng(1)
    rules = LinearClass(rng.normal(size=(100, 4)), rng.normal(size=100))
    X = rng.normal(size=(500, 4))
    study = value_of_information(
        rules, X, radius=rng.exponential(0.5, 500), repeats=8, random_state=0
    )
    frame = study.to_frame().set_index("learner")
    assert frame.loc["StrategicHalving", "mistakes"] <= 6
    assert frame.loc["StrategicHalving", "mistakes_high"] < frame.loc["MWMR", "mistakes"]
    assert frame.loc["MWMR", "mistakes_high"] < frame.loc["SequentialElimination", "mistakes_low"]
    assert "saves" in study.summary()
    assert study.plot().get_xlabel() == "mistakes on 500 applicants"
    again = value_of_information(rules, X, radius=0.5, targets=[3, 3], random_state=1)
    assert set(again.runs["target"]) == {3}
    with pytest.raises(InvalidInputError, match="no learner named"):
        study.mistakes("Oracle")


def test_value_of_information_with_real_labels_starts_over() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    rng = np.random.default_rng(0)
    models = []
    for _ in range(20):
        rows = rng.choice(len(y), size=200)
        models.append(LogisticRegression(C=0.1).fit(X[rows], y[rows]))
    rules = LinearClass.from_estimators(models)
    study = value_of_information(rules, X, radius=0.2, y=y, repeats=2, random_state=0)
    assert study.oracle_error <= study.naive_error
    assert (study.runs["mistakes"] < 0.3 * len(y)).all()
    assert (study.runs["target"] == -1).all()


@pytest.mark.parametrize(
    ("scores", "qualified", "right"),
    [
        ([1.0, np.nextafter(1.0, 2.0)], [False, True], 2),
        ([1.6e18, 1.6e18 + 256, 1.6e18 + 512], [False, True, True], 3),
        ([1.6e18, 1.6e18 + 256], [True, True], 2),
        ([-1.6e18, -1.6e18 + 256], [False, False], 2),
        ([0.0, 5e-324, 1e-323], [False, False, True], 3),
    ],
)
def test_best_cut_separates_neighbouring_floats(scores: Any, qualified: Any, right: int) -> None:
    cut = cut_of(scores, qualified)
    assert int(((np.array(scores) > cut) == qualified).sum()) == right


def test_at_budget_zero_the_bracket_is_the_accuracy(data: tuple[np.ndarray, ...]) -> None:
    X_train, X, y_train, y = data
    for model in (GaussianNB(), HistGradientBoostingClassifier(max_iter=5, random_state=0)):
        ball = Moves.ball(X_train, per="unit")
        few, labels = X[:60], y[:60]
        report = gaming_report(model.fit(X_train, y_train), few, labels, ball, budget=[0.0, 1.0])
        row = report.to_frame().iloc[0]
        assert row["accuracy"] == row["accuracy_low"] == row["accuracy_high"]
        assert row["accuracy"] == model.score(few, labels)
