"""What went wrong, as a page or as JSON: what happened and what to do, in the reader's language."""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING

from markupsafe import Markup
from python_multipart.exceptions import FormParserError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from counterplay.errors import CounterplayError, InvalidInputError
from counterplay.studio.errors import Closed, Conflict, KeyReuse, Missing, StudioError, Unavailable
from counterplay.studio.web import pages
from counterplay.studio.web.middleware import Refusal, inside, redacted
from counterplay.studio.web.security import Forbidden, TooLarge, TooMany
from counterplay.studio.web.sessions import LoggedOut

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

_log = logging.getLogger("counterplay.studio")
_KEYS: dict[type[Exception], str] = {
    Conflict: "conflict", KeyReuse: "key", Missing: "missing", Closed: "closed",
    Unavailable: "unavailable",
}  # fmt: skip


def install(app: Starlette) -> None:
    """Let every error have its page."""
    app.add_exception_handler(StudioError, _studio)
    app.add_exception_handler(CounterplayError, _studio)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Refusal, _refusal)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(FormParserError, _broken_form)
    app.add_exception_handler(Exception, _unexpected)


def told(request: Request, error: Exception) -> str:
    """Return the sentence for an error in the reader's language, its own where there is none."""
    words = pages.reader(request)
    if isinstance(error, Forbidden | TooLarge | TooMany):
        return words(f"error.{error.status}.text")
    key = next((key for kind, key in _KEYS.items() if isinstance(error, kind)), None)
    return words(f"error.{key}") if key else words.said(str(error))


def answer(
    request: Request,
    status: int,
    sentence: str,
    *,
    key: str | None = None,
    field: str | None = None,
    headers: dict[str, str] | None = None,
    number: str | None = None,
) -> Response:
    """Return the page of an error, or JSON below /api."""
    words = pages.reader(request)
    name = key or str(status)
    title = f"error.{name}.title" if words.has(f"error.{name}.title") else "error.other.title"
    hint = f"error.{name}.hint" if words.has(f"error.{name}.hint") else "error.other.hint"
    if inside(request.scope).startswith("/api/"):
        hint = hint if status in (429, 503) else "error.api"
        body = {"error": _plain(sentence), "field": field, "hint": words(hint)}
        return pages.data(body, status, headers)
    return pages.page(
        request, "error.html", status=status, headers=headers, title=words(title),
        sentence=sentence, hint=words(hint), number=number, status_code=status,
    )  # fmt: skip


def _plain(sentence: str) -> str:
    return sentence.striptags() if isinstance(sentence, Markup) else sentence


async def _studio(request: Request, error: Exception) -> Response:
    if isinstance(error, LoggedOut):
        if inside(request.scope).startswith("/admin") and request.method == "GET":
            return pages.go(request, "/admin/login")
        return answer(request, 401, pages.reader(request)("error.401.text"))
    status = getattr(error, "status", 422 if isinstance(error, InvalidInputError) else 500)
    if status >= 500 and not isinstance(error, Unavailable):
        return await _unexpected(request, error)
    headers = {"retry-after": str(error.after)} if isinstance(error, TooMany) else None
    if isinstance(error, Unavailable):
        headers = {"retry-after": "5"}
    field = getattr(error, "field", None)
    return answer(request, status, told(request, error), field=field, headers=headers)


async def _http(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    words = pages.reader(request)
    key = f"error.{status}.text"
    sentence = words(key) if words.has(key) else words("error.other.text")
    return answer(request, status, sentence, headers=dict(getattr(error, "headers", None) or {}))


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    after = None if error.after is None else {"retry-after": str(max(1, int(error.after + 1)))}
    words = pages.reader(request)
    key = f"error.{error.status}.text"
    sentence = words(key if words.has(key) else "error.other.text")
    headers = {**(after or {}), "connection": "close"}
    return answer(request, error.status, sentence, headers=headers)


async def _gone(request: Request, error: Exception) -> Response:
    """Nobody is there to read it, and it is no error of ours."""
    return Response(status_code=400)


async def _broken_form(request: Request, error: Exception) -> Response:
    return answer(request, 400, pages.reader(request)("error.other.text"))


async def refused(request: Request) -> Response:
    """Answer what the gate did not let through."""
    refusal = request.scope.get("counterplay.refusal")
    if refusal is None:
        raise Missing("There is no such page.")
    raise refusal


async def _unexpected(request: Request, error: Exception) -> Response:
    number = secrets.token_hex(4)
    place = redacted(inside(request.scope))
    _log.error("error %s at %s %s", number, request.method, place, exc_info=error)
    return answer(
        request, 500, pages.reader(request)("error.500.text", number=number), number=number
    )
