"""The start page of a link: GET changes nothing, the button makes a session.

Mail scanners and chat previews open links; only the POST of the button counts. Afterwards the
secret is not in the address any more.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from counterplay.studio.errors import Missing
from counterplay.studio.kinds import NewEvent
from counterplay.studio.web import errors, pages, security, sessions
from counterplay.studio.web.house import House, house_of
from counterplay.studio.web.sessions import where

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from counterplay.studio.store.base import LinkRow, StudyRow

router = APIRouter()


async def start(request: Request) -> Response:
    """Show what the link opens."""
    house = house_of(request)
    found = await _find(request, house)
    if found is None:
        return _nothing(request)
    return await _start_page(request, house, *found)


async def enter(request: Request) -> Response:
    """Make a session, and send the browser to the study."""
    house, token = house_of(request), request.path_params["token"]
    fields = await security.read_form(request)
    found = await _find(request, house)
    if found is None:
        return _nothing(request)
    link, study = found
    security.check_token(house.server_key, _mark(token), "start", fields.get("csrf", ""))
    config = await house.store.run(house.store.config, study)
    consent = (config.get("page") or {}).get("consent") or ""
    known = await house.store.at_hand(_known, request, house, link, study)
    if study.state != "open" and known is None:
        return await _start_page(request, house, link, study)
    if consent and fields.get("consent") != "yes" and not await _consented(house, known, study):
        return await _start_page(request, house, link, study, missing=True)
    words = pages.reader(request, (config.get("page") or {}).get("locale"))
    try:
        party, secret = await house.store.run(_open_session, house, link, words.code, known)
    except Missing:  # it was revoked just now
        return _nothing(request)
    if link.party is None:
        house.came(study.id, where(request), party.label)
    if study.state == "open":
        await _join(house, study, party, consent)
    response = pages.go(request, await _room(house, study, party))
    sessions.keep(request, response, study, secret)
    if link.party is None:
        security.set_cookie(
            response, f"cj_{study.public_id}", secret, secure=house.settings.https,
            path=f"{request.scope.get('root_path', '')}/j", days=sessions.PARTY_DAYS,
        )  # fmt: skip
    return response


async def _room(house: House, study: StudyRow, party: Any) -> str:
    """Where the party goes on; Back comes to this address, which says what was open then."""
    if study.kind == "campaign":
        return f"/l/{study.public_id}"
    seq = await house.store.view(house.store.stream_of(study, party), lambda f: f.seq)
    return f"/p/{study.public_id}?after={max(0, seq - 1)}"


def _known(request: Request, house: House, link: LinkRow, study: StudyRow) -> int | None:
    """The party that came by this link before: an open link has one per browser."""
    if link.party is not None:
        return link.party if link.first_used_at is not None else None
    secret = security.cookie(request, f"cj_{study.public_id}")
    session = None if secret is None else house.store.find_session(secret)
    return None if session is None else session.party


def _open_session(house: House, link: LinkRow, locale: str, known: int | None) -> tuple[Any, str]:
    if link.party is None and known is not None:
        party = house.store.party_by_id(known)
    else:
        party = house.store.use_link(link, locale=locale)
    hours = 24 * sessions.PARTY_DAYS
    return party, house.store.new_session(party=party, link=link.id, hours=hours)


async def _join(house: House, study: StudyRow, party: Any, consent: str) -> None:
    """Write that the party came and what she agreed to; a repeat writes nothing."""
    await house.store.run(house.store.join, party)
    if consent:
        body = {"text_hash": hashlib.sha256(consent.encode()).hexdigest(), "version": study.version}
        key = f"consent:{party.public_id}:{study.version}"
        agreed = NewEvent("consent", body, key, party.public_id)
        stream = house.store.stream_of(study, party)
        await house.store.append(stream, agreed, expected=None)


async def _consented(house: House, known: int | None, study: StudyRow) -> bool:
    """Whether the party of a link agreed before."""
    if known is None:
        return False
    party = await house.store.run(house.store.party_by_id, known)
    stream = house.store.stream_of(study, party)
    if study.kind != "elicitation":  # one log for all: whose consent it is stands in the event
        return await house.store.run(_agreed, house, stream, party.public_id)
    found: bool = await house.store.view(stream, lambda f: f.state.consented)
    return found


def _agreed(house: House, stream: str, party: str) -> bool:
    return any(e.kind == "consent" and e.actor == party for e in house.store.events(stream))


async def _find(request: Request, house: House) -> tuple[LinkRow, StudyRow] | None:
    token = request.path_params["token"]
    if not 20 <= len(token) <= 100 or not token.isascii():
        token = secrets.token_urlsafe(32)  # the lookup takes as long as any other
    link = await house.store.run(house.store.find_link, token)
    if link is None:
        house.links.take(where(request))
        return None
    try:
        return link, await house.store.at_hand(house.store.study_by_id, link.study)
    except Missing:
        return None


async def _start_page(
    request: Request, house: House, link: LinkRow, study: StudyRow, *, missing: bool = False
) -> Response:
    config = await house.store.at_hand(house.store.config, study)
    known = await house.store.at_hand(_known, request, house, link, study)
    page = config.get("page") or {}
    questions, minutes = None, None
    if study.kind == "elicitation":
        from counterplay.studio.kinds.elicitation_pages import announced

        questions, minutes = await house.store.run(announced, config)
        _warm()
    token, used = request.path_params["token"], known is not None
    full = link.party is None and link.cap is not None and link.used >= link.cap
    closed = study.closed_at if study.state == "closed" else None
    return pages.page(
        request, "start.html", status=422 if missing else 200, preferred=page.get("locale"),
        study=study, asks=_asks(page), consent=page.get("consent", ""),
        questions=questions, minutes=minutes, labels=", ".join(config.get("classes", ())),
        used=used, cap_reached=full and not used,
        closed=closed, missing=missing, token=token, open_link=link.party is None,
        csrf=security.form_token(house.server_key, _mark(token), "start"),
    )  # fmt: skip


def _asks(page: dict[str, Any]) -> str:
    """Who asks, and why; campaigns call it differently."""
    return page.get("asks") or " ".join(filter(None, (page.get("who"), page.get("intro"))))


@cache
def _warm() -> None:
    """Load the compiled question rule while the first person reads the start page."""
    threading.Thread(target=_load, daemon=True).start()


def _load() -> None:
    from counterplay.studio.kinds.elicitation_engine import warm_up

    try:
        warm_up()
    except Exception:  # whatever it is, the first question will say it
        logging.getLogger("counterplay.studio").exception("the question rule was not warmed up")


def _nothing(request: Request) -> Response:
    words = pages.reader(request)
    return errors.answer(request, 404, words("error.link.text"), key="link")


def _mark(token: str) -> str:
    """A name for a link in tokens of forms."""
    return f"link:{hashlib.sha256(token.encode()).hexdigest()}"


router.add_route("/j/{token}", start, methods=["GET"])
router.add_route("/j/{token}", enter, methods=["POST"])
