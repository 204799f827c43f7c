"""Training with moves: descent, candidates, closed forms, raw tables, budgets of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from counterplay.errors import InvalidInputError
from counterplay.strategic import (
    Change,
    ManipulationGraph,
    Moves,
    StrategicERM,
    StrategicLinearClassifier,
    Switch,
    gaming_report,
    rethreshold,
)
from counterplay.strategic.moves_training import rounded_down


def table(seed: int, n: int = 80) -> tuple[pd.DataFrame, np.ndarray, Moves]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "late": rng.integers(0, 6, n).astype(float),
            "debt": rng.normal(0, 1, n),
            "age": rng.normal(0, 1, n),
        }
    )
    y = (X["late"] / 2 + X["debt"] + 0.5 * rng.normal(size=n) < 1).astype(int).to_numpy()
    moves = Moves(
        {
            "late": Change("down", step=1, per="step", cost=0.5, low=0),
            "debt": Change("both", per="unit", cost=(1.0, 0.7), low=-2, high=2),
        }
    )
    return X, y, moves


@pytest.mark.claim("20.28")
@pytest.mark.parametrize("seed", range(20))
def test_descent_and_never_worse_than_logistic_regression(seed: int) -> None:
    X, y, moves = table(seed, 50)
    model = StrategicLinearClassifier(moves, budget=1.0).fit(X, y)
    assert (np.diff(model.objective_) <= 1e-9 * (1 + np.abs(model.objective_[:-1]))).all()
    report = gaming_report(model, X, y, moves, budget=1.0).to_frame()
    assert 1 - report["accuracy"].item() == pytest.approx(model.loss_, abs=1e-12)
    plain = LogisticRegression().fit(X, y)
    other = rethreshold(plain, X, y, moves, budget=1.0).to_frame()["loss_new"].item()
    assert model.loss_ <= other + 1e-12


@pytest.mark.claim("20.28")
@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_a_ball_with_one_budget_has_the_closed_form(norm: float) -> None:
    X, y, _ = table(1, 200)
    ball = Moves.ball(X, norm=norm, per="unit")
    model = StrategicLinearClassifier(ball, budget=0.6).fit(X, y)
    with pytest.warns(DeprecationWarning, match="radius and norm"):
        old = StrategicLinearClassifier(radius=0.6, norm=norm).fit(X, y)
    np.testing.assert_allclose(model.coef_, old.coef_, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, old.intercept_, atol=1e-6)
    fixed = Moves.ball(X, norm=norm, per="unit", fixed=["late", "age"])
    half = StrategicLinearClassifier(fixed, budget=0.6).fit(X, y)
    assert half.loss_ == pytest.approx(
        1 - gaming_report(half, X, y, fixed, budget=0.6).to_frame()["accuracy"].item()
    )


@pytest.mark.claim("20.28")
def test_budgets_of_rows_go_through_a_search() -> None:
    """One budget per training row, cut into folds with the rows."""
    X, y, moves = table(2, 60)
    able = np.where(np.arange(60) % 2, 1.0, 0.25)
    search = GridSearchCV(StrategicLinearClassifier(moves), {"C": [0.1, 1.0]}, cv=2)
    search.fit(X, y, budget=able)
    assert search.predict(X).shape == (60,)
    ball = Moves.ball(X, per="unit")
    exact = StrategicLinearClassifier(ball).fit(X, y, budget=np.linspace(0, 1, 60))
    assert 0 <= exact.loss_ <= 0.5
    with pytest.raises(InvalidInputError, match="60 numbers of at least 0"):
        StrategicLinearClassifier(moves).fit(X, y, budget=[1.0])
    assert np.unique(rounded_down(np.linspace(0, 1, 500))).size <= 25
    assert (rounded_down(np.linspace(0, 1, 500)) <= np.linspace(0, 1, 500)).all()


def test_words_behind_a_preprocessor() -> None:
    rng = np.random.default_rng(3)
    n = 120
    X = pd.DataFrame(
        {"home": rng.choice(["rent", "own"], n), "debt": rng.normal(size=n)},
        index=[f"p{i}" for i in range(n)],
    )
    y = np.where((X["home"] == "own") * 1.0 - X["debt"] + rng.normal(0, 0.5, n) > 0, "yes", "no")
    moves = Moves({"home": Switch({("rent", "own"): 1.0}), "debt": Change("down")}, reference=X)
    prepare = make_column_transformer((OneHotEncoder(), ["home"]), (StandardScaler(), ["debt"]))
    model = StrategicLinearClassifier(
        moves, budget=1.0, preprocessor=prepare, positive="yes", class_weight="balanced"
    ).fit(X, y)
    report = gaming_report(model, X[["debt", "home"]], y, moves, budget=[0.0, 1.0])
    assert "additive score" in report.summary()
    assert report.to_frame().loc[0, "accuracy"] == model.score(X, y)
    chances = model.predict_proba(X)
    assert np.allclose(chances.sum(axis=1), 1)
    assert np.array_equal(chances[:, 1] >= 0.5, model.predict(X) == "yes")
    over = StrategicLinearClassifier(
        moves, budget=(0.0, 1.0), preprocessor=prepare, positive="yes"
    ).fit(X, y)
    frame = gaming_report(over, X, y, moves, budget=[0.0, 0.25, 0.5, 0.75, 1.0]).to_frame()
    assert 1 - frame["accuracy"].min() == pytest.approx(over.loss_, abs=1e-12)


def test_erm_with_moves_is_erm_on_their_graph() -> None:
    rng = np.random.default_rng(4)
    X = rng.integers(0, 6, size=(40, 2)).astype(float)
    y = (X[:, 0] + 0.5 * X[:, 1] <= 3).astype(int)
    moves = Moves({0: Change("down", step=1, per="step", cost=2.0, low=0),
                   1: Change("down", step=1, per="step", low=0)}, budget=2.0)  # fmt: skip
    model = StrategicERM("halfspace", moves=moves).fit(X, y)
    nodes = np.array([[a, b] for a in range(6) for b in range(6)], dtype=float)
    arcs = [
        [j for j in range(36) if 0 < moves.price(nodes[[i]], nodes[[j]])[0] <= 2.0]
        for i in range(36)
    ]
    graph = ManipulationGraph.from_lists(arcs, features=nodes)
    other = StrategicERM("halfspace").fit(X, y, graph=graph)
    assert model.loss_ == other.loss_
    assert model.optimal_
    wrong = [
        (lambda: StrategicERM(moves=moves).fit(X, y, graph=graph), "not both"),
        (lambda: StrategicERM(budget=1.0).fit(X, y), "budget needs moves"),
        (lambda: StrategicERM(moves=Moves({0: Change("up", per="unit")}), budget=1.0).fit(X, y),
         "moves continuously"),
        (lambda: StrategicERM(moves=Moves({0: Change("up", step=1, per="unit")})).fit(X, y),
         "budget is needed"),
    ]  # fmt: skip
    for call, words in wrong:
        with pytest.raises(InvalidInputError, match=words):
            call()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"moves": 3.0}, "moves must be Moves"),
        ({"budget": 1.0}, "budget needs moves"),
        ({"moves": "table"}, "budget is needed"),
        ({"moves": "table", "budget": (1.0, 0.0)}, "low, high"),
        ({"moves": "table", "budget": -1.0}, "at least 0"),
        ({"moves": "table", "radius": 1.0}, "only one of them"),
    ],
)
def test_bad_parameters(options: dict[str, Any], words: str) -> None:
    X, y, moves = table(5)
    given = {k: moves if v == "table" else v for k, v in options.items()}
    with pytest.raises(InvalidInputError, match=words):
        StrategicLinearClassifier(**given).fit(X, y)
