"""What the report says: for every area its claims, its studies, their verdicts and figures."""

from __future__ import annotations

import inspect
import struct
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from counterplay.claims import Claim, load_claims
from counterplay.studies.provenance import Provenance, current_provenance
from counterplay.studies.registry import RegisteredStudy
from counterplay.studies.results import (
    FigureFiles,
    Incomplete,
    StudyResult,
    load_result,
    render_figures,
)
from counterplay.studies.store import Store
from counterplay.studies.study import Area, Scale


@dataclass(frozen=True)
class PageFigure:
    """One figure as it stands on the page."""

    files: FigureFiles
    caption: str

    @property
    def source(self) -> str:
        """The smaller of the two renderings as a data URI; as an image, an SVG cannot run code."""
        vector = len(self.files.svg) <= len(self.files.png)
        kind, data = ("svg+xml", self.files.svg) if vector else ("png", self.files.png)
        return f"data:image/{kind};base64,{b64encode(data).decode('ascii')}"

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in CSS pixels: the PNG has 150 dots per inch, a page 100."""
        width, height = struct.unpack(">II", self.files.png[16:24])
        return round(width / 1.5), round(height / 1.5)

    @property
    def is_wide(self) -> bool:
        """Whether the figure has panels side by side and needs the whole width."""
        width, height = self.size
        return width > 1.8 * height


@dataclass(frozen=True)
class StudySection:
    """One study: its result with figures, or why there is none."""

    entry: RegisteredStudy
    result: StudyResult | None
    figures: tuple[PageFigure, ...] = ()
    incomplete: Incomplete | None = None

    @property
    def anchor(self) -> str:
        """Identifier of the section in the page."""
        return f"{self.entry.area.name}-{self.entry.study.name}"


@dataclass(frozen=True)
class AreaSection:
    """One area: its claims and studies."""

    area: Area
    claims: tuple[Claim, ...]
    studies: tuple[StudySection, ...]

    @property
    def results(self) -> list[StudyResult]:
        """The studies that are complete."""
        return [section.result for section in self.studies if section.result is not None]

    @property
    def holds(self) -> int:
        """How many verdicts hold."""
        return sum(bool(verdict.holds) for result in self.results for verdict in result.verdicts)

    @property
    def fails(self) -> int:
        """How many verdicts fail."""
        return sum(v.holds is False for result in self.results for v in result.verdicts)

    @property
    def picture(self) -> PageFigure | None:
        """The figure that shows what goes wrong; None if its study has no result yet."""
        study, _, name = self.area.picture.partition("/")
        for section in self.studies:
            if section.entry.study.name == study:
                return next((f for f in section.figures if f.files.name == name), None)
        return None

    @property
    def picture_anchor(self) -> str:
        """Where on the page the study of the picture is."""
        return f"{self.area.name}-{self.area.picture.partition('/')[0]}"

    @property
    def wall_time(self) -> float:
        """Seconds of computing behind the area."""
        return sum(result.wall_time for result in self.results)


@dataclass(frozen=True)
class Report:
    """Everything on the page."""

    areas: tuple[AreaSection, ...]
    origin: Provenance

    @property
    def holds(self) -> int:
        """How many verdicts hold."""
        return sum(section.holds for section in self.areas)

    @property
    def fails(self) -> int:
        """How many verdicts fail."""
        return sum(section.fails for section in self.areas)

    @property
    def missing(self) -> list[StudySection]:
        """The studies without a complete result."""
        return [s for section in self.areas for s in section.studies if s.result is None]


def build_report(
    entries: Sequence[RegisteredStudy],
    store: Store,
    *,
    scale: Scale | None = None,
    seed: int = 0,
    jobs: int = 1,
    on_study: Callable[[], object] = lambda: None,
) -> Report:
    """Collect the stored results of ``entries``.

    Parameters
    ----------
    entries:
        Studies from :func:`counterplay.studies.registry.select`, in the order of the page.
    store:
        Where the cells are.
    scale:
        Which scale to show; None shows the full one where it is complete, else the quick one.
    seed:
        Base seed of the run to show.
    jobs:
        Worker processes that draw figures.
    on_study:
        Called whenever a study is done.
    """
    found = [_load(entry, store, scale, seed) for entry in entries]
    drawn = render_figures([result for result in found if isinstance(result, StudyResult)], jobs)
    sections: dict[str, list[StudySection]] = {}
    areas: dict[str, Area] = {}
    for entry, result in zip(entries, found):
        areas[entry.area.name] = entry.area
        if isinstance(result, StudyResult):
            section = StudySection(entry, result, _with_captions(result, next(drawn)))
        else:
            section = StudySection(entry, None, incomplete=result)
        sections.setdefault(entry.area.name, []).append(section)
        on_study()
    claims = load_claims()
    return Report(
        areas=tuple(
            AreaSection(
                area=area,
                claims=tuple(claim for claim in claims if claim.area == name),
                studies=tuple(sections[name]),
            )
            for name, area in areas.items()
        ),
        origin=current_provenance(),
    )


def _load(
    entry: RegisteredStudy, store: Store, scale: Scale | None, seed: int
) -> StudyResult | Incomplete:
    found = load_result(entry, store, scale=scale or "full", seed=seed)
    if scale is None and isinstance(found, Incomplete):
        found = load_result(entry, store, scale="quick", seed=seed)
    return found


def _with_captions(result: StudyResult, drawn: Sequence[FigureFiles]) -> tuple[PageFigure, ...]:
    draws = result.entry.study.figures
    return tuple(
        PageFigure(files, _caption(files.name, draws[files.name], result)) for files in drawn
    )


def _caption(name: str, draw: Any, result: StudyResult) -> str:
    """Return the first paragraph of the figure's docstring, or its name in words."""
    text = inspect.getdoc(draw) if inspect.isfunction(draw) else None
    if text:
        return " ".join(text.split("\n\n")[0].split())
    words = name.replace("-", " ").replace("_", " ")
    return f"{result.entry.study.title}: {words}."
