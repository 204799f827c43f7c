"""Points without pooled rows: models that travel, and mixtures trained in a federation."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import counterplay
from contribution.sites.worlds import clinics
from counterplay.contribution import SitePoints, measure_sites, plan_consortium
from counterplay.contribution.lab import (
    SiteModels,
    describe_site,
    fit_site_models,
    score_site_models,
    write_measuring_app,
)
from counterplay.contribution.sites.description import read_description
from counterplay.contribution.sites.flower_project import AppPlan, coded_rows, read_plan
from counterplay.contribution.sites.model_exchange import read_models
from counterplay.contribution.sites.splits import split_rows, training_rows
from counterplay.errors import ConvergenceError, CounterplayError, InvalidInputError


@cache
def models() -> tuple[SiteModels, ...]:
    return tuple(
        fit_site_models(frame, "y", name=name, repeats=4)
        for name, frame in clinics((240, 120, 60)).items()
    )


@pytest.mark.parametrize("size", [20, 61, 62, 63, 240])
def test_a_server_knows_how_many_rows_a_site_trains_on(size: int) -> None:
    for split in range(5):
        for share in (0.0, 0.04, 0.5, 1.0):
            train, test = split_rows(3, 1, size, split, share)
            assert len(train) == training_rows(size, split, share)
            assert not set(train) & set(test)
    held = np.concatenate([split_rows(3, 1, size, split, 0.0)[1] for split in range(4)])
    assert sorted(held) == list(range(size))


@pytest.mark.claim("23.40")
def test_exchanged_models_are_the_fits_of_one_site_and_measure_what_rows_are_worth(
    tmp_path: Path,
) -> None:
    world = clinics((240, 120, 60))
    files = []
    for sent in models():
        files.append(tmp_path / f"{sent.site}.models.json")
        sent.to_json(files[-1])
        assert {m.rows for m in sent.models} == {
            training_rows(sent.owned, 0, share) for share in (1.0, 0.5, 0.25, 0.125)
        }
    points = []
    for name, frame in world.items():
        own = score_site_models(frame, files, "y", name=name, progress=False)
        points.append(tmp_path / f"{name}.json")
        own.to_json(points[-1])
    together = SitePoints.from_json(*points)
    assert together.owned.tolist() == [240, 120, 60]
    assert together.axes_only
    assert together.curves().measured_pairs().all()  # every rate rests on measurements
    plan = plan_consortium(together, "within=0.05")
    assert (plan.share.rows <= plan.owned).all()
    assert "no mixture of sites was tried" in plan.summary()
    # a model that came by file scores as a pipeline that was fitted on the same rows
    sent, frame = models()[0], world["clinic 0"]
    train, test = split_rows(sent.seed, 0, 240, sent.models[0].split, 1.0)
    coded = pd.get_dummies(frame[["age", "ward"]], columns=["ward"]).astype(float)
    mean, sd = coded["age"].iloc[train].mean(), coded["age"].iloc[train].std(ddof=0)
    coded["age"] = ((coded["age"] - mean) / sd).fillna(0.0)
    reference = LogisticRegression(max_iter=300).fit(coded.iloc[train], frame["y"].iloc[train])
    mine = together.score[(together.site == 0) & (together.rows[:, 0] == len(train))][0]
    assert mine == pytest.approx(reference.score(coded.iloc[test], frame["y"].iloc[test]))


@pytest.mark.claim("23.40")
def test_exchanged_models_tell_that_rows_hurt() -> None:
    """The two sites with opposite labels: what one learned is wrong at the other."""
    rng = np.random.default_rng(1)
    sites = {}
    for name, n, sign in (("left", 500, 1.0), ("right", 400, -1.0)):
        X = rng.normal(size=(n, 3))
        sites[name] = (X, (sign * (X[:, 0] + 0.5 * rng.normal(size=n)) > 0).astype(int))
    sent = [fit_site_models(rows, name=name, repeats=2) for name, rows in sites.items()]
    for name, rows in sites.items():
        points = score_site_models(rows, sent, name=name, progress=False)
        own = points.rows[:, points.index(name)] > 0
        assert points.score[own].mean() > 0.8
        assert points.score[~own].mean() < 0.2


def test_words_and_labels_of_others_are_no_trouble() -> None:
    """A word that a model never met is no word; a label that it never met is always missed."""
    north, south = clinics((120, 90)).values()
    north = north.replace({"ward": {"A": "secret"}})
    north.loc[3, "ward"] = "very rare"
    north.loc[5, "y"] = None
    south = south.replace({"y": {"sick": "ill"}})
    sent = [
        fit_site_models(f, "y", name=n, repeats=2) for n, f in (("north", north), ("south", south))
    ]
    assert "very rare" not in sent[0].to_json()
    assert sent[0].owned == 119
    points = score_site_models(south, sent, "y", name="south", progress=False)
    foreign = points.rows[:, 0] > 0
    ill = (south["y"] == "ill").mean()
    assert points.score[foreign].max() <= 1 - ill
    loss = score_site_models(south, sent, "y", name="south", metric="neg_log_loss", progress=False)
    assert np.isfinite(loss.score).all()


def test_what_is_not_a_models_file_is_refused_in_a_sentence(tmp_path: Path) -> None:
    honest = json.loads(models()[2].to_json())
    honest["models"] = honest["models"][:3]
    rng = np.random.default_rng(0)
    junk = [None, True, -1, "x", [], {}, 2**60, "a\nb", 1.5, 0, [[[]]], [1e300], 1e13]
    refused: list[str] = []
    for _ in range(100):
        content = json.loads(json.dumps(honest))
        target: Any = content
        while isinstance(target, dict | list) and target:
            keys = list(target) if isinstance(target, dict) else range(len(target))
            key = list(keys)[int(rng.integers(len(keys)))]
            if not isinstance(target[key], dict | list) or rng.random() < 0.3:
                target[key] = junk[int(rng.integers(len(junk)))]
                break
            target = target[key]
        path = tmp_path / "m.json"
        path.write_text(json.dumps(content))
        try:
            read_models(path)
        except CounterplayError as error:
            refused.append(str(error))
    assert len(refused) > 50
    assert max(map(len, refused)) <= 300
    frame = clinics((240, 120, 60))["clinic 2"]
    with pytest.raises(InvalidInputError, match="models of clinic 2 and of at least one other"):
        score_site_models(frame, models()[:2], "y", name="clinic 2")
    with pytest.raises(InvalidInputError, match="fitted with 60 rows, its table now has 59: fit"):
        score_site_models(frame.iloc[1:], models(), "y", name="clinic 2")
    with pytest.raises(InvalidInputError, match="clinic 2 has no column 'ward'"):
        score_site_models(frame.drop(columns="ward"), models(), "y", name="clinic 2")
    with pytest.raises(InvalidInputError, match="a file or what fit_site_models returns, got 5"):
        score_site_models(frame, [*models(), 5], "y", name="clinic 2")
    with pytest.raises(InvalidInputError, match="a file or what describe_site returns, got None"):
        write_measuring_app([None, None], tmp_path / "app")
    with pytest.raises(InvalidInputError, match="metric must be one of"):
        score_site_models(frame, models(), "y", name="clinic 2", metric="f1")


def described(folder: Path) -> tuple[AppPlan, list[Path]]:
    """Tables of three clinics in a folder, and the app of their descriptions."""
    files, told = [], []
    for name, frame in clinics((90, 70)).items():
        files.append(folder / f"{name}.csv")
        frame.to_csv(files[-1], index=False)
        told.append(folder / f"{name}.site.json")
        describe_site(files[-1], "y").to_json(told[-1])
        assert str(frame["age"].iloc[0])[:8] not in told[-1].read_text()
    write_measuring_app(told, folder / "out")
    return read_plan(folder / "out" / "app" / "plan.json"), files


def test_scales_of_descriptions_are_those_of_the_pooled_rows(tmp_path: Path) -> None:
    plan, files = described(tmp_path)
    pooled = pd.concat([pd.read_csv(path) for path in files])
    number = plan.numbers[0]
    assert number.centre == pytest.approx(pooled["age"].mean())
    assert number.scale == pytest.approx(pooled["age"].std(ddof=0))
    assert plan.words[0].words == ["A", "B", "C"]
    assert [site.owned for site in plan.sites] == [90, 70]
    told = [read_description(p) for p in sorted(tmp_path.glob("*.site.json"))]
    with pytest.raises(InvalidInputError, match="must be different"):
        write_measuring_app([told[0], told[0]], tmp_path / "two")
    lacking = describe_site(pd.read_csv(files[1]).drop(columns="ward"), "y", name="x")
    with pytest.raises(InvalidInputError, match="'ward' holds words at only one of"):
        write_measuring_app([told[0], lacking], tmp_path / "two")
    with pytest.raises(InvalidInputError, match="rows must be"):
        write_measuring_app(told, tmp_path / "two", rows={"clinic 0": 91})
    with pytest.raises(InvalidInputError, match="say how the site is called"):
        describe_site(pd.read_csv(files[0]), "y")
    write_measuring_app(told, tmp_path / "two", rows={"clinic 0": 40})
    assert read_plan(tmp_path / "two" / "app" / "plan.json").sites[0].rows == 40


@pytest.mark.claim("23.41")
@pytest.mark.parametrize("labels", [(0, 1), (False, True), ("no", "yes"), (0.5, 2.0)])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_missing_label_costs_its_own_row_only(
    labels: tuple[Any, Any], ending: str, tmp_path: Path
) -> None:
    """A gap turns a column of 0 and 1 into 0.0 and 1.0: those are still the labels of the plan."""
    rng = np.random.default_rng(0)
    told, files, truth = [], [], []
    for name, gaps in (("north", [3, 8]), ("south", [])):
        x = rng.normal(size=40)
        y = pd.Series([labels[int(v > 0)] for v in x], dtype=object)
        y[gaps] = None
        truth.append((x[y.notna()] > 0).astype(int))
        frame = pd.DataFrame({"x": x, "y": y.convert_dtypes()})
        files.append(tmp_path / f"{name}.{ending}")
        frame.to_csv(files[-1], index=False) if ending == "csv" else frame.to_parquet(files[-1])
        told.append(describe_site(files[-1], "y"))
    plan = read_plan(write_measuring_app(told, tmp_path / "out")[-1])
    assert [site.owned for site in plan.sites] == [38, 40]
    assert plan.classes == list(labels)
    for path, own in zip(files, truth):
        X, codes = coded_rows(plan, path)
        assert codes.tolist() == own.tolist()
        assert ((X[:, 0] * plan.numbers[0].scale + plan.numbers[0].centre > 0) == own).all()


@pytest.mark.claim("23.41")
def test_a_federation_measures_what_pooled_fits_measure(tmp_path: Path) -> None:
    """The same rows train and test; the model is the fit on pooled rows, stopped after rounds."""
    pytest.importorskip("flwr")
    from counterplay.contribution.flower import measure_federated, measuring_answer
    from counterplay.federated.flower import InProcessGrid

    plan, files = described(tmp_path)
    rows = [coded_rows(plan, path) for path in files]

    def client(message: Any, context: Any) -> Any:
        site = int(context.node_config["partition-id"])
        return measuring_answer(message, site, rows[site])

    grid = InProcessGrid(client, 2)
    settings: dict[str, Any] = {"budget": 59, "progress": False}
    points = measure_federated(grid, plan, rounds=6, **settings)
    tables = dict(zip((site.name for site in plan.sites), files))
    pooled = measure_sites(tables, label="y", **settings)
    assert (points.rows == pooled.rows).all()
    assert (points.site == pooled.site).all()
    assert (points.ray == pooled.ray).all()
    assert points.held_out is None
    # the constants of the scales differ (all rows, contributed rows), so that few answers flip
    assert np.abs(points.score - pooled.score).mean() < 0.03
    assert not points.axes_only
    plan_ = plan_consortium(points, "within=0.05")
    assert set(plan_.share.basis) == {"modelled"}


@pytest.mark.claim("23.41")
def test_more_rounds_reach_the_pooled_optimum(tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    from counterplay.contribution.flower import _Crew, measuring_answer
    from counterplay.contribution.sites.measuring import Job
    from counterplay.federated.flower import InProcessGrid

    plan, files = described(tmp_path)
    rows = [coded_rows(plan, path) for path in files]
    grid = InProcessGrid(
        lambda m, c: measuring_answer(
            m, int(c.node_config["partition-id"]), rows[int(c.node_config["partition-id"])]
        ),
        2,
    )
    crew = _Crew(grid, plan, "accuracy", 5, 60.0)
    job = Job(2, (1.0, 0.5))
    sizes = {0: training_rows(90, 2, 1.0), 1: training_rows(70, 2, 0.5)}
    w = crew._train(job, sizes, 60)
    train = [split_rows(5, i, len(y), 2, job.shares[i])[0] for i, (_, y) in enumerate(rows)]
    X = np.concatenate([X[t] for (X, _), t in zip(rows, train)])
    y = np.concatenate([y[t] for (_, y), t in zip(rows, train)])
    reference = LogisticRegression(max_iter=2000, tol=1e-10).fit(X, y)
    found = w.reshape(-1)[: 2 * plan.width].reshape(2, plan.width)
    assert found[1] - found[0] == pytest.approx(reference.coef_[0], abs=2e-3)
    short = crew._train(job, sizes, 20)
    assert np.abs(short - w).max() < 0.05


@pytest.mark.claim("23.41")
def test_sites_that_answer_nonsense_spoil_their_fits_only(tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    from flwr.app import Message, MetricRecord, RecordDict

    from counterplay.contribution.flower import measure_federated, measuring_answer
    from counterplay.federated.flower import InProcessGrid, report

    plan, files = described(tmp_path)
    rows = [coded_rows(plan, path) for path in files]
    settings: dict[str, Any] = {"budget": 48, "plans": "share", "rounds": 2, "progress": False}

    def grid(above: float) -> InProcessGrid:
        def client(message: Any, context: Any) -> Any:
            site = int(context.node_config["partition-id"])
            config = message.content["config"]
            if config["task"] != "hello" and site == 1 and config["share"] > above:
                return loud(message, config["task"])
            return measuring_answer(message, site, rows[site])

        return InProcessGrid(client, 2)

    def loud(message: Any, task: str) -> Any:
        if task == "gradient":
            return report(message, loss=np.nan, gradient=[np.full((2, 4), 1e200), np.ones(2)])
        return Message(RecordDict({"metrics": MetricRecord({"score": 7.0})}), reply_to=message)

    points = measure_federated(grid(0.99), plan, **settings)
    assert points.fits == 44  # the largest share on each of four splits is lost
    assert any("clinic 1" in note for note in points.notes)
    assert points.score.max() <= 1.0
    with pytest.raises(ConvergenceError, match="fits failed: fit 1 was spoiled: clinic 1"):
        measure_federated(grid(0.0), plan, **settings)
    other = InProcessGrid(lambda m, c: measuring_answer(m, 0, rows[0]), 2)
    with pytest.raises(InvalidInputError, match="no client answers for clinic 1"):
        measure_federated(other, plan, **settings)
    fewer = [(X[1:], y[1:]) for X, y in rows]
    grown = InProcessGrid(
        lambda m, c: measuring_answer(m, int(c.node_config["partition-id"]), fewer[0]), 2
    )
    with pytest.raises(InvalidInputError, match="has 89 rows, 90 were described"):
        measure_federated(grown, plan, **settings)


@pytest.mark.claim("23.41")
def test_the_written_app_measures_in_a_rehearsal(tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    pytest.importorskip("torch")
    _, files = described(tmp_path)
    data = [word for i, path in enumerate(files) for word in ("--data", f"{i}={path}")]
    source = str(Path(counterplay.__file__).resolve().parents[1])
    command = [sys.executable, str(tmp_path / "out" / "rehearse.py"), "--measure", "--rounds", "3"]
    done = subprocess.run(
        [*command, "--fits", "59", "--points", str(tmp_path / "points.json"), *data],
        capture_output=True, text=True, env={"PYTHONPATH": source, "PATH": "/usr/bin"}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    points = SitePoints.from_json(tmp_path / "points.json")
    assert points.owned.tolist() == [90, 70]
    assert plan_consortium(points, "within=0.05").share.rows.sum() <= 160
