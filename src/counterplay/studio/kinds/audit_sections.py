"""Sections of an audit that say what they found before the whole audit is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def announced(names: Any, tell: Callable[[str, list[str]], None]) -> Any:
    """Return the sections of these names; each calls ``tell`` with its title and headlines."""
    from counterplay.auditing.section import load_sections

    return [Announced(section, tell) for section in load_sections(names)]


class Announced:
    """A section of an audit that tells its headlines as soon as it is done."""

    def __init__(self, section: Any, tell: Callable[[str, list[str]], None]) -> None:
        self._section, self._tell = section, tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._section, name)

    def result(self, context: Any, records: Any) -> Any:
        """Return what the section found."""
        found = self._section.result(context, records)
        told = sorted((f for f in found.findings if f.headline), key=lambda f: f.headline)
        self._tell(str(found.title), [str(f.sentence)[:500] for f in told or found.findings[:1]])
        return found
