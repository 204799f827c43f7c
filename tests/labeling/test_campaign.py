from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.errors import InvalidInputError
from counterplay.labeling import plan_campaign
from labeling.problems import answer_all, label_rows


def test_campaign_from_owners_matrix_and_multiclass_committee() -> None:
    from sklearn.datasets import load_iris
    from sklearn.tree import DecisionTreeClassifier

    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    names = np.array(["setosa", "versicolor", "virginica"])
    members = []
    for _ in range(40):
        rows = rng.integers(0, len(X), 30)
        members.append(DecisionTreeClassifier(random_state=0).fit(X[rows], names[y[rows]]))
    pool = rng.choice(len(X), 40, replace=False)
    plan = plan_campaign(
        X[pool], owners=["a"] * 20 + ["b"] * 20, hypotheses=members, incentive="sir", eps=0.5
    )
    assert plan.report.is_sir
    truth = members[3].predict(X[pool])
    session = plan.start(seed=5)
    while (query := session.ask()) is not None:
        session.tell(query, truth[query.point])
        session = plan.resume(session.to_json())
    assert np.array_equal(session.labels, truth)
    assert "2 parties, 40 points" in plan.summary()
    with pytest.raises(InvalidInputError, match="one owner for each"):
        plan_campaign(X[pool], owners=["a"] * 3, hypotheses=members)
    with pytest.raises(InvalidInputError, match="do not fit"):
        plan_campaign(X[pool], owners=["a"] * 40, hypotheses="halfspaces")


def test_three_cellars_on_wine() -> None:
    """Three cellars share a pool of real wines; the committee comes from other bottles."""
    from sklearn.datasets import load_wine
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    X, y = load_wine(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[:, :4], (y == 0).astype(int)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    pool, past = order[:60], order[60:]
    members = []
    while len(members) < 60:
        rows = rng.choice(past, size=20)
        if len(set(y[rows])) == 2:
            members.append(LogisticRegression().fit(X[rows], y[rows]))
    cellars = np.repeat(["north", "south", "west"], 20)
    plan = plan_campaign(X[pool], owners=cellars, hypotheses=members, incentive="sir", eps=0.5)
    assert plan.report.is_sir
    assert plan.report.total < 0.8 * plan.report.baseline_cost.sum()
    session = plan.start(seed=3)
    truth = members[0].predict(X[pool])
    assert len(answer_all(session, truth)) < 30
    assert np.array_equal(session.labels, truth)


def test_stumps_are_halfspaces() -> None:
    X = np.random.default_rng(2).normal(size=(6, 2))
    plan = plan_campaign(X, owners=[0, 0, 0, 1, 1, 1], hypotheses="stumps")
    assert 2 < plan.problem.N <= 2 * 2 * 7
    stumps = {row.astype(bool).tobytes() for row in plan.problem.H}
    assert stumps <= label_rows(FiniteClass.halfspaces_2d(X))
    small = [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]
    assert plan_campaign(small, owners=[0, 1, 1], hypotheses="stumps").problem.N == 8


def test_frames_stay_frames_and_models_need_no_classes() -> None:
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"size": rng.normal(size=60), "site": rng.choice(["a", "b"], size=60)})
    y = np.where((frame["size"] > 0) ^ (frame["site"] == "a"), "yes", "no")
    encode = make_column_transformer((OneHotEncoder(), ["site"]), remainder="passthrough")
    models = []
    for _ in range(20):
        rows = rng.integers(0, 60, size=15)
        model = make_pipeline(encode, DecisionTreeClassifier(max_depth=2, random_state=0))
        models.append(model.fit(frame.iloc[rows], y[rows]))
    owners = np.repeat(["north", "south"], 30)
    plan = plan_campaign(frame, owners=owners, hypotheses=models)
    assert plan.classes == ("no", "yes")
    session, truth = plan.start(), models[3].predict(frame)
    answer_all(session, truth)
    assert np.array_equal(session.labels, truth)
    silent = [SimpleNamespace(predict=model.predict) for model in models]  # no classes_
    assert plan_campaign(frame, owners=owners, hypotheses=silent).problem.N == plan.problem.N


def test_every_row_needs_an_owner() -> None:
    for owners in (["a", None, "b"], [0.0, np.nan, 1.0]):
        with pytest.raises(InvalidInputError, match="row 1 has no owner"):
            plan_campaign(np.arange(3.0), owners=owners, hypotheses="thresholds")
    plan = plan_campaign(np.arange(3.0), owners=["a", 1, "b"], hypotheses="thresholds")
    assert plan.report.names == ("1", "a", "b")
