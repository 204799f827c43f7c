"""Credit tables as they are shipped; skipped where there is no local copy of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    StratifiedKFold,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler, TargetEncoder

from counterplay import datasets
from counterplay.errors import DataUnavailableError, MissingDependencyError
from counterplay.strategic import Change, Moves, Switch, cheapest_moves
from counterplay.strategic.best_shown import best_shown


def frame(name: str, *left_out: str) -> tuple[pd.DataFrame, Any]:
    try:
        data = datasets.fetch(name, download=False)
    except (DataUnavailableError, MissingDependencyError) as error:
        pytest.skip(f"no local copy of {name}: {error}")
    assert data.frame is not None
    return data.frame.drop(columns=list(left_out)), np.asarray(data.y)


@pytest.mark.claim("20.10")
@pytest.mark.filterwarnings("ignore:.*hold whole numbers")
def test_taiwan_has_one_answer_in_every_wrapper() -> None:
    X, y = frame("taiwan", "ID", "default payment next month")
    X, y = X.iloc[:3000].astype(float), y[:3000]  # 1 = no default
    fixed = ["SEX", "EDUCATION", "MARRIAGE", "AGE"]
    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X, y)
    columns = make_pipeline(
        make_column_transformer((StandardScaler(), list(X.columns))),
        LogisticRegression(max_iter=1000),
    ).fit(X, y)
    others = [
        columns,
        FixedThresholdClassifier(plain, threshold=0.5).fit(X, y),
        GridSearchCV(plain, {"logisticregression__C": [1.0]}, cv=2).fit(X, y),
    ]
    expected = {"sum": (116, 650), "euclid": (125, 654)}
    for combine, (movers, wrong) in expected.items():
        moves = Moves(
            {c: Change("both", per="sd", low=-np.inf, high=np.inf) for c in X if c not in fixed},
            reference=X,
            combine=combine,  # type: ignore[arg-type]
        )
        first = cheapest_moves(plain, X, moves, budget=1.0)
        assert first.exact.all()
        moved = np.isfinite(first.upper) & (first.upper > 0)
        assert (moved.sum(), (np.isfinite(first.upper) & (y == 0)).sum()) == (movers, wrong)
        for model in others if combine == "sum" else ():
            again = cheapest_moves(model, X, moves, budget=1.0)
            assert again.upper == pytest.approx(first.upper, abs=1e-9)


@pytest.mark.claim("20.08", "20.11")
@pytest.mark.filterwarnings("ignore:Bins whose width are too small")
@pytest.mark.parametrize(
    ("kind", "expected"), [("onehot", (64, 68)), ("target", (45, 50)), ("bins", (67, 72))]
)
def test_german_credit_with_its_raw_strings(kind: str, expected: tuple[int, int]) -> None:
    X, y = frame("german_credit", "class")
    text = make_column_selector(dtype_include=["object", "string", "category"])
    number = make_column_selector(dtype_include="number")
    prepare = {
        "onehot": [(OneHotEncoder(handle_unknown="ignore"), text), (StandardScaler(), number)],
        "target": [
            (TargetEncoder(cv=StratifiedKFold(5, shuffle=True, random_state=0)), text),
            (StandardScaler(), number),
        ],
        "bins": [
            (OneHotEncoder(handle_unknown="ignore"), text),
            (KBinsDiscretizer(5, quantile_method="averaged_inverted_cdf"), number),
        ],
    }[kind]
    A, B, ya, _ = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
    model = make_pipeline(make_column_transformer(*prepare), LogisticRegression(max_iter=2000))
    model.fit(A, ya)
    B = B.assign(credit_amount=(B["credit_amount"] / 250).round().astype(int) * 250)
    free = [
        "status_checking", "credit_history", "purpose", "savings", "employment_since",
        "other_debtors", "property", "other_installment_plans", "housing",
    ]  # fmt: skip
    moves = Moves(
        {
            **{name: Switch(1.0) for name in free},
            "duration_months": Change("down", step=1, per="sd"),
            "credit_amount": Change("down", step=250, per="sd"),
            "installment_rate": Change("both", step=1, per="sd"),
            "existing_credits": Change("both", step=1, per="sd"),
        },
        reference=A,
    )
    rejected = B[model.predict(B) == 0]
    plan = cheapest_moves(model, rejected, moves, budget=1.0)
    assert plan.exact.all()
    movers = np.isfinite(plan.upper)
    assert abs(movers.sum() - expected[0]) <= 2
    assert abs(len(rejected) - expected[1]) <= 2
    goals = plan.destination[movers]
    assert (model.predict(goals) == 1).all()
    assert (goals.dtypes == X.dtypes).all()
    assert moves.price(rejected[movers], goals) == pytest.approx(plan.upper[movers], abs=1e-9)


@pytest.mark.claim("20.07", "20.08", "20.35")
@pytest.mark.parametrize("library", ["sklearn", "xgboost", "lightgbm"])
def test_heloc_as_shipped_is_solved_exactly(library: str) -> None:
    X, y = frame("heloc", "RiskPerformance")
    module = pytest.importorskip(library, reason=f"{library} is an extra")
    final: Any = {
        "sklearn": lambda: HistGradientBoostingClassifier(max_iter=60, max_depth=6),
        "xgboost": lambda: module.XGBClassifier(n_estimators=60, max_depth=6, n_jobs=1),
        "lightgbm": lambda: module.LGBMClassifier(
            n_estimators=60, max_depth=6, verbose=-1, n_jobs=1
        ),
    }[library]()
    A, B, ya, _ = train_test_split(X, y, test_size=0.3, random_state=0)
    model = final.fit(A, ya)
    fixed = ["ExternalRiskEstimate", "MSinceOldestTradeOpen", "AverageMInFile"]
    codes = [-9, -8, -7]
    moves = Moves(
        {c: Change("both", step=1, codes=codes) for c in X if c not in fixed}, reference=A
    )
    for name in moves.columns:
        known = A[name][~A[name].isin(codes)]
        spread = float(known.quantile(0.9) - known.quantile(0.1)) / 2.563 or float(
            known.std(ddof=0)
        )
        assert moves.blocks[name].unit == pytest.approx(spread)  # type: ignore[union-attr]
    rejected = B[model.predict(B) == 0].iloc[:25]
    plan = cheapest_moves(model, rejected, moves, budget=1.0)
    assert plan.exact.all()
    goals = plan.destination
    coded = rejected.isin(codes)
    assert (goals.isin(codes) == coded).all(axis=None)  # nobody leaves or enters a code
    assert (goals[coded].fillna(0) == rejected[coded].fillna(0)).all(axis=None)
    movers = np.isfinite(plan.upper)
    assert (model.predict(goals[movers]) == 1).all()
    assert (goals.dtypes == X.dtypes).all()
    assert moves.price(rejected[movers], goals[movers]) == pytest.approx(
        plan.upper[movers], abs=1e-9
    )


def ensemble(library: str) -> Any:
    """Return 100 trees of depth 6."""
    if library == "gradient":
        return GradientBoostingClassifier(n_estimators=100, max_depth=6, random_state=0)
    if library == "forest":
        return RandomForestClassifier(100, max_depth=6, random_state=0)
    if library == "histogram":
        return HistGradientBoostingClassifier(max_iter=100, max_depth=6, early_stopping=False)
    module = pytest.importorskip(library, reason=f"{library} is an extra")
    if library == "xgboost":
        return module.XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1)
    return module.LGBMClassifier(n_estimators=100, max_depth=6, n_jobs=1, verbose=-1)


LIBRARIES = ["histogram", "xgboost", "lightgbm", "gradient", "forest"]


@pytest.mark.claim("20.07", "20.08")
@pytest.mark.parametrize("library", LIBRARIES)
def test_ensembles_of_production_size_are_solved_exactly(library: str) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 40, (700, 8)).astype(float), columns=list("abcdefgh"))
    score = np.sin(X["a"] / 5) + X["b"] * X["c"] / 400 - X["d"] / 30 + (X["e"] > 20) * X["f"] / 40
    y = (score + rng.normal(0, 0.3, len(X)) > 0.7).astype(int)
    model = ensemble(library).fit(X, y)
    moves = Moves.all(X, fixed=["h"])
    rejected = X[model.predict(X) == 0].iloc[:40]
    plan = cheapest_moves(model, rejected, moves, budget=1.0)
    assert plan.exact.mean() >= 0.99
    movers = np.isfinite(plan.upper)
    goals = plan.destination[movers]
    assert (model.predict(goals) == 1).all()
    # a finite price: bounds, steps, directions and what is fixed are respected
    assert moves.price(rejected[movers], goals) == pytest.approx(plan.upper[movers], abs=1e-9)
    other = cheapest_moves(model, rejected, moves, budget=1.0, n_jobs=3)
    assert np.array_equal(plan.upper, other.upper)
    pd.testing.assert_frame_equal(plan.destination, other.destination)


@pytest.mark.claim("20.07", "20.08")
@pytest.mark.parametrize("name", ["taiwan", "give_me_some_credit"])
@pytest.mark.parametrize("library", ["histogram", "forest"])
def test_credit_tables_are_solved_exactly(name: str, library: str) -> None:
    label, fixed = {
        "taiwan": ("default payment next month", ["ID", "SEX", "EDUCATION", "MARRIAGE", "AGE"]),
        "give_me_some_credit": ("SeriousDlqin2yrs", ["Id", "age", "NumberOfDependents"]),
    }[name]
    X, y = frame(name, label)
    X = X.fillna(X.median())
    A, B, ya, _ = train_test_split(X, y, test_size=0.3, random_state=0)
    model = ensemble(library).fit(A, ya)
    moves = Moves.all(A, fixed=[c for c in fixed if c in X])
    rejected = B[model.predict(B) == 0].iloc[:40]
    plan = cheapest_moves(model, rejected, moves, budget=1.0)
    assert plan.exact.mean() >= 0.99
    movers = np.isfinite(plan.upper)
    goals = plan.destination[movers]
    assert (model.predict(goals) == 1).all()
    assert moves.price(rejected[movers], goals) == pytest.approx(plan.upper[movers], abs=1e-9)


@pytest.mark.claim("20.19")
def test_on_heloc_people_are_accepted_if_and_only_if_their_best_score_passes() -> None:
    X, y = frame("heloc", "RiskPerformance")
    A, B, ya, _ = train_test_split(X, y, test_size=0.3, random_state=0)
    model = ensemble("histogram").fit(A, ya)
    fixed = ["ExternalRiskEstimate", "MSinceOldestTradeOpen", "AverageMInFile"]
    moves = Moves(
        {c: Change("both", step=1, codes=[-9, -8, -7]) for c in X if c not in fixed}, reference=A
    )
    people, budgets = B.iloc[:100], [0.1, 0.25, 0.5, 0.75, 1.0]
    plan = cheapest_moves(model, people, moves, budget=1.0)
    shown = best_shown(model, people, moves, budgets)
    assert plan.exact.all()
    assert shown.exact.all()
    for k, r in enumerate(budgets):
        passes = model.predict(shown.destination(k)) == 1
        assert (passes == (plan.upper <= r * (1 + 1e-9))).all()
