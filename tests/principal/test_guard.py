"""A guarded base: kept bit for bit while it does well, stopped before it can do harm."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

from counterplay.errors import InvalidInputError, ProtocolError
from counterplay.principal import Decision, RecentAverage, UnbiasedForecaster, compare_forecasters
from counterplay.principal.guard import largest_change
from counterplay.principal.lab import EmpiricalMeanForecaster, EWMAForecaster, MostLikely
from counterplay.principal.potential import Potential

HALF = Decision([[1.0, 0.0], [0.0, 1.0]], name="half", actions=["no", "yes"])


def sequence(kind, rounds, seed):
    """A series, or None for the adversary who answers 1 exactly when the forecast is below 1/2."""
    rng, t = np.random.default_rng([seed, 1]), np.arange(rounds)  # not the forecaster's stream
    chance = {"iid": 0.3 + 0 * t, "drifting": 0.5 + 0.45 * np.sin(t / 60)}.get(kind)
    if kind == "periodic":
        return (t % 7 < 2).astype(int)
    return None if chance is None else (rng.random(rounds) < chance).astype(int)


def run(forecaster, kind, rounds, seed=0):
    made = []
    given = sequence(kind, rounds, seed)
    for t in range(rounds):
        points, weights = forecaster.distribution()
        y = int(weights @ points[:, 1] < 0.5) if given is None else int(given[t])
        made.append(forecaster.predict_one())
        forecaster.learn_one(y)
    return np.array(made)


@pytest.mark.claim("25.21")
def test_the_account_never_exceeds_the_budget_and_the_potential_stays_small():
    """Four seeds and 150 rounds per sequence and base; the study has fifty of 600 rounds."""
    for kind, base in itertools.product(
        ("iid", "drifting", "periodic", "threshold"), (EWMAForecaster(), EmpiricalMeanForecaster())
    ):
        values, bound, start = [], 0.0, 0.0
        for seed in range(4):
            forecaster = UnbiasedForecaster(
                2, events=[HALF], base=base, budget=1.0, horizon=150, random_state=seed
            )
            run(forecaster, kind, 150, seed)
            certificate = forecaster.certificate()
            assert certificate.account <= 1.0 + 1e-9
            assert certificate.holds
            values.append(certificate.potential)
            bound, start = max(bound, certificate.budget), certificate.start
        assert np.mean(values) <= bound
        assert bound <= 2.2 * start


@pytest.mark.claim("25.22")
def test_a_good_base_is_kept_bit_for_bit():
    rain = sequence("drifting", 400, 1)
    for base in (EWMAForecaster(), RecentAverage()):
        alone = type(base)(2).forecast_sequence(rain)
        guarded = UnbiasedForecaster(2, events=[HALF], base=base, random_state=0)
        assert (guarded.forecast_sequence(rain) == alone).all()
        assert guarded.certificate().kept == 1.0


@pytest.mark.claim("25.22")
@pytest.mark.skipif("COUNTERPLAY_DATA" not in os.environ, reason="needs the FluSight data")
def test_flu_forecasts_are_the_bases():
    from counterplay.studies.principal.real_stream import decisions, outcomes

    y, n = outcomes("flu")
    assert y.size == 1085
    alone = EWMAForecaster(n).forecast_sequence(y)
    guarded = UnbiasedForecaster(
        n, events=decisions(n), base=EWMAForecaster(), horizon=y.size, random_state=0
    )
    assert (guarded.forecast_sequence(y) == alone).all()
    assert guarded.certificate().kept == 1.0


@pytest.mark.claim("25.23")
def test_the_adversary_breaks_the_average_and_not_the_guard():
    rounds = 1000
    ewma = EWMAForecaster(2)
    bias = np.zeros((2, 2))
    for _ in range(rounds):
        point = ewma.predict_one()
        y = int(point[1] < 0.5)
        bias[HALF.key(point, None)] += point - np.eye(2)[y]
        ewma.learn_one(y)
    assert np.abs(bias).sum() / rounds >= 1.0
    forecaster = UnbiasedForecaster(
        2, events=[HALF], base=EWMAForecaster(), horizon=rounds, random_state=0
    )
    run(forecaster, "threshold", rounds)
    report = forecaster.bias_report()
    assert report["alpha"].sum() <= 0.08
    assert forecaster.certificate().worst_ratio <= 1.0


def random_potential(rng, batch):
    potential = Potential(2, 3, 6, batch=batch)
    for _ in range(int(rng.integers(0, 60))):
        count = int(rng.integers(1, batch + 1))
        total = count * rng.random() - rng.integers(0, count + 1)
        potential.update([int(rng.integers(3))], np.array([total, -total]), count)
    return potential


def defined(potential, row, R, Q):
    """Potential of an event by its definition, for stacks of summed residuals and squares."""
    eta = potential.rates[:, None, None]
    both = np.exp(eta * R - eta**2 * Q) + np.exp(-eta * R - eta**2 * Q)
    return potential.weight[row] * both.mean(axis=0).sum(axis=-1)


@pytest.mark.claim("25.24")
def test_the_acceptance_bound_is_never_below_the_largest_change():
    """All outcome vectors of five rows, 500 states; two events active in different rows.

    The change is computed from the definition of the potential, not by the code of the bound.
    """
    rng = np.random.default_rng(0)
    vectors = np.array(list(itertools.product([0, 1], repeat=5)))
    inner = 0
    for _ in range(500):
        potential = random_potential(rng, 5)
        points = rng.dirichlet([1, 1], size=5)
        active = [(0,) if rng.random() < 0.5 else (1,) for _ in range(5)]
        bound = largest_change(potential, active, points)
        potential.update([0, 1], np.zeros(2), 0)  # both have their rows from here on
        change = np.zeros(len(vectors))
        for event in (0, 1):
            own = [t for t in range(5) if active[t] == (event,)]
            if own:
                row = int(potential.rows([event])[0])
                ones = vectors[:, own].sum(axis=1)
                happened = np.stack([len(own) - ones, ones], axis=1)
                moved = points[own].sum(axis=0) - happened
                R, Q = potential.R[row], potential.Q[row]
                change += defined(potential, row, R + moved, Q + moved**2)
                change -= defined(potential, row, R[None, :], Q[None, :])
        assert bound >= change.max() - 1e-9
        inner += change.max() > max(change[0], change[-1]) + 1e-12
    assert inner > 50  # "all equal" is not the worst case


@pytest.mark.claim("25.24")
def test_batches_of_one_are_the_sequential_forecaster():
    rain = sequence("drifting", 120, 2)
    options = {"events": [HALF], "base": EmpiricalMeanForecaster(), "horizon": 120}
    one = UnbiasedForecaster(2, random_state=0, **options).forecast_sequence(rain)
    batched = UnbiasedForecaster(2, random_state=0, **options)
    assert (batched.forecast_sequence(rain, batches=np.arange(120)) == one).all()


@pytest.mark.claim("25.24")
@pytest.mark.parametrize("kind", ["iid", "drifting", "periodic", "threshold"])
@pytest.mark.parametrize("guarded", [True, False])
def test_the_bound_holds_for_batches_of_eleven(kind, guarded):
    weeks, D = 40, 11
    base = RecentAverage() if guarded else None
    forecaster = UnbiasedForecaster(2, events=[HALF], base=base, horizon=weeks, random_state=0)
    given = sequence(kind, weeks * D, 3)
    for week in range(weeks):
        made = forecaster.predict_batch([None] * D)
        y = (made[:, 1] < 0.5).astype(int) if given is None else given[week * D : week * D + D]
        forecaster.learn_batch(y)
    certificate = forecaster.certificate()
    assert certificate.worst_ratio <= 1.0
    potential = forecaster.potential_
    level = np.log(forecaster.budget_ * potential.rates.size / 0.05)
    Q = potential.Q[: potential.size]
    simple = np.maximum(4 * D * level, 2.13 * np.sqrt(Q * level))
    assert (potential.bound(forecaster.budget_, 0.05) <= simple + 1e-9).all()
    assert forecaster.bias_report()["n"].sum() == weeks * D


@pytest.mark.claim("25.25")
def test_residuals_of_a_recent_average_telescope():
    rng = np.random.default_rng(4)
    for decay in (0.05, 0.3):
        forecaster = EWMAForecaster(3, decay=decay)
        y = rng.integers(0, 3, 500)
        made = forecaster.forecast_sequence(y)
        total = (np.eye(3)[y] - made)[40:].sum(axis=0)
        told = (forecaster.predict_one() - made[40]) / decay
        assert np.abs(total - told).max() <= 1e-9


def test_batches_are_checked():
    forecaster = UnbiasedForecaster(2, random_state=0)
    with pytest.raises(ProtocolError, match="predict_batch before"):
        forecaster.learn_batch([0])
    forecaster.predict_batch([None] * 3)
    with pytest.raises(InvalidInputError, match="3 forecasts, got 2 outcomes"):
        forecaster.learn_batch([0, 1])
    forecaster.predict_batch([None] * 3)
    forecaster.learn_batch([0, 1, 1])
    with pytest.raises(InvalidInputError, match="set batch=4"):
        forecaster.predict_batch([None] * 4)
    with pytest.raises(InvalidInputError, match="stand together"):
        UnbiasedForecaster(2).forecast_sequence([0, 1, 0], batches=["a", "b", "a"])
    with pytest.raises(InvalidInputError, match="batch of row 1 is nan: expected a name"):
        UnbiasedForecaster(2).forecast_sequence([0, 1, 0], batches=["a", np.nan, "b"])
    with pytest.raises(InvalidInputError, match="name the batch of each of 3 rows"):
        UnbiasedForecaster(2).forecast_sequence([0, 1, 0], batches="abc")
    with pytest.raises(InvalidInputError, match="at least one context"):
        EWMAForecaster(2).predict_batch([])


def test_contexts_of_a_batch_have_their_own_events():
    by_place = UnbiasedForecaster(
        2, events=[lambda forecast, context: context, HALF], base=RecentAverage(), random_state=0
    )
    rng = np.random.default_rng(5)
    for _ in range(30):
        by_place.predict_batch(["north", "south", "west"])
        by_place.learn_batch((rng.random(3) < [0.2, 0.5, 0.8]).astype(int))
    report = by_place.bias_report()
    assert report["n"].sum() == 2 * 90
    assert by_place.certificate().rounds == 30


def test_comparison_by_batches_shows_the_leak():
    """Ten places of a week share their outcome: in the order of the file nine of them leak."""
    rng = np.random.default_rng(6)
    week = np.repeat(np.arange(60), 10)
    y = np.repeat((rng.random(60) < 0.5).astype(int), 10)
    found = {}
    for name, batches in (("file", None), ("weeks", week)):
        totals = compare_forecasters(
            y, {"recent": EWMAForecaster(decay=0.5), "ours": UnbiasedForecaster()},
            [HALF, MostLikely()], batches=batches,
        ).totals()  # fmt: skip
        found[name] = totals
        assert {"decision_cost", "swap_gain"} <= set(totals.columns)
    leaked, honest = found["file"].loc["recent"], found["weeks"].loc["recent"]
    assert honest["log_loss"] > 3 * leaked["log_loss"]
    assert honest["decision_cost"] > leaked["decision_cost"]


def test_recent_average_follows_a_change():
    y = np.repeat([0, 1, 0], 120)
    ours = RecentAverage(2).forecast_sequence(y)
    slow = EmpiricalMeanForecaster(2).forecast_sequence(y)
    hit = np.arange(y.size), y
    assert -np.log(ours[hit]).mean() < -0.4 * np.log(slow[hit]).mean()
    assert (ours >= 0.01 - 1e-12).all()
    with pytest.raises(InvalidInputError, match="at least one rate"):
        RecentAverage(2, decays=()).predict_one()
