"""Areas and studies read from their source, as importing them gives them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from counterplay.studies import registry
from counterplay.studies.outline import AreaOutline, StudyOutline, outlines

sys.path.insert(0, str(Path(__file__).parents[1]))
from scripts import run_python


def test_the_source_says_what_importing_gives() -> None:
    imported = tuple(
        AreaOutline(
            area.name,
            area.title,
            tuple(
                StudyOutline(f"{area.name}/{s.name}", s.title, s.claims, s.full_needs)
                for s in area.studies
            ),
        )
        for area in registry.load_areas()
    )
    assert outlines() == imported


def test_listing_imports_no_area(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom counterplay.studies.outline import outlines\n"
        "assert len(outlines()) >= 9\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('sklearn', 'pandas')])"
    )
    assert run_python(["-c", code], tmp_path, 120).splitlines()[-1] == "[]"


def test_areas_that_compute_their_studies_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "sample"))
    monkeypatch.setattr(registry, "GROUP", "sample.studies")
    (area,) = outlines()
    assert [study.id for study in area.studies] == ["sample/walk", "sample/fragile"]
