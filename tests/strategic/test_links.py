"""Columns that cannot move alone: joint options equal enumeration, in every method."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterplay.errors import InvalidInputError
from counterplay.strategic import Change, Moves, Switch, cheapest_moves
from counterplay.strategic.best_shown import best_shown
from counterplay.strategic.links import Derived, NotAbove, OneHot

COMBINES = ["sum", "euclid", "max"]
HOMES = ["rents", "owns", "other"]
LINKS = [
    Derived("ratio", of=["debt", "income"], by="debt / income"),
    NotAbove("late90", "late60"),
    OneHot(HOMES),
]


def borrowers(n: int = 150, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"debt": rng.integers(1, 8, n), "income": rng.integers(2, 6, n)})
    frame["ratio"] = frame["debt"] / frame["income"]
    frame["late60"] = rng.integers(0, 4, n)
    frame["late90"] = np.minimum(frame["late60"], rng.integers(0, 3, n))
    home = rng.integers(0, 3, n)
    for k, name in enumerate(HOMES):
        frame[name] = (home == k).astype(int)
    frame["age"] = rng.integers(20, 60, n)
    score = -2 * frame["ratio"] - frame["late60"] - frame["late90"] + frame["owns"]
    y = (score + rng.normal(0, 0.5, n) > np.quantile(score, 0.6)).astype(int)
    return frame, y.to_numpy()


def linked_moves(frame: pd.DataFrame, combine: Any = "sum", links: Any = None) -> Moves:
    return Moves(
        {
            "debt": Change("down", step=1, per="unit", cost=0.4, low=1),
            "income": Change("up", step=1, per="unit", cost=0.9, high=6),
            "late60": Change("down", step=1, per="unit", cost=0.5, low=0),
            "late90": Change("down", step=1, per="unit", cost=0.6, low=0),
            "rents": Change("down", step=1, per="unit", cost=0.3),
            "owns": Change("up", step=1, per="unit", cost=0.5),
            "other": Change("both", step=1, per="unit", cost=0.2),
        },
        reference=frame,
        combine=combine,
        links=LINKS if links is None else links,
    )


def everything_linked(x: pd.Series, combine: str) -> tuple[pd.DataFrame, Any]:
    """Return all rows a person can become and their prices, written down independently."""
    home = next(name for name in HOMES if x[name] == 1)
    ways = {  # column that falls, column that rises
        "rents": {"owns": (0.3, 0.5), "other": (0.3, 0.2)},
        "owns": {},  # nobody gives up a house
        "other": {"owns": (0.2, 0.5)},
    }
    homes = [(home, [])] + [(goal, list(p)) for goal, p in ways[home].items()]
    rows, prices = [], []
    for debt, income, late60, late90, (goal, paid) in itertools.product(
        range(1, int(x["debt"]) + 1),
        range(int(x["income"]), 7),
        range(int(x["late60"]) + 1),
        range(int(x["late90"]) + 1),
        homes,
    ):
        if late90 > late60:
            continue
        row = x.to_dict() | {"debt": debt, "income": income, "late60": late60, "late90": late90}
        row |= {"ratio": debt / income} | {name: int(name == goal) for name in HOMES}
        rows.append(row)
        parts = [
            0.4 * (x["debt"] - debt),
            0.9 * (income - x["income"]),
            0.5 * (x["late60"] - late60),
            0.6 * (x["late90"] - late90),
            *paid,
        ]
        prices.append(
            {"sum": np.sum, "euclid": np.linalg.norm, "max": np.max}[combine](parts)  # type: ignore[operator]
        )
    return pd.DataFrame(rows), np.array(prices)


def fitted(kind: str, X: pd.DataFrame, y: Any) -> Any:
    return {
        "linear": make_pipeline(StandardScaler(), LogisticRegression()),
        "forest": RandomForestClassifier(8, max_depth=4, random_state=0),
        "scaled": make_pipeline(
            StandardScaler(), GradientBoostingClassifier(n_estimators=8, random_state=0)
        ),
        "histogram": HistGradientBoostingClassifier(
            max_iter=8, max_depth=3, early_stopping=False, min_samples_leaf=8
        ),
    }[kind].fit(X, y)


@pytest.mark.claim("20.04", "20.19")
@pytest.mark.parametrize("combine", COMBINES)
@pytest.mark.parametrize("kind", ["linear", "forest", "scaled", "histogram"])
def test_linked_columns_equal_enumeration(kind: str, combine: Any) -> None:
    X, y = borrowers()
    model = fitted(kind, X, y)
    moves = linked_moves(X, combine)
    people = X[model.predict(X) == 0].iloc[:25]
    plan = cheapest_moves(model, people, moves)
    assert plan.exact.all()
    assert plan.method != "search (best found; nothing is certified from below)"
    movers = np.isfinite(plan.upper)
    goals = plan.destination
    assert (model.predict(goals[movers]) == 1).all()
    assert moves.price(people, goals)[movers] == pytest.approx(plan.upper[movers], abs=1e-9)
    assert (goals["late90"] <= goals["late60"]).all()
    assert (goals[HOMES].sum(axis=1) == 1).all()
    assert goals["ratio"].to_numpy() == pytest.approx(goals["debt"] / goals["income"])
    shown = best_shown(model, people, moves, [1.0])
    assert shown.exact.all()
    score = getattr(model, "decision_function", None) or (lambda r: model.predict_proba(r)[:, 1])
    for i in range(6):
        rows, price = everything_linked(people.iloc[i], combine)
        rows = rows.astype(X.dtypes.to_dict())
        accepted = model.predict(rows) == 1
        best = price[accepted].min() if accepted.any() else np.inf
        assert plan.upper[i] == pytest.approx(best, rel=1e-9), i
        top = score(rows)[price <= 1.0 + 1e-9].max()
        assert shown.low[i, 0] == pytest.approx(top, rel=1e-9), i


@pytest.mark.claim("20.04")
@pytest.mark.parametrize("kind", ["linear", "histogram"])
def test_missing_values_are_filled_or_hidden_as_enumeration_says(kind: str) -> None:
    rng = np.random.default_rng(2)
    n = 200
    X = pd.DataFrame({"a": rng.integers(0, 6, n).astype(float), "b": rng.normal(size=n).round(2)})
    X["c"] = rng.choice(["x", "y", "z"], n)
    X["c"] = X["c"].astype("category")
    X.loc[::4, "a"] = np.nan
    X.loc[::5, "b"] = np.nan
    score = X["a"].fillna(4.0) + X["b"].fillna(0.4) + (X["c"] == "x")
    y = (score + rng.normal(0, 0.3, n) > 4.2).astype(int)
    if kind == "linear":
        from sklearn.compose import make_column_transformer
        from sklearn.preprocessing import OneHotEncoder

        numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
        prepare = make_column_transformer((numbers, ["a", "b"]), (OneHotEncoder(), ["c"]))
        model = make_pipeline(prepare, LogisticRegression()).fit(X, y)
    else:
        model = HistGradientBoostingClassifier(
            max_iter=12, max_depth=3, early_stopping=False, categorical_features="from_dtype"
        ).fit(X, y)
    moves = Moves(
        {
            "a": Change("up", step=1, per="unit", cost=0.5, missing=0.7, hide=0.35),
            "b": Change("up", per="unit", cost=1.0, hide=0.25),  # missing entries stay
            "c": Switch({("y", "x"): 0.6}),
        },
        reference=X,
    )
    people = X[model.predict(X) == 0].iloc[:40]
    plan = cheapest_moves(model, people, moves)
    assert plan.exact.all()
    assert (plan.destination["b"].isna() | ~people["b"].isna()).all()
    b_high = float(X["b"].max())
    splits = np.unique(np.concatenate([X["b"].dropna(), np.linspace(X["b"].min(), b_high, 2000)]))
    for i in range(15):
        x = people.iloc[i]
        a = [(x["a"], 0.0)]
        if np.isnan(x["a"]):
            a += [(float(v), 0.7) for v in range(6)]
        else:
            a += [(v, 0.5 * (v - x["a"])) for v in np.arange(x["a"] + 1, 6)] + [(np.nan, 0.35)]
        b = [(x["b"], 0.0)]
        if not np.isnan(x["b"]):
            above = splits[splits > x["b"]]
            b += [*zip(above, above - x["b"]), (np.nan, 0.25)]
        c = [(x["c"], 0.0)] + ([("x", 0.6)] if x["c"] == "y" else [])
        combos = list(itertools.product(a, b, c))
        rows = pd.DataFrame([[v for v, _ in combo] for combo in combos], columns=["a", "b", "c"])
        rows = rows.astype(X.dtypes.to_dict())
        price = np.array([sum(p for _, p in combo) for combo in combos])
        accepted = model.predict(rows) == 1
        best = price[accepted].min() if accepted.any() else np.inf
        fine = 0.01  # the enumeration walks on a fine grid of b
        assert plan.upper[i] <= best + 1e-9
        assert plan.upper[i] >= best - fine


def test_only_what_a_link_forbids_changes() -> None:
    X, y = borrowers()
    model = fitted("linear", X, y)
    free = cheapest_moves(model, X, linked_moves(X, links=[]))
    tied = cheapest_moves(model, X, linked_moves(X, links=[LINKS[1]]))
    assert (tied.upper >= free.upper - 1e-9).all()
    assert (tied.upper > free.upper + 1e-6).any()


def test_prices_know_the_links() -> None:
    X, _ = borrowers()
    moves = linked_moves(X)
    a = X.iloc[[0]].assign(
        debt=4, income=4, ratio=1.0, late60=1, late90=1, rents=1, owns=0, other=0
    )
    goal = a.assign(debt=2, ratio=0.5)
    assert moves.price(a, goal).item() == pytest.approx(0.8)
    assert np.isinf(moves.price(a, a.assign(debt=2)).item())  # the ratio did not follow
    assert np.isinf(moves.price(a, a.assign(ratio=0.5)).item())  # nor does it move alone
    assert np.isinf(moves.price(a, a.assign(late60=0)).item())  # late90 would be above
    assert moves.price(a, a.assign(late60=0, late90=0)).item() == pytest.approx(1.1)
    assert np.isinf(moves.price(a, a.assign(rents=0)).item())
    assert moves.price(a, a.assign(rents=0, owns=1)).item() == pytest.approx(0.8)
    both = moves.price(a, pd.concat([a, goal, a.assign(debt=2)]), pairwise=True)
    assert both[0].tolist() == pytest.approx([0.0, 0.8, np.inf])


@pytest.mark.parametrize(
    ("links", "columns", "message"),
    [
        (
            [Derived("ratio", of=["debt", "income"], by="debt / income")],
            {"income": Change("up", per="unit")},
            r"Derived\('ratio'\) needs a step or grid for 'income'",
        ),
        (
            [Derived("debt", of=["income"], by="income")],
            {"debt": Change("up", step=1, per="unit")},
            "has no price of its own",
        ),
        ([NotAbove("late90", "late61")], {}, "did you mean 'late60'"),
        ([3], {}, "links must be Derived, OneHot or NotAbove"),
    ],
)
def test_bad_links_are_refused(links: Any, columns: Any, message: str) -> None:
    X, _ = borrowers()
    given = {"debt": Change("down", step=1, per="unit")} | columns
    with pytest.raises(InvalidInputError, match=message):
        Moves(given, reference=X, links=links)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("debt ** income", "only names, numbers"),
        ("__import__('os')", "only names, numbers"),
        ("debt / salary", "'salary', which is not in of"),
        ("debt" + " + debt" * 60, "at most 200"),
        ("debt /", "only names, numbers"),
    ],
)
def test_formulas_are_parsed_and_never_run(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Derived("ratio", of=["debt", "income"], by=text)


def test_too_many_joint_options_name_the_step_to_coarsen() -> None:
    X = pd.DataFrame({"debt": [900, 1, 2], "income": [1, 500, 2], "ratio": [900.0, 0.002, 1.0]})
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, [0, 1, 1])
    moves = Moves(
        {
            "debt": Change("down", step=1, per="unit", cost=0.001),
            "income": Change("up", step=1, per="unit", cost=0.001),
        },
        reference=X,
        links=[Derived("ratio", of=["debt", "income"], by="debt / income")],
    )
    with pytest.raises(InvalidInputError, match="options within the budget; coarsen the step of"):
        cheapest_moves(model, X, moves)


def test_links_survive_the_moves_file(tmp_path: Path) -> None:
    X, _ = borrowers()
    path = tmp_path / "moves.toml"
    moves = linked_moves(X)
    moves.to_toml(path)
    back = Moves.from_toml(path, reference=X)
    assert back.links == moves.links
    assert dict(back.columns) == dict(moves.columns)
    called = Derived("ratio", of=["debt", "income"], by=lambda f: f["debt"] / f["income"])
    with pytest.raises(InvalidInputError, match="a function cannot be written"):
        linked_moves(X, links=[called]).to_toml(path)
    path.write_text('[moves]\nlinks = [{not_abov = ["a", "b"]}]\n[movable.debt]\ndirection = "up"')
    with pytest.raises(InvalidInputError, match="not_abov is not a setting"):
        Moves.from_toml(path, reference=X)
