"""A fingerprint of what a cell depends on, so that results of anything older are recognised.

Four things count: the code of the cell in its own study modules (only what the cell can reach
there, so that a verdict or a figure may change), the whole source of every package of the library
that is imported behind it (area, floors, core), the versions of all other packages these import,
and the checksums of the data files the study names. Comments, docstrings and formatting do not
count.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import counterplay

_SLICED = "counterplay.studies."
_ALWAYS = "counterplay.core"
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def study_fingerprint(cell: Callable[..., Any], data: Sequence[str] = ()) -> str:
    """Return the fingerprint of a cell function together with the data sets it fetches."""
    from counterplay.datasets.fetching import checksum

    digest = hashlib.sha256(code_fingerprint(cell).encode())
    for name in data:
        digest.update(f"\0{name}={checksum(name)}".encode())
    return digest.hexdigest()[:16]


def code_fingerprint(function: Callable[..., Any]) -> str:
    """Return sixteen hex digits that change when the code behind ``function`` changes."""
    bound: list[str] = []
    while isinstance(function, functools.partial):
        arguments = [*enumerate(function.args), *sorted(function.keywords.items())]
        bound += [f"{key}={_argument(value)}" for key, value in arguments]
        function = function.func
    function = getattr(function, "__wrapped__", function)
    module = getattr(function, "__module__", "") or ""
    name = getattr(function, "__qualname__", "")
    reach = _Reach(module)
    if not reach.add_name(module, name):
        reach.add_module(module)
    packages, foreign = _closure(frozenset(reach.packages | {_ALWAYS}))
    parts = [*sorted(reach.parts), *(_package(found)[0] for found in sorted(packages))]
    parts += _versions(reach.foreign | foreign)
    digest = hashlib.sha256(repr((name, bound)).encode())
    for part in parts:
        digest.update(b"\0" + part.encode())
    return digest.hexdigest()[:16]


def _argument(value: Any) -> str:
    return code_fingerprint(value) if callable(value) else repr(value)


class _Reach:
    """Collects what is reachable from one cell: text of study modules, packages behind them."""

    def __init__(self, cell_module: str) -> None:
        self.parts: set[str] = set()
        self.packages: set[str] = set()
        """Packages (or single modules) of the library that are read whole."""
        self.foreign: set[str] = set()
        """Other people's packages."""
        self._cell_module = cell_module
        self._seen: set[tuple[str, str]] = set()

    def add_name(self, module: str, name: str) -> bool:
        """Add the top-level ``name`` of ``module``; False when there is no such name."""
        source = _read(module)
        if source is None or name not in source.names:
            return False
        if (module, name) in self._seen:
            return True
        self._seen.add((module, name))
        for statement in source.names[name]:
            self._add_statement(module, source, statement)
        if (module, "") not in self._seen:
            self._seen.add((module, ""))
            for statement in source.effects:
                self._add_statement(module, source, statement)
        return True

    def add_module(self, module: str) -> None:
        """Add the whole of ``module`` and what it imports."""
        source = _read(module)
        if source is None:
            self.foreign.add(module.partition(".")[0])
            return
        if (module, "*") in self._seen:
            return
        self._seen.add((module, "*"))
        self.parts.add(f"{module}\0{source.text}")
        for found, name in source.imports:
            self._add_import(found, name)

    def _add_statement(self, module: str, source: _Source, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            for found, name in _imported(statement, module, source.is_package):
                self._add_import(found, name)
            return
        self.parts.add(f"{module}\0{ast.unparse(statement)}")
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id in source.names:
                self.add_name(module, node.id)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                for found, name in _imported(node, module, source.is_package):
                    self._add_import(found, name)

    def _add_import(self, module: str, name: str | None) -> None:
        if name is not None and _read(f"{module}.{name}") is not None:
            module, name = f"{module}.{name}", None
        if module.startswith("counterplay") and not module.startswith(_SLICED):
            self.packages.add(_library_package(module))
        elif not (name is not None and self.add_name(module, name)):
            self.add_module(module)


def _library_package(module: str) -> str:
    """The package of the library that ``module`` belongs to: ``counterplay.AREA``."""
    return ".".join(module.split(".")[:2])


@functools.cache
def _closure(packages: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return all packages of the library behind ``packages``, and all foreign ones."""
    found: set[str] = set()
    foreign: set[str] = set()
    todo = set(packages)
    while todo:
        name = todo.pop()
        found.add(name)
        _, own, others = _package(name)
        todo |= own - found
        foreign |= others
    return frozenset(found), frozenset(foreign)


@functools.cache
def _package(name: str) -> tuple[str, frozenset[str], frozenset[str]]:
    """Digest of a package's source, library packages it imports, foreign packages it imports."""
    digest = hashlib.sha256()
    own: set[str] = set()
    foreign: set[str] = set()
    for module in _modules(name):
        source = _read(module)
        assert source is not None
        digest.update(f"{module}\0{source.text}\0".encode())
        for found, _ in source.imports:
            if not found.startswith("counterplay"):
                foreign.add(found.partition(".")[0])
            elif found != "counterplay" and _library_package(found) != name:
                own.add(_library_package(found))
    return f"{name}\0{digest.hexdigest()}", frozenset(own), frozenset(foreign)


def _modules(package: str) -> list[str]:
    path = _path_of(package)
    if path is None:
        return []
    if path.name != "__init__.py":
        return [package]
    files = sorted(path.parent.rglob("*.py"))
    inside = [file.relative_to(path.parent).with_suffix("").parts for file in files]
    return [".".join([package, *parts]).removesuffix(".__init__") for parts in inside]


def _versions(packages: Iterable[str]) -> list[str]:
    """Name and version of every distribution that brings one of ``packages``."""
    providers = _providers()
    names = {name for package in packages for name in providers.get(package, ())}
    return [f"{name}=={importlib.metadata.version(name)}" for name in sorted(names)]


@functools.cache
def _providers() -> dict[str, list[str]]:
    return dict(importlib.metadata.packages_distributions())


class _Source:
    """The parsed top level of one module, without docstrings."""

    def __init__(self, module: str, path: Path) -> None:
        tree = _without_docstrings(ast.parse(path.read_bytes()))
        self.is_package = path.name == "__init__.py"
        self.text = ast.unparse(tree)
        self.names: dict[str, list[ast.stmt]] = {}
        self.effects: list[ast.stmt] = []
        self.imports: set[tuple[str, str | None]] = set()
        for statement in tree.body:
            names = list(_bound_names(statement))
            for name in names:
                self.names.setdefault(name, []).append(statement)
            decorated = isinstance(statement, _Definition) and statement.decorator_list
            if not names or (decorated and names[0].startswith("_")):
                self.effects.append(statement)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.imports.update(_imported(node, module, self.is_package))


@functools.cache
def _read(module: str) -> _Source | None:
    path = _path_of(module)
    return None if path is None else _Source(module, path)


def _path_of(module: str) -> Path | None:
    """Return the source file of ``module`` without importing it; None for other people's code."""
    top, _, rest = module.partition(".")
    if top == "counterplay":
        base = Path(counterplay.__file__).parent.joinpath(*rest.split(".") if rest else ())
        candidates = [base.with_suffix(".py"), base / "__init__.py"]
        return next((path for path in candidates if path.is_file()), None)
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or not file.endswith(".py") or not Path(file).is_file():
        return None
    foreign = {"site-packages", "dist-packages", Path(ast.__file__).parent.name}
    return None if foreign & set(Path(file).parts) else Path(file)


def _imported(
    node: ast.Import | ast.ImportFrom, module: str, is_package: bool
) -> Iterator[tuple[str, str | None]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, None
        return
    base = node.module or ""
    if node.level:
        parents = module.split(".")
        keep = len(parents) - node.level + (1 if is_package else 0)
        base = ".".join([*parents[:keep], *([base] if base else [])])
    for alias in node.names:
        yield base, None if alias.name == "*" else alias.name


def _bound_names(statement: ast.stmt) -> Iterable[str]:
    """Names that a simple top-level statement defines; nothing for one with other effects."""
    if isinstance(statement, _Definition):
        return [statement.name]
    if isinstance(statement, ast.Import):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    if isinstance(statement, ast.ImportFrom):
        return [alias.asname or alias.name for alias in statement.names]
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names if len(names) == len(targets) else []


class _Cleaner(ast.NodeTransformer):
    """Removes docstrings and the version number."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        """Drop a string that stands alone: a docstring, of whatever it documents."""
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node

    def visit_Assign(self, node: ast.Assign) -> ast.Assign | None:
        """Drop ``__version__ = ...``."""
        target = node.targets[0]
        return None if isinstance(target, ast.Name) and target.id == "__version__" else node


def _without_docstrings(tree: ast.Module) -> ast.Module:
    _Cleaner().visit(tree)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and not body and not isinstance(node, ast.Module):
            node.body = [ast.Pass()]  # type: ignore[attr-defined]  # it has the attribute
    return tree
