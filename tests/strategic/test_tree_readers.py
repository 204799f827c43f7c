"""Readers of boosting libraries: raw margins, exact prices, destinations the model accepts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from counterplay.strategic import Change, Moves, Switch, cheapest_moves
from counterplay.strategic.best_shown import best_shown
from counterplay.strategic.fold import Asked, open_model
from counterplay.strategic.tree_cells import build_cells
from counterplay.strategic.tree_readers import read_ensemble
from counterplay.strategic.tree_readers.tree import exact_start, sum_of_leaves
from strategic.moves_oracle import brute_force, steps

LIBRARIES = ["xgboost", "lightgbm", "catboost", "catboost statistics"]


def table(n: int = 300) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(4)
    X = pd.DataFrame(
        {
            "late": rng.integers(0, 6, n).astype(float),
            "cards": rng.integers(-3, 6, n).astype(float),
            "income": rng.normal(size=n),
            "home": pd.Categorical(rng.choice(["rent", "own", "free"], n)),
        }
    )
    score = -X["late"] + 0.5 * X["cards"] + X["income"] + 1.5 * (X["home"] == "own")
    y = (score + rng.normal(0, 0.5, n) > 0).astype(int).to_numpy()
    X.loc[::6, "cards"] = np.nan
    X.loc[1::9, "income"] = np.nan
    return X, y


def fitted(library: str, X: pd.DataFrame, y: Any, trees: int = 12) -> tuple[Any, pd.DataFrame]:
    module = pytest.importorskip(library.split()[0], reason=f"{library} is an extra")
    if library == "xgboost":
        model = module.XGBClassifier(
            n_estimators=trees, max_depth=3, enable_categorical=True, max_cat_to_onehot=2
        )
    elif library == "lightgbm":
        model = module.LGBMClassifier(
            n_estimators=trees, max_depth=3, min_child_samples=5, verbose=-1,
            cat_smooth=1, min_data_per_group=5,
        )  # fmt: skip
    else:
        model = module.CatBoostClassifier(
            iterations=trees, depth=3, verbose=0, allow_writing_files=False, random_seed=0,
            cat_features=["home"], one_hot_max_size=9 if library == "catboost" else 1,
        )  # fmt: skip
    return model.fit(X, y), X


@pytest.mark.claim("20.09")
@pytest.mark.parametrize("library", LIBRARIES)
def test_leaves_add_up_to_the_raw_margin(library: str) -> None:
    X, y = table()
    model, X = fitted(library, X, y, trees=40)
    reading = read_ensemble(model)
    assert reading is not None
    start = exact_start(reading, reading.encode(X), reading.raw(X)) if reading.single else None
    total = reading.scale * sum_of_leaves(reading.trees, reading.encode(X), start)
    off = reading.raw(X) - total
    assert np.ptp(off) <= (0.0 if reading.single else 1e-12)  # to the last bit in 32 bits
    if not library.startswith("catboost"):
        assert any(t.left_codes or t.right_codes for t in reading.trees)  # categories are split
    else:
        assert reading.encode(X).shape[1] > X.shape[1]  # one column per split on a category


@pytest.mark.claim("20.04", "20.08")
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.filterwarnings("ignore:the model was fitted without column names")
def test_prices_equal_enumeration_through_the_model(library: str) -> None:
    X, y = table()
    model, X = fitted(library, X, y)
    given: dict[str, Any] = {
        "late": Change("down", step=1, cost=0.5, per="unit", low=0),
        "cards": Change("both", step=1, cost=(0.4, 0.3), per="unit", missing=0.6, hide=0.7),
    }
    if "home" in X:
        given["home"] = Switch({("rent", "own"): 0.8, ("free", "rent"): 0.1})
    moves = Moves(given, reference=X)
    people = X[np.asarray(model.predict(X)) == 0].iloc[:40]
    plan = cheapest_moves(model, people, moves)
    assert plan.exact.all()
    assert plan.method == "12 trees"
    movers = np.isfinite(plan.upper)
    goals = plan.destination[movers]
    assert (np.asarray(model.predict(goals)) == 1).all()
    assert moves.price(people[movers], goals) == pytest.approx(plan.upper[movers], abs=1e-9)
    for i in range(10):
        x = people.iloc[i]
        options: dict[str, Any] = {"late": steps(x["late"], np.inf, 0.5, 0, 5)}
        options["cards"] = [*steps(x["cards"], 0.4, 0.3, -3, 5), (np.nan, 0.7)]
        if np.isnan(x["cards"]):
            options["cards"] = [(np.nan, 0.0), *((float(v), 0.6) for v in range(-3, 6))]
        if "home" in X:
            ways = {"rent": [("own", 0.8)], "free": [("rent", 0.1), ("own", 0.9)], "own": []}
            options["home"] = [(x["home"], 0.0), *ways[x["home"]]]
        best = brute_force(model, x, options, "sum", X)
        assert plan.upper[i] == pytest.approx(best, rel=1e-9), i


@pytest.mark.claim("20.08")
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.filterwarnings("ignore:the model was fitted without column names")
def test_splits_are_crossed_by_one_float_and_budgets_agree_with_scores(library: str) -> None:
    X, y = table()
    model, X = fitted(library, X, y)
    moves = Moves(
        {"income": Change("both", per="unit"), "cards": Change("up", step=1, per="unit")},
        reference=X,
    )
    people = X.iloc[:60]
    plan = cheapest_moves(model, people, moves)  # raises if the model rejects a destination
    assert plan.exact.all()
    shown = best_shown(model, people, moves, [0.3, 1.0])
    assert shown.exact.all()
    for k, r in enumerate((0.3, 1.0)):
        passes = np.asarray(model.predict(shown.destination(k))) == 1
        assert (passes == (plan.upper <= r * (1 + 1e-9))).all()


def test_a_booster_with_zeros_as_missing_is_not_read_as_cuts() -> None:
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is an extra")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(-2, 3, (300, 2)).astype(float), columns=["a", "b"])
    y = ((X["a"] > 0) ^ (X["a"] == 0) ^ (X["b"] < 0)).astype(int)
    model = lightgbm.LGBMClassifier(
        n_estimators=10, zero_as_missing=True, min_child_samples=2, verbose=-1
    ).fit(X, y)
    reading = read_ensemble(model)
    if reading is not None:  # no split sends zeros against its cut: then it adds up
        total = sum_of_leaves(reading.trees, reading.encode(X))
        assert reading.raw(X) == pytest.approx(total)


def unusual(kind: str, X: pd.DataFrame, y: Any) -> Any:
    """A boosted model whose answer is more than a sum of constant leaves against a cut."""
    from sklearn.calibration import CalibratedClassifierCV

    if kind == "linear leaves":
        lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is an extra")
        model = lightgbm.LGBMClassifier(
            n_estimators=12, max_depth=3, min_child_samples=5, linear_tree=True, verbose=-1
        ).fit(X, y)
        assert "leaf_coeff" in str(model.booster_.dump_model())
        return model
    xgboost = pytest.importorskip("xgboost", reason="xgboost is an extra")
    if kind == "hinge":
        return xgboost.XGBClassifier(n_estimators=12, max_depth=3, objective="binary:hinge").fit(
            X, y
        )
    inner = xgboost.XGBClassifier(n_estimators=12, max_depth=3)
    return CalibratedClassifierCV(inner, method=kind, cv=3).fit(X, y)


@pytest.mark.claim("20.04", "20.08")
@pytest.mark.parametrize("kind", ["linear leaves", "hinge", "isotonic", "sigmoid"])
def test_prices_of_unusual_boosters_hold_against_enumeration(kind: str) -> None:
    X, y = table()
    X = X[["late", "cards", "income"]]
    model = unusual(kind, X, y)
    if kind in ("linear leaves", "hinge"):
        assert read_ensemble(model) is None
    moves = Moves(
        {
            "late": Change("down", step=1, cost=0.5, per="unit", low=0),
            "cards": Change("both", step=1, cost=(0.4, 0.3), per="unit", missing=0.6, hide=0.7),
        },
        reference=X,
    )
    people = X[np.asarray(model.predict(X)) == 0].iloc[:20]
    plan = cheapest_moves(model, people, moves)
    movers = np.isfinite(plan.upper)
    assert movers.any()
    goals = plan.destination[movers]
    assert (np.asarray(model.predict(goals)) == 1).all()
    assert moves.price(people[movers], goals) == pytest.approx(plan.upper[movers], abs=1e-9)
    for i in range(20):
        x = people.iloc[i]
        options: dict[str, Any] = {"late": steps(x["late"], np.inf, 0.5, 0, 5)}
        options["cards"] = [*steps(x["cards"], 0.4, 0.3, -3, 5), (np.nan, 0.7)]
        if np.isnan(x["cards"]):
            options["cards"] = [(np.nan, 0.0), *((float(v), 0.6) for v in range(-3, 6))]
        best = brute_force(model, x, options, "sum", X)
        if plan.exact[i]:
            assert plan.upper[i] == pytest.approx(best, rel=1e-9), i
        else:
            assert plan.lower[i] <= best * (1 + 1e-9), i
            assert plan.upper[i] >= best * (1 - 1e-9), i


def test_a_wrong_reading_is_refused() -> None:
    from sklearn.ensemble import GradientBoostingClassifier

    from counterplay.errors import InvalidInputError

    X, y = table()
    data = X[["late"]]
    model = GradientBoostingClassifier(n_estimators=5).fit(data, y)
    model.learning_rate = 0.3  # not the one it was fitted with
    asked = Asked(model, data)
    model.decision_function = lambda rows: np.arange(len(rows), dtype=float)
    opened = open_model(asked)
    assert opened is not None
    moves = Moves({"late": Change("down", step=1, per="unit")}, reference=data)
    with pytest.raises(InvalidInputError, match="do not add up to its own score"):
        build_cells(asked, opened, moves)


def test_statistics_of_two_categories_together_are_searched_and_not_read() -> None:
    catboost = pytest.importorskip("catboost", reason="catboost is an extra")
    X, y = table()
    X = X.drop(columns=["cards", "income"]).assign(town=np.where(X["late"] > 2, "a", "b"))
    y = (y ^ ((X["town"] == "a") & (X["home"] == "own"))).astype(int)
    model = catboost.CatBoostClassifier(
        iterations=20, depth=3, verbose=0, allow_writing_files=False, random_seed=0,
        cat_features=["home", "town"], one_hot_max_size=1, max_ctr_complexity=2,
    ).fit(X, y)  # fmt: skip
    assert read_ensemble(model) is None


@pytest.mark.parametrize("kind", ["continuous", "step", "grid", "codes"])
def test_the_value_next_to_a_target_is_allowed_and_nearest(kind: str) -> None:
    from counterplay.strategic.move_blocks import NumberBlock

    rng = np.random.default_rng(7)
    options: dict[str, Any] = {
        "continuous": {},
        "step": {"step": 0.1},
        "grid": {"grid": np.array([-2.0, -0.5, 0.25, 1.0, 3.0])},
        "codes": {"step": 0.5, "codes": (0.5, -1.0)},
    }[kind]
    block = NumberBlock("a", 1.0, 1.0, 1.0, -2.0, 3.0, **options)
    x = rng.integers(-20, 30, 400) / 10
    target = rng.normal(0, 2, 400)
    if kind == "continuous":
        every = np.concatenate((target, [-2.0, 3.0]))
    else:
        steps = np.arange(-80, 81) * options.get("step", 0.0)
        every = options["grid"] if kind == "grid" else x[:, None] + steps
    every = np.broadcast_to(every, (400, np.shape(every)[-1]))
    every = np.where(block.allowed(x[:, None], every), every, np.nan)
    for reach, below, best in (
        (block.reach_up, lambda t: every < t, np.nanmin),
        (block.reach_down, lambda t: every > t, np.nanmax),
    ):
        found = reach(x, target)
        for i in range(400):
            there = every[i][~below(target[:, None])[i] & ~np.isnan(every[i])]
            assert (np.isnan(found[i]) and not there.size) or found[i] == best(there), i
