"""Pages from templates: the language of the reader, escaped values, one function to render.

``page(request, "label_queue.html", queue=...)`` is all that an endpoint needs; templates get ``t``
(the texts), ``house`` and ``path`` (the address the application is mounted at).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jinja2
from starlette.responses import HTMLResponse, RedirectResponse, Response

from counterplay.studio.web import security
from counterplay.studio.web.house import house_of
from counterplay.studio.web.texts import LANGUAGES, Language, language, wanted

if TYPE_CHECKING:
    from starlette.requests import Request

COOKIE = "cp_lang"


def environment() -> jinja2.Environment:
    """Return the templates, compiled once and never looked at again."""
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("counterplay.studio", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        cache_size=200,
    )
    env.globals["languages"] = LANGUAGES
    return env


def reader(request: Request, preferred: str | None = None) -> Language:
    """Return the language of a reader: chosen by hand, of the party, of the browser."""
    known = request.scope.get("counterplay.language")
    if known is not None:
        return known  # type: ignore[no-any-return]
    chosen = request.query_params.get("lang") if request.scope["query_string"] else None
    if chosen not in LANGUAGES:
        chosen = security.cookie(request, COOKIE)
    if chosen not in LANGUAGES:
        chosen = preferred or wanted(request.headers.get("accept-language", ""))
    found = language(chosen or "en")
    request.scope["counterplay.language"] = found
    return found


def page(
    request: Request,
    template: str,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    preferred: str | None = None,
    **values: Any,
) -> Response:
    """Render a page."""
    house = house_of(request)
    words = reader(request, preferred)
    text = house.templates.get_template(template).render(
        t=words, path=request.scope.get("root_path", ""), may_switch=request.method == "GET",
        admin=request.scope.get("counterplay.admin"), **values,
    )  # fmt: skip
    response = HTMLResponse(text, status, headers)
    if request.scope["query_string"] and request.query_params.get("lang") in LANGUAGES:
        response.set_cookie(
            COOKIE, words.code, max_age=31_536_000, path="/", samesite="lax", httponly=True,
            secure=house.settings.https,
        )  # fmt: skip
    return response


def go(request: Request, path: str) -> Response:
    """Send the browser on to a page of this application, by GET."""
    root = request.scope.get("root_path", "")
    return RedirectResponse(f"{root}{path}", 303)


def data(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return JSON; numbers that JSON does not have are an error, not NaN."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text, status, headers, media_type="application/json")
