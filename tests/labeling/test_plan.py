from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

from counterplay.core.finite_class import FiniteClass
from counterplay.errors import InvalidInputError
from counterplay.labeling import plan_campaign
from labeling.problems import answer_all, label_rows


def test_campaign_from_owners_matrix_and_multiclass_committee() -> None:
    from sklearn.datasets import load_iris

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
    with pytest.raises(InvalidInputError, match="owners has 3 entries for 40 rows"):
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
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

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
        with pytest.raises(InvalidInputError, match="row 1 has no owner; give every row an owner"):
            plan_campaign(np.arange(3.0), owners=owners, hypotheses="thresholds")
    plan = plan_campaign(np.arange(3.0), owners=["a", 1, "b"], hypotheses="thresholds")
    assert plan.report.names == ("1", "a", "b")


def grown(frame: pd.DataFrame, y: np.ndarray, n: int = 15) -> list[DecisionTreeClassifier]:
    rng = np.random.default_rng(4)
    rows = rng.integers(0, len(frame), size=(n, len(frame) // 3))
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    return [clone(tree).fit(frame.iloc[r], y[r]) for r in rows]


def clinic() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"size": rng.normal(size=30), "age": rng.integers(20, 80, 30)},
        index=[f"patient {i}" for i in range(100, 130)],
    )
    return frame, np.where(frame["size"] > 0.2, "ill", "well")


def test_columns_are_matched_by_name_and_rows_keep_theirs() -> None:
    frame, y = clinic()
    models, owners = grown(frame, y), ["north", "south"] * 15
    plan = plan_campaign(frame, owners=owners, hypotheses=models)
    turned = plan_campaign(frame[["age", "size"]], owners=owners, hypotheses=models)
    assert np.array_equal(plan.problem.H, turned.problem.H)
    session = plan.start()
    query = session.ask()
    assert query is not None
    assert query.point_name == frame.index[query.point]
    assert session.result().to_frame().index.equals(frame.index)
    numbered = plan_campaign(frame.set_axis(range(5, 35)), owners=owners, hypotheses=models)
    assert numbered.start().result().to_frame().index.tolist() == list(range(5, 35))
    assert numbered.problem.point_name(0) == "row 5"
    plain = plan_campaign(frame.reset_index(drop=True), owners=owners, hypotheses=models)
    assert plain.start().result().to_frame().index.tolist() == list(range(30))
    with pytest.raises(InvalidInputError, match="pool has no column 'age'"):
        plan_campaign(frame.rename(columns={"age": "years"}), owners=owners, hypotheses=models)


def test_owners_in_another_order_than_the_rows_are_refused() -> None:
    frame, y = clinic()
    owners = pd.Series(["north"] * 15 + ["south"] * 15, index=frame.index)
    models = grown(frame, y)
    plan = plan_campaign(frame, owners=owners, hypotheses=models)
    assert [len(rows) for rows in plan.problem.agents] == [15, 15]
    with pytest.raises(InvalidInputError, match=r"another order; use owners\.loc\[pool\.index\]"):
        plan_campaign(frame, owners=owners[::-1], hypotheses=models)


def test_row_numbers_of_parties_are_never_rounded() -> None:
    with pytest.raises(InvalidInputError, match="column numbers"):
        plan_campaign(np.arange(3.0), owners=[[0.4, 1.6], [2]], hypotheses="thresholds")


def test_labels_of_models_and_matrices_may_be_of_any_kind() -> None:
    """A model that says 1 and one that says "1" mean different labels."""
    pool = np.arange(4.0)
    says = [
        SimpleNamespace(predict=lambda X, a=answer: np.repeat(a, len(X))) for answer in (1, "1")
    ]
    assert plan_campaign(pool, owners=[0, 0, 1, 1], hypotheses=says).classes == (1, "1")
    words = plan_campaign(
        pool, owners=[0, 0, 1, 1], hypotheses=[["a", "b", "b", "c"], ["a", "a", "a", "a"]]
    )
    assert words.classes == ("a", "b", "c")
    assert words.problem.H.tolist() == [[0, 1, 1, 2], [0, 0, 0, 0]]
    with pytest.raises(InvalidInputError, match="row 1"):
        plan_campaign(pool, owners=[0, 0, 1, 1], hypotheses=[[0, np.nan, 1, 1]])


def test_answers_that_are_no_classes_are_refused() -> None:
    pool = np.linspace(0.0, 1.0, 300)
    measured = [SimpleNamespace(predict=lambda X: np.asarray(X)[:, 0])]
    with pytest.raises(InvalidInputError, match="300 different labels, at most 255"):
        plan_campaign(pool, owners=[0] * 300, hypotheses=measured)
    two = [SimpleNamespace(predict=lambda X: np.zeros((len(X), 2)))]
    with pytest.raises(InvalidInputError, match="one label per row, it gave shape"):
        plan_campaign(pool, owners=[0] * 300, hypotheses=two)


def test_sparse_pools_and_texts_reach_the_models_as_they_are() -> None:
    from scipy import sparse
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import make_pipeline

    texts = ["cash now", "see you", "cash", "you win cash", "dinner", "see the cash"] * 4
    y = np.array(["cash" in text for text in texts])
    rows = np.random.default_rng(0).integers(0, 24, size=(5, 10))
    counts = CountVectorizer().fit_transform(texts)
    dense = [DecisionTreeClassifier(random_state=0).fit(counts[r], y[r]) for r in rows]
    whole = [
        make_pipeline(CountVectorizer(), DecisionTreeClassifier(random_state=0)).fit(
            [texts[i] for i in r], y[r]
        )
        for r in rows
    ]
    owners = ["a", "b"] * 12
    for pool, models in ((sparse.csr_array(counts), dense), (texts, whole)):
        plan = plan_campaign(pool, owners=owners, hypotheses=models)
        assert plan.classes == (False, True)
        assert {tuple(m.predict(pool)) for m in models} == {
            tuple(row.astype(bool)) for row in plan.problem.H
        }
    with pytest.raises(InvalidInputError, match="pool is sparse"):
        plan_campaign(sparse.csr_array(counts), owners=owners, hypotheses="stumps")
