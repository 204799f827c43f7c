"""Cheapest accepted moves against the models people really have."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
    TargetEncoder,
)

from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.strategic.changes import Change, Switch
from counterplay.strategic.cheapest import MovePlan, cheapest_moves
from counterplay.strategic.moves import Moves
from strategic.moves_oracle import brute_force, everything, steps

COMBINES = ["sum", "euclid", "max"]


def credit(n: int = 160, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """Return a small table with whole numbers, a fraction, categories and a hole."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "late": rng.integers(0, 6, n),
            "cards": rng.integers(0, 8, n).astype(float),
            "income": rng.normal(50, 15, n),
            "home": rng.choice(["rent", "own", "free"], n),
            "age": rng.integers(20, 70, n).astype(float),
        },
        index=[f"p{i}" for i in range(n)],
    )
    score = -frame["late"] - 0.4 * frame["cards"] + 0.05 * frame["income"]
    score += (frame["home"] == "own") + 0.01 * frame["age"]
    y = (score + rng.normal(0, 1, n) > score.median() + 0.8).astype(int).to_numpy()
    return frame, y


def whole_moves(frame: pd.DataFrame, combine: Any = "sum", **columns: Any) -> Moves:
    given = {
        "late": Change("down", step=1, cost=1.5, per="unit", low=0),
        "cards": Change("both", step=1, cost=(0.7, 1.1), per="unit"),
        "home": Switch({("rent", "own"): 2.0, ("free", "rent"): 0.5}),
    }
    return Moves({**given, **columns}, reference=frame, combine=combine)


def whole_options(person: pd.Series, frame: pd.DataFrame) -> dict[str, list[tuple[Any, float]]]:
    """Return what one person can do under `whole_moves`, written down independently."""
    high = float(frame["cards"].max())
    ways = {"rent": [("own", 2.0)], "free": [("rent", 0.5), ("own", 2.5)], "own": []}
    return {
        "late": steps(person["late"], np.inf, 1.5, 0, 5),
        "cards": steps(person["cards"], 0.7, 1.1, 0, high),
        "home": [(person["home"], 0.0), *ways[person["home"]]],
    }


def encoded(final: Any, *, bins: bool = False) -> Any:
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    if bins:
        numbers = make_pipeline(
            SimpleImputer(), KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf")
        )
    prepare = make_column_transformer(
        (numbers, ["late", "cards", "income", "age"]), (OneHotEncoder(), ["home"])
    )
    return make_pipeline(prepare, final)


def check_destinations(
    model: Any, X: pd.DataFrame, moves: Moves, plan: MovePlan, wanted: Any = 1
) -> None:
    """Every advised move works, costs what the plan says and touches only what may move."""
    movers = np.isfinite(plan.upper)
    assert (model.predict(plan.destination[movers]) == wanted).all()
    assert moves.price(X, plan.destination)[movers] == pytest.approx(plan.upper[movers], abs=1e-9)
    assert (plan.destination.dtypes == X.dtypes).all()
    assert plan.destination.index.equals(X.index)
    for name in X.columns:
        if name not in moves.columns:
            assert plan.destination[name].equals(X[name])


@pytest.mark.claim("20.08", "20.11")
@pytest.mark.parametrize("combine", COMBINES)
@pytest.mark.parametrize("kind", ["onehot", "bins", "target"])
def test_linear_models_behind_encoders_equal_enumeration(kind: str, combine: Any) -> None:
    model, X = fitted_encoders(kind), credit()[0].iloc[:80]
    moves = whole_moves(X, combine)
    plan = cheapest_moves(model, X, moves)
    assert plan.exact.all()
    check_destinations(model, X, moves, plan)
    for i in np.flatnonzero(plan.upper > 0)[:12]:
        best = brute_force(model, X.iloc[i], whole_options(X.iloc[i], X), combine, X)
        assert plan.upper[i] == pytest.approx(best, rel=1e-9), i


@cache
def fitted_trees(kind: str) -> Any:
    final = {
        "forest": RandomForestClassifier(8, max_depth=4, random_state=0),
        "boosted": GradientBoostingClassifier(n_estimators=8, max_depth=3, random_state=0),
        "histogram": HistGradientBoostingClassifier(max_iter=8, max_depth=3, early_stopping=False),
    }[kind]
    return encoded(final).fit(*credit())


@cache
def fitted_encoders(kind: str) -> Any:
    if kind == "target":
        prepare = make_column_transformer(
            (StandardScaler(), ["late", "cards", "income", "age"]),
            (TargetEncoder(), ["home"]),
        )
        return make_pipeline(prepare, LogisticRegression()).fit(*credit())
    return encoded(LogisticRegression(), bins=kind == "bins").fit(*credit())


@pytest.mark.claim("20.04", "20.08")
@pytest.mark.parametrize("combine", COMBINES)
@pytest.mark.parametrize("kind", ["forest", "boosted", "histogram"])
def test_trees_behind_encoders_equal_enumeration(kind: str, combine: Any) -> None:
    model, X = fitted_trees(kind), credit()[0].iloc[:80]
    moves = whole_moves(X, combine)
    plan = cheapest_moves(model, X, moves)
    assert plan.exact.all()
    assert plan.method == "8 trees"
    check_destinations(model, X, moves, plan)
    for i in np.flatnonzero(plan.upper > 0)[:12]:
        best = brute_force(model, X.iloc[i], whole_options(X.iloc[i], X), combine, X)
        assert plan.upper[i] == pytest.approx(best, rel=1e-9), i


@pytest.mark.claim("20.04", "20.12")
def test_native_categories_and_holes_equal_enumeration() -> None:
    X, y = credit()
    X["home"] = X["home"].astype("category")
    X["cards"] = X["cards"].where(np.arange(len(X)) % 5 > 0)
    model = HistGradientBoostingClassifier(
        max_iter=10, max_depth=3, early_stopping=False, categorical_features="from_dtype"
    ).fit(X, y)
    cards = Change("both", step=1, cost=(0.7, 1.1), per="unit", missing=0.9)
    moves = whole_moves(X, cards=cards)
    plan = cheapest_moves(model, X, moves)
    assert plan.exact.all()
    check_destinations(model, X, moves, plan)
    gone = np.isnan(X["cards"].to_numpy()) & (plan.upper > 0)
    for i in [*np.flatnonzero(gone)[:6], *np.flatnonzero(~gone & (plan.upper > 0))[:6]]:
        options = whole_options(X.iloc[i], X)
        if gone[i]:
            options["cards"] = [(np.nan, 0.0), *((float(v), 0.9) for v in range(8))]
        best = brute_force(model, X.iloc[i], options, "sum", X)
        assert plan.upper[i] == pytest.approx(best, rel=1e-9), i


@pytest.mark.claim("20.04")
@pytest.mark.parametrize("kind", ["forest", "boosted", "histogram"])
def test_continuous_columns_cross_splits_by_one_float(kind: str) -> None:
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(120, 3)), columns=["a", "b", "c"])
    y = (X["a"] + X["b"] * X["c"] + 0.3 * rng.normal(size=120) > 0.4).astype(int)
    model = {
        "forest": RandomForestClassifier(8, max_depth=3, random_state=0),
        "boosted": GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0),
        "histogram": HistGradientBoostingClassifier(max_iter=8, max_depth=3, early_stopping=False),
    }[kind].fit(X, y)
    moves = Moves(
        {"a": Change("up", per="unit"), "b": Change("both", cost=(1.0, 2.0), per="unit")},
        reference=X,
    )
    plan = cheapest_moves(model, X, moves)
    assert plan.exact.all()
    check_destinations(model, X, moves, plan)
    cuts = _thresholds(model)
    for i in np.flatnonzero(plan.upper > 0)[:15]:
        x = X.iloc[i]
        options = {}
        for j, (name, up, down) in enumerate((("a", 1.0, 1e9), ("b", 1.0, 2.0))):
            near = np.concatenate([cuts[j] - 1e-6, cuts[j] + 1e-6, [X[name].min(), X[name].max()]])
            near = near[(near >= X[name].min()) & (near <= X[name].max())]
            price = np.where(near > x[name], up * (near - x[name]), down * (x[name] - near))
            fine = price < 1e6
            options[name] = [(x[name], 0.0), *zip(near[fine], price[fine])]
        assert plan.upper[i] == pytest.approx(brute_force(model, x, options, "sum", X), abs=2e-5), i


def _thresholds(model: Any) -> list[Any]:
    found: list[list[float]] = [[], [], []]
    if hasattr(model, "_predictors"):
        for stage in model._predictors:
            for node in stage[0].nodes:
                if not node["is_leaf"]:
                    found[node["feature_idx"]].append(node["num_threshold"])
    else:
        for tree in np.ravel(model.estimators_):
            for j, t in zip(tree.tree_.feature, tree.tree_.threshold):
                if j >= 0:
                    found[j].append(t)
    return [np.unique(f) for f in found]


@pytest.mark.claim("20.02")
@pytest.mark.parametrize(("combine", "price"), [("sum", 2.0), ("euclid", 2**0.5), ("max", 1.0)])
def test_two_stumps(combine: Any, price: float) -> None:
    grid = np.array([[a, b] for a in (0.0, 2.0) for b in (0.0, 2.0)] * 10)
    X = pd.DataFrame(grid, columns=["a", "b"])
    y = ((X["a"] > 1) & (X["b"] > 1)).astype(int)
    model = GradientBoostingClassifier(n_estimators=2, max_depth=1, learning_rate=1.0).fit(X, y)
    both = model.decision_function(X.drop_duplicates())
    assert (both > 0).sum() == 1  # one stump alone does not suffice
    moves = Moves(
        {c: Change("up", step=1, per="unit", cost=0.5) for c in "ab"}, reference=X, combine=combine
    )
    plan = cheapest_moves(model, X.iloc[:1], moves)
    assert plan.lower.tolist() == plan.upper.tolist()
    assert plan.upper[0] == pytest.approx(price)


@pytest.mark.claim("20.06")
def test_brackets_are_valid_and_monotone() -> None:
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(400, 5)), columns=list("abcde"))
    y = (np.sin(2 * X["a"]) + X["b"] * X["c"] > 0.5 + 0.5 * X["d"]).astype(int)
    model = GradientBoostingClassifier(n_estimators=40, max_depth=3, random_state=0).fit(X, y)
    moves = Moves({c: Change("both", per="unit") for c in "abcde"}, reference=X)
    people = X.iloc[:300]
    plans = [cheapest_moves(model, people, moves, nodes=k) for k in (1, 10, 100, 1000, 20_000)]
    exact = plans[-1].upper
    assert plans[-1].exact.all()
    assert not plans[0].exact.all()
    for small, large in zip(plans, plans[1:]):
        assert (small.lower <= large.lower + 1e-12).all()
        assert (small.upper >= large.upper - 1e-12).all()
        assert ((small.lower <= exact + 1e-12) & (exact <= small.upper + 1e-12)).all()


@pytest.mark.claim("20.09")
def test_readers_add_up_to_the_raw_margin() -> None:
    from counterplay.strategic.fold import Asked, open_model
    from counterplay.strategic.tree_cells import build_cells

    X, y = credit()
    X = X.drop(columns="home")
    X["income"] = X["income"].where(np.arange(len(X)) % 4 > 0)
    moves = Moves({"late": Change("down", step=1)}, reference=X)
    for final in (
        RandomForestClassifier(10, random_state=0),
        HistGradientBoostingClassifier(max_iter=20),
        GradientBoostingClassifier(n_estimators=10),
    ):
        data = X.fillna(40.0) if isinstance(final, GradientBoostingClassifier) else X
        asked = Asked(final.fit(data, y), data)
        opened = open_model(asked)
        assert opened is not None
        cells = build_cells(asked, opened, moves)  # raises unless leaves add up to 1e-9
        assert cells is not None


@pytest.mark.claim("20.10")
@pytest.mark.parametrize("combine", ["sum", "euclid"])
def test_one_model_in_five_wrappers_has_one_answer(combine: Any) -> None:
    data = load_breast_cancer(as_frame=True)
    X, y = data.data.iloc[:, :8], data.target
    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X, y)
    columns = make_pipeline(
        make_column_transformer((StandardScaler(), list(X.columns))),
        LogisticRegression(max_iter=1000),
    ).fit(X, y)
    others = [
        FixedThresholdClassifier(plain, threshold=0.5).fit(X, y),
        columns,
        GridSearchCV(plain, {"logisticregression__C": [1.0]}, cv=3).fit(X, y),
        CalibratedClassifierCV(plain, ensemble=False, cv=3).fit(X, y),
    ]
    moves = Moves(
        {c: Change("both", per="sd", low=-np.inf, high=np.inf) for c in X.columns[2:]},
        reference=X,
        combine=combine,
    )
    first = cheapest_moves(plain, X, moves, budget=1.0)
    assert 0 < np.isfinite(first.upper[first.upper > 0]).sum() < (first.upper > 0).sum()
    for model in others[:3]:
        plan = cheapest_moves(model, X, moves, budget=1.0)
        assert plan.exact.all()
        assert plan.upper == pytest.approx(first.upper, abs=1e-9)
    calibrated = cheapest_moves(others[3], X, moves)
    assert calibrated.exact.all()
    assert calibrated.method == "additive score"
    check_destinations(others[3], X, moves, calibrated)
    # the cut itself is exact: a little less than the advised move is rejected
    movers = calibrated.upper > 0
    back = X + (calibrated.destination - X) * (1 - 1e-6)
    assert (others[3].predict(back[movers]) == 0).all()


@pytest.mark.claim("20.16")
@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_the_ball_is_the_closed_form(norm: float) -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X, y)
    plan = cheapest_moves(model, X, Moves.ball(X, norm=norm, per="sd"))
    w = model[-1].coef_[0]  # one standard deviation is one unit of the scaled column
    dual = {1: np.abs(w).max(), 2: np.linalg.norm(w), np.inf: np.abs(w).sum()}[norm]
    need = np.maximum(-model.decision_function(X), 0)
    assert plan.upper == pytest.approx(need / dual, rel=1e-9, abs=1e-12)


@pytest.mark.claim("20.36")
@pytest.mark.parametrize("wrapped", [False, True])
def test_ties_are_decided_by_the_model(wrapped: bool) -> None:
    rng = np.random.default_rng(8)
    base = pd.DataFrame(rng.integers(-4, 5, (60, 3)), columns=list("abc"))
    for trial in range(10):
        model = LogisticRegression().fit(base, rng.integers(0, 2, 60))
        model.coef_ = rng.integers(1, 4, (1, 3)).astype(float)
        model.intercept_ = np.array([-float(rng.integers(0, 4))])
        rule = FixedThresholdClassifier(model, threshold=0.5).fit(base, rng.integers(0, 2, 60))
        if wrapped:
            rule.estimator_ = model
        used = rule if wrapped else model
        moves = Moves({c: Change("up", step=1, per="unit", low=-9, high=3) for c in "ab"})
        plan = cheapest_moves(used, base, moves)
        assert plan.exact.all()
        for i in np.flatnonzero(plan.upper > 0)[:20]:
            x = base.iloc[i]
            options = {c: steps(x[c], 1.0, np.inf, -9, 3) for c in "ab"}
            best = brute_force(used, x, options, "sum", base)
            assert plan.upper[i] == pytest.approx(best), (trial, i)


@pytest.mark.claim("20.13")
def test_columns_are_matched_by_name() -> None:
    X, y = credit()
    model = encoded(LogisticRegression()).fit(X, y)
    moves = whole_moves(X)
    plan = cheapest_moves(model, X, moves)
    other = cheapest_moves(model, X[X.columns[::-1]], moves)
    assert (other.upper == plan.upper).all()
    assert list(other.destination.columns) == list(X.columns[::-1])
    with pytest.raises(InvalidInputError, match="no column 'late'"):
        cheapest_moves(model, X.rename(columns={"late": "lates"}), moves)
    with pytest.raises(InvalidInputError, match="'extra'"):
        cheapest_moves(model, X.assign(extra=1), moves)


@pytest.mark.claim("20.12")
def test_nullable_types_survive() -> None:
    X, y = credit()
    X["late"] = X["late"].astype("Int64")
    X["cards"] = X["cards"].astype("Float64")
    X.loc[X.index[3], "cards"] = pd.NA
    prepare = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["late", "cards", "income", "age"]),
        (OrdinalEncoder(), ["home"]),
    )
    model = make_pipeline(prepare, LogisticRegression())
    data = X.astype({"late": float, "cards": float})
    model.fit(data, y)
    plan = cheapest_moves(model, X, whole_moves(X))
    assert plan.exact.all()
    assert (plan.destination.dtypes == X.dtypes).all()
    assert pd.isna(plan.destination["cards"].iloc[3])
    assert (plan.upper == cheapest_moves(model, data, whole_moves(data)).upper).all()


def test_the_wanted_class_may_be_the_first_one() -> None:
    X, y = credit()
    words = np.where(y == 1, "accept", "reject")
    moves = whole_moves(X)
    numbers = cheapest_moves(encoded(LogisticRegression()).fit(X, y), X, moves)
    for final in (LogisticRegression(), RandomForestClassifier(8, max_depth=4, random_state=0)):
        model = encoded(final).fit(X, words)
        with pytest.raises(InvalidInputError, match="which outcome do people want"):
            cheapest_moves(model, X, moves)
        plan = cheapest_moves(model, X, moves, positive="accept")
        assert plan.exact.all()
        check_destinations(model, X, moves, plan, "accept")
        if isinstance(final, LogisticRegression):
            assert plan.upper == pytest.approx(numbers.upper, abs=1e-9)


def test_a_budget_proves_who_has_no_move() -> None:
    X, y = credit()
    moves = whole_moves(X)
    for final in (LogisticRegression(), GradientBoostingClassifier(n_estimators=8)):
        model = encoded(final).fit(X, y)
        free, tight = cheapest_moves(model, X, moves), cheapest_moves(model, X, moves, budget=2.0)
        expected = np.where(free.upper <= 2.0, free.upper, np.inf)
        assert tight.upper == pytest.approx(expected)
        assert tight.exact.all()
        assert (tight.lower == tight.upper).all()


def test_other_models_are_searched_and_claim_nothing_from_below() -> None:
    X, y = credit()
    model = encoded(KNeighborsClassifier(5)).fit(X, y)
    moves = whole_moves(X)
    plan = cheapest_moves(model, X, moves)
    assert (plan.lower == 0).all()
    assert "nothing is certified" in plan.method
    check_destinations(model, X, moves, plan)
    rejected = np.flatnonzero(plan.upper > 0)
    assert np.isfinite(plan.upper[rejected]).mean() > 0.3
    for i in rejected[:8]:
        best = brute_force(model, X.iloc[i], whole_options(X.iloc[i], X), "sum", X)
        assert plan.upper[i] >= best - 1e-9


def test_arrays_and_polars_come_back_as_they_went() -> None:
    polars = pytest.importorskip("polars")
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :3]
    model = LogisticRegression(max_iter=5000).fit(X, y)
    plan = cheapest_moves(model, X[:50], Moves({0: Change("down")}, reference=X))
    assert isinstance(plan.destination, np.ndarray)
    assert (plan.destination[:, 1:] == X[:50, 1:]).all()
    frame = pd.DataFrame(X, columns=list("abc"))
    named = LogisticRegression(max_iter=5000).fit(frame, y)
    moves = Moves({"a": Change("down")}, reference=frame)
    back = cheapest_moves(
        named, polars.from_dict({c: X[:50, j] for j, c in enumerate("abc")}), moves
    )
    assert isinstance(back.destination, polars.DataFrame)
    assert back.upper == pytest.approx(plan.upper)


def test_what_a_person_reads() -> None:
    X, y = credit()
    model = encoded(LogisticRegression()).fit(X, y)
    plan = cheapest_moves(model, X, whole_moves(X))
    movers = np.flatnonzero((plan.upper > 0) & np.isfinite(plan.upper))
    row = X.index[movers[0]]
    assert plan.advice(row).endswith(f"{plan.upper[movers[0]]:.6g} in total")
    changes = plan.changes()
    mine = changes[changes["person"] == row]
    assert mine["price"].sum() == pytest.approx(plan.upper[movers[0]])
    assert plan.to_frame().index.equals(X.index)
    assert "price 1 = one raw unit" in plan.summary()
    assert f"exact for {len(X)} of {len(X)} people" in plan.summary()
    with pytest.raises(InvalidInputError, match="no row 'nobody'"):
        plan.advice("nobody")


def test_what_cannot_be_answered_is_refused_before_the_search() -> None:
    X, y = credit()
    model = encoded(LogisticRegression()).fit(X, y)
    with pytest.raises(InvalidInputError, match="budget must be numbers of at least 0"):
        cheapest_moves(model, X, whole_moves(X), budget=-1)
    with pytest.raises(InvalidInputError, match="which X does not have"):
        cheapest_moves(model, X, Moves({"lates": Change("down", per="unit")}))
    with pytest.raises(InvalidInputError, match="moves must be Moves"):
        cheapest_moves(model, X, {"late": Change("down")})  # type: ignore[arg-type]
    hotel = X.copy()
    hotel.loc[X.index[0], "home"] = "hotel"
    lenient = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["home"]), remainder="passthrough"
        ),
        LogisticRegression(max_iter=2000),
    ).fit(X, y)
    with pytest.warns(AssumptionWarning, match="home='hotel', which no switch mentions"):
        cheapest_moves(lenient, hotel, whole_moves(X))


def test_tiny_thresholds_behind_a_pipeline_are_crossed_exactly() -> None:
    # the raw cut is the least float beyond a threshold, also where floats lie very close
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"a": rng.choice([-1.0, 1e-9, 2e-9, 3e5], 200), "b": rng.normal(size=200)})
    y = (X["a"] < 1.5e-9).astype(int)
    model = make_pipeline(
        SimpleImputer(), GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=0)
    ).fit(X, y)
    plan = cheapest_moves(model, X, Moves({"a": Change("down", per="unit")}, reference=X))
    assert plan.exact.all()
    assert (model.predict(plan.destination) == 1).all()


@pytest.mark.parametrize("kind", ["knn", "svc"])
def test_the_search_finds_moves_near_the_best(kind: str) -> None:
    from sklearn.svm import SVC

    X, y = credit()
    final = KNeighborsClassifier(9) if kind == "knn" else SVC()
    model = encoded(final).fit(X, y)
    moves = whole_moves(X)
    people = X[model.predict(X) == 0].iloc[:12]
    plan = cheapest_moves(model, people, moves)
    check_destinations(model, people, moves, plan)
    ratios = []
    for i in range(len(people)):
        best = brute_force(model, people.iloc[i], whole_options(people.iloc[i], X), "sum", X)
        assert plan.upper[i] >= best - 1e-9
        if np.isfinite(best):
            ratios.append(plan.upper[i] / best)
    assert np.median(ratios) <= 1.05  # it paid 1.6 to 3.3 times the optimum before
    assert np.isfinite(ratios).mean() >= 0.9  # who can move is found


@pytest.mark.parametrize("kind", ["calibrated", "vote"])
def test_means_of_additive_models_are_bounded_from_both_sides(kind: str) -> None:
    from sklearn.ensemble import VotingClassifier

    from counterplay.strategic.best_shown import best_shown

    X, y = credit()
    if kind == "calibrated":
        model = CalibratedClassifierCV(encoded(LogisticRegression()), ensemble=True, cv=3).fit(X, y)
    else:
        model = VotingClassifier(
            [("a", encoded(LogisticRegression(C=0.01))), ("b", encoded(LogisticRegression()))],
            voting="soft", weights=[1, 3],
        ).fit(X, y)  # fmt: skip
    moves = whole_moves(X)
    people = X[model.predict(X) == 0].iloc[:12]
    plan = cheapest_moves(model, people, moves)
    assert "additive members" in plan.method
    check_destinations(model, people, moves, plan)
    rejected = np.flatnonzero(plan.upper > 0)
    assert (plan.lower[rejected] > 0).mean() > 0.9
    shown = best_shown(model, people.iloc[rejected[:6]], moves, [1.0, 3.0])
    for k, i in enumerate(rejected[:6]):
        rows, price = everything(people.iloc[i], whole_options(people.iloc[i], X), "sum", X)
        accepted = model.predict(rows) == 1
        best = price[accepted].min() if accepted.any() else np.inf
        assert plan.lower[i] <= best * (1 + 1e-9)
        assert plan.upper[i] >= best * (1 - 1e-9)
        for j, r in enumerate((1.0, 3.0)):
            top = model.predict_proba(rows)[price <= r + 1e-9, 1].max()
            assert shown.low[k, j] <= top + 1e-12
            assert shown.high[k, j] >= top - 1e-12
