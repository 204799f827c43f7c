"""Where data files are: a local folder, the download cache, or an official address.

A data set is described by the forms in which it can lie on disk (:class:`Form`) and, where an
official address is known, by how to download one of them (:class:`Remote`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterplay.errors import DataUnavailableError

if TYPE_CHECKING:
    from counterplay.datasets.dataset import Kind

VARIABLE = "COUNTERPLAY_DATA"


@dataclass(frozen=True)
class Form:
    """One form in which a data set can lie in a folder."""

    files: tuple[str, ...]
    """File names; looked for in the folder and in its subfolder named after the data set."""
    read: Callable[[Sequence[Path]], dict[str, Any]]
    """Reads the files, in the same order, and returns fields of ``Dataset``."""
    rows: int
    note: str = ""
    """What is special about this form, such as a sample or a lossy copy."""
    only_subfolder: bool = False
    """Whether the names are too common to be looked for outside the subfolder."""


@dataclass(frozen=True)
class Extract:
    """A member of a downloaded archive; several steps when archives are nested."""

    steps: tuple[str, ...]
    target: str
    sha256: str | None = None


@dataclass(frozen=True)
class Remote:
    """A file on the network with its checksum, and what to take out of it if it is an archive."""

    urls: tuple[str, ...]
    """The same file at several addresses, tried in this order."""
    sha256: str | None
    target: str
    extract: tuple[Extract, ...] = ()


@dataclass(frozen=True)
class Entry:
    """Everything known about a data set that is not bundled."""

    name: str
    kind: Kind
    title: str
    forms: tuple[Form, ...]
    source: str
    licence: str
    description: str = ""
    label_1: str = ""
    target_names: tuple[str, ...] = ()
    remotes: tuple[Remote, ...] = field(default=())


@dataclass(frozen=True)
class Found:
    """A form whose files are all there."""

    form: Form
    paths: tuple[Path, ...]


def find(entry: Entry, folder: str | os.PathLike[str] | None = None) -> Found | None:
    """Return the first complete form in the local folder or, failing that, in the cache."""
    for root in search_folders(folder):
        for form in entry.forms:
            paths = _complete(entry.name, form, root)
            if paths:
                return Found(form, paths)
    return None


def search_folders(folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return the folders that are searched, in this order."""
    given = folder if folder is not None else os.environ.get(VARIABLE)
    return ([Path(given)] if given else []) + [cache_folder()]


def cache_folder() -> Path:
    """Return the folder that keeps downloads."""
    import pooch

    return Path(pooch.os_cache("counterplay"))


def unavailable(
    entry: Entry, reason: str, folder: str | os.PathLike[str] | None
) -> DataUnavailableError:
    """Build the one error users see, with the folder layout that would help."""
    given = folder if folder is not None else os.environ.get(VARIABLE)
    searched = f"the folder {given}" if given else f"a local folder ({VARIABLE} is not set)"
    layout = [f"  {_layout(entry.name, form)}" for form in entry.forms]
    return DataUnavailableError(
        f"the data set {entry.name!r} is neither in {searched} nor in the cache "
        f"{cache_folder()}, and {reason}. Set {VARIABLE} to a folder that contains one of\n"
        + "\n".join(layout)
    )


def _layout(name: str, form: Form) -> str:
    prefix = f"{name}/" if form.only_subfolder else ""
    note = f"   ({form.note})" if form.note else ""
    return ", ".join(prefix + file for file in form.files) + note


def _complete(name: str, form: Form, root: Path) -> tuple[Path, ...]:
    homes = [root / name, root / name.replace("_", "-")]
    if not form.only_subfolder:
        homes.append(root)
    for home in homes:
        paths = tuple(home / file for file in form.files)
        if all(path.is_file() for path in paths):
            return paths
    return ()
