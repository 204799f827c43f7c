"""What an operator's tools ask: is the process alive, can it write, what does it count."""

from __future__ import annotations

import hmac
import shutil
import tempfile
import time
from ipaddress import ip_address
from typing import TYPE_CHECKING

import sqlalchemy as sa
from fastapi import APIRouter
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from counterplay.studio.errors import Missing
from counterplay.studio.store import tables as t
from counterplay.studio.store.migrations import HEAD, revision
from counterplay.studio.web import activity, pages
from counterplay.studio.web.house import House, house_of

if TYPE_CHECKING:
    from starlette.requests import Request

router = APIRouter()
LEAST_DISK = 0.05
_BEGAN = time.monotonic()
_PROXIES = ("x-forwarded-for", "x-real-ip", "forwarded", "via")


async def healthz(request: Request) -> Response:
    """Say that the process answers."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """Say whether answers can be stored: schema, database and folder are fit, the disk has room."""
    house = house_of(request)
    try:
        if not await house.store.run(_writable, house):
            return pages.data({"ready": False, "reason": "schema"}, 503)
        disk = shutil.disk_usage(house.settings.data)
        room = disk.free / disk.total
    except Exception as error:
        return pages.data({"ready": False, "reason": type(error).__name__}, 503)
    if room < LEAST_DISK:
        return pages.data({"ready": False, "reason": "disk"}, 503)
    return pages.data({"ready": True})


async def metrics(request: Request) -> Response:
    """Count studies and events, for Prometheus; only for this machine or with the token."""
    house = house_of(request)
    if not _local(request):
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        known = house.settings.metrics_token
        if not known or not hmac.compare_digest(given.encode(), known.encode()):
            raise Missing("There is no such page.")
    counts = await house.store.run(activity.counts, house.store)
    lines = [f"counterplay_uptime_seconds {time.monotonic() - _BEGAN:.0f}"]
    lines += [f"counterplay_{name} {number}" for name, number in sorted(counts.items())]
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


def _writable(house: House) -> bool:
    """Write into the database and the folder, and take it back; False for another schema."""

    def probe(connection: sa.Connection) -> bool:
        with connection.begin_nested() as undone:
            c = t.setting.c
            connection.execute(
                sa.update(t.setting).where(c.key == "server_key").values(value=c.value)
            )
            undone.rollback()
        return revision(connection) == HEAD

    with tempfile.TemporaryFile(dir=house.settings.data) as file:
        file.write(b"answers")
        file.flush()
    return bool(house.store._write(probe))


async def home(request: Request) -> Response:
    """Send whoever comes without a link to the login."""
    return RedirectResponse(f"{request.scope.get('root_path', '')}/admin", 303)


def _local(request: Request) -> bool:
    client = request.scope.get("client")
    try:
        local = client is not None and ip_address(client[0]).is_loopback
    except ValueError:
        return False
    return local and not any(name in request.headers for name in _PROXIES)


router.add_route("/", home, methods=["GET"])
router.add_route("/healthz", healthz, methods=["GET"])
router.add_route("/readyz", readyz, methods=["GET"])
router.add_route("/metrics", metrics, methods=["GET"])
