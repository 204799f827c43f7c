from __future__ import annotations

import dataclasses
import importlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplay.core import clusters
from counterplay.core.seeds import derive_seed
from counterplay.errors import InvalidInputError, MissingDependencyError, StoreError
from counterplay.studies import backends, plan
from counterplay.studies.backends import WorkerError
from counterplay.studies.execute import Task, execute
from counterplay.studies.registry import RegisteredStudy
from counterplay.studies.runner import CellError, run_studies
from counterplay.studies.store import Store


def changed(entry: RegisteredStudy, **fields: Any) -> RegisteredStudy:
    return dataclasses.replace(entry, study=dataclasses.replace(entry.study, **fields))


def test_only_missing_cells_are_computed(tmp_path: Path, sample):
    with Store(tmp_path / "s.sqlite") as store:
        first = run_studies([sample["walk"]], store, jobs=1, progress=False)
        again = run_studies([sample["walk"]], store, jobs=1, progress=False)
        full = run_studies([sample["walk"]], store, scale="full", jobs=1, progress=False)
        other = run_studies([sample["walk"]], store, seed=1, jobs=1, progress=False)
        seeds = {row.seed for row in store.rows()}
    assert first.computed == {"sample/walk": 12}
    assert again.computed == {"sample/walk": 0}
    assert again.reused == {"sample/walk": 12}
    assert full.computed == {"sample/walk": 12}  # the quick cells are part of the full grid
    assert other.computed == {"sample/walk": 12}
    assert len(seeds) == 36
    assert derive_seed("sample/walk", {"steps": 16, "replicate": 0}, 1) in seeds


def test_a_failing_cell_is_named_and_the_others_are_kept(tmp_path: Path, sample):
    with Store(tmp_path / "s.sqlite") as store:
        with pytest.raises(CellError, match=r"cell sample/fragile\(x=2\) failed: Zero") as caught:
            run_studies([sample["fragile"]], store, jobs=1, progress=False)
        assert [row.params for row in store.rows()] == ['{"x":1}', '{"x":4}']
        assert caught.value.exit_code == 1
        assert "fragile_cell" in caught.value.trace
        with pytest.raises(CellError, match="there is no file three") as caught:
            run_studies([sample["fragile"]], store, scale="full", jobs=1, progress=False)
        assert caught.value.exit_code == 2
        assert caught.value.trace == ""


def test_other_code_is_detected_and_fresh_recomputes(tmp_path: Path, sample):
    entry = sample["walk"]
    with Store(tmp_path / "s.sqlite") as store:
        run_studies([entry], store, jobs=1, progress=False)
        newer = changed(entry, version=2)
        with pytest.raises(StoreError, match=r"holds 12 cells of sample/walk .* --refresh"):
            run_studies([newer], store, jobs=1, progress=False)
        assert all(row.version == 1 for row in store.rows())
        assert run_studies([newer], store, jobs=1, fresh=True, progress=False).computed == {
            "sample/walk": 12
        }
        assert all(row.version == 2 for row in store.rows())


def test_refresh_recomputes_only_what_other_code_computed(tmp_path: Path, sample):
    entry = sample["walk"]
    with Store(tmp_path / "s.sqlite") as store:
        run_studies([entry], store, jobs=1, progress=False)
        again = run_studies([entry], store, jobs=1, refresh=True, progress=False)
        assert again.computed == {"sample/walk": 0}
        newer = changed(entry, version=2)
        summary = run_studies([newer], store, jobs=1, refresh=True, progress=False)
        assert summary.computed == {"sample/walk": 12}
        assert all(row.version == 2 for row in store.rows())


def test_an_edited_cell_is_detected(tmp_path: Path, sample, monkeypatch: pytest.MonkeyPatch):
    with Store(tmp_path / "s.sqlite") as store:
        run_studies([sample["walk"]], store, jobs=1, progress=False)
        monkeypatch.setattr(plan, "study_fingerprint", lambda cell, data: "edited")
        with pytest.raises(StoreError, match="computed by an earlier version"):
            run_studies([sample["walk"]], store, jobs=1, progress=False)


def same(params, seed):
    return {"x": 1}


def nested(params, seed):
    return {"y": [1, 2]}


def careless(params, seed):
    rng = np.random.mtrand._rand
    return {"a": rng.random_sample(), "b": random.random(), "threads": threads()}


def threads() -> int:
    from threadpoolctl import threadpool_info

    return max(library["num_threads"] for library in threadpool_info())


def test_bad_records_are_refused():
    task = Task(0, "s/n(x=1)", same, {"x": 1}, 0)
    outcome = execute(task)
    assert outcome.record is None
    assert "repeats the parameter 'x'" in outcome.failure.message
    outcome = execute(dataclasses.replace(task, function=nested))
    assert "the record of s/n(x=1), key 'y': list cannot be stored" in outcome.failure.message


def test_careless_code_is_pinned_down_and_leaves_no_trace():
    before = random.getstate(), np.random.mtrand._rand.get_state()[1].tolist()
    first = execute(Task(0, "s", careless, {}, 5)).record
    second = execute(Task(0, "s", careless, {}, 5)).record
    assert first == second
    assert first != execute(Task(0, "s", careless, {}, 6)).record
    assert first["threads"] == 1
    assert (random.getstate(), np.random.mtrand._rand.get_state()[1].tolist()) == before


def test_a_worker_with_other_code_refuses():
    outcome = execute(Task(0, "s", careless, {}, 5, fingerprint="0" * 16))
    assert "runs other code than this program" in outcome.failure.message


def test_grid_with_repeated_parameters(tmp_path: Path, sample):
    twice = changed(sample["walk"], grid=lambda scale: [{"steps": 4}] * 2)
    with (
        Store(tmp_path / "s.sqlite") as store,
        pytest.raises(InvalidInputError, match="twice; tell replicates apart"),
    ):
        run_studies([twice], store, progress=False)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"jobs": 0}, "jobs"),
        ({"seed": -1}, "seed"),
        ({"scale": "huge"}, "scale"),
        ({"backend": "dask"}, "backend"),
        ({"address": "here:1"}, "add --backend ray"),
    ],
)
def test_bad_options(tmp_path: Path, sample, option, message: str):
    with (
        Store(tmp_path / "s.sqlite") as store,
        pytest.raises(InvalidInputError, match=message),
    ):
        run_studies([sample["walk"]], store, **{"progress": False, **option})


def test_without_ray_the_extra_is_named(tmp_path: Path, sample, monkeypatch: pytest.MonkeyPatch):
    real = importlib.import_module

    def no_ray(name: str, package: str | None = None) -> Any:
        if name == "ray":
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(clusters.importlib, "import_module", no_ray)
    with (
        Store(tmp_path / "s.sqlite") as store,
        pytest.raises(MissingDependencyError, match=r"counterplay\[ray\]"),
    ):
        run_studies([sample["walk"]], store, backend="ray", progress=False)


def test_a_dying_worker_is_reported(sample):
    sample_cell = importlib.import_module("sample_area").dying_cell
    tasks = [Task(i, "s", sample_cell, {"i": i}, 0) for i in range(2)]
    with pytest.raises(WorkerError, match="a worker process died"):
        list(backends.outcomes(tasks, jobs=2, backend="joblib", address=None))
