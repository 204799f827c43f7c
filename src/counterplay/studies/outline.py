"""Names and titles of areas and studies, read from their source without importing them.

An area whose source does not spell them out (a third party may compute them) is imported instead.
"""

from __future__ import annotations

import ast
import importlib.util
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from counterplay.studies.registry import area_points, load_area


@dataclass(frozen=True)
class StudyOutline:
    """What a list of studies shows of one."""

    id: str
    title: str
    claims: tuple[str, ...]
    full_needs: str | None


@dataclass(frozen=True)
class AreaOutline:
    """What a list of studies shows of an area."""

    name: str
    title: str
    studies: tuple[StudyOutline, ...]


def outlines() -> tuple[AreaOutline, ...]:
    """Return every area that is installed, in the order of the report.

    Examples
    --------
    >>> [area.name for area in outlines()][:2]
    ['strategic', 'contribution']
    """
    return tuple(outline(point) for point in area_points().values())


def outline(point: EntryPoint) -> AreaOutline:
    """Return the area of an entry point."""
    try:
        (area,) = _calls(ast.Name(point.attr), point.module, "Area")
        said = {word.arg: word.value for word in area.keywords}
        name, title = ast.literal_eval(said["name"]), ast.literal_eval(said["title"])
        studies = _calls(said["studies"], point.module, "Study")
        return AreaOutline(name, title, tuple(_study(name, call) for call in studies))
    except (LookupError, ValueError, TypeError, OSError, SyntaxError):
        whole = load_area(point.name)
        return AreaOutline(
            whole.name,
            whole.title,
            tuple(
                StudyOutline(f"{whole.name}/{s.name}", s.title, s.claims, s.full_needs)
                for s in whole.studies
            ),
        )


def _study(area: str, call: ast.Call) -> StudyOutline:
    said: dict[str, Any] = {
        word.arg: ast.literal_eval(word.value)
        for word in call.keywords
        if word.arg in ("name", "title", "claims", "full_needs")
    }
    return StudyOutline(
        f"{area}/{said['name']}", said["title"], tuple(said["claims"]), said.get("full_needs")
    )


def _calls(node: ast.expr, module: str, kind: str) -> list[ast.Call]:
    """Return the calls of ``kind`` that an expression of a module stands for, in order."""
    match node:
        case ast.Call(func=ast.Name(name), args=[]) if name == kind:
            return [node]
        case ast.Tuple(items) | ast.List(items):
            return [call for item in items for call in _calls(item, module, kind)]
        case ast.BinOp(left, ast.Add(), right):
            return _calls(left, module, kind) + _calls(right, module, kind)
        case ast.Starred(inner):
            return _calls(inner, module, kind)
        case ast.Name(name):
            return _named(name, module, kind)
        case ast.Attribute(ast.Name(owner), name):
            return _named(name, ".".join(_imports(module)[owner]), kind)
    raise LookupError(f"{module} does not spell out {ast.unparse(node)}")


def _named(name: str, module: str, kind: str) -> list[ast.Call]:
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and name in [ast.unparse(t) for t in node.targets]:
            return _calls(node.value, module, kind)
    origin, original = _imports(module)[name]
    return _named(original, origin, kind)


def _imports(module: str) -> dict[str, tuple[str, str]]:
    """Return where the names come from that a module imports: module and name there."""
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in _tree(module).body
        if isinstance(node, ast.ImportFrom) and not node.level
        for alias in node.names
    }


@cache
def _tree(module: str) -> ast.Module:
    """Parse a module; only its top package is looked up, because finding a module imports those
    above it."""
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        raise LookupError(f"{module} has no source")
    path = Path(spec.origin)
    if rest:
        path = path.parent.joinpath(*rest)
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))
