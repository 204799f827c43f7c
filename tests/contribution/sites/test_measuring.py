"""Measuring: every site at its own scale, frames stay frames, a seed decides all points."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from contribution.sites.worlds import clinics, three_sites
from counterplay.contribution import measure_sites, plan_consortium
from counterplay.contribution.sites.scoring import score_rows, strata
from counterplay.errors import AssumptionWarning, InvalidInputError


@pytest.mark.claim("23.05")
def test_one_small_site_truncates_nobody_and_frames_stay_frames() -> None:
    sizes = (1200, 700, 400, 250, 150, 80)
    model = make_pipeline(
        make_column_transformer((SimpleImputer(), ["age"]), (OneHotEncoder(), ["ward"])),
        LogisticRegression(),
    )
    sites = clinics(sizes)
    plan = plan_consortium(sites, label="y", model=model, budget=71, verify=0, progress=False)
    assert plan.points.largest().tolist() == [900, 525, 300, 188, 113, 60]
    assert (plan.share.rows <= plan.owned).all()
    assert plan.points.k == 6


@pytest.mark.claim("23.10")
def test_the_seed_decides_not_the_threads() -> None:
    one = measure_sites(three_sites(), plans="share", budget=48, progress=False)
    two = measure_sites(three_sites(), plans="share", budget=48, n_jobs=2, progress=False)
    other = measure_sites(three_sites(), plans="share", budget=48, random_state=1, progress=False)
    assert (one.score == two.score).all()
    assert (one.rows == two.rows).all()
    assert not (one.score == other.score).all()
    plans = [plan_consortium(points).share.rows for points in (one, two)]
    assert plans[0].equals(plans[1])


class Slow(LogisticRegression):
    def fit(self, X: np.ndarray, y: np.ndarray) -> Slow:
        time.sleep(0.05)
        return super().fit(X, y)


@pytest.mark.claim("23.10")
def test_a_time_limit_stops_after_the_running_fit() -> None:
    points = measure_sites(three_sites(), model=Slow(), time_limit=0.3, progress=False)
    assert 1 <= points.fits <= 7  # of 176; each takes at least 0.05 s
    assert any("time limit" in note for note in points.notes)


def test_every_row_is_held_out_equally_often() -> None:
    points = measure_sites(three_sites(), plans="share", progress=False)
    assert points.fits == 96
    assert points.held_out is not None
    assert [e.shape for e in points.held_out.errors] == [(12, 240), (12, 120), (12, 60)]
    # eight splits of four parts: each row twice, so errors are 0, 1/2 or 1
    assert set(np.unique(points.held_out.errors[0])) <= {0.0, 0.5, 1.0}


@pytest.mark.parametrize("metric", ["balanced_accuracy", "neg_log_loss", "roc_auc"])
def test_other_metrics(metric: str) -> None:
    points = measure_sites(three_sites(), metric=metric, budget=62, progress=False)
    plan = plan_consortium(points, "within=0.05")
    assert (plan.share.rows <= plan.owned).all()
    low, high = plan.share.low, plan.share.high
    assert (low <= plan.share.expected + 1e-9).all()
    assert (plan.share.expected <= high + 1e-9).all()
    assert np.isfinite(points.score).all()


def test_scores_and_effective_rows_by_hand() -> None:
    truth, answer = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    chance = np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]])
    assert score_rows("accuracy", truth, answer, None).value == 0.75  # type: ignore[union-attr]
    balanced = score_rows("balanced_accuracy", truth, answer, None)
    assert balanced is not None
    assert balanced.value == pytest.approx((2 / 3 + 1) / 2)
    assert balanced.test_rows == pytest.approx(4 / (1 / 3 + 1))
    loss = score_rows("neg_log_loss", truth, answer, chance)
    assert loss is not None
    assert loss.value == pytest.approx(np.log([0.9, 0.8, 0.4, 0.7]).mean())
    area = score_rows("roc_auc", truth, answer, chance)
    assert area is not None
    assert area.value == 1.0
    group, weight = strata("roc_auc", truth)
    means = [area.parts[group == g].mean() for g in range(2)]
    assert np.dot(means, weight) == pytest.approx(1.0 - area.value)
    one_class = np.zeros(3, dtype=int)
    assert score_rows("balanced_accuracy", one_class, one_class, None) is None
    assert score_rows("roc_auc", one_class, one_class, chance[:3]) is None


def test_bad_sites_are_named() -> None:
    good = clinics((60, 60, 60))
    X = np.zeros((30, 2))
    cases = [
        ({"a": good["clinic 0"]}, {"label": "y"}, "at least two sites"),
        ({"south": good["clinic 0"], "b": good["clinic 1"]}, {"label": "z"},
         "south has no column 'z'; its columns are"),
        ({**good, "east": good["clinic 0"].drop(columns="ward")}, {"label": "y"},
         "east lacks 'ward', which the other sites have; drop it everywhere with --drop ward"),
        ({"west": (X[:12], [0, 1] * 6), "b": (X, [0, 1] * 15)}, {},
         r"west has 12 rows: too few to hold some out \(20 needed\)"),
        ({"west": (X, [0] * 30), "b": (X, [0, 1] * 15)}, {}, "west has only label 0"),
        ({"a": (X, [0, 1] * 15), "b": (X, [0, 1] * 15)}, {"budget": 10}, "need at least 59"),
        ({"a": (X, [0, 1] * 15), "b": (X, [0, 1] * 15)}, {"metric": "f1"}, "metric must be one of"),
        ({"a": (X, [0, 1] * 15), "b": (X, [0, 1] * 15)}, {"model": 3}, "model must be"),
        ({"a\n": (X, [0, 1] * 15), "b": (X, [0, 1] * 15)}, {}, "control character"),
        ({"a" * 101: (X, [0, 1] * 15), "b": (X, [0, 1] * 15)}, {}, "101 characters"),
    ]  # fmt: skip
    for sites, options, message in cases:
        with pytest.raises(InvalidInputError, match=message) as caught:
            measure_sites(sites, progress=False, **options)
        assert len(str(caught.value)) <= 300
    with pytest.warns(AssumptionWarning, match="label 2 occurs only at a"):
        measure_sites({"a": (X, [0, 1, 2] * 10), "b": (X, [0, 1] * 15)}, plans="share", budget=48,
                      progress=False)  # fmt: skip


def test_contributors_and_missing_labels() -> None:
    sites = clinics((60, 60, 40))
    sites["clinic 2"]["y"] = "sick"
    sites["clinic 0"].loc[:4, "y"] = None
    points = measure_sites(
        sites, label="y", contribute_only=["clinic 2"], budget=62, progress=False
    )
    assert points.owned.tolist() == [55, 60, 40]
    assert points.scored == (0, 1)
    plan = plan_consortium(points, "within=0.05")
    assert np.isnan(plan.share.expected["clinic 2"])
    assert "contributes only" in plan.summary()


class Broken(LogisticRegression):
    def fit(self, X: pd.DataFrame, y: np.ndarray) -> Broken:
        if len(y) < self.max_iter:
            raise ValueError("too few rows for me")
        return super().fit(X, y)


def test_fits_that_fail_are_skipped_or_end_it() -> None:
    points = measure_sites(three_sites(), model=Broken(max_iter=18), plans="share", budget=96,
                           progress=False)  # fmt: skip
    assert points.fits < 96
    assert any("the model failed on point" in note and "rows: a" in note for note in points.notes)
    with pytest.raises(InvalidInputError, match=r"fits failed.*too few rows for me"):
        measure_sites(three_sites(), model=Broken(max_iter=200), progress=False)
