"""Files that are either complete or not there: written beside the target, then renamed.

What was saved is on the disk when the call returns: the file and the folder that names it are
flushed, so that a power cut leaves the old or the new content.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from counterplay.errors import InvalidInputError, InvalidStateError


def write_atomic(
    path: str | os.PathLike[str],
    content: str | bytes,
    *,
    flush: bool = True,
    private: bool = False,
) -> Path:
    """Write ``content`` to ``path`` so that a reader never sees half of it; return the path.

    With ``flush=False`` the folder is left to the caller's :func:`flush_folder`: once for many
    files. With ``private=True`` nobody but the owner can ever read the file: it holds secrets.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        _write_beside(target, data, private)
    except OSError as error:
        if error.filename is not None:  # that of the file beside the one that was asked for
            error.filename, error.filename2 = str(target), None
        raise
    if flush:
        flush_folder(target.parent)
    return target


def _write_beside(target: Path, data: bytes, private: bool) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if not private:
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def flush_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can (Windows cannot open folders)."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:  # some network file systems do not know it
        pass
    finally:
        os.close(handle)


def read_limited(path: str | os.PathLike[str], *, what: str, limit: int) -> bytes:
    """Return the content of a file of at most ``limit`` bytes; larger ones are not read."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInputError(f"{what} {str(path)[:150]} cannot be read: {reason}") from None
    if len(data) > limit:
        raise InvalidStateError(f"{what} {str(path)[:150]} is larger than {limit:,} bytes")
    return data
