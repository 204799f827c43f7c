"""Prices where a column has no bound, or bends: compared with all values, asked of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import LinearSVC

from counterplay.errors import InvalidInputError
from counterplay.strategic import Change, Moves, cheapest_moves

BENT = {
    "bins": lambda: make_pipeline(KBinsDiscretizer(8), LogisticRegression()),
    "spline": lambda: make_pipeline(SplineTransformer(), LogisticRegression()),
}
TREES = {
    "scaled": lambda: make_pipeline(StandardScaler(), GradientBoostingClassifier(n_estimators=10)),
    "ranks": lambda: make_pipeline(
        QuantileTransformer(n_quantiles=50), GradientBoostingClassifier(n_estimators=10)
    ),
}


def incomes(n: int = 600) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"income": rng.uniform(0, 100_000, n), "age": rng.uniform(20, 70, n)})
    y = (frame["income"] + rng.normal(0, 20_000, n) > 50_000).astype(int).to_numpy()
    return frame, y


def least_way(model: Any, person: pd.DataFrame, ways: np.ndarray[Any, Any]) -> float:
    """Return the shortest of some ways up in income that the model accepts."""
    goals = person.iloc[np.zeros(ways.size, dtype=int)].copy()
    goals["income"] = goals["income"].to_numpy() + ways
    return float(ways[model.predict(goals) == 1].min())


@pytest.mark.parametrize("kind", [*BENT, *TREES])
@pytest.mark.parametrize("people", [1, 3])
def test_few_people_go_as_far_as_the_model_looks(kind: str, people: int) -> None:
    frame, y = incomes()
    model = {**BENT, **TREES}[kind]().fit(frame, y)
    poor = pd.DataFrame({"income": [10.0, 20.0, 30.0][:people], "age": 30.0})
    moves = Moves({"income": Change("up", cost=1e-3, per="unit", step=1000)})
    plan = cheapest_moves(model, poor, moves, budget=200)
    ways = np.arange(0, 120_000, 1000.0)
    brute = [1e-3 * least_way(model, poor.iloc[[i]], ways) for i in range(people)]
    assert plan.exact.all()
    assert plan.upper == pytest.approx(brute)


def test_more_steps_than_any_list_used_to_hold() -> None:
    frame, y = incomes()
    model = BENT["bins"]().fit(frame, y)
    poor = pd.DataFrame({"income": [10.0], "age": [30.0]})
    moves = Moves({"income": Change("up", cost=1e-3, per="unit", step=1, low=0, high=100_000)})
    plan = cheapest_moves(model, poor, moves)
    assert plan.exact.all()
    assert plan.upper[0] == pytest.approx(1e-3 * least_way(model, poor, np.arange(0, 99_990, 1.0)))


def test_a_bend_that_cannot_be_listed_is_refused() -> None:
    frame, y = incomes()
    model = BENT["bins"]().fit(frame, y)
    poor = pd.DataFrame({"income": [10.0], "age": [30.0]})
    loose = Change("up", cost=1e-3, per="unit")
    with pytest.raises(InvalidInputError, match="not straight along 'income': give it a step"):
        cheapest_moves(model, poor, Moves({"income": loose}))
    stepped = Change("up", cost=1e-3, per="unit", step=1)
    with pytest.raises(InvalidInputError, match="'income' has no bound and the score"):
        cheapest_moves(model, poor, Moves({"income": stepped}))
    fine = Change("up", cost=1e-3, per="unit", step=0.01)
    with pytest.raises(InvalidInputError, match="coarsen its step"):
        cheapest_moves(model, frame, Moves({"income": fine}, reference=frame))


@pytest.mark.parametrize("encoder", [OneHotEncoder, OrdinalEncoder])
def test_numbers_behind_an_encoder_have_no_order_for_trees(encoder: Any) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"rate": rng.integers(0, 7, 200).astype(float), "age": rng.normal(size=200)}
    )
    y = (np.sin(2 * frame["rate"]) + rng.normal(0, 0.3, 200) > 0).astype(int)
    options: dict[str, Any] = {"handle_unknown": "ignore", "sparse_output": False}
    if encoder is OrdinalEncoder:
        options = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
    prepare = make_column_transformer((encoder(**options), ["rate"]), ("passthrough", ["age"]))
    model = make_pipeline(prepare, RandomForestClassifier(10, max_depth=4, random_state=0))
    model.fit(frame, y)
    moves = Moves({"rate": Change("both", step=0.5, per="unit", low=0, high=6)}, reference=frame)
    plan = cheapest_moves(model, frame, moves)
    grid = np.arange(0, 6.5, 0.5)
    for i in range(len(frame)):
        goals = pd.DataFrame({"rate": grid, "age": frame["age"].iloc[i]})
        fine = model.predict(goals) == 1
        brute = np.abs(grid - frame["rate"].iloc[i])[fine].min() if fine.any() else np.inf
        assert plan.lower[i] <= brute <= plan.upper[i]


def test_a_calibration_that_turns_the_score_round() -> None:
    frame, y = incomes(200)
    shuffled = np.random.default_rng(9).permutation(y)  # nothing to learn: the slope has no sign
    moves = Moves({"income": Change("both", step=5000, per="step", low=0, high=100_000)})
    turned = 0
    for seed in range(12):
        part = frame.sample(90, random_state=seed)
        inner = make_pipeline(StandardScaler(), LinearSVC())
        model = CalibratedClassifierCV(inner, ensemble=False, cv=3)
        model.fit(part, shuffled[part.index])
        turned += model.calibrated_classifiers_[0].calibrators[0].a_ > 0
        plan = cheapest_moves(model, part, moves)
        for i in np.flatnonzero(model.predict(part) != 1)[:5].tolist():
            own = part["income"].iloc[i]
            goals = own + 5000 * np.arange(-20, 21.0)
            goals = goals[(goals >= 0) & (goals <= 100_000)]
            said = model.predict(pd.DataFrame({"income": goals, "age": part["age"].iloc[i]})) == 1
            brute = (np.abs(goals - own)[said] / 5000).min() if said.any() else np.inf
            assert plan.upper[i] == pytest.approx(brute)
    assert turned > 0


def test_a_threshold_on_chances_that_are_not_logistic() -> None:
    frame, y = incomes(300)
    inner = GradientBoostingClassifier(n_estimators=8, loss="exponential", random_state=0)
    model = FixedThresholdClassifier(inner, threshold=0.7).fit(frame, y)
    moves = Moves({"income": Change("up", step=2000, per="step", low=0, high=100_000)})
    plan = cheapest_moves(model, frame, moves)
    for i in np.flatnonzero(model.predict(frame) != 1)[:60].tolist():
        own = frame["income"].iloc[i]
        goals = own + 2000 * np.arange(0, 51.0)
        goals = goals[goals <= 100_000]
        said = model.predict(pd.DataFrame({"income": goals, "age": frame["age"].iloc[i]})) == 1
        brute = ((goals - own)[said] / 2000).min() if said.any() else np.inf
        assert plan.lower[i] <= brute * (1 + 1e-9)
        assert plan.upper[i] >= brute * (1 - 1e-9)
