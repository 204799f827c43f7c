"""Overwrite what was erased: free space of the database and its write-ahead log.

A withdrawal sets content to null and removes the dead rows. A database file keeps bytes in free
space, and a write-ahead log keeps former writes, until they are used again. Here both are used
again at once. Copies that are elsewhere (replicas, archives of the log, older backups) are the
operator's.
Source: docs/theory/28-studio.md, "Undo and leaving".
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from counterplay.studio.settings import Settings
from counterplay.studio.store import Store
from counterplay.studio.store.database import empty_log, told

PATIENCE = 20.0
"""Seconds to wait for those who read, to empty SQLite's write-ahead log."""
TABLES = ("event", "party", "snapshot")
"""Tables that hold what people said, or their names."""
_SENTENCES = {
    "tables": "tables rewritten",
    "wal": "write-ahead log overwritten ({n} segments)",
    "busy": "the write-ahead log was not overwritten: somebody read from the database all the "
    "while; run this again",
    "refused": "the write-ahead log was not overwritten ({reason}): it is by the time that the "
    "cluster has used its segments again; a superuser can do it now with this command",
    "elsewhere": "replicas, archives of the log and older backups keep what they have",
}


def scrub(settings: Settings) -> list[str]:
    """Overwrite free space and the write-ahead log; return what was done, sentence by sentence.

    Writers wait while the tables are rewritten.
    """
    with Store.open(settings) as store, told(), store.engine.connect() as connection:
        if settings.sqlite_file is not None:
            raw: Any = connection.connection.dbapi_connection
            raw.execute("VACUUM")
            emptied = empty_log(connection, PATIENCE)
            return [
                _SENTENCES["tables"],
                _SENTENCES["wal"].format(n=1) if emptied else _SENTENCES["busy"],
            ]
        plain = connection.execution_options(isolation_level="AUTOCOMMIT")
        known = set(sa.inspect(plain).get_table_names())
        for table in TABLES:
            if table in known:
                plain.exec_driver_sql(f"VACUUM (FULL) {table}")
        return [_SENTENCES["tables"], _postgres_log(plain), _SENTENCES["elsewhere"]]


def _postgres_log(plain: sa.Connection) -> str:
    """Fill every segment that there is: a switch writes zeros up to the end of its segment.

    A checkpoint gives the segments of the past new numbers ahead, with their content; the second
    round fills those.
    """
    count = 0
    try:
        for _ in range(2):
            plain.exec_driver_sql("CHECKPOINT")
            found = plain.exec_driver_sql("SELECT count(*) FROM pg_ls_waldir()").scalar_one()
            count = max(count, int(found))
            for _ in range(int(found) + 1):
                plain.exec_driver_sql("SELECT pg_logical_emit_message(false, 'scrub', '')")
                plain.exec_driver_sql("SELECT pg_switch_wal()")
        plain.exec_driver_sql("CHECKPOINT")
    except DBAPIError as error:
        reason = str(error.orig).partition("\n")[0][:200]
        return _SENTENCES["refused"].format(reason=reason)
    return _SENTENCES["wal"].format(n=count)
