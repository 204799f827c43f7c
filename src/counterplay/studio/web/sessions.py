"""Who is asking: participants by the cookie of their study, admins by theirs.

A request that is not allowed to see something gets the same answer as for something that is not
there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterplay.studio.errors import Missing, StudioError
from counterplay.studio.store.base import AdminRow, PartyRow, StudyRow
from counterplay.studio.web import security
from counterplay.studio.web.house import House, house_of
from counterplay.studio.web.limits import address

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from counterplay.studio.store import Store

ADMIN_COOKIE = "cp_admin"
PARTY_DAYS = 90.0
ADMIN_HOURS = 12.0
ROLES = {"viewer": 0, "coordinator": 1, "owner": 2}


class LoggedOut(StudioError):
    """An admin page without a session: the login page is the answer."""

    status = 401


@dataclass(frozen=True)
class Participant:
    """A party of a study with the session that proves it."""

    session: str
    study: StudyRow
    party: PartyRow
    stream: str

    def token(self, house: House) -> str:
        """Return the token of this person's forms."""
        return security.form_token(house.server_key, self.session, self.study.public_id)

    def check(self, house: House, fields: dict[str, str]) -> None:
        """Refuse a form that was not made for this person, or too many of them."""
        form = self.study.public_id
        security.check_token(house.server_key, self.session, form, fields.get("csrf", ""))
        shared = self.study.kind == "campaign"  # by the people of a clinic, who press keys
        house.writes.take(self.party.public_id, 0.1 if shared else 1.0)


@dataclass(frozen=True)
class Admin:
    """An operator with the session that proves it."""

    session: str
    row: AdminRow

    @property
    def name(self) -> str:
        """What the log calls this admin."""
        return self.row.name

    @property
    def role(self) -> str:
        """owner, coordinator or viewer."""
        return self.row.role

    def token(self, house: House) -> str:
        """Return the token of this admin's forms."""
        return security.form_token(house.server_key, self.session, "admin")

    def check(self, house: House, fields: dict[str, str]) -> None:
        """Refuse a form that was not made for this admin."""
        security.check_token(house.server_key, self.session, "admin", fields.get("csrf", ""))

    def may_see(self, study: StudyRow) -> bool:
        """Whether a study exists for this admin."""
        return self.role != "coordinator" or self.row.study == study.id

    def may_change(self, study: StudyRow) -> bool:
        """Whether this admin runs a study."""
        return self.role == "owner" or (self.role == "coordinator" and self.row.study == study.id)


async def participant(request: Request, kind: str | None = None) -> Participant:
    """Return who asks for a page of a study; Missing alike for strangers and other studies."""
    house, public = house_of(request), request.path_params["study"]
    secret = security.cookie(request, f"cp_{public}")
    if secret is None or len(secret) > 64:
        raise Missing("There is no such study.")
    found = await house.store.at_hand(_participant, house.store, secret)
    if found is None or found.study.public_id != public or kind not in (None, found.study.kind):
        raise Missing("There is no such study.")
    return found


def _participant(store: Store, secret: str) -> Participant | None:
    session = store.find_session(secret)
    if session is None or session.party is None:
        return None
    party = store.find_party(session.party)
    study = store.study_by_id(party.study)
    return Participant(secret, study, party, store.stream_of(study, party))


async def admin(request: Request, role: str = "viewer") -> Admin:
    """Return the admin of a request with at least this role; others are sent to the login."""
    house = house_of(request)
    secret = security.cookie(request, ADMIN_COOKIE)
    session = None if secret is None else await house.store.run(house.store.find_session, secret)
    if secret is None or session is None or session.admin is None:
        raise LoggedOut("Log in first.")
    row = await house.store.run(house.store.admin_by_id, session.admin)
    if row.disabled_at is not None:
        raise LoggedOut("Log in first.")
    if ROLES[row.role] < ROLES[role]:
        raise Missing("There is no such page.")
    if session.last_used_at < _minutes_ago(5):
        await house.store.run(house.store.prolong_session, secret, ADMIN_HOURS)
    found = Admin(secret, row)
    request.scope["counterplay.admin"] = found
    return found


async def admin_study(request: Request, *, change: bool = False) -> tuple[Admin, StudyRow]:
    """Return the admin and the study of the path; 404 if the admin must not know of it."""
    who, house = await admin(request), house_of(request)
    study = await house.store.run(house.store.study, request.path_params["study"])
    if not who.may_see(study) or (change and not who.may_change(study)):
        raise Missing("There is no such study.")
    return who, study


def where(request: Request) -> str:
    """Return the address that a request comes from."""
    forwarded = ",".join(request.headers.getlist("x-forwarded-for"))
    trusted = house_of(request).settings.trusted_proxies
    return address(request.scope.get("client"), forwarded, trusted)


def keep(request: Request, response: Response, study: StudyRow, secret: str) -> None:
    """Give a participant the cookie of her study."""
    house, root = house_of(request), request.scope.get("root_path", "")
    room = "l" if study.kind == "campaign" else "p"
    security.set_cookie(
        response, f"cp_{study.public_id}", secret, path=f"{root}/{room}/{study.public_id}",
        secure=house.settings.https, days=PARTY_DAYS,
    )  # fmt: skip


def _minutes_ago(minutes: float) -> str:
    from counterplay.studio.store.database import later

    return later(-60 * minutes)
