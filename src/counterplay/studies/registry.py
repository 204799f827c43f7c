"""Which areas and studies there are; an area is imported only when somebody asks for it.

An area takes part by an entry point of the group ``counterplay.studies``: its name is the name of
the area, its value the :class:`~counterplay.studies.study.Area`, such as ``my_package.study:AREA``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

import counterplay
from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.studies.study import Area, Scale, Study

GROUP = "counterplay.studies"
"""Entry-point group through which areas take part, those of the library included."""

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
    """Return every area that is installed, in the order of the report."""
    return tuple(_load(found) for found in area_points().values())


def load_area(name: str) -> Area:
    """Return the area ``name``; a mistyped name raises and suggests the nearest."""
    points = area_points()
    if name not in points:
        raise UnknownNameError.among("area", name, points)
    return _load(points[name])


def area_points() -> dict[str, EntryPoint]:
    """Return the entry points of all areas by name: the library's own in order, then others."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    own = [name for name in counterplay.AREAS if name in found]
    return {name: found[name] for name in (*own, *sorted(found.keys() - set(own)))}


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


def what_is_missing(study: Study, scale: Scale) -> str | None:
    """Say what a study lacks here before any of its cells can run; None if it is ready."""
    wanted = (study.extra, study.full_extra if scale == "full" else None)
    for extra in wanted:
        if not extra_is_installed(extra):
            return f"an extra: pip install 'counterplay[{extra}]'"
    if scale == "full" and study.full_needs:
        from counterplay.datasets.fetching import checksum

        for name in study.data:
            if checksum(name) is None:
                return (
                    f"the data set {name!r}: set COUNTERPLAY_DATA to its folder, or fetch it in "
                    f"Python with counterplay.datasets.fetch({name!r})"
                )
    return None


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
    points = area_points()
    if not points:
        raise InvalidInputError(f"there is no study named {target!r}; no area is installed")
    if area_name in points:
        entries = studies_of([_load(points[area_name])])
        found = [entry for entry in entries if not slash or entry.study.name == study_name]
        if found:
            return found
        raise UnknownNameError.among("study", target, [entry.id for entry in entries])
    ids = [entry.id for entry in studies_of(load_areas())]
    known = ids if slash else [*points, *ids]
    raise UnknownNameError.among("study" if slash else "area or study", target, known)


def _load(point: EntryPoint) -> Area:
    area = point.load()
    if not isinstance(area, Area):
        raise InvalidInputError(
            f"the entry point {point.name} = {point.value} of {GROUP} is no Area but "
            f"{type(area).__name__}"
        )
    return area
