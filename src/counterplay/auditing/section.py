"""What a section of the audit is: stages for the time plan, records per item, one result.

A stage is a pure function of the context and some items (rows, folds, targets); the plan decides
how many items there is time for. Sections of other packages take part by an entry point of the
group ``counterplay.audit_sections`` and are loaded only when a run starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from counterplay.auditing.context import Context
from counterplay.auditing.findings import Missing, SectionResult
from counterplay.core.validation import IntArray
from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.tables.cells import shown

GROUP = "counterplay.audit_sections"
"""Entry-point group through which sections of other packages take part."""


@dataclass(frozen=True)
class Pilot:
    """Seconds measured before the plan is made.

    Parameters
    ----------
    predict
        Of one prediction per row.
    fits
        Rows and seconds of refits that were timed, few rows first.
    moves
        Of the cheapest move per row; 0 where nobody can move.
    moves_base
        Of one call of cheapest moves, whatever the rows.
    shown
        Of the best shown scores per row.
    shown_base
        Of one call of best shown scores, whatever the rows.

    Examples
    --------
    >>> pilot = Pilot(fits=((200, 0.25), (800, 0.5)))
    >>> [pilot.fit(n) for n in (100, 500, 1400)]
    [0.25, 0.375, 0.75]
    """

    predict: float = 1e-5
    fits: tuple[tuple[int, float], ...] = ((1, 1e-5), (2, 2e-5))
    moves: float = 0.0
    moves_base: float = 0.0
    shown: float = 0.0
    shown_base: float = 0.0

    def fit(self, n: float) -> float:
        """Return the seconds of one refit on so many rows: on a line through those timed."""
        if not self.fits:
            return 0.0
        rows, seconds = zip(*self.fits)
        if n <= rows[-1]:
            return float(np.interp(n, rows, seconds))
        slope = seconds[-1] / rows[-1]
        if len(rows) > 1:
            slope = max(0.0, (seconds[-1] - seconds[-2]) / (rows[-1] - rows[-2]))
        return float(seconds[-1] + slope * (n - rows[-1]))

    def search(self, n: int, calls: int = 1) -> float:
        """Return the seconds of cheapest moves of so many rows, in so many calls."""
        return self.moves_base * calls + self.moves * n


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of a section that can be given more or less time.

    Parameters
    ----------
    name
        Name within the section.
    items
        Number of items there are; items are taken in the order 0, 1, 2, ...
    n_min
        Items below which the result would mislead.
    n_want
        Items after which more would add nothing.
    seconds
        Expected seconds for so many items.
    run
        Function of the context and some items to flat records; each has its ``item``.
    batch
        Items between two writes to the store.
    sized
        Items between two writes from what the pilot measured; None for ``batch``.
    value
        Width of the interval at one item: who gets the next share of the time.
    prepare
        Fits that all batches share, one call each; made before the first batch, as long as there
        is time.
    optional
        Whether the section says something without it, although it comes first.

    Examples
    --------
    >>> stage = Stage(
    ...     name="rows", items=500, n_min=100, n_want=500, run=lambda context, items: [],
    ...     seconds=lambda pilot, n: pilot.predict * n,
    ... )
    >>> stage.seconds(Pilot(predict=0.01), 500)
    5.0

    References
    ----------
    "The time plan", see docs/theory/27-audit.md.
    """

    name: str
    items: int
    n_min: int
    n_want: int
    seconds: Callable[[Pilot, int], float]
    run: Callable[[Context, IntArray], list[dict[str, Any]]]
    batch: int = 200
    value: float = 1.0
    sized: Callable[[Pilot], int] | None = None
    prepare: Callable[[Context], Iterable[Callable[[], Any]]] | None = None
    optional: bool = False


@runtime_checkable
class Section(Protocol):
    """One question of the audit.

    Write one to add a question of your own to the audit: register the class under the entry point
    ``counterplay.audit_sections``.

    Examples
    --------
    >>> from counterplay.auditing.sections.honest import HonestSection
    >>> section = HonestSection()
    >>> isinstance(section, Section), section.name
    (True, 'honest')

    References
    ----------
    "Sections", see docs/theory/27-audit.md.
    """

    @property
    def name(self) -> str:
        """Name of the section."""
        ...

    @property
    def title(self) -> str:
        """Heading on the page."""
        ...

    @property
    def order(self) -> int:
        """When it runs and where it stands."""
        ...

    @property
    def version(self) -> int:
        """Changes when its records change their meaning."""
        ...

    @property
    def reads(self) -> tuple[str, ...]:
        """Tables of the config on which its records depend."""
        ...

    def needs(self, context: Context) -> list[Missing]:
        """Return what is missing; empty if the section can run."""
        ...

    def stages(self, context: Context) -> list[Stage]:
        """Return the stages, most important first."""
        ...

    def result(self, context: Context, records: pd.DataFrame) -> SectionResult:
        """Return findings, actions, tables and figures from the records of all stages."""
        ...


def built_in() -> list[Section]:
    """Return the sections of the library in their order."""
    from counterplay.auditing.sections import SECTIONS

    return [make() for make in SECTIONS]


def load_sections(names: Sequence[str] | None = None) -> list[Section]:
    """Return sections in their order: those of the library, then those of other packages.

    Parameters
    ----------
    names
        Names of the wanted ones; None for all. ``honest`` is always among them.
    """
    found = {section.name: section for section in built_in()}
    for point in sorted(entry_points(group=GROUP), key=lambda p: p.name):
        section = _loaded(point)
        found.setdefault(section.name, section)
    if names is not None:
        for name in names:
            if name not in found:
                raise UnknownNameError.among("section", str(name), found)
        found = {name: found[name] for name in found if name in {*names, "honest"}}
    return sorted(found.values(), key=lambda section: (section.order, section.name))


def _loaded(point: Any) -> Section:
    """Return the section of an entry point: an object, or a class without arguments."""
    section: Any
    try:
        loaded = point.load()
        section = loaded() if isinstance(loaded, type) else loaded
    except Exception as error:
        section = Broken(point.name, f"cannot be loaded: {shown(error, 200)}")
    if isinstance(section, Section):
        return section
    return Broken(point.name, f"is not a section: {shown(section, 80)}")


class Broken:
    """Stands for a section of another package that cannot be used; it fails when it runs."""

    version, order, reads = 0, 1000, ()

    def __init__(self, name: str, sentence: str) -> None:
        self.name, self.title, self.sentence = name, name, sentence

    def needs(self, context: Context) -> list[Missing]:
        """Return nothing: the failure is said when it runs."""
        return []

    def stages(self, context: Context) -> list[Stage]:
        """Fail with the sentence."""
        raise InvalidInputError(f"section {self.name} {self.sentence}")

    def result(self, context: Context, records: pd.DataFrame) -> SectionResult:
        """Fail with the sentence."""
        raise InvalidInputError(f"section {self.name} {self.sentence}")


def stage_records(records: pd.DataFrame, stage: str) -> pd.DataFrame:
    """Return the records of one stage, without columns that none of them has."""
    if not len(records):
        return records
    part = records[records["stage"] == stage]
    return part.dropna(axis=1, how="all").reset_index(drop=True)
