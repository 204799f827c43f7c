"""What every study of every area must satisfy; new areas are covered as they appear."""

from __future__ import annotations

import pickle
import re

import pytest

from counterplay.claims import load_claims
from counterplay.studies import registry
from counterplay.studies.plan import plan_cells
from counterplay.studies.registry import RegisteredStudy
from counterplay.studies.results import StudyResult, load_result, render_figures
from counterplay.studies.runner import run_studies
from counterplay.studies.store import Store

AREAS = registry.load_areas()
STUDIES = registry.studies_of(AREAS)
every_study = pytest.mark.parametrize("entry", STUDIES, ids=lambda entry: entry.id)


@pytest.mark.parametrize("area", AREAS, ids=lambda area: area.name)
def test_area_is_complete(area):
    assert area.name in registry.area_points()
    assert area.title
    assert len(area.story) > 100
    names = [study.name for study in area.studies]
    assert names
    assert len(names) == len(set(names))


@every_study
def test_study_is_well_formed(entry: RegisteredStudy):
    study = entry.study
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", study.name)
    assert study.title
    assert study.question
    assert study.figures
    assert all(re.fullmatch(r"[a-z0-9]+([-_][a-z0-9]+)*", name) for name in study.figures)
    assert pickle.loads(pickle.dumps(study.cell)) is study.cell  # a module-level function
    known = {claim.id for claim in load_claims() if claim.area == entry.area.name}
    assert set(study.claims) <= known, set(study.claims) - known


@every_study
@pytest.mark.parametrize("scale", ["quick", "full"])
def test_grid_is_the_same_every_time(entry: RegisteredStudy, scale):
    cells = plan_cells(entry, scale, 0)
    assert cells
    assert cells == plan_cells(entry, scale, 0)


@pytest.mark.slow
@every_study
def test_quick_verdicts_hold(entry: RegisteredStudy, tmp_path):
    with Store(tmp_path / "studies.sqlite") as store:
        run_studies([entry], store, progress=False)
        result = load_result(entry, store)
    assert isinstance(result, StudyResult)
    assert result.verdicts
    assert {verdict.claim for verdict in result.verdicts} <= set(entry.study.claims)
    assert all(verdict.holds for verdict in result.verdicts), result.verdicts
    (figures,) = render_figures([result])
    assert len(figures) == len(entry.study.figures)
