"""Downloads with checksums into the cache; archives are unpacked to the files that are read."""

from __future__ import annotations

import hashlib
import io
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from counterplay.core.files import write_atomic
from counterplay.datasets.sources import Entry, Extract, Remote, cache_folder
from counterplay.errors import DataUnavailableError

if TYPE_CHECKING:
    from rich.progress import Progress


def download(entry: Entry) -> None:
    """Bring the files of ``entry`` into the cache; raises DataUnavailableError."""
    home = cache_folder() / entry.name
    for remote in entry.remotes:
        targets = [member.target for member in remote.extract] or [remote.target]
        if not all((home / target).exists() for target in targets):
            _bring(remote, home)


def _bring(remote: Remote, home: Path) -> None:
    archive = _retrieve(remote, home)
    if not remote.extract:
        return
    try:
        for member in remote.extract:
            write_atomic(home / member.target, _checked_member(archive, member, remote.urls[0]))
    finally:  # a bad archive must not be found again, a good one is not needed any more
        archive.unlink()


def _checked_member(archive: Path, member: Extract, url: str) -> bytes:
    try:
        content = _member(archive, member.steps)
    except (KeyError, zipfile.BadZipFile) as error:
        raise DataUnavailableError(f"the archive at {url} is damaged: {error}") from None
    if member.sha256 is not None and hashlib.sha256(content).hexdigest() != member.sha256:
        raise DataUnavailableError(f"{member.steps[-1]} in {url} is not the expected file")
    return content


def _retrieve(remote: Remote, home: Path) -> Path:
    import pooch

    failures = []
    for url in remote.urls:
        try:
            with _download_bar(remote.target) as bar:
                path = pooch.retrieve(
                    url, known_hash=remote.sha256, fname=remote.target, path=home, progressbar=bar
                )
            return Path(path)
        except (OSError, ValueError) as error:  # network and HTTP errors; wrong checksum
            failures.append(_reason(url, error))
    raise DataUnavailableError("the download failed: " + "; ".join(failures))


def _reason(url: str, error: Exception) -> str:
    import requests

    if isinstance(error, requests.ConnectionError | requests.Timeout):
        return f"{urlsplit(url).hostname} cannot be reached"
    return f"{url}: {' '.join(str(error).split())[:160]}"


def _member(archive: Path, steps: Sequence[str]) -> bytes:
    """Read a member of a zip file, following nested zip files."""
    stream: Any = archive
    content = b""
    for step in steps:
        with zipfile.ZipFile(stream) as opened:
            content = opened.read(step)
        stream = io.BytesIO(content)
    return content


@contextmanager
def _download_bar(title: str) -> Iterator[DownloadBar]:
    from counterplay.core.progress import progress_bar

    with progress_bar(enabled=sys.stderr.isatty()) as progress:
        yield DownloadBar(progress, title)


class DownloadBar:
    """What pooch expects of a progress bar, shown by the one the library uses."""

    def __init__(self, progress: Progress, title: str) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=None)
        self._total = 0

    @property
    def total(self) -> int:
        """Size of the file in bytes."""
        return self._total

    @total.setter
    def total(self, size: int) -> None:
        self._total = size
        self._progress.update(self._task, total=size)

    def update(self, size: int) -> None:
        """Count ``size`` more bytes."""
        self._progress.update(self._task, advance=size)

    def reset(self) -> None:
        """Start counting again."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Leave the display to the block that opened it."""
