from __future__ import annotations

import subprocess
import sys

import pytest

from counterplay import AREAS
from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.studies import registry


def test_areas_come_in_the_order_of_the_report(sample):
    assert tuple(registry.area_points())[: len(AREAS)] == AREAS
    names = [area.name for area in registry.load_areas()]
    assert names == list(registry.area_points())
    assert names[-1] == "sample"  # found by the entry point of another distribution


def test_selection_by_area_and_study_without_repeats(sample):
    ids = [entry.id for entry in registry.select(["sample/walk", "sample", "sample/walk"])]
    assert ids == ["sample/walk", "sample/fragile"]
    assert registry.load_area("sample").title == "Walks of a drunkard"


@pytest.mark.parametrize(
    ("target", "suggestion"),
    [("sample/wlak", "sample/walk"), ("sampel", "sample"), ("walk", "sample/walk")],
)
def test_mistyped_names_suggest_the_nearest(sample, target: str, suggestion: str):
    with pytest.raises(UnknownNameError, match=f"did you mean '{suggestion}'"):
        registry.select([target])


def test_unknown_area(sample):
    with pytest.raises(UnknownNameError, match="did you mean 'sample'"):
        registry.load_area("simple")


def test_no_area_at_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "GROUP", "ghost.studies")
    assert registry.load_areas() == ()
    with pytest.raises(InvalidInputError, match="no area is installed"):
        registry.select(["ghost"])


def test_an_entry_point_that_is_no_area_is_named(sample, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "GROUP", "broken.studies")
    with pytest.raises(InvalidInputError, match=r"broken = sample_area:math .* is no Area"):
        registry.load_areas()


def test_listing_imports_no_heavy_package():
    code = (
        "import sys; from counterplay import cli; cli.run(['list', '--json']);"
        "heavy = {'torch', 'flwr', 'ray', 'mo_gymnasium', 'matplotlib.pyplot'} & set(sys.modules);"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
