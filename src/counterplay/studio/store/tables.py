"""The tables of a studio, the same on SQLite and PostgreSQL.

Bodies are text, not a JSON type: a database that reorders or reformats would break the hashes.
Secrets are digests. Times are UTC in ISO format, which sorts as text; order within a stream is
that of ``seq`` alone.
"""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData()
_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_time = sa.String(40)


def _key() -> sa.Column[int]:
    return sa.Column("id", _id, primary_key=True, autoincrement=True)


def _to(table: str, *, null: bool = False) -> sa.Column[int]:
    return sa.Column(table, _id, sa.ForeignKey(f"{table}.id"), nullable=null, index=True)


def _digest() -> sa.Column[bytes]:
    return sa.Column("digest", sa.LargeBinary(32), nullable=False, unique=True)


study = sa.Table(
    "study",
    metadata,
    _key(),
    sa.Column("public_id", sa.String(40), nullable=False, unique=True),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("config_hash", sa.String(64), nullable=False),
    sa.Column("created_at", _time, nullable=False),
    sa.Column("closed_at", _time),
    sa.Column("fold_version", sa.Integer, nullable=False),
    sa.Column("library_version", sa.String(40), nullable=False),
)

study_version = sa.Table(
    "study_version",
    metadata,
    _key(),
    _to("study"),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("config", sa.Text, nullable=False),
    sa.Column("config_hash", sa.String(64), nullable=False),
    sa.UniqueConstraint("study", "version"),
)

party = sa.Table(
    "party",
    metadata,
    _key(),
    _to("study"),
    sa.Column("public_id", sa.String(40), nullable=False, unique=True),
    sa.Column("role", sa.String(20), nullable=False),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("locale", sa.String(20)),
    sa.Column("created_at", _time, nullable=False),
    sa.Column("erased_at", _time),
)

link = sa.Table(
    "link",
    metadata,
    _key(),
    _to("study"),
    _to("party", null=True),  # an open link makes a party for everybody who starts
    _digest(),
    sa.Column("created_at", _time, nullable=False),
    sa.Column("expires_at", _time),
    sa.Column("revoked_at", _time),
    sa.Column("first_used_at", _time),
    sa.Column("cap", sa.Integer),
    sa.Column("used", sa.Integer, nullable=False, default=0),
)

stream = sa.Table(
    "stream",
    metadata,
    sa.Column("id", sa.String(80), primary_key=True),
    _to("study"),
    _to("party", null=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
)

event = sa.Table(
    "event",
    metadata,
    _key(),
    sa.Column("stream", sa.String(80), sa.ForeignKey("stream.id"), nullable=False),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("kind", sa.String(200), nullable=False),
    sa.Column("body", sa.Text),
    sa.Column("salt", sa.String(32)),
    sa.Column("body_hash", sa.String(64), nullable=False),
    sa.Column("key", sa.String(200), nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("at", _time, nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
    sa.UniqueConstraint("stream", "seq"),
    sa.UniqueConstraint("stream", "key"),
)

job = sa.Table(
    "job",
    metadata,
    _key(),
    sa.Column("kind", sa.String(40), nullable=False),
    sa.Column("args", sa.Text, nullable=False),
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("worker", sa.String(80)),
    sa.Column("lease", sa.Float),  # seconds of the database's clock
    sa.Column("beat", sa.Integer, nullable=False, default=0),
    sa.Column("attempt", sa.Integer, nullable=False, default=0),
    sa.Column("fence", sa.Integer, nullable=False, default=0),
    sa.Column("progress", sa.Text),
    sa.Column("result", sa.Text),
    sa.Column("error", sa.Text),
    sa.Column("created_at", _time, nullable=False),
    sa.Column("done_at", _time),
    sa.Index("job_state_lease", "state", "lease"),
)

artifact = sa.Table(
    "artifact",
    metadata,
    _key(),
    _to("study", null=True),
    _to("job", null=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("media_type", sa.String(100), nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("bytes", _id, nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("created_at", _time, nullable=False),
)

admin = sa.Table(
    "admin",
    metadata,
    _key(),
    sa.Column("name", sa.String(200), nullable=False, unique=True),
    sa.Column("password", sa.Text),
    sa.Column("role", sa.String(20), nullable=False),
    _to("study", null=True),
    sa.Column("created_at", _time, nullable=False),
    sa.Column("disabled_at", _time),
)

session = sa.Table(
    "session",
    metadata,
    _key(),
    _digest(),
    sa.Column("role", sa.String(20), nullable=False),  # participant, admin or login
    _to("party", null=True),
    _to("admin", null=True),
    _to("link", null=True),
    sa.Column("created_at", _time, nullable=False),
    sa.Column("expires_at", _time, nullable=False),
    sa.Column("last_used_at", _time, nullable=False),
)

api_token = sa.Table(
    "api_token",
    metadata,
    _key(),
    _to("study"),
    _digest(),
    sa.Column("scopes", sa.String(100), nullable=False),
    sa.Column("created_at", _time, nullable=False),
    sa.Column("expires_at", _time),
    sa.Column("revoked_at", _time),
    sa.Column("last_used_at", _time),
)

audit_log = sa.Table(
    "audit_log",
    metadata,
    _key(),
    sa.Column("at", _time, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("action", sa.String(100), nullable=False),
    sa.Column("object", sa.Text, nullable=False),
    sa.Column("address_hash", sa.String(64)),
    sa.Column("detail", sa.Text, nullable=False),
)

setting = sa.Table(
    "setting",
    metadata,
    sa.Column("key", sa.String(80), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
