"""People's tables at the door: columns by name, the wanted class stated, words held fixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from counterplay.errors import InvalidInputError
from counterplay.strategic import (
    MWMR,
    Action,
    Agents,
    Applicants,
    ApplicantStream,
    Change,
    EstimatorClass,
    LinearClass,
    ManipulationGraph,
    Moves,
    StrategicERM,
    StrategicHalving,
    StrategicLinearClassifier,
    gaming_report,
    play,
    rethreshold,
    strategic_accuracy,
    value_of_information,
)
from counterplay.strategic.lab import (
    FiniteERM,
    RuleSetClass,
    UnionPredictor,
)

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
def test_shuffled_columns_give_the_same_report(model: Any) -> None:
    model.fit(X, Y)
    costs = COSTS[list(X.columns)].to_numpy()
    with pytest.warns(DeprecationWarning, match="next release"):
        plain = gaming_report(model, X, Y, radius=[0.0, 0.5], costs=costs)
    with pytest.warns(DeprecationWarning, match="next release"):
        other = gaming_report(model, SHUFFLED, Y, radius=[0.0, 0.5], costs=COSTS)
    assert plain.to_frame().loc[0, "accuracy"] == model.score(X, Y)
    pd.testing.assert_frame_equal(other.to_frame(), plain.to_frame())
    assert "age" not in set(other.moves(0.5)["column"])  # its price is infinite, wherever it stands


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
def test_other_columns_are_refused_by_name(frame: Any, words: str) -> None:
    model = LogisticRegression().fit(X, Y)
    for call in (
        lambda: gaming_report(model, frame, Y, budget=0.0),
        lambda: rethreshold(model, frame, Y, Moves.ball(X)),
        lambda: strategic_accuracy(model, frame, Y),
    ):
        with pytest.raises(InvalidInputError, match=words):
            call()


def test_costs_follow_their_names() -> None:
    model = LogisticRegression(C=100.0).fit(X, Y)
    w = pd.Series(model.coef_[0], X.columns)
    # Age cannot move: what one unit of effort buys is the length of w / costs over the other two.
    slope = np.hypot(w["income"], w["debt"] / 2)
    ball = Moves(
        {
            name: Change("both", COSTS[name], per="unit", low=-np.inf, high=np.inf)
            for name in ("debt", "income")
        },
        combine="euclid",
    )
    ready = rethreshold(model, X, None, ball, 0.5, objective="decisions")
    assert ready.cut == pytest.approx(0.5 * slope)
    one, two = (rethreshold(model, frame, Y, ball, (0, 1)) for frame in (X, SHUFFLED))
    assert one.cut == two.cut
    with (
        pytest.warns(DeprecationWarning, match="next release"),
        pytest.raises(InvalidInputError, match="costs has no column 'age'"),
    ):
        gaming_report(model, X, Y, radius=1.0, costs=COSTS.drop("age"))
    numbered = pd.Series([1.0, 2.0, np.inf])  # no names: in the order of the columns
    with pytest.warns(DeprecationWarning, match="next release"):
        reports = [gaming_report(model, X, Y, radius=1.0, costs=c) for c in (numbered, COSTS)]
    assert np.array_equal(reports[0].plan.upper, reports[1].plan.upper)


def test_catalogues_match_columns_by_name() -> None:
    one, two = LogisticRegression().fit(X, Y), LogisticRegression().fit(SHUFFLED, Y)
    rules = LinearClass.from_estimators([one, two], costs=COSTS)
    assert np.array_equal(rules.predict(X)[:, 1], two.predict(SHUFFLED) == 1)
    assert np.array_equal(rules.distances(SHUFFLED), rules.distances(X.to_numpy()))
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


def test_graphs_keep_the_names_of_their_table() -> None:
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


def test_agents_and_rules_must_have_the_same_columns() -> None:
    rules = LinearClass.from_estimators([LogisticRegression().fit(X, Y)])
    good = Agents(X, Y, radius=0.2)
    assert np.array_equal(good.losses(rules), Agents(X.to_numpy(), Y, radius=0.2).losses(rules))
    swapped = Agents(SHUFFLED, Y, radius=0.2)
    calls = (
        lambda: swapped.losses(rules),
        lambda: swapped.accepted(rules),
        lambda: FiniteERM(rules, strategic=False).fit(swapped),
        lambda: UnionPredictor(rules, [0]).loss(swapped),
        lambda: play(StrategicHalving(rules), Applicants(swapped)),
        lambda: play(MWMR(rules), ApplicantStream(swapped, "features_after"), rounds=3),
    )
    for call in calls:
        with pytest.raises(InvalidInputError, match="the agents' columns are 'debt', 'age'"):
            call()


def test_classifiers_read_columns_by_name() -> None:
    for model in (
        StrategicLinearClassifier(radius=0.3),
        StrategicERM("halfspace_heuristic", restarts=1, random_state=0),
    ):
        model.fit(X, Y)
        assert np.array_equal(model.predict(SHUFFLED), model.predict(X))
        with pytest.raises(InvalidInputError, match="no column 'age'"):
            model.predict(X[["income", "debt"]])


WORDS = np.where(Y == 1, "bad", "good")  # the wanted class is the larger word, and the rarer one


def test_other_codings_are_asked_about() -> None:
    model = LogisticRegression().fit(X, WORDS)
    graph = ManipulationGraph.from_actions(X, [Action("pay", 1, -0.5, cost=1.0)], budget=1.0)
    tree = DecisionTreeClassifier(max_depth=2).fit(X, WORDS)
    calls = (
        lambda: gaming_report(model, X, WORDS, budget=0.5),
        lambda: rethreshold(model, X, WORDS, Moves.ball(X)),
        lambda: StrategicLinearClassifier(radius=0.5).fit(X, WORDS),
        lambda: StrategicERM(random_state=0).fit(X, WORDS, graph=graph),
        lambda: strategic_accuracy(model, X, WORDS, graph=graph),
        lambda: strategic_accuracy(lambda Z: Z[:, 0] > 0, X, WORDS),
        lambda: LinearClass.from_estimators([model]),
        lambda: RuleSetClass.from_trees([tree]),
        lambda: EstimatorClass([tree], X),
        lambda: Agents(X, WORDS, radius=0.1),
        lambda: Agents(X, 1 + Y, radius=0.1),  # German credit: 2 is bad
        lambda: StrategicLinearClassifier().fit(X, 1 + Y),
    )
    for call in calls:
        with pytest.raises(InvalidInputError, match="which outcome do people want"):
            call()


@pytest.mark.parametrize("wanted", ["good", "bad"])
def test_words_give_the_numbers_of_zeros_and_ones(wanted: str) -> None:
    y01 = (wanted == WORDS).astype(int)
    by_word, by_number = (LogisticRegression().fit(X, y) for y in (WORDS, y01))
    options = {"budget": [0.0, 0.5]}
    report = gaming_report(by_word, X, WORDS, positive=wanted, **options)
    plain = gaming_report(by_number, X, y01, **options)
    pd.testing.assert_frame_equal(report.to_frame(), plain.to_frame(), rtol=1e-4)
    assert f"wanted: {wanted!r}" in report.summary()
    assert "wanted: 1" in plain.summary()
    for make in (
        lambda **more: StrategicLinearClassifier(radius=0.5, **more),
        lambda **more: StrategicERM("halfspace_heuristic", restarts=1, random_state=0, **more),
    ):
        one, two = make(positive=wanted).fit(X, WORDS), make().fit(X, y01)
        assert one.loss_ == two.loss_
        assert one.classes_.tolist() == [{"good": "bad", "bad": "good"}[wanted], wanted]
        assert np.array_equal(one.predict(X) == wanted, two.predict(X) == 1)
        assert np.array_equal(one.decision_function(X) >= 0, one.predict(X) == wanted)
        kept = gaming_report(one, X, WORDS, budget=0.5)  # the model knows what people want
        assert kept.plan.wanted == wanted
        assert kept.to_frame()["accuracy"].item() == pytest.approx(1 - one.loss_, abs=0.4)
        assert strategic_accuracy(one, X, WORDS) == strategic_accuracy(two, X, y01)
    assert np.array_equal(
        Agents(X, WORDS, radius=0.1, positive=wanted).y, Agents(X, y01, radius=0.1).y
    )
    rules = LinearClass.from_estimators([by_word], positive=wanted)
    assert np.array_equal(rules.predict(X)[:, 0], by_word.predict(X) == wanted)


def test_the_wanted_class_may_be_zero() -> None:
    model = LogisticRegression().fit(X, Y)
    report = gaming_report(model, X, Y, budget=1.0, positive=0)
    assert report.plan.wanted == 0
    moved = report.moves(1.0)["person"].unique()
    assert len(moved)
    assert (model.predict(X.loc[moved]) == 1).all()  # who is given 1 moves to get 0


def test_the_units_are_said_and_deviations_are_the_default() -> None:
    raw, y = load_breast_cancer(return_X_y=True)
    inside = make_pipeline(StandardScaler(), LogisticRegression()).fit(raw, y)
    scaled = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    outside = LogisticRegression().fit(scaled, y)
    default = gaming_report(inside, raw, y)
    same = gaming_report(outside, scaled, y, Moves.ball(scaled, per="unit"))
    assert default.to_frame()["accuracy"].tolist() == same.to_frame()["accuracy"].tolist()
    assert "price 1 = one standard deviation" in default.summary()
    assert "price 1 = one raw unit" in same.summary()


def test_constant_columns_have_no_deviation() -> None:
    table = X.assign(country=1.0)
    report = gaming_report(LogisticRegression().fit(table, Y), table, Y)
    assert "3 of 4 columns can move" in report.summary()
    assert "country" not in set(report.moves(1.0)["column"])


JOBS = np.array(["clerk", "nurse", "pilot"])[np.arange(120) % 3]
PEOPLE = X.assign(
    job=JOBS,
    city=pd.Categorical(np.where(np.arange(120) % 2, "Bonn", "Ulm")),
    since=pd.Timestamp("2024-01-01"),
    rent=np.where(np.arange(120) % 7, 1.0, np.nan),
).set_axis([f"p{i}" for i in range(120)])
ENCODED = make_pipeline(
    make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["job", "city"]),
        (StandardScaler(), ["income", "debt", "age"]),
    ),
    LogisticRegression(),
)


def test_words_times_and_holes_are_held_fixed() -> None:
    model = ENCODED.fit(PEOPLE, Y)
    report = gaming_report(model, PEOPLE.iloc[:, ::-1], Y, budget=[0.0, 1.0])
    assert report.to_frame().loc[0, "accuracy"] == model.score(PEOPLE, Y)
    moves = report.moves(1.0)
    who = moves["person"].unique()
    assert 0 < len(who) < 120
    assert set(moves["column"]) <= {"income", "debt", "age"}
    assert (model.predict(report.plan.destination.loc[who]) == 1).all()  # with her own job and city
    assert (model.predict(PEOPLE.loc[who]) == 0).all()
    ball = Moves.ball(PEOPLE[["income", "debt", "age"]])
    fix = rethreshold(model, PEOPLE, Y, ball, (0, 1))  # words and times may stand beside
    assert fix.regret <= fix.regret_of(fix.old)


def test_boosting_with_categories_and_missing_values() -> None:
    table = PEOPLE.drop(columns=["job", "since"])
    boosted = HistGradientBoostingClassifier(
        max_iter=5, categorical_features="from_dtype", random_state=0
    ).fit(table, Y)
    report = gaming_report(boosted, table, Y)
    assert report.to_frame().loc[0, "accuracy"] == boosted.score(table, Y)
    moved = report.moves(1.0)["person"].unique()
    assert len(moved)
    assert (boosted.predict(report.plan.destination.loc[moved]) == 1).all()
    assert report.plan.destination["city"].equals(table["city"])


def test_arrays_with_holes() -> None:
    rows = X.to_numpy().copy()
    rows[::5, 2] = np.nan
    boosted = HistGradientBoostingClassifier(max_iter=5, random_state=0).fit(rows, Y)
    report = gaming_report(boosted, rows, Y, budget=1.0)
    assert np.isnan(report.plan.destination[::5, 2]).all()  # holes stay
    assert report.to_frame()["moved"].item() > 0
    with pytest.raises(InvalidInputError, match=r"missing|NaN"):
        gaming_report(LogisticRegression().fit(X.to_numpy(), Y), rows, Y, budget=1.0)


def test_strategic_accuracy_with_a_named_transformer() -> None:
    model = ENCODED.fit(PEOPLE, Y)
    assert strategic_accuracy(model, PEOPLE.iloc[:, ::-1], Y) == model.score(PEOPLE, Y)
    graph = ManipulationGraph.from_actions(X, [Action("pay", 1, -0.5, cost=1.0)], budget=1.0)
    with pytest.raises(InvalidInputError, match="X has columns that nothing was fitted on: 'job'"):
        strategic_accuracy(model, PEOPLE, Y, graph=graph)
    for fit in (StrategicLinearClassifier(), StrategicERM()):
        with pytest.raises(InvalidInputError, match="column 'job' of X holds text"):
            fit.fit(PEOPLE, Y)


def test_results_keep_the_rows_of_the_table() -> None:
    table = X.set_axis(pd.MultiIndex.from_product([range(60), ["a", "b"]], names=["home", "who"]))
    groups = np.where(Y == 1, "x", "y")
    report = gaming_report(LogisticRegression().fit(X, Y), table, Y, budget=1.0, groups=groups)
    assert report.plan.destination.index.names == ["home", "who"]
    assert set(report.moves(1.0)["person"]) <= set(table.index)
    assert report.by_group()["group"].tolist() == ["x", "y"]
