"""Links and tokens: secrets are given out once and kept as digests."""

from __future__ import annotations

import secrets
import time
from typing import Any

import sqlalchemy as sa

from counterplay.studio.errors import Refused
from counterplay.studio.store import tables as t
from counterplay.studio.store.base import (
    LinkRow,
    PartyRow,
    StudyRow,
    TokenRow,
)
from counterplay.studio.store.database import digest, now, reading
from counterplay.studio.store.studies import Studies, insert_party

SCOPES = ("serve", "report")
_MINUTE = 60.0
_USED = "What this button made was shown before, and does not work any more. Load the page again."


def new_secret() -> str:
    """Return 256 random bits as 43 characters that fit into an address.

    The first is a letter or digit, so that neither a spreadsheet nor a command line takes the
    secret for a formula or an option.
    """
    while not (secret := secrets.token_urlsafe(32))[0].isalnum():
        pass
    return secret


class Links(Studies):
    """What opens a study for its parties."""

    _noted: dict[int, float]

    def new_link(self, party: PartyRow, *, expires: str | None = None) -> str:
        """Return a new secret link of a party; it is shown only now."""
        return self._new_link(party.study, party.id, expires, None)

    def new_open_link(
        self, study: StudyRow, cap: int, *, expires: str | None = None, token: str | None = None
    ) -> str:
        """Return a link that makes a new party for each of the first ``cap`` who start."""
        if not 1 <= cap <= 1_000_000:
            raise Refused("An open link needs a cap of 1 to 1,000,000.", "cap")
        return self._new_link(study.id, None, expires, cap, token)

    def _new_link(
        self,
        study: int,
        party: int | None,
        expires: str | None,
        cap: int | None,
        token: str | None = None,
        *,
        instead: bool = False,
    ) -> str:
        """Store a link, ``instead`` of the others of its party; a token is taken only once."""
        secret = token or new_secret()
        values = {"study": study, "party": party, "digest": digest(secret), "created_at": now(),
                  "expires_at": expires, "cap": cap, "used": 0}  # fmt: skip

        def change(connection: sa.Connection) -> None:
            if instead and party is not None:
                _revoke(connection, party)
            connection.execute(sa.insert(t.link).values(values))

        try:
            self._write(change)
        except sa.exc.IntegrityError:
            raise Refused(_USED) from None
        return secret

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
        count = int(self._write(lambda connection: _revoke(connection, party.id)))
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

    def reissue(
        self, party: PartyRow, *, expires: str | None = None, token: str | None = None
    ) -> str:
        """Revoke the links of a party and return a new one."""
        made = self._new_link(party.study, party.id, expires, None, token, instead=True)
        self._forget_sessions()
        return made

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

    def find_party(self, number: int) -> PartyRow:
        """Return the party of a session; what it is called may be half a minute old."""
        key = b"party:%d" % number
        found: PartyRow = self._cached(key, lambda: self.party_by_id(number), shared=True)
        return found

    def new_token(
        self, study: StudyRow, scopes: tuple[str, ...] | list[str], *, token: str | None = None
    ) -> str:
        """Return a new token for a service; it is shown only now."""
        if not scopes or not set(scopes) <= set(SCOPES):
            raise Refused(f"Scopes are {' and '.join(SCOPES)}.", "scopes")
        secret = token or new_secret()
        values = {"study": study.id, "digest": digest(secret), "created_at": now(),
                  "scopes": " ".join(sorted(set(scopes)))}  # fmt: skip
        try:
            self._do(sa.insert(t.api_token).values(values))
        except sa.exc.IntegrityError:
            raise Refused(_USED) from None
        return secret

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


def _revoke(connection: sa.Connection, party: int) -> int:
    c = t.link.c
    where = (c.party == party, c.revoked_at.is_(None))
    done = connection.execute(sa.update(t.link).where(*where).values(revoked_at=now()))
    connection.execute(sa.delete(t.session).where(t.session.c.party == party))
    return done.rowcount


def _live(table: sa.Table, secret: bytes) -> sa.Select[Any]:
    return sa.select(table).where(table.c.digest == secret, _works(table))


def _works(table: sa.Table) -> sa.ColumnElement[bool]:
    c = table.c
    return sa.and_(c.revoked_at.is_(None), sa.or_(c.expires_at.is_(None), c.expires_at > now()))
