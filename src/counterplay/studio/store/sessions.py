"""Sessions and admins: who a browser belongs to; secrets are kept as digests."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from counterplay.studio.errors import Missing, Refused
from counterplay.studio.store import tables as t
from counterplay.studio.store.base import AdminRow, PartyRow, Rows, SessionRow, StudyRow, plain
from counterplay.studio.store.database import digest, later, now
from counterplay.studio.store.links import new_secret

ADMIN_ROLES = ("owner", "coordinator", "viewer")


class Sessions(Rows):
    """Browsers of parties and admins."""

    def new_session(
        self,
        *,
        party: PartyRow | None = None,
        admin: AdminRow | None = None,
        link: int | None = None,
        hours: float = 12.0,
    ) -> str:
        """Return the secret of a new session; it belongs into a cookie."""
        role = "admin" if admin is not None else "participant"
        return self._new_session(role, party, admin, link, hours)

    def _new_session(
        self,
        role: str,
        party: PartyRow | None,
        admin: AdminRow | None,
        link: int | None,
        hours: float,
    ) -> str:
        secret = new_secret()
        values: dict[str, Any] = {
            "digest": digest(secret),
            "role": role,
            "party": None if party is None else party.id,
            "admin": None if admin is None else admin.id,
            "link": link,
            "created_at": now(),
            "expires_at": later(hours * 3600),
            "last_used_at": now(),
        }

        def insert(connection: sa.Connection) -> None:
            if link is not None:  # revoking waits for us, then ends this session with the others
                c = t.link.c
                works = sa.select(c.id).where(c.id == link, c.revoked_at.is_(None))
                if connection.execute(works.with_for_update()).first() is None:
                    raise Missing("This link does not open anything (any more).")
            connection.execute(sa.insert(t.session).values(values))

        self._write(insert)
        return secret

    def find_session(self, secret: str) -> SessionRow | None:
        """Return a session that has not ended; None otherwise. A login link is no session."""
        found: SessionRow | None = self._cached(digest(secret), lambda: self._find_session(secret))
        return None if found is None or found.expires_at <= now() else found

    def _find_session(self, secret: str) -> SessionRow | None:
        c = t.session.c
        query = sa.select(t.session).where(
            c.digest == digest(secret), c.expires_at > now(), c.role != "login"
        )
        return self._first(query, SessionRow)

    def prolong_session(self, secret: str, hours: float = 12.0) -> None:
        """Note that a session is used; it ends this many hours later."""
        c = t.session.c
        values = {"last_used_at": now(), "expires_at": later(hours * 3600)}
        change = sa.update(t.session).where(c.digest == digest(secret)).values(values)
        self._do(change)
        self._forget_sessions()

    def end_session(self, secret: str) -> None:
        """End a session at once."""
        change = sa.delete(t.session).where(t.session.c.digest == digest(secret))
        self._do(change)
        self._forget_sessions()

    def new_admin(
        self, name: str, *, password: str | None, role: str, study: StudyRow | None = None
    ) -> AdminRow:
        """Add somebody who operates; ``password`` is already an argon2 hash, or None."""
        if role not in ADMIN_ROLES:
            raise Refused(f"The role must be one of {', '.join(ADMIN_ROLES)}.", "role")
        if (role == "coordinator") != (study is not None):
            raise Refused("A coordinator has one study, others have none.", "study")
        values = {"name": plain(name, "name"), "password": password, "role": role,
                  "study": None if study is None else study.id, "created_at": now()}  # fmt: skip
        try:
            self._do(sa.insert(t.admin).values(values))
        except sa.exc.IntegrityError:
            raise Refused(f"There is an admin called {values['name']!r} already.", "name") from None
        found = self.admin(str(values["name"]))
        assert found is not None
        return found

    def admin(self, name: str) -> AdminRow | None:
        """Return an admin by name."""
        return self._first(sa.select(t.admin).where(t.admin.c.name == name), AdminRow)

    def admin_by_id(self, number: int) -> AdminRow:
        """Return an admin by row number."""
        found = self._first(sa.select(t.admin).where(t.admin.c.id == number), AdminRow)
        if found is None:
            raise Missing("There is no such admin.")
        return found

    def admins(self) -> list[AdminRow]:
        """Return all admins."""
        return self._all(sa.select(t.admin).order_by(t.admin.c.id), AdminRow)

    def change_admin(self, admin: AdminRow, **values: Any) -> None:
        """Set the password hash or ``disabled_at``; all sessions of the admin end."""
        if not set(values) <= {"password", "disabled_at"}:
            raise Refused("Only the password and the end of an admin can be changed.")

        def change(connection: sa.Connection) -> None:
            connection.execute(sa.update(t.admin).where(t.admin.c.id == admin.id).values(values))
            connection.execute(sa.delete(t.session).where(t.session.c.admin == admin.id))

        self._write(change)
        self._forget_sessions()

    def disable_admin(self, admin: AdminRow) -> None:
        """Let an admin in no more and end the sessions; somebody must stay who can log in."""
        c = t.admin.c

        def change(connection: sa.Connection) -> None:
            active = sa.select(c.id).where(c.role == "owner", c.disabled_at.is_(None))
            owners = set(connection.execute(active.with_for_update()).scalars())
            if owners == {admin.id}:
                raise Refused("The last owner cannot be disabled; add another owner first.")
            values = {"disabled_at": now()}
            connection.execute(sa.update(t.admin).where(c.id == admin.id).values(values))
            connection.execute(sa.delete(t.session).where(t.session.c.admin == admin.id))

        self._write(change)
        self._forget_sessions()

    def new_login(self, admin: AdminRow, *, hours: float = 1.0) -> str:
        """Return a secret that logs an admin in once, by POST."""
        return self._new_session("login", None, admin, None, hours)

    def use_login(self, secret: str) -> AdminRow | None:
        """Use a login secret up; None if there is none such, or it is too old."""
        c = t.session.c
        where = (c.digest == digest(secret), c.role == "login", c.expires_at > now())

        def use(connection: sa.Connection) -> int | None:
            row = connection.execute(sa.select(c.id, c.admin).where(*where)).first()
            if row is None:
                return None
            gone = connection.execute(sa.delete(t.session).where(c.id == row.id))
            return row.admin if gone.rowcount == 1 else None

        number = self._write(use)
        if number is None:
            return None
        found = self.admin_by_id(number)
        return None if found.disabled_at else found

    def login_exists(self, secret: str) -> bool:
        """Whether a login secret would work; GET must not use it up."""
        c = t.session.c
        where = (c.digest == digest(secret), c.role == "login", c.expires_at > now())
        return self._first(sa.select(t.session).where(*where), SessionRow) is not None
