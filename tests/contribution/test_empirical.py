"""Measured games: learning curves and utilities from data."""

from __future__ import annotations

import contextlib

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits, load_iris
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from counterplay.contribution import (
    EmpiricalGame,
    plan_contributions,
)
from counterplay.errors import ConvergenceError, InfeasibleError, InvalidInputError


@pytest.fixture(scope="module")
def parts() -> list[tuple[np.ndarray, np.ndarray]]:
    """Three parties that see different digits."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    weights = np.array([[4, 4, 4, 1, 1], [1, 1, 1, 4, 4], [2, 2, 2, 2, 2]], dtype=float)
    keep = y < 5
    X, y = X[keep], y[keep]
    chosen = [rng.choice(len(y), 250, replace=False, p=w[y] / w[y].sum()) for w in weights]
    return [(X[c], y[c]) for c in chosen]


def test_empirical_game_uses_common_random_numbers(
    parts: list[tuple[np.ndarray, np.ndarray]],
) -> None:
    game = EmpiricalGame(parts, GaussianNB(), 0.8, n_repeats=8)
    again = EmpiricalGame(parts, GaussianNB(), 0.8, n_repeats=8)
    assert (game.scores([20, 5, 0]) == again.scores([20, 5, 0])).all()
    assert game.utilities([0, 0, 0]) == pytest.approx(0.2)  # a guess among five digits
    rising = [game.utilities([n, n, n]).mean() for n in (2, 10, 40, 150)]
    assert rising == sorted(rising)
    assert (game.standard_errors([20, 5, 0]) > 0).all()
    real = EmpiricalGame(parts, GaussianNB(), 0.8, n_repeats=8, integral=False)
    low, middle, high = (real.scores([t, 0, 0]) for t in (20.0, 20.5, 21.0))
    from_either = (middle == low).all(axis=1) | (middle == high).all(axis=1)
    assert from_either.all()


def test_measured_best_response_has_an_undecided_range(
    parts: list[tuple[np.ndarray, np.ndarray]],
) -> None:
    game = EmpiricalGame(parts, GaussianNB(), 0.8, n_repeats=8)
    response = game.measured_response(0, [0, 0, 0])
    assert response.low <= response.estimate
    assert response.high is None or response.estimate <= response.high
    assert game.decide(0, [0, 0, 0]) == "unsatisfied"
    assert game.decide(0, [150, 150, 150]) == "satisfied"
    assert response.outcome == ("decided" if response.low == response.high else "undecided")
    impossible = EmpiricalGame(parts, GaussianNB(), [1.01, 0.5, 0.5], n_repeats=8)
    assert impossible.measured_response(0, [0, 0, 0]).high is None
    with pytest.raises(InfeasibleError, match=r"party 0 cannot reach mu=1\.01 alone"):
        impossible.standalone()


def test_budget_and_time_limit_end_a_measured_game(
    parts: list[tuple[np.ndarray, np.ndarray]],
) -> None:
    game = EmpiricalGame(parts, GaussianNB(), 0.8, n_repeats=4, budget=6)
    game.utilities([20, 0, 0])
    with pytest.raises(ConvergenceError, match=r"budget of 6 fits is spent.*plan_consortium"):
        game.utilities([10, 0, 0])
    assert game.fits == 6
    slow = EmpiricalGame(parts, GaussianNB(), 0.8, n_repeats=4)
    plan = None
    with contextlib.suppress(ConvergenceError):
        plan = plan_contributions(slow, time_limit=0.2)
    assert slow.fits < 2000  # all plans of this game need far more
    if plan is not None:
        assert plan.summary()


def test_bad_datasets() -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InvalidInputError, match=r"datasets\[1\]"):
        EmpiricalGame([(X, y), (X, y[:-1])], GaussianNB(), 0.8)
    with pytest.raises(InvalidInputError, match="same number of columns"):
        EmpiricalGame([(X, y), (X[:, :2], y)], GaussianNB(), 0.8)
    with pytest.raises(InvalidInputError, match="at least one"):
        EmpiricalGame([], GaussianNB(), 0.8)


def small_site(seed: int, *, integral: bool = True, mu: float = 0.7) -> EmpiricalGame:
    """Two sites of 60 rows and one of 12 (42, 42 and 8 to bring)."""
    rng = np.random.default_rng(seed)
    direction, sites = rng.normal(size=4), []
    for n in (60, 60, 12):
        X = rng.normal(size=(n, 4))
        sites.append((X, (X @ direction + 0.5 * rng.normal(size=n) > 0).astype(int)))
    return EmpiricalGame(sites, GaussianNB(), mu, n_repeats=3, integral=integral, random_state=seed)


@pytest.mark.claim("23.04")
@pytest.mark.parametrize("integral", [True, False])
@pytest.mark.parametrize(("seed", "mu"), [(0, 0.6), (1, 0.7), (2, 0.7), (2, 0.75), (3, 0.6)])
def test_a_small_site_does_not_stop_the_plan(seed: int, mu: float, integral: bool) -> None:
    game = small_site(seed, integral=integral, mu=mu)
    plan = plan_contributions(game)
    for found in plan.plans.values():
        assert (found.theta <= game.caps).all()
        assert (game.utilities(found.theta) >= mu - 1e-9).all()


def test_swaps_that_break_a_cap_are_not_evaluated() -> None:
    game = small_site(0)
    theta = np.array([42.0, 5.0, 8.0])
    swapped = game.swap_utilities(theta)
    for i, j in np.ndindex(3, 3):
        other = theta.copy()
        other[[i, j]] = other[[j, i]]
        if (other > game.caps).any():
            assert np.isnan(swapped[i, j])
        else:
            assert swapped[i, j] == game.utilities(other)[i]
    assert np.isnan(swapped).sum() == 2  # parties 0 and 2 cannot change places
    with pytest.raises(InvalidInputError, match="above the cap"):
        game.utilities([42, 5, 9])


def test_a_target_out_of_reach_is_refused_by_name() -> None:
    game = small_site(1, mu=0.99)
    assert (game.utilities(game.caps) < 0.99).any()
    with pytest.raises(InfeasibleError, match=r"cannot reach mu=0\.99 even if everybody"):
        plan_contributions(game)


def hospitals() -> list[tuple[pd.DataFrame, np.ndarray]]:
    """Three sites with an age and a ward; outcomes are words."""
    rng = np.random.default_rng(1)
    sites = []
    for n in (60, 80, 60):
        age, ward = rng.normal(size=n), rng.choice(["A", "B", "C"], size=n)
        sick = age + (ward == "A") + rng.normal(scale=0.3, size=n) > 0.4
        frame = pd.DataFrame({"age": age, "ward": ward}, index=[f"row {i}" for i in range(n)])
        sites.append((frame, np.where(sick, "sick", "well")))
    return sites


def by_hand(frame: pd.DataFrame) -> np.ndarray:
    indicators = [(frame["ward"] == ward).astype(float) for ward in "ABC"]
    return np.column_stack([*indicators, frame["age"]])


def test_frames_and_a_pipeline_that_picks_columns_by_name() -> None:
    """The same numbers as with the words coded by hand, whatever the order of the columns."""
    coder = ColumnTransformer(
        [("words", OneHotEncoder(categories=[list("ABC")]), ["ward"])], remainder="passthrough"
    )
    sites = hospitals()
    swapped = [sites[0], (sites[1][0][["ward", "age"]], sites[1][1]), sites[2]]
    coded = [(by_hand(X), y) for X, y in sites]
    expected = EmpiricalGame(coded, LogisticRegression(), 0.7, n_repeats=3)
    for given in (sites, swapped):
        game = EmpiricalGame(given, make_pipeline(coder, LogisticRegression()), 0.7, n_repeats=3)
        assert np.allclose(game.utilities([20, 10, 0]), expected.utilities([20, 10, 0]))


def test_what_the_classifier_complains_about_is_one_sentence() -> None:
    coder = ColumnTransformer([("words", OneHotEncoder(), ["ward"])])
    sites = [(X.rename(columns={"ward": "unit"}), y) for X, y in hospitals()]
    model = make_pipeline(coder, LogisticRegression())
    with pytest.raises(InvalidInputError, match=r"could not be fitted to .* rows") as caught:
        EmpiricalGame(sites, model, 0.5, n_repeats=1).utilities([20, 20, 20])
    assert "ward" in str(caught.value)
    assert len(str(caught.value)) <= 300
    with pytest.raises(InvalidInputError, match="estimator must be a scikit-learn classifier"):
        EmpiricalGame(hospitals(), "forest", mu=0.5)


def test_sparse_and_text_parties_are_not_made_dense() -> None:
    class Sparse(MultinomialNB):
        def fit(self, X: object, y: object) -> MultinomialNB:
            assert sparse.issparse(X)
            return super().fit(X, y)

    X, y = load_digits(return_X_y=True)
    parts = [(sparse.csr_array(X[i::6]), y[i::6]) for i in range(2)]
    dense = [(X[i::6], y[i::6]) for i in range(2)]
    theta = [100, 50]
    found = EmpiricalGame(parts, Sparse(), mu=0.5, n_repeats=2).utilities(theta)
    assert np.allclose(
        found, EmpiricalGame(dense, MultinomialNB(), mu=0.5, n_repeats=2).utilities(theta)
    )
    texts = [f"{'win cash' if i % 2 else 'see you'} {i % 7}" for i in range(40)]
    labels = ["spam" if i % 2 else "mail" for i in range(40)]
    model = make_pipeline(CountVectorizer(), MultinomialNB())
    game = EmpiricalGame([(texts, labels), (texts[:20], labels[:20])], model, mu=0.5, n_repeats=2)
    assert game.classes.tolist() == ["mail", "spam"]
    assert game.utilities([14, 14]).tolist() == [1.0, 1.0]


def test_one_repeat_has_no_standard_error() -> None:
    game = EmpiricalGame(
        hospitals(),
        make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression()),
        mu=0.1,
        n_repeats=1,
    )
    assert np.isinf(game.standard_errors([10, 10, 10])).all()
    assert game.decide(0, [10, 10, 10]) == "undecided"
