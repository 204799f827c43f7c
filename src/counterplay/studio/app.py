"""The application: routes, gate, error pages, and the server that runs it.

``create_app(settings)`` opens the store when the server starts and closes it when it ends;
``serve`` is what ``counterplay studio`` calls.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib
import json
import logging
import os
import signal
import socket
import threading
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
from counterplay.errors import InvalidInputError
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
_STATIC = {
    "studio.css": "text/css; charset=utf-8",
    "studio.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def create_app(settings: Settings | None = None, *, store: Store | None = None) -> FastAPI:
    """Return the studio as an application that any ASGI server can run or mount.

    Use it to run the studio inside a server of your own; ``counterplay studio`` runs one for you.

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
        Written once the server answers: ``{url, pid, admin_link}`` as JSON.
    announce:
        Called with the same.
    """
    settings.check_host()
    # questions of many people share the cores already: threads inside one would only wait;
    # libraries that are loaded later read the variable
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    store = Store.open(settings, server=True)
    try:
        app = create_app(settings, store=store)
        config = uvicorn.Config(
            app, host=settings.host, port=settings.port, access_log=False, log_level="warning",
            server_header=False, date_header=True, proxy_headers=False, timeout_keep_alive=20,
            limit_concurrency=2_000, ws="none", h11_max_incomplete_event_size=32 * 1024,
            timeout_graceful_shutdown=5, lifespan="on",
        )  # fmt: skip
        server = _Server(config)
        secret = _login(store) if settings.loopback else None
        with one_thread(), asyncio.Runner(loop_factory=_loop()) as runner:
            runner.run(_run(server, store, ready_file, announce, secret))
    finally:
        store.close()


def check_address(settings: Settings) -> None:
    """Refuse an address on which this machine cannot listen, before anything is made."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as probe:
                if os.name == "posix":  # as the server does: a port left a moment ago is free
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except OSError as error:
        raise InvalidInputError(
            f"the studio cannot listen on {settings.host[:60]}, port {settings.port} "
            f"({error.strerror}); choose another with --host or --port"
        ) from None


class _Server(uvicorn.Server):
    """A server that ends in peace when it is told to, so that the store is closed."""

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
    server: uvicorn.Server,
    store: Store,
    ready_file: Path | None,
    announce: Callable[[dict[str, Any]], None] | None,
    secret: str | None,
) -> None:
    """Serve, and say so once the socket is open."""
    task = asyncio.create_task(server.serve())
    while not server.started and not task.done():
        await asyncio.sleep(0.01)
    if server.started:
        told = _ready(server, store.settings, secret)
        if ready_file is not None:
            write_atomic(ready_file, json.dumps(told))
        if announce is not None:
            announce(told)
        threading.Thread(target=recall, args=(store,), daemon=True).start()
    await task


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
