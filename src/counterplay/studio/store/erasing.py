"""The right to leave: content and salts of a party go, the chain of hashes stays."""

from __future__ import annotations

import logging
from typing import Any

import sqlalchemy as sa

from counterplay.studio.kinds import NewEvent, kind_of
from counterplay.studio.store import tables as t
from counterplay.studio.store.append import Appended
from counterplay.studio.store.base import PartyRow, StudyRow
from counterplay.studio.store.database import empty_log, now, told
from counterplay.studio.store.folds import read_events
from counterplay.studio.store.studies import Studies

PATIENCE = 5.0
"""Seconds for which a withdrawal waits for those who read, to empty the write-ahead log."""
_log = logging.getLogger("counterplay.studio")
_KEPT = ("party.withdrawn", "study.")


class Erasing(Studies):
    """Withdrawal of a party."""

    def withdraw_party(self, party: PartyRow, *, actor: str | None = None) -> Appended:
        """Erase what a party said, its name, links and sessions; writes ``party.withdrawn``.

        The content is overwritten in the database file; the write-ahead log is emptied after it,
        or a warning is logged if others read from it all the while.
        """
        study = self.study_by_id(party.study)
        stream = self.stream_of(study, party)
        body = {"party": party.public_id}
        event = NewEvent(
            "party.withdrawn", body, f"withdrawn:{party.public_id}", actor or party.public_id
        )

        def erase(connection: sa.Connection) -> None:
            e = t.event.c
            numbers = self._erased_numbers(connection, study, stream, party)
            for start in range(0, len(numbers), 500):
                chosen = e.seq.in_(numbers[start : start + 500])
                where = (e.stream == stream, chosen)
                connection.execute(sa.update(t.event).where(*where).values(body=None, salt=None))
            p, n = t.party.c, t.link.c
            gone = {"label": "withdrawn", "locale": None, "erased_at": now()}
            connection.execute(sa.update(t.party).where(p.id == party.id).values(gone))
            connection.execute(
                sa.update(t.link)
                .where(n.party == party.id, n.revoked_at.is_(None))
                .values(revoked_at=now())
            )
            connection.execute(sa.delete(t.session).where(t.session.c.party == party.id))

        done: Appended = self._append_with(stream, [event], None, erase)[0]
        self._folds.drop(stream)
        self._forget_sessions()
        self._overwrite()
        return done

    def _erased_numbers(
        self, connection: sa.Connection, study: StudyRow, stream: str, party: PartyRow
    ) -> list[int]:
        events = read_events(connection, stream)
        if stream == party.public_id:
            return [e.seq for e in events if not e.kind.startswith(_KEPT)]
        kind: Any = kind_of(study.kind)
        if hasattr(kind, "erases"):
            config = self.config(study)
            return sorted(set(kind.erases(config, events, party.public_id)))
        return [
            e.seq for e in events if e.actor == party.public_id and not e.kind.startswith(_KEPT)
        ]

    def _overwrite(self) -> None:
        """Empty the write-ahead log (SQLite), remove dead rows (PostgreSQL)."""
        with told(), self.engine.connect() as connection:
            if self.settings.sqlite_file is not None:
                if not empty_log(connection, PATIENCE):
                    _log.warning(
                        "What was erased is still in the write-ahead log: somebody read from the "
                        "database for %g s. Overwrite it with: counterplay studio scrub",
                        PATIENCE,
                    )
            else:
                plain = connection.execution_options(isolation_level="AUTOCOMMIT")
                plain.exec_driver_sql("VACUUM event")
                plain.exec_driver_sql("VACUUM party")
