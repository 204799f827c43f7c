"""Which areas and studies there are; an area is imported only when somebody asks for it.

An area takes part as soon as the module ``counterplay.studies.AREA`` exists and defines ``AREA``.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.studies.study import Area, Study

MODULES: dict[str, str] = {
    name: f"counterplay.studies.{name}"
    for name in (
        "strategic",
        "contribution",
        "defection",
        "labeling",
        "principal",
        "elicitation",
        "tradeoff",
        "poisoning",
        "invariance",
    )
}
"""Area name to the module that describes it, in the order of the report."""

EXTRAS: dict[str, tuple[str, ...]] = {
    "convex": ("cvxpy", "clarabel"),
    "data": ("pyarrow", "PIL"),
    "federated": ("torch", "flwr"),
    "gym": ("mo_gymnasium",),
    "river": ("river",),
}
"""Extra to the packages it brings."""


@dataclass(frozen=True)
class RegisteredStudy:
    """A study together with the area it belongs to."""

    area: Area
    study: Study

    @property
    def id(self) -> str:
        """The name used on the command line: ``AREA/NAME``."""
        return f"{self.area.name}/{self.study.name}"


def load_areas() -> tuple[Area, ...]:
    """Return every area that is present, in the order of the report."""
    areas = (_import_area(name) for name in MODULES)
    return tuple(area for area in areas if area is not None)


def load_area(name: str) -> Area:
    """Return the area ``name``; a mistyped name raises and suggests the nearest."""
    area = _import_area(name) if name in MODULES else None
    if area is None:
        raise UnknownNameError.among("area", name, [area.name for area in load_areas()])
    return area


def studies_of(areas: Sequence[Area]) -> list[RegisteredStudy]:
    """Return the studies of ``areas`` in order."""
    return [RegisteredStudy(area, study) for area in areas for study in area.studies]


def select(targets: Sequence[str]) -> list[RegisteredStudy]:
    """Return the studies named by ``targets``, each ``AREA`` or ``AREA/NAME``, without repeats."""
    chosen: dict[str, RegisteredStudy] = {}
    for target in targets:
        for entry in _matching(target):
            chosen.setdefault(entry.id, entry)
    return list(chosen.values())


def split_by_extra(
    entries: Sequence[RegisteredStudy],
) -> tuple[list[RegisteredStudy], list[RegisteredStudy]]:
    """Return the studies that can run here, and those whose extra is not installed."""
    ready = [entry for entry in entries if extra_is_installed(entry.study.extra)]
    return ready, [entry for entry in entries if not extra_is_installed(entry.study.extra)]


def extra_is_installed(extra: str | None) -> bool:
    """Whether the packages of an extra can be imported; nothing is imported.

    Examples
    --------
    >>> extra_is_installed(None)
    True
    """
    if extra is None:
        return True
    if extra not in EXTRAS:
        raise UnknownNameError.among("extra", extra, EXTRAS)
    return all(importlib.util.find_spec(package) is not None for package in EXTRAS[extra])


def _matching(target: str) -> list[RegisteredStudy]:
    area_name, slash, study_name = target.partition("/")
    if area_name in MODULES and (area := _import_area(area_name)) is not None:
        entries = studies_of([area])
        if not slash:
            return entries
        found = [entry for entry in entries if entry.study.name == study_name]
        if found:
            return found
        raise UnknownNameError.among("study", target, [entry.id for entry in entries])
    areas = load_areas()
    if not areas:
        raise InvalidInputError(f"there is no study named {target!r}; no area is installed")
    ids = [entry.id for entry in studies_of(areas)]
    known = ids if slash else [area.name for area in areas] + ids
    raise UnknownNameError.among("study" if slash else "area or study", target, known)


def _import_area(name: str) -> Area | None:
    module_name = MODULES[name]
    if importlib.util.find_spec(module_name) is None:
        return None
    area = getattr(importlib.import_module(module_name), "AREA", None)
    return area if isinstance(area, Area) else None
