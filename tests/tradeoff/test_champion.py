"""ChampionChallenger: live model, harm bound on every path, state, models, dashboard."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from counterplay.errors import AssumptionWarning, InvalidInputError, ProtocolError
from counterplay.tradeoff import ChampionChallenger, CusumOracle, HarmBudget
from counterplay.tradeoff.lab import stints


def stream(seed: int, T: int = 1200, K: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    error = np.clip(rng.normal(np.linspace(0.4, 0.2, K), 0.15, (T, K)), 0, 1)
    harm = np.clip(rng.normal(np.linspace(0.05, 0.25, K), 0.1, (T, K)), 0, 1)
    start = int(rng.integers(0, T - 200))
    harm[start : start + 150, 1] = 0.9
    harm[:, 0] = np.minimum(harm[:, 0], 0.1)
    return error, harm


def play(live: ChampionChallenger, error: np.ndarray, harm: np.ndarray) -> np.ndarray:
    path = []
    for a, b in zip(error, harm):
        path.append(live.current)
        live.step(primary=a, secondary=b)
    return np.array(path)


@pytest.mark.claim("09.31")
@pytest.mark.parametrize("policy", ["guaranteed", "adaptive"])
@pytest.mark.parametrize("seed", range(12))
def test_harm_keeps_its_bound_on_every_path(seed: int, policy: str) -> None:
    error, harm = stream(seed)
    live = ChampionChallenger(
        n_models=4, horizon=1200, budget=HarmBudget(0.1, 5.0 + seed), random_state=seed,
        policy=policy,  # type: ignore[arg-type]  # parametrised
    )  # fmt: skip
    path = play(live, error, harm)
    report = live.report()
    played = harm[np.arange(1200), path]
    assert report.played[1] == pytest.approx(played.sum())
    assert report.harm_excess <= report.harm_bound
    excess = np.cumsum(played - 0.1)
    for t, bound in zip(report.trace[:, 0].astype(int), report.trace[:, 4]):
        assert excess[t - 1] <= bound + 1e-9
    assert report.switches == len(stints(path)[0]) - 1


def test_report_agrees_with_brute_force() -> None:
    error, harm = stream(3)
    live = ChampionChallenger(n_models=4, horizon=1200, budget=HarmBudget(0.1, 8.0), random_state=0)
    allowed = []
    path = []
    for a, b in zip(error, harm):
        allowed.append(np.isin(range(4), live.allowed))
        path.append(live.current)
        live.step(primary=a, secondary=b)
    mask, rows = np.array(allowed), np.arange(1200)
    report = live.report()
    oracle = CusumOracle(0.1, 8.0, resets=-(-300 // report.decision_every) * report.decision_every)
    run = oracle.judge(harm)
    assert np.array_equal(mask, run.active)
    assert report.deactivations == run.events
    assert report.reviews == len(run.resets) - 1 == 3
    assert mask[rows, path].all()
    sleeping = ((error[rows, path][:, None] - error) * mask).sum(axis=0)
    assert np.allclose(report.sleeping, sleeping)
    assert report.live_rounds.tolist() == np.bincount(path, minlength=4).tolist()
    frame = report.to_frame()
    assert np.allclose(frame["primary"], error.mean(axis=0))
    assert report.violators == tuple(frame.index[frame["needed_burst"] > 8.0])
    assert report.regret == pytest.approx(error[rows, path].sum() - error.sum(axis=0).min())
    assert "would have been enough" in report.summary()
    once = copy.copy(report)
    vars(once).update(reviews=1)
    assert ", 1 review\n" in once.summary()


def test_adaptive_policy_finds_the_best_allowed_model_faster() -> None:
    regret = {}
    for policy in ("guaranteed", "adaptive"):
        found = []
        for seed in range(6):
            error, harm = stream(seed)
            live = ChampionChallenger(
                n_models=4, horizon=1200, budget=HarmBudget(0.1, 8.0), random_state=seed,
                policy=policy,  # type: ignore[arg-type]  # literals
            )  # fmt: skip
            play(live, error, harm)
            report = live.report()
            assert report.sleeping.max() <= report.regret_bound
            found.append(report.sleeping.max())
        regret[policy] = np.mean(found)
    assert regret["adaptive"] < 0.5 * regret["guaranteed"]


@pytest.mark.claim("09.32")
@pytest.mark.parametrize("policy", ["guaranteed", "adaptive"])
def test_restored_stream_continues_exactly(policy: str) -> None:
    error, harm = stream(1)
    live = ChampionChallenger(
        n_models=4,
        horizon=1200,
        budget=HarmBudget(0.1, 8.0),
        random_state=0,
        policy=policy,  # type: ignore[arg-type]  # parametrised
    )
    play(live, error[:500], harm[:500])
    text = live.to_json()
    json.loads(text)
    restored = ChampionChallenger.from_json(text)
    assert restored.current == live.current
    first = play(live, error[500:], harm[500:])
    second = play(restored, error[500:], harm[500:])
    assert np.array_equal(first, second)
    assert restored.report().summary() == live.report().summary()


@pytest.mark.claim("09.35")
def test_state_does_not_grow_with_the_stream() -> None:
    rng = np.random.default_rng(0)
    live = ChampionChallenger(
        n_models=3, horizon=8000, budget=HarmBudget(0.1, 20.0), random_state=0
    )
    sizes = {}
    for t in range(8000):
        live.step(primary=rng.random(3) * [0.5, 0.4, 0.3], secondary=rng.random(3) * 0.2)
        if t + 1 in (512, 8000):
            sizes[t + 1] = len(live.to_json())
    assert len(live.report().trace) <= 514
    assert live.report().trace[-1, 0] == 8000
    assert sizes[8000] < 1.3 * sizes[512] + 2000


def test_around_models() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = 1 - y  # one means malignant
    models = [
        LogisticRegression().fit(X[:100], y[:100]),
        DecisionTreeClassifier(max_depth=1, random_state=0).fit(X[:100], y[:100]),
        LogisticRegression(class_weight={0: 1, 1: 10}).fit(X[:100], y[:100]),
    ]
    live = ChampionChallenger(models, HarmBudget(rate=0.1, burst=4.0), horizon=40, random_state=0)
    for k in range(40):
        rows = slice(100 + 10 * k, 110 + 10 * k)
        assert np.array_equal(live.predict(X[rows]), models[live.current].predict(X[rows]))
        live.observe(X[rows], y[rows])
    report = live.report()
    wrong = np.array([(m.predict(X[100:500]) != y[100:500]).mean() for m in models])
    assert np.allclose(report.primary / 40, wrong)
    missed = np.array([((m.predict(X[100:500]) == 0) & (y[100:500] == 1)).mean() for m in models])
    assert np.allclose(report.harm / 40, missed)
    restored = ChampionChallenger.from_json(live.to_json(), models)
    assert np.array_equal(restored.predict(X[:5]), live.predict(X[:5]))


def test_around_river_models() -> None:
    pytest.importorskip("river", reason="river is not installed")
    from river import datasets, dummy, naive_bayes, tree

    models = [naive_bayes.GaussianNB(), tree.HoeffdingTreeClassifier(), dummy.NoChangeClassifier()]
    live = ChampionChallenger(
        models, HarmBudget(0.1, 15.0), horizon=800, policy="adaptive", random_state=0
    )
    right = total = 0
    for x, y in list(datasets.Phishing())[:800]:
        right += live.predict_one(x) == y
        total += 1
        live.observe_one(x, y)
    report = live.report()
    assert report.played[0] == total - right
    assert report.primary.argmin() == report.live_rounds.argmax()
    assert report.harm_excess <= report.harm_bound


def test_a_stream_of_labels_of_another_kind_is_refused() -> None:
    class Yes:
        def predict_one(self, x: object) -> str:
            return "yes"

        def learn_one(self, x: object, y: object) -> None:
            pass

    live = ChampionChallenger([Yes(), Yes()], HarmBudget(0.1, 5.0), horizon=80, positive="yes")
    assert live.observe_one({}, "no") in {0, 1}
    with pytest.raises(InvalidInputError, match="can never be missed: 1 is a label of another"):
        live.observe_one({}, 1)
    assert live.rounds == 1


def test_nobody_left_is_said_plainly() -> None:
    live = ChampionChallenger(n_models=2, horizon=200, budget=HarmBudget(0.1, 2.0), random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(200):
            live.step(primary=[0.5, 0.4], secondary=[0.5, 0.6])
    assert [warning.category for warning in caught] == [AssumptionWarning]
    report = live.report()
    assert report.nobody_left
    assert "the guarantees do not apply" in report.summary()


@pytest.mark.claim("26.30")
@pytest.mark.parametrize("policy", ["guaranteed", "adaptive"])
def test_no_bound_once_nobody_is_left(policy: str) -> None:
    """Harm grows by 0.4 a round whoever is live, so no finite number can bound it."""
    live = ChampionChallenger(
        n_models=2, horizon=200, budget=HarmBudget(0.1, 2.0), random_state=0,
        policy=policy,  # type: ignore[arg-type]  # parametrised
    )  # fmt: skip
    harm = np.array([0.5, 0.6])
    excess = (harm - 0.1) * np.arange(1, 201)[:, None]
    void = int((excess > 2.0).all(axis=1).argmax()) + 1  # first round with both above the burst
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        for _ in range(100):
            live.step(primary=[0.5, 0.4], secondary=harm)
        live = ChampionChallenger.from_json(live.to_json())
        for _ in range(100):
            live.step(primary=[0.5, 0.4], secondary=harm)
    report = live.report()
    assert (report.harm_bound, report.regret_bound) == (np.inf, None)
    assert "guaranteed below" not in report.summary()
    bound = report.trace[:, 4]
    assert np.isfinite(bound[: void - 1]).all()
    assert np.isinf(bound[void - 1 :]).all()
    drawn = {line.get_label(): line.get_ydata() for line in report.plot().get_lines()}
    assert np.isnan(np.asarray(drawn["guaranteed"], dtype=float)[void - 1 :]).all()
    json.loads(live.to_json(), parse_constant=pytest.fail)


def test_dashboard_has_three_readable_panels(tmp_path: Path) -> None:
    error, harm = stream(2)
    live = ChampionChallenger(n_models=4, horizon=1200, budget=HarmBudget(0.1, 8.0), random_state=0)
    fresh = live.report()
    assert fresh.dashboard().axes
    play(live, error, harm)
    figure = live.report().dashboard()
    labels = [ax.get_ylabel() for ax in figure.axes]
    assert labels == ["live model", "primary loss\n(cumulative)", "harm (cumulative)"]
    figure.savefig(tmp_path / "dashboard.png")
    assert (tmp_path / "dashboard.png").stat().st_size > 10_000
    assert live.report().plot().get_ylabel() == "harm (cumulative)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"horizon": 100, "budget": HarmBudget(0.1, 1.0)}, "models or n_models"),
        ({"n_models": 2, "horizon": 100}, "HarmBudget"),
        ({"n_models": 0, "horizon": 100, "budget": HarmBudget(0.1, 1.0)}, "n_models"),
        ({"n_models": 50, "horizon": 20, "budget": HarmBudget(0.1, 1.0)}, "is too short for"),
        ({"models": [1], "n_models": 2, "horizon": 9, "budget": HarmBudget(0.1, 1)}, "1 models"),
        ({"n_models": 2, "horizon": 9, "budget": 0.1}, "HarmBudget"),
        (
            {"n_models": 2, "horizon": 90, "budget": HarmBudget(0.1, 1), "review_every": 0},
            "review_every",
        ),
    ],
)
def test_bad_parameters_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ChampionChallenger(**arguments)  # type: ignore[arg-type]  # deliberately wrong


@pytest.mark.parametrize(("rate", "burst"), [(1.5, 1.0), (0.1, -1.0), (float("nan"), 1.0)])
def test_impossible_budgets_are_refused(rate: float, burst: float) -> None:
    with pytest.raises(InvalidInputError, match=r"rate must be|burst must be"):
        HarmBudget(rate, burst)


def test_bad_steps_are_refused_and_change_nothing() -> None:
    live = ChampionChallenger(n_models=2, horizon=60, budget=HarmBudget(0.1, 2.0), random_state=0)
    live.step([0.1, 0.2], [0.1, 0.1])
    before = live.to_json()
    with pytest.raises(InvalidInputError, match=r"expert 1 is 1\.20"):
        live.step([0.1, 0.2], [0.1, 1.2])
    assert live.to_json() == before
    with pytest.raises(ProtocolError, match="no models"):
        live.predict([[1.0]])
    for _ in range(59):
        live.step([0.1, 0.2], [0.1, 0.1])
    with pytest.raises(ProtocolError, match="horizon of 60 rounds is over"):
        live.step([0.1, 0.2], [0.1, 0.1])


@pytest.mark.claim("26.22")
def test_a_model_that_misses_every_word_positive_is_taken_down() -> None:
    X, y = np.zeros((10, 1)), np.array(["yes"] * 10)
    both = np.array(["yes", "no"] * 5)
    models = [
        DummyClassifier(strategy="constant", constant=word).fit(X, both) for word in ("no", "yes")
    ]
    budget = HarmBudget(rate=0.1, burst=3.0)
    live = ChampionChallenger(models, budget, horizon=200, positive="yes", random_state=0)
    restored = ChampionChallenger.from_json(live.to_json(), models)
    for guard in (live, restored):
        for _ in range(4):  # harm 1 per round: 4 * 0.9 is the first sum above 3
            assert guard.allowed == (0, 1)
            guard.observe(X, y)
        assert guard.allowed == (1,)
    assert "must not be missed: 'yes'" in live.report().summary()
    with pytest.raises(InvalidInputError, match=r"which label .* models' labels are 'no', 'yes'"):
        ChampionChallenger(models, budget, horizon=200)
    with pytest.raises(InvalidInputError, match="none of the models' labels"):
        ChampionChallenger(models, budget, horizon=200, positive="ja")


def test_models_are_called_with_the_columns_they_were_fitted_on() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["income", "debt", "age"])
    y = np.where(frame["income"] - frame["debt"] > 0, "good", "bad")
    full = LogisticRegression().fit(frame, y)
    small = LogisticRegression().fit(frame[["debt", "income"]], y)
    live = ChampionChallenger(
        [full, small], HarmBudget(0.1, 5.0), horizon=80, positive="good", random_state=0
    )
    shuffled = frame[["age", "debt", "income"]]
    live.observe(shuffled, pd.Series(y))
    guesses = [full.predict(frame), small.predict(frame[["debt", "income"]])]
    wrong = [(guess != y).mean() for guess in guesses]
    assert live.report().primary == pytest.approx(wrong)
    with pytest.raises(InvalidInputError, match="no model was fitted on: 'shoe'"):
        live.observe(frame.assign(shoe=1.0), y)
    with pytest.raises(InvalidInputError, match="no column 'income'"):
        live.predict(frame.rename(columns={"income": "incom"}).drop(columns="incom"))
    assert live.rounds == 1


def test_losses_with_labels_are_matched_by_them() -> None:
    names = ["a", "b", "c"]
    losses = pd.Series([0.1, 0.2, 0.3], index=names)
    harm = pd.Series([1.0, 0.0, 0.0], index=names)
    made = [ChampionChallenger(n_models=3, budget=HarmBudget(0.1, 5.0), horizon=100,
                               random_state=0) for _ in range(2)]  # fmt: skip
    made[0].step(losses, harm)
    made[1].step(losses, harm[["c", "a", "b"]])
    assert made[0].to_json() == made[1].to_json()
    with pytest.raises(InvalidInputError, match="are about different models"):
        made[0].step(losses, harm.rename({"c": "d"}))
