"""What every part of the store uses: reading, writing, and the rows as plain objects."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import sqlalchemy as sa

from counterplay.studio.errors import Refused
from counterplay.studio.settings import Settings
from counterplay.studio.store.broadcast import Broadcast
from counterplay.studio.store.database import reading
from counterplay.studio.store.writer import DirectWriter, Operation, Writer

R = TypeVar("R")


@dataclass(frozen=True)
class StudyRow:
    """A study without its configuration."""

    id: int
    public_id: str
    kind: str
    name: str
    state: str
    version: int
    config_hash: str
    created_at: str
    closed_at: str | None
    fold_version: int
    library_version: str


@dataclass(frozen=True)
class PartyRow:
    """A person, clinic, service or operator in a study."""

    id: int
    study: int
    public_id: str
    role: str
    label: str
    locale: str | None
    created_at: str
    erased_at: str | None


@dataclass(frozen=True)
class LinkRow:
    """A link that works; ``party`` is None for an open link."""

    id: int
    study: int
    party: int | None
    created_at: str
    expires_at: str | None
    first_used_at: str | None
    cap: int | None
    used: int


@dataclass(frozen=True)
class AdminRow:
    """Somebody who operates; a coordinator has one study."""

    id: int
    name: str
    password: str | None
    role: str
    study: int | None
    created_at: str
    disabled_at: str | None


@dataclass(frozen=True)
class SessionRow:
    """A browser that proved who it is."""

    id: int
    role: str
    party: int | None
    admin: int | None
    link: int | None
    created_at: str
    expires_at: str
    last_used_at: str


@dataclass(frozen=True)
class TokenRow:
    """A service's token for the guard of one study."""

    id: int
    study: int
    scopes: str
    created_at: str
    expires_at: str | None
    last_used_at: str | None


@dataclass(frozen=True)
class JobRow:
    """A piece of work for a worker."""

    id: int
    kind: str
    args: dict[str, Any]
    state: str
    worker: str | None
    attempt: int
    fence: int
    progress: dict[str, Any] | None
    result: dict[str, Any] | None
    error: str | None
    created_at: str
    done_at: str | None


@dataclass(frozen=True)
class ArtifactRow:
    """A file that a job or study made; ``path`` is relative to the data folder."""

    id: int
    study: int | None
    job: int | None
    name: str
    media_type: str
    sha256: str
    bytes: int
    path: str
    created_at: str


class Rows:
    """Base of the store's parts."""

    settings: Settings
    engine: sa.Engine
    changed: Broadcast
    _writer: Writer | DirectWriter
    _found: dict[bytes, tuple[float, Any]]
    _trusted: bool

    def _write(self, operation: Operation) -> Any:
        """Run a write through the writer and wait for its commit."""
        return self._writer.submit(operation).result()

    def _announced(self, party: PartyRow) -> PartyRow:
        """Tell those who follow a study that a party came; return it."""
        self.changed.publish(party.public_id, 0, party.study)
        return party

    def _do(self, statement: sa.UpdateBase) -> int:
        """Execute one statement in a write; return how many rows it met."""
        return int(self._write(lambda connection: connection.execute(statement).rowcount))

    def _all(self, query: sa.Select[Any], kind: type[R]) -> list[R]:
        with reading(self.engine) as connection:
            return [to_row(row, kind) for row in connection.execute(query)]

    def _first(self, query: sa.Select[Any], kind: type[R]) -> R | None:
        with reading(self.engine) as connection:
            row = connection.execute(query).first()
        return None if row is None else to_row(row, kind)

    def _cached(self, key: bytes, find: Any, *, shared: bool = False) -> Any:
        """Look something up, at most once in 30 s while nobody else writes.

        What is ``shared`` may be so old even where others write that we do not see.
        """
        if not (self._trusted or shared):
            return find()
        cache = self._found
        known = cache.get(key)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        found = find()
        if found is not None:
            if len(cache) > 20_000:
                cache.clear()
            cache[key] = (time.monotonic() + 30.0, found)
        return found

    def _forget_sessions(self) -> None:
        """Begin anew: whoever reads at this moment fills the old dictionary."""
        self._found = {}


def to_row(row: Any, kind: type[R]) -> R:
    """Return the columns that a plain row object has."""
    found = row._mapping
    return kind(**{field.name: found[field.name] for field in fields(kind)})  # type: ignore[arg-type]


def public_id() -> str:
    """Return a name for the outside: 64 random bits; it opens nothing."""
    return secrets.token_hex(8)


def plain(text: str, field: str, most: int = 200) -> str:
    """Return a short text of people; control characters and long texts are refused."""
    cleaned = " ".join(str(text).split())
    if not 0 < len(cleaned) <= most or not cleaned.replace(" ", "").isprintable():
        raise Refused(f"The {field} must be 1 to {most} printable characters.", field)
    return cleaned
