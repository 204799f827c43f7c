"""The norm ball: prices that are exact, certified from below, or of moves that work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from counterplay.strategic import Change, Moves, cheapest_moves
from counterplay.strategic.ball_certificates import certified_lower_bound
from counterplay.strategic.lab import NormMetric

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)) * [1.0, 5.0, 0.2, 1.0] + [0.0, 3.0, 1.0, -1.0]
Y = (X[:, 0] + 0.3 * X[:, 1] + 0.5 * RNG.normal(size=300) > 1.0).astype(int)
Z = RNG.normal(size=(40, 4)) * [1.0, 5.0, 0.2, 1.0] + [0.0, 3.0, 1.0, -1.0]

LINEAR = [
    LogisticRegression(max_iter=2000),
    LinearSVC(),
    RidgeClassifier(),
    SGDClassifier(random_state=0),
    Perceptron(),
    LinearDiscriminantAnalysis(),
    SVC(kernel="linear"),
    make_pipeline(StandardScaler(), LogisticRegression()),
    make_pipeline(RobustScaler(), MinMaxScaler(), LogisticRegression()),
    make_pipeline(SimpleImputer(), MaxAbsScaler(), LogisticRegression(max_iter=2000)),
    make_pipeline(StandardScaler(), PCA(3, whiten=True), LogisticRegression()),
    make_pipeline(StandardScaler(with_mean=False), TruncatedSVD(2), LogisticRegression()),
    make_pipeline(SelectKBest(k=2), FunctionTransformer(), LogisticRegression()),
    GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {}, cv=2),
]


def ball(norm: float, costs: Any = None, reference: Any = X) -> Moves:
    """A ball in which a unit of each feature has its own price; what costs infinity stays."""
    prices = np.ones(4) if costs is None else np.asarray(costs)
    return Moves(
        {
            j: Change("both", float(c), per="unit", low=-np.inf, high=np.inf)
            for j, c in enumerate(prices)
            if np.isfinite(c)
        },
        reference=reference,
        combine={1: "sum", 2: "euclid"}.get(norm, "max"),  # type: ignore[arg-type]
    )


def random_moves(metric: NormMetric, size: float, count: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    moves = rng.normal(size=(count, 4)) * rng.choice([0.0, 1.0], size=(count, 4))
    if metric.costs is not None:
        moves[:, np.isinf(metric.costs)] = 0.0
    length = metric.length(moves)
    moves, length = moves[length > 0], length[length > 0]
    return moves / length[:, None] * size


def check_exact(model: Any, norm: float, costs: Any) -> None:
    plan = cheapest_moves(model, Z, ball(norm, costs))
    metric = NormMetric(norm, costs)
    assert plan.exact.all()
    accepted = model.predict(Z) == 1
    assert np.array_equal(plan.upper == 0, accepted)
    movers = np.flatnonzero(~accepted & np.isfinite(plan.upper))
    goals = np.asarray(plan.destination)
    assert (model.predict(goals[movers]) == 1).all()  # every move shown works
    assert np.allclose(metric.length(goals[movers] - Z[movers]), plan.upper[movers], rtol=1e-9)
    for i in movers[:6]:  # and nothing cheaper does
        moves = random_moves(metric, float(plan.upper[i]) * (1 - 1e-6), 400, int(i))
        assert not (model.predict(Z[i] + moves) == 1).any()


@pytest.mark.claim("02.34")
@pytest.mark.parametrize("model", LINEAR, ids=lambda m: repr(m)[:60])
def test_linear_models_are_exact(model: Any) -> None:
    model.fit(X, Y)
    check_exact(model, 2, None)
    check_exact(model, 1, [1.0, 0.2, 3.0, np.inf])


@pytest.mark.claim("02.34")
@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("depth", [2, 6, None])
@pytest.mark.parametrize("scaled", [False, True])
def test_decision_trees_are_exact(norm: float, depth: int | None, scaled: bool) -> None:
    tree = DecisionTreeClassifier(max_depth=depth, random_state=0)
    model = make_pipeline(StandardScaler(), tree) if scaled else tree
    check_exact(model.fit(X, Y), norm, [1.0, 0.2, 3.0, 1.0])


@pytest.mark.claim("02.34")
def test_the_smaller_class_can_be_the_wanted_one() -> None:
    model = LogisticRegression(max_iter=2000).fit(X, np.where(Y == 1, "a", "b"))
    other = LogisticRegression(max_iter=2000).fit(X, np.where(Y == 1, "b", "a"))
    one = cheapest_moves(model, Z, ball(2), positive="a")
    two = cheapest_moves(other, Z, ball(2), positive="b")
    assert np.allclose(one.upper, two.upper, rtol=1e-3, atol=1e-3)
    tree = DecisionTreeClassifier(random_state=0).fit(X, Y)
    plan = cheapest_moves(tree, Z, ball(2), positive=0)
    assert (tree.predict(plan.destination) == 0).all()


ENSEMBLES = [
    RandomForestClassifier(15, max_depth=6, random_state=0),
    ExtraTreesClassifier(10, max_depth=5, random_state=0),
    GradientBoostingClassifier(n_estimators=40, random_state=0),
    HistGradientBoostingClassifier(max_iter=10, random_state=0),
    make_pipeline(StandardScaler(), RandomForestClassifier(9, max_depth=6, random_state=1)),
]
CERTIFIED = [
    (make_pipeline(StandardScaler(), KNeighborsClassifier(5)), "nearest neighbours"),
    (make_pipeline(StandardScaler(), KNeighborsClassifier(4, p=1)), "nearest neighbours"),
    (make_pipeline(StandardScaler(), SVC()), "Gaussian kernel"),
    (
        make_pipeline(StandardScaler(), MLPClassifier((8,), max_iter=200, random_state=0)),
        "Lipschitz constant",
    ),
]
BALLS = ((2, None), (1, [1.0, 0.2, 3.0, 1.0]), (np.inf, [1.0, 0.5, 2.0, np.inf]))


@pytest.mark.claim("02.34")
@pytest.mark.parametrize("model", ENSEMBLES, ids=lambda m: repr(m)[:50])
def test_ensembles_are_exact(model: Any) -> None:
    model.fit(X, Y)
    for norm, costs in BALLS:
        check_exact(model, norm, costs)


@pytest.mark.claim("02.35")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("model", "method"), CERTIFIED, ids=lambda m: repr(m)[:50])
@pytest.mark.parametrize("positive", [1, 0])
def test_certified_bounds_hold(model: Any, method: str, positive: int) -> None:
    model.fit(X, Y)
    few = Z[:12]
    for norm, costs in BALLS:
        metric = NormMetric(norm, costs)
        plan = cheapest_moves(model, few, ball(norm, costs), positive=positive)
        assert plan.method.endswith(f"bounded below by the {method}")
        accepted = model.predict(few) == positive
        assert np.array_equal(plan.upper == 0, accepted)
        assert (plan.lower <= plan.upper).all()
        found = np.flatnonzero(~accepted & np.isfinite(plan.upper))
        goals = np.asarray(plan.destination)
        assert (model.predict(goals[found]) == positive).all()
        assert np.allclose(metric.length(goals[found] - few[found]), plan.upper[found])
        raw = certified_lower_bound(model, few[~accepted], metric, positive)[0]  # type: ignore[index]
        assert (raw <= plan.upper[~accepted] + 1e-9).all()
        for i in np.flatnonzero(~accepted)[:5]:  # random search finds nothing below the bound
            if 0 < plan.lower[i] < np.inf:
                moves = random_moves(metric, float(plan.lower[i]), 300, int(i))
                assert not (model.predict(few[i] + moves) == positive).any()


@pytest.mark.claim("02.35")
def test_certificates_say_something() -> None:
    """The bounds are not vacuous: for many rejected people they exclude small moves."""
    model = KNeighborsClassifier(5).fit(X, Y)
    plan = cheapest_moves(model, Z, ball(2))
    rejected = model.predict(Z) == 0
    assert np.mean(plan.lower[rejected] / plan.upper[rejected]) > 0.1
    assert (plan.lower[rejected] > 0).mean() > 0.5


def test_without_a_ball_or_a_certificate_nothing_is_claimed_from_below() -> None:
    near = KNeighborsClassifier(5).fit(X, Y)
    bounded = Moves({0: Change("up", per="unit", low=-1.0, high=3.0)}, reference=X)
    for model, moves in ((GaussianNB().fit(X, Y), ball(2)), (near, bounded)):
        plan = cheapest_moves(model, Z, moves)
        assert "nothing is certified" in plan.method
        assert (plan.lower[~plan.exact] == 0).all()


def test_the_search_is_close_to_exact_where_that_is_known() -> None:
    """Asked for decisions only, the search does not know that the model is linear."""
    from counterplay.strategic.fold import Asked
    from counterplay.strategic.move_solvers import SearchSolver

    model = LogisticRegression(max_iter=2000).fit(X, Y)
    rejected = np.flatnonzero(model.predict(Z) == 0)
    exact = cheapest_moves(model, Z, ball(2)).upper[rejected]
    found = SearchSolver(Asked(model, Z), ball(2)).cheapest(rejected, np.inf, 1)[1]
    assert (found / exact >= 1 - 1e-9).all()
    assert np.median(found / exact) < 3


def test_coefficients_that_do_not_decide_are_not_trusted() -> None:
    class Contrary(LogisticRegression):
        def predict(self, rows: Any) -> Any:
            return 1 - super().predict(rows)

    model = Contrary(max_iter=2000).fit(X, Y)
    plan = cheapest_moves(model, Z, ball(2))
    movers = (plan.upper > 0) & np.isfinite(plan.upper)
    assert (model.predict(np.asarray(plan.destination)[movers]) == 1).all()
    assert not plan.exact[plan.upper > 0].any()


def test_who_stands_on_the_border_is_rejected_until_she_moves() -> None:
    """A score of exactly 0 is a rejection, and the smallest effort is enough."""
    model = LogisticRegression().fit([[0.0], [2.0]], [0, 1])
    model.coef_, model.intercept_ = np.array([[1.0]]), np.array([-1.0])
    assert model.predict([[1.0]]) == [0]
    plan = cheapest_moves(model, np.array([[1.0]]), Moves.ball([[0.0], [2.0]], per="unit"))
    assert 0 < plan.upper[0] < 1e-9
