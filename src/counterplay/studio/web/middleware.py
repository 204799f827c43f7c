"""The one gate that every request passes: limits, headers, the log, and what went wrong.

Plain ASGI: nothing is buffered, so that server-sent events flow, and a request costs microseconds.
Secrets are cut out of the log.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from typing import TYPE_CHECKING

from counterplay.studio.web.limits import Buckets, address
from counterplay.studio.web.security import HEADERS, HSTS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = frozenset({"GET", "HEAD", "POST"})
LARGEST_BODY = 1 << 20
LARGEST_UPLOAD = 21 * 2**20
LARGEST_HEADER = 16 * 1024
LONGEST_PATH = 2_048
BODY_SECONDS, UPLOAD_SECONDS = 20.0, 120.0
_SECRET = re.compile(r"^(/+(?:j|admin/+link)/+)[^/]+|[A-Za-z0-9_-]{40,}")
_UPLOADS = re.compile(r"^/admin/(?:studies/new|studies/import|audits|studies/[^/]+/(?:import|add))")
_access = logging.getLogger("counterplay.studio.access")


def redacted(path: str) -> str:
    """Return a path without the secret of a link, wherever somebody put it.

    Examples
    --------
    >>> redacted("/j/abcdefg")
    '/j/***'
    >>> redacted("/J/" + 43 * "x")
    '/J/***'
    """
    return _SECRET.sub(lambda found: f"{found[1] or ''}***", path)


def inside(scope: Scope) -> str:
    """Return the path of a request as seen from where the application is mounted.

    Examples
    --------
    >>> inside({"path": "/studio/j/abc", "root_path": "/studio"})
    '/j/abc'
    """
    path: str = scope.get("counterplay.path", scope["path"])
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


class Refusal(Exception):
    """A request that goes no further; ``after`` is when to try again, in seconds."""

    def __init__(self, status: int, after: float | None = None) -> None:
        super().__init__(f"refused with {status}")
        self.status, self.after = status, after


class Gate:
    """Checks a request before the application sees it, and adds headers to every answer."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        https: bool,
        trusted_proxies: int,
        per_minute: float,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self.app, self.trusted, self.body_seconds = app, trusted_proxies, body_seconds
        self.addresses = Buckets(per_minute, per_minute)
        told = {**HEADERS, **({"strict-transport-security": HSTS} if https else {})}
        self.headers = [(name.encode(), value.encode()) for name, value in told.items()]
        self.names = {name for name, _ in self.headers}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, path = time.perf_counter(), inside(scope)
        status, taken = 500, ""

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = message.setdefault("headers", [])
                have = {name.lower() for name, _ in given} & self.names
                kept = given if b"server" not in have else [h for h in given if h[0] != b"server"]
                message["headers"] = [*kept, *(h for h in self.headers if h[0] not in have)]
            await send(message)

        try:
            try:
                limit, seconds, taken = self._admit(scope)
            except Refusal as refusal:  # the application has the page for it
                await self.app(_refused(scope, refusal), receive, answer)
                return
            body = _Body(receive, limit, seconds) if scope["method"] == "POST" else receive
            await self.app(scope, body, answer)
        finally:
            if taken.startswith("api ") and status != 401:
                self.addresses.give(taken)  # services with a token are as fast as they are
            if _access.isEnabledFor(logging.INFO):
                took = 1e3 * (time.perf_counter() - began)
                _access.info("%s %s %d %.1f ms", scope["method"], redacted(path), status, took)

    def _admit(self, scope: Scope) -> tuple[int, float, str]:
        """Check method, sizes and rate; return the limits on the body and whose token was taken."""
        if scope["method"] not in METHODS:
            raise Refusal(405)
        if len(scope["raw_path"]) + len(scope["query_string"]) > LONGEST_PATH:
            raise Refusal(414)
        size, length = 0, b""
        forwarded: str | None = None
        for name, value in scope["headers"]:
            size += len(name) + len(value)
            if name == b"content-length":
                length = value
            elif name == b"x-forwarded-for":
                told = value.decode("latin-1")  # a proxy may add a line of its own
                forwarded = told if forwarded is None else f"{forwarded},{told}"
        if size > LARGEST_HEADER:
            raise Refusal(431)
        path, who = inside(scope), ""
        if not path.startswith(("/static/", "/healthz")):
            who = address(scope.get("client"), forwarded, self.trusted)
            who = f"api {who}" if path.startswith("/api/") else who
            if wait := self.addresses.wait(who):
                raise Refusal(429, wait)
        upload = _UPLOADS.match(path) is not None
        limit = LARGEST_UPLOAD if upload else LARGEST_BODY
        if length and (not length.isdigit() or int(length) > limit):
            raise Refusal(413)
        return limit, UPLOAD_SECONDS if upload else self.body_seconds, who


class _Body:
    """A body that must not grow over its limit nor drip."""

    def __init__(self, receive: Receive, limit: int, seconds: float) -> None:
        self.receive, self.left, self.seconds = receive, limit, seconds
        self.until: float | None = None
        self.done = False

    async def __call__(self) -> Message:
        if self.done:  # waiting for the disconnect takes as long as the answer
            return await self.receive()
        loop = asyncio.get_running_loop()
        if self.until is None:
            self.until = loop.time() + self.seconds
        try:
            async with asyncio.timeout_at(self.until):
                message = await self.receive()
        except TimeoutError:
            raise Refusal(408) from None
        self.left -= len(message.get("body", b""))
        if self.left < 0:
            raise Refusal(413)
        self.done = not message.get("more_body", False)
        return message


def _refused(scope: Scope, refusal: Refusal) -> Scope:
    """The request as one for the page of its refusal."""
    place = f"{scope.get('root_path', '')}/refused"
    return {
        **scope, "method": "GET", "path": place, "raw_path": place.encode(),
        "query_string": b"", "counterplay.path": scope["path"], "counterplay.refusal": refusal,
    }  # fmt: skip
