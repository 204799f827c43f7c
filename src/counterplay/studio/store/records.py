"""Artifacts, the audit log and settings."""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from counterplay.core.files import write_atomic
from counterplay.core.records import canonical
from counterplay.studio.errors import CannotStart, Missing, Refused
from counterplay.studio.store import tables as t
from counterplay.studio.store.base import ArtifactRow, Rows, StudyRow
from counterplay.studio.store.database import now, reading

MARK = "studio.id"
"""File in the data folder that says to which database it belongs."""


class Records(Rows):
    """What is kept beside the log."""

    def add_artifact(
        self,
        name: str,
        media_type: str,
        content: bytes,
        *,
        study: StudyRow | None = None,
        job: int | None = None,
    ) -> ArtifactRow:
        """Store a file: written beside its place, flushed, renamed; named by its content."""
        if not name or len(name) > 200 or not name.isprintable() or set(name) & set("/\\"):
            raise Refused("The name of a file must be 1 to 200 characters without slashes.", "name")
        digest = hashlib.sha256(content).hexdigest()
        path = f"artifacts/{digest[:2]}/{digest}"
        if not (self.settings.data / path).exists():
            write_atomic(self.settings.data / path, content)
        values = {"study": None if study is None else study.id, "job": job, "name": name,
                  "media_type": media_type, "sha256": digest, "bytes": len(content), "path": path,
                  "created_at": now()}  # fmt: skip

        def insert(connection: sa.Connection) -> int:
            key = connection.execute(sa.insert(t.artifact).values(values)).inserted_primary_key
            assert key is not None
            return int(key[0])

        return ArtifactRow(id=self._write(insert), **values)  # type: ignore[arg-type]

    def artifacts(
        self, *, study: StudyRow | None = None, job: int | None = None
    ) -> list[ArtifactRow]:
        """Return the files of a study or of a job."""
        c = t.artifact.c
        where = c.job == job if study is None else c.study == study.id
        return self._all(sa.select(t.artifact).where(where).order_by(c.id), ArtifactRow)

    def read_artifact(self, artifact: ArtifactRow) -> bytes:
        """Return the content of a file; a damaged one is an error."""
        folder = (self.settings.data / "artifacts").resolve()
        path = (self.settings.data / artifact.path).resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            raise Missing("This file is not there.")
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != artifact.sha256:
            raise Missing("This file is damaged: its content does not match its hash.")
        return content

    def audit(
        self,
        actor: str,
        action: str,
        object: str,
        detail: dict[str, Any] | None = None,
        *,
        address: str | None = None,
    ) -> None:
        """Note what an admin did; the address is kept as a keyed hash."""
        hashed = None
        if address is not None:
            secret = self.server_key()
            hashed = hashlib.blake2b(address.encode(), key=secret, digest_size=16).hexdigest()
        values = {"at": now(), "actor": actor[:200], "action": action[:100],
                  "object": object[:200], "address_hash": hashed,
                  "detail": canonical(detail or {}).decode()[:10_000]}  # fmt: skip
        self._do(sa.insert(t.audit_log).values(values))

    def audit_log(self, limit: int = 200) -> list[dict[str, Any]]:
        """Return the newest lines of the audit log, newest first."""
        query = sa.select(t.audit_log).order_by(t.audit_log.c.id.desc()).limit(limit)
        with reading(self.engine) as connection:
            return [dict(row._mapping) for row in connection.execute(query)]

    def server_key(self) -> bytes:
        """Return the secret of this installation, made at the first call."""
        known = getattr(self, "_server_key", None)
        if known is None:
            text = self.setting("server_key")
            if text is None:
                self._insert_setting("server_key", json.dumps(secrets.token_hex(32)))
                text = self.setting("server_key")
            self._server_key: bytes = bytes.fromhex(str(text))
            known = self._server_key
        return known

    def setting(self, key: str) -> Any:
        """Return a stored setting, None if there is none."""
        with reading(self.engine) as connection:
            query = sa.select(t.setting.c.value).where(t.setting.c.key == key)
            text = connection.execute(query).scalar()
        return None if text is None else json.loads(text)

    def set_setting(self, key: str, value: Any) -> None:
        """Store a setting, in place of the one before."""
        if self.setting(key) == value:
            return
        text = json.dumps(value)
        self._insert_setting(key, text)
        self._do(sa.update(t.setting).where(t.setting.c.key == key).values(value=text))

    def claim_folder(self) -> None:
        """Make the data folder that of the database, if it has none yet; refuse another one.

        Raises
        ------
        CannotStart
            The database belongs to another folder: files of this one would be missing there.
        """
        mark, known = self.settings.data / MARK, self.setting("folder")
        if known is None:
            if not _read(mark):
                write_atomic(mark, secrets.token_hex(8))
            self._insert_setting("folder", json.dumps(_read(mark)))
        elif self.settings.database is None:  # the database lies in the folder itself
            self.mark_folder()
        self.check_folder()

    def check_folder(self) -> None:
        """Refuse a data folder that is not the one of the servers of this database."""
        data, known = self.settings.data, self.setting("folder")
        if self.settings.database is None:
            return
        if known is None:
            raise CannotStart("no server has used this database yet; start the server first")
        if _read(data / MARK) != known:
            raise CannotStart(
                f"the folder {data} is not the one of this database (its file {MARK} does not hold "
                f"{known}): servers and workers need the same folder, such as a network share"
            )

    def mark_folder(self) -> None:
        """Let the data folder belong to the database, as after a restore."""
        known = self.setting("folder")
        if known is not None and _read(self.settings.data / MARK) != known:
            write_atomic(self.settings.data / MARK, str(known))

    def _insert_setting(self, key: str, value: str) -> None:
        values = {"key": key, "value": value}
        with contextlib.suppress(sa.exc.IntegrityError):  # another process was faster
            self._do(sa.insert(t.setting).values(values))

    def artifact_path(self, artifact: ArtifactRow) -> Path:
        """Return where a file lies."""
        return self.settings.data / artifact.path


def _read(mark: Path) -> str:
    try:
        return mark.read_text(encoding="ascii", errors="replace")[:100].strip()
    except OSError:
        return ""
