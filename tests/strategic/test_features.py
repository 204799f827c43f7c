"""Columns are matched by name wherever both sides have names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.strategic import (
    Action,
    Agents,
    EstimatorClass,
    LinearClass,
    ManipulationGraph,
    StrategicERM,
    StrategicLinearClassifier,
    fit_threshold,
    gaming_report,
    rethreshold,
    strategic_accuracy,
    value_of_information,
)
from counterplay.strategic.lab import RuleSetClass, acceptance_distance

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(120, 3)), columns=["income", "debt", "age"])
Y = (X["income"] - 3 * X["debt"] > 0).astype(int).to_numpy()
SHUFFLED = X[["debt", "age", "income"]]
COSTS = pd.Series({"age": np.inf, "debt": 2.0, "income": 1.0})
MODELS = [
    LogisticRegression(C=100.0),
    make_pipeline(StandardScaler(), LogisticRegression()),
    Pipeline([("nothing", "passthrough"), ("model", LogisticRegression())]),
    DecisionTreeClassifier(max_depth=4, random_state=0),
    RandomForestClassifier(5, max_depth=3, random_state=0),
    GaussianNB(),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_s1_shuffled_columns_give_the_same_report(model: Any) -> None:
    model.fit(X, Y)
    costs = COSTS[list(X.columns)].to_numpy()
    plain = gaming_report(model, X, Y, radius=[0.0, 0.5], costs=costs)
    other = gaming_report(model, SHUFFLED, Y, radius=[0.0, 0.5], costs=COSTS, pool=SHUFFLED)
    assert plain.to_frame().loc[0, "accuracy"] == model.score(X, Y)
    pd.testing.assert_frame_equal(other.to_frame(), plain.to_frame())
    pd.testing.assert_frame_equal(other.moves(0.5), plain.moves(0.5))
    assert (other.moves(0.5)["age"] == 0).all()  # its price is infinite, wherever it stands


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (X.rename(columns={"debt": "debts"}), "no column 'debt' .nearest: 'debts'."),
        (X.drop(columns="age"), "no column 'age'"),
        (X.assign(late=0.0), "nothing was fitted on: 'late'"),
        (pd.concat([X, X[["age"]]], axis=1), "more than one column named 'age'"),
        (X.to_numpy()[:, :2], "X has 2 columns"),
    ],
)
def test_s1_other_columns_are_refused_by_name(frame: Any, words: str) -> None:
    model = LogisticRegression().fit(X, Y)
    for call in (
        lambda: gaming_report(model, frame, Y, radius=0.0),
        lambda: acceptance_distance(model, frame),
        lambda: fit_threshold(model, frame, Y, 0.0),
        lambda: strategic_accuracy(model, frame, Y),
    ):
        with pytest.raises(InvalidInputError, match=words):
            call()


def test_s1_costs_follow_their_names() -> None:
    model = LogisticRegression(C=100.0).fit(X, Y)
    w = pd.Series(model.coef_[0], X.columns)
    # Age cannot move: what one unit of effort buys is the length of w / costs over the other two.
    slope = np.hypot(w["income"], w["debt"] / 2)
    ready = rethreshold(model, 0.5, costs=COSTS)
    assert model.intercept_[0] - ready.intercept_[0] == pytest.approx(0.5 * slope)
    able = RNG.exponential(1.0, size=len(Y))
    one = fit_threshold(model, X, Y, able, costs=COSTS[list(X.columns)].to_numpy())
    two = fit_threshold(model, SHUFFLED, Y, able, costs=COSTS)
    assert one.intercept_ == two.intercept_
    unnamed = LogisticRegression(C=100.0).fit(X.to_numpy(), Y)
    with pytest.warns(AssumptionWarning, match="taken by position"):
        by_frame = acceptance_distance(unnamed, X, costs=COSTS)
    assert np.allclose(by_frame.upper, acceptance_distance(model, X, costs=COSTS).upper)
    with pytest.raises(InvalidInputError, match="neither X nor the model has column names"):
        acceptance_distance(unnamed, X.to_numpy(), costs=COSTS)
    with pytest.raises(InvalidInputError, match="costs has no column 'age'"):
        gaming_report(model, X, Y, radius=1.0, costs=COSTS.drop("age"))
    numbered = pd.Series([1.0, 2.0, np.inf])  # no names: in the order of the columns
    assert np.array_equal(
        acceptance_distance(model, X, costs=numbered).upper,
        acceptance_distance(model, X, costs=COSTS).upper,
    )


def test_s1_catalogues_match_columns_by_name() -> None:
    one, two = LogisticRegression().fit(X, Y), LogisticRegression().fit(SHUFFLED, Y)
    rules = LinearClass.from_estimators([one, two], costs=COSTS)
    assert np.array_equal(rules.predict(X)[:, 1], two.predict(SHUFFLED) == 1)
    assert np.array_equal(rules.distances(SHUFFLED), rules.distances(X.to_numpy()))
    assert np.allclose(rules.distances(X)[:, 0], acceptance_distance(one, X, costs=COSTS).upper)
    trees = [DecisionTreeClassifier(max_depth=3, random_state=0).fit(F, Y) for F in (X, SHUFFLED)]
    for catalogue in (RuleSetClass.from_trees(trees), EstimatorClass(trees, SHUFFLED)):
        for frame in (X, SHUFFLED):
            decided = catalogue.predict(frame)
            assert np.array_equal(decided[:, 0], trees[0].predict(X) == 1)
            assert np.array_equal(decided[:, 1], trees[1].predict(SHUFFLED) == 1)
    with pytest.raises(InvalidInputError, match="no column 'age'"):
        rules.distances(X[["income", "debt"]])
    agents = [Agents.from_target(rules, F, target=1, radius=0.2).y for F in (X, SHUFFLED)]
    assert np.array_equal(*agents)
    studies = [
        value_of_information(rules, F, radius=0.2, targets=[0, 1], random_state=0).runs
        for F in (X, SHUFFLED)
    ]
    pd.testing.assert_frame_equal(*studies)


def test_s1_graphs_keep_the_names_of_their_table() -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.integers(0, 4, size=(60, 2)).astype(float), columns=["late", "cards"])
    y = (table["late"] + 2 * table["cards"] <= 4).astype(int).to_numpy()
    swapped = table[["cards", "late"]]
    graph = ManipulationGraph.from_actions(table, [Action("pay", 0, -1, cost=1.0)], budget=1.0)
    naive = make_pipeline(
        make_column_transformer((StandardScaler(), ["late", "cards"])), LogisticRegression()
    ).fit(swapped, y)

    def accepted_after_moves(row: pd.Series) -> bool:
        options = [row, row - [1, 0]] if row["late"] >= 1 else [row]
        return bool(naive.predict(pd.DataFrame(options)[["cards", "late"]]).any())

    truth = np.mean(
        [accepted_after_moves(row) == label for (_, row), label in zip(table.iterrows(), y)]
    )
    for frame in (table, swapped):
        assert strategic_accuracy(naive, frame, y, graph=graph) == pytest.approx(truth)
    fits = [StrategicERM().fit(frame, y, graph=graph) for frame in (table, swapped)]
    assert fits[0].loss_ == fits[1].loss_
    for fit, frame in zip(fits, (table, swapped)):
        assert 1 - strategic_accuracy(fit, table, y, graph=graph) == pytest.approx(fit.loss_)
        assert np.array_equal(fit.predict(frame), fit.predict(frame.iloc[:, :]))
    linear = [StrategicLinearClassifier().fit(f, y, graph=graph).loss_ for f in (table, swapped)]
    assert linear[0] == pytest.approx(linear[1])
    with pytest.raises(InvalidInputError, match="no column 'late'"):
        strategic_accuracy(lambda Z: Z[:, 0] > 0, table.rename(columns={"late": "delay"}), y,
                           graph=graph)  # fmt: skip
