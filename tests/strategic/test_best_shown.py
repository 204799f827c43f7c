"""The best score within a budget: equal to trying everything, consistent with prices."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.neighbors import KNeighborsClassifier

from counterplay.errors import InvalidInputError
from counterplay.strategic.best_shown import best_shown
from counterplay.strategic.cheapest import cheapest_moves
from strategic.moves_oracle import everything
from strategic.test_cheapest import COMBINES, credit, encoded, whole_moves, whole_options

BUDGETS = np.array([0.0, 0.5, 1.5, 3.0, 5.0])


def model_of(kind: str, seed: int = 0) -> Any:
    return {
        "linear": LogisticRegression(),
        "forest": RandomForestClassifier(8, max_depth=4, random_state=seed),
        "boosted": GradientBoostingClassifier(n_estimators=8, max_depth=3, random_state=seed),
        "histogram": HistGradientBoostingClassifier(max_iter=8, max_depth=3, early_stopping=False),
    }[kind]


@cache
def fitted(kind: str, seed: int = 0) -> Any:
    return encoded(model_of(kind, seed)).fit(*credit())


def response(model: Any, rows: Any, wanted: int = 1) -> Any:
    if hasattr(model, "decision_function"):
        return model.decision_function(rows) * (1 if wanted == 1 else -1)
    return model.predict_proba(rows)[:, wanted]


@pytest.mark.claim("20.19")
@pytest.mark.parametrize("combine", COMBINES)
@pytest.mark.parametrize("kind", ["linear", "forest", "boosted", "histogram"])
def test_equal_to_enumeration(kind: str, combine: Any) -> None:
    X, _ = credit()
    for seed, wanted in ((0, 1), (1, 0)):
        model = fitted(kind, seed)
        moves = whole_moves(X, combine)
        people = X.iloc[seed * 40 : seed * 40 + 5]
        shown = best_shown(model, people, moves, BUDGETS, positive=wanted)
        low, _ = shown
        assert shown.exact.all()
        for i in range(len(people)):
            x = people.iloc[i]
            rows, price = everything(x, whole_options(x, X), combine, X)
            scores = response(model, rows, wanted)
            best = [scores[price <= r + 1e-9].max() for r in BUDGETS]
            assert low[i] == pytest.approx(best, rel=1e-9, abs=1e-12)
        for k, r in enumerate(BUDGETS):
            goal = shown.destination(k)
            assert response(model, goal, wanted) == pytest.approx(low[:, k])
            assert (moves.price(people, goal) <= r * (1 + 1e-9)).all()


@pytest.mark.claim("20.19")
@pytest.mark.parametrize("kind", ["linear", "forest", "boosted", "histogram"])
def test_accepted_at_a_budget_if_and_only_if_the_best_score_passes(kind: str) -> None:
    model, X = fitted(kind), credit()[0].iloc[:100]
    moves = whole_moves(X)
    plan = cheapest_moves(model, X, moves)
    budgets = [0.0, 0.5, 1.0, 2.0, 4.0]
    shown = best_shown(model, X, moves, budgets)
    for k, r in enumerate(budgets):
        passes = model.predict(shown.destination(k)) == 1
        assert (passes == (plan.upper <= r * (1 + 1e-9))).all()


@pytest.mark.claim("20.19")
def test_small_searches_give_valid_brackets() -> None:
    X, y = credit(300)
    model = encoded(GradientBoostingClassifier(n_estimators=30, random_state=0)).fit(X, y)
    moves, people = whole_moves(X), X.iloc[:20]
    sure = best_shown(model, people, moves, [2.0, 4.0])
    assert sure.exact.all()
    for nodes in (1, 4):
        rough = best_shown(model, people, moves, [2.0, 4.0], nodes=nodes)
        assert not rough.exact.all()
        assert (rough.low <= sure.low).all()
        assert (rough.high >= sure.low).all()


def test_wrappers_show_their_own_scores() -> None:
    X, y = credit()
    moves = whole_moves(X)
    plain = encoded(LogisticRegression()).fit(X, y)
    one = best_shown(plain, X, moves, BUDGETS)
    wrapped = best_shown(
        FixedThresholdClassifier(plain, threshold=0.3).fit(X, y), X, moves, BUDGETS
    )
    assert wrapped.low == pytest.approx(one.low)
    calibrated = CalibratedClassifierCV(plain, ensemble=False, cv=3).fit(X, y)
    chances = best_shown(calibrated, X, moves, BUDGETS)
    assert chances.response_method == "predict_proba"
    assert chances.exact.all()
    assert (np.diff(chances.low, axis=1) >= 0).all()


def test_other_models_are_bounded_by_what_a_chance_can_be() -> None:
    X, y = credit()
    model = encoded(KNeighborsClassifier()).fit(X, y)
    shown = best_shown(model, X, whole_moves(X), [0.0, 1.0])
    assert (shown.high[:, 1] == 1.0).all()
    assert (shown.low[:, 0] == shown.high[:, 0]).all()  # at budget 0 nobody moves


def test_bad_budgets_are_refused() -> None:
    X, y = credit()
    model = encoded(LogisticRegression()).fit(X, y)
    with pytest.raises(InvalidInputError, match="budget must be numbers"):
        best_shown(model, X, whole_moves(X), -1)
