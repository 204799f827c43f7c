"""The application: routes, gate, error pages, and the server that runs it.

``create_app(settings)`` opens the store when the server starts and closes it when it ends;
``serve`` is what ``counterplay studio`` calls.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import errno
import importlib
import json
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI
from starlette.responses import Response

from counterplay.core.files import write_atomic
from counterplay.core.threads import one_thread
from counterplay.studio.errors import CannotStart
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store
from counterplay.studio.web import errors
from counterplay.studio.web.house import House
from counterplay.studio.web.middleware import Gate

if TYPE_CHECKING:
    from starlette.requests import Request

ROOMS = (
    "participant", "join", "health", "admin", "studies", "editing", "new_campaign",
    "wizard", "labelling", "guard_api", "coordinator", "guard_pages", "audits", "live", "reports",
)  # fmt: skip
_NO_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
PATIENCE = 20.0
"""Seconds in which a connection must send a whole request."""
_STATIC = {
    "studio.css": "text/css; charset=utf-8",
    "studio.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def create_app(settings: Settings | None = None, *, store: Store | None = None) -> FastAPI:
    """Return the studio as an application that any ASGI server can run or mount.

    Use it to run the studio inside a server of your own; ``counterplay studio`` runs one for you.
    It starts no workers: audits wait until ``counterplay studio worker``, with the same data,
    runs beside it. It prints no login link either: ``counterplay studio admin create``.

    Parameters
    ----------
    settings:
        Where the data are and how people reach the server.
    store:
        An open store, which stays open; one is opened and closed with the server by default.

    Examples
    --------
    >>> from counterplay.studio import Settings, create_app
    >>> app = create_app(Settings(data="studio"))  # doctest: +SKIP
    >>> uvicorn.run(app)  # doctest: +SKIP

    References
    ----------
    docs/studio.md.
    """
    chosen = settings or Settings()

    lock = threading.Lock()

    def open_house() -> House:
        """Open the store, once; a mounted application does it with its first request."""
        with lock:
            known: House | None = getattr(app.state, "house", None)
            if known is None:
                opened = store or Store.open(chosen, server=True)
                if store is None:
                    atexit.register(opened.close)
                if chosen.base_url is not None:
                    opened.set_setting("base_url", chosen.base_url)
                known = app.state.house = House(chosen, opened, opened.server_key())
            return known

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        house = await asyncio.to_thread(open_house)
        try:
            yield
        finally:
            if store is None:
                del app.state.house
                atexit.unregister(house.store.close)
                await asyncio.to_thread(house.store.close)

    app = FastAPI(
        title="counterplay studio", lifespan=lifespan, openapi_url=None, docs_url=None,
        redoc_url=None,
    )  # fmt: skip
    app.state.open_house = open_house
    for room in ROOMS:
        app.include_router(importlib.import_module(f"counterplay.studio.web.{room}").router)
    app.add_route("/static/{name}", _static, methods=["GET"])
    app.add_route("/refused", errors.refused, methods=["GET"])
    errors.install(app)
    app.add_middleware(
        Gate, https=chosen.https, trusted_proxies=chosen.trusted_proxies,
        per_minute=chosen.requests_per_minute,
    )  # fmt: skip
    return app


async def _static(request: Request) -> Response:
    """Serve the style sheet and the script; they may be kept for an hour."""
    name = request.path_params["name"]
    if name not in _STATIC:
        return errors.answer(request, 404, "")
    headers = {"cache-control": "public, max-age=3600"}
    return Response(_file(name), 200, headers, media_type=_STATIC[name])


@cache
def _file(name: str) -> bytes:
    return resources.files("counterplay.studio").joinpath(f"static/{name}").read_bytes()


def serve(
    settings: Settings,
    ready_file: Path | None = None,
    *,
    announce: Callable[[dict[str, Any]], None] | None = None,
) -> None:
    """Run the server until it is stopped.

    Parameters
    ----------
    settings:
        Checked: a network without https is refused.
    ready_file:
        Written once the server answers: ``{url, pid, admin_link}`` as JSON; the link, which works
        once, is there only if nobody but this machine can use the server.
    announce:
        Called with the same.
    """
    settings.check_host()
    # questions of many people share the cores already: threads inside one would only wait;
    # libraries that are loaded later read the variable
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    store = Store.open(settings, server=True)
    try:
        if ready_file is not None:
            _clear(ready_file)
        sockets = _listen(settings)
        app = create_app(settings, store=store)
        config = uvicorn.Config(
            app, host=settings.host, port=settings.port, access_log=False, log_level="warning",
            server_header=False, date_header=True, proxy_headers=False, timeout_keep_alive=20,
            limit_concurrency=2_000, ws="none", h11_max_incomplete_event_size=32 * 1024,
            timeout_graceful_shutdown=5, lifespan="on",
        )  # fmt: skip
        server = _Server(config, store)
        local = settings.loopback and settings.base_url is None  # no proxy, no journal to read
        secret = _login(store) if local else None
        with one_thread(), asyncio.Runner(loop_factory=_loop()) as runner:
            runner.run(_run(server, sockets, ready_file, announce, secret))
    finally:
        store.close()


def _clear(ready_file: Path) -> None:
    """Take an old file away, so that nobody reads it before we answer."""
    try:
        ready_file.unlink(missing_ok=True)
        ready_file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotStart(
            f"the ready file {ready_file} cannot be written ({error.strerror})"
        ) from None


def _listen(settings: Settings) -> list[socket.socket]:
    """Open the port, at every address of the host."""
    where = (settings.host, settings.port)
    found: list[socket.socket] = []
    try:
        hosts = socket.getaddrinfo(*where, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        places = list(dict.fromkeys((host[0], host[4]) for host in hosts))
        for family, place in places:
            try:
                found.append(socket.create_server(place, family=family, backlog=2_048))
            except OSError as error:  # a machine without IPv6 knows ::1 by name
                if error.errno not in _NO_ADDRESS or (not found and place == places[-1][1]):
                    raise
    except OSError as error:
        for one in found:
            one.close()
        raise CannotStart(
            f"the studio cannot listen at {settings.host}, port {settings.port} "
            f"({error.strerror}); choose others with --host and --port"
        ) from None
    return found


class _Server(uvicorn.Server):
    """A server that ends in peace when it is told to, so that the store is closed."""

    def __init__(self, config: uvicorn.Config, store: Store) -> None:
        super().__init__(config)
        self.store = store

    def handle_exit(self, sig: int, frame: Any) -> None:
        """End the live numbers, for which the server would wait."""
        self.store.changed.close()
        super().handle_exit(sig, frame)

    async def hurry(self, seconds: float) -> None:
        """Close connections that send no whole request: they take the place of others."""
        since: dict[Any, tuple[Any, float]] = {}
        while True:
            await asyncio.sleep(seconds / 4)
            now, seen, since = time.monotonic(), since, {}
            connections: Any = self.server_state.connections
            for one in connections:
                if one.cycle is None or one.cycle.response_complete:
                    before = seen.get(one, (one.cycle, now))
                    since[one] = before if before[0] is one.cycle else (one.cycle, now)
            for one, (_, begun) in since.items():
                if now - begun > seconds:
                    one.transport.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals of the process, if this is its main thread."""
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


def _login(store: Store) -> str:
    """Return the secret of a login link that works once, for the first owner."""
    owners = (row for row in store.admins() if row.role == "owner" and not row.disabled_at)
    owner = next(owners, None) or store.new_admin("admin", password=None, role="owner")
    return store.new_login(owner)


def _loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _run(
    server: _Server,
    sockets: list[socket.socket],
    ready_file: Path | None,
    announce: Callable[[dict[str, Any]], None] | None,
    secret: str | None,
) -> None:
    """Serve, and say so once the socket is open."""
    task = asyncio.create_task(server.serve(sockets))
    while not server.started and not task.done():
        await asyncio.sleep(0.01)
    hurry = asyncio.create_task(server.hurry(PATIENCE))
    try:
        if server.started:
            told = _ready(server, server.store.settings, secret)
            server.store.set_setting("base_url", told["url"])
            if ready_file is not None:
                write_atomic(ready_file, json.dumps(told), private=True)
            if announce is not None:
                announce(told)
            threading.Thread(target=recall, args=(server.store,), daemon=True).start()
        await task
    finally:
        hurry.cancel()


def recall(store: Store) -> None:
    """Fold the shared logs of open studies again: nobody should wait for it after a restart."""
    for study in store.studies():
        if study.state == "open" and study.kind in ("campaign", "guard"):
            try:
                store.fold_now(store.stream_of(study))
            except Exception:  # whatever it is, the first page of the study will say it
                logging.getLogger("counterplay.studio").exception("a log was not folded")


def _ready(server: uvicorn.Server, settings: Settings, secret: str | None) -> dict[str, Any]:
    port = server.servers[0].sockets[0].getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = settings.base_url or f"http://{host}:{port}"
    link = None if secret is None else f"{url}/admin/link/{secret}"
    return {"url": url, "pid": os.getpid(), "admin_link": link}
