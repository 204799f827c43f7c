"""A folder that holds a partition: rows and model of each block, and a manifest that names them.

Files are never changed. An update writes new ones beside the old, then replaces the manifest, then
deletes what it no longer names: a process that is killed leaves the state before or after, never
between. Only one process at a time does so: the others are told. The manifest carries a keyed hash
of itself and of every file.
Source: docs/theory/21-sources.md, "On disk".
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from counterplay.core.database import BusyError, locked
from counterplay.core.files import flush_folder, read_limited, write_atomic
from counterplay.core.records import (
    Count,
    Digest,
    Name,
    Positive,
    Record,
    canonical,
    read_record,
    require_state,
    write_record,
)
from counterplay.errors import InvalidInputError, InvalidStateError
from counterplay.poisoning.block_files import part_bytes, read_part, suffix
from counterplay.poisoning.held_rows import Held
from counterplay.tables import Schema
from counterplay.tables.cells import shown
from counterplay.tables.encoding import check_key

MANIFEST = "manifest.json"
_LOCK = ".lock"
_WAIT = 5.0  # seconds until a folder that somebody else works in is refused
_LARGEST = 2**31
_FOLDERS = ("rows", "models")


class SavedRows(Record, frozen=True):
    """The rows of a block: how many, their keyed hash, and that of their file."""

    count: Count
    digest: Digest
    file: Digest


class SavedModel(Record, frozen=True):
    """The model of a block: the rows it was fitted on, and where it is."""

    rows: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    kind: Literal["empty", "constant", "failed", "skops", "pickle", "none"]
    file: Digest | None = None
    label: dict[str, Any] | None = None
    error: Name = ""
    message: Name = ""


class SavedSettings(Record, frozen=True):
    """Parameters of the classifier that its predictions depend on."""

    n_partitions: Positive | Literal["auto"]
    classes: list[dict[str, Any]] | None
    vote_threshold: tuple[dict[str, Any], float | None] | None
    given_schema: bool
    default_estimator: bool
    committee: Positive
    rows_per_source: Positive | None
    split: list[tuple[str | int, Positive]]
    unknown_source: Literal["row", "pool", "drop"]
    spread: Positive
    aggregation: Literal["plurality", "runoff"]
    min_lead: Count
    budget: Count
    check: bool
    random_state: Count | None
    block_timeout: float | None


class Manifest(Record, frozen=True):
    """What a folder holds."""

    kind: Literal["partition"]
    version: Literal[1]
    live: bool
    key: Digest
    frozen: dict[str, Any]
    margin: Count | None
    fitted: Literal["rows", "ids", "sources"]
    with_ids: bool
    n_partitions: Positive
    rows_rejected: Count
    settings: SavedSettings
    estimator: SavedModel
    versions: dict[str, Name]
    rows: list[SavedRows | None]
    models: list[SavedModel]
    seal: str = ""


@contextlib.contextmanager
def alone(folder: Path, *, shared: bool = False, wait: float | None = None) -> Iterator[None]:
    """Keep other writers out of a folder, in this process and elsewhere; readers may share it.

    Who comes second waits a while and is then refused. The lock is that of an empty SQLite file,
    which the system lifts when a process dies. Where no such file can be, nobody writes, either.
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(
                locked(folder / _LOCK, shared=shared, wait=_WAIT if wait is None else wait)
            )
        except BusyError:
            raise InvalidStateError(
                f"another process is at work in {shown(str(folder), 120)}; try again when it "
                "is done, or take another folder"
            ) from None
        yield


def write_manifest(folder: Path, manifest: Manifest, key: bytes | str | None) -> Manifest:
    """Write the manifest with the keyed hash of itself; what it says holds from then on."""
    sealed = msgspec.structs.replace(manifest, seal=_seal(manifest, key))
    write_atomic(folder / MANIFEST, write_record(sealed))
    return sealed


def read_manifest(folder: Path, key: bytes | str | None) -> Manifest:
    """Return the manifest of a folder; refuse another key and one that was changed."""
    path = folder / MANIFEST
    if not path.is_file():
        raise InvalidInputError(f"there is no partition in {shown(str(folder), 120)}")
    what = f"the manifest in {shown(str(folder), 80)}"
    text = read_limited(path, what=what, limit=_LARGEST)
    manifest = read_record(text, Manifest, what=what, limit=_LARGEST)
    if manifest.key != key_fingerprint(key):
        raise InvalidStateError("the key does not match this folder")
    if manifest.seal != _seal(manifest, key):
        raise InvalidStateError(f"{what} was changed by somebody else; restore it from a backup")
    n = manifest.n_partitions * manifest.settings.spread
    require_state(len(manifest.rows) == len(manifest.models) == n, what, "rows",
                  f"there must be {n} blocks")  # fmt: skip
    return manifest


def key_fingerprint(key: bytes | str | None) -> str:
    """Return what identifies a key without telling it."""
    return keyed_hash(b"", key, "fingerprint")


def keyed_hash(data: bytes, key: bytes | str | None, purpose: str) -> str:
    """Return a keyed hash of some bytes for one purpose."""
    state = hashlib.blake2b(key=check_key(key), digest_size=16, person=b"counterplay-disk")
    state.update(purpose.encode() + b"\0")
    state.update(data)
    return state.hexdigest()


def _seal(manifest: Manifest, key: bytes | str | None) -> str:
    plain = msgspec.structs.replace(manifest, seal="")
    return keyed_hash(canonical(msgspec.to_builtins(plain)), key, "manifest")


def rows_path(folder: Path, block: int, saved: SavedRows, schema: Schema) -> Path:
    """Return the file with the rows of a block; its name tells which rows."""
    return folder / "rows" / f"{block:06}-{saved.digest}{suffix(schema)}"


def model_path(folder: Path, name: str, saved: SavedModel) -> Path:
    """Return the file with a model; its name tells which rows it was fitted on."""
    ending = "skops" if saved.kind == "skops" else "pkl"
    return folder / "models" / f"{name}-{saved.rows}.{ending}"


def put_rows(folder: Path, block: int, held: Held, key: bytes | str | None) -> SavedRows | None:
    """Write the rows of a block; None if there are none."""
    if not len(held):
        return None
    data = part_bytes(held)
    saved = SavedRows(count=len(held), digest=held.digest(key), file=keyed_hash(data, key, "rows"))
    path = rows_path(folder, block, saved, held.rows.cast.schema)
    write_atomic(path, data, flush=False)
    return saved


def get_rows(
    folder: Path, block: int, saved: SavedRows, schema: Schema, key: bytes | str | None
) -> Held:
    """Read the rows of a block; hashes are computed, not read."""
    what = f"block {block}"
    path = rows_path(folder, block, saved, schema)
    data = read_limited(path, what=f"the rows of {what} in", limit=_LARGEST)
    return read_part(data, schema, key, what=f"the file of {what}")


def flush(folder: Path) -> None:
    """Make the names of new files durable."""
    for name in _FOLDERS:
        flush_folder(folder / name)


def sweep(folder: Path, manifest: Manifest, schema: Schema) -> None:
    """Delete every file that the manifest does not name."""
    gone = left_over(folder, manifest, schema)
    for path in gone:
        with contextlib.suppress(OSError):  # a folder that may only be read
            path.unlink()
    if gone:
        flush(folder)


def left_over(folder: Path, manifest: Manifest, schema: Schema) -> list[Path]:
    """Return the files that the manifest does not name."""
    named = {
        rows_path(folder, i, saved, schema)
        for i, saved in enumerate(manifest.rows)
        if saved is not None
    }
    named |= {
        model_path(folder, f"{i:06}", saved)
        for i, saved in enumerate(manifest.models)
        if saved.file is not None
    }
    named.add(model_path(folder, "estimator", manifest.estimator))
    return [path for path in _files(folder) if path not in named]


def _files(folder: Path) -> Iterator[Path]:
    for name in _FOLDERS:
        if (folder / name).is_dir():
            yield from sorted((folder / name).iterdir())
    yield from folder.glob(f".{MANIFEST}.*")  # begun, never finished


@dataclass(eq=False)
class StoredRows:
    """The rows of all blocks in the files of a folder, read when they are asked for.

    Parameters
    ----------
    folder
        The folder.
    schema
        Schema of the rows.
    key
        Key of the hashes.
    saved
        What the manifest says of each block.
    nothing
        What an empty block holds.
    """

    folder: Path
    schema: Schema
    key: bytes | str | None
    saved: list[SavedRows | None]
    nothing: Held
    _last: tuple[int, Held] | None = None

    def __len__(self) -> int:
        return len(self.saved)

    def __getitem__(self, block: int) -> Held:
        saved = self.saved[block]
        if saved is None:
            return self.nothing
        if self._last is not None and self._last[0] == block:
            return self._last[1]
        held = get_rows(self.folder, block, saved, self.schema, self.key)
        if held.digest(self.key) != saved.digest:
            raise InvalidStateError(f"block {block} differs from the manifest; load the folder")
        self._last = (block, held)
        return held

    def __repr__(self) -> str:
        return f"StoredRows({str(self.folder)!r}, {len(self)} blocks)"
