"""What keeps strangers out: headers, form tokens, cookies, passwords.

A form token is an HMAC of the session under the server's key, so another site cannot make one; the
browser's own statement where a request comes from is checked as well. Secrets are compared in
constant time and never written anywhere but into the page that needs them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from counterplay.studio.errors import StudioError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}
HSTS = "max-age=31536000; includeSubDomains"
LARGEST_FORM = 64 * 1024
MOST_FIELDS = 1_000


class Forbidden(StudioError):
    """The form was not made by this server for this person."""

    status = 403


class TooLarge(StudioError):
    """A body over the limit."""

    status = 413


class TooMany(StudioError):
    """More requests than one person makes; ``after`` is when to try again, in seconds."""

    status = 429

    def __init__(self, after: float) -> None:
        super().__init__("Too many requests; wait a moment.")
        self.after = max(1, int(after + 0.999))


def form_token(server_key: bytes, session: str, form: str) -> str:
    """Return the token that a form of this session carries."""
    told = f"{len(session)}:{session}:{form}".encode()
    return hmac.new(server_key, told, hashlib.sha256).hexdigest()


def check_token(server_key: bytes, session: str, form: str, given: str) -> None:
    """Refuse a form without its token."""
    wanted = form_token(server_key, session, form)
    if not hmac.compare_digest(wanted, given if given.isascii() else ""):
        raise Forbidden("This form was not made for you, or it is too old. Reload the page.")


def made_by(server_key: bytes, session: str, request: Request, fields: dict[str, str]) -> str:
    """Return the secret that a form makes: whenever it is sent, the same one.

    A page that shows a new link is the answer to a form, and loading it again sends the form
    again. The key of the form is 256 bits that are stored nowhere, so that the server's key and
    the database together do not give the secret.
    """
    key = fields.get("key", "")
    if len(key) != 43 or not key.isascii():
        raise Forbidden("The form is not complete. Reload the page.")
    told = "\n".join((session, request.scope["path"], fields.get("party", ""), key)).encode()
    for n in range(256):
        made = hmac.new(server_key, b"link %d\n" % n + told, hashlib.sha256).digest()
        secret = base64.urlsafe_b64encode(made).decode().rstrip("=")
        if secret[0].isalnum():  # no spreadsheet takes it for a formula
            return secret
    raise AssertionError("no such run of hashes was ever seen")


def check_origin(request: Request) -> None:
    """Refuse what the browser says another site sent."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        raise Forbidden("Another site sent this request.")


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a small form; a name that occurs twice has its last value."""
    check_origin(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("", "application/x-www-form-urlencoded"):
        raise Forbidden("Only the form of the page can be sent here.")
    body = await request.body()
    if len(body) > LARGEST_FORM:
        raise TooLarge("The form is too large.")
    try:
        pairs = parse_qsl(
            body.decode("utf-8"), keep_blank_values=True, max_num_fields=MOST_FIELDS,
            encoding="utf-8", errors="strict",
        )  # fmt: skip
    except ValueError:
        raise Forbidden("The form cannot be read.") from None
    return {name: value.replace("\0", "") for name, value in pairs}


def set_cookie(
    response: Response, name: str, value: str, *, path: str, secure: bool, days: float
) -> None:
    """Set a cookie that scripts cannot read and other sites cannot make somebody send."""
    response.set_cookie(
        name, value, max_age=int(days * 86_400), path=path, secure=secure, httponly=True,
        samesite="lax",
    )  # fmt: skip


def cookie(request: Request, name: str) -> str | None:
    """Return a cookie of the request; damaged headers hold none."""
    header = request.headers.get("cookie")
    if not header or len(header) > 8_192:
        return None
    for part in header.split(";"):
        found, _, value = part.strip().partition("=")
        if found == name:
            return value.strip('"') or None
    return None


def new_key() -> str:
    """Return the key of a page: a retry of its form finds its own event."""
    return secrets.token_urlsafe(12)


def link_key() -> str:
    """Return the key of a form that makes a secret: 256 bits, for the secret is made from it."""
    return secrets.token_urlsafe(32)
