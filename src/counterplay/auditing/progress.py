"""What a run tells its caller, whose own mistakes are not blamed on a section."""

from __future__ import annotations

from collections.abc import Callable

from counterplay.errors import InvalidInputError
from counterplay.tables.cells import shown

Progress = Callable[[str, int, int], None]


def silent(text: str, done: int, total: int) -> None:
    """Show nothing."""


class ProgressError(InvalidInputError):
    """The caller's own ``progress`` raised; the run stops, what is stored stays."""


def guarded(progress: Progress) -> Progress:
    """Return the callback with its own errors named as such, so that no section is blamed."""

    def told(text: str, done: int, total: int) -> None:
        try:
            progress(text, done, total)
        except Exception as error:
            kind = type(error).__name__
            raise ProgressError(f"progress raised {kind}: {shown(error, 200)}") from error

    return told
