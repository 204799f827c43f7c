"""What the report shows: the full results once they are complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterplay.report import build_report
from counterplay.studies import registry
from counterplay.studies.runner import run_studies
from counterplay.studies.store import Store

SAMPLE = Path(__file__).parents[1] / "studies" / "sample"


def test_full_results_are_shown_once_they_are_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(str(SAMPLE))
    monkeypatch.setattr(registry, "GROUP", "sample.studies")
    entries = registry.select(["sample/walk"])
    with Store(tmp_path / "s.sqlite") as store:
        run_studies(entries, store, jobs=1, scale="full", progress=False)
        shown = build_report(entries, store).areas[0].results[0]
        quick = build_report(entries, store, scale="quick").areas[0].results[0]
        monkeypatch.setattr(
            "counterplay.studies.plan.study_fingerprint", lambda cell, data: "edited"
        )
        (stale,) = build_report(entries, store).missing
    assert (shown.scale, len(shown.frame)) == ("full", 24)
    assert shown.command == "counterplay run sample/walk --scale full"
    assert (quick.scale, len(quick.frame)) == ("quick", 12)
    assert len(stale.incomplete.stale) == 12


def test_every_area_says_what_goes_wrong_and_what_to_do():
    for area in registry.load_areas():
        assert area.harm, area.name
        assert area.remedy, area.name
        assert area.start, area.name
        study, figure = area.picture.split("/")
        (found,) = (s for s in area.studies if s.name == study)
        assert figure in found.figures, area.picture
