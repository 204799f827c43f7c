from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier

from counterplay.errors import InvalidInputError
from counterplay.principal import Decision, UnbiasedForecaster, compare_forecasters
from counterplay.principal.bounds import net_events
from counterplay.principal.lab import (
    Bins,
    ClassifierForecaster,
    ConstantForecaster,
    EmpiricalMeanForecaster,
    EWMAForecaster,
    NetCalibratedForecaster,
    NetPoint,
)


@pytest.mark.parametrize(("n", "count"), [(2, 11), (3, 66), (5, 1001), (10, 92378)])
def test_number_of_net_points(n, count):
    assert net_events(n, 0.1) == count == NetPoint(0.1).n_events(n)
    if n <= 3:
        family = NetPoint(0.1)
        rng = np.random.default_rng(0)
        seen = {family.key(x, None) for x in rng.dirichlet(np.full(n, 0.7), size=20_000)}
        assert len(seen) == count


def test_nearest_net_point():
    family = NetPoint(0.25)
    rng = np.random.default_rng(0)
    points = [(a, b, 4 - a - b) for a in range(5) for b in range(5 - a)]
    for x in rng.dirichlet(np.ones(3), size=300):
        distances = [max(abs(x - np.array(point) / 4)) for point in points]
        found = np.array(family.key(x, None)) / 4
        assert max(abs(x - found)) == pytest.approx(min(distances))
    assert family.describe((1, 1, 2)) == "(0.25, 0.25, 0.5)"


def test_full_calibration_is_refused_by_size():
    NetCalibratedForecaster(3, eta=0.1, horizon=10, random_state=0).predict_one()
    with pytest.raises(InvalidInputError, match="352716 events"):
        NetCalibratedForecaster(12, eta=0.1).predict_one()


def test_calibrated_forecasts_are_calibrated():
    T = 1500
    y = (np.random.default_rng(0).random(T) < 0.35).astype(int)
    forecaster = NetCalibratedForecaster(2, eta=0.25, horizon=T, random_state=0)
    forecaster.forecast_sequence(y)
    assert forecaster.certificate().holds
    assert forecaster.bias_report()["alpha"].sum() < 0.1


def test_simple_forecasters_by_hand():
    mean = EmpiricalMeanForecaster(3, prior_weight=3.0)
    for y in (0, 0, 2):
        mean.learn_one(y)
    assert mean.predict_one() == pytest.approx([0.5, 1 / 6, 1 / 3])
    ewma = EWMAForecaster(2, decay=0.5).learn_one(0).learn_one(1)
    assert ewma.predict_one() == pytest.approx([0.375, 0.625])
    constant = ConstantForecaster(2, probabilities=[0.2, 0.8]).learn_one(0)
    points, weights = constant.distribution()
    assert points.tolist() == [[0.2, 0.8]]
    assert weights.tolist() == [1.0]


def test_classifier_forecaster_uses_memory_or_context():
    model = SGDClassifier(loss="log_loss", random_state=0)
    forecaster = ClassifierForecaster(2, classifier=model, memory=2)
    made = forecaster.forecast_sequence(np.arange(300) % 2)
    assert made[0].tolist() == [0.5, 0.5]
    assert (made[250:].argmax(axis=1) == np.arange(250, 300) % 2).all()
    x = np.random.default_rng(0).random((300, 1))
    y = (x[:, 0] > 0.5).astype(int)
    informed = ClassifierForecaster(2, classifier=model).forecast_sequence(y, contexts=list(x))
    assert (informed[200:].argmax(axis=1) == y[200:]).mean() > 0.8
    with pytest.raises(InvalidInputError, match="partial_fit"):
        ClassifierForecaster(2, classifier=object()).predict_one()


@pytest.mark.parametrize(
    "forecaster",
    [
        EmpiricalMeanForecaster(2, prior_weight=2.0),
        EWMAForecaster(2, decay=0.1),
        ConstantForecaster(2),
        NetCalibratedForecaster(2, eta=0.5),
    ],
    ids=repr,
)
def test_clones_keep_their_parameters(forecaster):
    copy = clone(forecaster)
    assert copy is not forecaster
    assert copy.get_params() == forecaster.get_params()


def test_bad_parameters_are_refused():
    for bad in (
        EmpiricalMeanForecaster(2, prior_weight=0.0),
        EWMAForecaster(2, decay=1.5),
        ConstantForecaster(3, probabilities=[0.5, 0.5]),
        EmpiricalMeanForecaster(),
        NetCalibratedForecaster(2, eta=0.3),
    ):
        with pytest.raises(InvalidInputError):
            bad.predict_one()


def anti_recent(T, decay, threshold):
    """Rain comes exactly when the recent average says it will not."""
    recent, rain = EWMAForecaster(2, decay=decay), []
    for _ in range(T):
        rain.append(int(recent.predict_one()[1] < threshold))
        recent.learn_one(rain[-1])
    return np.array(rain)


def test_comparison_where_averages_fail():
    """Averages are biased where decisions change if the sequence reacts to them; ours is not."""
    T = 2000
    rain = anti_recent(T, decay=0.02, threshold=0.3)
    umbrella = Decision([[0.0, -1.0], [-0.3, -0.3]], name="umbrella", actions=["no", "yes"])
    found = compare_forecasters(
        rain,
        {
            "unbiased": UnbiasedForecaster(),
            "average": EmpiricalMeanForecaster(),
            "recent": EWMAForecaster(decay=0.02),
            "given": np.tile([0.5, 0.5], (T, 1)),
        },
        [umbrella, Bins(1, 4)],
    )
    totals = found.totals()
    assert totals.drop(index="given")["worst_family_bias"].idxmin() == "unbiased"
    assert totals.loc["unbiased", "worst_family_bias"] < 0.05
    assert totals.loc["recent", "worst_family_bias"] > 0.1
    assert totals.loc["given", "brier"] == pytest.approx(0.5)
    assert totals.loc["given", "log_loss"] == pytest.approx(np.log(2))
    frame = found.to_frame()
    assert set(frame["family"]) == {"umbrella", "bin of outcome 1"}
    counts = frame.groupby(["forecaster", "family"])["n"].sum()
    assert (counts == T).all()
    assert "unbiased" in found.summary()
    assert found.plot().get_xlabel()
    with pytest.raises(InvalidInputError, match="one forecast per outcome"):
        compare_forecasters([0, 1], {"short": [[0.5, 0.5]]}, [umbrella])
