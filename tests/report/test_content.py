"""What the report shows: the full results once they are complete."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from counterplay import cli
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


@pytest.mark.parametrize("name", registry.area_points())
def test_the_line_that_a_reader_copies_fits_the_library(name: str):
    area = registry.load_area(name)
    if area.start.startswith("counterplay "):
        command, *words = area.start.split()[1:]
        options = [word for word in words if word.startswith("--")]
        inner = words[:1] if words[0].isalpha() else []
        shown = CliRunner().invoke(cli.app, [command, *inner, "--help"], terminal_width=200).output
        assert all(option in shown for option in options), area.start
        return
    if name == "defection":
        pytest.importorskip("flwr")
    modules = [
        importlib.import_module(f"counterplay.{place}")
        for place in (name, "federated", "federated.flower")
        if place == name or name == "defection"
    ]
    for call in ast.walk(ast.parse(area.start)):
        if isinstance(call, ast.Call):
            function = _called(call.func, modules)
            given = {keyword.arg: None for keyword in call.keywords}
            on_object = isinstance(call.func, ast.Attribute) and isinstance(
                call.func.value, ast.Call
            )
            inspect.signature(function).bind(*[None] * (on_object + len(call.args)), **given)


def _called(node: ast.expr, modules: list[Any]) -> Any:
    """Return the function or class that an expression of a line names."""
    if isinstance(node, ast.Name):
        return next(getattr(m, node.id) for m in modules if hasattr(m, node.id))
    assert isinstance(node, ast.Attribute)
    owner = node.value.func if isinstance(node.value, ast.Call) else node.value
    return getattr(_called(owner, modules), node.attr)
