from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import clone

from counterplay.core.stats import loglog_slope
from counterplay.errors import InvalidInputError, ProtocolError, UnknownNameError
from counterplay.principal import (
    Decision,
    FollowRecommendation,
    LinearContractOracle,
    StableMechanism,
    UnbiasedForecaster,
)
from counterplay.principal.bounds import bias_bound, bias_bound_simple, bias_level
from counterplay.principal.instances import near_tie_contract
from counterplay.principal.lab import (
    Always,
    Bins,
    Context,
    EmpiricalMeanForecaster,
    MostLikely,
)
from counterplay.principal.minimax import mixture_gap
from principal.games import contract_events, outcome, played, run


@pytest.mark.claim("07.12")
@pytest.mark.parametrize("n", [2, 3, 5, 10])
@pytest.mark.parametrize("kind", ["iid", "drifting", "periodic", "adversarial"])
def test_every_gap_and_every_bias_is_within_its_bound(n, kind):
    T = 600
    forecaster = UnbiasedForecaster(n, events=contract_events(n), horizon=T, random_state=0)
    rng = np.random.default_rng(7)
    sums: dict[int, np.ndarray] = {}
    squares: dict[int, np.ndarray] = {}
    start = 2 * n * 63
    for t in range(T):
        y = outcome(kind, t, n, rng, forecaster)
        points, weights = forecaster.distribution()
        gains = np.array([forecaster.gain(x) for x in points])
        assert mixture_gap(points, weights, gains) <= forecaster.tolerance_ * (1 + 1e-9)
        x = forecaster.predict_one()
        assert any(np.array_equal(x, point) for point in points)
        for event in forecaster.events_.active(x):
            residual = x - np.eye(n)[y]
            sums[event] = sums.get(event, 0) + residual
            squares[event] = squares.get(event, 0) + residual**2
        forecaster.learn_one(y)
    assert forecaster.potential_.start == start
    rates = forecaster.potential_.rates.size
    assert rates == math.ceil(math.log2(math.sqrt(T))) + 1
    level = bias_level(start, rates, 0.05, tolerance=forecaster.tolerance)
    for event, total in sums.items():
        for j in range(n):
            assert abs(total[j]) <= bias_bound(squares[event][j], level, rates)
    report = forecaster.bias_report()
    assert (report["alpha"] <= report["bound"]).all()
    assert report["n"].sum() == T * forecaster.events_.n_families
    by_event = {forecaster.events_.label(event): abs(r).sum() / T for event, r in sums.items()}
    found = dict(zip(report["event"], report["alpha"]))
    assert found == pytest.approx(by_event)
    assert forecaster.certificate().holds


@pytest.mark.claim("07.12")
@pytest.mark.parametrize("kind", ["iid", "adversarial"])
def test_potential_stays_within_the_budget(kind):
    T, inside, excess = 200, 0, []
    for seed in range(50):
        certificate = run(kind, 3, T, seed, tolerance=1.0).certificate()
        assert certificate.budget <= 2 * certificate.start * (1 + 1e-9)
        excess.append(certificate.potential - certificate.start - certificate.gap_total)
        inside += certificate.potential <= 2 * certificate.start / 0.05
    assert np.mean(excess) <= 0.0
    assert inside >= 0.95 * 50


@pytest.mark.claim("07.13")
def test_rare_events_have_small_bias():
    T = 20_000
    rng = np.random.default_rng(0)
    rare = rng.random(T) < 0.01
    events = [MostLikely(), Context(2, name="rare")]
    forecaster = UnbiasedForecaster(2, events=events, horizon=T, random_state=0)
    R, n = np.zeros(2), 0
    for t in range(T):
        x = forecaster.predict_one(int(rare[t]))
        y = 1 if rare[t] else int(rng.random() < 0.4)  # the rare rounds are all different
        if rare[t]:
            R, n = R + x - np.eye(2)[y], n + 1
        forecaster.learn_one(y)
    assert 150 < n < 250
    L = bias_level(2 * 2 * 4, forecaster.potential_.rates.size, 0.05, tolerance=0.1)
    assert np.abs(R).max() <= bias_bound_simple(n, L)
    assert bias_bound_simple(n, L) < 0.75 * math.sqrt(T)
    report = forecaster.bias_report().set_index("event")
    assert report.loc["rare: 1", "n"] == n
    assert report.loc["rare: 1", "alpha"] == pytest.approx(np.abs(R).sum() / T)


@pytest.mark.claim("07.14")
def test_bias_falls_like_a_square_root():
    rounds = [2**9, 2**11, 2**14]
    totals = []
    for T in rounds:
        instance = near_tie_contract(T, random_state=5)
        oracle = LinearContractOracle(instance.game, instance.benchmark, beta=0.2, delta=0.1)
        transcript = played(
            StableMechanism(oracle, random_state=3), FollowRecommendation(), instance.states
        )
        totals.append(transcript.alpha["choice"])
    assert loglog_slope(rounds, totals).estimate <= -0.4


@pytest.mark.claim("07.16")
def test_two_solvers_on_the_same_forecaster_state():
    forecaster = run("drifting", 2, 400, 0)
    from counterplay.principal.lab import solve_minimax

    tol = forecaster.tolerance_
    for method in ("bisection", "cutting-plane"):
        mixture = solve_minimax(forecaster.gain, 2, tol, method=method)
        gains = np.array([forecaster.gain(x) for x in mixture.points])
        assert mixture_gap(mixture.points, mixture.weights, gains) <= tol
    hedged = UnbiasedForecaster(
        2, events=contract_events(2), horizon=100, inner="hedge", tolerance=1.0, random_state=0
    )
    hedged.forecast_sequence(np.arange(100) % 2)
    assert hedged.certificate().holds


def test_streaming_without_a_horizon_keeps_its_bounds():
    forecaster = UnbiasedForecaster(3, events=[Always(), Bins(0, 5)], random_state=0)
    rng = np.random.default_rng(0)
    for t in range(1500):
        forecaster.predict_one()
        forecaster.learn_one(int(rng.integers(0, 3)) if t < 800 else 2)
    certificate = forecaster.certificate()
    assert certificate.holds
    assert certificate.budget <= certificate.start * (2 + math.log(1500))
    assert forecaster.bias_report()["alpha"].max() < 0.1


def test_same_seed_same_forecasts_and_repeated_questions():
    outcomes = np.random.default_rng(0).integers(0, 3, 200)
    made = [UnbiasedForecaster(3, random_state=1).forecast_sequence(outcomes) for _ in range(2)]
    assert np.array_equal(*made)
    forecaster = UnbiasedForecaster(3, random_state=1)
    first = forecaster.predict_one()
    first[:] = 0.0  # a copy: the forecaster is not disturbed
    assert forecaster.predict_one() == pytest.approx(np.full(3, 1 / 3))
    forecaster.learn_one(0)
    forecaster.learn_one(1)  # a forecast is drawn first when none was asked for
    assert forecaster.rounds_ == 2


def test_decision_events_make_decisions_unbiased():
    insure = Decision([[0.0, -1.0], [-0.3, -0.3]], name="insure", actions=["no", "yes"])
    T = 3000
    loss = (np.sin(np.arange(T) / 40) > 0.6).astype(int)
    forecaster = UnbiasedForecaster(2, events=[insure], horizon=T, random_state=0)
    made = forecaster.forecast_sequence(loss)
    chosen = made[:, 1] >= 0.3
    for rows in (chosen, ~chosen):
        if rows.sum() > 100:
            assert abs(made[rows, 1].mean() - loss[rows].mean()) * rows.sum() < 3 * T**0.5
    # acting on the forecasts is as good as the best fixed choice per forecast decision
    paid = np.where(chosen, 0.3, loss)
    assert paid.mean() <= min(loss.mean(), 0.3) + 0.02


def test_base_forecasts_are_kept_where_they_are_unbiased():
    """With a large tolerance a right model stays untouched; a wrong one is corrected anyway."""
    T = 1500
    rng = np.random.default_rng(1)
    x = rng.random(T)
    y = (rng.random(T) < x).astype(int)

    def right(context):
        return [1 - context, context]

    def wrong(context):
        return [1 - context**2, context**2]

    for model, tolerance in ((right, 30.0), (wrong, 30.0), (wrong, 0.1)):
        forecaster = UnbiasedForecaster(
            2, events=[Bins(1, 5)], base=model, horizon=T, tolerance=tolerance, random_state=0
        )
        made = forecaster.forecast_sequence(y, contexts=x.tolist())
        given = np.array([model(value) for value in x])
        same = (made == given).all(axis=1).mean()
        assert forecaster.certificate().holds
        bins = np.minimum((given[:, 1] * 5).astype(int), 4)
        own = sum(abs((given[bins == b, 1] - y[bins == b]).sum()) for b in range(5)) / T
        ours = forecaster.bias_report()["alpha"].sum() / 2  # both outcomes count there
        if model is right:
            assert same == 1.0
            assert ours == pytest.approx(own)
        else:
            assert same < 0.6
            assert ours < own / (2 if tolerance > 1 else 5)
    learning = UnbiasedForecaster(2, base=EmpiricalMeanForecaster(), random_state=0)
    learning.forecast_sequence(y[:100])
    assert learning._base.rounds_ == 100


def test_binary_forecasts_avoid_the_extremes():
    y = (np.random.default_rng(3).random(500) < 0.7).astype(int)
    made = UnbiasedForecaster(2, events=[Always()], horizon=500, random_state=0).forecast_sequence(
        y
    )
    assert ((made == 0.0) | (made == 1.0)).mean() < 0.05


def test_parameters_behave_as_in_scikit_learn():
    forecaster = UnbiasedForecaster(3, horizon=10, random_state=2)
    copy = clone(forecaster)
    assert copy.get_params() == forecaster.get_params()
    assert repr(copy) == "UnbiasedForecaster(n_outcomes=3, horizon=10, random_state=2)"
    assert copy.set_params(tolerance=0.5).tolerance == 0.5
    with pytest.raises(UnknownNameError, match="did you mean 'tolerance'"):
        copy.set_params(tolerence=0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_outcomes": None}, "set n_outcomes"),
        ({"n_outcomes": 0}, "n_outcomes must be at least 1"),
        ({"n_outcomes": 3, "inner": "bisection"}, "needs two outcomes"),
        ({"n_outcomes": 3, "inner": "simplex"}, "inner must be 'auto'"),
        ({"n_outcomes": 3, "tolerance": 0.0}, "tolerance must be in"),
        ({"n_outcomes": 3, "events": []}, "at least one family"),
        ({"n_outcomes": 3, "events": [Decision([[0.0, 1.0]])]}, "must have 3 columns"),
        ({"n_outcomes": 3, "horizon": 0}, "horizon must be at least 1"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(InvalidInputError, match=message):
        UnbiasedForecaster(**options).predict_one()


def test_outcomes_and_reports_are_checked():
    forecaster = UnbiasedForecaster(2, random_state=0)
    with pytest.raises(ProtocolError, match="nothing to report"):
        forecaster.bias_report()
    with pytest.raises(InvalidInputError, match="outcome must be at most 1"):
        forecaster.learn_one(2)
    with pytest.raises(InvalidInputError, match="contexts must have 3 entries"):
        forecaster.forecast_sequence([0, 1, 0], contexts=[1])
