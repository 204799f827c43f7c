"""NeighborhoodLearner: liked sets from single clicks, as a scikit-learn multi-label estimator."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterplay.errors import InvalidInputError, NotRealizableError
from counterplay.strategic import bounds
from counterplay.strategic.lab import NeighborhoodLearner, ProductGraphClass, probe


def taste_models() -> ProductGraphClass:
    """Two user clusters (nodes 0, 1), six items (2..7), three taste models per cluster."""
    tastes = ((2, 3), (2, 3, 4), (5,)), ((6, 7), (5, 6, 7), (2, 7))
    blocks = tuple(((u,), tuple({u: items} for items in tastes[u])) for u in (0, 1))
    return ProductGraphClass(8, blocks)


@pytest.mark.claim("03.26")
@pytest.mark.parametrize("mode", ["agnostic", "realizable"])
def test_candidate_models_are_told_apart_by_single_clicks(mode: str) -> None:
    models = taste_models()
    users = np.array([0, 1] * 60)
    clicks = probe(models.build((0, 1)), users, 0)
    for rows in (users, users[:, None], users.tolist()):
        learner = NeighborhoodLearner(models, mode).fit(rows, clicks)
        assert learner.predict_sets([0, 1]) == [{2, 3}, {5, 6, 7}]
        assert learner.predict(1) == {5, 6, 7}
        assert learner.classes_.tolist() == [2, 3, 4, 5, 6, 7]
        assert learner.predict([[0], [1]]).tolist() == [[1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1]]


def test_nothing_clicked_on_a_partial_slate_is_no_evidence() -> None:
    models = taste_models()
    users = np.array([0, 1] * 60)
    clicks = probe(models.build((0, 1)), users, 0)
    shown = [[2], *[[c] for c in clicks]]
    learner = NeighborhoodLearner(models, "realizable")
    learner.fit([0, *users], [-1, *clicks], slates=shown)
    assert learner.predict(0) == {2, 3}
    with pytest.raises(NotRealizableError):  # with everything shown it means that nothing is liked
        NeighborhoodLearner(models, "realizable").fit([0, *users], [-1, *clicks])
    with pytest.raises(InvalidInputError, match="not shown"):
        NeighborhoodLearner(models).fit([0], [2], slates=[[3]])
    with pytest.raises(NotRealizableError, match="slates"):
        NeighborhoodLearner(mode="realizable").fit([0, 0], [3, -1])


@pytest.mark.claim("03.26")
def test_free_sets_minimise_the_proxy_over_all_sets() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        items, k = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        clicks = rng.choice(items, p=rng.dirichlet(np.ones(items)), size=int(rng.integers(1, 15)))
        clicks[1:][rng.random(clicks.size - 1) < 0.2] = -1
        learner = NeighborhoodLearner(k=k).fit(np.zeros(clicks.size, dtype=int), clicks)

        def score(chosen: set[int], clicks=clicks, k=k) -> float:
            missed = np.mean([c >= 0 and c not in chosen for c in clicks])
            return 2 * float(missed) + len(chosen) / k

        every = [
            set(chosen)
            for size in range(min(k, items) + 1)
            for chosen in combinations(range(items), size)
        ]
        best = min(score(chosen) for chosen in every)
        assert score(learner.predict(0)) == pytest.approx(best, abs=1e-12)
        ties = [chosen for chosen in every if score(chosen) <= best + 1e-12]
        assert len(learner.predict(0)) == min(len(chosen) for chosen in ties)


@pytest.mark.claim("03.26")
def test_exact_sets_with_the_visits_the_bound_asks_for() -> None:
    # 40 people, sets of up to 4 of 12 items: all but a share eps of them, in 95 % of 100 runs.
    people, items, k, eps = 40, 12, 4, 0.1
    log_size = people * bounds.log_sauer(k, items)
    T = bounds.graph_T_realizable(k, log_size, eps, 0.05)
    rng, good = np.random.default_rng(1), 0
    for _ in range(100):
        liked = np.argsort(rng.random((people, items)), axis=1)[:, :k]
        sizes = rng.integers(1, k + 1, size=people)
        who = rng.integers(people, size=T)
        click = liked[who, np.floor(rng.random(T) * sizes[who]).astype(int)]
        learner = NeighborhoodLearner(mode="realizable", k=k).fit(who, click)
        truth = np.zeros((people, items), dtype=int)
        for person in range(people):
            truth[person, liked[person, : sizes[person]]] = 1
        assert learner.log_size_ <= log_size + 1e-9
        said = learner.predict(np.arange(people))
        assert (said <= truth[:, learner.classes_]).all()  # nothing is recommended wrongly
        good += learner.score(np.arange(people), truth[:, learner.classes_]) >= 1 - eps
    assert good >= 95


def test_a_slate_with_everything_makes_a_missing_click_evidence() -> None:
    visits, clicks = [0, 0, 0, 0, 1], [5, -1, -1, -1, 6]
    partly = NeighborhoodLearner(k=2).fit(visits, clicks, slates=[[5], [6], [6], [6], [6]])
    fully = NeighborhoodLearner(k=2).fit(visits, clicks, slates=[[5, 6]] * 5)
    assert partly.predict(0) == {5}
    assert fully.predict(0) == set()  # one click in four visits does not pay for the item
    names = NeighborhoodLearner(k=2).fit(["a", "b"], ["x", "y"], slates=[["x"], ["y"]])
    assert names.predict("a") == {"x"}


def test_score_on_single_clicks_is_minus_the_proxy() -> None:
    visits, clicks = np.array([0, 0, 0, 1, 1]), np.array([3, 3, 4, -1, 5])
    learner = NeighborhoodLearner(k=2).fit(visits, clicks)
    assert learner.predict_sets([0, 1]) == [{3, 4}, {5}]
    sizes = np.array([2, 2, 2, 1, 1])
    assert learner.score(visits, clicks) == pytest.approx(-np.mean(sizes / 2))
    assert learner.score(visits, [9, 9, 9, 9, 9]) == pytest.approx(-2 - np.mean(sizes / 2))


def test_it_is_a_scikit_learn_estimator() -> None:
    learner = NeighborhoodLearner(taste_models(), "realizable", k=3)
    assert set(learner.get_params()) == {"graphs", "mode", "k", "people"}
    twin = clone(learner)
    assert twin.mode == "realizable"
    assert not hasattr(twin, "classes_")
    assert "NeighborhoodLearner" in repr(learner)


def grouped_visits(seed: int):
    """Feature rows around three centres; each group likes two of six items."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    group = rng.integers(3, size=600)
    X = centres[group] + rng.normal(size=(600, 2))
    return X, 2 * group + rng.integers(2, size=600), group


def test_features_pipelines_and_searches() -> None:
    X, clicks, group = grouped_visits(2)
    clusters = KMeans(3, n_init=4, random_state=0)
    model = make_pipeline(StandardScaler(), NeighborhoodLearner(k=3, people=clusters))
    model.fit(X, clicks)
    truth = (np.arange(6)[None, :] // 2 == group[:, None]).astype(int)
    assert accuracy_score(truth, model.predict(X)) > 0.98
    assert model.score(X, truth) == accuracy_score(truth, model.predict(X))
    scores = cross_val_score(model, X, clicks, cv=3)
    assert scores.shape == (3,)
    search = GridSearchCV(
        NeighborhoodLearner(people=clusters), {"people__n_clusters": [1, 3]}, cv=3
    ).fit(X, clicks)
    assert search.best_params_ == {"people__n_clusters": 3}


def test_indicator_matrices_are_clicks_too() -> None:
    X, clicks, _ = grouped_visits(3)
    people = (X[:, 0] > 3).astype(int)
    table = np.eye(6, dtype=int)[clicks]
    a = NeighborhoodLearner(k=4).fit(people, clicks)
    b = NeighborhoodLearner(k=4).fit(people[:, None], table)
    assert (a.predict([0, 1]) == b.predict([0, 1])).all()
    table[:5] = 0  # nobody clicked: counts as a visit without a click
    clicks[:5] = -1
    a, b = (NeighborhoodLearner(k=4).fit(people, y) for y in (clicks, table))
    assert (a.predict([0, 1]) == b.predict([0, 1])).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: NeighborhoodLearner(mode="best").fit([0], [1]), "mode"),
        (lambda: NeighborhoodLearner(k=0).fit([0], [1]), "k"),
        (lambda: NeighborhoodLearner().fit([0, 1], [1]), "2 visits"),
        (lambda: NeighborhoodLearner().fit([0], [0.5]), "continuous"),
        (lambda: NeighborhoodLearner().fit([0, 1], [0.0, np.nan]), "NaN"),
        (lambda: NeighborhoodLearner().fit([0, 1], [[0, 2], [1, 0]]), "0/1"),
        (lambda: NeighborhoodLearner().fit([0, 1], [1, 1]).predict([7]), "without a visit"),
        (lambda: NeighborhoodLearner(taste_models()).fit([9], [2]), "nodes are 0 to 7"),
        (lambda: NeighborhoodLearner(taste_models()).fit([0], [9]), "nodes are 0 to 7"),
        (lambda: NeighborhoodLearner(taste_models()).fit([0], [[1, 0]]), "6 items"),
        (lambda: NeighborhoodLearner().fit([0], [1], slates=[]), "0 slates"),
        (lambda: NeighborhoodLearner().fit([0], [-1], slates=[[2]]), "nothing was clicked"),
        (lambda: NeighborhoodLearner(mode="realizable", k=1).fit([0, 0], [1, 2]), "more than k=1"),
    ],
)
def test_bad_input_says_what_is_wrong(call, words: str) -> None:
    with pytest.raises((InvalidInputError, NotRealizableError), match=words):
        call()
