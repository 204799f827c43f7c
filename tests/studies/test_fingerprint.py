from __future__ import annotations

import functools
import importlib
import importlib.metadata
import sys
from pathlib import Path
from types import ModuleType

import pytest

from counterplay.studies import fingerprint
from counterplay.studies.fingerprint import code_fingerprint, study_fingerprint

SOURCE = '''
"""A module."""
import math
from counterplay.core.stats import mean_interval
from helper_of_cells import helped
FACTOR = 2
UNUSED = 5

def helper(x):
    return FACTOR * x

def cell(params, seed):
    """Compute."""
    return {"y": helper(seed), "z": helped(seed)}

def figure(frame):
    return frame.plot()

def make():
    def inner(params, seed):
        return {"y": 1}
    return inner
'''
HELPER = "def helped(x):\n    return x\n"


class Workshop:
    """Writes a module, imports it, and asks for the fingerprint of its cell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def module(self, source: str = SOURCE, helper: str = HELPER) -> ModuleType:
        (self.folder / "cells_to_print.py").write_text(source)
        (self.folder / "helper_of_cells.py").write_text(helper)
        for name in ("cells_to_print", "helper_of_cells"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        fingerprint._read.cache_clear()
        return importlib.import_module("cells_to_print")

    def print_of(self, source: str = SOURCE, helper: str = HELPER) -> str:
        return code_fingerprint(self.module(source, helper).cell)


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield Workshop(tmp_path)
    for name in ("cells_to_print", "helper_of_cells"):
        sys.modules.pop(name, None)
    fingerprint._read.cache_clear()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("helper(seed)", "helper(seed + 1)"),  # the cell
        ("FACTOR * x", "FACTOR + x"),  # what it calls
        ("FACTOR = 2", "FACTOR = 3"),  # what that reads
        ("UNUSED = 5", "math.tau; FACTOR += 1"),  # a statement with an effect
    ],
)
def test_a_change_the_cell_can_see_changes_it(workshop: Workshop, old: str, new: str):
    assert workshop.print_of(SOURCE.replace(old, new)) != workshop.print_of()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("frame.plot()", "frame.plot(1)"),  # a figure
        ("UNUSED = 5", "UNUSED = 6"),
        ('"""Compute."""', '"""Compute it."""'),
        ('"""A module."""', "# a comment"),
        ('{"y": helper(seed), ', '{\n        "y": helper( seed ),'),
    ],
)
def test_a_change_the_cell_cannot_see_does_not(workshop: Workshop, old: str, new: str):
    assert old in SOURCE
    assert workshop.print_of(SOURCE.replace(old, new)) == workshop.print_of()


def test_a_change_in_an_imported_module_changes_it(workshop: Workshop):
    assert workshop.print_of(helper=HELPER.replace("return x", "return -x")) != workshop.print_of()


def test_library_packages_behind_the_imports_count_whole(workshop: Workshop):
    with_stats = SOURCE.replace("helper(seed)", "mean_interval([seed])")
    reach = fingerprint._Reach("cells_to_print")
    module = workshop.module(with_stats)
    assert reach.add_name(module.__name__, "cell")
    assert reach.packages == {"counterplay.core"}
    assert {part.partition("\0")[0] for part in reach.parts} == {
        "cells_to_print",
        "helper_of_cells",
    }
    packages, foreign = fingerprint._closure(frozenset({"counterplay.tradeoff"}))
    assert {"counterplay.tradeoff", "counterplay.core", "counterplay.errors"} <= packages
    assert "counterplay.strategic" not in packages
    assert {"numpy", "scipy"} <= foreign


def test_versions_of_other_packages_count(workshop: Workshop, monkeypatch: pytest.MonkeyPatch):
    before = workshop.print_of()
    known = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "99" if name == "scipy" else known(name)
    )
    assert workshop.print_of() != before


def test_data_files_count(workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cell = workshop.module().cell
    monkeypatch.setattr("counterplay.datasets.sources.cache_folder", lambda: tmp_path / "no cache")
    monkeypatch.setenv("COUNTERPLAY_DATA", str(tmp_path))
    prints = [study_fingerprint(cell, ("german_credit",))]
    for content in (b"one", b"two"):
        (tmp_path / "german_credit.parquet").write_bytes(content)
        prints.append(study_fingerprint(cell, ("german_credit",)))
    assert len(set(prints)) == 3
    assert study_fingerprint(cell) not in prints


def test_version_number_does_not_count(tmp_path: Path):
    prints = []
    for version in ("0.1.0", "0.2.0"):
        path = tmp_path / "__init__.py"
        path.write_text(f'"""Text."""\n__version__ = "{version}"\nx = 1\n')
        prints.append(fingerprint._Source("counterplay", path).text)
    assert prints == ["x = 1"] * 2


def test_partial_arguments_count_and_nested_functions_read_the_whole_module(workshop: Workshop):
    cell = workshop.module().cell
    assert code_fingerprint(functools.partial(cell, a=1)) != code_fingerprint(
        functools.partial(cell, a=2)
    )
    assert code_fingerprint(functools.partial(cell, a=len)) == code_fingerprint(
        functools.partial(cell, a=len)
    )
    before = code_fingerprint(workshop.module().make())
    after = code_fingerprint(workshop.module(SOURCE.replace("UNUSED = 5", "UNUSED = 6")).make())
    assert before != after
