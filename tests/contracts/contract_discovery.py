"""Finds every public object of the library and the case that belongs to it.

Areas are packages with an `__all__`; their rooms `bounds`, `instances` and `lab` are public as a
whole, and so is every module of `core`. `README.md` tells area engineers what to write.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import counterplay
from counterplay.errors import CounterplayError, MissingDependencyError

FOLDER = Path(__file__).parent
AREAS = (*counterplay.AREAS, "auditing", "federated", "tables", "datasets", "core")
CASE_KEYS = {
    "make", "run", "data", "args", "bad", "check_estimator", "restore", "may_be_negative",
    "may_be_nan", "no_example", "no_frame", "no_case", "no_json", "no_pickle", "no_plot", "mutable",
    "any_result", "odd_rows",
}  # fmt: skip
# Plumbing of core that users never call: a docstring is enough.
PLUMBING = {
    "annotations", "arguments", "audit", "bits", "class_builders", "class_io", "clusters",
    "database", "draws", "export_bodies", "exports", "figures", "files", "play",
    "programs", "progress", "records", "report", "seeds", "session", "setting",
    "threads", "validation", "weights",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Public:
    """One public object, with its case if there is one."""

    area: str
    name: str
    obj: Any = dataclasses.field(repr=False)
    case: Mapping[str, Any] | None = dataclasses.field(default=None, repr=False)
    plumbing: bool = False

    @property
    def id(self) -> str:
        return f"{self.area}.{self.name}"

    @cached_property
    def kind(self) -> str:
        """Estimator, class, abstract, bound, instance, function or value."""
        if typing.get_origin(self.obj) is not None or isinstance(self.obj, typing.TypeVar):
            return "value"
        if inspect.isclass(self.obj):
            return _kind_of_class(self.obj)
        if callable(self.obj):
            room = self.name.split(".")[0] if "." in self.name else ""
            module = (getattr(self.obj, "__module__", "") or "").split(".")
            if room == "bounds" or "bounds" in module:
                return "bound"
            if room == "instances" or "instances" in module:
                return "instance"
            return "function" if hasattr(self.obj, "__name__") else "value"
        return "value"

    def get(self, key: str, default: Any = None) -> Any:
        """Return one entry of the case."""
        return (self.case or {}).get(key, default)


def _kind_of_class(cls: type) -> str:
    from sklearn.base import BaseEstimator

    if issubclass(cls, BaseException):
        return "exception"
    if inspect.isabstract(cls) or getattr(cls, "_is_protocol", False):
        return "abstract"
    if issubclass(cls, BaseEstimator):
        return "estimator"
    return "class"


def discover(area: str) -> list[Public]:
    """Return the public objects of one area, or an empty list if the package does not exist."""
    spec = importlib.util.find_spec(f"counterplay.{area}")
    if spec is None or spec.origin is None:  # a folder without __init__.py is no package
        return []
    cases = load_cases(area)
    found = _without_repeats(area, dict(_public_names(area)))
    entries = [
        Public(area, name, obj, cases.get(name), area == "core" and name.split(".")[0] in PLUMBING)
        for name, obj in sorted(found.items(), key=lambda item: item[0])
    ]
    unknown = sorted(set(cases) - set(found))
    if unknown:
        entries.append(Public(area, "(stale cases)", StaleCases(unknown)))
    return entries


def _without_repeats(area: str, found: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the floors below have, and all but the shortest name of an object."""
    kept: dict[str, Any] = {}
    seen: set[int] = set()
    for name in sorted(found, key=lambda name: (name.count("."), name)):
        obj = found[name]
        if inspect.isclass(obj) or inspect.isroutine(obj):
            home = getattr(obj, "__module__", "") or ""
            below = ("counterplay.core.", "counterplay.federated.")
            floor = below[:1] if area == "federated" else below if area != "core" else ()
            if id(obj) in seen or home.startswith(floor):
                continue
            seen.add(id(obj))
        kept[name] = obj
    return kept


class StaleCases:
    """Marks cases whose name is not public any more."""

    def __init__(self, names: list[str]) -> None:
        self.names = names


def load_cases(area: str) -> dict[str, dict[str, Any]]:
    """Return ``CASES`` of ``cases_AREA.py``, or nothing if the file does not exist."""
    path = FOLDER / f"cases_{area}.py"
    if not path.exists():
        return {}
    cases: dict[str, dict[str, Any]] = importlib.import_module(path.stem).CASES
    for key, case in cases.items():
        strange = set(case) - CASE_KEYS
        if strange:
            raise TypeError(f"{path.name}: case {key!r} has unknown keys {sorted(strange)}")
    return cases


def _public_names(area: str) -> Iterator[tuple[str, Any]]:
    package = importlib.import_module(f"counterplay.{area}")
    if area == "core":
        for info in sorted(_submodules(package)):
            module = importlib.import_module(f"counterplay.core.{info}")
            yield from ((f"{info}.{name}", obj) for name, obj in _members(module))
        return
    for name in package.__all__:
        obj = _get(package, name)
        if isinstance(obj, types.ModuleType):
            room = "" if name == "lab" else f"{name}."
            yield from ((f"{room}{inner}", value) for inner, value in _members(obj))
        else:
            yield name, obj
    for room in ("bounds", "instances"):
        if room not in package.__all__ and importlib.util.find_spec(f"{package.__name__}.{room}"):
            module = importlib.import_module(f"{package.__name__}.{room}")
            yield from ((f"{room}.{name}", obj) for name, obj in _members(module))


def _submodules(package: types.ModuleType) -> list[str]:
    names = []
    for folder in package.__path__:
        for path in Path(folder).iterdir():
            if path.name.startswith("_"):
                continue
            if path.suffix == ".py" or (path / "__init__.py").exists():
                names.append(path.stem)
    return names


def _members(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield what a module defines itself, or what its ``__all__`` names."""
    if hasattr(module, "__all__"):
        yield from ((name, _get(module, name)) for name in module.__all__)
        return
    for name, obj in vars(module).items():
        if name.startswith("_") or isinstance(obj, types.ModuleType):
            continue
        home = getattr(obj, "__module__", None) or ""
        if (inspect.isclass(obj) or callable(obj)) and home.startswith(module.__name__):
            yield name, obj


def _get(module: types.ModuleType, name: str) -> Any:
    try:
        return getattr(module, name)
    except MissingDependencyError as error:
        return Unavailable(str(error))


@dataclasses.dataclass(frozen=True)
class Unavailable:
    """A public name whose optional package is not installed; its checks are skipped."""

    reason: str


def make(entry: Public) -> Any:
    factory = entry.get("make")
    assert factory is not None, (
        f'the case of {entry.id} lacks "make": add a zero-argument factory that returns an instance'
    )
    return factory()


def arguments(entry: Public) -> dict[str, Any]:
    given = entry.get("args")
    assert given is not None, (
        f'the case of {entry.id} lacks "args": add a dict of valid keyword arguments, '
        f"or a zero-argument function that returns one"
    )
    return dict(given() if callable(given) else given)


def data(entry: Public) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    given = entry.get("data")
    if given is None:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(40, 3))
        return x, (x[:, 0] + 0.3 * x[:, 1] > 0).astype(int), {}
    x, y, *rest = given()
    return np.asarray(x), np.asarray(y), dict(rest[0]) if rest else {}


def assert_rejected(
    call: Callable[[], Any],
    where: str,
    *,
    allowed: type[Exception] = CounterplayError,
    hint: str = "",
) -> None:
    """Fail unless ``call`` raises an ``allowed`` exception with a message."""
    try:
        result = call()
    except allowed as error:
        message = str(error).strip()
    except Exception as error:
        raise AssertionError(
            f"{where}: raised {type(error).__name__} ({error}) instead of an exception from "
            f"counterplay.errors"
        ) from error
    else:
        raise AssertionError(f"{where}: accepted, and returned {type(result).__name__}{hint}")
    assert message, f"{where}: the error has no message"
