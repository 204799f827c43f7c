from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB

from counterplay.errors import InvalidInputError
from counterplay.principal import compare_forecasters
from counterplay.principal.lab import (
    Always,
    ClassifierForecaster,
    ConstantForecaster,
    EmpiricalMeanForecaster,
    EWMAForecaster,
    NetCalibratedForecaster,
)


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


def test_rows_of_a_frame_are_contexts():
    """The column decides the outcome, so a classifier that sees it forecasts well."""
    rain = np.random.default_rng(0).integers(0, 2, 200)
    clouds = pd.DataFrame({"clouds": 2.0 * rain - 1.0}, index=[f"day {t}" for t in range(200)])
    model = ClassifierForecaster(classifier=SGDClassifier(loss="log_loss", random_state=0))
    asked = {"model": model}
    seen, blind = (
        compare_forecasters(rain, asked, [Always()], contexts=contexts).scores
        for contexts in (clouds, None)
    )
    assert seen.loc["model", "brier"] < 0.1 < blind.loc["model", "brier"]
    with pytest.raises(InvalidInputError, match="contexts must have 200 entries, got 199"):
        compare_forecasters(rain, asked, [Always()], contexts=clouds[1:])
    words = clouds.assign(clouds="many")
    with pytest.raises(InvalidInputError, match="context must be an array of numbers"):
        compare_forecasters(rain, asked, [Always()], contexts=words)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_classifier_without_probabilities_is_refused():
    """Naive Bayes on one row of each class has no variance, and says NaN."""
    forecaster = ClassifierForecaster(2, classifier=GaussianNB())
    forecaster.predict_one([1.0, 2.0])
    forecaster.learn_one(0)
    with pytest.raises(InvalidInputError, match=r"no probabilities in round 1: \[nan, nan\]"):
        forecaster.predict_one([1.0, 2.0])
