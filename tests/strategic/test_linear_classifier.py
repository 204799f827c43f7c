"""StrategicLinearClassifier: equivalences, optimal offsets, and gain on gamed data."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterplay.core.stats import mean_interval
from counterplay.errors import InvalidInputError
from counterplay.strategic import (
    Action,
    ManipulationGraph,
    StrategicLinearClassifier,
    strategic_accuracy,
)
from counterplay.strategic.bag_logistic import BagLogistic

DUAL = {1: np.inf, 2: 2, np.inf: 1}


def cancer(columns: int = 30, seed: int = 0):
    X, y = load_breast_cancer(return_X_y=True)
    parts = train_test_split(X[:, :columns], y, random_state=seed)
    scaler = StandardScaler().fit(parts[0])
    return scaler.transform(parts[0]), scaler.transform(parts[1]), parts[2], parts[3]


def gamed_accuracy(model, X, y, radius, norm: float = 2) -> float:
    reach = np.asarray(radius) * np.linalg.norm(model.coef_[0], DUAL[norm])
    return float((((X @ model.coef_[0] + model.intercept_[0] + reach) >= 0) == (y == 1)).mean())


@pytest.mark.claim("03.24")
@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_common_radius_is_a_shift_of_logistic_regression(norm: float) -> None:
    X, _, y, _ = cancer()
    plain = StrategicLinearClassifier(radius=0.0, norm=norm).fit(X, y)
    reference = LogisticRegression(max_iter=200).fit(X, y)
    for radius in (0.3, 1.0, 2.5):
        model = StrategicLinearClassifier(radius=radius, norm=norm).fit(X, y)
        np.testing.assert_allclose(model.coef_, reference.coef_, rtol=1e-9)
        shift = radius * np.linalg.norm(model.coef_[0], DUAL[norm])
        assert model.intercept_[0] == pytest.approx(plain.intercept_[0] - shift, abs=1e-9)
        assert model.loss_ == pytest.approx(plain.loss_, abs=1e-12)
        assert gamed_accuracy(model, X, y, radius, norm) == pytest.approx(1 - model.loss_)


@pytest.mark.claim("03.24")
def test_offset_is_the_best_one_for_the_direction() -> None:
    X, _, y, _ = cancer()
    rng = np.random.default_rng(0)
    radii = rng.exponential(0.5, size=len(X))
    model = StrategicLinearClassifier(radius=radii).fit(X, y)
    support = X @ model.coef_[0] + radii * np.linalg.norm(model.coef_)
    losses = [((support >= b) != (y == 1)).mean() for b in [*support, np.inf]]
    assert model.loss_ == pytest.approx(min(losses), abs=1e-12)
    assert ((support + model.intercept_[0] >= 0) != (y == 1)).mean() == pytest.approx(model.loss_)


@pytest.mark.claim("03.24")
def test_skipped_searches_never_change_the_objective() -> None:
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 9, size=300)
    pointers = np.concatenate([[0], np.cumsum(sizes)])
    points = rng.integers(-2, 3, size=(400, 4)).astype(float)  # many ties
    position = rng.integers(0, 400, size=pointers[-1])
    y, weights = rng.random(300) < 0.5, rng.random(300)
    ours = BagLogistic(points, pointers, position, y, 2.0 * weights)
    theta, searched = rng.normal(size=5), []
    for i in range(60):
        value, slope = ours(theta)
        scores = (points @ theta[:-1])[position]
        best = np.maximum.reduceat(scores, pointers[:-1])
        np.testing.assert_allclose((points @ theta[:-1])[ours.best], best, atol=1e-12)
        margin = np.where(y, 1, -1) * (best - theta[-1])
        plain = 2 * weights @ np.logaddexp(0, -margin) + 0.5 * theta[:-1] @ theta[:-1]
        assert value == pytest.approx(plain, rel=1e-12)
        pull = -2 * weights * np.where(y, 1, -1) / (1 + np.exp(margin))
        np.testing.assert_allclose(slope[:-1], pull @ points[ours.best] + theta[:-1], atol=1e-9)
        assert slope[-1] == pytest.approx(-pull.sum(), abs=1e-9)
        searched.append(float((ours.seen_at == i).mean()))
        theta = theta + 0.3 * 0.9**i * rng.normal(size=5)
    assert searched[0] == 1
    assert min(searched[-10:]) < 0.5  # most bags are not searched again near the end


def gains(norm: float, radius: float, columns: int) -> np.ndarray:
    """Accuracy on gamed test data minus that of plain logistic regression, 12 splits."""
    result = []
    for seed in range(12):
        X, X_test, y, y_test = cancer(columns, seed)
        naive = LogisticRegression(max_iter=1000).fit(X, y)
        model = StrategicLinearClassifier(radius=radius, norm=norm).fit(X, y)
        ours, plain = (gamed_accuracy(m, X_test, y_test, radius, norm) for m in (model, naive))
        result.append(ours - plain)
    return np.array(result)


@pytest.mark.claim("03.25")
@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_gaming_within_a_common_radius_costs_nothing(norm: float) -> None:
    for seed in range(6):
        X, X_test, y, _ = cancer(30, seed)
        calm = StrategicLinearClassifier(radius=0.0, norm=norm).fit(X, y)
        for radius in (0.25, 1.0, 4.0):
            model = StrategicLinearClassifier(radius=radius, norm=norm).fit(X, y)
            reach = radius * np.linalg.norm(model.coef_[0], DUAL[norm])
            gamed = model.decision_function(X_test) + reach
            np.testing.assert_allclose(gamed, calm.decision_function(X_test), atol=1e-8)


@pytest.mark.claim("03.25")
@pytest.mark.parametrize("seed", range(20))
def test_never_more_training_errors_than_logistic_regression(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, size=(150, 3)).astype(float)
    y = (X @ rng.normal(size=3) + rng.normal(size=150) > 0).astype(int)
    if y.min() == y.max():
        y[0] = 1 - y[0]
    weights = rng.uniform(0.1, 3.0, size=150)
    naive = LogisticRegression(max_iter=1000).fit(X, y, sample_weight=weights)
    actions = [Action(str(j), j, rng.choice([-1, 1]), cost=1.0) for j in range(3)]
    graph = ManipulationGraph.from_actions(X, actions, budget=float(rng.integers(1, 3)))
    model = StrategicLinearClassifier().fit(X, y, weights, graph=graph)
    errors = [
        1 - strategic_accuracy(m, X, y, graph=graph, sample_weight=weights) for m in (model, naive)
    ]
    assert errors[0] == pytest.approx(model.loss_, abs=1e-9)
    assert errors[0] <= errors[1] + 1e-9
    for norm, dual in DUAL.items():
        radii = rng.exponential(1.0, size=150)
        model = StrategicLinearClassifier(radius=radii, norm=norm).fit(X, y, weights)
        reach = radii * np.linalg.norm(naive.coef_[0], dual)
        wrong = ((naive.decision_function(X) + reach > 0) != (y == 1)) @ weights / weights.sum()
        assert model.loss_ <= wrong + 1e-9


@pytest.mark.parametrize("columns", [10, 30])
@pytest.mark.parametrize(("norm", "radius"), [(1, 4.0), (2, 1.0), (2, 2.0), (np.inf, 0.5)])
def test_better_than_logistic_regression_on_gamed_test_data(
    norm: float, radius: float, columns: int
) -> None:
    gain = gains(norm, radius, columns)
    assert mean_interval(gain).low > 0.01


@pytest.mark.parametrize("columns", [10, 30])
def test_where_people_hardly_move_there_is_nothing_to_gain(columns: int) -> None:
    gain = gains(2, 0.25, columns)
    assert abs(gain.mean()) < 0.015  # also not much to lose


def test_unequal_radii_change_the_direction_for_the_better() -> None:
    # Feature 1 predicts best but those who lack it can move far; feature 2 is nearly as good.
    rng = np.random.default_rng(1)

    def sample(n: int):
        y = rng.integers(0, 2, size=n)
        X = rng.normal(size=(n, 4)) + 1.5 * y[:, None] * np.array([1.0, 1.0, 0.0, 0.0])
        return X, y, np.where(y == 1, 0.2, 1.0) * rng.uniform(0.5, 1.5, size=n)

    X, y, radii = sample(2000)
    X_test, y_test, radii_test = sample(4000)
    naive = LogisticRegression().fit(X, y)
    model = StrategicLinearClassifier(radius=radii).fit(X, y)
    same = StrategicLinearClassifier(radius=float(radii.mean())).fit(X, y)
    ours = gamed_accuracy(model, X_test, y_test, radii_test)
    assert ours > gamed_accuracy(naive, X_test, y_test, radii_test) + 0.03
    assert ours >= gamed_accuracy(same, X_test, y_test, radii_test) - 0.005


def test_better_than_logistic_regression_on_a_manipulation_graph() -> None:
    rng = np.random.default_rng(2)
    X = rng.integers(0, 8, size=(800, 3)).astype(float)
    y = (X[:, 0] + X[:, 1] + rng.normal(size=800) > 8).astype(int)
    actions = [Action("polish", 0, 1, cost=1.0), Action("network", 1, 1, cost=2.0)]
    graph = ManipulationGraph.from_actions(X, actions, budget=3.0)
    train, test = np.arange(400), np.arange(400, 800)
    naive = LogisticRegression().fit(X[train], y[train])
    model = StrategicLinearClassifier().fit(X[train], y[train], graph=graph)
    ours = strategic_accuracy(model, X[test], y[test], graph=graph)
    assert ours > strategic_accuracy(naive, X[test], y[test], graph=graph) + 0.05
    assert strategic_accuracy(model, X[train], y[train], graph=graph) == pytest.approx(
        1 - model.loss_
    )


def test_pipelines_searches_and_weights() -> None:
    X, X_test, y, y_test = cancer(10)
    pipeline = make_pipeline(StandardScaler(), StrategicLinearClassifier(radius=0.5))
    search = GridSearchCV(pipeline, {"strategiclinearclassifier__C": [0.01, 1.0]}, cv=3).fit(X, y)
    assert search.predict(X_test).shape == y_test.shape
    assert cross_val_score(StrategicLinearClassifier(), X, y, cv=3).mean() > 0.9
    weights = np.random.default_rng(4).integers(0, 4, size=len(y))
    rows = np.repeat(np.arange(len(y)), weights)
    graph = ManipulationGraph.from_lists([[i + 1] for i in range(len(X) - 1)] + [[]], features=X)
    for options in ({}, {"graph": graph}):
        weighted = StrategicLinearClassifier(radius=0.3).fit(X, y, weights, **options)
        copied = StrategicLinearClassifier(radius=0.3).fit(X[rows], y[rows], **options)
        np.testing.assert_allclose(weighted.coef_, copied.coef_, rtol=2e-2, atol=1e-3)
        assert weighted.loss_ == pytest.approx(copied.loss_, abs=0.01)


def test_as_good_as_the_strategic_hinge() -> None:
    """The surrogate of the literature: hinge loss of the score after the best move."""
    rng = np.random.default_rng(5)
    for radius in (0.3, 1.0):
        w = rng.normal(size=6)
        X = rng.normal(size=(3000, 6))
        y = (X @ w / np.linalg.norm(w) + 0.4 * rng.normal(size=3000) > 0).astype(int)
        signs = 2.0 * y[:1500] - 1

        def hinge(theta, X=X[:1500], signs=signs, radius=radius):
            length = np.linalg.norm(theta[:-1])
            margin = 1 - signs * (X @ theta[:-1] + theta[-1] + radius * length)
            active = (margin > 0) * signs / len(signs)
            slope = -(active @ X) - active.sum() * radius * theta[:-1] / length + 1e-3 * theta[:-1]
            value = np.maximum(margin, 0).mean() + 5e-4 * theta[:-1] @ theta[:-1]
            return value, np.append(slope, -active.sum())

        u = minimize(hinge, np.append(np.full(6, 0.1), 0.0), jac=True, method="L-BFGS-B").x
        surrogate = SimpleNamespace(coef_=u[None, :-1], intercept_=u[-1:])
        model = StrategicLinearClassifier(radius=radius).fit(X[:1500], y[:1500])
        ours, theirs = (gamed_accuracy(m, X[1500:], y[1500:], radius) for m in (model, surrogate))
        assert ours >= theirs - 0.02


def test_a_graph_without_arcs_is_ordinary_classification() -> None:
    X, _, y, _ = cancer()
    graph = ManipulationGraph.from_lists([[] for _ in X], features=X)
    model = StrategicLinearClassifier().fit(X, y, graph=graph)
    plain = StrategicLinearClassifier().fit(X, y)
    assert model.loss_ == pytest.approx(plain.loss_, abs=0.01)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (StrategicLinearClassifier(radius=-1.0), "negative"),
        (StrategicLinearClassifier(radius=[1.0, 2.0]), "one per row"),
        (StrategicLinearClassifier(radius=np.nan), "radius"),
        (StrategicLinearClassifier(radius=1.0, norm=3), "norm"),
    ],
)
def test_bad_parameters(model, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        model.fit([[0.0], [1.0], [2.0]], [0, 1, 1])
