"""Models and tables as users hand them in: wrapped, scaled, raw, with an index, words as labels.

What concerns one class alone stands beside its code.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterplay.core.finite_class import FiniteClass
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.strategic import (
    Agents,
    Change,
    LinearClass,
    ManipulationGraph,
    Moves,
    StrategicERM,
    cheapest_moves,
    estimate_ability,
    gaming_report,
    rethreshold,
    strategic_accuracy,
    value_of_information,
)
from counterplay.strategic.lab import stackelberg_regret

DATA = Path(os.environ.get("COUNTERPLAY_DATA", "/nowhere"))


def people(n: int = 200, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        rng.normal(size=(n, 3)),
        columns=["income", "debt", "age"],
        index=[f"p{i}" for i in range(n)],
    )
    return X, (X["income"] - X["debt"] > 0.2).astype(int).to_numpy()


def test_one_model_in_three_wrappers_has_one_answer() -> None:
    """A threshold wrapper or a column transformer changes no number."""
    X, y = people()
    moves = Moves.ball(X, fixed=["age"])
    plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    apart = make_column_transformer((StandardScaler(), ["income", "debt", "age"]))
    frames = [
        gaming_report(model, X, y, moves, budget=[0.0, 0.5, 1.0]).to_frame()
        for model in (
            plain,
            FixedThresholdClassifier(plain, threshold=0.5).fit(X, y),
            make_pipeline(apart, LogisticRegression()).fit(X, y),
        )
    ]
    for other in frames[1:]:
        pd.testing.assert_frame_equal(frames[0], other, rtol=1e-9)
    assert frames[0]["exact"].all()


@pytest.mark.claim("20.29")
@pytest.mark.parametrize("seed", [0, 1])
def test_far_points_are_fitted_or_not_called_optimal(seed: int) -> None:
    """Separable people with two outliers; and raw columns of very different size."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3))
    X[0, 0], X[1, 1] = 5e4, -3e4
    y = (X @ [1, 2, -1] > 0).astype(int)
    model = StrategicERM("halfspace_milp", time_limit=20).fit(X, y)
    assert model.loss_ == 0 or not model.optimal_
    raw = np.column_stack((rng.integers(250, 20000, 40), rng.integers(4, 72, 40))).astype(float)
    good = (raw[:, 0] / 5000 + raw[:, 1] / 30 < 3).astype(int)
    other = StrategicERM("halfspace_milp", time_limit=20).fit(raw, good)
    assert other.loss_ == 0 or not other.optimal_


@pytest.mark.claim("20.29")
@pytest.mark.skipif(
    not (DATA / "german_credit.parquet").is_file(),
    reason="COUNTERPLAY_DATA does not hold german_credit.parquet",
)
@pytest.mark.parametrize("start", [0, 18, 36])
def test_raw_credit_columns_have_the_optimum_of_scaled_ones(start: int) -> None:
    """Halfspaces do not mind the units of a column, so neither may the optimum."""
    german = pd.read_parquet(DATA / "german_credit.parquet").iloc[start : start + 18]
    X = german[["credit_amount", "duration_months"]].to_numpy(dtype=float)
    y = (german["class"] == german["class"].mode()[0]).to_numpy(dtype=int)
    raw, scaled = (
        StrategicERM("halfspace_milp", time_limit=5).fit(Z, y) for Z in (X, X / X.std(axis=0))
    )
    for one, other, Z in ((raw, scaled, X), (scaled, raw, X / X.std(axis=0))):
        assert one.loss_ == pytest.approx(np.mean(one.predict(Z) != y), abs=1e-12)
        assert not one.optimal_ or one.loss_ <= other.loss_ + 1e-12


@pytest.mark.claim("20.30")
def test_the_wanted_class_is_asked_for_and_said_first() -> None:
    """Labels 1 and 2 say nothing; a table coded 1 = default is asked about."""
    X, y = people()
    coded = LogisticRegression().fit(X, 1 + y)
    moves = Moves.ball(X)
    for call in (
        lambda: gaming_report(coded, X, 1 + y, moves),
        lambda: rethreshold(coded, X, 1 + y, moves),
        lambda: estimate_ability(coded, X, X, moves),
        lambda: cheapest_moves(coded, X, moves),
    ):
        with pytest.raises(InvalidInputError, match="which outcome do people want"):
            call()
    model = LogisticRegression().fit(X, 1 - y)
    line = gaming_report(model, X, 1 - y, moves, positive=0).summary().splitlines()[0]
    assert "wanted: 0" in line
    assert f"({y.mean():.0%} of the labels)" in line
    late = (X["income"] - X["debt"] < -0.6).astype(int).rename("default")
    with pytest.warns(AssumptionWarning, match="y is called 'default'; check"):
        gaming_report(LogisticRegression().fit(X, late), X, late, moves)


@pytest.mark.claim("20.30")
@pytest.mark.skipif(
    not (DATA / "heloc_fico.parquet").is_file(),
    reason="COUNTERPLAY_DATA does not hold heloc_fico.parquet",
)
def test_heloc_and_german_credit() -> None:
    """The tables as they are shipped."""
    heloc = pd.read_parquet(DATA / "heloc_fico.parquet").iloc[:600]
    X, y = heloc.drop(columns="RiskPerformance").astype(float), heloc["RiskPerformance"]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(X, y)
    moves = Moves(
        {"NetFractionRevolvingBurden": Change("down", step=1, codes=[-9, -8, -7])}, reference=X
    )
    first = gaming_report(model, X, y, moves, positive=0).summary().splitlines()[0]
    assert f"wanted: 0 ({(y == 0).mean():.0%} of the labels)" in first
    german = pd.read_parquet(DATA / "german_credit.parquet")
    X = german[["duration_months", "credit_amount"]].astype(float)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, german["class"])
    with pytest.raises(InvalidInputError, match="which outcome do people want"):
        gaming_report(model, X, german["class"], Moves.ball(X))


@pytest.mark.claim("20.33")
def test_a_scaler_inside_or_outside_changes_nothing() -> None:
    """One standard deviation costs 1 wherever it is taken, and the summary says so."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    inside = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    Z = pd.DataFrame(StandardScaler().fit_transform(X), columns=X.columns)
    outside = LogisticRegression().fit(Z, y)
    budget = [0.0, 0.5, 1.0]
    one = gaming_report(inside, X, y, Moves.ball(X, per="sd"), budget=budget)
    two = gaming_report(outside, Z, y, Moves.ball(Z, per="sd"), budget=budget)
    pd.testing.assert_frame_equal(one.to_frame(), two.to_frame(), rtol=1e-9)
    moves = Moves.ball(X, per="sd")
    texts = [
        one.summary(),
        rethreshold(inside, X, y, moves, [0.0, 1.0]).summary(),
        cheapest_moves(inside, X, moves).summary(),
        estimate_ability(inside, X, X, moves, random_state=0).summary(),
    ]
    assert all("price 1 = one standard deviation" in text for text in texts)


@pytest.mark.claim("20.31")
def test_the_index_survives_and_labels_may_be_words() -> None:
    """Results keep the rows of the frame, and every door takes words."""
    X, y = people()
    words = np.where(y == 1, "good", "bad")
    model = LogisticRegression().fit(X, words)
    moves = Moves.ball(X)
    report = gaming_report(model, X, words, moves, positive="good")
    assert set(report.moves(0.5)["person"]) <= set(X.index)
    assert cheapest_moves(model, X, moves, positive="good").destination.index.equals(X.index)
    graph = ManipulationGraph.from_lists([[] for _ in range(len(X))], features=X.to_numpy())
    assert strategic_accuracy(
        LogisticRegression().fit(X.to_numpy(), words), X.to_numpy(), words, graph=graph,
        positive="good",
    ) == pytest.approx(model.score(X, words))  # fmt: skip
    rules = LinearClass.from_estimators([model], positive="good")
    assert Agents(X, words, radius=0.1, positive="good").y.sum() == y.sum()
    found = value_of_information(
        rules, X, y=words, radius=0.1, positive="good", repeats=1, random_state=0
    )
    assert "-" not in found.summary().split("saves")[0].split("[")[-1].split(",")[0]


@pytest.mark.claim("20.31")
def test_bad_arguments_are_refused_before_the_model_is_asked() -> None:
    """No search before validation: of 30,000 people the model is asked about none."""
    X, y = people()
    X, y = pd.concat([X] * (30_000 // len(X)), ignore_index=True), np.tile(y, 30_000 // len(X))

    class Counting(HistGradientBoostingClassifier):
        calls = 0

        def predict(self, X: Any) -> Any:
            Counting.calls += 1
            return super().predict(X)

        def decision_function(self, X: Any) -> Any:
            Counting.calls += 1
            return super().decision_function(X)

    model = Counting(max_iter=2).fit(X, y)
    Counting.calls = 0
    moves = Moves.ball(X)
    for call in (
        lambda: gaming_report(model, X, y, moves, budget=-1.0),
        lambda: gaming_report(model, X, y, moves, confidence=2.0),
        lambda: gaming_report(model, X, y[:5], moves),
        lambda: gaming_report(model, X, y, moves, value=[1, 2]),
        lambda: gaming_report(model, X, y, moves, groups=["a"]),
        lambda: rethreshold(model, X, y, moves, (1, 0)),
        lambda: rethreshold(model, X, y, moves, value=[[0, 1], [0, 1]]),
        lambda: cheapest_moves(model, X, moves, budget=-1.0),
        lambda: estimate_ability(model, X, X, moves, confidence=0.0),
    ):
        with pytest.raises(InvalidInputError):
            call()
    assert Counting.calls == 0


@pytest.mark.claim("20.31")
@pytest.mark.parametrize("node", [np.inf, np.nan, -1, 7, 0.5])
def test_nodes_that_are_none_give_a_sentence(node: float) -> None:
    """An infinite node number was an IndexError about -9223372036854775808."""
    rules = FiniteClass.from_matrix([[1, 0], [0, 1]])
    line = ManipulationGraph.from_lists([[1], []])
    with pytest.raises(InvalidInputError, match="node"):
        stackelberg_regret([1, 1], [0, node], [1, 1], rules, line)
