"""Every package that is imported is declared, and every package that is declared is imported."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache

from .scripts import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
FOR_US = ("docs", "dev", "all")
MODULES = {
    "argon2-cffi": "argon2",
    "mkdocs-material": "material",
    "pillow": "PIL",
    "scikit-learn": "sklearn",
}
"""What a package is imported as, where a hyphen in its name is not simply an underscore."""
WITHOUT_IMPORT = {
    "httptools": "uvicorn takes it where it is installed",
    "import-linter": "lint-imports", "mypy": "a command", "ruff": "a command",
    "pytest-cov": "a plugin", "pytest-xdist": "a plugin",
}  # fmt: skip
OPTIONAL = {"IPython", "mpmath", "modAL"}
"""Tests that compare with these are skipped where they are not installed."""
_BY_NAME = re.compile(r"[\w.]*import(?:_module|orskip)\('(\w+)")
_SEEN = re.compile(
    r"(?:^\s*(?:import|from)\s+|(?:import_module|importorskip)\(\s*[\"'])(\w+)", re.MULTILINE
)


def declared(requirements: Iterable[str]) -> set[str]:
    """Names of the packages of these requirements; extras of our own count by themselves."""
    names = {re.match(r"[A-Za-z0-9._-]+", text)[0].lower() for text in requirements}
    return names - {"counterplay"}


def modules(packages: Iterable[str]) -> set[str]:
    return {MODULES.get(name, name.replace("-", "_")) for name in packages}


@cache
def imported(*folders: str) -> dict[str, str]:
    """Packages that the files below import, anywhere in them, with one file that does.

    A file is parsed when a line of it seems to import a package that is not found yet.
    """
    found: dict[str, str] = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if set(_SEEN.findall(text)) - sys.stdlib_module_names - found.keys():
                here = str(path.relative_to(ROOT))
                found = {**dict.fromkeys(names_in(text), here), **found}
    return {name: path for name, path in found.items() if name not in sys.stdlib_module_names}


def names_in(text: str) -> Iterator[str]:
    """The top-level packages that a program imports, by statement or by a name in quotes."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Call) and (called := _BY_NAME.match(ast.unparse(node))):
            yield called[1]


def own(*folders: str) -> set[str]:
    """Modules and folders that are ours, and what examples and tests have beside them."""
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    return {path.stem for path in paths if path.suffix == ".py" or path.is_dir()}


def test_imports_are_found_wherever_they_stand() -> None:
    text = (
        "import a.b\nfrom . import c\ndef f():\n    from d.e import g\n    import_module('h.i')\n"
    )
    assert list(names_in(text)) == ["a", "d", "h"]


def test_what_the_package_imports_is_in_the_base_or_an_extra() -> None:
    extras = [name for extra, names in EXTRAS.items() if extra not in FOR_US for name in names]
    known = modules(declared([*PROJECT["project"]["dependencies"], *extras]))
    found = imported("src")
    assert {name: found[name] for name in found.keys() - known - {"counterplay"}} == {}


def test_what_tests_examples_and_pages_import_is_in_an_extra() -> None:
    extras = [name for names in EXTRAS.values() for name in names]
    builds = PROJECT["build-system"]["requires"]
    known = modules(declared([*PROJECT["project"]["dependencies"], *extras, *builds]))
    folders = ("tests", "examples", "docs", "tools")
    found = imported(*folders)
    written = {"a_package_that_is_not_there", "cells_to_print"}  # by tests
    ours = {"counterplay", "tests"} | own(*folders, "benchmarks") | written
    assert {name: found[name] for name in found.keys() - known - ours - OPTIONAL} == {}


def test_no_package_is_declared_for_nothing() -> None:
    extras = [name for names in EXTRAS.values() for name in names]
    names = declared([*PROJECT["project"]["dependencies"], *extras])
    used = imported("src", "tests", "examples", "docs", "tools")
    assert {name for name in names if not modules([name]) & used.keys()} == set(WITHOUT_IMPORT)


def test_all_holds_every_extra_of_users() -> None:
    (own_extras,) = EXTRAS["all"]
    assert set(own_extras[len("counterplay[") : -1].split(",")) == EXTRAS.keys() - set(FOR_US)


def test_the_guide_explains_every_extra_of_users() -> None:
    text = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([a-z]+)` \|", text, flags=re.MULTILINE)
    assert sorted(named) == sorted(EXTRAS.keys() - {"docs", "dev"})
