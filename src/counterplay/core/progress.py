"""The one progress bar: Rich, with the time left, silent when not asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

T = TypeVar("T")


@contextmanager
def progress_bar(enabled: bool = True) -> Iterator[Progress]:
    """Open a progress display on standard error; tasks are added with ``add_task``."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True, force_jupyter=False)  # its widgets need a package of their own
    with Progress(*columns, console=console, disable=not enabled) as progress:
        yield progress


def track(
    items: Iterable[T], description: str, *, total: int | None = None, enabled: bool = True
) -> Iterator[T]:
    """Yield ``items`` while showing how many are done and how long the rest will take."""
    with progress_bar(enabled) as progress:
        yield from progress.track(items, description=description, total=total)
