"""Links, tokens, sessions and admins: secrets are given out once and kept as digests."""

from __future__ import annotations

import secrets
import time
from typing import Any

import sqlalchemy as sa

from counterplay.studio.errors import Missing, Refused
from counterplay.studio.store import tables as t
from counterplay.studio.store.base import (
    AdminRow,
    LinkRow,
    PartyRow,
    Rows,
    SessionRow,
    StudyRow,
    TokenRow,
    plain,
)
from counterplay.studio.store.database import digest, later, now, reading
from counterplay.studio.store.studies import insert_party

SCOPES = ("serve", "report")
_MINUTE = 60.0
ADMIN_ROLES = ("owner", "coordinator", "viewer")


def new_secret() -> str:
    """Return 256 random bits as 43 characters that fit into an address.

    The first is a letter or digit, so that neither a spreadsheet nor a command line takes the
    secret for a formula or an option.
    """
    while not (secret := secrets.token_urlsafe(32))[0].isalnum():
        pass
    return secret


class Links(Rows):
    """What opens a study for its parties."""

    _noted: dict[int, float]

    def study_by_id(self, number: int) -> StudyRow:
        """Return a study by its row number."""
        raise NotImplementedError

    def new_link(self, party: PartyRow, *, expires: str | None = None) -> str:
        """Return a new secret link of a party; it is shown only now."""
        return self._new_link(party.study, party.id, expires, None)

    def new_open_link(self, study: StudyRow, cap: int, *, expires: str | None = None) -> str:
        """Return a link that makes a new party for each of the first ``cap`` who start."""
        if not 1 <= cap <= 1_000_000:
            raise Refused("An open link needs a cap of 1 to 1,000,000.", "cap")
        return self._new_link(study.id, None, expires, cap)

    def _new_link(self, study: int, party: int | None, expires: str | None, cap: int | None) -> str:
        token = new_secret()
        values = {"study": study, "party": party, "digest": digest(token), "created_at": now(),
                  "expires_at": expires, "cap": cap, "used": 0}  # fmt: skip
        self._do(sa.insert(t.link).values(values))
        return token

    def find_link(self, token: str) -> LinkRow | None:
        """Return the link of a token; None alike if it is unknown, revoked or expired."""
        found = self._first(_live(t.link, digest(token)), LinkRow)
        return found

    def links(self, study: StudyRow) -> list[Any]:
        """Return all links of a study with their state, for the operator's list."""
        query = sa.select(t.link).where(t.link.c.study == study.id).order_by(t.link.c.id)
        with reading(self.engine) as connection:
            return list(connection.execute(query))

    def revoke_links(self, party: PartyRow) -> int:
        """Revoke every link of a party, and end its sessions; return how many links."""

        def change(connection: sa.Connection) -> int:
            c = t.link.c
            where = (c.party == party.id, c.revoked_at.is_(None))
            done = connection.execute(sa.update(t.link).where(*where).values(revoked_at=now()))
            connection.execute(sa.delete(t.session).where(t.session.c.party == party.id))
            return done.rowcount

        count = int(self._write(change))
        self._forget_sessions()
        return count

    def open_links(self, study: StudyRow) -> list[LinkRow]:
        """Return the open links of a study that work."""
        c = t.link.c
        where = (c.study == study.id, c.party.is_(None), _works(t.link))
        return self._all(sa.select(t.link).where(*where).order_by(c.id), LinkRow)

    def revoke_open_links(self, study: StudyRow) -> int:
        """Revoke the open links of a study; whoever came by one goes on. Return how many."""
        c = t.link.c
        where = (c.study == study.id, c.party.is_(None), c.revoked_at.is_(None))
        return self._do(sa.update(t.link).where(*where).values(revoked_at=now()))

    def reissue(self, party: PartyRow, *, expires: str | None = None) -> str:
        """Revoke the links of a party and return a new one."""
        self.revoke_links(party)
        return self.new_link(party, expires=expires)

    def use_link(self, link: LinkRow, *, locale: str | None = None) -> PartyRow:
        """Return the party that a link stands for; an open link makes one, up to its cap."""

        def use(connection: sa.Connection) -> int:
            c = t.link.c
            if link.party is not None:
                first = sa.func.coalesce(c.first_used_at, now())
                values = {"first_used_at": first, "used": c.used + 1}
                connection.execute(sa.update(t.link).where(c.id == link.id).values(values))
                return link.party
            study = self.study_by_id(link.study)
            taken = connection.execute(
                sa.update(t.link)
                .where(c.id == link.id, c.used < c.cap, c.revoked_at.is_(None))
                .values(used=c.used + 1, first_used_at=sa.func.coalesce(c.first_used_at, now()))
            )
            if taken.rowcount != 1:
                raise Refused("This link was used by as many people as it is for.")
            used = connection.execute(sa.select(c.used).where(c.id == link.id)).scalar_one()
            return insert_party(connection, study, "participant", f"guest {used}", locale)

        party = self.party_by_id(self._write(use))
        return self._announced(party) if link.party is None else party

    def party_by_id(self, number: int) -> PartyRow:
        """Return a party by its row number."""
        raise NotImplementedError

    def find_party(self, number: int) -> PartyRow:
        """Return the party of a session; what it is called may be half a minute old."""
        key = b"party:%d" % number
        found: PartyRow = self._cached(key, lambda: self.party_by_id(number), shared=True)
        return found

    def new_token(self, study: StudyRow, scopes: tuple[str, ...] | list[str]) -> str:
        """Return a new token for a service; it is shown only now."""
        if not scopes or not set(scopes) <= set(SCOPES):
            raise Refused(f"Scopes are {' and '.join(SCOPES)}.", "scopes")
        token = new_secret()
        values = {"study": study.id, "digest": digest(token), "created_at": now(),
                  "scopes": " ".join(sorted(set(scopes)))}  # fmt: skip
        insert = sa.insert(t.api_token).values(values)
        self._do(insert)
        return token

    def find_token(self, token: str) -> TokenRow | None:
        """Return what a service's token may do; None if it is unknown, revoked or expired."""
        found: TokenRow | None = self._cached(digest(token), lambda: self._find_token(token))
        return found

    def use_token(self, token: str) -> TokenRow | None:
        """Find what a service's token may do, and note that it is used: once a minute."""
        found, moment = self.find_token(token), time.monotonic()
        if found is not None and self._noted.get(found.id, -_MINUTE) <= moment - _MINUTE:
            self._noted[found.id] = moment
            used = sa.update(t.api_token).where(t.api_token.c.id == found.id)
            used = used.values(last_used_at=now())
            self._writer.submit(lambda connection: connection.execute(used))  # nobody waits for it
        return found

    def _find_token(self, token: str) -> TokenRow | None:
        return self._first(_live(t.api_token, digest(token)), TokenRow)

    def tokens(self, study: StudyRow) -> list[TokenRow]:
        """Return the tokens of a study that work."""
        c = t.api_token.c
        where = (c.study == study.id, _works(t.api_token))
        return self._all(sa.select(t.api_token).where(*where).order_by(c.id), TokenRow)

    def revoke_tokens(self, study: StudyRow) -> int:
        """Revoke every token of a study."""
        c = t.api_token.c
        change = sa.update(t.api_token).where(c.study == study.id, c.revoked_at.is_(None))
        count = self._do(change.values(revoked_at=now()))
        self._forget_sessions()
        return count

    def _cached(self, key: bytes, find: Any, *, shared: bool = False) -> Any:
        raise NotImplementedError

    def _forget_sessions(self) -> None:
        raise NotImplementedError


def _live(table: sa.Table, secret: bytes) -> sa.Select[Any]:
    return sa.select(table).where(table.c.digest == secret, _works(table))


def _works(table: sa.Table) -> sa.ColumnElement[bool]:
    c = table.c
    return sa.and_(c.revoked_at.is_(None), sa.or_(c.expires_at.is_(None), c.expires_at > now()))


class Sessions(Rows):
    """Browsers of parties and admins."""

    _found: dict[bytes, tuple[float, Any]]
    _trusted: bool

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
