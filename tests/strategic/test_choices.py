"""Columns on which one thing excludes another, and steps of one cent, against enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.strategic import Change, Moves, cheapest_moves, gaming_report


def plane(seed: int) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.uniform(0, 10, 200), "b": rng.uniform(0, 10, 200)})
    score = frame.to_numpy() @ rng.normal(size=2)
    y = (score + rng.normal(0, 1, 200) > np.median(score)).astype(int)
    return frame, LogisticRegression().fit(frame, y)


def cheapest_by_grid(model: Any, frame: pd.DataFrame, x: np.ndarray[Any, Any]) -> float:
    """Return the least price of people who may be outside: b is solved for every a on a grid."""
    (wa, wb), w0 = model.coef_[0], model.intercept_[0]
    low, high = frame.min(), frame.max()
    a = np.append(np.linspace(low["a"], high["a"], 4001), x[0])
    paid = np.where(a > x[0], a - x[0], 0.7 * (x[0] - a))
    best = np.inf
    level = np.clip(-(w0 + wa * a) / wb + 1e-9 * np.sign(wb), low["b"], high["b"])
    for b in (np.full(a.size, x[1]), np.full(a.size, low["b"]), np.full(a.size, high["b"]), level):
        price = paid + np.where(b > x[1], 0.5 * (b - x[1]), x[1] - b)
        fine = w0 + wa * a + wb * b > 0
        best = min(best, float(price[fine].min(initial=np.inf)))
    return best


@pytest.mark.parametrize("seed", range(8))
def test_who_is_outside_the_bounds_stays_or_moves_inside(seed: int) -> None:
    frame, model = plane(seed)
    rng = np.random.default_rng(100 + seed)
    people = pd.DataFrame(rng.uniform(-8, 18, (12, 2)), columns=["a", "b"])
    moves = Moves(
        {
            "a": Change("both", cost=(1.0, 0.7), per="unit"),
            "b": Change("both", cost=(0.5, 1.0), per="unit"),
        },
        reference=frame,
    )
    plan = cheapest_moves(model, people, moves)
    assert plan.exact.all()
    for i in np.flatnonzero(plan.upper > 0).tolist():
        brute = cheapest_by_grid(model, frame, people.iloc[i].to_numpy())
        assert plan.upper[i] == pytest.approx(brute, abs=5e-3)


def test_many_steps_from_outside_the_bounds() -> None:
    frame = pd.DataFrame({"amount": np.arange(0.0, 30_000.0, 100.0)})
    y = (frame["amount"] < 16_000).astype(int)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=100.0)).fit(frame, y)
    person = pd.DataFrame({"amount": [18_424.0]})
    seen = frame[frame["amount"] <= 14_900]  # accepted below 16,000, but nobody was ever there
    moves = Moves({"amount": Change("down", step=50, per="step")}, reference=seen)
    plan = cheapest_moves(model, person, moves)
    ways = np.arange(1, 369)
    goals = 18_424.0 - 50.0 * ways
    said = model.predict(pd.DataFrame({"amount": goals})) == 1
    inside = (goals >= 0) & (goals <= 14_900)
    assert ways[said].min() < ways[said & inside].min()
    assert plan.exact.all()
    assert plan.upper[0] == ways[said & inside].min()


def test_fine_steps_beside_a_large_one() -> None:
    rng = np.random.default_rng(3)
    names = [f"m{k}" for k in range(8)]
    frame = pd.DataFrame(rng.integers(0, 200_000, (300, 8)).astype(float), columns=names)
    frame["late"] = rng.integers(0, 9, 300).astype(float)
    w = rng.uniform(0.3, 1.0, 8)
    score = (frame[names] / 1e5) @ w - 1.5 * frame["late"]
    y = (score > score.median()).astype(int)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, y)
    rejected = frame[model.predict(frame) == 0].iloc[:25]
    plan = cheapest_moves(model, rejected, Moves.all(frame))
    assert plan.exact.all()
    with pytest.warns(AssumptionWarning, match="whole numbers"):
        loose = Moves(
            {n: Change("both", step=None if n != "late" else 1.0) for n in frame.columns},
            reference=frame,
        )
    below = cheapest_moves(model, rejected, loose)
    one_step = Moves.all(frame).describe()["one raw unit up"][names].max()
    assert (below.upper <= plan.upper + 1e-9).all()
    assert (plan.upper <= below.upper + 2 * one_step + 1e-9).all()


def test_many_columns_that_may_be_hidden() -> None:
    rng = np.random.default_rng(4)
    names = [f"c{k}" for k in range(16)]
    frame = pd.DataFrame(rng.normal(size=(400, 16)), columns=names)
    y = (frame.sum(axis=1) + rng.normal(0, 1, 400) > 0).astype(int)
    model = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()).fit(frame, y)
    rejected = frame[model.predict(frame) == 0].iloc[:12]
    hidden = {n: Change("both", per="unit", hide=0.4) for n in names[:14]}
    kept = {n: Change("both", per="unit") for n in names[:14]}
    plan = cheapest_moves(model, rejected, Moves(hidden, reference=frame))
    without = cheapest_moves(model, rejected, Moves(kept, reference=frame))
    assert plan.exact.all()
    assert (plan.upper <= without.upper + 1e-9).all()
    assert (plan.upper < without.upper - 1e-6).any()
    prices = Moves(hidden, reference=frame).price(rejected, plan.destination)
    assert prices == pytest.approx(plan.upper)
    assert (model.predict(plan.destination) == 1).all()


def test_rows_with_one_name_and_budgets_nobody_looked_at() -> None:
    frame, model = plane(0)
    y = model.predict(frame)
    moves = Moves({"a": Change("both", per="unit"), "b": Change("both", per="unit")},
                  reference=frame)  # fmt: skip
    report = gaming_report(model, frame, y, moves, budget=[0, 1, 5])
    twice = frame.set_axis(np.arange(200) // 2)
    same = gaming_report(model, twice, y, moves, budget=[0, 1, 5])
    assert len(same.moves(1)) == len(report.moves(1)) < len(report.moves(5))
    with pytest.raises(InvalidInputError, match="2 rows are called 0"):
        same.plan.advice(0)
    short = gaming_report(model, frame, y, moves, budget=[0, 1])
    for ask in (short.at, short.intervals, short.moves):
        with pytest.raises(InvalidInputError, match="looked at budgets up to 1"):
            ask(5)


@pytest.mark.parametrize("combine", ["sum", "euclid", "max"])
@pytest.mark.parametrize("start", [-1.0, -1e200])
def test_steps_that_jump_over_the_bounds_lead_nowhere(start: float, combine: Any) -> None:
    """From -1 steps of 4 lead to 3 and 7, the bounds are 0.5 and 2.5; from -1e200 nothing leads."""
    frame = pd.DataFrame({"a": np.linspace(-2.0, 6.0, 60), "b": np.tile([0.0, 1.0], 30)})
    model = LogisticRegression().fit(frame, frame["a"] > 1.0)
    moves = Moves({"a": Change("up", per="unit", step=4.0, low=0.5, high=2.5)},
                  combine=combine, reference=frame)  # fmt: skip
    plan = cheapest_moves(model, pd.DataFrame({"a": [start], "b": [0.0]}), moves)
    assert np.isinf(plan.upper).all()
    assert np.isinf(plan.lower).all()
