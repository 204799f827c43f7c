"""Logging in and out, and the list of studies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter

from counterplay.studio import passwords
from counterplay.studio.store.base import AdminRow
from counterplay.studio.web import activity, errors, pages, security, sessions
from counterplay.studio.web.house import House, house_of
from counterplay.studio.web.sessions import where

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()


async def login_page(request: Request) -> Response:
    """Show the form."""
    return _form(request)


async def login(request: Request) -> Response:
    """Check name and password; a wrong one costs as much time whatever was wrong."""
    house = house_of(request)
    fields = await security.read_form(request)
    name, password = fields.get("name", "")[:200], fields.get("password", "")
    _check_form(house, fields)
    who = where(request)
    house.logins.take(f"address {who}")
    house.logins.take(f"name {name}")
    row = await house.store.run(house.store.admin, name)
    stored = None if row is None or row.disabled_at else row.password
    right = await house.store.run(passwords.check_password, stored, password)
    if row is None or not right:
        await house.store.run(lambda: house.store.audit(name, "login failed", "admin", address=who))
        return _form(request, wrong=True, name=name)
    return await _enter(request, house, row)


async def link_page(request: Request) -> Response:
    """Show the button of a login link; opening it uses nothing up."""
    house, secret = house_of(request), request.path_params["secret"]
    if not await house.store.run(house.store.login_exists, secret):
        house.links.take(where(request))
        words = pages.reader(request)
        return errors.answer(request, 404, words("login.link_gone"), key="link")
    token = security.form_token(house.server_key, "login", secret)
    return pages.page(request, "login_link.html", csrf=token, secret=secret)


async def link(request: Request) -> Response:
    """Use a login link up; a new password may be set with it."""
    house, secret = house_of(request), request.path_params["secret"]
    fields = await security.read_form(request)
    security.check_token(house.server_key, "login", secret, fields.get("csrf", ""))
    chosen = fields.get("password", "")
    hashed = await house.store.run(passwords.hash_password, chosen) if chosen else None
    row = await house.store.run(house.store.use_login, secret)
    if row is None:
        words = pages.reader(request)
        return errors.answer(request, 404, words("login.link_gone"), key="link")
    if hashed:
        await house.store.run(lambda: house.store.change_admin(row, password=hashed))
        place = where(request)
        await house.store.run(
            lambda: house.store.audit(row.name, "password set", row.name, address=place)
        )
    return await _enter(request, house, row)


async def logout(request: Request) -> Response:
    """End the session here and in the database."""
    who = await sessions.admin(request)
    house = house_of(request)
    who.check(house, await security.read_form(request))
    await house.store.run(house.store.end_session, who.session)
    await note(request, who, "logout", "admin")
    response = pages.go(request, "/admin/login")
    response.delete_cookie(sessions.ADMIN_COOKIE, path="/")
    return response


async def home(request: Request) -> Response:
    """List the studies that this admin may see."""
    who = await sessions.admin(request)
    house = house_of(request)
    counts = await house.store.run(activity.overview, house.store)
    none = {"answers": 0, "today": 0, "parties": 0}
    studies = [
        {"row": study, **counts.get(study.id, none)}
        for study in await house.store.run(house.store.studies)
        if who.may_see(study)
    ]
    return pages.page(request, "admin.html", studies=studies, who=who, csrf=who.token(house))


async def note(
    request: Request, who: sessions.Admin, action: str, what: str, **detail: object
) -> None:
    """Write down what an admin did."""
    house, place = house_of(request), where(request)
    await house.store.run(
        lambda: house.store.audit(who.name, action, what, dict(detail), address=place)
    )


def _form(request: Request, *, wrong: bool = False, name: str = "") -> Response:
    house = house_of(request)
    token = security.form_token(house.server_key, "login", "password")
    return pages.page(
        request, "login.html", status=401 if wrong else 200, wrong=wrong, name=name, csrf=token
    )


def _check_form(house: House, fields: dict[str, str]) -> None:
    security.check_token(house.server_key, "login", "password", fields.get("csrf", ""))


async def _enter(request: Request, house: House, row: AdminRow) -> Response:
    """Start a new session, whatever the browser had before; the old one ends."""
    before = security.cookie(request, sessions.ADMIN_COOKIE)
    if before is not None:
        await house.store.run(house.store.end_session, before)
    hours = sessions.ADMIN_HOURS
    secret = await house.store.run(lambda: house.store.new_session(admin=row, hours=hours))
    place = where(request)
    await house.store.run(lambda: house.store.audit(row.name, "login", "admin", address=place))
    response = pages.go(request, "/admin")
    security.set_cookie(
        response, sessions.ADMIN_COOKIE, secret, path="/", secure=house.settings.https,
        days=hours / 24,
    )  # fmt: skip
    return response


router.add_route("/admin", home, methods=["GET"])
router.add_route("/admin/login", login_page, methods=["GET"])
router.add_route("/admin/login", login, methods=["POST"])
router.add_route("/admin/logout", logout, methods=["POST"])
router.add_route("/admin/link/{secret}", link_page, methods=["GET"])
router.add_route("/admin/link/{secret}", link, methods=["POST"])
