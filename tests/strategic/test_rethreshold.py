"""A cut for people who move: what is returned does what it says, on every kind of model."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from counterplay.errors import InvalidInputError
from counterplay.strategic import Change, Moves, gaming_report, rethreshold
from counterplay.strategic.best_shown import best_shown
from counterplay.strategic.cuts import CutProblem
from strategic.test_cheapest import credit, encoded, whole_moves


def people(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Few are unqualified, and everybody can move far: an easy prey for a wrong cut."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["income", "debt", "age"])
    y = (X["income"] - X["debt"] + rng.normal(0, 1.0, n) > -1).astype(int).to_numpy()
    return X, y


@pytest.mark.claim("20.20")
def test_a_cut_for_all_budgets_is_near_the_best_of_each() -> None:
    """On other people, where the old cut or the cut for one budget is far off."""
    A, ya = people(1500, 0)
    B, yb = people(1500, 1)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(A, ya)
    moves = Moves({"income": Change("up"), "debt": Change("down")}, reference=A)
    fix = rethreshold(model, A, ya, moves, budget=(0, 2))
    one = rethreshold(model, A, ya, moves, budget=2.0)
    radii = np.linspace(0, 2, 9)
    low, high = best_shown(model, B, moves, radii)
    test = CutProblem(radii, low, high, yb == 1, np.ones(len(yb)))
    regret = {k: test.regret(c).max() for k, c in
              (("old", fix.old), ("one", one.cut), ("all", fix.cut))}  # fmt: skip
    assert regret["all"] < 0.8 * min(regret["old"], regret["one"])
    assert fix.regret <= fix.regret_certified <= fix.regret + 0.0051
    assert fix.interval[0] <= fix.regret <= fix.interval[1] + 1e-12
    for cut in (fix.old, one.cut, 0.7):
        assert fix.regret <= fix.regret_of(cut) + 1e-12
    text = fix.summary()
    assert "price 1 = one spread" in text
    assert "for every mixture" in text
    report = gaming_report(fix.model, B, yb, moves, budget=radii.tolist()).to_frame()
    fp, fn, _, _ = test.errors(fix.cut)
    np.testing.assert_allclose(report["accuracy"], 1 - fp - fn, atol=1e-9)


def test_people_who_pass_together_do_not_keep_the_search_busy() -> None:
    """Equal rows pass the cut at one budget; no halving of budgets can separate them."""
    X = pd.DataFrame({"late": np.repeat([0.0, 1.0, 2.0], [40, 30, 50])})
    y = np.concatenate((np.ones(40), np.tile([0, 1], 15), np.zeros(50))).astype(int)
    model = LogisticRegression().fit(X, y)
    moves = Moves({"late": Change("down", per="unit", cost=0.3, low=0)})
    fix = rethreshold(model, X, y, moves, budget=(0, 1))
    assert fix.problem.budgets.size <= 101
    assert fix.regret <= fix.regret_certified


REAL = Path(os.environ.get("COUNTERPLAY_DATA", "/nowhere"))


@pytest.mark.claim("20.20")
@pytest.mark.skipif(
    not (REAL / "give_me_some_credit_30k.parquet").is_file(),
    reason="COUNTERPLAY_DATA does not hold give_me_some_credit_30k.parquet",
)
def test_give_me_some_credit() -> None:
    """One split of the study; the cut for budget 1 turns nearly everybody away at budget 0."""
    from counterplay.studies.strategic.credit_tables import free_moves
    from counterplay.studies.strategic.credit_tables import people as table

    data = table("give_me_some_credit").numbers()
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(data.y))[:4000]
    A, B = data.X.iloc[rows[:2000]], data.X.iloc[rows[2000:]]
    ya, yb = data.y[rows[:2000]], data.y[rows[2000:]]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(A, ya)
    moves = free_moves(data, A)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fix = rethreshold(model, A, ya, moves, budget=(0, 1), positive=1)
        one = rethreshold(model, A, ya, moves, budget=1.0, positive=1)
    low, high = best_shown(model, B, moves, [0.0, 0.5, 1.0], positive=1)
    test = CutProblem(np.array([0.0, 0.5, 1.0]), low, high, yb == 1, np.ones(len(yb)))
    assert test.regret(fix.cut).max() <= 0.02
    assert test.regret(one.cut).max() >= 0.3
    assert "balanced error" in fix.summary()


@pytest.mark.claim("20.34")
@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize(
    "values",
    [
        [1.0, np.nextafter(1.0, 2.0)],
        [1.6e18, 1.6e18 + 256, 1.6e18 + 512],
        [-1.6e18, -1.6e18 + 256],
    ],
)
def test_the_deployed_model_attains_its_regret(values: list[float], positive: int) -> None:
    """Neighbouring floats, through predict; the cut is the upper one of them."""
    X = np.array(values * 3)[:, None]
    y = (X[:, 0] > values[0]).astype(int)
    model = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    model.coef_, model.intercept_ = np.array([[1.0]]), np.array([0.0])
    moves = Moves({0: Change("both", per="unit", low=-1e19, high=1e19)})
    fix = rethreshold(model, X, y, moves, budget=0.0, positive=positive)
    assert fix.worst == 0
    assert fix.model.score(X, y) == 1.0


MODELS = {
    "pipeline": lambda: encoded(LogisticRegression()),
    "threshold": lambda: FixedThresholdClassifier(encoded(LogisticRegression()), threshold=0.3),
    "margin": lambda: encoded(LinearSVC()),
    "calibrated": lambda: CalibratedClassifierCV(encoded(LogisticRegression()), ensemble=False),
    "forest": lambda: encoded(RandomForestClassifier(5, max_depth=3, random_state=0)),
    "neighbours": lambda: encoded(KNeighborsClassifier()),
}


@pytest.mark.claim("20.34")
@pytest.mark.parametrize("name", MODELS)
def test_what_is_deployed_loses_what_is_reported(name: str) -> None:
    X, y = credit()
    model = MODELS[name]().fit(X, y)
    moves = whole_moves(X)
    fix = rethreshold(model, X, y, moves, budget=[0.0, 1.0, 2.0])
    loss = fix.to_frame().set_index("budget")["loss_new"]
    assert 1 - fix.model.score(X, y) == pytest.approx(loss[0.0])
    if name == "neighbours":  # nothing is certified from above
        return
    report = gaming_report(fix.model, X, y, moves, budget=[0.0, 1.0, 2.0]).to_frame()
    np.testing.assert_allclose(1 - report["accuracy"], loss, atol=1e-12)


def test_objectives_labels_and_values() -> None:
    X, y = credit()
    model = encoded(LogisticRegression()).fit(X, y)
    moves = whole_moves(X)
    words = np.where(y == 1, "repaid", "lost")
    told = encoded(LogisticRegression()).fit(X, words)
    plain = rethreshold(model, X, y, moves, budget=[0.0, 2.0])
    said = rethreshold(told, X, words, moves, budget=[0.0, 2.0], positive="repaid")
    assert said.regret == pytest.approx(plain.regret)
    assert set(said.model.predict(X)) <= {"repaid", "lost"}
    careful = rethreshold(model, X, y, moves, budget=[0.0, 2.0], value=[[0, -9], [0, 1]])
    assert careful.cut >= plain.cut
    each = rethreshold(model, X, y, moves, budget=(0, 2), objective="individual")
    fp, fn, _, _ = each.problem.errors(each.cut)
    assert each.worst == pytest.approx(fp[-1] + fn[0])
    weights = np.where(y == 1, 5.0, 1.0)
    kind = rethreshold(model, X, y, moves, budget=2.0, sample_weight=weights)
    assert kind.cut <= rethreshold(model, X, y, moves, budget=2.0).cut
    assert kind.plot().get_ylabel() == "loss per person"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"budget": (1, 0)}, "budget must be numbers of at least 0, or .low, high."),
        ({"budget": -1.0}, "budget must be numbers"),
        ({"budget": [0.0, np.nan]}, "budget"),
        ({"budget": []}, "budget"),
        ({"objective": "best"}, "objective must be"),
        ({"objective": "expected"}, "ability= .from estimate_ability. belong together"),
        ({"objective": "decisions", "budget": [0, 1]}, "one budget"),
        ({"value": [[0, 1], [0, 1]]}, "worth more than a right decision"),
        ({"moves": None}, "moves must be Moves"),
        ({"sample_weight": [1.0]}, "sample_weight"),
        ({"y": np.ones(120)}, "one class"),
    ],
)
def test_bad_arguments(given: dict[str, Any], words: str) -> None:
    X, y = credit()
    model = encoded(LogisticRegression()).fit(X, y)
    arguments = {"X": X, "y": y[: len(X)], "moves": whole_moves(X), **given}
    if "y" in given:
        arguments["y"] = np.ones(len(X), dtype=int)
    with pytest.raises(InvalidInputError, match=words):
        rethreshold(model, **arguments)


def test_a_model_that_only_says_yes_or_no_has_no_cut() -> None:
    from sklearn.ensemble import VotingClassifier

    X, y = credit()
    model = encoded(VotingClassifier([("a", LogisticRegression())])).fit(X, y)
    with pytest.raises(InvalidInputError, match="only says yes or no"):
        rethreshold(model, X, y, whole_moves(X))
