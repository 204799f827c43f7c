"""Distances to acceptance by fitted models: exact, certified, or from moves that work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
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
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from counterplay.errors import InvalidInputError
from counterplay.strategic.lab import NormMetric, acceptance_distance

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)) * [1.0, 5.0, 0.2, 1.0] + [0.0, 3.0, 1.0, -1.0]
Y = (X[:, 0] + 0.3 * X[:, 1] + 0.5 * RNG.normal(size=300) > 1.0).astype(int)
Z = RNG.normal(size=(80, 4)) * [1.0, 5.0, 0.2, 1.0] + [0.0, 3.0, 1.0, -1.0]

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


def random_moves(metric: NormMetric, size: float, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    moves = rng.normal(size=(count, 4)) * rng.choice([0.0, 1.0], size=(count, 4))
    if metric.costs is not None:
        moves[:, np.isinf(metric.costs)] = 0.0
    length = metric.length(moves)
    moves, length = moves[length > 0], length[length > 0]
    return moves / length[:, None] * size


def check_exact(model: Any, norm: float, costs: Any) -> None:
    reach = acceptance_distance(model, Z, norm=norm, costs=costs)
    metric = NormMetric(norm, costs)
    assert reach.exact
    accepted = model.predict(Z) == 1
    assert np.array_equal(reach.upper == 0, accepted)
    assert np.array_equal(reach.lower, reach.upper)
    movers = np.flatnonzero(~accepted & np.isfinite(reach.upper))
    assert (model.predict(reach.goals[movers]) == 1).all()  # every move shown works
    paid = metric.length(reach.goals[movers] - Z[movers])
    assert np.allclose(paid, reach.upper[movers], rtol=1e-5, atol=1e-9)
    for i in movers[:6]:  # and nothing cheaper does
        moves = random_moves(metric, float(reach.upper[i]) * (1 - 1e-6), 400, int(i))
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
    one = acceptance_distance(model, Z, positive="a")
    two = acceptance_distance(other, Z, positive="b")
    assert np.allclose(one.upper, two.upper, rtol=1e-3, atol=1e-3)
    assert one.attained
    assert not two.attained
    tree = DecisionTreeClassifier(random_state=0).fit(X, Y)
    reach = acceptance_distance(tree, Z, positive=0)
    assert (tree.predict(reach.goals) == 0).all()


CERTIFIED = [
    (RandomForestClassifier(15, max_depth=6, random_state=0), "tree ensemble"),
    (ExtraTreesClassifier(10, random_state=0), "tree ensemble"),
    (GradientBoostingClassifier(n_estimators=40, random_state=0), "tree ensemble"),
    (HistGradientBoostingClassifier(max_iter=10, random_state=0), "tree ensemble"),
    (make_pipeline(StandardScaler(), KNeighborsClassifier(5)), "nearest neighbours"),
    (make_pipeline(StandardScaler(), KNeighborsClassifier(4, p=1)), "nearest neighbours"),
    (make_pipeline(StandardScaler(), SVC()), "Gaussian kernel"),
    (
        make_pipeline(StandardScaler(), MLPClassifier((8,), max_iter=200, random_state=0)),
        "Lipschitz constant",
    ),
    (make_pipeline(StandardScaler(), RandomForestClassifier(9, random_state=1)), "tree ensemble"),
]


@pytest.mark.claim("02.35")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("model", "method"), CERTIFIED, ids=lambda m: repr(m)[:50])
@pytest.mark.parametrize("positive", [1, 0])
def test_certified_bounds_hold(model: Any, method: str, positive: int) -> None:
    from counterplay.strategic.reach_certificates import certified_lower_bound

    model.fit(X, Y)
    for norm, costs in ((2, None), (1, [1.0, 0.2, 3.0, 1.0]), (np.inf, [1.0, 0.5, 2.0, np.inf])):
        metric = NormMetric(norm, costs)
        reach = acceptance_distance(model, Z, positive=positive, norm=norm, costs=costs, pool=X)
        assert reach.method == method
        assert not reach.exact
        accepted = model.predict(Z) == positive
        assert np.array_equal(reach.upper == 0, accepted)
        found = np.flatnonzero(~accepted & np.isfinite(reach.upper))
        assert (model.predict(reach.goals[found]) == positive).all()
        assert np.allclose(metric.length(reach.goals[found] - Z[found]), reach.upper[found])
        raw = certified_lower_bound(model, Z[~accepted], metric, positive)[0]
        assert (raw <= reach.upper[~accepted] + 1e-9).all()
        for i in np.flatnonzero(~accepted)[:5]:  # random search finds nothing below the bound
            if 0 < reach.lower[i] < np.inf:
                moves = random_moves(metric, float(reach.lower[i]), 300, int(i))
                assert not (model.predict(Z[i] + moves) == positive).any()


@pytest.mark.claim("02.35")
def test_certificates_say_something() -> None:
    """The bounds are not vacuous: for many rejected people they exclude small moves."""
    for model in (
        RandomForestClassifier(40, max_depth=6, random_state=0),
        GradientBoostingClassifier(n_estimators=40, random_state=0),
        KNeighborsClassifier(5),
    ):
        model.fit(X, Y)
        reach = acceptance_distance(model, Z, pool=X)
        rejected = model.predict(Z) == 0
        ratio = reach.lower[rejected] / reach.upper[rejected]
        assert np.mean(ratio) > 0.1
        assert (reach.lower[rejected] > 0).mean() > 0.5


@pytest.mark.claim("02.35")
def test_one_tree_forest_is_tight() -> None:
    """With a single tree the certificate is the exact distance."""
    forest = RandomForestClassifier(1, bootstrap=False, max_features=None, random_state=0)
    forest.fit(X, Y)
    tree = forest.estimators_[0]
    from counterplay.strategic.reach_certificates import certified_lower_bound
    from counterplay.strategic.trees import positive_leaf_boxes

    rejected = Z[forest.predict(Z) == 0]
    lower = certified_lower_bound(forest, rejected, NormMetric(), 1)[0]
    boxes = positive_leaf_boxes(tree)
    exact = np.min(
        [NormMetric().length(np.clip(rejected, lo, hi) - rejected) for lo, hi in zip(*boxes)],
        axis=0,
    )
    assert np.allclose(lower, exact)


def test_other_models_get_an_upper_bound_only() -> None:
    model = GaussianNB().fit(X, Y)
    reach = acceptance_distance(model, Z, pool=X)
    assert reach.method == "search only"
    rejected = model.predict(Z) == 0
    assert (reach.lower == 0).all()
    assert np.isfinite(reach.upper[rejected]).all()
    smooth = SVC(kernel="sigmoid").fit(X, Y)
    slope = acceptance_distance(smooth, Z, pool=X, lipschitz=1e6)
    assert slope.method == "Lipschitz constant"
    assert (slope.lower <= slope.upper).all()
    quantile = make_pipeline(QuantileTransformer(n_quantiles=20), LogisticRegression()).fit(X, Y)
    assert acceptance_distance(quantile, Z, pool=X).method == "search only"


def test_a_search_near_the_boundary_is_close_to_exact() -> None:
    """The search does not know that the model is linear, and still comes close."""
    from counterplay.strategic.reach import _search_moves

    model = LogisticRegression(max_iter=2000).fit(X, Y)
    exact = acceptance_distance(model, Z)
    rejected = model.predict(Z) == 0
    found, _ = _search_moves(
        lambda rows: model.predict(rows) == 1, Z[rejected], X[model.predict(X) == 1], NormMetric()
    )
    ratio = found / exact.upper[rejected]
    assert (ratio >= 1 - 1e-9).all()
    assert np.median(ratio) < 3


def test_coefficients_that_do_not_decide_are_not_trusted() -> None:
    class Contrary(LogisticRegression):
        def predict(self, rows: Any) -> Any:
            return 1 - super().predict(rows)

    model = Contrary(max_iter=2000).fit(X, Y)
    reach = acceptance_distance(model, Z, pool=X)
    assert not reach.exact


def test_frames_keep_their_names() -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    for model in (
        LogisticRegression(max_iter=2000),
        DecisionTreeClassifier(random_state=0),
        HistGradientBoostingClassifier(max_iter=3),
    ):
        model.fit(frame, Y)
        one = acceptance_distance(model, pd.DataFrame(Z[:20], columns=list("abcd")))
        assert one.upper.shape == (20,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: acceptance_distance(object(), Z), "model with predict is needed"),
        (lambda: acceptance_distance(LogisticRegression().fit(X, Y), Z[:, 0]), "rows and columns"),
        (
            lambda: acceptance_distance(LogisticRegression().fit(X, Y), Z * np.nan),
            "without missing",
        ),
        (
            lambda: acceptance_distance(LogisticRegression().fit(X, Y), Z, costs=[1.0]),
            "4 features but 1 costs",
        ),
        (
            lambda: acceptance_distance(LogisticRegression().fit(X, Y), Z, positive="yes"),
            "not a class",
        ),
        (
            lambda: acceptance_distance(DecisionTreeClassifier().fit(X, np.arange(300) % 3), Z),
            "exactly two",
        ),
        (lambda: acceptance_distance(LogisticRegression().fit(X, Y), Z, norm=3), "norm"),
    ],
)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_s6_nobody_moves_without_effort() -> None:
    """S6: at radius 0 the bracket is a point, also for models that are only searched."""
    for model in (GaussianNB(), HistGradientBoostingClassifier(max_iter=10), SVC(kernel="sigmoid")):
        reach = acceptance_distance(model.fit(X, Y), Z, pool=X)
        still = np.zeros(len(Z))
        assert np.array_equal(reach.surely(still), model.predict(Z) == 1)
        assert np.array_equal(reach.possibly(still), model.predict(Z) == 1)
    lonely = np.where(np.arange(len(Z)) % 2 == 0, 0.0, 1.0)  # only every second person can move
    assert np.array_equal(reach.possibly(lonely)[::2], model.predict(Z)[::2] == 1)


def test_s6_who_stands_on_the_border_is_rejected_until_she_moves() -> None:
    """S6: a score of exactly 0 is a rejection, and the smallest effort is enough."""
    model = LogisticRegression().fit([[0.0], [2.0]], [0, 1])
    model.coef_, model.intercept_ = np.array([[1.0]]), np.array([-1.0])
    assert model.predict([[1.0]]) == [0]
    reach = acceptance_distance(model, [[1.0]])
    assert not reach.surely(np.zeros(1))
    assert reach.surely(np.full(1, 1e-9))
