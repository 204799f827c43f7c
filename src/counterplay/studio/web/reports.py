"""Reports of ``counterplay report``, to browse: pages that the operator put into DATA/reports."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.responses import Response

from counterplay.studio.errors import Missing
from counterplay.studio.web import pages
from counterplay.studio.web.audits import SANDBOX
from counterplay.studio.web.house import House, house_of
from counterplay.studio.web.sessions import admin

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request

router = APIRouter()
_LARGEST = 64 * 2**20


async def show_reports(request: Request) -> Response:
    """Show the list of reports, and one of them in its frame."""
    await _reader(request)
    house = house_of(request)
    found = await house.store.run(_reports, house)
    chosen = request.query_params.get("report")
    names = [name for name, _, _ in found]
    return pages.page(
        request, "report_list.html", reports=found, chosen=chosen if chosen in names else None
    )


async def report_page(request: Request) -> Response:
    """Hand out a report, sandboxed wherever it is opened."""
    await _reader(request)
    house = house_of(request)
    name = request.path_params["name"]
    known = {found.name: found for found in _files(house)}
    if name not in known:
        raise Missing("There is no such report.")
    content = await house.store.run(known[name].read_bytes)
    return Response(content, 200, SANDBOX, media_type="text/html; charset=utf-8")


async def _reader(request: Request) -> None:
    """Reports are about the whole studio: not for the coordinator of one study."""
    if (await admin(request)).role == "coordinator":
        raise Missing("There is no such page.")


def _files(house: House) -> list[Path]:
    folder = house.settings.data / "reports"
    if not folder.is_dir():
        return []
    pages_ = (p for p in folder.iterdir() if p.is_file() and not p.is_symlink())
    return sorted(p for p in pages_ if p.suffix == ".html" and p.stat().st_size <= _LARGEST)


def _reports(house: House) -> list[tuple[str, str, int]]:
    found = []
    for path in _files(house):
        about = path.stat()
        when = datetime.fromtimestamp(about.st_mtime, UTC).isoformat(timespec="seconds")
        found.append((path.name, when, about.st_size))
    return found


router.add_route("/admin/reports", show_reports, methods=["GET"])
router.add_route("/admin/reports/{name}", report_page, methods=["GET"])
